"""The ledger as an event loop sees it."""

import asyncio
from pathlib import Path

import pytest

from app.errors import LedgerUnavailable
from app.settings import Settings
from app.store import recorder
from app.store.recorder import Recorder
from tests.store.gifts import gift


async def forget(_records: object) -> None:
    """Nothing is kept elsewhere."""


def test_nothing_to_record_waits_for_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PATIENCE_S", 0.05)

    async def work() -> None:
        closed = Recorder(Settings(state_dir=tmp_path), forget)
        await closed.record()
        with pytest.raises(LedgerUnavailable):
            await closed.record(gift(1))

    asyncio.run(work())
