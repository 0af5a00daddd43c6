"""A comparison is computed for a key: its scope, and the records that count against its budget."""

import json
from datetime import UTC, datetime
from pathlib import Path

from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.keys.spent_rows import SpentRows
from app.settings import Settings
from app.store.migrate import opened
from tests.api.asking import problem
from tests.conftest import until
from tests.registry.loan import loan_records
from tests.servers import Start, on_sqlite


@on_sqlite
def test_records_of_a_comparison_count_against_the_budget_of_its_key(start: Start, loans: Path) -> None:
    server = start(RECOURSE_AUTH="required", RECOURSE_MODELS_STORE=str(loans)).ready()
    settings, now = Settings(state_dir=server.state), datetime.now(UTC)
    with opened(settings) as engine:
        keys = Keys(engine)
        auditor, asker = keys.create("a", [Scope.AUDIT], now, model_rows=1_000), keys.create("b", [Scope.RECOURSE], now)
    records = [{"applicant": one} for one in loan_records(30, seed=5)]
    body = {"baseline": "loan@1", "candidate": "loan@2", "source": {"kind": "records", "records": records}}

    server.client.headers["Authorization"] = f"Bearer {asker}"
    until(lambda: server.client.get("/jobs").status_code == 200)
    problem(server.client.post("/models/loan/comparisons", json=body), 403, "insufficient-scope")

    server.client.headers["Authorization"] = f"Bearer {auditor}"
    until(lambda: server.client.get("/jobs").status_code == 200)
    accepted = server.client.post("/models/loan/comparisons", json=body)
    assert accepted.status_code == 202, accepted.text
    address = accepted.headers["location"]
    assert server.ended(address)["status"] == "succeeded"
    lines = server.client.get(f"{address}/results", headers={"Accept": "application/x-ndjson"}).text.splitlines()
    spent = sum(json.loads(line)["diagnostics"]["model_rows"] for line in lines)
    assert spent > 1_000

    def counted() -> int:
        with opened(settings) as engine:
            return SpentRows(engine).spent(parts(auditor)[0], datetime.now(UTC).date().isoformat())

    until(lambda: counted() >= spent)
    assert counted() == spent
    problem(server.client.post("/models/loan/comparisons", json=body), 429, "daily-budget-spent")
