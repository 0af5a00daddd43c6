"""The jobs: submit, look at, wait for, cancel. They are in a database and outlive every process.

Every process that reaches the database can do this; a `Worker` in some process computes the jobs. The libraries and the
database are opened in the background, so that requests without jobs are answered meanwhile.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from app.errors import JobCancelled, JobFinished, JobUnfinished, NotReady, UnknownJob
from app.jobs.connection import Connection
from app.jobs.executor import Executor, Fail, Finish, Keep, as_computed, kept_nowhere, only_failed
from app.jobs.followers import Followers
from app.jobs.ids import ids_are_reserved, new_id
from app.jobs.job import BATCH, JOB_ID, Job, JobStatus
from app.jobs.kinds import JobKind
from app.jobs.records import Records
from app.jobs.retention import Retention
from app.keys.keys import asking, asking_id, may_see, seen_by
from app.metrics import Metrics
from app.observability import request_id
from app.pool.pool import Pool
from app.questions.answers import Json
from app.registry.ref import Store
from app.settings import Settings
from app.store.state import spool_directory

if TYPE_CHECKING:
    from app.jobs.worker import Worker


class Jobs:
    """All jobs of one database; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    lane : pool of child processes that compute jobs; started with the first job
    store : the store of models, as child processes see it
    kinds : the kinds of jobs, by name
    finish : called with the result of a single job before the job counts as succeeded; its return value is stored
    fail : called with the error of a job before the job counts as failed
    keep : called with lines of a batch before the lines count as finished
    metrics : counts the jobs that end in this process
    """

    def __init__(
        self,
        settings: Settings,
        lane: Pool,
        store: Store,
        kinds: Mapping[str, JobKind],
        finish: Finish = as_computed,
        fail: Fail = only_failed,
        keep: Keep = kept_nowhere,
        metrics: Metrics | None = None,
    ) -> None:
        self._settings = settings
        self._kinds = kinds
        self._metrics = metrics or Metrics()
        self._executor = partial(
            Executor, lane=lane, store=store, kinds=kinds, stop_others=self._stop_parts, finish=finish, fail=fail,
            keep=keep, ended=self._note_end, directory=spool_directory(settings),
        )  # fmt: skip
        self._connection = Connection(settings, self._new_worker)
        self._retention = Retention(self._connection, settings.jobs_days)
        self.followers = Followers(self._load, self._connection.closing)
        self._opening: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Open the database in the background, and continue unfinished jobs."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def opened(self) -> None:
        """Wait until the database is open, or the service stops."""
        if self._opening is not None:
            await asyncio.shield(self._opening)

    def stop_waiting(self) -> None:
        """End all waits and event streams, as the service stops."""
        self._connection.closing.set()

    async def close(self) -> None:
        """Stop computing; the next process that opens the database continues the unfinished jobs."""
        self.stop_waiting()
        # Not cancelled: a thread that has begun to open the database goes on, and what it opens must be closed.
        if self._opening is not None:
            await self._opening
        for task in self._background[1:]:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.to_thread(self._connection.shut)

    async def submit(
        self, kind: str, payload: Json, *, timeout_s: float, about: str | None = None, detail: str = "full"
    ) -> Job:
        """Queue a job, and return it.

        Raises `NotReady` while the database cannot be reached.

        Parameters
        ----------
        timeout_s : seconds of computation after which the child process is killed and the job fails
        about : id of the recourse that the job computes or belongs to, by which `holding` finds the job; or the name of
            the version whose future models the job makes
        detail : how much of the result the client asked for, `short` or `full`
        """
        return await self._submit(kind, payload, None, timeout_s=timeout_s, about=about, detail=detail)

    async def submit_batch(
        self, kind: str, payload: Json, rows: Iterable[Json], *, detail: str = "full", closed: bool = False
    ) -> Job:
        """Queue a batch, and return its job. The payload's ``deadline_s`` is the time in seconds for each row.

        The function of the kind is called with the payload, some of the ``rows`` and the position of the ``first`` of
        these rows; it returns one line for each of these rows. If `closed`, the function is called once more after the
        last row: with the path of a file of all ``lines`` instead of rows. Then it returns one line, the result of the
        whole job.

        Raises `NotReady`, and whatever iterating over `rows` raises. A thread iterates over `rows`.
        """
        return await self._submit(kind, payload, rows, timeout_s=None, about=None, detail=detail, closed=closed)

    async def get(self, job_id: str) -> Job:
        """The job with this id.

        Raises `UnknownJob` if there is no such job, or the API key of the current request may not see it.
        """
        if not JOB_ID.fullmatch(job_id):
            raise UnknownJob
        for job in await self._load([job_id]):
            if may_see(job.key, job.model):
                return job
        raise UnknownJob(f"There is no job {job_id}.")

    async def newest(self, limit: int, **which: Any) -> list[Job]:
        """At most `limit` jobs that the API key of the current request may see, newest first.

        `which` has further arguments of `Records.newest`, which narrow the selection.
        """
        return await self._connection.ask(self._connection.records.newest, limit, **which, **seen_by(asking.get()))

    async def begun_with(self, job_ids: Collection[str]) -> dict[str, str]:
        """By job id, the first `HEAD` characters of the job's result; jobs without a result are left out.

        Not for batches.
        """
        return await self._connection.ask(self._connection.records.heads, job_ids)

    async def about(self, name: str) -> list[Job]:
        """The jobs that any caller has submitted with the argument `about` equal to `name`. Raises `NotReady`."""
        return await self._connection.ask(self._connection.records.about, name)

    async def result(self, job_id: str) -> Any:
        """The result of a job, from its JSON.

        Raises
        ------
        UnknownJob, JobUnfinished, JobCancelled : there is no result
        RecourseError : the job failed; the error says why
        """
        job = await self.get(job_id)
        _require_result(job)
        return json.loads(await self._connection.ask(self._connection.records.lines, job_id, job.parts - 1))

    async def lines(self, job: Job, *, closed: bool = False) -> AsyncIterator[str]:
        """The result lines of a batch, in the order of its rows; each item is a text of several lines with line ends.

        Before the first item, raises `JobUnfinished`, `JobCancelled`, or the error of a failed job.

        Parameters
        ----------
        closed : whether the job was submitted with `closed`; then its last line, the result of the whole job, is left
            out
        """
        _require_result(job)
        for number in range(job.parts - closed):
            yield await self._connection.ask(self._connection.records.lines, job.id, number)

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job, kill the child process that computes it, and return the job.

        Idempotent. Raises `JobFinished` where the job has ended otherwise.
        """
        job = await self.get(job_id)
        if not job.status.finished:
            cancelled = await self._connection.ask(self._connection.records.cancel, job_id)
            if cancelled is not None and cancelled.started_at is not None:
                self._note_end(cancelled)
            # Also where another request has cancelled it: the process that did may have died before this.
            await self._stop_parts(job_id)
            job = cancelled or await self.get(job_id)
        if job.status is not JobStatus.CANCELLED:
            raise JobFinished
        return job

    async def delete(self, job_ids: Collection[str]) -> None:
        """Delete jobs, with their payloads and results. Idempotent."""
        await self._retention.delete(await self._load(job_ids))

    async def sweep(self, now: datetime) -> None:
        """Delete the jobs that have ended and whose retention period is over at the time `now`."""
        await self._retention.sweep(now)

    async def holding(self, recourse_id: str) -> list[str]:
        """Ids of the jobs that hold data of one recourse: the jobs that computed the recourse, or belong to it."""
        return await self._connection.ask(self._connection.records.holding, recourse_id)

    async def erase(self, job_id: str, recourse_id: str) -> bool:
        """Erase one recourse from a job. Of a batch, only the line of the recourse is erased; another job is deleted.

        Returns whether the job is deleted.
        """
        if await self._connection.ask(self._connection.records.erase, job_id, recourse_id):
            await self._connection.overwrite()
            return False
        await self.delete([job_id])
        return True

    async def wait(self, job_id: str, timeout_s: float) -> Job:
        """The job, as soon as it has ended, but at the latest after `timeout_s` seconds."""
        job = await self.get(job_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), aclosing(self.followers.follow(job)) as states:
                async for now in states:
                    job = now
        return job

    async def unfinished(self) -> dict[tuple[str, str], int]:
        """Number of jobs that have not ended, by kind and status. Raises `NotReady`."""
        found: Counter[tuple[str, str]] = Counter()
        for (kind, status), count in (await self._connection.ask(self._connection.records.count_unfinished)).items():
            found[self._label(kind), status] += count
        return found

    async def check(self) -> None:
        """Raise `NotReady` if jobs cannot be submitted now, or if this process has to compute jobs and cannot do so."""
        if self._opening is None or not self._opening.done():
            raise NotReady(self._connection.fault)
        await self._connection.check()

    async def _open(self) -> None:
        if await self._connection.open() and self._settings.run_jobs:
            create = asyncio.get_running_loop().create_task
            self._background = [create(self._connection.watch()), create(self._retention.run())]

    def _new_worker(self, records: Records) -> "Worker":
        from app.jobs.worker import Worker

        return Worker(self._executor(records=records))

    async def _submit(
        self, kind: str, payload: Json, rows: Iterable[Json] | None, *, timeout_s: float | None, about: str | None,
        detail: str, closed: bool = False,
    ) -> Job:  # fmt: skip
        assert kind in self._kinds, kind
        # Raises before a reserved id is used up.
        records = self._connection.records
        job_id = new_id("job")
        if ids_are_reserved():
            with suppress(UnknownJob):
                earlier = await self.get(job_id)
                if earlier.status is not JobStatus.FAILED:
                    return earlier
                # The client retries because of this failure.
                await self.delete([job_id])
        model, _, version = payload.get("model", {}).get("name", "").partition("@")
        row = {
            "id": job_id, "kind": kind, "payload": payload, "timeout_s": timeout_s, "request_id": request_id.get(),
            "about": about, "detail": detail, "key": asking_id(), "model": model or None, "version": version or None,
        }  # fmt: skip
        children = 1 if rows is None else await self._connection.children()
        await self._connection.ask(records.submit, row, rows, children=children, closed=closed)
        return await self.get(job_id)

    async def _load(self, job_ids: Collection[str]) -> list[Job]:
        """Jobs, newest first, without those that are gone."""
        return await self._connection.ask(self._connection.records.load, job_ids) if job_ids else []

    async def _stop_parts(self, job_id: str) -> None:
        """Stop computing a job that has ended, wherever it is computed."""
        numbers = await self._connection.ask(self._connection.records.unfinished_parts, job_id)
        await self._connection.ask(self._connection.queue.cancel, job_id, numbers)
        if self._connection.worker is not None:
            self._connection.worker.interrupt(job_id)

    def _note_end(self, job: Job) -> None:
        """Count a job that has ended."""
        self._metrics.job(self._label(job.kind), job.outcome, job.seconds)

    def _label(self, kind: str) -> str:
        # One label for all kinds of other releases, whose number has no limit.
        return kind if kind in self._kinds else "unknown"


def _require_result(job: Job) -> None:
    if not job.status.finished:
        raise JobUnfinished
    if job.status is JobStatus.CANCELLED:
        # Answers are promises as soon as they are in the ledger.
        recorded = f" GET /recourse?job={job.id} lists what it had recorded." if job.kind == BATCH else ""
        raise JobCancelled(f"{JobCancelled.__doc__}{recorded}")
    if job.error is not None and not job.has_result:
        raise job.error
