"""Pauses that end when the service stops."""

import asyncio

from app.closing import pause


async def test_a_pause_ends_after_its_time_or_with_the_service() -> None:
    closing = asyncio.Event()
    await pause(closing, 0.001)
    waiting = asyncio.create_task(pause(closing, 3600.0))
    closing.set()
    async with asyncio.timeout(20):
        await waiting
