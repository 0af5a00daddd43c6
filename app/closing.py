"""Pauses that end when the service stops."""

import asyncio
from contextlib import suppress


async def pause(closing: asyncio.Event, seconds: float) -> None:
    """Wait; less if the service stops meanwhile."""
    with suppress(TimeoutError):
        await asyncio.wait_for(closing.wait(), seconds)
