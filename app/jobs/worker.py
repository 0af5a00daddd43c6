"""Computes jobs: DBOS takes them from the database, children of a lane compute them.

DBOS exists once per process, hence so does a `Worker`. It runs workflows on an event loop of its own, while a lane
belongs to the service's; a step hands its call over and awaits it from there, so that cancelling the step cancels the
call, which kills the child.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future

from dbos import DBOS, DBOSPortableJSONSerializer, PortableWorkflowError

from app.errors import InternalError, LaneCrashed, RecourseError
from app.jobs.answer import Json
from app.jobs.pool import Lane
from app.jobs.task import JobKind, Store
from app.observability import log

QUEUE = "bounds"
"""Of jobs that wait for a child of the lane."""

WORKFLOW = "run_job"

APPLICATION = "recourse"

VERSION = "jobs-1"
"""Raised by hand when stored jobs can no longer be taken up: DBOS recovers only jobs of its own version."""

ATTEMPTS = 3
"""How often a job is computed whose child dies; a time limit is never tried again."""

RECOVERIES = 3
"""How often a job is taken up again after its server died: it may be the reason."""

LONGEST_WAIT_S = 600.0
"""Longest time to wait for a child, should none be warm."""

REPORT_S = 0.25
"""Shortest time between two notes of a job's progress."""

_only_one = threading.Lock()

Report = Callable[[str, int, int], Awaitable[None]]
"""Notes the progress of a job: its id, steps done, and of how many."""


class Worker:
    """Computes jobs in the children of one lane; made on the event loop of that lane."""

    def __init__(self, lane: Lane, store: Store, kinds: Mapping[str, JobKind], report: Report) -> None:
        self._lane = lane
        self._store = store
        self._kinds = kinds
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Future[Json]] = {}

    def start(self, url: str, executor_id: str) -> None:
        """Take up unfinished jobs of this executor, and then new ones. Blocks; not for an event loop."""
        if not _only_one.acquire(blocking=False):
            raise RuntimeError("a process computes jobs for one service only")
        try:
            DBOS(
                config={
                    "name": APPLICATION,
                    "system_database_url": url,
                    "application_version": VERSION,
                    "executor_id": executor_id,
                    "serializer": DBOSPortableJSONSerializer(),
                    "enable_otlp": False,
                    "log_level": "WARNING",
                    "run_migrations": False,
                }
            )
            self._register()
            DBOS.launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop computing. Jobs in progress stay as they are and are taken up again at the next start. Blocks."""
        DBOS.destroy(destroy_registry=True)
        _only_one.release()

    def interrupt(self, job_id: str) -> None:
        """Stop computing a job that has been cancelled, at once if it is computed here."""
        if (running := self._running.get(job_id)) is not None:
            running.cancel()

    def _register(self) -> None:
        @DBOS.step(name="compute", preemptible=True)
        async def compute(job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
            return await self._compute(job_id, kind, payload, timeout_s)

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=RECOVERIES)
        async def run_job(kind: str, payload: Json, timeout_s: float) -> Json:
            job_id = DBOS.workflow_id
            assert job_id is not None
            outcome = await compute(job_id, kind, payload, timeout_s)
            if (error := outcome.get("error")) is not None:
                raise PortableWorkflowError(error["detail"], error["code"], error["code"], error)
            result: Json = outcome["ok"]
            return result

    # --- on DBOS's loop ---

    async def _compute(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        running = asyncio.run_coroutine_threadsafe(self._in_lane(job_id, kind, payload, timeout_s), self._loop)
        self._running[job_id] = running
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # `interrupt` was faster than DBOS, which looks once a second for jobs that have been cancelled.
                await asyncio.Event().wait()
            raise
        finally:
            self._running.pop(job_id, None)

    # --- on the service's loop ---

    async def _in_lane(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        self._lane.start()
        began = time.monotonic()
        error: RecourseError | None = None
        try:
            return {"ok": await self._attempt(job_id, kind, payload, timeout_s)}
        except RecourseError as caught:
            error = caught
            return {"error": caught.to_dict()}
        finally:
            ms = round(1000.0 * (time.monotonic() - began))
            log.info("job-computed", job=job_id, kind=kind, ms=ms, code=error and error.code)

    async def _attempt(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        if (function := self._kinds.get(kind)) is None:
            # Stored by another release of the service.
            raise InternalError(f"This server computes no jobs of the kind {kind}.")
        for attempt in range(1, ATTEMPTS + 1):
            progress = _Progress(job_id, self._report)
            try:
                result: Json = await self._lane.run(
                    function,
                    self._store,
                    payload,
                    timeout_s=timeout_s,
                    wait_s=LONGEST_WAIT_S,
                    on_progress=progress.note,
                )
                return result
            except LaneCrashed:
                log.warning("job-crashed", job=job_id, kind=kind, attempt=attempt)
                if attempt == ATTEMPTS:
                    raise
            finally:
                progress.close()
        raise AssertionError("unreachable")


class _Progress:
    """Passes the newest progress of a job on, not more often than every `REPORT_S`."""

    def __init__(self, job_id: str, report: Report) -> None:
        self._job_id = job_id
        self._report = report
        self._newest: tuple[int, int] | None = None
        self._task: asyncio.Task[None] | None = None

    def note(self, done: int, total: int) -> None:
        self._newest = (done, total)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self) -> None:
        while self._newest is not None:
            (done, total), self._newest = self._newest, None
            await self._report(self._job_id, done, total)
            await asyncio.sleep(REPORT_S)
