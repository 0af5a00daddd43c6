"""Watches the jobs that callers follow or wait for: one query reads all of them, however many callers there are."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from weakref import WeakKeyDictionary

from app.closing import pause
from app.errors import RecourseError, TooManyRequests, UnknownJob
from app.jobs.job import Job

LOOK_S = 0.05
"""Pause between two looks; grows to `LONGEST_LOOK_S` while nothing changes."""

LONGEST_LOOK_S = 0.5

MOST_STREAMS = 100
"""Event streams that one caller may keep open in this process."""

News = Job | RecourseError | None
"""A job that has changed, why it cannot be looked at, or None: the service stops."""


class Stream:
    """A token for one open event stream; it has no content."""


class Followers:
    """The event streams in which callers of this process follow jobs; used from one event loop.

    Parameters
    ----------
    load : returns the jobs with given ids, except deleted ones
    closing : set when the service stops
    """

    def __init__(self, load: Callable[[Collection[str]], Awaitable[list[Job]]], closing: asyncio.Event) -> None:
        self._load = load
        self._closing = closing
        self._followed: dict[str, set[asyncio.Queue[News]]] = {}
        self._known: dict[str, Job] = {}
        """What all followers of a job know."""
        self._looking: asyncio.Task[None] | None = None
        self._pause_s = LOOK_S
        # Weak: a client may leave before its stream begins, and then nobody says that it has ended.
        self._streams: WeakKeyDictionary[Stream, str] = WeakKeyDictionary()

    def stream(self, caller: str) -> "Stream":
        """Count one more event stream for a caller, and return the stream's token, which `end` takes.

        Raises `TooManyRequests` where the caller has too many open streams.
        """
        if sum(name == caller for name in self._streams.values()) >= MOST_STREAMS:
            raise TooManyRequests(
                f"This caller has {MOST_STREAMS} event streams open, the most that are possible. Close one, or look at "
                "GET /jobs/{id} from time to time."
            )
        self._streams[stream := Stream()] = caller
        return stream

    def end(self, stream: "Stream") -> None:
        """Stop counting an event stream that has ended."""
        self._streams.pop(stream, None)

    async def follow(self, job: Job) -> AsyncGenerator[Job, None]:
        """Yields the job now and after each change, until the job has ended or the service stops.

        Raises `UnknownJob` once the job is deleted, and `NotReady` where jobs cannot be read.
        """
        yield job
        if job.status.finished:
            return
        news: asyncio.Queue[News] = asyncio.Queue(maxsize=1)
        self._followed.setdefault(job.id, set()).add(news)
        self._known.pop(job.id, None)
        self._pause_s = LOOK_S
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        try:
            while not job.status.finished and (now := await news.get()) is not None:
                if isinstance(now, RecourseError):
                    raise now
                if now != job:
                    yield (job := now)
        finally:
            self._followed[job.id].discard(news)
            if not self._followed[job.id]:
                del self._followed[job.id]

    async def _look(self) -> None:
        """Look at all jobs that are followed, until none is."""
        while self._followed and not self._closing.is_set():
            await pause(self._closing, self._pause_s)
            if not (asked := [*self._followed]):
                return
            try:
                found = {job.id: job for job in await self._load(asked)}
            except RecourseError as error:
                self._tell(dict.fromkeys(asked, error))
                return
            changed = [job_id for job_id in asked if job_id not in found or self._known.get(job_id) != found[job_id]]
            self._tell({job_id: found.get(job_id) or UnknownJob(f"There is no job {job_id}.") for job_id in changed})
            self._known = found
            # Approaches one or two looks per change while jobs make steady progress.
            self._pause_s = max(self._pause_s / 2.0, LOOK_S) if changed else min(1.5 * self._pause_s, LONGEST_LOOK_S)
        self._tell(dict.fromkeys(self._followed))

    def _tell(self, changes: Mapping[str, News]) -> None:
        for job_id, one in changes.items():
            for news in self._followed.get(job_id, ()):
                if news.full():
                    news.get_nowait()  # who is slow needs only the newest
                news.put_nowait(one)
