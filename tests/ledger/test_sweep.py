"""Erasing what is due without a running service."""

import asyncio
from importlib import import_module
from pathlib import Path

import pytest

from app.errors import NotReady
from app.ledger.ledger import FILE
from app.ledger.recorder import Recorder
from app.ledger.sweep import sweep
from app.settings import Settings


def test_a_sweep_of_a_ledger_that_cannot_be_used_says_why_and_asks_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt at a database that is there writes a line of the log."""
    monkeypatch.setattr(import_module("app.service"), "OPEN_S", 2.0)
    asked: list[int] = []
    check = Recorder.check

    async def counted(self: Recorder) -> None:
        asked.append(1)
        await check(self)

    monkeypatch.setattr(Recorder, "check", counted)
    (tmp_path / FILE).write_bytes(b"not a database" * 1000)
    with pytest.raises(NotReady, match="The file of the ledger is damaged"):
        asyncio.run(sweep(Settings(models_store=tmp_path / "store", state_dir=tmp_path), trust_clock=False))
    assert 1 < len(asked) <= 6
