"""Erases personal data past its retention period without a running service."""

from datetime import UTC, datetime

from app.service import opened
from app.settings import Settings


async def sweep(settings: Settings, *, trust_clock: bool) -> int | None:
    """Erase personal data past its retention period, for when no service runs; returns the number of erased recourses.

    Returns None if this machine's clock is doubted (see `SureClock`). Raises `NotReady`, whose sentence says why the
    databases cannot be used.

    Parameters
    ----------
    trust_clock : whether to rely on the clock even if it is doubted, and delete old jobs as well; a running service
        keeps old jobs while its clock is doubted
    """
    async with opened(settings) as service:
        erased = await service.ledger.sweep(trust_clock=trust_clock)
        if trust_clock:
            await service.jobs.sweep(datetime.now(UTC))
        return None if service.ledger.clock_doubted else erased
