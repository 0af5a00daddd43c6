"""Idempotency keys with real servers: two of them, and one that is killed."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from app.idempotency.answers import LEASE
from tests.api.asking import APPLICANT, problem, question
from tests.api.odd_model import LOOPS
from tests.conftest import until
from tests.jobs.serving import Server
from tests.servers import Start, on_both, on_sqlite

SLOW: dict[str, Any] = question(model="odd", applicant={**APPLICANT, "age": LOOPS}, deadline_ms=3000)
"""Is answered after three seconds: its computation has to be killed."""


def ask(server: Server, key: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return server.client.post("/recourse", json=body, headers={"Idempotency-Key": key, **headers})


def with_model(start: Start, models_store: Path, **settings: str) -> Server:
    """A server whose only child has loaded the model: else a first question may spend its time on that."""
    server = start(RECOURSE_MODELS_STORE=str(models_store), RECOURSE_LANES_SYNC="1", **settings).ready()
    until(lambda: server.client.post("/recourse", json=question(model="odd", deadline_ms=60_000)).status_code == 200)
    return server


def busy(server: Server) -> bool:
    return 'recourse_lane_children{lane="sync",state="busy"} 1.0' in server.client.get("/metrics").text


@on_both
def test_two_servers_carry_a_request_out_once(start: Start, models_store: Path) -> None:
    first = with_model(start, models_store)
    second = with_model(start, models_store, RECOURSE_EXECUTOR_ID="other", RECOURSE_RUN_JOBS="false")
    key = str(uuid.uuid4())
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, first, key, SLOW)
        until(lambda: busy(first))
        problem(ask(second, key, SLOW), 409, "idempotency-in-progress")
        problem(ask(second, key, question()), 422, "idempotency-key-reused")
    again = ask(second, key, SLOW)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == answer.result().content
    key = str(uuid.uuid4())
    jobs = [ask(server, key, question(), Prefer="respond-async") for server in (first, second)]
    assert jobs[0].headers["location"] == jobs[1].headers["location"]
    assert len(first.client.get("/jobs").json()["jobs"]) == 1
    assert len(first.client.get("/recourse").json()["recourse"]) >= 1


@on_sqlite
def test_a_killed_server_locks_no_key(start: Start, models_store: Path) -> None:
    server = with_model(start, models_store)
    key = str(uuid.uuid4())
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(ask, server, key, SLOW)
        until(lambda: busy(server))
        server.kill()
        with suppress(httpx.TransportError):
            raise AssertionError(lost.result())
    killed = time.monotonic()
    heir = with_model(start, models_store)
    answers: list[httpx.Response] = []

    def answered() -> bool:
        answers.append(ask(heir, key, SLOW))
        return answers[-1].status_code != 409

    until(answered, within_s=60)
    assert answers[-1].status_code == 200
    assert time.monotonic() - killed < LEASE.total_seconds() + 30
    assert ask(heir, key, SLOW).headers["idempotent-replayed"] == "true"


def test_a_job_that_a_killed_server_had_made_is_not_made_again(start: Start) -> None:
    """The server dies between making the job and noting the answer: the note is taken away, as if it had."""
    import sqlalchemy as sa

    from app.ledger.ledger import FILE
    from app.store.engine import open_engine, writing
    from app.store.tables import idempotent_answers

    server = start().ready()
    key = str(uuid.uuid4())
    first = ask(server, key, question(), Prefer="respond-async")
    engine = open_engine(server.database or f"sqlite:///{server.state / FILE}")
    with writing(engine) as connection:
        lapsed = {"status": None, "headers": None, "body": None, "until": "2026-01-01T00:00:00.000Z"}
        connection.execute(sa.update(idempotent_answers).values(**lapsed))
    engine.dispose()
    again = ask(server, key, question(), Prefer="respond-async")
    assert "idempotent-replayed" not in again.headers
    assert again.headers["location"] == first.headers["location"]
    assert len(server.client.get("/jobs").json()["jobs"]) == 1
    assert server.ended(first.headers["location"])["status"] == "succeeded"
