"""Promises, asked of other versions of the model: one by one, and all of them as a job."""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.jobs.ids import new_id
from app.ledger import audits
from app.ledger.chain import Entry, Kind
from app.ledger.entries import entry_of
from app.ledger.ledger import FILE, Ledger, NewRecord
from app.ledger.promises import Promises
from app.ledger.replay import replay
from app.ledger.route import AUDITED
from app.ledger.rows import Record
from app.ledger.schema import AuditAnswer, AuditList, VerifyAnswer
from app.models import tasks
from app.questions.frame import identity
from app.questions.question import request_of
from app.questions.use_cases import answer as answer_of
from app.recourse.models.black_box import BlackBox
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.store.engine import open_engine
from app.store.timestamps import timestamp
from tests.api.asking import APPLICANT, ask, faults, problem, question
from tests.jobs.serving import Server
from tests.models.test_tasks import FRAME
from tests.models.test_tasks import question as posed
from tests.registry.loan import make_linear
from tests.servers import DATABASES, Start, starting

TIGHTER = 0.55
"""Threshold of `loan@2`; `loan@1` has 0.5."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `loan@1`, and not active: `loan@2`, stricter, `loan@3`, the same, `loan@4`, for fewer people."""
    root = tmp_path_factory.mktemp("versions")
    registry = Registry(root / "store")
    registry.register(make_linear(root / "1").write())
    registry.register(make_linear(root / "2").write(version="2", threshold=TIGHTER), active=False)
    registry.register(make_linear(root / "3").write(version="3"), active=False)
    young = make_linear(root / "4")
    young.manifest["features"][0]["max"] = 39
    young.records = [record for record in young.records if record["age"] <= 39]
    registry.register(young.write(version="4"), active=False)
    registry.register(make_linear(root / "other").write(id="other"))
    return root / "store"


@pytest.fixture(scope="module", params=DATABASES)
def server(
    request: pytest.FixtureRequest, versions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with starting(request.param, versions, tmp_path_factory.mktemp("server")) as start:
        yield start().ready()


@pytest.fixture(scope="module")
def promised(server: Server) -> list[dict[str, Any]]:
    """Twelve answers with promises, some near the boundary and some far from it, and two without."""
    found = []
    for i in range(12):
        applicant = {**APPLICANT, "age": 30 + 2 * i, "amount": 20_000.0 - 900.0 * (i % 3)}
        method = {"name": "robust_mpm", "radius_unfavourable": [0.0, 2.0, 10.0, 40.0][i % 4]}
        found.append(ask(server.client, applicant=applicant, method=method, seed=i))
    ask(server.client, applicant={**APPLICANT, "income": 19_000.0})
    ask(server.client, constraints={"immutable": ["income", "amount", "savings", "guarantor", "housing", "age"]})
    assert {answer["status"] for answer in found} == {"found"}
    return found


def audit(server: Server, candidate: str, **more: Any) -> dict[str, Any]:
    accepted = server.client.post("/models/loan/audits", json={"model": candidate, **more})
    assert accepted.status_code == 202, accepted.text
    job = server.ended(accepted.headers["location"])
    assert (job["kind"], job["status"]) == ("audit", "succeeded"), job
    result: dict[str, Any] = server.client.get(job["result"]).json()
    AuditAnswer.model_validate(result, strict=False)
    assert set(result) == set(AuditAnswer.model_fields)
    assert job["progress"]["done"] == job["progress"]["total"]
    return result


def probability(answer: dict[str, Any]) -> float:
    """What `loan@1` said about the promised record; the other versions have its weights."""
    found: float = answer["counterfactuals"][0]["validity"]["current"]["probability"]
    return found


# --- one promise -----------------------------------------------------------------------------------------------------


def test_a_promise_holds_for_the_model_that_made_it(server: Server, promised: list[dict[str, Any]]) -> None:
    for answer in promised[:3]:
        told = server.client.post(f"/recourse/{answer['id']}/verify", json={}).json()
        VerifyAnswer.model_validate(told, strict=False)
        assert (told["model"], told["still_valid"]) == (answer["model"], True)
        current = answer["counterfactuals"][0]["validity"]["current"]
        # One record alone is summed in another order than among many.
        assert told["counterfactuals"] == [pytest.approx({"rank": 1, "reason": None, **current}, abs=1e-12)]


def test_a_promise_is_asked_of_a_version_that_is_not_active(server: Server, promised: list[dict[str, Any]]) -> None:
    for answer in promised:
        told = server.client.post(f"/recourse/{answer['id']}/verify", json={"model": "loan@2"}).json()
        assert told["model"]["version"] == "2"
        assert told["still_valid"] is (probability(answer) >= TIGHTER)
        assert told["counterfactuals"][0]["probability"] == pytest.approx(probability(answer))


def test_a_record_that_is_none_of_the_schema_is_no_longer_promised(
    server: Server, promised: list[dict[str, Any]]
) -> None:
    told = server.client.post(f"/recourse/{promised[-1]['id']}/verify", json={"model": "loan@4"}).json()
    assert told["still_valid"] is False
    assert [(check["reason"], check["score"]) for check in told["counterfactuals"]] == [("does_not_fit", None)]


def test_where_nothing_was_found_nothing_was_promised(server: Server) -> None:
    answer = ask(server.client, applicant={**APPLICANT, "income": 19_000.0})
    told = server.client.post(f"/recourse/{answer['id']}/verify", json={}).json()
    assert (told["still_valid"], told["counterfactuals"]) == (None, [])


def test_only_versions_of_the_same_model_are_asked(server: Server, promised: list[dict[str, Any]]) -> None:
    address = f"/recourse/{promised[0]['id']}/verify"
    assert "/model" in faults(server.client.post(address, json={"model": "other@1"}))
    assert "/model" in faults(server.client.post(address, json={"model": "loan@9"}), 404, "unknown-model")


# --- all promises ----------------------------------------------------------------------------------------------------


def test_promises_under_stress_are_counted_by_themselves() -> None:
    payload = {"asked": {}, "promises": dict.fromkeys(("as_of", "since", "until")), "reissue": False}
    found = audits.Audit(None, payload, 1.0)  # type: ignore[arg-type]

    def keeps(kept: bool, *futures: Any) -> None:
        parts = [{"validity": {"future": one, "shift": None}, "cost": {"total": 1.0}} for one in futures]
        answer = {"id": "rec_1", "expires_at": "2030-01-01T00:00:00.000Z", "plan": None, "counterfactuals": parts}
        check = {"reason": None if kept else "refused", "score": 0.0}
        found._keeps(answer, None, [check] * len(parts))  # type: ignore[arg-type]
        found._count += 1

    keeps(True, {"under": "stress", "stressed": {"lowest": 0.9}}, {"under": "stress", "stressed": {"lowest": 0.7}})
    keeps(False, {"under": "stress", "stressed": {"lowest": 0.5}})
    keeps(True, {"under": "same", "stressed": None})
    keeps(True, None)
    keeps(False, {"stressed": {"probability": 0.7}})  # of an earlier release
    result = found._result(5)
    assert [tuple(one.values()) for one in result["under"]] == [
        ("stress", 2, 1, 0.5, pytest.approx(0.6)), ("same", 1, 1, 1.0, None), (None, 2, 1, 0.5, None),
    ]  # fmt: skip
    assert (result["promises"], result["still_valid"]) == (5, 3)


def test_a_version_that_decides_alike_breaks_nothing(server: Server, promised: list[dict[str, Any]]) -> None:
    result = audit(server, "loan@3")
    assert (result["promises"], result["still_valid"], result["broken"]) == (12, 12, 0)
    assert (result["kept_share"], result["broken_promises"], result["reissue"]) == (1.0, [], None)
    lower = [answer["counterfactuals"][0]["validity"]["shift"]["gelbrich"]["lower"] for answer in promised]
    assert result["promised_lower"] == pytest.approx(sum(lower) / 12)
    (plain,) = result["under"]
    assert (plain["under"], plain["promises"], plain["still_valid"], plain["kept_share"]) == (None, 12, 12, 1.0)


def test_a_stricter_version_breaks_exactly_what_it_refuses(server: Server, promised: list[dict[str, Any]]) -> None:
    refused = [answer["id"] for answer in promised if probability(answer) < TIGHTER]
    assert 0 < len(refused) < 12
    result = audit(server, "loan@2")
    assert [one["id"] for one in result["broken_promises"]] == refused
    assert (result["still_valid"], result["broken"]) == (12 - len(refused), len(refused))
    assert result["kept_share"] == pytest.approx(1 - len(refused) / 12)
    assert {one["reason"] for one in result["broken_promises"]} == {"refused"}
    assert all(one["score"] < 0 for one in result["broken_promises"])


def test_records_that_do_not_fit_are_broken(server: Server, promised: list[dict[str, Any]]) -> None:
    old = [a["id"] for a in promised if a["counterfactuals"][0]["applicant"]["age"] > 39]
    result = audit(server, "loan@4")
    assert [one["id"] for one in result["broken_promises"] if one["reason"] == "does_not_fit"] == old


def test_the_cost_of_answering_again(server: Server, promised: list[dict[str, Any]]) -> None:
    result = audit(server, "loan@2", reissue=True)
    costs = {answer["id"]: answer["counterfactuals"][0]["cost"]["total"] for answer in promised}
    for one in result["broken_promises"]:
        assert one["promised_cost"] == costs[one["id"]]
        assert one["reissue"]["status"] == "found"
        # The same person pays more for a stricter yes.
        assert one["reissue"]["cost"] > one["promised_cost"]
    again = [one["reissue"]["cost"] for one in result["broken_promises"]]
    assert result["reissue"] == {
        "found": len(again),
        "not_found": 0,
        "mean_cost": pytest.approx(sum(again) / len(again)),
    }


def test_people_whom_the_new_schema_excludes_get_no_new_answer(server: Server, promised: list[dict[str, Any]]) -> None:
    result = audit(server, "loan@4", reissue=True)
    statuses = {one["reissue"]["status"] for one in result["broken_promises"] if one["reason"] == "does_not_fit"}
    assert "invalid-record" in statuses
    assert result["reissue"]["not_found"] >= 1


def test_promises_of_some_time(server: Server, promised: list[dict[str, Any]]) -> None:
    since, until = promised[3]["created_at"], promised[7]["created_at"]
    assert audit(server, "loan@3", since=since, until=until)["promises"] == 4
    assert audit(server, "loan@3", until=since)["promises"] == 3
    assert audit(server, "loan@3", since="2100-01-01T00:00:00+02:00")["kept_share"] is None


def test_the_list_of_broken_promises_comes_in_parts_or_in_lines(server: Server, promised: list[dict[str, Any]]) -> None:
    response = server.client.post("/models/loan/audits", json={"model": "loan@2"}, headers={"Prefer": "wait=30"})
    assert (response.status_code, response.headers["preference-applied"]) == (200, "wait=30")
    whole = response.json()
    address = response.headers["content-location"]
    assert whole["next_cursor"] is None
    found: list[dict[str, Any]] = []
    cursor = {}
    while True:
        part = server.client.get(address, params={"limit": 2, **cursor}).json()
        found += part["broken_promises"]
        if part["next_cursor"] is None:
            break
        cursor = {"cursor": part["next_cursor"]}
    assert found == whole["broken_promises"]
    lines = server.client.get(address, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    summary, *rest = map(json.loads, lines.text.splitlines())
    assert rest == found
    assert {**summary, "broken_promises": rest, "next_cursor": None} == whole
    problem(server.client.get(f"{address}?cursor=x"), 422, "invalid-request")


def test_what_an_audit_found_can_be_searched_and_names_the_case(server: Server) -> None:
    """Until it is erased, also in the result that was stored before."""
    given = [ask(server.client, reference=f"case {i}", applicant={**APPLICANT, "age": 45 + i}) for i in range(2)]

    def listed(**query: Any) -> dict[str, bool | None]:
        response = server.client.get("/recourse", params={"since": given[0]["created_at"], **query})
        assert response.status_code == 200, response.text
        return {one["reference"]: one["kept"] for one in response.json()["recourse"]}

    assert listed() == {"case 0": None, "case 1": None}
    server.client.post(f"/recourse/{given[0]['id']}/verify", json={"model": "loan@1"})
    assert listed(kept=True) == {}  # the version that answered
    accepted = server.client.post("/models/loan/audits", json={"model": "loan@4", "since": given[0]["created_at"]})
    address = server.ended(accepted.headers["location"])["result"]
    assert listed(kept=False, model="loan") == {"case 0": False, "case 1": False}
    assert listed(kept=True) == {}
    server.client.post(f"/recourse/{given[0]['id']}/verify", json={"model": "loan@3"})
    assert listed() == {"case 0": True, "case 1": False}

    def references() -> list[str | None]:
        return [one["reference"] for one in server.client.get(address).json()["broken_promises"]]

    assert references() == ["case 0", "case 1"]
    server.client.delete(f"/recourse/{given[1]['id']}")
    assert references() == ["case 0", None]
    assert listed(kept=False) == {}


@pytest.mark.parametrize("detail", ["short", "full"])
def test_a_recourse_that_was_asked_as_a_job_is_one_line(server: Server, detail: str) -> None:
    body = question(store=False, detail=detail)
    response = server.client.post("/recourse", json=body, headers={"Prefer": "wait=30"})
    lines = server.client.get(response.headers["content-location"], headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == [response.json()]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/model"),
        ({"model": "other@1"}, "/model"),
        ({"model": "loan@2", "since": 5}, "/since"),
        ({"model": "loan@2", "since": "2030-01-01T00:00:00"}, "/since"),
        ({"model": "loan@2", "since": "0001-01-01T00:00:00+14:00"}, "/since"),
        ({"model": "loan@2", "until": "tomorrow"}, "/until"),
        ({"model": "loan@2", "reissue": 1}, "/reissue"),
    ],
)
def test_bad_audits_are_refused(server: Server, body: dict[str, Any], pointer: str) -> None:
    assert set(faults(server.client.post("/models/loan/audits", json=body))) == {pointer}


def test_audits_are_listed_with_what_they_found(server: Server, promised: list[dict[str, Any]]) -> None:
    begun = datetime.now(UTC)
    results = [
        audit(server, candidate, until=promised[7]["created_at"]) for candidate in ("loan@2", "loan@3", "loan@2")
    ]

    def listed(**query: Any) -> dict[str, Any]:
        response = server.client.get("/models/loan/audits", params={"since": begun.isoformat(), **query})
        assert response.status_code == 200, response.text
        AuditList.model_validate(response.json(), strict=False)
        found: dict[str, Any] = response.json()
        return found

    every = listed()["audits"]
    assert [one["candidate"] for one in every] == ["loan@2", "loan@3", "loan@2"]
    for one, result in zip(every, reversed(results), strict=True):
        assert {name: one[name] for name in AUDITED} == {name: result[name] for name in AUDITED}
        assert server.client.get(one["result"]).json() == result
    assert listed(version="2")["audits"] == [every[0], every[2]]
    assert listed(status="failed")["audits"] == []
    assert listed(until=begun.isoformat())["audits"] == []
    first = listed(limit=2)
    assert first["audits"] == every[:2]
    assert listed(limit=2, cursor=first["next_cursor"]) == {"audits": every[2:], "next_cursor": None}
    jobs = server.client.get("/jobs", params={"kind": "audit", "model": "loan", "version": "3"}).json()["jobs"]
    assert jobs[0]["id"] == every[1]["id"]
    assert {job["model"] for job in jobs} == {"loan@3"}
    problem(server.client.get("/models/nobody/audits"), 404, "unknown-model")


def test_unknown_models_are_not_audited(server: Server) -> None:
    problem(server.client.post("/models/nobody/audits", json={"model": "nobody@1"}), 404, "unknown-model")
    problem(server.client.post("/models/loan@1/audits", json={"model": "loan@1"}), 404, "unknown-model")
    problem(server.client.post("/models/loan/audits", json={"model": "loan@9"}), 404, "unknown-model")


# --- many promises ---------------------------------------------------------------------------------------------------


def copies(record: Record, count: int, **changes: Any) -> list[NewRecord]:
    """The same promise many times."""
    assert record.personal_data
    answer, request = json.loads(record.personal_data.answer), json.loads(record.personal_data.request)
    return [entry_of({**deepcopy(answer), "id": new_id("rec"), **changes}, request) for _ in range(count)]


def test_a_thousand_promises_take_less_than_ten_seconds(start: Start, versions: Path) -> None:
    server = start(RECOURSE_MODELS_STORE=str(versions)).ready()
    kept = ask(server.client, method={"name": "robust_mpm", "radius_unfavourable": 40.0})
    broken = ask(server.client, method={"name": "robust_mpm", "radius_unfavourable": 0.0})
    assert probability(broken) < TIGHTER <= probability(kept)
    engine = open_engine(server.database or f"sqlite:///{server.state / FILE}")
    ledger = Ledger(engine)
    ledger.append(copies(ledger.find(kept["id"]), 699) + copies(ledger.find(broken["id"]), 299))
    expired = timestamp(datetime.now(UTC) - timedelta(days=1))
    ledger.append(copies(ledger.find(broken["id"]), 10, expires_at=expired))
    erased = copies(ledger.find(broken["id"]), 10)
    ledger.append(erased)
    ledger.erase([one.id for one in erased], "request", datetime.now(UTC))
    engine.dispose()
    audit(server, "loan@2", since="2100-01-01T00:00:00Z")  # of nothing: a child that computes audits is warm now
    elapsed_s = []
    for _ in range(3):  # at least one of them without much else going on
        began = time.perf_counter()
        result = audit(server, "loan@2")
        elapsed_s.append(time.perf_counter() - began)
        assert (result["promises"], result["still_valid"], result["broken"]) == (1000, 700, 300)
        if elapsed_s[-1] < 10:
            break
    assert min(elapsed_s) < 10


class Held:
    """Stands in for a ledger of some parts with two promises each."""

    def __init__(self, one: NewRecord, parts: int, between: Callable[[], None] = lambda: None) -> None:
        facts = {name: getattr(one, name) for name in ("id", "at", "expires_at", "model", "version", "status")}
        entry = Entry(number=1, kind=Kind.GIVEN, sha256="of another version", **facts)
        self._one = Record(entry=entry, personal_data=one.personal_data, erased_at=None, key=None)
        self._parts, self._between = parts, between
        self.noted: list[dict[int, bool]] = []

    def count(self, _which: Promises) -> int:
        return 2 * self._parts

    def promises(self, _which: Promises) -> Iterator[list[Record]]:
        for number in range(1, 2 * self._parts, 2):
            yield [replace(self._one, entry=replace(self._one.entry, number=number + k)) for k in range(2)]
            self._between()

    def note_checks(self, _model: str, _version: str, _at: str, kept: dict[int, bool]) -> None:
        self.noted.append(kept)


class Paid:
    """A model that is asked over a network, and may be sent three records for one answer."""

    max_calls, max_rows = 1, 3

    def __init__(self, black_box: BlackBox) -> None:
        self._black_box = black_box

    def price(self, rows: int) -> tuple[int, int]:
        return 1, rows

    def predict_by(self, rows: np.ndarray, _deadline: float) -> np.ndarray:
        return self._black_box.predict(rows)


def audit_of(versions: Path) -> tuple[audits.Audit, NewRecord]:
    """An audit without a limit, and a promise of one record."""
    store = Store(root=str(versions))
    model = store.open().find("loan@1")
    ref = ModelRef.of(store, model)
    asked = posed(ref)
    frame = replace(FRAME, model=identity(model), expires_at=timestamp(datetime.now(UTC) + timedelta(days=1)))
    answer = answer_of(ref, "recourse", asked, frame, math.inf, deadline_s=math.inf)
    assert len(answer["counterfactuals"]) == 1
    payload = audits.audit_payload(ref, model, Promises.unexpired("loan", since=None, until=None), reissue=False)
    return audits.Audit(ref, payload, math.inf), entry_of(answer, request_of(model.space, asked, 1))


def counted(result: dict[str, Any]) -> tuple[int, int, int]:
    return result["promises"], result["still_valid"], result["unchecked"]


def test_an_audit_that_runs_out_of_time_says_how_much_is_left(versions: Path) -> None:
    running, one = audit_of(versions)

    def stop() -> None:
        running._deadline = 0.0

    held = Held(one, 3, stop)
    found = running.run(held, lambda _done, _total: None)  # type: ignore[arg-type]
    assert counted(found) == (2, 2, 4)
    assert held.noted == [{1: True, 2: True}]


def test_the_budget_of_a_remote_model_is_not_for_all_promises(versions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running, one = audit_of(versions)
    loaded = tasks.load(running._ref)
    paid = replace(loaded, black_box=replace(loaded.black_box, remote=Paid(loaded.black_box)))
    monkeypatch.setattr(tasks, "load", lambda _ref: paid)
    found = running.run(Held(one, 3), lambda _done, _total: None)  # type: ignore[arg-type]
    assert counted(found) == (6, 6, 0)


# --- the same answer again -------------------------------------------------------------------------------------------


def test_a_stored_request_has_the_same_answer_again(
    server: Server, promised: list[dict[str, Any]], versions: Path, tmp_path: Path
) -> None:
    nothing = ask(
        server.client, constraints={"immutable": ["income", "amount", "savings", "guarantor", "housing", "age"]}
    )
    full = ask(
        server.client, constraints={"immutable": ["age"], "bounds": {"amount": {"min": 100}}},
        cost={"weights": {"income": 2.0}},
        certificate={"ambiguity_radius": 0.02, "noise_samples": 500}, seed=11,
    )  # fmt: skip
    store = Store(root=str(versions))
    engine = open_engine(server.database or f"sqlite:///{server.state / FILE}")
    ledger = Ledger(engine)
    for answer in (*promised, nothing, full):
        assert replay(store, ledger.find(answer["id"]), 1.0) == []
    record = ledger.find(promised[0]["id"])
    assert record.personal_data
    other = replace(record.personal_data, request=ledger.find(full["id"]).personal_data.request)
    assert "counterfactuals" in replay(store, replace(record, personal_data=other), 1.0)
    shutil.copytree(versions, tmp_path / "store")
    Registry(tmp_path / "store").retire("loan@1")
    assert replay(Store(root=str(tmp_path / "store")), record, 1.0) == [], (
        "by the version that answered, though retired"
    )
    engine.dispose()
