"""The connection to the database of the jobs: opened in the background, kept open, closed when the service stops.

Libraries are imported here, on first use, so that requests without jobs do not wait for them.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import sqlalchemy as sa

from app.closing import pause, persist
from app.errors import NotReady, RecourseError
from app.jobs.executor import LOST, STORE
from app.jobs.records import Records
from app.ledger.health import lack_of_space, reason, refusal
from app.observability import log, trace
from app.settings import Settings
from app.store.engine import UNREACHABLE, overwrite_log

if TYPE_CHECKING:
    from app.jobs.presence import Presence
    from app.jobs.queue import Queue
    from app.jobs.worker import Worker

Answer = TypeVar("Answer")
P = ParamSpec("P")

PING_S = 3.0
"""The database must answer a check within this time."""

OVERWRITE_TRIES = 10
"""Attempts to overwrite deleted data while others read; each waits for them for `overwrite_log`'s time."""


class Connection:
    """The connection of one process to the database of its jobs; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    new_worker : makes the worker of this process; called on the event loop, for each opening
    """

    def __init__(self, settings: Settings, new_worker: "Callable[[Records], Worker]") -> None:
        self.closing = asyncio.Event()
        """Set when the service stops."""
        self.fault = "The job store has not been opened yet."
        """Why jobs are unavailable, while they are."""
        self.worker: Worker | None = None
        """Computes jobs in this process; None while closed, and where `settings.run_jobs` is false."""
        self._settings = settings
        self._new_worker = new_worker
        self._url = ""
        self._engine: sa.Engine | None = None
        self._queue: Queue | None = None
        self._records: Records | None = None
        self._presence: Presence | None = None
        self._heard_s = 0.0
        """When this process last beat; what it knows of others' silence is from times at which it beat itself."""
        self._patient_until_s = 0.0
        # A thread of its own, so that no other question delays it until this process seems dead.
        self._beating = ThreadPoolExecutor(1, "jobs-beat")

    @property
    def engine(self) -> sa.Engine:
        """The SQLAlchemy engine of the database. Raises `NotReady` while the database is not open."""
        if self._records is None or self._engine is None:
            raise NotReady(self.fault)
        return self._engine

    @property
    def queue(self) -> "Queue":
        """The queue of parts (single jobs, or some rows of a batch).

        Raises `NotReady` while the database is not open.
        """
        if self._records is None or self._queue is None:
            raise NotReady(self.fault)
        return self._queue

    @property
    def records(self) -> Records:
        """The stored jobs; calling a method blocks. Raises `NotReady` while the database is not open."""
        if self._records is None:
            raise NotReady(self.fault)
        return self._records

    async def ask(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Call `function`, which queries the database, in a thread, and return its result.

        Raises `NotReady` if the database cannot be reached.
        """
        try:
            return await asyncio.to_thread(function, *args, **kwargs)
        except sa.exc.IntegrityError:
            # The database answered; storing a key twice is a bug of ours.
            raise
        except UNREACHABLE as error:
            sentence = self._lack_of_space() or reason(error, STORE, LOST)
            log.error("job-store-lost", trace=trace(error), reason=sentence, refusal=refusal(error))
            raise NotReady(sentence) from None

    async def children(self) -> int:
        """Number of child processes on all servers that compute jobs.

        It is estimated: every server is assumed to have as many as this one.
        """
        from app.jobs.presence import count

        return self._settings.lanes_bounds * max(await self.ask(count, self.engine), 1)

    async def check(self) -> None:
        """Raise `NotReady` if the database does not answer now, or the disk of the database lacks space for jobs."""
        try:
            async with asyncio.timeout(PING_S):
                await self.ask(_ping, self.engine)
        except TimeoutError:
            raise NotReady("The job store does not answer.") from None
        if lack := self._lack_of_space():
            raise NotReady(lack)

    async def overwrite(self) -> None:
        """Overwrite deleted data that is still in SQLite's write-ahead log.

        Logs a warning if overwriting does not succeed.
        """
        for _ in range(OVERWRITE_TRIES):
            if await self.ask(overwrite_log, self.engine):
                return
        log.warning("erased-not-overwritten-yet")

    async def open(self) -> bool:
        """Try to open the database until it is open; returns false if the service stops before."""
        return await persist(self._try_to_open, self.closing)

    async def watch(self) -> None:
        """Note at intervals that this process runs, and queue the work of lost processes again.

        Returns when the service stops.
        """
        from app.jobs.presence import BEAT_S

        missed: set[str] = set()
        while True:
            await pause(self.closing, BEAT_S)
            if self.closing.is_set():
                return
            try:
                beat = asyncio.get_running_loop().run_in_executor(self._beating, self._beat, missed)
                if (found := await beat) is None:
                    await self._reopen()
                missed = found or set()
            except UNREACHABLE as error:
                # `check` says so, and the next beat comes.
                log.error("job-store-lost", trace=trace(error), reason=reason(error, STORE, LOST))
            except Exception as error:  # noqa: BLE001 - without the watch, jobs would wait without end
                log.error("jobs-not-watched", trace=trace(error))

    def shut(self) -> None:
        """Stop computing and close the database, which keeps the unfinished jobs. Blocks."""
        if self.worker is not None:
            self.worker.stop()
        if self._presence is not None:
            try:
                self._presence.end()
            except UNREACHABLE as error:
                log.warning("job-store-lost", trace=trace(error), reason=reason(error, STORE, LOST))
        if self._queue is not None:
            self._queue.close()
        if self._engine is not None:
            self._engine.dispose()
        self.worker = self._presence = self._records = self._queue = self._engine = None

    def _beat(self, missed: set[str]) -> set[str] | None:
        """One beat. None if another process has the name; otherwise the parts that count as ours and are not computed.

        Those of them that the beat before has `missed` as well are queued again: what is taken from the queue begins
        before that, so the connection was lost in between. So are the parts of silent processes.
        """
        from app.jobs.presence import SILENT_S

        assert self._presence is not None
        assert self._queue is not None
        assert self.worker is not None
        if not self._presence.beat():
            return None
        now_s = time.monotonic()
        if 0.0 < self._heard_s < now_s - SILENT_S / 2.0:
            # The database was away, or this process stood still: then others may have been kept from beating as well.
            self._patient_until_s = now_s + SILENT_S
        self._heard_s = now_s
        begun = self._queue.begun()
        spared, running, own = self._presence.spared(), self.worker.running(), self._presence.executor_id
        idle = {one.workflow_id for one in begun if one.executor_id == own} - running
        if now_s < self._patient_until_s:
            spared |= {str(one.executor_id) for one in begun}
        again = [one for one in begun if one.executor_id not in spared or one.workflow_id in idle & missed]
        if again:
            self._queue.again(again)
            log.warning("jobs-requeued", parts=len(again), of=sorted({str(one.executor_id) for one in again}))
        return idle

    async def _reopen(self) -> None:
        """Open again: another process took the name while this one could not say that it runs."""
        assert self._presence is not None
        log.error("executor-id-lost", executor=self._presence.executor_id)
        self.fault = "The job store is being opened again."
        await asyncio.to_thread(self.shut)
        if not self.closing.is_set():
            await self.open()

    async def _try_to_open(self) -> bool:
        """Whether the database is open now; if not, the reason is in the log and in `fault`."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._connect)
            if self._settings.run_jobs:
                await self._start_worker()
        except Exception as error:  # noqa: BLE001 - whatever the driver or the database raises, it is tried again
            # SQLite says of a full disk, while it opens a file, that the disk does not work.
            sentence = self._lack_of_space() or reason(error, STORE, "The job store cannot be opened.")
            self.fault = error.detail if isinstance(error, RecourseError) else sentence
            log.error("job-store-not-opened", reason=self.fault, trace=trace(error), refusal=refusal(error))
            await asyncio.to_thread(self.shut)
            return False
        log.info(
            "job-store-opened",
            ms=round(1000.0 * (time.monotonic() - began)),
            executor=self._presence and self._presence.executor_id,
        )
        return True

    def _lack_of_space(self) -> str:
        return "" if self._settings.database_url is not None else lack_of_space(self._settings.state_dir, STORE)

    async def _start_worker(self) -> None:
        assert self._presence is not None
        worker = self._new_worker(self.records)
        await asyncio.to_thread(worker.start, self._url, self._presence.executor_id)
        self.worker = worker

    def _connect(self) -> None:
        from app.jobs.database import migrate
        from app.jobs.presence import Presence
        from app.jobs.queue import Queue
        from app.jobs.tables import FILE
        from app.store.engine import database_url, open_engine
        from app.store.state import require_state

        require_state(self._settings)
        self._url = database_url(self._settings, FILE)
        self._engine = open_engine(self._url)
        _ping(self._engine)
        if self._settings.run_jobs:
            self._presence = Presence(self._engine, self._settings)
        migrate(self._url)
        self._queue = Queue(self._url)
        if self._presence is not None:
            self._presence.begin()
            self._queue.register(self._settings.lanes_bounds)
        self._records = Records(self._engine, self._queue.put)


def _ping(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.select(1))
