"""Several workers on one database: they share the work, and finish what a dead one had begun."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.compute import lane as lane_module
from app.compute.lane import Lane
from app.compute.messages import Store
from app.errors import InvalidRecord, NotReady
from app.jobs.batch.chunks import Chunk, Chunks
from app.jobs.batch.lines import GROUP
from app.jobs.executor import Executor, as_computed, kept_nowhere, only_failed
from app.jobs.slots import Claim
from app.metrics import Metrics
from app.settings import Settings
from app.store.engine import open_engine
from tests.compute import chores
from tests.conftest import until
from tests.jobs.conftest import StartWorker
from tests.jobs.kinds import KINDS
from tests.jobs.serving import Server, drop_connections
from tests.jobs.test_batches import PATIENCE_S, each_exactly_once, in_the_middle, many, submit


def test_what_a_dead_worker_had_begun_is_finished_by_another(cluster: tuple[Server, StartWorker], ledger: Path) -> None:
    server, start = cluster
    one, two = start(), start()
    assert {line["executor"] for worker in (one, two) for line in worker.lines("job-store-opened")} == {
        "slot-0", "slot-1",
    }  # fmt: skip
    applicants = many(8)
    address = submit(server, applicants)
    in_the_middle(server, address, ledger)
    until(lambda: len({line.split()[1] for line in ledger.read_text().splitlines()}) == 2, within_s=PATIENCE_S)
    one.kill()
    each_exactly_once(server, address, applicants)
    assert two.lines("jobs-adopted")
    two.stop()


def test_workers_that_lose_their_connections_keep_their_slots(
    cluster: tuple[Server, StartWorker], ledger: Path
) -> None:
    server, start = cluster
    one, two = start(), start()
    applicants = many(6)
    address = submit(server, applicants)
    in_the_middle(server, address, ledger)
    assert drop_connections(server.database) > 0
    until(lambda: server.client.get(address).status_code == 200)
    each_exactly_once(server, address, applicants)
    assert not one.lines("jobs-adopted") + two.lines("jobs-adopted")
    assert not one.lines("executor-id-lost") + two.lines("executor-id-lost")


@pytest.mark.slow
def test_a_worker_that_takes_too_many_jobs_lets_them_wait(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "WAITING_PER_CHILD", 1)

    async def work() -> list[dict[str, Any]]:
        lane, engine = Lane("test", 1, chores.prepare), sa.create_engine("sqlite://")
        store = Store(root=str(tmp_path))
        executor = new_executor(lane, store, engine)
        payload = {"ledger": str(ledger), "while": "/nowhere"}
        try:
            async with asyncio.timeout(60):
                taken = [asyncio.ensure_future(executor.run_job(f"job-{i}", "hold", payload, 30.0)) for i in range(6)]
                await asyncio.sleep(0)
                taken[4].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taken.pop(4)
                return await asyncio.gather(*taken)
        finally:
            await lane.close()
            engine.dispose()

    assert asyncio.run(work()) == [{"ok": {"held": "/nowhere"}}] * 5
    assert ledger.read_text().count("began") == 5, "one was cancelled while it waited"


@pytest.mark.slow
def test_rows_that_need_no_answer_any_more_are_no_longer_computed(tmp_path: Path, ledger: Path) -> None:
    async def work() -> None:
        lane, engine = Lane("test", 2, chores.prepare), sa.create_engine("sqlite://")
        store = Store(root=str(tmp_path))
        executor = new_executor(lane, store, engine)
        lane.start()
        try:
            async with asyncio.timeout(60):
                chunk = Chunk(first=0, rows=[{}] * (GROUP + 1), lines=None)
                with pytest.raises(InvalidRecord):
                    await executor._lines(chunk, "refuse_one", {"ledger": str(ledger), "deadline_s": 60.0})
                assert lane.state().ended == {"cancelled": 1}
        finally:
            await lane.close()
            engine.dispose()

    asyncio.run(work())


def new_executor(lane: Lane, store: Store, engine: sa.Engine) -> Executor:
    return Executor(
        lane,
        store,
        KINDS,
        Chunks(engine),
        report=no_report,
        finish=as_computed,
        fail=only_failed,
        keep=kept_nowhere,
        metrics=Metrics(),
    )


async def no_report(_job_id: str, _done: int, _total: int) -> None:
    """Progress is of no interest."""


def test_a_slot_is_held_by_one_process_and_free_when_it_is_gone(address: str) -> None:
    settings = Settings.model_validate({"database_url": address})
    engine = open_engine(address)
    one, two = Claim(engine, settings), Claim(engine, settings)
    assert (one.executor_id, two.executor_id) == ("slot-0", "slot-1")
    assert one.keep()
    one.release()
    # The server of the database notices a moment later.
    others = [Claim(engine, settings)]
    until(lambda: others[-1].executor_id == "slot-0" or others.append(Claim(engine, settings)))
    for claim in (two, *others):
        claim.release()
    engine.dispose()


def test_a_lost_lock_is_taken_again_unless_somebody_else_has_it(address: str) -> None:
    engine = open_engine(address)
    settings = Settings.model_validate({"database_url": address, "executor_id": "one"})
    claim = Claim(engine, settings)
    with pytest.raises(NotReady, match="RECOURSE_EXECUTOR_ID"):
        Claim(engine, settings)
    drop_connections(address)
    assert claim.keep()
    with pytest.raises(NotReady):
        Claim(engine, settings)
    drop_connections(address)
    other = Claim(engine, settings)
    assert not claim.keep()
    for one in (claim, other):
        one.release()
    engine.dispose()


def test_only_slots_without_a_holder_are_deserted(address: str) -> None:
    engine = open_engine(address)
    claims = [Claim(engine, Settings.model_validate({"database_url": address})) for _ in range(3)]
    with engine.begin() as connection:
        connection.execute(sa.text("create schema dbos"))
        connection.execute(sa.text("create table dbos.workflow_status (executor_id text, status text)"))
        for executor_id in ("slot-0", "slot-1", "slot-2", "named"):
            statement = sa.text("insert into dbos.workflow_status values (:executor_id, 'PENDING')")
            connection.execute(statement, {"executor_id": executor_id})
    first, second, third = claims
    assert first.deserted() == set()
    second.release()
    until(lambda: first.deserted() == {"slot-1"})
    assert first.adopt("slot-1", lambda: 5) == 5
    assert first.adopt("slot-2", lambda: 5) == 0, "it has a holder"
    assert third.deserted() == {"slot-1"}, "the lock was given back"
    for claim in (first, third):
        claim.release()
    engine.dispose()
