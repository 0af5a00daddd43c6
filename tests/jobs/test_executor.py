"""The executor of jobs by itself, with databases that do not answer."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from app.errors import LedgerUnavailable
from app.jobs import executor as executor_module
from app.jobs.executor import BEGUN_ALONE, BEGUN_SHARED, Executor, as_computed, kept_nowhere, only_failed
from app.jobs.ids import new_id
from app.jobs.job import BATCH, Job, JobStatus
from app.jobs.kinds import JobKind
from app.jobs.lines import GROUP
from app.jobs.records import Part, Records
from app.jobs.tables import metadata
from app.pool.pool import Pool
from app.questions.schema import LONGEST_DEADLINE_MS
from app.registry.ref import Store
from app.store.engine import UNREACHABLE, open_engine
from tests.conftest import small_files

SILENT = [sa.exc.OperationalError("select 1", {}, Exception()), *(kind() for kind in UNREACHABLE[1:])]
"""How SQLAlchemy says that a database cannot be reached."""


class Faulty(Records):
    """Records of which the first part cannot be had at once."""

    errors: list[Exception]

    def take(self, job: str, number: int) -> Part | None:
        for error in self.errors:
            self.errors.remove(error)
            raise error
        return super().take(job, number)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Faulty]:
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.sqlite")
    metadata.create_all(engine)
    found = Faulty(engine, lambda *_: None)
    found.errors = []
    yield found
    engine.dispose()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child, and no pause."""

    async def run(_lane: Pool, function: Any, *args: Any, **_times: Any) -> Any:
        return function(*args)

    monkeypatch.setattr(executor_module, "STORE_AGAIN_S", 0.0)
    monkeypatch.setattr(Pool, "start", lambda _lane: None)
    monkeypatch.setattr(Pool, "run", run)


def numbered(_store: Store, payload: dict[str, Any]) -> list[str]:
    return [json.dumps(payload["first"] + i) for i in range(len(payload["rows"]))]


def add(records: Records, rows: int | None, kind: str = BATCH, *, closed: bool = False) -> Job:
    """A new batch with so many rows, or a single job; if `closed`, with a last part of all lines."""
    job = {"id": new_id("job"), "kind": kind, "payload": {"deadline_s": 1.0}, "detail": "full", "key": None}
    records.submit({**job, "timeout_s": None if rows else 1.0}, [{}] * rows if rows else None, closed=closed)
    return load(records, str(job["id"]))


def load(records: Records, job_id: str) -> Job:
    (job,) = records.load([job_id])
    return job


def compute(executor: Executor, job: Job, number: int = 0) -> Job:
    """The job after a part was computed."""

    async def work() -> None:
        async with asyncio.timeout(20):
            await executor.compute(job.id, number, None, single=job.kind != BATCH)

    asyncio.run(work())
    return load(executor.records, job.id)


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
def test_a_part_waits_for_a_database_that_cannot_be_reached(error: Exception, records: Faulty) -> None:
    records.errors = [error]
    job = compute(new_executor(records), add(records, 2))
    assert (job.status, job.done, records.errors) == (JobStatus.SUCCEEDED, 2, [])
    assert records.lines(job.id, 0) == "0\n1\n"


def test_a_part_that_waits_says_why(records: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = sqlite3.OperationalError("database or disk is full")
    driver.sqlite_errorname = "SQLITE_FULL"
    records.errors = [sa.exc.OperationalError("insert", {}, driver)]
    unrecorded = ["The disk of the ledger is full."]

    async def keep(_job_id: str, _payload: Any, _lines: list[str]) -> None:
        while unrecorded:
            raise LedgerUnavailable(unrecorded.pop())

    told: list[tuple[str, str]] = []
    log = SimpleNamespace(
        error=lambda event, reason, **_: told.append((event, reason)), info=lambda *_args, **_facts: None
    )
    monkeypatch.setattr(executor_module, "log", log)
    assert compute(new_executor(records, keep=keep), add(records, 1)).status is JobStatus.SUCCEEDED
    assert told == [
        ("job-store-lost", "The disk of the job store is full."), ("lines-not-kept", "The disk of the ledger is full.")
    ]  # fmt: skip


def test_a_job_waits_for_as_many_rows_as_may_be_before_it(records: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_lane: Pool, *_args: Any, wait_s: float, **_times: Any) -> float:
        return wait_s

    monkeypatch.setattr(Pool, "run", run)
    job = compute(new_executor(records), add(records, None, "hold"))
    # With one child, a group of a batch is being computed and another one waits.
    assert json.loads(records.lines(job.id, 0)) >= 2 * GROUP * LONGEST_DEADLINE_MS / 1000.0


@pytest.mark.parametrize(("rows", "begun"), [(None, BEGUN_ALONE), (1, BEGUN_SHARED)])
def test_what_ends_its_server_each_time_is_given_up(records: Faulty, rows: int | None, begun: int) -> None:
    job = add(records, rows, BATCH if rows else "hold")
    for _ in range(begun):
        assert records.take(job.id, 0) is not None
    job = compute(new_executor(records), job)
    assert (job.status, job.outcome) == (JobStatus.FAILED, "job-abandoned")


@pytest.mark.parametrize("rows", [None, 1])
def test_what_a_stopped_service_had_begun_is_not_counted(
    records: Faulty, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, begun = add(records, rows, BATCH if rows else "hold"), asyncio.Event()

    async def run(_lane: Pool, *_args: Any, **_times: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def stopped() -> None:
        computing = asyncio.create_task(new_executor(records).compute(job.id, 0, None, single=rows is None))
        async with asyncio.timeout(20):
            await begun.wait()
            computing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await computing

    monkeypatch.setattr(Pool, "run", run)
    asyncio.run(stopped())
    part = records.take(job.id, 0)
    assert part is not None
    assert part.attempts == 1


@pytest.mark.parametrize("single", [True, False])
def test_an_error_of_ours_ends_the_job(records: Faulty, single: bool) -> None:
    """Or it would be running for ever."""

    async def stumble(*_: Any) -> Any:
        raise ZeroDivisionError("the applicant's secret")

    failed: list[str] = []

    async def fail(kind: str, _payload: Any, error: Exception) -> None:
        failed.append(kind)

    ended: list[str] = []
    executor = new_executor(records, finish=stumble, keep=stumble, fail=fail, ended=lambda job: ended.append(job.id))
    job = compute(executor, add(records, None if single else 1, "hold" if single else BATCH))
    assert (job.status, job.outcome, ended) == (JobStatus.FAILED, "internal-error", [job.id])
    assert failed == (["hold"] if single else [])


def test_what_was_stored_before_a_crash_is_recorded_and_not_computed(records: Faulty) -> None:
    kept: list[Any] = []

    async def keep(job_id: str, payload: Any, lines: list[str]) -> None:
        kept.append((job_id, payload["first"], payload["rows"], lines))

    job = add(records, 2)
    records.take(job.id, 0)
    records.store(job.id, 0, ["a", "b"])
    job = compute(new_executor(records, keep=keep), job)
    assert (job.status, records.lines(job.id, 0)) == (JobStatus.SUCCEEDED, "a\nb\n")
    assert kept == [(job.id, 0, [{}, {}], ["a", "b"])]


def test_of_a_batch_that_ended_meanwhile_nothing_is_recorded(records: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    job = add(records, 1)

    async def run(_lane: Pool, function: Any, *args: Any, **_times: Any) -> Any:
        records.cancel(job.id)
        return function(*args)

    async def keep(*_: Any) -> None:
        pytest.fail("it was cancelled")

    monkeypatch.setattr(Pool, "run", run)
    assert compute(new_executor(records, keep=keep), job).status is JobStatus.CANCELLED


def test_the_lines_of_all_parts_are_on_the_disk_of_the_state(tmp_path: Path, records: Faulty) -> None:
    seen: list[Path] = []

    def compute_closing(store: Store, payload: dict[str, Any]) -> list[str]:
        if "lines" not in payload:
            return numbered(store, payload)
        seen.append(Path(payload["lines"]))
        return [json.dumps(seen[0].read_text())]

    kinds: Any = {BATCH: compute_closing}
    job = add(records, 2, closed=True)
    executor = new_executor(records, kinds=kinds, directory=tmp_path)
    compute(executor, job)
    assert compute(executor, job, 1).status is JobStatus.SUCCEEDED
    assert records.lines(job.id, 1) == '"0\\n1\\n"\n'
    assert [one.parent for one in seen] == [tmp_path]
    assert not seen[0].exists()


def test_a_full_disk_ends_a_job_and_is_named(tmp_path: Path, records: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: Any, **_times: Any) -> Any:
        pytest.fail("the lines are incomplete")

    job = add(records, 2, closed=True)
    executor = new_executor(records, directory=tmp_path)
    compute(executor, job)
    monkeypatch.setattr(Pool, "run", run)
    monkeypatch.setattr(records, "lines", lambda *_: "x" * 3_000_000)
    with small_files(2_000_000):
        error = compute(executor, job, 1).error
    assert error is not None
    assert error.code == "state-unusable"
    assert f"{tmp_path} cannot be written: File too large" in error.detail
    assert not [one for one in tmp_path.iterdir() if "sqlite" not in one.name]


def new_executor(records: Records, **changes: Any) -> Executor:
    async def stop_nobody(_job_id: str) -> None:
        """Nothing else is computed."""

    kinds: dict[str, JobKind] = {BATCH: numbered, "hold": lambda _store, _payload: "held"}  # type: ignore[dict-item]
    parts: dict[str, Any] = {
        "lane": Pool("test", 1), "store": Store(root=""), "kinds": kinds, "records": records,
        "stop_others": stop_nobody, "finish": as_computed, "fail": only_failed, "keep": kept_nowhere,
        "ended": lambda _job: None,
    }  # fmt: skip
    return Executor(**parts | changes)
