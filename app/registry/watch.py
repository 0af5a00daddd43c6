"""Looks at the registered models every half minute, to start what a registration entails."""

import asyncio
from collections.abc import Awaitable, Callable

from app.observability import log, trace

LOOK_S = 30.0
"""Seconds between looks for versions that were registered meanwhile."""


class Watch:
    """Awaits `look` every `LOOK_S` seconds until the watch is closed. An exception in `look` is only logged."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Await `look` in the background, now and every `LOOK_S` seconds, until `close`."""
        self._looking = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the calls of `look`; one that is running is cancelled."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - such as a directory that cannot be listed; the next look comes
                log.error("models-not-watched", trace=trace(error))
            await asyncio.sleep(LOOK_S)
