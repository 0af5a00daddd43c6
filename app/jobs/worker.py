"""Computes jobs: DBOS takes them from the database, children of a lane compute them.

DBOS exists once per process, hence so does a `Worker`. It runs workflows on an event loop of its own, while a lane
belongs to the service's; a step hands its call over and awaits it from there, so that cancelling the step cancels the
call, which kills the child.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import sqlalchemy as sa
from dbos import DBOS, DBOSPortableJSONSerializer, PortableWorkflowError, SetWorkflowID
from dbos._error import DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded

from app.errors import InternalError, JobAbandoned, JobCancelled, LaneCrashed, LedgerUnavailable, RecourseError
from app.jobs import batch
from app.jobs.answer import Json
from app.jobs.asked import Store
from app.jobs.chunks import Chunk, Chunks
from app.jobs.groups import lines_of, need_of
from app.jobs.kinds import JobKind
from app.jobs.pool import Lane
from app.metrics import Metrics
from app.observability import log, trace

Answer = TypeVar("Answer")

QUEUE = "bounds"
"""Of jobs that wait for a child of the lane."""

BATCHES = "batches"
"""Of batches, which wait for their chunks."""

CHUNKS = "chunks"
"""Of chunks, which wait for a child of the lane."""

WORKFLOW = "run_job"

BATCH_WORKFLOW = "run_batch"

APPLICATION = "recourse"

VERSION = "jobs-1"
"""Raised by hand when stored jobs can no longer be taken up: DBOS recovers only jobs of its own version."""

ATTEMPTS = 3
"""How often a job is computed whose child dies; a time limit is never tried again."""

RECOVERIES = 3
"""How often a job is taken up again after its server died: it may be the reason."""

CHUNK_RECOVERIES = 20
"""The same for a chunk: another one in its neighbourhood may be the reason."""

BATCH_RECOVERIES = 1000
"""The same for a batch, which only waits for its chunks and is interrupted by every restart in that time."""

LONGEST_WAIT_S = 600.0
"""Longest time to wait for a child, should none be warm."""

CHUNK_POLL_S = 0.2
"""How often a batch looks whether its next chunk has been computed."""

STORE_AGAIN_S = 1.0
"""Pause after the database could not be reached."""

REPORT_S = 0.25
"""Shortest time between two notes of a job's progress."""

SUCCEEDED = "succeeded"
"""What metrics call the outcome of a job that has no error."""

_only_one = threading.Lock()

Report = Callable[[str, int, int], Awaitable[None]]
"""Notes the progress of a job: its id, steps done, and of how many."""


Finish = Callable[[str, str, Json, Json], Awaitable[Json]]
"""Is given the id, kind, payload and result of a job, and gives what its result is to be; may happen more than once."""

Keep = Callable[[str, Json, list[str]], Awaitable[None]]
"""Is given the id of a batch, a payload with some of its rows, and their lines; may happen more than once."""


class Worker:
    """Computes jobs in the children of one lane; made on the event loop of that lane."""

    def __init__(
        self,
        lane: Lane,
        store: Store,
        kinds: Mapping[str, JobKind],
        chunks: Chunks,
        report: Report,
        finish: Finish,
        keep: Keep,
        metrics: Metrics,
    ) -> None:
        self._lane = lane
        self._store = store
        self._kinds = kinds
        self._chunks = chunks
        self._report = report
        self._finish = finish
        self._keep = keep
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Future[Json]] = {}
        # First come, first served: one chunk is computed after another, and one is stored while the next is in work. A
        # group more than there are children waits in the lane, so that none is idle; other jobs wait for no more.
        self._turns = asyncio.Semaphore(lane.size + 1)
        # One with more children may have said how many jobs each worker takes; those too many wait here, not in the
        # lane, whose line is short and has a time limit.
        self._places = asyncio.Semaphore(lane.size)

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
                    # Nobody waits for notifications; the default wakes a thread a hundred times a second.
                    "notification_coalesce_sec": 1.0,
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
        for running_id, running in list(self._running.items()):
            if running_id == job_id or running_id.startswith(f"{job_id}."):
                running.cancel()

    def adopt(self, executor_id: str) -> int:
        """Put what a dead executor had begun back into its queue; how many workflows that were. Blocks."""
        return len(DBOS._recover_pending_workflows([executor_id]))

    def _register(self) -> None:
        @DBOS.step(name="compute", preemptible=True)
        async def compute(job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
            return await self._here(job_id, self._in_lane(job_id, kind, payload, timeout_s))

        @DBOS.step(name="compute_chunk", preemptible=True)
        async def compute_chunk(job_id: str, number: int, kind: str, payload: Json) -> Json:
            return await self._here(f"{job_id}.{number}", self._chunk(job_id, number, kind, payload))

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=RECOVERIES)
        async def run_job(kind: str, payload: Json, timeout_s: float) -> Json:
            job_id = DBOS.workflow_id
            assert job_id is not None
            return _ok(await compute(job_id, kind, payload, timeout_s))

        @DBOS.workflow(name="run_chunk", max_recovery_attempts=CHUNK_RECOVERIES)
        async def run_chunk(job_id: str, number: int, kind: str, payload: Json) -> Json:
            return await compute_chunk(job_id, number, kind, payload)

        @DBOS.workflow(name=BATCH_WORKFLOW, max_recovery_attempts=BATCH_RECOVERIES)
        async def run_batch(kind: str, payload: Json, count: int) -> None:
            job_id = DBOS.workflow_id
            assert job_id is not None
            began, code = time.monotonic(), JobCancelled.code
            try:
                handles = []
                for number in range(count):
                    with SetWorkflowID(f"{job_id}.{number}"):
                        chunk = await DBOS.enqueue_workflow_async(CHUNKS, run_chunk, job_id, number, kind, payload)
                    handles.append(chunk)
                for handle in handles:
                    try:
                        outcome = await handle.get_result(polling_interval_sec=CHUNK_POLL_S)
                    except DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded:
                        outcome = {"error": JobAbandoned().to_dict()}
                    if "error" in outcome:
                        code = outcome["error"]["code"]
                        await DBOS.cancel_workflows_async([handle.workflow_id for handle in handles])
                    _ok(outcome)
                code = SUCCEEDED
            finally:
                self._measure(kind, code, time.monotonic() - began)

    # --- on DBOS's loop ---

    async def _here(self, job_id: str, computing: Coroutine[Any, Any, Json]) -> Json:
        """What the service's loop computes; cancelled with it."""
        running = asyncio.run_coroutine_threadsafe(computing, self._loop)
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
        async with self._places:
            began = time.monotonic()
            code = JobCancelled.code
            try:
                result = await self._attempt(job_id, kind, payload, timeout_s)
                found = {"ok": await self._finish(job_id, kind, payload, result)}
                code = SUCCEEDED
            except RecourseError as error:
                found = {"error": error.to_dict()}
                code = error.code
            finally:
                seconds = time.monotonic() - began
                self._measure(kind, code, seconds)
                log.info("job-computed", job=job_id, kind=kind, ms=round(1000.0 * seconds), outcome=code)
            return found

    def _measure(self, kind: str, outcome: str, seconds: float) -> None:
        # Of a kind that another release has stored there may be any number.
        self._metrics.job(kind if kind in self._kinds else "unknown", outcome, seconds)

    async def _chunk(self, job_id: str, number: int, kind: str, payload: Json) -> Json:
        """Compute and store a chunk, unless that has been done."""
        self._lane.start()
        began = time.monotonic()
        try:
            chunk = await self._insist(lambda: self._chunks.take(job_id, number))
            if chunk.rows:
                lines = chunk.lines
                if lines is None:
                    computed = await self._lines(chunk, kind, payload)
                    lines = await self._insist(lambda: self._chunks.store(job_id, number, computed))
                await self._kept(job_id, {**payload, "first": chunk.first, "rows": chunk.rows}, lines)
                await self._insist(lambda: self._chunks.finish(job_id, number))
        except RecourseError as error:
            return {"error": error.to_dict()}
        log.info("chunk-computed", job=job_id, number=number, ms=round(1000.0 * (time.monotonic() - began)))
        return {"ok": None}

    async def _lines(self, chunk: Chunk, kind: str, payload: Json) -> list[str]:
        async def group(start: int) -> list[str]:
            part = {**payload, "first": chunk.first + start, "rows": chunk.rows[start : start + batch.GROUP]}
            async with self._turns:
                return await lines_of(self._lane, self._known(kind), self._store, part)

        running = [asyncio.ensure_future(group(start)) for start in range(0, len(chunk.rows), batch.GROUP)]
        try:
            return [line for lines in await asyncio.gather(*running) for line in lines]
        finally:
            # What concerns all rows has failed in one group; the others need not go on.
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _kept(self, job_id: str, payload: Json, lines: list[str]) -> None:
        """Return once the service has what it keeps of some lines, whatever becomes of the ledger meanwhile."""
        while True:
            try:
                await self._keep(job_id, payload, lines)
                return
            except LedgerUnavailable as error:
                log.error("lines-not-kept", job=job_id, trace=trace(error))
            await asyncio.sleep(STORE_AGAIN_S)

    async def _insist(self, question: Callable[[], Answer]) -> Answer:
        """The answer of the database, once it can be reached."""
        while True:
            try:
                return await asyncio.to_thread(question)
            except sa.exc.DBAPIError as error:
                log.error("job-store-lost", trace=trace(error))
            await asyncio.sleep(STORE_AGAIN_S)

    def _known(self, kind: str) -> JobKind:
        if (function := self._kinds.get(kind)) is None:
            # Stored by another release of the service.
            raise InternalError(f"This server computes no jobs of the kind {kind}.")
        return function

    async def _attempt(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        function = self._known(kind)
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
                    need=need_of(self._store, payload),
                )
                return result
            except LaneCrashed:
                log.warning("job-crashed", job=job_id, kind=kind, attempt=attempt)
                if attempt == ATTEMPTS:
                    raise
            finally:
                progress.close()
        raise AssertionError("unreachable")


def _ok(outcome: Json) -> Any:
    """What was computed; raises the error that is there instead."""
    if (error := outcome.get("error")) is not None:
        raise PortableWorkflowError(error["detail"], error["code"], error["code"], error)
    return outcome["ok"]


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
