"""Waits of asynchronous tests."""

import asyncio
from collections.abc import Callable

LONG_S = 60.0
"""After so many seconds a wait fails; what is waited for happens long before."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(LONG_S):
        while not condition():
            await asyncio.sleep(0.005)
