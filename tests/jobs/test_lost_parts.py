"""Parts that the queue counts as being computed, and that no process computes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.jobs import presence, queue
from app.jobs.job import BATCH, Job
from app.jobs.jobs import Jobs
from app.pool.pool import Pool
from app.registry.ref import Store
from app.settings import Settings
from tests.jobs.serving import database, postgres_missing

REPEATS = {"sqlite": 4, "postgresql": 10}

ROWS = 700
"""More parts than a process takes at once."""

PATIENCE_S = 60.0


class _Gate(Pool):
    """A lane without children: it answers each row with its number, once the gate is open."""

    def __init__(self) -> None:
        self.size = 1
        self.open = asyncio.Event()

    def start(self) -> None:
        """There is nothing to start."""

    async def run(self, function: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        await self.open.wait()
        return function(*args)


def numbered(_store: Store, payload: dict[str, Any], **_options: Any) -> list[str]:
    return [json.dumps(payload["first"] + i) for i in range(len(payload["rows"]))]


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    if request.param == "sqlite":
        yield Settings(state_dir=tmp_path)
        return
    if missing := postgres_missing():
        pytest.skip(missing)
    with database() as address:
        yield Settings.model_validate({"state_dir": tmp_path, "database_url": address})


@asynccontextmanager
async def opened(settings: Settings, lane: Pool, kinds: dict[str, Any] | None = None) -> AsyncIterator[Jobs]:
    jobs = Jobs(settings, lane, Store(root=""), kinds or {BATCH: numbered})
    jobs.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert jobs._opening is not None
            await jobs._opening
        yield jobs
    finally:
        await jobs.close()


def taken_under(engine: sa.Engine, executor_id: str, job: Job) -> Sequence[str]:
    """Take the waiting parts of a batch as a process does that has lost its name and does not know it yet."""
    table = sa.table(
        "workflow_status",
        *map(sa.column, ("workflow_uuid", "status", "executor_id", "owner_xid")),
        schema=None if engine.dialect.name == "sqlite" else "dbos",
    )
    waiting = table.c.workflow_uuid.like(f"{job.id}:%") & (table.c.status == "ENQUEUED")
    values = {"status": "PENDING", "executor_id": executor_id, "owner_xid": "of-another-process"}
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        return connection.scalars(sa.update(table).where(waiting).values(values).returning(table.c.workflow_uuid)).all()


@pytest.mark.slow
async def test_parts_taken_under_a_name_that_has_a_new_holder_are_computed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_S", 0.2)
    monkeypatch.setattr(queue, "PARTS_POLL_S", 0.02)

    async def race(jobs: Jobs, lane: _Gate) -> None:
        lane.open.clear()
        job = await jobs.submit_batch(BATCH, {"deadline_s": 60.0}, ({} for _ in range(ROWS)))
        connection = jobs._connection
        assert connection._presence is not None
        taken: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while not taken:
                taken += await asyncio.to_thread(taken_under, connection.engine, connection._presence.executor_id, job)
            lane.open.set()
            while not (job := await jobs.get(job.id)).status.finished:
                await asyncio.sleep(0.02)
        assert job.error is None
        lines = "".join([part async for part in jobs.lines(job)]).split()
        assert lines == [str(i) for i in range(ROWS)]

    lane = _Gate()
    async with opened(settings, lane) as jobs:
        for _ in range(REPEATS[jobs._connection.engine.dialect.name]):
            await race(jobs, lane)
        # What was queued again needlessly is taken before DBOS stops.
        list_parts = jobs._connection.queue.client.list_workflows_async
        while await list_parts(status=["ENQUEUED", "PENDING"]):
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_after_a_silence_of_its_own_a_process_is_patient_with_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database was away for all of them: what they had begun is still being computed."""
    monkeypatch.setattr(presence, "BEAT_S", 600.0)
    monkeypatch.setattr(queue, "PARTS_POLL_S", 0.02)

    lane = _Gate()
    async with opened(settings, lane) as jobs:
        job = await jobs.submit_batch(BATCH, {"deadline_s": 60.0}, ({} for _ in range(ROWS)))
        connection = jobs._connection
        taken: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while not taken:
                taken += await asyncio.to_thread(taken_under, connection.engine, "ghost", job)

        async def beat() -> set[str]:
            await asyncio.to_thread(connection._beat, set())
            begun = await asyncio.to_thread(connection.queue.begun)
            return {one.workflow_id for one in begun if one.executor_id == "ghost"}

        connection._heard_s = time.monotonic() - presence.SILENT_S
        assert await beat() == {*taken}
        assert await beat() == {*taken}
        connection._patient_until_s = time.monotonic()
        assert await beat() == set()
        lane.open.set()
        async with asyncio.timeout(PATIENCE_S):
            while not (job := await jobs.get(job.id)).status.finished:
                await asyncio.sleep(0.02)
        assert job.done == ROWS
