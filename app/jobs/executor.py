"""Computes parts in the children of a lane: calls a child, tries again where it dies, stores what it computed.

Independent of DBOS, which decides when a part is computed; everything here runs on the event loop of the service.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar
from weakref import WeakValueDictionary

from app.errors import InternalError, JobAbandoned, LaneCrashed, LaneTimeout, LedgerUnavailable, RecourseError
from app.jobs import lines as batch_lines
from app.jobs.job import Job
from app.jobs.kinds import JobKind, ready, written_lines
from app.jobs.records import Part, Records
from app.ledger.health import reason, refusal
from app.observability import log, trace
from app.pool.child import Need
from app.pool.pool import Pool
from app.pool.serve import Written
from app.pool.turns import caller
from app.questions.answers import Json
from app.registry.ref import Store
from app.store.engine import UNREACHABLE
from app.store.state import spooling
from app.tracing import span

Answer = TypeVar("Answer")

STORE = "job store"
"""In sentences for people."""

LOST = "The job store cannot be reached."
"""Where nothing else is known."""

CLOSING_S = 600.0
"""Time to compute the last part of a job from the lines of all others."""

BEGUN_ALONE = 4
"""How often a single job is begun: whatever ended its server each time, the job may be the reason."""

BEGUN_SHARED = 21
"""The same for a part of a batch: another part of the same process may be the reason."""

ATTEMPTS = 3
"""Attempts to compute a job whose child dies. A job that exceeds its time limit is not tried again."""

ATTEMPTS_ALONE = 2
"""Attempts to compute a row alone, after the child died with its group."""

LONGEST_TURN_S = 86_400.0
"""Longest time that a job or a group waits for a child: others may occupy all of them."""

STORE_AGAIN_S = 1.0
"""Pause after the database could not be reached."""

REPORT_S = 0.25
"""Shortest time between two reports of a job's progress."""

Finish = Callable[[str, str, Json, Json], Awaitable[Json]]
"""Given the id, kind, payload and computed result of a job, returns its final result. May be called more than once."""

Fail = Callable[[str, Json, RecourseError], Awaitable[None]]
"""Given the kind, payload and error of a job that fails, notes what follows from it. May be called more than once."""

Keep = Callable[[str, Json, list[str]], Awaitable[None]]
"""Records lines of a batch, given its id, a payload with their rows, and the lines. May be called more than once."""


async def as_computed(_job_id: str, _kind: str, _payload: Json, result: Json) -> Json:
    """The default of `finish` in `Jobs`: returns the result unchanged."""
    return result


async def only_failed(_kind: str, _payload: Json, _error: RecourseError) -> None:
    """The default of `fail` in `Jobs`: does nothing."""


async def kept_nowhere(_job_id: str, _payload: Json, _lines: Sequence[str]) -> None:
    """The default of `keep` in `Jobs`: does nothing, so that lines are stored only with their batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Computes parts (single jobs, or some rows of a batch) in the child processes of the pool `lane`."""

    lane: Pool
    """Started with the first part."""
    store: Store
    """The models, as the children see them."""
    kinds: Mapping[str, JobKind]
    records: Records
    stop_others: Callable[[str], Awaitable[None]]
    """Stops all parts of a job that has ended."""
    finish: Finish
    fail: Fail
    keep: Keep
    ended: Callable[[Job], None]
    """Notes that a job has ended."""
    directory: Path | None = None
    """Where the lines of a job are written for its last part; the temporary directory of the system when absent."""
    turns: WeakValueDictionary[tuple[str, bool], asyncio.Semaphore] = field(default_factory=WeakValueDictionary)
    """For each key, of single jobs and of groups: those that may be in the lane at once. Others wait here, since its
    queue is short and has a time limit; another server with more children may have set how many each worker takes."""

    async def compute(self, job_id: str, number: int, key: str | None, *, single: bool) -> None:
        """Compute, store and record a part of a job, without steps that are done already. The last part ends the job.

        Parameters
        ----------
        number : index of the part in its batch; 0 for a single job
        key : id of the API key that submitted the job
        single : whether the job is a single job, not a batch
        """
        self.lane.start()
        # The lane serves keys in turn.
        caller.set(key or "")
        with span("job", job=job_id, part=number):
            if not single:
                await self._compute(job_id, number, self._lines)
                return
            async with self._turn(alone=True):
                await self._compute(job_id, number, self._result)

    async def _compute(self, job_id: str, number: int, computed: Callable[[Part], Awaitable[list[str]]]) -> None:
        began = time.monotonic()
        part = await self._insist(partial(self.records.take, job_id, number))
        if part is None:
            return
        single = part.timeout_s is not None
        try:
            ended = await self._attempt(part, computed)
        except asyncio.CancelledError:
            # The service stops, or somebody ended the job: the job is not the reason, however often that happens.
            with suppress(*UNREACHABLE):
                await asyncio.to_thread(self.records.put_back, job_id, number)
            raise
        except Exception as caught:  # noqa: BLE001 - without an end, the job would go on for ever
            error = caught if isinstance(caught, RecourseError) else InternalError()
            if error is not caught:
                log.error("part-failed", job=job_id, number=number, trace=trace(caught))
            if single:
                await self.fail(part.kind, part.payload, error)
            ended = await self._insist(partial(self.records.fail, job_id, error))
        log.info("part-computed", job=job_id, number=number, ms=round(1000.0 * (time.monotonic() - began)))
        if ended is not None:
            self.ended(ended)
            if ended.parts > 1 and ended.error is not None:
                await self.stop_others(job_id)

    async def _attempt(self, part: Part, computed: Callable[[Part], Awaitable[list[str]]]) -> Job | None:
        """Compute, store and record; the job, if it has ended with that."""
        single = part.timeout_s is not None
        if part.attempts > (BEGUN_ALONE if single else BEGUN_SHARED):
            raise JobAbandoned
        lines = part.lines
        if lines is None:
            found = await computed(part)
            lines = await self._insist(partial(self.records.store, part.job, part.number, found))
        if lines is None:
            return None  # cancelled or deleted meanwhile
        if part.rows and not single:
            await self._keep_lines(part.job, {**part.payload, "first": part.first, "rows": part.rows}, lines)
        refused = 0 if single or not part.rows else sum(map(batch_lines.is_refused, lines))
        return await self._insist(partial(self.records.finish, part.job, part.number, refused))

    # --- a single job ---

    async def _result(self, part: Part) -> list[str]:
        """The result of a single job, as one line."""
        assert part.timeout_s is not None
        function = self._function(part.kind)
        for attempt in range(1, ATTEMPTS + 1):
            progress = _Progress(partial(self.records.note_progress, part.job))
            try:
                result = await self.lane.run(
                    function,
                    self.store,
                    part.payload,
                    timeout_s=part.timeout_s,
                    wait_s=LONGEST_TURN_S,
                    on_progress=progress.note,
                    need=need_of(self.store, part.payload),
                )
                return [json.dumps(await self.finish(part.job, part.kind, part.payload, result))]
            except LaneCrashed:
                log.warning("job-crashed", job=part.job, kind=part.kind, attempt=attempt)
                if attempt == ATTEMPTS:
                    raise
            finally:
                progress.close()
        raise AssertionError("unreachable")

    def _function(self, kind: str) -> JobKind:
        if (function := self.kinds.get(kind)) is None:
            # Stored by another release of the service.
            raise InternalError(f"This server computes no jobs of the kind {kind}.")
        return function

    # --- a part of a batch ---

    async def _lines(self, part: Part) -> list[str]:
        if not part.rows:
            return await self._closing(part)

        async def group(start: int) -> list[str]:
            rows = part.rows[start : start + batch_lines.GROUP]
            payload = {**part.payload, "first": part.first + start, "rows": rows}
            # First come, first served: parts are computed one after another, and one is stored while the next is
            # computed. One group more than there are children waits in the lane, so that no child is idle.
            async with self._turn(alone=False):
                return await lines_of(self.lane, self._function(part.kind), self.store, payload)

        running = [asyncio.ensure_future(group(start)) for start in range(0, len(part.rows), batch_lines.GROUP)]
        try:
            return [line for lines in await asyncio.gather(*running) for line in lines]
        finally:
            # An error that concerns all rows was raised for one group; the other groups need not go on.
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _closing(self, part: Part) -> list[str]:
        """The result of a job, as the one line of its last part, from the lines of all parts before it.

        A file takes them to the child, so that neither process holds them all. Raises `StateUnusable`.
        """
        with spooling(self.directory), NamedTemporaryFile("w", encoding="utf-8", dir=self.directory) as file:
            for number in range(part.number):
                text = await self._insist(partial(self.records.lines, part.job, number))
                await asyncio.to_thread(file.write, text)
            await asyncio.to_thread(file.flush)
            payload = {**part.payload, "lines": file.name}
            async with self._turn(alone=True):
                (line,) = await child_lines(self.lane, self._function(part.kind), self.store, payload, CLOSING_S)
        while True:
            try:
                await self.finish(part.job, part.kind, part.payload, json.loads(line))
                return [line]
            except LedgerUnavailable as error:
                log.error("result-not-noted", job=part.job, reason=error.detail)
            await asyncio.sleep(STORE_AGAIN_S)

    @asynccontextmanager
    async def _turn(self, *, alone: bool) -> AsyncIterator[None]:
        name = (caller.get(), alone)
        if (turns := self.turns.get(name)) is None:
            turns = self.turns[name] = asyncio.Semaphore(self.lane.size + (not alone))
        async with turns:
            yield

    async def _keep_lines(self, job_id: str, payload: Json, lines: list[str]) -> None:
        """Return once the service has recorded the lines, however long the ledger is unavailable."""
        while True:
            try:
                await self.keep(job_id, payload, lines)
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


async def lines_of(lane: Pool, kind: JobKind, store: Store, payload: Json) -> list[str]:
    """One result line for each row of a payload, even if the child process crashes or runs out of time.

    If the child process fails on the rows together, each row is computed alone; the line of a row that fails again
    holds the error. Raises errors that concern all rows, such as `ModelUnusable`.
    """
    rows = payload["rows"]
    try:
        return await _computed(lane, kind, store, payload)
    except (LaneTimeout, LaneCrashed, InternalError):
        alone = [{**payload, "first": payload["first"] + i, "rows": [row]} for i, row in enumerate(rows)]
        return [await _line(lane, kind, store, one) for one in alone]


async def _line(lane: Pool, kind: JobKind, store: Store, payload: Json) -> str:
    (row,) = payload["rows"]
    began = time.monotonic()
    error: RecourseError | None = None
    for _ in range(ATTEMPTS_ALONE):
        try:
            (line,) = await _computed(lane, kind, store, payload)
            return line
        except LaneTimeout as caught:
            if "frame" not in payload:
                return batch_lines.refused(row, caught)
            return batch_lines.stopped(payload, 0, 1000.0 * (time.monotonic() - began))
        except InternalError as caught:
            return batch_lines.refused(row, caught)
        except LaneCrashed as caught:
            error = caught
    assert error is not None
    return batch_lines.refused(row, error)


async def _computed(lane: Pool, kind: JobKind, store: Store, payload: Json) -> list[str]:
    return await child_lines(lane, kind, store, payload, len(payload["rows"]) * payload["deadline_s"])


async def child_lines(lane: Pool, kind: JobKind, store: Store, payload: Json, timeout_s: float) -> list[str]:
    """The lines that a child process computes from a payload, with the function `kind`, within `timeout_s` seconds.

    Raises `Overloaded`, `LaneCrashed` or `LaneTimeout`, and the errors that the function raises.
    """
    found: Written = await lane.run(
        written_lines,
        kind,
        store,
        payload,
        timeout_s=timeout_s,
        wait_s=LONGEST_TURN_S,
        on_progress=_count_nothing,
        need=need_of(store, payload),
    )
    return found.texts["lines"].decode().split("\n")


def need_of(store: Store, payload: Json) -> Need | None:
    """What a child process has to load before it computes the job: the job's model; None for a job without a model."""
    if "model" not in payload:
        return None
    return Need(payload["model"]["name"], ready, (store, {"model": payload["model"]}))


def _count_nothing(_done: int, _total: int) -> None:
    """Ignore progress: that of a batch is counted in parts."""


class _Progress:
    """Notes the newest progress of a job, at most once every `REPORT_S`."""

    def __init__(self, note: Callable[[int, int], None]) -> None:
        self._note = note
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
            with suppress(*UNREACHABLE):
                await asyncio.to_thread(self._note, done, total)
            await asyncio.sleep(REPORT_S)
