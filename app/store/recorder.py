"""The ledger for an event loop: opened in the background, written in groups, never blocking the loop.

Whoever records waits until it is on disk. What comes in during one commit is written together by the next, so that many
requests at once share one wait for the disk.
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

from app.errors import LedgerUnavailable
from app.observability import log, trace
from app.settings import Settings
from app.store.engine import database_url, open_engine, overwrite_log
from app.store.ledger import FILE, Given, Ledger, Record
from app.store.migrate import upgrade
from app.store.replays import Replays
from app.store.state import require_state

Answer = TypeVar("Answer")

RETRY_S = 1.0
"""Pause after the database could not be opened; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 15.0

PATIENCE_S = 10.0
"""Longest time to wait for the database, and before that for one's turn to be written."""

CLOSE_S = 3.0
"""Longest time that closing waits for what is being done, and then for the connections."""

THREADS = 8
"""Questions that are asked at once; the others wait. No more, as each takes a connection."""

SWEEP_S = 3600.0
"""How often expired recourses are erased."""

SWEEP_AGAIN_S = 5.0
"""Pause after that did not work."""

SWEEP_AT_ONCE = 200

OVERWRITE_AGAIN_S = 5.0
"""Pause after erased data could not be overwritten because somebody was reading."""

SILENT = "The ledger does not answer."

Forget = Callable[[Sequence[Record]], Awaitable[None]]
"""Deletes what is kept about recourses outside the ledger, before they are erased."""


class Recorder:
    """The ledger of one process; used from one event loop."""

    def __init__(self, settings: Settings, forget: Forget) -> None:
        self._settings = settings
        self._forget = forget
        self._engine: sa.Engine | None = None
        # Of our own: while the database is stalled, so are they, and everybody else needs those of the loop.
        self._threads = ThreadPoolExecutor(THREADS, "ledger")
        # Only one can write at a time, and it should not have to wait for those who read.
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        self._opened = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], Sequence[Given]] = {}
        self._overwriting: asyncio.Task[None] | None = None
        self._to_overwrite = False
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Open the database in the background."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def close(self) -> None:
        """Write what waits, and let go of the database; without it, if it does not answer."""
        self._closing.set()
        tasks = (self._opening, self._sweeping, self._writing, self._overwriting)
        if begun := [task for task in tasks if task is not None]:
            _, late = await asyncio.wait(begun, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            # After a write that is still stalled, whose connection would be left open otherwise.
            await asyncio.to_thread(wait, [self._writer.submit(engine.dispose)], CLOSE_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=False)

    def require(self) -> None:
        """Raise `LedgerUnavailable` while the ledger has not been opened."""
        if self._engine is None:
            raise LedgerUnavailable

    async def record(self, *gifts: Given) -> None:
        """Return once they are on disk; one that has been recorded before stays as it was.

        Raises `LedgerUnavailable`; then they are not in the ledger, unless the database fell silent in the middle.
        """
        if not gifts:
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[written] = gifts
        try:
            async with asyncio.timeout(PATIENCE_S):
                # A job may have ended before the ledger was open.
                await self._opened.wait()
                if self._writing is None or self._writing.done():
                    self._writing = asyncio.get_running_loop().create_task(self._write())
                await asyncio.shield(written)
        except TimeoutError:
            if written in self._waiting:
                raise LedgerUnavailable(SILENT) from None
        finally:
            # Nobody waits for it any more.
            self._waiting.pop(written, None)
        # Where it is being written, what is told has to be what comes of it, which is known before long.
        await written

    async def ask(self, question: Callable[[Ledger], Answer]) -> Answer:
        """The answer of the ledger to a question that is asked in a thread. Raises `LedgerUnavailable`."""
        return await self.run(lambda engine: question(Ledger(engine)))

    async def run(self, work: Callable[[sa.Engine], Answer]) -> Answer:
        """The result of work on the database, done in a thread.

        Raises `LedgerUnavailable`, at the latest after `PATIENCE_S`; what has been begun then goes on in its thread.
        """
        return await self._run(self._threads, work)

    async def check(self) -> None:
        """Raise `LedgerUnavailable` if recourse cannot be recorded now."""
        await self.ask(lambda ledger: ledger.check())

    async def sweep(self) -> int:
        """Erase the personal data of recourses that are old enough and have expired; how many those were.

        Answers kept for their idempotency key go as well, once nobody can have them again.
        """
        await self.run(lambda engine: Replays(engine).sweep(datetime.now(UTC)))
        self._overwrite_soon()
        erased = after = 0
        while True:
            now = datetime.now(UTC)
            given_before = now - timedelta(days=self._settings.retention_days)
            due = partial(Ledger.due, given_before=given_before, now=now, limit=SWEEP_AT_ONCE, after=after)
            if not (found := await self.ask(due)):
                return erased
            erased += await self.erase(found, "retention")
            after = found[-1].entry.number

    async def erase(self, records: Sequence[Record], why: str) -> int:
        """Erase personal data, here and wherever else it is kept; how many recourses still had some."""
        await self._forget(records)
        ids = [record.entry.id for record in records]
        erased = await self.ask(lambda ledger: ledger.erase(ids, why, datetime.now(UTC)))
        self._overwrite_soon()
        return erased

    async def erase_answers(self, ids: Sequence[str]) -> int:
        """Delete the answers kept for idempotency keys that give a recourse or tell of a job with one of these ids."""
        erased = await self.run(lambda engine: Replays(engine).erase(ids))
        self._overwrite_soon()
        return erased

    # --- inside ---

    async def _run(self, threads: Executor, work: Callable[[sa.Engine], Answer]) -> Answer:
        if self._engine is None:
            raise LedgerUnavailable
        running = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, work, self._engine)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await running
        except TimeoutError:
            log.error("ledger-silent", patience_s=PATIENCE_S)
            raise LedgerUnavailable(SILENT) from None
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            log.error("ledger-lost", trace=trace(error))
            raise LedgerUnavailable from None

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, {}
            gifts = [given for some in group.values() for given in some]
            error: BaseException | None = None
            try:
                await self._run(self._writer, partial(_append, gifts=gifts))
            except asyncio.CancelledError:
                error = LedgerUnavailable(SILENT)
                raise
            except Exception as caught:  # noqa: BLE001 - whatever it is, those who wait have to be told
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
        pause_s = RETRY_S
        while not await self._try_to_open():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)
            if self._closing.is_set():
                return
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        # An earlier process may have ended before it could.
        self._overwrite_soon()
        if self._settings.run_jobs:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def _try_to_open(self) -> bool:
        began = time.monotonic()
        try:
            self._engine = await asyncio.get_running_loop().run_in_executor(self._threads, self._connect)
        except Exception as error:  # noqa: BLE001 - whatever driver, database or migration raise, it is tried again
            log.error("ledger-not-opened", trace=trace(error))
            return False
        self._opened.set()
        log.info("ledger-opened", ms=round(1000.0 * (time.monotonic() - began)))
        return True

    def _connect(self) -> sa.Engine:
        require_state(self._settings)
        engine = open_engine(database_url(self._settings, FILE))
        try:
            upgrade(engine)
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
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), OVERWRITE_AGAIN_S)

    async def _sweep_for_ever(self) -> None:
        while not self._closing.is_set():
            try:
                log.info("ledger-swept", erased=await self.sweep())
                pause_s = SWEEP_S
            except Exception as error:  # noqa: BLE001 - at the start the jobs may not be open yet; it is tried again
                log.warning("ledger-not-swept", trace=trace(error))
                pause_s = SWEEP_AGAIN_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)


def _append(engine: sa.Engine, gifts: Sequence[Given]) -> None:
    Ledger(engine).append(gifts)
