"""The jobs: submit, look at, wait for, cancel. They are in a database and outlive every process.

Every process that reaches the database can do this; a `Worker` in some process computes the jobs. The libraries and the
database are opened in the background, so that requests without jobs are answered meanwhile.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from app.closing import pause
from app.compute.answers import Json
from app.compute.lane import Lane
from app.compute.messages import Store
from app.errors import JobCancelled, JobFinished, JobUnfinished, NotReady, UnknownJob
from app.jobs.connection import Connection
from app.jobs.executor import Executor, Fail, Finish, Keep, as_computed, kept_nowhere, only_failed
from app.jobs.ids import ids_are_reserved, new_id
from app.jobs.job import BATCH, JOB_ID, STARTED, Job, JobStatus
from app.jobs.kinds import JobKind
from app.jobs.names import APPLICATION, BATCH_WORKFLOW, BATCHES, JOBS_QUEUE, VERSION, WORKFLOW
from app.jobs.retention import Retention
from app.jobs.workflows import count_unfinished, ids_about, newest_ids
from app.metrics import Metrics
from app.observability import request_id
from app.settings import Settings
from app.store.keys import asking, asking_id, may_see, seen_by

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from app.jobs.batch.chunks import Chunks
    from app.jobs.worker import Worker

LOOK_S = 0.05
"""Pause between two looks at a job that a client waits for; grows to `LONGEST_LOOK_S`."""

LONGEST_LOOK_S = 0.5


class Jobs:
    """All jobs of one database; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    lane : computes them; started with the first job
    store : the models, as the children see them
    kinds : what jobs there are
    finish : what happens to a result before its job has succeeded
    fail : what happens to an error before its job has failed
    keep : what happens to the lines of a batch before their chunk is finished
    metrics : counts the jobs that this process computes
    """

    def __init__(
        self,
        settings: Settings,
        lane: Lane,
        store: Store,
        kinds: Mapping[str, JobKind],
        finish: Finish = as_computed,
        fail: Fail = only_failed,
        keep: Keep = kept_nowhere,
        metrics: Metrics | None = None,
    ) -> None:
        self._settings = settings
        self._kinds = kinds
        self._executor = partial(
            Executor, lane, store, kinds,
            report=self._note_progress, finish=finish, fail=fail, keep=keep, metrics=metrics or Metrics(),
        )  # fmt: skip
        self._connection = Connection(settings, self._new_worker)
        self._retention = Retention(self._connection, settings.jobs_days)
        self._opening: asyncio.Task[None] | None = None
        self._forgetting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Open the database in the background, and resume unfinished jobs."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def opened(self) -> None:
        """Return once the database has been opened, or the service stops."""
        if self._opening is not None:
            await asyncio.shield(self._opening)

    def stop_waiting(self) -> None:
        """End every `wait` and `watch`: the service stops."""
        self._connection.closing.set()

    async def close(self) -> None:
        """Stop computing; unfinished jobs are left to the next process that opens the database."""
        self.stop_waiting()
        # Not cancelled: a thread that has begun to open the database goes on, and what it opens must be closed.
        if self._opening is not None:
            await self._opening
        if self._forgetting is not None:
            self._forgetting.cancel()
        background = [task for task in (self._forgetting, self._watching) if task is not None]
        await asyncio.gather(*background, return_exceptions=True)
        await asyncio.to_thread(self._connection.shut)

    async def submit(
        self, kind: str, payload: Json, *, timeout_s: float, about: str | None = None, detail: str = "full"
    ) -> Job:
        """Enqueue a job. After `timeout_s` of computation its child is killed and the job fails.

        `about` is the id of the recourse that the job computes or belongs to, by which `holding` finds the job; of
        future models, the name of their version. Raises `NotReady` while the database cannot be reached.
        """
        job_id = await self._new_id()
        return await self._enqueue(job_id, WORKFLOW, JOBS_QUEUE, kind, payload, timeout_s, about=about, detail=detail)

    async def submit_batch(self, kind: str, payload: Json, rows: Iterable[Json], *, detail: str = "full") -> Job:
        """Enqueue a batch. Each row may be computed for the payload's ``deadline_s``.

        `rows` is consumed in a thread. A kind for batches is given the payload with some of the ``rows`` and the
        position of the ``first`` of them, and returns one line for each. Raises `NotReady`, and whatever `rows` raises.
        """
        job_id = await self._new_id()
        count = await self._connection.add_chunks(job_id, rows)
        return await self._enqueue(job_id, BATCH_WORKFLOW, BATCHES, kind, payload, count, detail=detail)

    async def get(self, job_id: str) -> Job:
        """One job. Raises `UnknownJob`, also where the key of this context may not see it."""
        if not JOB_ID.fullmatch(job_id):
            raise UnknownJob
        found = [job for job in await self._load([job_id]) if may_see(job.key, job.model)]
        if not found:
            raise UnknownJob(f"There is no job {job_id}.")
        return found[0]

    async def newest(self, limit: int, *, before: str | None = None) -> list[Job]:
        """The newest jobs of the key of this context, newest first; those before the id `before`."""
        seen = seen_by(asking.get())
        return await self._load(await self._connection.ask(newest_ids, self._connection.engine, limit, before, **seen))

    async def about(self, name: str) -> list[Job]:
        """The jobs that were submitted with this `about`, of every caller. Raises `NotReady`."""
        return await self._load(await self._connection.ask(ids_about, self._connection.engine, name))

    async def result(self, job_id: str) -> Any:
        """The result of a job.

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
        """The results of a batch in the order of its rows, one chunk of lines at a time, each line with its end.

        Raises as `result`, before the first chunk.
        """
        _require_result(job)
        chunks = self._connection.chunks
        # At least one, so that a batch which is deleted meanwhile raises before the first chunk.
        count = await self._connection.ask(chunks.count, job.id)
        for number in range(max(count, 1)):
            yield await self._connection.ask(chunks.lines, job.id, number)

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job and kill the child that computes it. Idempotent. Raises `JobFinished`."""
        job = await self.get(job_id)
        if not job.status.finished:
            if job.started_at is not None:
                # DBOS drops this time when it cancels.
                await self._set_attribute(job_id, STARTED, round(1000.0 * job.started_at.timestamp()))
            client = self._connection.client
            await self._connection.reached(client.cancel_workflow_async(job_id, cancel_children=True))
            if self._connection.worker is not None:
                self._connection.worker.interrupt(job_id)
            job = await self.get(job_id)
        if job.status is not JobStatus.CANCELLED:
            raise JobFinished
        return job

    async def delete(self, job_ids: Sequence[str]) -> None:
        """Delete jobs with their payloads and results. Idempotent."""
        await self._retention.delete(job_ids)

    async def sweep(self, now: datetime) -> None:
        """Delete ended jobs that are old at a moment."""
        await self._retention.sweep(now)

    async def holding(self, recourse_id: str) -> list[str]:
        """Ids of the jobs that hold data of one recourse: computed it, alone or in a batch, or belong to it."""
        batches = await self._connection.ask(self._connection.chunks.holding, recourse_id)
        return [*await self._connection.ask(ids_about, self._connection.engine, recourse_id), *batches]

    async def erase(self, job_id: str, recourse_id: str) -> bool:
        """Erase one recourse from a job: its line of a batch, otherwise the whole job. True if the job is deleted."""
        if await self._connection.ask(self._connection.chunks.erase, job_id, recourse_id):
            await self._connection.overwrite()
            return False
        await self.delete([job_id])
        return True

    async def wait(self, job_id: str, timeout_s: float) -> Job:
        """The job once it has ended, or as it is after `timeout_s`."""
        give_up, closing = time.monotonic() + timeout_s, self._connection.closing
        job = await self.get(job_id)
        pause_s = LOOK_S
        while not job.status.finished and (left_s := give_up - time.monotonic()) > 0 and not closing.is_set():
            await pause(closing, min(pause_s, left_s))
            pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
            job = await self.get(job_id)
        return job

    async def watch(self, job: Job) -> AsyncIterator[Job]:
        """The job as it is, and again after each change, until it has ended or the service stops."""
        yield job
        pause_s = LOOK_S
        while not job.status.finished and not self._connection.closing.is_set():
            await pause(self._connection.closing, pause_s)
            now = await self.get(job.id)
            if now == job:
                pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
                continue
            yield (job := now)
            # Approaches one or two looks per change while a job makes steady progress.
            pause_s = max(pause_s / 2.0, LOOK_S)

    async def unfinished(self) -> dict[tuple[str, str], int]:
        """Number of unfinished jobs by kind and status. Raises `NotReady`."""
        found: Counter[tuple[str, str]] = Counter()
        for (kind, status), count in (await self._connection.ask(count_unfinished, self._connection.engine)).items():
            # One label for all kinds of other releases, whose number has no limit.
            found[kind if kind in self._kinds else "unknown", status] += count
        return found

    async def check(self) -> None:
        """Raise `NotReady` if jobs are unavailable now, or not computed although they should be."""
        if self._opening is None or not self._opening.done():
            raise NotReady(self._connection.fault)
        await self._connection.check()

    async def _open(self) -> None:
        if await self._connection.open() and self._settings.run_jobs:
            loop = asyncio.get_running_loop()
            self._forgetting = loop.create_task(self._retention.run())
            self._watching = loop.create_task(self._connection.watch())

    def _new_worker(self, chunks: "Chunks") -> "Worker":
        from app.jobs.worker import Worker

        return Worker(self._executor(chunks))

    async def _new_id(self) -> str:
        """The id of a new job. With reserved ids, that of the job of an earlier attempt, unless that job failed."""
        # Raises before a reserved id is used up.
        _ = self._connection.client
        job_id = new_id("job")
        if ids_are_reserved():
            with suppress(UnknownJob):
                if (await self.get(job_id)).status is JobStatus.FAILED:
                    # The client retries because of this failure.
                    await self.delete([job_id])
        return job_id

    async def _enqueue(
        self,
        job_id: str,
        workflow: str,
        queue: str,
        kind: str,
        payload: Json,
        *args: Any,
        about: str | None = None,
        detail: str,
    ) -> Job:
        assert kind in self._kinds, kind
        options: Any = {
            "workflow_name": workflow,
            "queue_name": queue,
            "workflow_id": job_id,
            "app_version": VERSION,
            "application_name": APPLICATION,
            "attributes": {
                "kind": kind,
                "request_id": request_id.get(),
                "about": about,
                "detail": detail,
                "key": asking_id(),
                "model": payload.get("model", {}).get("name", "").partition("@")[0] or None,
            },
        }
        await self._connection.reached(self._connection.client.enqueue_async(options, kind, payload, *args))
        return await self.get(job_id)

    async def _load(self, job_ids: list[str]) -> list[Job]:
        """Jobs in the order of the given ids, without those that are gone."""
        if not job_ids:
            return []
        records = {record.workflow_id: record for record in await self._records(job_ids, load_output=False)}
        batches = [record.workflow_id for record in records.values() if (record.attributes or {}).get("kind") == BATCH]
        # Results can be large, so only errors and the counts of batches are loaded.
        failed = [record.workflow_id for record in records.values() if record.status == "ERROR"]
        if short := [*failed, *(one for one in batches if records[one].status == "SUCCESS")]:
            records |= {record.workflow_id: record for record in await self._records(short, load_output=True)}
        rows = await self._connection.ask(self._connection.chunks.progress, batches) if batches else {}
        return [Job.of(records[job_id], rows.get(job_id)) for job_id in job_ids if job_id in records]

    async def _records(self, job_ids: list[str], *, load_output: bool) -> "list[WorkflowStatus]":
        client = self._connection.client
        return await self._connection.reached(
            client.list_workflows_async(workflow_ids=job_ids, load_input=False, load_output=load_output)
        )

    async def _note_progress(self, job_id: str, done: int, total: int) -> None:
        with suppress(NotReady):
            await self._set_attribute(job_id, "progress", [done, total])

    async def _set_attribute(self, job_id: str, name: str, value: Any) -> None:
        client = self._connection.client
        await self._connection.reached(client.update_workflow_attributes_async(job_id, {name: value}, merge=True))


def _require_result(job: Job) -> None:
    if not job.status.finished:
        raise JobUnfinished
    if job.status is JobStatus.CANCELLED:
        # Answers are promises as soon as they are in the ledger.
        recorded = f" GET /recourse?job={job.id} lists what it had recorded." if job.kind == BATCH else ""
        raise JobCancelled(f"{JobCancelled.__doc__}{recorded}")
    if job.error is not None and not job.has_result:
        raise job.error
