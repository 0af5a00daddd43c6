"""Pauses that end when the service stops."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

FIRST_PAUSE_S = 1.0
"""Pause after a first attempt that failed; doubles up to `LONGEST_PAUSE_S`."""

LONGEST_PAUSE_S = 15.0


async def pause(closing: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds`; end sooner if `closing` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(closing.wait(), seconds)


async def persist(attempt: Callable[[], Awaitable[bool]], closing: asyncio.Event) -> bool:
    """Await `attempt` again and again, with growing pauses, until it returns true; returns whether it did.

    There is at least one attempt, and none after `closing` is set.
    """
    pause_s = FIRST_PAUSE_S
    while not await attempt():
        await pause(closing, pause_s)
        if closing.is_set():
            return False
        pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
    return True
