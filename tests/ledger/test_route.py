"""GET /recourse: what was given is found by model, version, outcome and time."""

from datetime import UTC, datetime, timedelta

import httpx

from tests.api.asking import faults, question


def ids(client: httpx.Client, **query: str) -> list[str]:
    response = client.get("/recourse", params=query)
    assert response.status_code == 200, response.text
    return [one["id"] for one in response.json()["recourse"]]


def test_recourse_is_found_by_what_it_is(client: httpx.Client) -> None:
    before = datetime.now(UTC)
    given = client.post("/recourse", json=question()).json()
    this = {"model": "loan", "version": given["model"]["version"], "status": given["status"]}
    assert ids(client, **this, since=before.isoformat())[0] == given["id"]
    assert given["id"] not in ids(client, **this, until=before.isoformat())
    assert given["id"] not in ids(client, since=(before + timedelta(hours=1)).isoformat())
    for other in ({"model": "open"}, {"version": "none"}, {"status": "already_favourable"}):
        assert given["id"] not in ids(client, **this | other)


def test_what_cannot_be_a_filter_is_named(client: httpx.Client) -> None:
    asked = {"status": "maybe", "since": "2026-01-01T00:00:00"}
    (sentence,) = faults(client.get("/recourse", params=asked)).values()
    assert "status must be 'found', 'already_favourable' or 'not_found'" in sentence
    assert "since must name its time zone" in sentence
    (sentence,) = faults(client.get("/recourse", params={"version": "1"})).values()
    assert "version needs the parameter model" in sentence
