"""Erases what is due without a running service."""

import asyncio
from datetime import UTC, datetime

from app.errors import NotReady
from app.service import Service
from app.settings import Settings

OPEN_S = 30.0
"""Longest time for a command to open the databases."""

OPEN_POLL_S = 0.1
"""Pause after the databases could not be opened; doubles each time, since each attempt writes a line of the log."""


async def sweep(settings: Settings, *, trust_clock: bool) -> int | None:
    """`Recorder.sweep` without a running service; how many recourses were erased, None if the clock is doubted.

    With `trust_clock` old jobs are deleted as well: a service that restarts before it believes its clock keeps them.

    Raises `NotReady`, with what is wrong with the databases.
    """
    service = Service(settings.model_copy(update={"run_jobs": False}))
    service.start(answers=False)
    problem, pause_s = "The databases of ledger and jobs cannot be opened.", OPEN_POLL_S
    try:
        async with asyncio.timeout(OPEN_S):
            while found := await service.problem_of_databases():
                problem = found
                await asyncio.sleep(pause_s)
                pause_s *= 2.0
        erased = await service.ledger.sweep(trust_clock=trust_clock)
        if trust_clock:
            await service.jobs.sweep(datetime.now(UTC))
        return None if service.ledger.clock_doubted else erased
    except TimeoutError:
        raise NotReady(problem) from None
    finally:
        await service.close()
