"""Answers that a client may keep."""

import httpx
import pytest


@pytest.mark.parametrize("path", ["/models", "/models/loan", "/models/loan/schema", "/methods", "/openapi.json"])
def test_what_has_not_changed_is_not_sent_again(client: httpx.Client, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    for offered in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get(path, headers={"If-None-Match": offered})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    for offered in ('"other"', "", "nonsense"):
        other = client.get(path, headers={"If-None-Match": offered})
        assert (other.status_code, other.headers["etag"]) == (200, tag)


def test_answers_about_people_are_kept_by_nobody(client: httpx.Client) -> None:
    response = client.get("/recourse")
    assert response.headers["cache-control"] == "no-store"
    assert "etag" not in response.headers
