"""What a key may see, erase and ask: its own, of the models that it is limited to, within its budget."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.keys import daily_budgets
from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.settings import Settings
from app.store.migrate import opened
from tests.api.asking import APPLICANT, faults, problem, question
from tests.conftest import Running, run, until
from tests.keys.test_authentication import NOW, asking, let_in


@pytest.fixture(scope="module")
def locked(loan_store: Path) -> Iterator[Running]:
    """A service that asks for keys."""
    yield from run(Settings(models_store=loan_store, lanes_sync=1, auth="required"))


@contextmanager
def client_with(running: Running, *scopes: Scope, **limits: Any) -> Iterator[httpx.Client]:
    """A client with a new key, once the service knows it."""
    with opened(running.service.settings) as engine:
        key = Keys(engine).create("test", scopes, NOW, **limits)
    with asking(running, key) as client:
        until(lambda: let_in(client, "/models" if Scope.MODELS in scopes else "/jobs"))
        yield client


def key_id(client: httpx.Client) -> str:
    return parts(client.headers["authorization"].partition(" ")[2])[0]


def ids(client: httpx.Client, what: str) -> set[str]:
    response = client.get(f"/{what}", params={"limit": 200})
    return {one["id"] for one in response.json()[what]}


def test_a_key_sees_and_erases_only_what_it_asked_for(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        given = one.post("/recourse", json=question(store=True)).json()["id"]
        path = f"/recourse/{given}"
        assert (ids(one, "recourse"), ids(two, "recourse")) == ({given}, set())
        problem(two.get(path), 404, "unknown-recourse")
        problem(two.post(f"{path}/verify"), 404, "unknown-recourse")
        problem(two.delete(path), 404, "unknown-recourse")
        excluded = two.post("/recourse", json=question(exclude={"ids": [given]}))
        assert faults(excluded) == {"/exclude/ids/0": "is not the id of an answer in the ledger"}
        assert one.get(path).status_code == 200
        with client_with(locked, Scope.RECOURSE, Scope.EVERYONE) as three:
            assert given in ids(three, "recourse")
            assert three.delete(path).status_code == 200
        assert one.delete(path).json()["status"] == "erased", "as often as one likes"
        problem(two.delete(path), 404, "unknown-recourse")


def test_an_export_has_only_what_the_key_asked_for(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond its first part, which alone is read before the response begins."""
    monkeypatch.setattr("app.ledger.given.EXPORTED_AT_ONCE", 1)
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        given = [client.post("/recourse", json=question()).json()["id"] for client in (one, two, one, two, one)]
        for client, own in ((one, given[::2]), (two, given[1::2])):
            lines = client.get("/recourse", headers={"Accept": "application/x-ndjson"}).text.splitlines()
            assert [json.loads(line)["id"] for line in lines] == own[::-1]


def test_a_renewed_key_sees_what_it_asked_for_and_its_old_secret_nothing(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as old:
        given = old.post("/recourse", json=question(store=True)).json()["id"]
        with opened(locked.service.settings) as engine:
            renewed = Keys(engine).renew(key_id(old), datetime.now(UTC), timedelta(hours=1))
        with asking(locked, renewed) as new:
            until(lambda: new.get(f"/recourse/{given}").status_code == 200)
        assert old.get(f"/recourse/{given}").status_code == 200, "for an hour"
        with opened(locked.service.settings) as engine:
            renewed = Keys(engine).renew(key_id(old), datetime.now(UTC))
        with asking(locked, renewed) as new:
            until(lambda: new.get(f"/recourse/{given}").status_code == 200)
        refused = old.get(f"/recourse/{given}")
        problem(refused, 401, "invalid-key")
        assert "renewed" in refused.json()["detail"]


def test_a_key_sees_and_ends_only_its_own_jobs(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        job = one.post("/recourse", json=question(store=False), headers={"Prefer": "respond-async"}).json()["id"]
        assert (ids(one, "jobs"), ids(two, "jobs")) == ({job}, set())
        for path in ("", "/results", "/events"):
            problem(two.get(f"/jobs/{job}{path}"), 404, "unknown-job")
        for path in ("", "/results"):
            problem(two.delete(f"/jobs/{job}{path}"), 404, "unknown-job")
        with client_with(locked, Scope.AUDIT, Scope.EVERYONE) as auditor:
            assert job in ids(auditor, "jobs")
            assert auditor.get(f"/jobs/{job}").status_code == 200
            refused = problem(auditor.delete(f"/jobs/{job}/results"), 403, "insufficient-scope")
            assert "the scope recourse." in refused["detail"]
            refused = problem(auditor.delete(f"/jobs/{job}"), 403, "insufficient-scope")
            assert "the scope recourse." in refused["detail"]
        assert one.delete(f"/jobs/{job}").json()["status"] == "cancelled"
        assert one.delete(f"/jobs/{job}/results").status_code == 204


def test_data_that_is_in_no_ledger_is_erased_by_its_key_only(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        job = one.post("/recourse", json=question(store=False), headers={"Prefer": "respond-async"}).json()["id"]
        (recourse,) = re.findall("rec_[0-9A-Z]{26}", str(_about(locked, job)))
        problem(two.delete(f"/recourse/{recourse}"), 404, "unknown-recourse")
        assert job in ids(one, "jobs")


def _about(running: Running, job: str) -> object:
    import sqlalchemy as sa

    from app.jobs.tables import FILE
    from app.store.engine import database_url, open_engine

    engine = open_engine(database_url(running.service.settings, FILE))
    with engine.connect() as connection:
        query = sa.text("select about from jobs where id = :job")
        found = connection.scalar(query, {"job": job})
    engine.dispose()
    return found


def test_a_key_asks_only_the_models_that_it_is_limited_to(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE, Scope.MODELS, models=["open"]) as client:
        assert {model["id"] for model in client.get("/models").json()["models"]} == {"open"}
        assert client.post("/recourse", json=question(model="open")).status_code == 200
        for name in ("loan", "loan@1", "none"):
            refused = problem(client.post("/recourse", json=question(model=name)), 403, "insufficient-scope")
            assert refused["detail"] == "This key may ask only the models open."
            problem(client.get(f"/models/{name}"), 403, "insufficient-scope")
            problem(client.post(f"/models/{name}/predict", json={"records": [APPLICANT]}), 403, "insufficient-scope")
        batch = {"model": "loan", "applicants": [{"applicant": APPLICANT}]}
        problem(client.post("/recourse/batch", json=batch), 403, "insufficient-scope")


def test_scores_of_records_that_a_caller_brings_have_a_scope_of_their_own(locked: Running) -> None:
    body = {"model": "loan", "applicant": APPLICANT, "counterfactuals": [{**APPLICANT, "income": 9000.0}]}

    def decisions(client: httpx.Client) -> list[dict[str, Any]]:
        given = client.post("/recourse", json=question(store=True)).json()
        judged = client.post("/recourse/validity", json=body).json()
        (check,) = client.post(f"/recourse/{given['id']}/verify").json()["counterfactuals"]
        assert given["counterfactuals"][0]["validity"]["current"]["probability"] > 0.5, "our own record"
        assert client.get(f"/recourse/{given['id']}").json() == given
        return [given["factual"], judged["factual"], judged["counterfactuals"][0]["validity"]["current"], check]

    with client_with(locked, Scope.RECOURSE) as client:
        found = decisions(client)
        assert [one["favourable"] for one in found] == [False, False, True, True]
        assert {one[name] for one in found for name in ("probability", "score")} == {None}
    for scope in (Scope.SCORES, Scope.MODELS):
        with client_with(locked, Scope.RECOURSE, scope) as client:
            assert None not in {one[name] for one in decisions(client) for name in ("probability", "score")}


def test_reasons_tell_no_score_to_a_key_without_the_scope(locked: Running) -> None:
    body = {"model": "loan", "applicant": APPLICANT}

    def told(client: httpx.Client) -> list[float | None]:
        alone = client.post("/reasons", json=body).json()
        beside = client.post("/recourse", json=body | {"reasons": True}).json()["reasons"]
        assert [one["share"] for one in alone["reasons"]] == [one["share"] for one in beside["reasons"]] != []
        return [
            *(alone["factual"][name] for name in ("probability", "score")),
            *(found["against"]["score"] for found in (alone, beside)),
            *(
                one[name]
                for found in (alone, beside)
                for one in found["reasons"]
                for name in ("contribution", "std_error")
            ),
        ]

    with client_with(locked, Scope.RECOURSE) as client:
        assert set(told(client)) == {None}
        frontier = client.post("/recourse/frontier", json=body).json()
        assert frontier["factual"]["score"] is None
    with client_with(locked, Scope.RECOURSE, Scope.SCORES) as client:
        assert None not in told(client)


def test_letters_belong_to_the_key_that_asked(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        given = one.post("/recourse", json=question(store=True)).json()["id"]
        assert one.get(f"/recourse/{given}/notice").json()["reasons"]
        problem(two.get(f"/recourse/{given}/notice"), 404, "unknown-recourse")


def test_a_key_has_a_budget_of_records_in_a_day(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily_budgets, "WRITE_S", 0.01)
    limits: Any = {"model_rows": 3000}
    with client_with(locked, Scope.RECOURSE, Scope.MODELS, Scope.AUDIT, **limits) as client:
        rows, answers = 0, 0
        while (response := client.post("/recourse", json=question(store=False))).is_success:
            rows, answers = rows + response.json()["diagnostics"]["model_rows"], answers + 1
            assert answers < 20
        assert answers >= 2
        assert 3000 <= rows < 3000 + rows / answers, "the answer that exceeds it is the last one"
        refused = problem(response, 429, "daily-budget-spent")
        assert refused["detail"] == "This key has used its 3,000 records of models for today (UTC)."
        assert 0 < int(response.headers["retry-after"]) <= 86_400
        common = {"model": "loan", "applicants": [{"applicant": APPLICANT}]}
        problem(client.post("/recourse/batch", json=common), 429, "daily-budget-spent")
        problem(client.post("/models/loan/predict", json={"records": [APPLICANT]}), 429, "daily-budget-spent")
        assert client.get("/models/loan/schema").json()["samples"], "no model is asked about them"
        name = key_id(client)
        share = rf'recourse_key_budget_used{{key="{name}"}} ([0-9.]+)'
        (used,) = re.findall(share, client.get("/metrics").text)
        assert float(used) == pytest.approx(rows / 3000)
        assert client.get("/jobs").status_code == 200
    with client_with(locked, Scope.RECOURSE) as other:
        assert other.post("/recourse", json=question(store=False)).status_code == 200


def test_a_budget_is_used_up_with_its_last_record(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE, Scope.MODELS, model_rows=2) as client:
        for _ in range(2):
            assert client.post("/models/loan/predict", json={"records": [APPLICANT]}).status_code == 200
        problem(client.post("/models/loan/predict", json={"records": [APPLICANT]}), 429, "daily-budget-spent")


def test_a_job_is_not_begun_for_a_model_in_quarantine(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    quarantine = locked.service.quarantine
    with client_with(locked, Scope.RECOURSE, Scope.AUDIT) as client:
        for _ in range(2):
            quarantine.strike("open@1", "crash")
        try:
            later = {"Prefer": "respond-async"}
            problem(client.post("/recourse", json=question(model="open"), headers=later), 503, "model-quarantined")
            common = {"model": "open", "applicants": [{"applicant": APPLICANT}]}
            problem(client.post("/recourse/batch", json=common), 503, "model-quarantined")
            problem(client.post("/models/open/audits", json={"model": "open@1"}), 503, "model-quarantined")
        finally:
            quarantine.acquit("open@1")
