"""A rehearsal that is killed in the middle goes on where it was."""

import os
import signal
import time
from pathlib import Path

import pytest

from app.futures.store import load_futures, status
from tests.forks import Fork, forks
from tests.futures.models import registered


def start(store: Path, ledger: Path) -> Fork:
    return forks().start("tests.futures.killed", [str(store), str(ledger)], env=os.environ)


def made(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


@pytest.mark.release
def test_killed_rehearsals_go_on(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")
    ledger = tmp_path / "ledger"
    for wanted in (10, 25):
        process = start(tmp_path / "store", ledger)
        try:
            give_up = time.monotonic() + 120
            while len(made(ledger)) < wanted:
                assert process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.005)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert status(model)["status"] == "pending"
        assert load_futures(model) is None
    assert start(tmp_path / "store", ledger).wait(120) == 0
    found = made(ledger)
    # At each kill at most the one in work is made again.
    assert set(found) == {str(i) for i in range(50)}
    assert 50 <= len(found) <= 52
    assert (status(model)["status"], status(model)["search"], status(model)["held_back"]) == ("ready", 30, 20)
