"""Erases what is due without a running service."""

import asyncio

from app.errors import NotReady
from app.service.service import Service
from app.settings import Settings

OPEN_S = 30.0
"""Longest time for a command to open the databases."""

OPEN_POLL_S = 0.1


async def sweep(settings: Settings) -> int:
    """`Recorder.sweep` without a running service; how many recourses were erased. Raises `NotReady`."""
    service = Service(settings.model_copy(update={"run_jobs": False}))
    service.start_jobs()
    try:
        async with asyncio.timeout(OPEN_S):
            while not await service.open():
                await asyncio.sleep(OPEN_POLL_S)
        return await service.ledger.sweep()
    except TimeoutError:
        raise NotReady("The databases of ledger and jobs cannot be opened.") from None
    finally:
        await service.close()
