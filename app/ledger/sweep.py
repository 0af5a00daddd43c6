"""Erases personal data past its retention period without a running service."""

from datetime import UTC, datetime

from app.service import opened
from app.settings import Settings


async def sweep(settings: Settings, *, trust_clock: bool) -> int | None:
    """Erase personal data past its retention period without a running service; returns the number of recourses.

    None if this machine's clock is doubted (`SureClock`). With `trust_clock` it is not doubted, and old jobs are
    deleted as well: a service that restarts before it believes its clock keeps them.

    Raises `NotReady`, whose sentence says why the databases cannot be used.
    """
    async with opened(settings) as service:
        erased = await service.ledger.sweep(trust_clock=trust_clock)
        if trust_clock:
            await service.jobs.sweep(datetime.now(UTC))
        return None if service.ledger.clock_doubted else erased
