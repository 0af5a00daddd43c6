"""A database of the release before, in which jobs were workflows of DBOS: nothing in it is lost.

`data/jobs-1.json` holds its rows: jobs that had ended in each way, and others that were begun or waited.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from dbos import DBOS

from app.errors import InvalidRecord
from app.jobs import queue
from app.jobs.database import FORMER_QUEUES, migrate
from app.jobs.job import BATCH, Job, JobStatus
from app.jobs.jobs import Jobs
from app.jobs.tables import FILE
from app.pool.pool import Pool
from app.registry.ref import Store
from app.settings import Settings
from app.store.engine import database_url, open_engine
from tests.jobs.test_lost_parts import _Gate, opened, settings

__all__ = ["settings"]

ROWS: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "data/jobs-1.json").read_text())

SUCCEEDED, FAILED, ANSWERED, HALF, BEGUN, WAITING, CANCELLED = (
    f"job_01M7Q5CQG0000000000000000{number}" for number in range(1, 8)
)


def write_former(url: str) -> None:
    """The database as the release before has left it."""
    DBOS.migrate(url)
    engine = open_engine(url)
    schema = None if engine.dialect.name == "sqlite" else "dbos"
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(
            sa.text(
                "create table batch_chunks (job varchar(40), number integer, size integer, rows text, lines text, "
                "primary key (job, number))"
            )
        )
        for name, rows in ROWS.items():
            columns = sorted({column for row in rows for column in row})
            table = sa.table(name, *map(sa.column, columns), schema=None if name == "batch_chunks" else schema)
            for row in rows:
                connection.execute(sa.insert(table).values(row))
    engine.dispose()


def numbered(_store: Store, payload: dict[str, Any], **_options: Any) -> list[str]:
    return [json.dumps({"id": f"rec_{payload['first'] + i}"}) for i in range(len(payload["rows"]))]


async def test_jobs_of_the_release_before_are_there_and_those_that_had_not_ended_are_finished(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "PARTS_POLL_S", 0.05)
    monkeypatch.setattr(queue, "SINGLE_POLL_S", 0.05)
    url = database_url(settings, FILE)
    write_former(url)
    kinds = {BATCH: numbered, "hold": lambda _store, payload, **_options: payload["n"]}

    async def look(jobs: Jobs) -> None:
        async def job(name: str) -> Job:
            return await jobs.get(name)

        async def references(name: str) -> list[str]:
            parts = [part async for part in jobs.lines(await job(name))]
            return [json.loads(line)["id"] for line in "".join(parts).splitlines()]

        found = await job(SUCCEEDED)
        assert (found.status, found.about, found.model, found.detail) == (
            JobStatus.SUCCEEDED, "rec_00000000000000000000000001", "loan", "short",
        )  # fmt: skip
        assert await jobs.result(SUCCEEDED) == {"answer": 1}
        assert (await job(FAILED)).status is JobStatus.FAILED
        with pytest.raises(InvalidRecord, match=r"No\."):
            await jobs.result(FAILED)
        assert (await job(CANCELLED)).status is JobStatus.CANCELLED
        assert ((await job(ANSWERED)).status, (await job(ANSWERED)).refused) == (JobStatus.SUCCEEDED, 0)
        assert await references(ANSWERED) == [f"rec_{i}" for i in range(100)]
        assert (await job(HALF)).total == 200
        for name, number in ((BEGUN, 5), (WAITING, 6)):
            assert (await jobs.wait(name, 60.0)).status is JobStatus.SUCCEEDED
            assert await jobs.result(name) == number
        half = await jobs.wait(HALF, 60.0)
        assert (half.status, half.done) == (JobStatus.SUCCEEDED, 200)
        assert await references(HALF) == [f"rec_{i}" for i in range(200)]
        left = await jobs._connection.queue.client.list_queues_async()
        assert not {one.name for one in left} & {*FORMER_QUEUES}

    lane = _Gate()
    lane.open.set()
    async with opened(settings, lane, kinds) as jobs:
        await look(jobs)
    migrate(url)
    engine = open_engine(url)
    assert not sa.inspect(engine).has_table("batch_chunks"), "records of applicants are nowhere else"
    engine.dispose()


async def test_what_was_interrupted_goes_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    url = database_url(settings, FILE)
    write_former(url)
    with monkeypatch.context() as broken:
        broken.setattr("dbos.DBOSClient.delete_workflows", lambda *_args, **_options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            migrate(url)
    migrate(url)
    jobs = Jobs(settings.model_copy(update={"run_jobs": False}), Pool("test", 1), Store(root=""), {})
    jobs.start()
    await jobs.opened()
    assert len(await jobs.newest(20)) == 7
    await jobs.close()
