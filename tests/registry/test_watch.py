"""The watch over the registered models."""

import asyncio
from types import SimpleNamespace

import pytest

from app.registry import watch
from app.registry.watch import Watch


async def test_a_look_that_fails_is_logged_and_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(watch, "log", SimpleNamespace(error=lambda event, **_: logged.append(event)))
    monkeypatch.setattr(watch, "LOOK_S", 0.0)
    looks: list[int] = []
    seen = asyncio.Event()

    async def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise PermissionError(13, "Permission denied")
        seen.set()

    watching = Watch(look)
    watching.start()
    async with asyncio.timeout(20):
        await seen.wait()
    await watching.close()
    assert logged == ["models-not-watched"]
