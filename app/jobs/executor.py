"""Executes jobs in the children of a lane: calls a child, tries again where it dies, stores what it computed.

Independent of DBOS, which decides when a job is executed; everything here runs on the event loop of the service.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from app.compute.answers import Json
from app.compute.lane import Lane
from app.compute.messages import Store
from app.errors import InternalError, JobCancelled, LaneCrashed, LedgerUnavailable, RecourseError
from app.jobs.batch import lines as batch_lines
from app.jobs.batch_groups import LONGEST_TURN_S, lines_of, need_of
from app.jobs.kinds import JobKind
from app.jobs.names import LOST, STORE
from app.metrics import Metrics
from app.observability import log, trace
from app.store.engine import UNREACHABLE
from app.store.health import reason, refusal

if TYPE_CHECKING:
    from app.jobs.batch.chunks import Chunk, Chunks

Answer = TypeVar("Answer")

ATTEMPTS = 3
"""Attempts to compute a job whose child dies. A job that exceeds its time limit is not tried again."""

STORE_AGAIN_S = 1.0
"""Pause after the database could not be reached."""

REPORT_S = 0.25
"""Shortest time between two reports of a job's progress."""

SUCCEEDED = "succeeded"
"""Outcome of a job without an error, in metrics and in the log."""

Report = Callable[[str, int, int], Awaitable[None]]
"""Stores the progress of a job, given its id, the steps done and their total."""

Finish = Callable[[str, str, Json, Json], Awaitable[Json]]
"""Given the id, kind, payload and computed result of a job, returns its final result. May be called more than once."""

Fail = Callable[[str, Json, RecourseError], Awaitable[None]]
"""Given the kind, payload and error of a job that fails, notes what follows from it. May be called more than once."""

Keep = Callable[[str, Json, list[str]], Awaitable[None]]
"""Records lines of a batch, given its id, a payload with their rows, and the lines. May be called more than once."""


async def as_computed(_job_id: str, _kind: str, _payload: Json, result: Json) -> Json:
    """A `Finish` that changes nothing."""
    return result


async def only_failed(_kind: str, _payload: Json, _error: RecourseError) -> None:
    """A `Fail` that does nothing."""


async def kept_nowhere(_job_id: str, _payload: Json, _lines: Sequence[str]) -> None:
    """A `Keep` that does nothing: lines are stored with their batch only."""


class Executor:
    """Executes jobs in the children of one lane.

    Parameters
    ----------
    lane : its children compute the jobs; started with the first job
    store : the models, as the children see them
    kinds : what jobs there are
    chunks : the rows and results of batches
    report, finish, fail, keep : what the service does with progress, results, errors and lines
    metrics : counts the jobs
    """

    def __init__(
        self,
        lane: Lane,
        store: Store,
        kinds: Mapping[str, JobKind],
        chunks: "Chunks",
        *,
        report: Report,
        finish: Finish,
        fail: Fail,
        keep: Keep,
        metrics: Metrics,
    ) -> None:
        self._lane = lane
        self._store = store
        self._kinds = kinds
        self._chunks = chunks
        self._report = report
        self._finish = finish
        self._fail = fail
        self._keep = keep
        self._metrics = metrics
        # First come, first served: chunks are computed one after another, and one is stored while the next is
        # computed. One group more than there are children waits in the lane, so that no child is idle; other jobs
        # wait no longer for that.
        self._group_turns = asyncio.Semaphore(lane.size + 1)
        # Another server with more children may have set how many jobs each worker takes. Surplus jobs wait here, not
        # in the lane, whose queue is short and has a time limit.
        self._job_turns = asyncio.Semaphore(lane.size)

    async def run_job(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        """The outcome of a job: its result under ``ok``, or its error under ``error``."""
        self._lane.start()
        async with self._job_turns:
            began = time.monotonic()
            code = JobCancelled.code
            try:
                result = await self._attempt(job_id, kind, payload, timeout_s)
                outcome = {"ok": await self._finish(job_id, kind, payload, result)}
                code = SUCCEEDED
            except RecourseError as error:
                await self._fail(kind, payload, error)
                outcome = {"error": error.to_dict()}
                code = error.code
            finally:
                seconds = time.monotonic() - began
                self.measure(kind, code, seconds)
                log.info("job-computed", job=job_id, kind=kind, ms=round(1000.0 * seconds), outcome=code)
            return outcome

    async def run_chunk(self, job_id: str, number: int, kind: str, payload: Json) -> Json:
        """The outcome of a chunk, as of `run_job`. It is computed and stored only where that is not yet done."""
        self._lane.start()
        began = time.monotonic()
        try:
            chunk = await self._insist(lambda: self._chunks.take(job_id, number))
            lines = chunk.lines
            if chunk.rows:
                if lines is None:
                    computed = await self._lines(chunk, kind, payload)
                    lines = await self._insist(lambda: self._chunks.store(job_id, number, computed))
                await self._keep_lines(job_id, {**payload, "first": chunk.first, "rows": chunk.rows}, lines)
                await self._insist(lambda: self._chunks.finish(job_id, number))
        except RecourseError as error:
            return {"error": error.to_dict()}
        log.info("chunk-computed", job=job_id, number=number, ms=round(1000.0 * (time.monotonic() - began)))
        found = lines or []
        return {"ok": {"rows": len(found), "refused": sum(map(batch_lines.is_refused, found))}}

    def measure(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a job that has ended."""
        # One label for all kinds of other releases, whose number has no limit.
        self._metrics.job(kind if kind in self._kinds else "unknown", outcome, seconds)

    async def _attempt(self, job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
        function = self._function(kind)
        for attempt in range(1, ATTEMPTS + 1):
            progress = _Progress(job_id, self._report)
            try:
                result: Json = await self._lane.run(
                    function,
                    self._store,
                    payload,
                    timeout_s=timeout_s,
                    wait_s=LONGEST_TURN_S,
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

    def _function(self, kind: str) -> JobKind:
        if (function := self._kinds.get(kind)) is None:
            # Stored by another release of the service.
            raise InternalError(f"This server computes no jobs of the kind {kind}.")
        return function

    async def _lines(self, chunk: "Chunk", kind: str, payload: Json) -> list[str]:
        async def group(start: int) -> list[str]:
            part = {**payload, "first": chunk.first + start, "rows": chunk.rows[start : start + batch_lines.GROUP]}
            async with self._group_turns:
                return await lines_of(self._lane, self._function(kind), self._store, part)

        running = [asyncio.ensure_future(group(start)) for start in range(0, len(chunk.rows), batch_lines.GROUP)]
        try:
            return [line for lines in await asyncio.gather(*running) for line in lines]
        finally:
            # An error that concerns all rows was raised for one group; the other groups need not go on.
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _keep_lines(self, job_id: str, payload: Json, lines: list[str]) -> None:
        """Return once the service has recorded the lines, however long the ledger is unavailable."""
        while True:
            try:
                await self._keep(job_id, payload, lines)
                return
            except LedgerUnavailable as error:
                log.error("lines-not-kept", job=job_id, reason=error.detail)
            await asyncio.sleep(STORE_AGAIN_S)

    async def _insist(self, question: Callable[[], Answer]) -> Answer:
        """The answer of the database, once it can be reached."""
        while True:
            try:
                return await asyncio.to_thread(question)
            except UNREACHABLE as error:
                sentence = reason(error, STORE, LOST)
                log.error("job-store-lost", trace=trace(error), reason=sentence, refusal=refusal(error))
            await asyncio.sleep(STORE_AGAIN_S)


class _Progress:
    """Reports the newest progress of a job, at most once every `REPORT_S`."""

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
