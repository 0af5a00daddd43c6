"""The queue by itself: jobs of a SQLite file that nobody computes."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from app.errors import InvalidRecord, NotReady, UnknownJob
from app.jobs import connection as connection_module
from app.jobs import presence, retention
from app.jobs.database import migrate
from app.jobs.ids import counting_from, new_number
from app.jobs.job import Job, JobStatus
from app.jobs.jobs import Jobs
from app.jobs.tables import FILE
from app.jobs.worker import CONNECTIONS
from app.ledger import health, sure_clock
from app.ledger.sweep import sweep
from app.pool.pool import Pool
from app.registry.ref import Store
from app.settings import Settings
from tests.clock_ahead import ClockAhead
from tests.jobs.kinds import KINDS
from tests.jobs.serving import database, drop_connections, postgres_missing

ROWS = [{"applicant": {}}] * 3

needs_postgres = pytest.mark.skipif(bool(postgres_missing()), reason=postgres_missing())


@asynccontextmanager
async def jobs(directory: Path, url: str | None = None, *, run_jobs: bool = False) -> AsyncIterator[Jobs]:
    settings = Settings.model_validate({"state_dir": directory, "run_jobs": run_jobs, "database_url": url})
    store = Store(root=str(directory))
    lane = Pool("test", 1)
    queue = Jobs(settings, lane, store, KINDS)
    queue.start()
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    await queue.check()
                    break
                except NotReady:
                    await asyncio.sleep(0.01)
        yield queue
    finally:
        await queue.close()
        await lane.close()


async def test_jobs_of_all_kinds_that_have_not_ended_are_counted(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        ended, _ = [await queue.submit("hold", {}, timeout_s=1.0) for _ in range(2)]
        await queue.cancel(ended.id)
        await queue.submit_batch("batch", {}, ROWS)
        assert await queue.unfinished() == {("hold", "queued"): 1, ("batch", "queued"): 1}


async def test_only_jobs_that_have_ended_are_forgotten(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        ended, waiting = [await queue.submit("hold", {}, timeout_s=1.0) for _ in range(2)]
        await queue.cancel(ended.id)
        assert await queue._retention.forget(datetime.now(UTC) - timedelta(hours=1)) == 0
        assert await queue._retention.forget(datetime.now(UTC) + timedelta(hours=1)) == 1
        assert await queue.newest(10) == [waiting]
        with pytest.raises(UnknownJob):
            await queue.get(ended.id)


async def test_a_clock_that_is_years_ahead_of_the_newest_job_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with jobs(tmp_path) as queue:
        ended = await queue.submit("hold", {}, timeout_s=1.0)
        await queue.cancel(ended.id)
        monkeypatch.setattr(sure_clock, "datetime", ClockAhead)
        forgotten = asyncio.Queue[int]()
        log = SimpleNamespace(info=lambda _event, *, deleted, **_: forgotten.put_nowait(deleted))
        monkeypatch.setattr(retention, "log", log)
        forgetting = asyncio.create_task(queue._retention.run())
        assert await asyncio.wait_for(forgotten.get(), timeout=30.0) == 0
        assert queue._retention._clock is not None
        assert queue._retention._clock.doubted
        forgetting.cancel()
        await asyncio.wait([forgetting])
        assert [job.id for job in await queue.newest(10)] == [ended.id]


async def test_jobs_are_not_ready_where_their_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with jobs(tmp_path) as queue:
        monkeypatch.setattr(health, "LEAST_FREE", 1 << 80)
        with pytest.raises(NotReady, match="The disk of the job store has less than"):
            await queue.check()


def test_an_operator_who_trusts_the_clock_has_old_jobs_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a service that restarts every day, which never does."""
    settings = Settings(models_store=tmp_path / "store", state_dir=tmp_path)

    async def ended(submitted: int = 0) -> int:
        async with jobs(tmp_path) as queue:
            for _ in range(submitted):
                await queue.cancel((await queue.submit("hold", {}, timeout_s=1.0)).id)
            return len(await queue.newest(10))

    assert asyncio.run(ended(submitted=1)) == 1
    monkeypatch.setattr(import_module("app.ledger.sweep"), "datetime", ClockAhead)
    for trusted, left in ((False, 1), (True, 0)):
        assert asyncio.run(sweep(settings, trust_clock=trusted)) == 0
        assert asyncio.run(ended()) == left


async def test_who_begins_the_same_again_gets_the_same_job_and_a_failed_one_anew(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:

        async def submit() -> Job:
            with counting_from(7):
                return await queue.submit("hold", {}, timeout_s=1.0)

        begun = await submit()
        assert await submit() == begun
        assert queue._connection.records.fail(begun.id, InvalidRecord()) is not None
        assert (await queue.get(begun.id)).status is JobStatus.FAILED
        again = await submit()
        assert (again.id, again.status) == (begun.id, JobStatus.QUEUED)


async def test_jobs_are_kept_when_the_queue_closes(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        job = await queue.submit("hold", {"a": "é\u0000"}, timeout_s=1.0)
    async with jobs(tmp_path) as queue:
        assert (await queue.get(job.id)).status == "queued"


async def test_who_computes_no_jobs_does_not_say_how_many_are_computed_at_once(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        await queue.submit("hold", {}, timeout_s=1.0)
        assert await queue._connection.queue.client.list_queues_async() == []


async def test_a_batch_that_is_asked_for_again_under_its_id_is_the_same_job(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        number, found = new_number(), []
        for _ in range(2):
            with counting_from(number):
                found.append(await queue.submit_batch("batch", {}, ROWS))
        assert found[0] == found[1] == await queue.get(found[0].id)
        assert (found[0].done, found[0].total) == (0, len(ROWS))
        assert await queue.newest(10) == found[:1]


async def test_a_batch_that_cannot_be_queued_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_args: object) -> None:
        raise sa.exc.OperationalError("", None, ConnectionError())

    async with jobs(tmp_path) as queue:
        number = new_number()
        with monkeypatch.context() as broken:
            broken.setattr(queue._connection.records, "_enqueue", lost)
            with counting_from(number), pytest.raises(NotReady):
                await queue.submit_batch("batch", {}, ROWS)
        assert await queue.newest(10) == []
        with counting_from(number):
            again = await queue.submit_batch("batch", {}, ROWS)
        assert again.total == len(ROWS)
        assert await queue.newest(10) == [again]


async def test_a_part_that_is_queued_is_there_if_and_only_if_its_job_is(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        client = queue._connection.queue.client
        kept, deleted = [await queue.submit_batch("batch", {}, ROWS) for _ in range(2)]
        await queue.delete([deleted.id])
        assert [one.workflow_id for one in await client.list_workflows_async()] == [f"{kept.id}:0"]
        await queue.cancel(kept.id)
        assert [one.status for one in await client.list_workflows_async()] == ["CANCELLED"]


async def test_a_job_that_is_deleted_meanwhile_is_left_out_or_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with jobs(tmp_path) as queue:
        kept, gone = [await queue.submit_batch("batch", {}, ROWS) for _ in range(2)]
        await queue.delete([gone.id])
        assert await queue.newest(10) == [kept]
        assert await queue._load([gone.id, kept.id]) == [kept]
        ended = replace(gone, status=JobStatus.SUCCEEDED)
        with pytest.raises(UnknownJob):
            await anext(queue.lines(ended))

        async def get(_job_id: str) -> Job:
            return ended

        monkeypatch.setattr(queue, "get", get)
        with pytest.raises(UnknownJob):
            await queue.result(gone.id)


async def test_jobs_wait_for_a_connection_in_vain_while_others_have_all(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        engine = sa.create_engine("sqlite://", poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0)
        with engine.connect(), pytest.raises(NotReady):
            await queue._connection.ask(engine.connect)


async def test_nothing_can_be_had_while_the_jobs_are_opened_again(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        await asyncio.to_thread(queue._connection.shut)
        for question in (
            queue.check(),
            queue.newest(1),
            queue.unfinished(),
            queue._retention.forget(datetime.now(UTC)),
        ):
            with pytest.raises(NotReady):
                await question


@pytest.mark.slow
async def test_a_service_that_stops_while_its_jobs_are_opened_again_lets_go_of_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_S", 0.01)
    began, go_on = threading.Event(), threading.Event()
    stopped: list[object] = []

    async with jobs(tmp_path, run_jobs=True) as queue:
        worker = queue._connection.worker
        assert worker is not None
        stop = worker.stop

        def stop_slowly() -> None:
            stopped.append(worker)
            began.set()
            assert go_on.wait(30)
            stop()

        monkeypatch.setattr(worker, "stop", stop_slowly)
        monkeypatch.setattr(queue._connection._presence, "beat", lambda: False)
        assert await asyncio.to_thread(began.wait, 30)
        closing = asyncio.create_task(queue.close())
        # It has all this time to let go as well, unless it waits.
        await asyncio.wait([closing], timeout=0.5)
        go_on.set()
        await closing
        assert stopped == [worker]
    async with jobs(tmp_path, run_jobs=True):
        pass


async def test_who_waits_is_let_go_when_the_service_stops(tmp_path: Path) -> None:
    async with jobs(tmp_path) as queue:
        job = await queue.submit("hold", {}, timeout_s=1.0)
        waiting = asyncio.create_task(queue.wait(job.id, 200.0))
        followed = queue.followers.follow(job)
        assert await anext(followed) == job
        queue.stop_waiting()
        async with asyncio.timeout(5):
            assert await waiting == job
            assert [now async for now in followed] == []


async def test_nothing_can_be_had_before_the_start(tmp_path: Path) -> None:
    queue = Jobs(Settings(state_dir=tmp_path), Pool("test", 1), Store(root=""), KINDS)
    with pytest.raises(NotReady):
        await queue.check()
    with pytest.raises(NotReady):
        await queue.newest(1)


@contextmanager
def role_that_changes_no_tables(url: str) -> Iterator[str]:
    """The address of a database for a role that may only use the tables that are there."""
    import psycopg

    name = f"recourse_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create role {name} login password '{name}'")
        connection.execute(f"grant usage on schema dbos to {name}")
        connection.execute(f"grant select, insert, update, delete on all tables in schema public, dbos to {name}")
    try:
        yield sa.make_url(url).set(username=name, password=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"drop owned by {name}")
            connection.execute(f"drop role {name}")


@needs_postgres
async def test_a_role_that_may_not_change_tables_has_jobs_once_they_were_migrated(tmp_path: Path) -> None:
    with database() as url:
        migrate(url)
        with role_that_changes_no_tables(url) as restricted:
            async with jobs(tmp_path, restricted) as queue:
                job = await queue.submit("hold", {}, timeout_s=1.0)
                batch = await queue.submit_batch("hold", {}, [{"row": 1}])
                assert {found.id for found in await queue.newest(10)} == {job.id, batch.id}


@needs_postgres
async def test_a_process_that_computes_jobs_leaves_connections_to_others(tmp_path: Path) -> None:
    """PostgreSQL allows a hundred by default, and many processes share them."""
    payload = {"ledger": str(tmp_path / "ledger"), "while": str(tmp_path / "nothing")}
    query = sa.text("select count(*) from pg_stat_activity where datname = current_database()")

    with database() as url:
        async with jobs(tmp_path, url, run_jobs=True) as queue:
            held = [await queue.submit("hold", payload, timeout_s=30.0) for _ in range(6)]
            ended = await asyncio.gather(*(queue.wait(job.id, 200.0) for job in held))
            assert {job.status for job in ended} == {JobStatus.SUCCEEDED}
            with queue._connection.engine.connect() as own:
                # Besides those of DBOS: one that listens, our pool, and that of the client.
                assert (own.scalar(query) or 0) <= CONNECTIONS + 1 + 5 + 5


@needs_postgres
async def test_a_job_store_that_became_read_only_says_so(tmp_path: Path) -> None:
    """As a standby does in the place of the primary: it is reached, and jobs are listed."""
    import psycopg

    with database() as url:
        async with jobs(tmp_path, url) as queue:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"alter database {url.rpartition('/')[2]} set default_transaction_read_only = on")
            drop_connections(url)
            with pytest.raises(NotReady, match="job store is read-only"):
                await queue.submit("hold", {}, timeout_s=1.0)


async def test_a_full_disk_is_named_where_the_job_store_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says only that it cannot open its file, or that the disk does not work."""
    (tmp_path / FILE).mkdir()
    monkeypatch.setattr(health, "LEAST_FREE", 2**62)
    settings = Settings(state_dir=tmp_path, run_jobs=False)
    connection = connection_module.Connection(settings, lambda _records: pytest.fail("it computes no jobs"))
    assert not await connection._try_to_open()
    assert connection.fault.startswith("The disk of the job store has less than ")
