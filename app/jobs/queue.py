"""The jobs: submit, look at, wait for, cancel. They are in a database and outlive every process.

Whoever can reach the database can do this; a `Worker` in some process computes them. The libraries and the database are
opened in the background, so that requests which need neither are answered meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from app.errors import JobCancelled, JobFinished, JobUnfinished, NotReady, RecourseError, UnknownJob
from app.jobs.answer import Json
from app.jobs.ids import new_id
from app.jobs.job import FINISHED, JOB_ID, Job, JobStatus
from app.jobs.pool import Lane
from app.jobs.task import JobKind, Store
from app.observability import log, request_id, trace
from app.settings import Settings

if TYPE_CHECKING:
    import sqlalchemy as sa
    from dbos import DBOSClient, WorkflowStatus

    from app.jobs.database import Claim
    from app.jobs.worker import Worker

Answer = TypeVar("Answer")

RETRY_S = 1.0
"""Pause after the database could not be opened; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 15.0

PING_S = 3.0
"""The database answers a check within this time, or it counts as lost."""

TAKE_UP_S = 0.1
"""How often this process looks for new jobs."""

FORGET_S = 3600.0
"""How often old jobs are deleted."""

FORGET_AT_ONCE = 200

LOOK_S = 0.05
"""Pause between two looks at a job that somebody waits for; grows to `LONGEST_LOOK_S`."""

LONGEST_LOOK_S = 0.5


class Jobs:
    """All jobs of one database; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    lane : computes them; started with the first job
    store : the models, as the children see them
    kinds : what jobs there are
    """

    def __init__(self, settings: Settings, lane: Lane, store: Store, kinds: Mapping[str, JobKind]) -> None:
        self._settings = settings
        self._lane = lane
        self._store = store
        self._kinds = kinds
        self._opening: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None
        self._engine: sa.Engine | None = None
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
        if self._opening is not None:
            # Not cancelled: what it has begun in a thread goes on, and has to be undone.
            await self._opening
        if self._forgetting is not None:
            self._forgetting.cancel()
            with suppress(asyncio.CancelledError):
                await self._forgetting
        await asyncio.to_thread(self._shut)

    # --- what can be done ---

    async def submit(self, kind: str, payload: Json, *, timeout_s: float) -> Job:
        """Put a job in the line. It may be computed for `timeout_s`; then its child is killed and it has failed.

        Raises `NotReady` while the database cannot be reached.
        """
        assert kind in self._kinds, kind
        from app.jobs.worker import APPLICATION, QUEUE, VERSION, WORKFLOW

        job_id = new_id("job")
        options: Any = {
            "workflow_name": WORKFLOW,
            "queue_name": QUEUE,
            "workflow_id": job_id,
            "app_version": VERSION,
            "application_name": APPLICATION,
            "attributes": {"kind": kind, "request_id": request_id.get()},
        }
        await self._reached(self._opened().enqueue_async(options, kind, payload, timeout_s))
        return await self.get(job_id)

    async def get(self, job_id: str) -> Job:
        """One job. Raises `UnknownJob`."""
        (job,) = await self._load([job_id])
        return job

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
        job = await self.get(job_id)
        if not job.status.finished:
            raise JobUnfinished
        if job.status is JobStatus.CANCELLED:
            raise JobCancelled
        if job.error is not None:
            raise job.error
        (record,) = await self._records([job_id], load_output=True)
        return record.output

    async def cancel(self, job_id: str) -> Job:
        """End a job, and the child that computes it; once more does no harm. Raises `JobFinished`."""
        job = await self.get(job_id)
        if not job.status.finished:
            await self._reached(self._opened().cancel_workflow_async(job_id))
            if self._worker is not None:
                self._worker.interrupt(job_id)
            job = await self.get(job_id)
        if job.status is not JobStatus.CANCELLED:
            raise JobFinished
        return job

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
            pause_s = LOOK_S

    async def forget(self, before: datetime) -> int:
        """Delete jobs that have ended and were asked for before a moment; how many those were."""
        from app.jobs.worker import WORKFLOW

        client, deleted = self._opened(), 0
        while True:
            records = await self._reached(
                client.list_workflows_async(
                    name=WORKFLOW,
                    status=FINISHED,
                    end_time=before.isoformat(),
                    limit=FORGET_AT_ONCE,
                    load_input=False,
                    load_output=False,
                )
            )
            if not records:
                return deleted
            await self._reached(client.delete_workflows_async([record.workflow_id for record in records]))
            deleted += len(records)

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

    async def _reached(self, question: Awaitable[Answer]) -> Answer:
        import sqlalchemy as sa

        try:
            return await question
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
        """Jobs in the order of their ids given. Raises `UnknownJob`."""
        if not all(JOB_ID.fullmatch(job_id) for job_id in job_ids):
            raise UnknownJob
        if not job_ids:
            return []
        records = {record.workflow_id: record for record in await self._records(job_ids, load_output=False)}
        # Results can be large; errors are short, and only failed jobs have one.
        if failed := [record.workflow_id for record in records.values() if record.status == "ERROR"]:
            records |= {record.workflow_id: record for record in await self._records(failed, load_output=True)}
        if missing := [job_id for job_id in job_ids if job_id not in records]:
            raise UnknownJob(f"There is no job {missing[0]}.")
        return [Job.of(records[job_id]) for job_id in job_ids]

    def _ids(self, limit: int, before: str | None) -> list[str]:
        """Ids in descending order, the order of creation. DBOS can only sort by time, and times can be equal."""
        import sqlalchemy as sa

        from app.jobs.worker import WORKFLOW

        assert self._engine is not None
        schema = None if self._engine.dialect.name == "sqlite" else "dbos"
        table = sa.table("workflow_status", sa.column("workflow_uuid"), sa.column("name"), schema=schema)
        query = sa.select(table.c.workflow_uuid).where(table.c.name == WORKFLOW)
        if before is not None:
            query = query.where(table.c.workflow_uuid < before)
        with self._engine.connect() as connection:
            return list(connection.scalars(query.order_by(table.c.workflow_uuid.desc()).limit(limit)))

    def _ping(self) -> None:
        import sqlalchemy as sa

        assert self._engine is not None
        with self._engine.connect() as connection:
            connection.execute(sa.select(1))

    async def _note_progress(self, job_id: str, done: int, total: int) -> None:
        with suppress(NotReady):
            client = self._opened()
            attributes = {"progress": [done, total]}
            await self._reached(client.update_workflow_attributes_async(job_id, attributes, merge=True))

    async def _open(self) -> None:
        pause_s = RETRY_S
        while not await self._try_to_open():
            await self._pause(pause_s)
            if self._closing.is_set():
                return
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        if self._settings.run_jobs:
            self._forgetting = asyncio.get_running_loop().create_task(self._forget_for_ever())

    async def _forget_for_ever(self) -> None:
        while True:
            with suppress(NotReady):
                deleted = await self.forget(datetime.now(UTC) - timedelta(days=self._settings.jobs_days))
                log.info("jobs-forgotten", deleted=deleted)
            await asyncio.sleep(FORGET_S)

    async def _try_to_open(self) -> bool:
        """Whether jobs can be had now; if not, why not is in the log and in `_fault`."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._connect)
            if self._settings.run_jobs:
                from app.jobs.worker import Worker

                worker = Worker(self._lane, self._store, self._kinds, self._note_progress)
                await asyncio.to_thread(worker.start, self._url, self._settings.executor_id)
                self._worker = worker
        except Exception as error:  # noqa: BLE001 - whatever the driver or the database raises, it is tried again
            self._fault = error.detail if isinstance(error, RecourseError) else "The job store cannot be opened."
            log.error("job-store-not-opened", reason=self._fault, trace=trace(error))
            await asyncio.to_thread(self._shut)
            return False
        log.info("job-store-opened", ms=round(1000.0 * (time.monotonic() - began)), computes=self._settings.run_jobs)
        return True

    def _connect(self) -> None:
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

        from app.jobs.database import Claim, database_url, open_engine
        from app.jobs.worker import APPLICATION, QUEUE

        self._url = database_url(self._settings)
        self._engine = open_engine(self._url)
        self._ping()
        if self._settings.run_jobs:
            self._claim = Claim(self._engine, self._settings)
        DBOS.migrate(self._url)
        client = DBOSClient(
            system_database_url=self._url,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
        size = self._settings.lanes_bounds
        client.register_queue(
            QUEUE, worker_concurrency=size, polling_interval_sec=TAKE_UP_S, on_conflict="always_update"
        )
        self._client = client

    def _shut(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        if self._client is not None:
            self._client.destroy()
        if self._claim is not None:
            self._claim.release()
        if self._engine is not None:
            self._engine.dispose()
        self._worker = self._client = self._claim = self._engine = None
