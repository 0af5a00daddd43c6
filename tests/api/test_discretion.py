"""No feature value, key or reference is in any line that anything logs at any level."""

import io
import logging
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.settings import Settings
from app.store.migrate import opened
from tests.api.asking import APPLICANT, question
from tests.conftest import NO_TLS, run, until
from tests.logged import logged

INCOME = 1473.25
AMOUNT = 20417.75


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """All that is logged while every logger says all it can."""
    modules = [
        "app.api.middleware",
        "app.idempotency.header",
        "app.pool.pool",
        "app.jobs.connection",
        "app.jobs.executor",
        "app.jobs.database",
        "app.jobs.retention",
        "app.ledger.recorder",
    ]
    with logged(monkeypatch, *modules) as written:
        root = logging.getLogger()
        root.setLevel(logging.DEBUG)
        for handler in root.handlers:
            handler.setLevel(logging.NOTSET)
        yield written


def test_logs_tell_nothing_about_people_or_keys(everything: io.StringIO, loan_store: Path) -> None:
    settings = Settings(models_store=loan_store, lanes_sync=1, auth="required")
    replayable = f"order-{uuid.uuid4()}"
    body = question(reference="case-tiger", applicant={**APPLICANT, "income": INCOME, "amount": AMOUNT})
    for running in run(settings):
        with opened(running.service.settings) as engine:
            key = Keys(engine).create("secretive", [*Scope], datetime.now(UTC))
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": replayable}
        with httpx.Client(base_url=running.url, headers=headers, timeout=30, verify=NO_TLS) as client:
            until(lambda: client.get("/methods").status_code == 200)
            answer = client.post("/recourse", json=body)
            assert answer.json()["status"] == "found"
            assert client.post("/recourse", json=body).headers["idempotent-replayed"] == "true"
            assert client.post("/recourse", json={**body, "seed": 1}).status_code == 422
            del client.headers["Idempotency-Key"]
            assert client.post("/recourse", json=body, headers={"Prefer": "respond-async"}).status_code == 202
            assert client.get("/recourse", params={"reference": "case-tiger"}).status_code == 200
            wrong = {"Authorization": f"Bearer {key}x"}
            assert client.get("/methods", headers=wrong).status_code == 401
            client.post("/recourse", json={**body, "applicant": {**body["applicant"], "income": "1473.25 EUR"}})
            assert client.delete(f"/recourse/{answer.json()['id']}").status_code == 200
    logged = everything.getvalue()
    assert '"route": "/recourse"' in logged
    for secret in (str(INCOME), str(AMOUNT), "case-tiger", "tiger", replayable, parts(key)[1]):
        assert secret not in logged, secret
