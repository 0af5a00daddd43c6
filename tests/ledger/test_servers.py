"""The ledger over HTTP, of real servers on both databases: what is given is kept, found, erased."""

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from app.jobs.ids import new_id
from app.ledger.entries import entry_of
from app.ledger.ledger import FILE, Ledger
from app.ledger.schema import GivenList, Tombstone
from app.store.engine import open_engine, writing
from app.store.tables import entries
from tests.api.asking import APPLICANT, problem, question
from tests.conftest import until
from tests.jobs.serving import Server
from tests.servers import Start, on_both, on_sqlite


def ask(server: Server, **changes: Any) -> httpx.Response:
    response = server.client.post("/recourse", json=question(**changes))
    assert response.status_code == 200, response.text
    return response


def ask_later(server: Server, **changes: Any) -> tuple[str, httpx.Response]:
    """The address of a job, and its result."""
    accepted = server.client.post("/recourse", json=question(**changes), headers={"Prefer": "respond-async"})
    job = server.ended(accepted.headers["location"])
    assert job["status"] == "succeeded", job
    return accepted.headers["location"], server.client.get(job["result"])


@contextmanager
def database_of(server: Server) -> Iterator[sa.Engine]:
    engine = open_engine(server.database or f"sqlite:///{server.state / FILE}")
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    "changes",
    [{}, {"applicant": {**APPLICANT, "income": 19_000.0}}, {"constraints": {"immutable": ["income", "amount", "age"]}}],
)
def test_every_answer_is_found_again_byte_for_byte(server: Server, changes: dict[str, Any]) -> None:
    answer = ask(server, reference="Fälle/7", **changes)
    assert answer.json()["stored"] is True
    found = server.client.get(f"/recourse/{answer.json()['id']}")
    assert found.headers["content-type"] == "application/json"
    assert found.content == answer.content


def test_the_answer_of_a_job_is_kept_too(server: Server) -> None:
    _, result = ask_later(server, reference="by a job")
    assert server.client.get(f"/recourse/{result.json()['id']}").content == result.content


def test_what_shall_not_be_stored_is_not(server: Server) -> None:
    before = server.client.get("/recourse").json()
    direct = ask(server, store=False)
    _, later = ask_later(server, store=False)
    for answer in (direct, later):
        assert answer.json()["stored"] is False
        problem(server.client.get(f"/recourse/{answer.json()['id']}"), 404, "unknown-recourse")
    assert server.client.get("/recourse").json() == before


def test_recourse_is_listed_by_reference_in_pages(server: Server) -> None:
    made = [ask(server, reference=reference).json()["id"] for reference in ("a b", "other", "a b", "a b")]
    query = {"reference": "a b", "limit": 2}
    first = server.client.get("/recourse", params=query).json()
    GivenList.model_validate(first, strict=False)
    second = server.client.get("/recourse", params={**query, "cursor": first["next_cursor"]}).json()
    assert [one["id"] for one in first["recourse"] + second["recourse"]] == [made[3], made[2], made[0]]
    assert second["next_cursor"] is None
    assert {one["reference"] for one in first["recourse"]} == {"a b"}
    newest = server.client.get("/recourse", params={"limit": 1}).json()["recourse"]
    assert [one["id"] for one in newest] == [made[3]]
    assert server.client.get("/recourse", params={"reference": "nobody"}).json()["recourse"] == []


@pytest.mark.parametrize(
    "name",
    ["x", "%00", "rec_x", "rec_" + "u" * 26]
    + [pytest.param(new_id(kind), id=f"new {kind}") for kind in ("job", "rec")],
)
def test_unknown_recourse(server: Server, name: str) -> None:
    problem(server.client.get(f"/recourse/{name}"), 404, "unknown-recourse")
    problem(server.client.delete(f"/recourse/{name}"), 404, "unknown-recourse")
    problem(server.client.post(f"/recourse/{name}/verify", json={}), 404, "unknown-recourse")


def test_bounds_of_a_plan_are_filled_in_once_their_job_has_them(server: Server) -> None:
    """The answer is put together from one of each kind, so that the job has ended before it is looked at."""
    members = [{**APPLICANT, "income": APPLICANT["income"] + 500.0 * k} for k in (1, 2, 3)]
    brought = {"model": "loan", "applicant": APPLICANT, "counterfactuals": members}
    accepted = server.client.post("/recourse/validity", json=brought, headers={"Prefer": "respond-async"})
    job = server.ended(accepted.headers["location"])
    tight = server.client.get(job["result"]).json()["plan"]["validity"]
    answer = ask(server, reference="a plan").json()
    wide = {"lower": 0.0, "upper": 1.0, "exact": False, "status": "pending", "job": accepted.headers["location"]}
    answer |= {"id": new_id("rec"), "plan": {"validity": wide, "proximity": 0.5, "diversity": 0.5}}
    unknown = {**answer, "id": new_id("rec"), "plan": {"validity": {**wide, "job": f"/jobs/{new_id('job')}"}}}
    with database_of(server) as engine:
        Ledger(engine).append([entry_of(answer, {}), entry_of(unknown, {})])
    found = server.client.get(f"/recourse/{answer['id']}").json()
    assert found["plan"]["validity"] == tight
    assert tight["status"] == "complete"
    assert {**found, "plan": None} == {**answer, "plan": None}
    assert server.client.get(f"/recourse/{unknown['id']}").json() == unknown
    # The records are in that job as well.
    server.client.delete(f"/recourse/{answer['id']}")
    problem(server.client.get(accepted.headers["location"]), 404, "unknown-job")


# --- erasing ---------------------------------------------------------------------------------------------------------


def test_what_is_erased_is_gone_and_the_chain_still_holds(server: Server) -> None:
    kept = ask(server, reference="two cases").json()["id"]
    erased = ask(server, reference="two cases").json()
    address = f"/recourse/{erased['id']}"
    tombstone = server.client.delete(address).json()
    Tombstone.model_validate(tombstone, strict=False)
    assert set(tombstone) == set(Tombstone.model_fields)
    assert (tombstone["model"], tombstone["created_at"]) == (erased["model"], erased["created_at"])
    assert server.client.delete(address).json() == tombstone
    problem(server.client.get(address), 410, "erased")
    problem(server.client.post(f"{address}/verify", json={}), 410, "erased")
    listed = server.client.get("/recourse", params={"reference": "two cases"}).json()["recourse"]
    assert [one["id"] for one in listed] == [kept]
    with database_of(server) as engine:
        proof = Ledger(engine).prove()
        assert proof.broken is None
        assert proof.erased >= 1


def test_erasing_takes_the_job_along(server: Server) -> None:
    job, result = ask_later(server)
    server.client.delete(f"/recourse/{result.json()['id']}")
    problem(server.client.get(job), 404, "unknown-job")


@on_sqlite
def test_what_a_restored_backup_of_the_jobs_brings_back_is_erased_again(start: Start) -> None:
    server = start().ready()
    job, result = ask_later(server)
    address = f"/recourse/{result.json()['id']}"
    server.stop()
    backup = (server.state / "jobs.sqlite").read_bytes()
    server = start().ready()
    assert server.client.delete(address).status_code == 200
    problem(server.client.get(job), 404, "unknown-job")
    server.stop()
    (server.state / "jobs.sqlite").write_bytes(backup)
    server = start().ready()
    assert server.client.get(job).status_code == 200
    assert server.client.delete(address).json()["status"] == "erased"
    problem(server.client.get(job), 404, "unknown-job")


def test_what_was_not_stored_is_erased_with_its_job(server: Server) -> None:
    other, _ = ask_later(server, store=False)
    job, result = ask_later(server, store=False)
    address = f"/recourse/{result.json()['id']}"
    assert server.client.delete(address).status_code == 204
    problem(server.client.get(job), 404, "unknown-job")
    problem(server.client.delete(address), 404, "unknown-recourse")
    assert server.client.get(f"{other}/results").status_code == 200


def test_an_erased_answer_of_a_job_is_not_replayed(server: Server) -> None:
    """Neither the answer that a client waited for, nor where the job was."""
    for prefer in ("respond-async", "wait=30"):
        headers = {"Prefer": prefer, "Idempotency-Key": str(uuid.uuid4())}
        first = server.client.post("/recourse", json=question(), headers=headers)
        if first.status_code == 202:
            server.ended(first.headers["location"])
            name = server.client.get(f"{first.headers['location']}/results").json()["id"]
        else:
            name = first.json()["id"]
        assert server.client.delete(f"/recourse/{name}").json()["status"] == "erased"
        again = server.client.post("/recourse", json=question(), headers=headers)
        assert "idempotent-replayed" not in again.headers
        assert again.json()["id"] != first.json()["id"]


def test_what_has_expired_is_swept_at_the_start(start: Start) -> None:
    server = start().ready()
    job, result = ask_later(server)
    fresh = ask(server).json()["id"]
    old = result.json()["id"]
    server.stop()
    with database_of(server) as engine, writing(engine) as connection:
        past = {"at": "2020-01-01T00:00:00.000Z", "expires_at": "2020-04-01T00:00:00.000Z"}
        connection.execute(sa.update(entries).where(entries.c.id == old).values(past))
    # Not ready: it sees that the ledger has been changed. What has expired is swept all the same.
    server = start()
    until(lambda: server.client.get(f"/recourse/{old}").status_code == 410)
    problem(server.client.get(job), 404, "unknown-job")
    assert server.client.get(f"/recourse/{fresh}").status_code == 200


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_without_the_ledger_no_recourse_is_given(start: Start) -> None:
    server = start().ready()
    before = ask(server).json()["id"]
    with database_of(server) as engine, writing(engine) as connection:
        connection.execute(sa.text("alter table ledger_particulars rename to away"))
    response = server.client.post("/recourse", json=question())
    problem(response, 503, "ledger-unavailable")
    assert response.headers["retry-after"] == "1"
    problem(server.client.get(f"/recourse/{before}"), 503, "ledger-unavailable")
    assert ask(server, store=False).json()["status"] == "found"
    accepted = server.client.post("/recourse", json=question(), headers={"Prefer": "respond-async"})
    assert server.ended(accepted.headers["location"])["error"]["code"] == "ledger-unavailable"
    with database_of(server) as engine, writing(engine) as connection:
        connection.execute(sa.text("alter table away rename to ledger_particulars"))
        # What was not given is not in the chain either.
        assert connection.scalar(sa.select(sa.func.count()).select_from(entries)) == 1
    assert ask(server).json()["stored"] is True
    with database_of(server) as engine:
        assert Ledger(engine).prove().broken is None


@on_both
def test_two_servers_write_one_chain(start: Start) -> None:
    """At the same time, and each several requests at once."""
    servers = [start(RECOURSE_EXECUTOR_ID="one"), start(RECOURSE_EXECUTOR_ID="two", RECOURSE_RUN_JOBS="false")]
    for server in servers:
        server.ready()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: ask(servers[i % 2], seed=i).json()["id"], range(40)))
    with database_of(servers[0]) as engine:
        proof = Ledger(engine).prove()
        assert (proof.entries, proof.broken) == (40, None)
    for i, name in enumerate(answers):
        assert servers[(i + 1) % 2].client.get(f"/recourse/{name}").json()["seed"] == i


@on_both
def test_what_is_written_survives_kill_9(start: Start) -> None:
    server = start().ready()
    answers = [ask(server, seed=seed).content for seed in range(5)]
    server.kill()
    server = start().ready()
    for answer in answers:
        assert server.client.get(f"/recourse/{json.loads(answer)['id']}").content == answer
