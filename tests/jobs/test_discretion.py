"""The log tells what happened and never whom it was about: real requests with words that nobody else uses."""

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.ledger.ledger import FILE
from app.store.engine import open_engine, writing
from tests.api.asking import APPLICANT, document, question
from tests.conftest import until
from tests.jobs.serving import Server
from tests.ledger.test_servers import database_of
from tests.servers import Start

PERSON = {**APPLICANT, "income": 1507.13, "amount": 20483.79}
REFERENCE = "sentinel-reference"


def numbers(value: Any) -> set[str]:
    """Every number with decimals in an answer, as it would be written."""
    if isinstance(value, dict):
        return {found for part in value.values() for found in numbers(part)}
    if isinstance(value, list):
        return {found for part in value for found in numbers(part)}
    return {repr(value)} if isinstance(value, float) and len(repr(value)) > 5 else set()


def break_ledger(server: Server, *, away: bool) -> None:
    before, after = ("ledger_particulars", "away") if away else ("away", "ledger_particulars")
    engine = open_engine(server.database or f"sqlite:///{server.state / FILE}")
    with writing(engine) as connection:
        connection.execute(sa.text(f"alter table {before} rename to {after}"))
    engine.dispose()


@pytest.mark.parametrize(
    ("start", "level"),
    [("sqlite", "debug"), ("postgres", "debug"), pytest.param("sqlite", "info", marks=pytest.mark.release)],
    indirect=["start"],
)
def test_no_log_line_holds_a_value_a_key_or_a_reference(start: Start, level: str) -> None:
    server = start(RECOURSE_LOG_LEVEL=level, RECOURSE_AUTH="required").ready()
    client = server.client
    with database_of(server) as engine:
        key = Keys(engine).create("sentinel-name", [*Scope], datetime.now(UTC))
    client.headers["Authorization"] = f"Bearer {key}"
    until(lambda: client.get("/methods").status_code == 200)
    assert client.get("/methods", headers={"Authorization": f"Bearer {key}x"}).status_code == 401
    body = question(applicant=PERSON, reference=REFERENCE)
    once = {"Idempotency-Key": "sentinel-order"}
    answer = document(client.post("/recourse", json=body, headers=once))
    assert answer["status"] == "found"
    assert client.post("/recourse", json=body, headers=once).headers["idempotent-replayed"] == "true"
    assert client.post("/recourse", json={**body, "seed": 1}, headers=once).status_code == 422
    address = f"/recourse/{answer['id']}"
    later = client.post("/recourse", json=body, headers={"Prefer": "wait=30"})
    assert later.status_code == 200
    client.get("/recourse", params={"reference": REFERENCE})
    assert client.get(address).json() == answer
    assert client.post(f"{address}/verify", json={}).json()["still_valid"]
    audit = client.post("/models/loan/audits", json={"model": "loan@1", "reissue": True}, headers={"Prefer": "wait=30"})
    assert audit.json()["promises"] == 2
    refused = question(applicant={**PERSON, "housing": "sentinel-housing", "sentinel-feature": 1}, reference=REFERENCE)
    assert client.post("/recourse", json=refused).status_code == 422
    assert client.post("/recourse", content=b'{"sentinel-json"').status_code == 415
    assert client.get("/recourse?sentinel-query=1").status_code == 422
    break_ledger(server, away=True)
    for prefer in ({}, {"Prefer": "wait=30"}):
        assert client.post("/recourse", json=body, headers=prefer).status_code == 503
    assert (
        client.post("/models/loan/audits", json={"model": "loan@1"}, headers={"Prefer": "wait=30"}).status_code == 503
    )
    break_ledger(server, away=False)
    assert client.delete(address).json()["status"] == "erased"
    server.stop()
    log = server.log.read_text()
    # Children log too, and at debug level so do libraries.
    assert "child-warm" in log
    assert ('"level": "debug"' in log) is (level == "debug")
    secrets = {
        "sentinel",
        parts(key)[1],
        REFERENCE,
        repr(PERSON["income"]),
        repr(PERSON["amount"]),
        *numbers(answer["counterfactuals"]),
    }
    assert [secret for secret in secrets if secret in log] == []
