"""The ledger for an event loop: opened in the background, written in groups, never blocking the loop.

Whoever records waits until it is on disk. What comes in during one commit is written together by the next, so that many
requests at once share one wait for the disk.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from app.errors import LedgerUnavailable
from app.observability import log, trace
from app.settings import Settings
from app.store.engine import database_url, open_engine
from app.store.ledger import FILE, Given, Ledger, Record
from app.store.migrate import upgrade
from app.store.replays import Replays
from app.store.state import require_state

Answer = TypeVar("Answer")

RETRY_S = 1.0
"""Pause after the database could not be opened; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 15.0

PATIENCE_S = 10.0
"""Longest time to wait for the ledger."""

SWEEP_S = 3600.0
"""How often expired recourses are erased."""

SWEEP_AGAIN_S = 5.0
"""Pause after that did not work."""

SWEEP_AT_ONCE = 200

Forget = Callable[[Sequence[Record]], Awaitable[None]]
"""Deletes what is kept about recourses outside the ledger, before they are erased."""


class Recorder:
    """The ledger of one process; used from one event loop."""

    def __init__(self, settings: Settings, forget: Forget) -> None:
        self._settings = settings
        self._forget = forget
        self._engine: sa.Engine | None = None
        self._ledger: Ledger | None = None
        self._opened = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Sequence[Given], asyncio.Future[None]]] = []
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Open the database in the background."""
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def close(self) -> None:
        """Write what waits, and let go of the database."""
        self._closing.set()
        for task in (self._opening, self._sweeping, self._writing):
            if task is not None:
                await task
        if self._engine is not None:
            await asyncio.to_thread(self._engine.dispose)
        self._engine = self._ledger = None

    def require(self) -> Ledger:
        """The ledger. Raises `LedgerUnavailable` while it has not been opened."""
        if self._ledger is None:
            raise LedgerUnavailable
        return self._ledger

    async def record(self, *gifts: Given) -> None:
        """Return once they are on disk; one that has been recorded before stays as it was.

        Raises `LedgerUnavailable`.
        """
        if not gifts:
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE_S):
                # A job may have ended before the ledger was open.
                await self._opened.wait()
                self._waiting.append((gifts, written))
                if self._writing is None or self._writing.done():
                    self._writing = asyncio.get_running_loop().create_task(self._write())
                await written
        except TimeoutError:
            raise LedgerUnavailable("The ledger does not answer.") from None

    async def ask(self, question: Callable[[Ledger], Answer]) -> Answer:
        """The answer of the ledger to a question that is asked in a thread. Raises `LedgerUnavailable`."""
        self.require()
        return await self.run(lambda engine: question(Ledger(engine)))

    async def run(self, work: Callable[[sa.Engine], Answer]) -> Answer:
        """The result of work on the database, done in a thread. Raises `LedgerUnavailable`."""
        if self._engine is None:
            raise LedgerUnavailable
        try:
            return await asyncio.to_thread(work, self._engine)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            log.error("ledger-lost", trace=trace(error))
            raise LedgerUnavailable from None

    async def check(self) -> None:
        """Raise `LedgerUnavailable` if recourse cannot be recorded now."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.ask(lambda ledger: ledger.check())
        except TimeoutError:
            raise LedgerUnavailable("The ledger does not answer.") from None

    async def sweep(self) -> int:
        """Erase the personal data of recourses that are old enough and have expired; how many those were.

        Answers kept for their idempotency key go as well, once nobody can have them again.
        """
        await self.run(lambda engine: Replays(engine).sweep(datetime.now(UTC)))
        erased = 0
        while True:
            now = datetime.now(UTC)
            given_before = now - timedelta(days=self._settings.retention_days)
            due = partial(Ledger.due, given_before=given_before, now=now, limit=SWEEP_AT_ONCE)
            if not (found := await self.ask(due)):
                return erased
            erased += await self.erase(found, "retention")

    async def erase(self, records: Sequence[Record], why: str) -> int:
        """Erase personal data, here and wherever else it is kept; how many recourses still had some."""
        await self._forget(records)
        ids = [record.entry.id for record in records]
        return await self.ask(lambda ledger: ledger.erase(ids, why, datetime.now(UTC)))

    # --- inside ---

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            error: LedgerUnavailable | None = None
            try:
                await self.ask(partial(Ledger.append, gifts=[given for gifts, _ in group for given in gifts]))
            except LedgerUnavailable as caught:
                error = caught
            for _, written in group:
                if written.done():
                    continue  # nobody waits any more
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
        if self._settings.run_jobs:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def _try_to_open(self) -> bool:
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._connect)
        except Exception as error:  # noqa: BLE001 - whatever driver, database or migration raise, it is tried again
            log.error("ledger-not-opened", trace=trace(error))
            return False
        self._opened.set()
        log.info("ledger-opened", ms=round(1000.0 * (time.monotonic() - began)))
        return True

    def _connect(self) -> None:
        require_state(self._settings)
        engine = open_engine(database_url(self._settings, FILE))
        try:
            upgrade(engine)
        except BaseException:
            engine.dispose()
            raise
        self._engine, self._ledger = engine, Ledger(engine)

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
