"""Many who follow jobs: one look at the database for all of them."""

import asyncio
import gc
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from app.errors import NotReady, RecourseError, TooManyRequests, UnknownJob
from app.jobs import followers as module
from app.jobs.followers import MOST_STREAMS, Followers
from app.jobs.job import Job, JobStatus
from tests.jobs.test_job import job

STREAMS = 900


class Table:
    """Jobs that a test changes, and how often they were looked at."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.looks = 0
        self.error: RecourseError | None = None
        self.closing = asyncio.Event()
        self.followers = Followers(self.load, self.closing)

    async def load(self, job_ids: Collection[str]) -> list[Job]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return [self.jobs[job_id] for job_id in job_ids if job_id in self.jobs]

    def change(self, found: Job, **changes: Any) -> Job:
        self.jobs[found.id] = replace(self.jobs[found.id], **changes)
        return self.jobs[found.id]

    async def looked(self) -> None:
        """Return after two more looks, the last of which is complete."""
        until = self.looks + 3
        while self.looks < until:
            await asyncio.sleep(0.001)

    async def all(self, found: Job) -> list[Job]:
        return [now async for now in self.followers.follow(found)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    monkeypatch.setattr(module, "LONGEST_LOOK_S", 0.01)


async def test_however_many_follow_a_job_it_is_looked_at_once_at_a_time() -> None:
    table = Table(one := job(), other := job())
    following = [asyncio.create_task(table.all(one)) for _ in range(STREAMS)]
    also = asyncio.create_task(table.all(other))
    await table.looked()
    half = table.change(one, done=1, total=2)
    await table.looked()
    ended = table.change(one, status=JobStatus.SUCCEEDED, done=2)
    before = table.looks
    assert await asyncio.gather(*following) == [[one, half, ended]] * STREAMS
    assert table.looks - before <= 3
    assert not also.done()
    last = table.change(other, status=JobStatus.CANCELLED)
    assert await also == [other, last]
    looks = table.looks
    await asyncio.sleep(0.05)
    assert table.looks == looks, "nobody follows any more"


async def test_who_comes_later_is_told_what_has_changed_before() -> None:
    table = Table(one := job())
    first = asyncio.create_task(table.all(one))
    await table.looked()
    now = table.change(one, done=1, total=2)
    await table.looked()
    later = aiter(table.followers.follow(one))
    assert [await anext(later), await anext(later)] == [one, now]
    table.closing.set()
    assert await first == [one, now]
    assert [news async for news in later] == []


async def test_who_is_slow_is_told_the_newest_only() -> None:
    table = Table(one := job())
    slow = aiter(table.followers.follow(one))
    assert await anext(slow) == one
    asked = asyncio.create_task(anext(slow))
    await table.looked()
    assert table.change(one, done=1, total=9) == await asked
    for done in range(2, 9):
        newest = table.change(one, done=done)
        await table.looked()
    assert await anext(slow) == newest
    await slow.aclose()


async def test_who_follows_is_told_why_it_ends() -> None:
    table = Table(one := job())
    following = [asyncio.create_task(table.all(one)) for _ in range(3)]
    await table.looked()
    table.error = NotReady()
    for each in await asyncio.gather(*following, return_exceptions=True):
        assert isinstance(each, NotReady)
    table.error = None
    again = asyncio.create_task(table.all(one))
    await table.looked()
    del table.jobs[one.id]
    with pytest.raises(UnknownJob):
        await again


async def test_a_caller_has_so_many_streams_and_no_more() -> None:
    followers = Table().followers
    held = [followers.stream("one") for _ in range(MOST_STREAMS)]
    with pytest.raises(TooManyRequests, match="event streams"):
        followers.stream("one")
    followers.stream("other")
    followers.end(held[0])
    held.append(followers.stream("one"))
    with pytest.raises(TooManyRequests):
        followers.stream("one")
    del held
    gc.collect()
    assert followers.stream("one"), "those whose clients left before they began"
