"""Keys share what computes jobs: who asks for little does not wait for all that another one asked for before."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from typing import Any

import pytest

from app.jobs import queue
from app.jobs.job import BATCH, Job, JobStatus
from app.jobs.jobs import Jobs
from app.keys.keys import NOBODY, asking
from app.keys.scopes import Scope
from app.pool.pool import Pool
from app.settings import Settings
from tests.jobs.test_lost_parts import numbered, opened, settings

__all__ = ["settings"]

WORK_S = 0.01
"""What a group of rows takes."""

MANY = 20_000


class _OneAtATime(Pool):
    """A lane with one child that needs its time for each call."""

    def __init__(self) -> None:
        self.size = 1
        self.busy = asyncio.Lock()

    def start(self) -> None:
        """There is nothing to start."""

    async def run(self, function: Callable[..., Any], *args: Any, **_options: Any) -> Any:
        async with self.busy:
            await asyncio.sleep(WORK_S)
            return function(*args)


async def of(name: str, asked: Callable[[], Any]) -> Job:
    """A job that a key submits."""
    context = copy_context()
    context.run(asking.set, replace(NOBODY, id=name, scopes=frozenset({Scope.RECOURSE})))
    job: Job = await asyncio.get_running_loop().create_task(asked(), context=context)
    return job


async def ended(jobs: Jobs, job: Job) -> Job:
    (now,) = await jobs._load([job.id])
    while not now.status.finished:
        await asyncio.sleep(0.02)
        (now,) = await jobs._load([job.id])
    return now


@pytest.mark.slow
async def test_a_small_batch_and_a_job_do_not_wait_for_the_large_batch_of_another_key(settings: Settings) -> None:
    kinds = {BATCH: numbered, "hold": lambda _store, payload, **_options: payload}
    async with opened(settings, _OneAtATime(), kinds) as jobs:
        large = await of("one", lambda: jobs.submit_batch(BATCH, {"deadline_s": 60.0}, [{}] * MANY))
        while not (await jobs._load([large.id]))[0].done:
            await asyncio.sleep(0.02)
        small = await of("other", lambda: jobs.submit_batch(BATCH, {"deadline_s": 60.0}, [{}] * 40))
        single = await of("other", lambda: jobs.submit("hold", {}, timeout_s=60.0))
        for job in (small, single):
            assert (await ended(jobs, job)).status is JobStatus.SUCCEEDED
        (now,) = await jobs._load([large.id])
        assert now.done < MANY / 2, "it was in the queue long before"
        assert (await ended(jobs, large)).done == MANY
        assert queue.KEYS_AT_ONCE > 1
