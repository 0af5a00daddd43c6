"""The jobs: submit, look at, wait for, cancel. They are in a database and outlive every process.

Whoever can reach the database can do this; a `Worker` in some process computes them. The libraries and the database are
opened in the background, so that requests which need neither are answered meanwhile.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from app.errors import JobCancelled, JobFinished, JobUnfinished, NotReady, RecourseError, UnknownJob
from app.jobs.answer import Json
from app.jobs.asked import Store
from app.jobs.ids import first_id, ids_are_reserved, new_id
from app.jobs.job import BATCH, FINISHED, JOB_ID, STARTED, STATUSES, Job, JobStatus
from app.jobs.kinds import JobKind
from app.jobs.pool import Lane
from app.metrics import Metrics
from app.observability import log, request_id, trace
from app.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa
    from dbos import DBOSClient, WorkflowStatus

    from app.jobs.chunks import Chunks
    from app.jobs.database import Claim
    from app.jobs.worker import Finish, Keep, Worker

Answer = TypeVar("Answer")

RETRY_S = 1.0
"""Pause after the database could not be opened; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 15.0

PING_S = 3.0
"""The database answers a check within this time, or it counts as lost."""

TAKE_UP_S = 0.5
"""How often this process looks for new jobs and batches; each look costs it some milliseconds."""

NEXT_CHUNK_S = 0.25
"""How often it looks for chunks: less than a child needs for one, or it would wait for the next."""

BATCHES_AT_ONCE = 8
"""Batches whose chunks one process puts into the line side by side."""

WATCH_S = 2.0
"""How often it is looked for jobs of processes that are gone."""

LOOKS = 3
"""So often in a row a process must seem to be gone."""

FORGET_S = 3600.0
"""How often old jobs are deleted."""

FORGET_AT_ONCE = 200

LOST_S = 3600.0
"""Rows of a batch that have become no job in this time never will."""

LOOK_S = 0.05
"""Pause between two looks at a job that somebody waits for; grows to `LONGEST_LOOK_S`."""

LONGEST_LOOK_S = 0.5


async def as_computed(_job_id: str, _kind: str, _payload: Json, result: Json) -> Json:
    """The result of a job as it is."""
    return result


async def kept_nowhere(_job_id: str, _payload: Json, _lines: Sequence[str]) -> None:
    """Lines are in their batch alone."""


class Jobs:
    """All jobs of one database; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    lane : computes them; started with the first job
    store : the models, as the children see them
    kinds : what jobs there are
    finish : what happens to a result before it counts as computed
    keep : what happens to lines of a batch before their chunk counts as computed
    metrics : where the jobs that this process computes are counted
    """

    def __init__(
        self,
        settings: Settings,
        lane: Lane,
        store: Store,
        kinds: Mapping[str, JobKind],
        finish: "Finish" = as_computed,
        keep: "Keep" = kept_nowhere,
        metrics: Metrics | None = None,
    ) -> None:
        self._settings = settings
        self._lane = lane
        self._store = store
        self._kinds = kinds
        self._finish = finish
        self._metrics = metrics or Metrics()
        self._keep = keep
        self._opening: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._engine: sa.Engine | None = None
        self._chunks: Chunks | None = None
        self._claim: Claim | None = None
        self._client: DBOSClient | None = None
        self._worker: Worker | None = None
        self._url = ""
        self._fault = "The job store has not been opened yet."
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Open the database in the background, and take up what was left unfinished."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def stop_waiting(self) -> None:
        """Let everybody who waits for a job go: the service stops."""
        self._closing.set()

    async def close(self) -> None:
        """Leave the jobs to the next process that opens the database."""
        self.stop_waiting()
        # Not cancelled: what they have begun in a thread goes on, and has to be undone.
        if self._opening is not None:
            await self._opening
        if self._forgetting is not None:
            self._forgetting.cancel()
        tending = [task for task in (self._forgetting, self._watching) if task is not None]
        await asyncio.gather(*tending, return_exceptions=True)
        await asyncio.to_thread(self._shut)

    # --- what can be done ---

    async def submit(self, kind: str, payload: Json, *, timeout_s: float, recourse: str | None = None) -> Job:
        """Put a job in the line. It may be computed for `timeout_s`; then its child is killed and it has failed.

        `recourse` is the id of the one that it computes, or computes something for; `holding` finds it by that. Raises
        `NotReady` while the database cannot be reached.
        """
        from app.jobs.worker import QUEUE, WORKFLOW

        job_id = await self._new_id()
        return await self._enqueue(job_id, WORKFLOW, QUEUE, kind, payload, timeout_s, recourse=recourse)

    async def submit_batch(self, kind: str, payload: Json, rows: Iterable[Json]) -> Job:
        """Put many rows in the line, each of which may be computed for the payload's ``deadline_s``.

        `rows` is consumed in a thread. A kind for batches gives one line for each of some ``rows`` of its payload, the
        ``first`` of which has that position. Raises `NotReady`, and whatever `rows` raises.
        """
        from app.jobs.worker import BATCH_WORKFLOW, BATCHES

        job_id = await self._new_id()
        count = await self._reached(asyncio.to_thread(self._chunks_opened().add, job_id, rows))
        return await self._enqueue(job_id, BATCH_WORKFLOW, BATCHES, kind, payload, count)

    async def _new_id(self) -> str:
        """The id of a new job, or that of one which somebody had begun and which goes on, unless it has failed."""
        self._opened()
        job_id = new_id("job")
        if ids_are_reserved():
            with suppress(UnknownJob):
                if (await self.get(job_id)).status is JobStatus.FAILED:
                    # The request is sent again because of that, and not to hear of it once more.
                    await self.delete([job_id])
        return job_id

    async def _enqueue(
        self, job_id: str, workflow: str, queue: str, kind: str, *args: Any, recourse: str | None = None
    ) -> Job:
        from app.jobs.worker import APPLICATION, VERSION

        assert kind in self._kinds, kind
        options: Any = {
            "workflow_name": workflow,
            "queue_name": queue,
            "workflow_id": job_id,
            "app_version": VERSION,
            "application_name": APPLICATION,
            "attributes": {"kind": kind, "request_id": request_id.get(), "recourse": recourse},
        }
        await self._reached(self._opened().enqueue_async(options, kind, *args))
        return await self.get(job_id)

    async def get(self, job_id: str) -> Job:
        """One job. Raises `UnknownJob`."""
        if not JOB_ID.fullmatch(job_id):
            raise UnknownJob
        found = await self._load([job_id])
        if not found:
            raise UnknownJob(f"There is no job {job_id}.")
        return found[0]

    async def newest(self, limit: int, *, before: str | None = None) -> list[Job]:
        """The newest jobs, newest first; those before the id `before`."""
        self._opened()
        return await self._load(await self._reached(asyncio.to_thread(self._ids, limit, before)))

    async def result(self, job_id: str) -> Any:
        """What a job has computed.

        Raises
        ------
        UnknownJob, JobUnfinished, JobCancelled : there is no result
        RecourseError : why the job failed
        """
        _require_result(await self.get(job_id))
        records = await self._records([job_id], load_output=True)
        if not records:
            raise UnknownJob(f"There is no job {job_id}.")
        return records[0].output

    async def lines(self, job: Job) -> AsyncIterator[str]:
        """The results of a batch in the order of its rows, some at a time, each with the end of its line.

        Errors as `result`, before anything is given.
        """
        _require_result(job)
        chunks = self._chunks_opened()
        # At least one, so that a batch which is deleted meanwhile is an error before anything is given.
        count = await self._reached(asyncio.to_thread(chunks.count, job.id))
        for number in range(max(count, 1)):
            yield await self._reached(asyncio.to_thread(chunks.lines, job.id, number))

    async def cancel(self, job_id: str) -> Job:
        """End a job, and the child that computes it; once more does no harm. Raises `JobFinished`."""
        job = await self.get(job_id)
        if not job.status.finished:
            if job.started_at is not None:
                # DBOS forgets it with the cancellation.
                await self._attribute(job_id, STARTED, round(1000.0 * job.started_at.timestamp()))
            await self._reached(self._opened().cancel_workflow_async(job_id, cancel_children=True))
            if self._worker is not None:
                self._worker.interrupt(job_id)
            job = await self.get(job_id)
        if job.status is not JobStatus.CANCELLED:
            raise JobFinished
        return job

    async def delete(self, job_ids: Sequence[str]) -> None:
        """Delete jobs with all that was asked and computed; no harm where they are gone already."""
        await self._reached(asyncio.to_thread(self._chunks_opened().delete, job_ids))
        await self._reached(self._opened().delete_workflows_async(list(job_ids), delete_children=True))

    async def holding(self, recourse_id: str) -> list[str]:
        """The jobs that hold something about one recourse: computed it, alone or among others, or something for it."""
        batches = await self._reached(asyncio.to_thread(self._chunks_opened().holding, recourse_id))
        return [*await self._reached(asyncio.to_thread(self._ids_about, recourse_id)), *batches]

    async def erase(self, job_id: str, recourse_id: str) -> bool:
        """Delete what a job holds about one recourse: its line where there are many, or else the job; whether that."""
        if await self._reached(asyncio.to_thread(self._chunks_opened().erase, job_id, recourse_id)):
            return False
        await self.delete([job_id])
        return True

    async def wait(self, job_id: str, timeout_s: float) -> Job:
        """The job once it has ended, or as it is after `timeout_s`."""
        give_up = time.monotonic() + timeout_s
        job = await self.get(job_id)
        pause_s = LOOK_S
        while not job.status.finished and (left_s := give_up - time.monotonic()) > 0 and not self._closing.is_set():
            await self._pause(min(pause_s, left_s))
            pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
            job = await self.get(job_id)
        return job

    async def watch(self, job: Job) -> AsyncIterator[Job]:
        """The job as it is, and again after each change, until it has ended or the service stops."""
        yield job
        pause_s = LOOK_S
        while not job.status.finished and not self._closing.is_set():
            await self._pause(pause_s)
            now = await self.get(job.id)
            if now == job:
                pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
                continue
            yield (job := now)
            # Towards one look or two for each change, of a job that goes on steadily.
            pause_s = max(pause_s / 2.0, LOOK_S)

    async def forget(self, before: datetime) -> int:
        """Delete jobs that have ended and were asked for before a moment; how many those were."""
        from app.jobs.worker import BATCH_WORKFLOW, WORKFLOW

        client, deleted = self._opened(), 0
        while True:
            records = await self._reached(
                client.list_workflows_async(
                    name=[WORKFLOW, BATCH_WORKFLOW],
                    status=FINISHED,
                    end_time=before.isoformat(),
                    limit=FORGET_AT_ONCE,
                    load_input=False,
                    load_output=False,
                )
            )
            if not records:
                return deleted
            await self.delete([record.workflow_id for record in records])
            deleted += len(records)

    async def forget_lost(self, before: datetime) -> int:
        """Delete the rows of batches from before a moment that became no job; how many chunks those had.

        The connection may be lost, or the process end, after they are stored.
        """
        return await self._reached(asyncio.to_thread(self._forget_lost, before))

    async def unfinished(self) -> dict[tuple[str, str], int]:
        """How many jobs have not ended, by kind and status. Raises `NotReady`."""
        self._opened()
        return await self._reached(asyncio.to_thread(self._count_unfinished))

    async def check(self) -> None:
        """Raise `NotReady` if jobs cannot be had now, or are not computed although they should be."""
        if self._opening is None or not self._opening.done():
            raise NotReady(self._fault)
        try:
            async with asyncio.timeout(PING_S):
                await self._reached(asyncio.to_thread(self._ping))
        except TimeoutError:
            raise NotReady("The job store does not answer.") from None

    # --- inside ---

    def _opened(self) -> "DBOSClient":
        if self._client is None:
            raise NotReady(self._fault)
        return self._client

    def _engine_opened(self) -> "sa.Engine":
        if self._engine is None:
            raise NotReady(self._fault)
        return self._engine

    def _chunks_opened(self) -> "Chunks":
        if self._chunks is None:
            raise NotReady(self._fault)
        return self._chunks

    async def _reached(self, question: Awaitable[Answer]) -> Answer:
        import sqlalchemy as sa

        try:
            return await question
        except sa.exc.IntegrityError:
            # The store has answered; that it was given what it has already is a fault of ours.
            raise
        except sa.exc.DBAPIError as error:
            log.error("job-store-lost", trace=trace(error))
            raise NotReady("The job store cannot be reached.") from None

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _records(self, job_ids: list[str], *, load_output: bool) -> "list[WorkflowStatus]":
        client = self._opened()
        return await self._reached(
            client.list_workflows_async(workflow_ids=job_ids, load_input=False, load_output=load_output)
        )

    async def _load(self, job_ids: list[str]) -> list[Job]:
        """Jobs in the order of their ids given, without those that are gone."""
        if not job_ids:
            return []
        records = {record.workflow_id: record for record in await self._records(job_ids, load_output=False)}
        # Results can be large; errors are short, and only failed jobs have one.
        if failed := [record.workflow_id for record in records.values() if record.status == "ERROR"]:
            records |= {record.workflow_id: record for record in await self._records(failed, load_output=True)}
        batches = [record.workflow_id for record in records.values() if (record.attributes or {}).get("kind") == BATCH]
        rows = await self._reached(asyncio.to_thread(self._chunks_opened().progress, batches)) if batches else {}
        return [Job.of(records[job_id], rows.get(job_id)) for job_id in job_ids if job_id in records]

    def _ids(self, limit: int, before: str | None) -> list[str]:
        """Ids in descending order, the order of creation. DBOS can only sort by time, and times can be equal."""
        import sqlalchemy as sa

        from app.jobs.worker import BATCH_WORKFLOW, WORKFLOW

        engine = self._engine_opened()
        table = _workflows(engine)
        query = sa.select(table.c.workflow_uuid).where(table.c.name.in_([WORKFLOW, BATCH_WORKFLOW]))
        if before is not None:
            query = query.where(table.c.workflow_uuid < before)
        with engine.connect() as connection:
            return list(connection.scalars(query.order_by(table.c.workflow_uuid.desc()).limit(limit)))

    def _ids_about(self, recourse_id: str) -> list[str]:
        """Ids of the jobs that one recourse was named for. DBOS finds attributes in PostgreSQL only."""
        import sqlalchemy as sa

        engine = self._engine_opened()
        table = _workflows(engine)
        named = table.c.attributes["recourse"].as_string() == recourse_id
        with engine.connect() as connection:
            return list(connection.scalars(sa.select(table.c.workflow_uuid).where(named)))

    def _count_unfinished(self) -> dict[tuple[str, str], int]:
        import sqlalchemy as sa

        from app.jobs.worker import BATCH_WORKFLOW, WORKFLOW

        engine = self._engine_opened()
        table = _workflows(engine)
        kind = table.c.attributes["kind"].as_string()
        waiting = table.c.status.in_([name for name in STATUSES if name not in FINISHED])
        jobs = table.c.name.in_([WORKFLOW, BATCH_WORKFLOW])
        query = sa.select(kind, table.c.status, sa.func.count()).where(waiting, jobs)
        found: Counter[tuple[str, str]] = Counter()
        with engine.connect() as connection:
            for name, status, count in connection.execute(query.group_by(kind, table.c.status)):
                # Of a kind that another release has stored there may be any number.
                found[name if name in self._kinds else "unknown", STATUSES[status].value] += count
        return found

    def _forget_lost(self, before: datetime) -> int:
        import sqlalchemy as sa

        from app.jobs.worker import BATCH_WORKFLOW

        table = _workflows(self._engine_opened())
        jobs = sa.select(table.c.workflow_uuid).where(table.c.name == BATCH_WORKFLOW).scalar_subquery()
        return self._chunks_opened().delete_lost(jobs, first_id("job", before))

    def _ping(self) -> None:
        import sqlalchemy as sa

        with self._engine_opened().connect() as connection:
            connection.execute(sa.select(1))

    async def _note_progress(self, job_id: str, done: int, total: int) -> None:
        with suppress(NotReady):
            await self._attribute(job_id, "progress", [done, total])

    async def _attribute(self, job_id: str, name: str, value: Any) -> None:
        await self._reached(self._opened().update_workflow_attributes_async(job_id, {name: value}, merge=True))

    async def _open(self) -> None:
        pause_s = RETRY_S
        while not await self._try_to_open():
            await self._pause(pause_s)
            if self._closing.is_set():
                return
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        if self._settings.run_jobs:
            loop = asyncio.get_running_loop()
            self._forgetting = loop.create_task(self._forget_for_ever())
            self._watching = loop.create_task(self._watch())

    async def _forget_for_ever(self) -> None:
        while True:
            with suppress(NotReady):
                deleted = await self.forget(datetime.now(UTC) - timedelta(days=self._settings.jobs_days))
                lost = await self.forget_lost(datetime.now(UTC) - timedelta(seconds=LOST_S))
                log.info("jobs-forgotten", deleted=deleted, lost_chunks=lost)
            await asyncio.sleep(FORGET_S)

    async def _watch(self) -> None:
        """Keep the claim, and finish what others had begun who are gone, until the service stops."""
        suspects: Counter[str] = Counter()
        while True:
            await self._pause(WATCH_S)
            if self._closing.is_set():
                return
            assert self._claim is not None
            with suppress(NotReady):
                if not await self._reached(asyncio.to_thread(self._claim.keep)):
                    await self._start_again()
                    suspects.clear()
                    continue
                deserted = await self._reached(asyncio.to_thread(self._claim.deserted))
                # A holder that has lost its connection takes its slot again meanwhile.
                suspects = Counter({name: suspects[name] + 1 for name in deserted})
                for name in [name for name, looks in suspects.items() if looks >= LOOKS]:
                    await self._adopt(name)

    async def _adopt(self, executor_id: str) -> None:
        assert self._claim is not None
        assert self._worker is not None
        adopt = partial(self._worker.adopt, executor_id)
        workflows = await self._reached(asyncio.to_thread(self._claim.adopt, executor_id, adopt))
        log.warning("jobs-adopted", executor=executor_id, workflows=workflows)

    async def _start_again(self) -> None:
        """Under another name: this one was taken by somebody else while the connection was lost."""
        assert self._claim is not None
        log.error("executor-id-lost", executor=self._claim.executor_id)
        self._fault = "The job store is being opened again."
        await asyncio.to_thread(self._shut)
        while not self._closing.is_set() and not await self._try_to_open():
            await self._pause(RETRY_S)

    async def _try_to_open(self) -> bool:
        """Whether jobs can be had now; if not, why not is in the log and in `_fault`."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._connect)
            if self._settings.run_jobs:
                from app.jobs.worker import Worker

                chunks = self._chunks_opened()
                assert self._claim is not None
                worker = Worker(
                    self._lane,
                    self._store,
                    self._kinds,
                    chunks,
                    self._note_progress,
                    self._finish,
                    self._keep,
                    self._metrics,
                )
                await asyncio.to_thread(worker.start, self._url, self._claim.executor_id)
                self._worker = worker
        except Exception as error:  # noqa: BLE001 - whatever the driver or the database raises, it is tried again
            self._fault = error.detail if isinstance(error, RecourseError) else "The job store cannot be opened."
            log.error("job-store-not-opened", reason=self._fault, trace=trace(error))
            await asyncio.to_thread(self._shut)
            return False
        log.info(
            "job-store-opened",
            ms=round(1000.0 * (time.monotonic() - began)),
            executor=self._claim and self._claim.executor_id,
        )
        return True

    def _connect(self) -> None:
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        from app.jobs.chunks import Chunks
        from app.jobs.database import FILE, Claim, migrate
        from app.jobs.worker import APPLICATION
        from app.store.engine import database_url, open_engine
        from app.store.state import require_state

        require_state(self._settings)
        self._url = database_url(self._settings, FILE)
        self._engine = open_engine(self._url)
        self._ping()
        if self._settings.run_jobs:
            self._claim = Claim(self._engine, self._settings)
        migrate(self._url)
        client = DBOSClient(
            system_database_url=self._url,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
        if self._settings.run_jobs:
            self._register_queues(client)
        self._client = client
        self._chunks = Chunks(self._engine)

    def _register_queues(self, client: "DBOSClient") -> None:
        """Say how much a process takes at once; DBOS keeps it in the database, where the last one decides for all."""
        from app.jobs.worker import BATCHES, CHUNKS, QUEUE

        size = self._settings.lanes_bounds
        # A child that has finished a chunk finds the next one waiting here, not in the database.
        for queue, at_once, pause_s in (
            (QUEUE, size, TAKE_UP_S),
            (BATCHES, BATCHES_AT_ONCE, TAKE_UP_S),
            (CHUNKS, 2 * size, NEXT_CHUNK_S),
        ):
            client.register_queue(
                queue, worker_concurrency=at_once, polling_interval_sec=pause_s, on_conflict="always_update"
            )

    def _shut(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        if self._client is not None:
            self._client.destroy()
        if self._claim is not None:
            self._claim.release()
        if self._engine is not None:
            self._engine.dispose()
        self._worker = self._client = self._claim = self._chunks = self._engine = None


def _workflows(engine: "sa.Engine") -> "sa.TableClause":
    """The table of DBOS in which jobs are, as far as it is read here."""
    import sqlalchemy as sa

    columns = [sa.column("workflow_uuid"), sa.column("name"), sa.column("status"), sa.column("attributes", sa.JSON)]
    return sa.table("workflow_status", *columns, schema=None if engine.dialect.name == "sqlite" else "dbos")


def _require_result(job: Job) -> None:
    if not job.status.finished:
        raise JobUnfinished
    if job.status is JobStatus.CANCELLED:
        raise JobCancelled
    if job.error is not None:
        raise job.error
