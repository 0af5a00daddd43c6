"""How long jobs are kept."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.jobs import retention
from app.jobs.retention import Retention


async def test_jobs_are_forgotten_again_after_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    log = SimpleNamespace(info=lambda *_, **__: None, warning=lambda event, **_: warned.append(event))
    monkeypatch.setattr(retention, "log", log)
    monkeypatch.setattr(retention, "FORGET_S", 0.0)
    tries: list[int] = []
    seen = asyncio.Event()

    async def forget(*_of: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("of DBOS")
        seen.set()
        return 0

    connection: Any = None  # nothing reaches it

    async def newest_at(*_of: Any) -> None:
        return None

    monkeypatch.setattr(Retention, "_newest_at", newest_at)
    monkeypatch.setattr(Retention, "forget", forget)

    forgetting = asyncio.create_task(Retention(connection, 1.0).run())
    async with asyncio.timeout(20):
        await seen.wait()
    forgetting.cancel()
    await asyncio.wait([forgetting])
    assert warned == ["jobs-not-forgotten"]
