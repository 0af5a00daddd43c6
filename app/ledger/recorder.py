"""The ledger for an event loop: opened in the background, written in groups, never blocking the loop.

A caller waits until its records are on disk. Records that arrive during one commit are written together by the next,
so that concurrent requests share one wait for the disk.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from app.closing import pause, persist
from app.errors import LedgerUnavailable
from app.idempotency.answers import IdempotentAnswers
from app.keys.spent_rows import SpentRows
from app.ledger.health import fault_of_tail, lack_of_space, reason, refusal, try_write
from app.ledger.ledger import FILE, Ledger, NewRecord
from app.ledger.rows import Record
from app.ledger.sure_clock import ADVICE, SureClock
from app.observability import log, trace
from app.settings import Settings
from app.store.engine import UNREACHABLE, database_url, open_engine, overwrite_log
from app.store.migrate import upgrade
from app.store.state import require_state
from app.tracing import span

Answer = TypeVar("Answer")

PATIENCE_S = 10.0
"""Longest time to wait for the database, and before that for a turn to be written."""

CLOSE_S = 3.0
"""Longest time that closing waits for work in progress, and then for the connections."""

THREADS = 8
"""Concurrent queries; the others wait. Each takes a connection."""

SWEEP_S = 3600.0
"""Interval at which expired recourses are erased."""

SWEEP_AGAIN_S = 5.0
"""Pause after an attempt that failed."""

SWEEP_AT_ONCE = 200

OVERWRITE_AGAIN_S = 5.0
"""Pause after erased data could not be overwritten because of a reader."""

PROBE_S = 5.0
"""A write that has succeeded counts for this time."""

SILENT = "The ledger does not answer."

Forget = Callable[[Sequence[Record]], Awaitable[None]]
"""Deletes data of recourses outside the ledger, before they are erased."""


class Recorder:
    """Opens, writes, reads and sweeps the ledger for one process; used from one event loop."""

    def __init__(self, settings: Settings, forget: Forget) -> None:
        self._settings = settings
        self._forget = forget
        self._engine: sa.Engine | None = None
        # Separate from the threads of the event loop: while the database stalls, these stall as well.
        self._threads = ThreadPoolExecutor(THREADS, "ledger")
        # There is one writer at a time, and it must not wait for readers.
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        self._opened = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], Sequence[NewRecord]] = {}
        self._overwriting: asyncio.Task[None] | None = None
        self._to_overwrite = False
        self._closing = asyncio.Event()
        self._reason: str | None = None
        """Why the database could not be opened."""
        self._fault = ""
        """What is wrong with the end of the chain."""
        self._written_at = -PROBE_S
        self._clock: SureClock | None = None
        """What is deleted by its age goes by this clock; None until the database is open."""

    def start(self) -> None:
        """Open the database in the background."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def close(self) -> None:
        """Write the waiting records and close the database; gives up if that takes longer than `CLOSE_S` seconds."""
        self._closing.set()
        tasks = (self._opening, self._sweeping, self._writing, self._overwriting)
        if begun := [task for task in tasks if task is not None]:
            _, late = await asyncio.wait(begun, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            # Behind a write that is still stalled, whose connection would stay open otherwise.
            await asyncio.to_thread(wait, [self._writer.submit(engine.dispose)], CLOSE_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=False)

    def require(self) -> None:
        """Raise `LedgerUnavailable` while the database of the ledger is not open."""
        if self._engine is None:
            raise LedgerUnavailable(self._reason)

    async def record(self, *records: NewRecord) -> None:
        """Write records, and return once they are on disk. A record whose id was recorded before stays as it was.

        Raises `LedgerUnavailable`; then the records are not in the ledger, unless the database stopped answering during
        the write.
        """
        if not records:
            return
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._waiting[written] = records
        impatience = loop.call_later(PATIENCE_S, self._give_up, written)
        try:
            self._write_soon()
            with span("ledger", records=len(records)):
                await written
        finally:
            impatience.cancel()
            # Where it was cancelled: no longer to be written.
            self._waiting.pop(written, None)

    async def ask(self, question: Callable[[Ledger], Answer]) -> Answer:
        """Call `question` with the ledger in a thread, and return its result. Raises `LedgerUnavailable`."""
        return await self.run(lambda engine: question(Ledger(engine)))

    async def run(self, work: Callable[[sa.Engine], Answer]) -> Answer:
        """Call `work` with the engine of the database in a thread, and return its result.

        Raises `LedgerUnavailable`, at the latest after `PATIENCE_S` seconds; work that has begun continues in its
        thread.
        """
        return await self._run(self._threads, work)

    async def check(self) -> None:
        """Raise `LedgerUnavailable` if recourse cannot be recorded now, or if one of the newest entries is damaged."""
        await self.ask(lambda ledger: ledger.check())
        if self._fault or (lack := self._lack_of_space()):
            raise LedgerUnavailable(self._fault or lack)
        if (now := time.monotonic()) - self._written_at >= PROBE_S:
            await self._run(self._writer, try_write)
            self._written_at = now

    def _lack_of_space(self) -> str:
        return "" if self._settings.database_url is not None else lack_of_space(self._settings.state_dir)

    async def sweep(self, *, trust_clock: bool = False) -> int:
        """Erase the personal data of recourses that have expired and are older than the retention period.

        Returns the number of these recourses. Expired idempotent answers and old counts of daily budgets are deleted,
        too.

        Parameters
        ----------
        trust_clock : whether to take the time from this machine's clock even if it is doubted; else from `believed_now`
        """
        time_of = partial(datetime.now, UTC) if trust_clock else self._sure_now
        await self.run(lambda engine: IdempotentAnswers(engine).sweep(time_of(), datetime.now(UTC)))
        await self.run(lambda engine: SpentRows(engine).forget(time_of()))
        self._overwrite_soon()
        erased = after = 0
        while True:
            now = time_of()
            given_before = now - timedelta(days=self._settings.retention_days)
            due = partial(Ledger.due, given_before=given_before, now=now, limit=SWEEP_AT_ONCE, after=after)
            if not (found := await self.ask(due)):
                return erased
            erased += await self.erase(found, "retention")
            after = found[-1].entry.number

    @property
    def clock_doubted(self) -> bool:
        """Whether this machine's clock is so far ahead of the newest entry that deletions do not rely on it."""
        return self._clock is not None and self._clock.doubted

    def believed_now(self) -> datetime:
        """The time of this machine's clock, unless the clock is far ahead of the newest entry.

        If the clock is far ahead, the newest known time plus the time that has passed since.
        """
        return datetime.now(UTC) if self._clock is None else self._clock.now()

    def clock_warnings(self) -> list[str]:
        """A list of one sentence if this machine's clock is far ahead of the newest entry; otherwise an empty list."""
        if self._clock is None:
            return []
        sure, own = self._clock.now(), datetime.now(UTC)
        if not self._clock.doubted:
            return []
        said = f"The clock says {own:%Y-%m-%d}, but {sure:%Y-%m-%d} is expected."
        return [f"{said} Answers carry the first as their time, and expire by the second. {ADVICE}"]

    def _sure_now(self) -> datetime:
        if self._clock is None:
            raise LedgerUnavailable(self._reason)
        return self._clock.now()

    async def erase(self, records: Sequence[Record], why: str) -> int:
        """Erase the personal data of recourses from ledger and jobs; returns how many still had personal data.

        `why` is the cause of the erasure, `request` or `retention`.
        """
        await self._forget(records)
        ids = [record.entry.id for record in records]
        erased = await self.ask(lambda ledger: ledger.erase(ids, why, datetime.now(UTC)))
        self._overwrite_soon()
        return erased

    async def erase_answers(self, ids: Sequence[str]) -> int:
        """Delete the idempotent answers that hold one of the recourses or jobs `ids`; returns how many these are."""
        erased = await self.run(lambda engine: IdempotentAnswers(engine).erase(ids))
        self._overwrite_soon()
        return erased

    # --- inside ---

    async def _run(self, threads: Executor, work: Callable[[sa.Engine], Answer]) -> Answer:
        if self._engine is None:
            raise LedgerUnavailable(self._reason)
        running = asyncio.wrap_future(threads.submit(copy_context().run, work, self._engine))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await running
        except TimeoutError:
            log.error("ledger-silent", patience_s=PATIENCE_S)
            raise LedgerUnavailable(SILENT) from None
        except UNREACHABLE as error:
            log.error("ledger-lost", trace=trace(error), reason=reason(error), refusal=refusal(error))
            raise LedgerUnavailable(reason(error)) from None

    def _give_up(self, written: asyncio.Future[None]) -> None:
        # A write in progress decides the outcome, and ends soon.
        if self._waiting.pop(written, None) is not None and not written.done():
            written.set_exception(LedgerUnavailable(SILENT))

    def _write_soon(self) -> None:
        if self._opened.is_set() and self._waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, {}
            records = [record for some in group.values() for record in some]
            error: BaseException | None = None
            try:
                await self._run(self._writer, partial(_append, records=records))
            except asyncio.CancelledError:
                error = LedgerUnavailable(SILENT)
                raise
            except Exception as caught:  # noqa: BLE001 - whatever it is, the callers must receive it
                error = caught
            finally:
                for written in group:
                    if written.done():
                        continue
                    if error is None:
                        written.set_result(None)
                    else:
                        written.set_exception(error)

    async def _open(self) -> None:
        if not await persist(self._try_to_open, self._closing):
            return
        # An earlier process may have ended before it could do this.
        self._overwrite_soon()
        if self._settings.run_jobs:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def _try_to_open(self) -> bool:
        began = time.monotonic()
        try:
            self._engine = await asyncio.get_running_loop().run_in_executor(self._threads, self._connect)
        except Exception as error:  # noqa: BLE001 - whatever driver, database or migration raise, it is tried again
            # SQLite says of a full disk, while it opens a file, that the disk does not work.
            self._reason = self._lack_of_space() or reason(error)
            log.error("ledger-not-opened", trace=trace(error), reason=self._reason, refusal=refusal(error))
            return False
        if self._fault:
            log.error("ledger-damaged", detail=self._fault)
        self._opened.set()
        # A job may have ended before.
        self._write_soon()
        log.info("ledger-opened", ms=round(1000.0 * (time.monotonic() - began)))
        return True

    def _connect(self) -> sa.Engine:
        require_state(self._settings)
        engine = open_engine(database_url(self._settings, FILE))
        try:
            upgrade(engine)
            self._fault = fault_of_tail(engine)
            newest = Ledger(engine).newest_at()
            self._clock = SureClock(datetime.fromisoformat(newest) if newest else None)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _overwrite_soon(self) -> None:
        self._to_overwrite = True
        if self._overwriting is None or self._overwriting.done():
            self._overwriting = asyncio.get_running_loop().create_task(self._overwrite())

    async def _overwrite(self) -> None:
        warned = False
        while self._to_overwrite and not self._closing.is_set():
            self._to_overwrite = False
            with suppress(LedgerUnavailable):
                if await self.run(overwrite_log):
                    continue
            self._to_overwrite = True
            if not warned:
                log.warning("erased-not-overwritten-yet")
                warned = True
            await pause(self._closing, OVERWRITE_AGAIN_S)

    async def _sweep_for_ever(self) -> None:
        while not self._closing.is_set():
            try:
                log.info("ledger-swept", erased=await self.sweep())
                pause_s = SWEEP_S
            except Exception as error:  # noqa: BLE001 - at the start the jobs may not be open yet; it is tried again
                log.warning("ledger-not-swept", trace=trace(error))
                pause_s = SWEEP_AGAIN_S
            await pause(self._closing, pause_s)


def _append(engine: sa.Engine, records: Sequence[NewRecord]) -> None:
    Ledger(engine).append(records)
