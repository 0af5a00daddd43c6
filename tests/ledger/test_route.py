"""GET /recourse: what was given is found by model, version, outcome and time."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.api.asking import question


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


def test_a_search_is_exported_as_a_whole(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ledger.given.EXPORTED_AT_ONCE", 2)
    since = datetime.now(UTC).isoformat()
    names = ["=1+1", "a, b", " -2", "plain", None]
    for name in names:
        client.post("/recourse", json=question(reference=name))
    listed = client.get("/recourse", params={"since": since}).json()["recourse"]
    assert [one["reference"] for one in listed] == names[::-1]
    lines = client.get("/recourse", params={"since": since}, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in lines.text.splitlines()] == listed
    table = client.get("/recourse", params={"since": since}, headers={"Accept": "text/csv"})
    assert table.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.text, newline="")))
    assert [row["reference"] for row in rows] == ["", "plain", "' -2", "a, b", "'=1+1"]
    assert [(row["id"], row["model"], row["version"], row["created_at"], row["kept"]) for row in rows] == [
        (one["id"], one["model"]["id"], one["model"]["version"], one["created_at"], "") for one in listed
    ]
    nothing = client.get("/recourse", params={"model": "none"}, headers={"Accept": "text/csv"})
    assert nothing.text.splitlines() == [",".join(rows[0])]
