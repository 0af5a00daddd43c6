"""The executor of jobs by itself, with databases that do not answer."""

import asyncio
import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from app.api.schemas.recourse import LONGEST_DEADLINE_MS
from app.compute.lane import Lane
from app.compute.messages import Store
from app.errors import LedgerUnavailable
from app.jobs import executor as executor_module
from app.jobs.batch.chunks import Chunk
from app.jobs.batch.lines import GROUP
from app.jobs.executor import Executor, as_computed, kept_nowhere, only_failed
from app.metrics import Metrics
from app.store.engine import UNREACHABLE
from tests.compute import chores
from tests.jobs.kinds import KINDS
from tests.jobs.test_workers import no_report

SILENT = [sa.exc.OperationalError("select 1", {}, Exception()), *(kind() for kind in UNREACHABLE[1:])]
"""How SQLAlchemy says that a database cannot be reached."""


class Chunks:
    """Chunks without rows, of which the first cannot be had at once."""

    def __init__(self, error: Exception) -> None:
        self.errors = [error]

    def take(self, _job_id: str, _number: int) -> Chunk:
        for error in self.errors:
            self.errors.remove(error)
            raise error
        return Chunk(first=0, rows=[], lines=None)


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
def test_a_chunk_waits_for_a_database_that_cannot_be_reached(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "STORE_AGAIN_S", 0.0)
    monkeypatch.setattr(Lane, "start", lambda _lane: None)
    chunks: Any = Chunks(error)

    async def work() -> Any:
        async with asyncio.timeout(20):
            return await new_executor(chunks).run_chunk("job", 0, "hold", {})

    assert asyncio.run(work()) == {"ok": {"rows": 0, "refused": 0}}
    assert chunks.errors == []


def test_a_chunk_that_waits_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "STORE_AGAIN_S", 0.0)
    monkeypatch.setattr(Lane, "start", lambda _lane: None)
    driver = sqlite3.OperationalError("database or disk is full")
    driver.sqlite_errorname = "SQLITE_FULL"
    chunks: Any = Chunks(sa.exc.OperationalError("insert", {}, driver))
    unrecorded = ["The disk of the ledger is full."]

    async def keep(_job_id: str, _payload: Any, _lines: list[str]) -> None:
        while unrecorded:
            raise LedgerUnavailable(unrecorded.pop())

    async def work() -> Any:
        async with asyncio.timeout(20):
            executor = new_executor(chunks)
            executor._keep = keep
            await executor._keep_lines("job", {}, [])
            return await executor.run_chunk("job", 0, "hold", {})

    told: list[tuple[str, str]] = []
    log = SimpleNamespace(
        error=lambda event, reason, **_: told.append((event, reason)), info=lambda *_args, **_facts: None
    )
    monkeypatch.setattr(executor_module, "log", log)
    assert asyncio.run(work()) == {"ok": {"rows": 0, "refused": 0}}
    assert told == [
        ("lines-not-kept", "The disk of the ledger is full."), ("job-store-lost", "The disk of the job store is full.")
    ]  # fmt: skip


def test_a_job_waits_for_as_many_rows_as_may_be_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_lane: Lane, *_args: Any, wait_s: float, **_times: Any) -> float:
        return wait_s

    monkeypatch.setattr(Lane, "run", run)
    monkeypatch.setattr(Lane, "start", lambda _lane: None)

    async def work() -> Any:
        return await new_executor(None).run_job("job", "hold", {}, 1.0)

    # With one child, a group of a batch is being computed and another one waits.
    assert asyncio.run(work())["ok"] >= 2 * GROUP * LONGEST_DEADLINE_MS / 1000.0


def new_executor(chunks: Any) -> Executor:
    return Executor(
        Lane("test", 1, chores.prepare), Store(root=""), KINDS, chunks,
        report=no_report, finish=as_computed, fail=only_failed, keep=kept_nowhere, metrics=Metrics(),
    )  # fmt: skip
