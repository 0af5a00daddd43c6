"""Jobs of keys: computed for the key that submitted them, as far as their answers and its budget go."""

from datetime import UTC, datetime
from typing import Any

import httpx

from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.keys.spent_rows import SpentRows
from app.settings import Settings
from app.store.migrate import opened
from tests.api.asking import problem
from tests.conftest import until
from tests.jobs.test_batches import lines, rows, submit
from tests.servers import Start, on_sqlite


@on_sqlite
def test_a_batch_is_computed_for_its_key(start: Start) -> None:
    server = start(RECOURSE_AUTH="required").ready()
    settings = Settings(state_dir=server.state)
    now = datetime.now(UTC)
    with opened(settings) as engine:
        one, two = (Keys(engine).create(name, [Scope.RECOURSE], now) for name in ("one", "two"))
    key_id = parts(one)[0]
    server.client.headers["Authorization"] = f"Bearer {one}"
    until(lambda: server.client.get("/jobs").status_code == 200)

    address = submit(server, rows(30), store=True)
    found = lines(server, address)
    spent = sum(line["diagnostics"]["model_rows"] for line in found)
    assert {(line["factual"]["probability"], line["factual"]["score"]) for line in found} == {(None, None)}
    assert {type(line["factual"]["favourable"]) for line in found} == {bool}

    def counted() -> int:
        with opened(settings) as engine:
            return SpentRows(engine).spent(key_id, datetime.now(UTC).date().isoformat())

    until(lambda: counted() >= spent)
    assert counted() == spent
    later: dict[str, Any] = {"headers": {"Prefer": "wait=30"}}
    question = {"model": "loan", "store": False, "detail": "full", **rows(1)[0]}
    answer = server.client.post("/recourse", json=question, **later).json()
    assert answer["factual"]["probability"] is None
    until(lambda: counted() == spent + answer["diagnostics"]["model_rows"])

    given = server.client.get("/recourse", params={"limit": 200}).json()["recourse"]
    assert {line["id"] for line in given} == {line["id"] for line in found}
    with httpx.Client(base_url=server.client.base_url, headers={"Authorization": f"Bearer {two}"}) as other:
        assert other.get("/recourse").json()["recourse"] == []
        assert other.get("/jobs").json()["jobs"] == []
        problem(other.get(f"{address}/results"), 404, "unknown-job")
        problem(other.get(f"/recourse/{given[0]['id']}"), 404, "unknown-recourse")
