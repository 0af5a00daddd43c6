"""Letters, reviews and case files of real servers, on both databases: kill -9, erasure, tampering, other keys."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.keys.scopes import Scope
from app.ledger.ledger import Ledger
from app.settings import Settings
from app.store.engine import writing
from app.store.tables import entries, idempotent_answers, personal_data
from tests.api.asking import APPLICANT, problem, question
from tests.conftest import Running, run
from tests.jobs.serving import Server
from tests.keys.test_tenants import client_with
from tests.ledger.test_servers import database_of
from tests.servers import Start

LETTER = {"channel": "post", "text": "Dear Ms Zebra"}
REVIEW = {"by": "Sam", "reason": "zebra", "decision": "accepted", "corrections": {"income": APPLICANT["income"] + 10.0}}


def given(client: httpx.Client) -> str:
    answer = client.post("/recourse", json=question(reference="a case"))
    assert answer.status_code == 200, answer.text
    return f"/recourse/{answer.json()['id']}"


def record(client: httpx.Client, address: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    response = client.post(address, json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


def test_what_is_recorded_survives_kill_9(start: Start) -> None:
    server = start().ready()
    case = given(server.client)
    letter, review = (record(server.client, f"{case}/{p}", b) for p, b in (("notice", LETTER), ("reviews", REVIEW)))
    server.kill()
    server = start().ready()
    file = server.client.get(f"{case}/case").json()
    assert (file["letters"], file["reviews"]) == ([letter.json()], [review.json()])
    assert file["holds"]
    with database_of(server) as engine:
        proof = Ledger(engine).prove()
    assert (proof.broken, proof.entries) == (None, 4)


@pytest.mark.parametrize(("path", "body", "found"), [("notice", LETTER, 2), ("reviews", REVIEW, 3)])
def test_what_a_killed_server_had_recorded_is_not_recorded_again(
    start: Start, path: str, body: dict[str, Any], found: int
) -> None:
    """The server dies between the ledger and the note of its answer: the note is taken away, as if it had."""
    server = start().ready()
    case, key = given(server.client), {"Idempotency-Key": str(uuid.uuid4())}
    first = record(server.client, f"{case}/{path}", body, **key)
    again = record(server.client, f"{case}/{path}", body, **key)
    assert (again.headers["idempotent-replayed"], again.content) == ("true", first.content)
    with database_of(server) as engine, writing(engine) as connection:
        lapsed = {"status": None, "headers": None, "body": None, "until": "2026-01-01T00:00:00.000Z"}
        connection.execute(sa.update(idempotent_answers).values(**lapsed))
    heir = record(server.client, f"{case}/{path}", body, **key)
    assert "idempotent-replayed" not in heir.headers
    assert heir.content == first.content
    with database_of(server) as engine:
        proof = Ledger(engine).prove()
    assert (proof.broken, proof.entries) == (None, found)


def holding(engine: sa.Engine, text: bytes) -> list[str]:
    """The tables that hold a text in a column of bytes."""
    found = []
    with engine.connect() as connection:
        for table, column in ((personal_data, "request"), (personal_data, "answer"), (idempotent_answers, "body")):
            values = connection.scalars(sa.select(table.c[column])).all()
            found += [f"{table.name}.{column}" for value in values if value is not None and text in value]
    return found


def test_all_of_a_case_is_erased(server: Server) -> None:
    other = given(server.client)
    record(server.client, f"{other}/notice", {**LETTER, "text": "to another"})
    case, key = given(server.client), {"Idempotency-Key": str(uuid.uuid4())}
    letter = record(server.client, f"{case}/notice", {**LETTER, "addressee": ["Ms Zebra"]}, **key).json()
    record(server.client, f"{case}/reviews", {**REVIEW, "corrections": {}}, **{"Idempotency-Key": str(uuid.uuid4())})
    with database_of(server) as engine:
        assert holding(engine, b"ebra") == ["ledger_particulars.answer"] * 2 + ["idempotent_answers.body"] * 2
    assert server.client.delete(case).json()["status"] == "erased"
    with database_of(server) as engine:
        assert holding(engine, b"ebra") == []
        assert Ledger(engine).prove().broken is None
    for path in ("case", f"letters/{letter['id']}", "notice"):
        problem(server.client.get(f"{case}/{path}"), 410, "erased")
    # Not a replay of what was erased.
    problem(server.client.post(f"{case}/notice", json=LETTER, headers=key), 410, "erased")
    problem(server.client.post(f"{case}/reviews", json=REVIEW), 410, "erased")
    assert len(server.client.get(f"{other}/case").json()["letters"]) == 1


@pytest.mark.parametrize("part", ["text", "unreadable", "decision", "moved"])
def test_a_forged_letter_or_review_is_named_by_the_case_and_by_the_ledger(start: Start, part: str) -> None:
    server = start().ready()
    case, other = given(server.client), given(server.client)
    letter = record(server.client, f"{case}/notice", LETTER).json()
    review = record(server.client, f"{case}/reviews", {**REVIEW, "corrections": {}}).json()
    forged = review if part == "decision" else letter
    number = sa.select(entries.c.number).where(entries.c.id == forged["id"]).scalar_subquery()
    changed = {**letter, "text": "Dear Ms Yak"}
    data = sa.update(personal_data).where(personal_data.c.number == number)
    to = sa.select(entries.c.number).where(entries.c.id == other.rpartition("/")[2]).scalar_subquery()
    statement = {
        "text": data.values(answer=json.dumps(changed).encode()),
        "unreadable": data.values(answer=b"\xff"),
        "decision": sa.update(entries).where(entries.c.id == review["id"]).values(status="refused"),
        "moved": data.values(about=to),
    }[part]
    with database_of(server) as engine, writing(engine) as connection:
        connection.execute(statement)
    seen = other if part == "moved" else case
    file = server.client.get(f"{seen}/case").json()
    assert not file["holds"]
    assert [link["id"] for link in file["proof"] if not link["holds"]] == [forged["id"]]
    assert "not as they were written" in server.client.get(f"{seen}/case?format=html").text
    with database_of(server) as engine:
        broken = Ledger(engine).prove().broken
    assert broken is not None
    assert broken.id == forged["id"]


# --- other keys ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked(loan_store: Path) -> Iterator[Running]:
    """A service that asks for keys."""
    yield from run(Settings(models_store=loan_store, lanes_sync=1, auth="required"))


def test_a_case_is_its_keys_own(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one, client_with(locked, Scope.RECOURSE) as two:
        case = given(one)
        letter = record(one, f"{case}/notice", LETTER).json()
        for path in ("case", f"letters/{letter['id']}"):
            problem(two.get(f"{case}/{path}"), 404, "unknown-recourse")
        problem(two.post(f"{case}/notice", json=LETTER), 404, "unknown-recourse")
        problem(two.post(f"{case}/reviews", json=REVIEW), 404, "unknown-recourse")
        file = one.get(f"{case}/case").json()
        assert file["asked_by"]["name"] == "test"
        assert file["asked_by"]["key"] == file["letters"][0]["recorded_by"] == letter["recorded_by"]
        assert len(file["letters"]) == 1
    with client_with(locked, Scope.AUDIT, Scope.EVERYONE) as auditor:
        assert auditor.get(f"{case}/case").json()["letters"] == [letter]
        problem(auditor.post(f"{case}/notice", json=LETTER), 403, "insufficient-scope")
        problem(auditor.post(f"{case}/reviews", json=REVIEW), 403, "insufficient-scope")
    with client_with(locked, Scope.MODELS) as registrar:
        problem(registrar.get(f"{case}/case"), 403, "insufficient-scope")


def test_who_looks_again_owns_the_new_answer(locked: Running) -> None:
    with (
        client_with(locked, Scope.RECOURSE) as one,
        client_with(locked, Scope.RECOURSE, Scope.EVERYONE) as reviewer,
    ):
        case = given(one)
        asked = record(reviewer, f"{case}/reviews", REVIEW).json()["asked"]
        assert reviewer.get(f"/recourse/{asked['id']}").status_code == 200
        assert one.get(f"{case}/case").json()["reviews"][0]["asked"] == asked


def test_scores_are_not_read_of_a_case_without_their_scope(locked: Running) -> None:
    with client_with(locked, Scope.RECOURSE) as one:
        file = one.get(f"{given(one)}/case").json()
        assert file["answer"]["factual"]["score"] is None
        assert file["answer"]["factual"]["probability"] is None
        assert all(reason["contribution"] is None for reason in file["reasons"]["reasons"])
