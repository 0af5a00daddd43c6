"""Several workers on one database: they share the work, and finish what a dead one had begun."""

import asyncio
from pathlib import Path

import pytest

from app.errors import InvalidRecord
from app.jobs.ids import new_id
from app.jobs.job import JobStatus
from app.jobs.lines import GROUP
from app.jobs.records import Part, Records
from app.pool import pool as pool_module
from app.pool.pool import Pool
from tests.conftest import until
from tests.jobs.kinds import KINDS
from tests.jobs.serving import Server, drop_connections
from tests.jobs.test_batches import each_exactly_once, in_the_middle, many, submit
from tests.jobs.test_executor import new_executor, records
from tests.processes import lane_children
from tests.servers import StartWorker

__all__ = ["records"]


def test_what_a_dead_worker_had_begun_is_finished_by_another(cluster: tuple[Server, StartWorker], ledger: Path) -> None:
    server, start = cluster
    one, two = start(), start()
    names = {line["executor"] for worker in (one, two) for line in worker.lines("job-store-opened")}
    assert len(names) == 2
    applicants = many(5)
    address = submit(server, applicants)
    in_the_middle(server, address, ledger)
    # Which of them took parts is theirs: one that starts late may find none left.
    newest = int(ledger.read_text().split()[-1])
    busy, other = (one, two) if newest in lane_children(one.pid) else (two, one)
    busy.kill()
    each_exactly_once(server, address, applicants)
    assert other.lines("jobs-requeued")
    other.stop()


@pytest.mark.release
def test_workers_that_lose_their_connections_keep_their_names(
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
    assert not one.lines("jobs-requeued") + two.lines("jobs-requeued")
    assert not one.lines("executor-id-lost") + two.lines("executor-id-lost")


@pytest.mark.slow
async def test_a_worker_that_takes_too_many_jobs_lets_them_wait(
    records: Records, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "WAITING_PER_CHILD", 1)
    payload = {"ledger": str(ledger), "while": "/nowhere"}
    names = [new_id("job") for _ in range(6)]
    for name in names:
        records.submit(
            {"id": name, "kind": "hold", "payload": payload, "timeout_s": 30.0, "detail": "full", "key": None}
        )

    lane = Pool("test", 1)
    executor = new_executor(records, lane=lane, kinds=KINDS)
    try:
        async with asyncio.timeout(60):
            taken = [asyncio.ensure_future(executor.compute(name, 0, None, single=True)) for name in names]
            await asyncio.sleep(0)
            taken[4].cancel()
            with pytest.raises(asyncio.CancelledError):
                await taken.pop(4)
            await asyncio.gather(*taken)
    finally:
        await lane.close()
    found = {job.id: job.status for job in records.load(names)}
    assert found.pop(names[4]) is JobStatus.QUEUED
    assert set(found.values()) == {JobStatus.SUCCEEDED}
    assert {records.lines(name, 0) for name in found} == {'{"held": "/nowhere"}\n'}
    assert ledger.read_text().count("began") == 5, "one was cancelled while it waited"


@pytest.mark.slow
async def test_rows_that_need_no_answer_any_more_are_no_longer_computed(records: Records, ledger: Path) -> None:
    payload = {"ledger": str(ledger), "deadline_s": 60.0}
    part = Part(
        job="job", number=0, kind="refuse_one", payload=payload, timeout_s=None, first=0, rows=[{}] * (GROUP + 1),
        lines=None, attempts=1,
    )  # fmt: skip

    lane = Pool("test", 2)
    lane.start()
    try:
        async with asyncio.timeout(60):
            with pytest.raises(InvalidRecord):
                await new_executor(records, lane=lane, kinds=KINDS)._lines(part)
            assert lane.state().ended == {"cancelled": 1}
    finally:
        await lane.close()
