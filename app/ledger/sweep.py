"""Erases what is due without a running service."""

from datetime import UTC, datetime

from app.service import opened
from app.settings import Settings


async def sweep(settings: Settings, *, trust_clock: bool) -> int | None:
    """Erase without a running service what is due; returns the number of recourses, None if the clock is doubted.

    With `trust_clock` the clock is not doubted, and old jobs are deleted as well: a service that restarts before it
    believes its clock keeps them.

    Raises `NotReady`, whose sentence says why the databases cannot be used.
    """
    async with opened(settings) as service:
        erased = await service.ledger.sweep(trust_clock=trust_clock)
        if trust_clock:
            await service.jobs.sweep(datetime.now(UTC))
        return None if service.ledger.clock_doubted else erased
