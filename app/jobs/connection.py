"""The connection to the database of the jobs: opened in the background, kept open, closed when the service stops.

It holds the client of DBOS, the table of chunks and, in a process that computes jobs, the claim to an executor id and
the worker. Libraries are imported here, on first use, so that requests without jobs do not wait for them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import sqlalchemy as sa

from app.closing import pause
from app.compute.answers import Json
from app.errors import NotReady, RecourseError
from app.jobs.names import APPLICATION, BATCHES, CHUNKS, JOBS_QUEUE, LOST, STORE
from app.jobs.workflows import ids_pending
from app.observability import log, trace
from app.settings import Settings
from app.store.engine import UNREACHABLE, overwrite_log
from app.store.health import lack_of_space, reason, refusal

if TYPE_CHECKING:
    from dbos import DBOSClient

    from app.jobs.batch.chunks import Chunks
    from app.jobs.slots import Claim
    from app.jobs.worker import Worker

Answer = TypeVar("Answer")
P = ParamSpec("P")

RETRY_S = 1.0
"""Pause after the database could not be opened; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 15.0

PING_S = 3.0
"""The database must answer a check within this time."""

OVERWRITE_TRIES = 10
"""Attempts to overwrite deleted data while others read; each waits for them for `overwrite_log`'s time."""

JOB_POLL_S = 0.5
"""Interval at which this process looks for new jobs and batches; each look costs some milliseconds."""

CHUNK_POLL_S = 0.25
"""Interval at which it looks for chunks: less than a child needs for one chunk, so that no child waits."""

BATCHES_AT_ONCE = 8
"""Batches that one process splits into chunks at the same time."""

WATCH_S = 2.0
"""Interval between two looks for jobs of processes that no longer run."""

LOOKS = 3
"""Consecutive looks that must find a process missing before its jobs are adopted, or a job lost before it is requeued.
"""


class Connection:
    """The connection of one service to the database of its jobs; used from one event loop.

    Parameters
    ----------
    settings : where the database is, and whether this process computes jobs
    new_worker : makes the worker of this process; called on the event loop, for each opening
    """

    def __init__(self, settings: Settings, new_worker: "Callable[[Chunks], Worker]") -> None:
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
        self._chunks: Chunks | None = None
        self._claim: Claim | None = None
        self._client: DBOSClient | None = None

    @property
    def client(self) -> "DBOSClient":
        """The client of DBOS. Raises `NotReady`."""
        if self._client is None:
            raise NotReady(self.fault)
        return self._client

    @property
    def engine(self) -> sa.Engine:
        """The database. Raises `NotReady`."""
        if self._client is None or self._engine is None:
            raise NotReady(self.fault)
        return self._engine

    @property
    def chunks(self) -> "Chunks":
        """The chunks of batches. Raises `NotReady`."""
        if self._chunks is None:
            raise NotReady(self.fault)
        return self._chunks

    async def reached(self, question: Awaitable[Answer]) -> Answer:
        """The answer of the database. Raises `NotReady` if it cannot be reached."""
        try:
            return await question
        except sa.exc.IntegrityError:
            # The database answered; storing a key twice is a bug of ours.
            raise
        except UNREACHABLE as error:
            sentence = reason(error, STORE, LOST)
            log.error("job-store-lost", trace=trace(error), reason=sentence, refusal=refusal(error))
            raise NotReady(sentence) from None

    async def ask(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """The result of a function that asks the database and blocks. Raises `NotReady` as `reached`."""
        return await self.reached(asyncio.to_thread(function, *args, **kwargs))

    async def add_chunks(self, job_id: str, rows: Iterable[Json]) -> int:
        """Store the rows of a batch for the processes that compute jobs now; errors as `ask`, and of `rows`."""
        from app.jobs.slots import processes

        children = self._settings.lanes_bounds * max(await self.ask(processes, self.engine), 1)
        return await self.ask(self.chunks.add, job_id, rows, children=children)

    async def check(self) -> None:
        """Raise `NotReady` if the database does not answer now, or its disk has no space for jobs."""
        try:
            async with asyncio.timeout(PING_S):
                await self.ask(_ping, self.engine)
        except TimeoutError:
            raise NotReady("The job store does not answer.") from None
        if lack := self._lack_of_space():
            raise NotReady(lack)

    async def overwrite(self) -> None:
        """Overwrite what was deleted, which the write-ahead file of SQLite still holds."""
        for _ in range(OVERWRITE_TRIES):
            if await self.ask(overwrite_log, self.engine):
                return
        log.warning("erased-not-overwritten-yet")

    async def open(self) -> bool:
        """Open the database, as often as that takes; False if the service stopped first."""
        pause_s = RETRY_S
        while not await self._try_to_open():
            await pause(self.closing, pause_s)
            if self.closing.is_set():
                return False
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        return True

    async def watch(self) -> None:
        """Keep the claim, and queue again what no process computes, until the service stops."""
        missing: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        while True:
            await pause(self.closing, WATCH_S)
            if self.closing.is_set():
                return
            assert self._claim is not None
            try:
                if not await self.ask(self._claim.keep):
                    await self._reopen()
                    missing.clear()
                    lost.clear()
                    continue
                # A process that only lost its connection takes its slot again before the last look.
                missing = _seen_again(missing, await self.ask(self._claim.deserted))
                for name in _long(missing):
                    await self._adopt(name)
                # What was just taken from the queue begins before the last look.
                lost = _seen_again(lost, await self._lost())
                if found := _long(lost):
                    await self._requeue(found)
            except NotReady:
                pass  # `check` says so, and the next look comes
            except Exception as error:  # noqa: BLE001 - without the watch, jobs would wait without end
                log.error("jobs-not-watched", trace=trace(error))

    def shut(self) -> None:
        """Close everything; unfinished jobs stay in the database. Blocks."""
        if self.worker is not None:
            self.worker.stop()
        if self._client is not None:
            self._client.destroy()
        if self._claim is not None:
            self._claim.release()
        if self._engine is not None:
            self._engine.dispose()
        self.worker = self._client = self._claim = self._chunks = self._engine = None

    async def _adopt(self, executor_id: str) -> None:
        assert self._claim is not None
        assert self.worker is not None
        adopt = partial(self.worker.adopt, executor_id)
        workflows = await self.ask(self._claim.adopt, executor_id, adopt)
        log.warning("jobs-adopted", executor=executor_id, workflows=workflows)

    async def _lost(self) -> set[str]:
        """Workflows that count as running in this process and are not.

        Either another process has taken them under this executor id, before it noticed that it no longer has it, or
        the connection was lost between taking them and beginning them.
        """
        assert self._claim is not None
        assert self.worker is not None
        pending = await self.ask(ids_pending, self.engine, self._claim.executor_id)
        return pending - self.worker.running()

    async def _requeue(self, workflows: Sequence[str]) -> None:
        assert self._claim is not None
        assert self.worker is not None
        await self.ask(self.worker.requeue, self._claim.executor_id, workflows)
        log.warning("jobs-requeued", workflows=len(workflows))

    async def _reopen(self) -> None:
        """Open under another executor id: another process took this one while the connection was lost."""
        assert self._claim is not None
        log.error("executor-id-lost", executor=self._claim.executor_id)
        self.fault = "The job store is being opened again."
        await asyncio.to_thread(self.shut)
        while not self.closing.is_set() and not await self._try_to_open():
            await pause(self.closing, RETRY_S)

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
            executor=self._claim and self._claim.executor_id,
        )
        return True

    def _lack_of_space(self) -> str:
        return "" if self._settings.database_url is not None else lack_of_space(self._settings.state_dir, STORE)

    async def _start_worker(self) -> None:
        assert self._claim is not None
        worker = self._new_worker(self.chunks)
        await asyncio.to_thread(worker.start, self._url, self._claim.executor_id)
        self.worker = worker

    def _connect(self) -> None:
        from dbos import DBOSClient, DBOSPortableJSONSerializer

        from app.jobs.batch.chunks import Chunks
        from app.jobs.database import FILE, migrate
        from app.jobs.slots import Claim
        from app.store.engine import database_url, open_engine
        from app.store.state import require_state

        require_state(self._settings)
        self._url = database_url(self._settings, FILE)
        self._engine = open_engine(self._url)
        _ping(self._engine)
        if self._settings.run_jobs:
            self._claim = Claim(self._engine, self._settings)
        migrate(self._url)
        client = DBOSClient(
            system_database_url=self._url,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
        )
        if self._settings.run_jobs:
            self._register_queues(client)
        self._chunks = Chunks(self._engine)
        self._client = client

    def _register_queues(self, client: "DBOSClient") -> None:
        """Set how much a process takes at once. DBOS keeps this in the database: the last process to start decides."""
        size = self._settings.lanes_bounds
        # Twice the children, so that a child which has finished a chunk finds the next one in this process.
        for queue, at_once, poll_s in (
            (JOBS_QUEUE, size, JOB_POLL_S),
            (BATCHES, BATCHES_AT_ONCE, JOB_POLL_S),
            (CHUNKS, 2 * size, CHUNK_POLL_S),
        ):
            client.register_queue(
                queue, worker_concurrency=at_once, polling_interval_sec=poll_s, on_conflict="always_update"
            )


def _seen_again(looks: Counter[str], found: Iterable[str]) -> Counter[str]:
    """In how many consecutive looks each of them was found."""
    return Counter({name: looks[name] + 1 for name in found})


def _long(looks: Counter[str]) -> list[str]:
    return [name for name, count in looks.items() if count >= LOOKS]


def _ping(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.select(1))
