"""Asynchronous work in tests: run to its end, and waited for while it goes on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LONG_S = 60.0
"""For what happens long before that."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns, in an event loop of its own."""
    return asyncio.run(asyncio.wait_for(work, LONG_S))


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(LONG_S):
        while not condition():
            await asyncio.sleep(0.005)
