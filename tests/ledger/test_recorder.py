"""The ledger as an event loop sees it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.errors import LedgerUnavailable
from app.ledger import recorder, sure_clock
from app.ledger.ledger import FILE
from app.ledger.recorder import Recorder
from app.settings import Settings
from app.store import engine as engines
from app.store.engine import database_url, open_engine, writing
from app.store.tables import entries
from app.store.timestamps import timestamp
from tests.clock_ahead import ClockAhead
from tests.event_loop import LONG_S, until
from tests.ledger.records import new_record


@pytest.fixture
def settings(url: str, tmp_path: Path) -> Settings:
    """Those of a service on that database."""
    return Settings.model_validate({"state_dir": tmp_path, "database_url": url if url.startswith("postgres") else None})


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no lock and nothing else is given up, unless a test says so."""
    monkeypatch.setattr(recorder, "PATIENCE_S", LONG_S)
    monkeypatch.setattr(engines, "BUSY_MS", round(1000.0 * LONG_S))
    monkeypatch.setattr(engines, "SESSION", f"-c lock_timeout={LONG_S:.0f}s")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Recorder]:
    """A recorder whose database is open."""
    ledger = Recorder(settings.model_copy(update={"run_jobs": False}), forget)
    ledger.start()
    async with asyncio.timeout(LONG_S):
        await ledger._opened.wait()
    yield ledger
    await ledger.close()


async def told(work: Coroutine[Any, Any, object]) -> bool:
    """Whether it was said that it worked."""
    try:
        await work
    except LedgerUnavailable:
        return False
    return True


def recorded(url: str) -> set[str]:
    """The ids that are in the ledger."""
    engine = open_engine(url)
    with engine.connect() as connection:
        found = set(connection.scalars(sa.select(entries.c.id)))
    engine.dispose()
    return found


@contextmanager
def written_elsewhere(url: str) -> Iterator[None]:
    """Somebody else writes, so that nobody here can."""
    engine = open_engine(url)
    try:
        with writing(engine):
            yield
    finally:
        engine.dispose()


async def forget(_records: object) -> None:
    """Nothing is kept elsewhere."""


async def test_nothing_to_record_waits_for_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PATIENCE_S", 0.05)

    closed = Recorder(Settings(state_dir=tmp_path), forget)
    await closed.record()
    with pytest.raises(LedgerUnavailable):
        await closed.record(new_record(1))


@pytest.mark.usefixtures("patient")
async def test_what_is_refused_while_another_one_writes_is_not_recorded_later(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings) as ledger:
        with written_elsewhere(url):
            first = asyncio.create_task(told(ledger.record(new_record(1))))
            await until(lambda: ledger._writing and not ledger._waiting)
            monkeypatch.setattr(recorder, "PATIENCE_S", 0.05)
            assert [await told(ledger.record(new_record(number))) for number in (2, 3)] == [False, False]
            assert not ledger._waiting
            monkeypatch.setattr(recorder, "PATIENCE_S", LONG_S)
        assert await first
        await ledger.record(new_record(4))
    assert recorded(url) == {"rec_0001", "rec_0004"}


@pytest.mark.usefixtures("patient")
async def test_who_is_being_written_when_the_time_is_over_is_told_what_comes_of_it(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings) as ledger:
        with written_elsewhere(url):
            monkeypatch.setattr(recorder, "PATIENCE_S", 0.0)
            late = asyncio.create_task(told(ledger.record(new_record(1))))
            await asyncio.sleep(0)  # its time is over, but it is taken before it hears of that
            monkeypatch.setattr(recorder, "PATIENCE_S", LONG_S)
            await until(lambda: not ledger._waiting)
        assert await late
    assert recorded(url) == {"rec_0001"}


@pytest.mark.usefixtures("patient")
async def test_a_stalled_database_takes_no_threads_from_others(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those who only read do not keep anybody from writing."""

    over = threading.Event()
    async with opened(settings) as ledger:
        try:
            monkeypatch.setattr(recorder, "PATIENCE_S", 0.05)
            stalled = [told(ledger.run(lambda _engine: over.wait())) for _ in range(50)]
            assert await asyncio.gather(*stalled) == [False] * 50
            monkeypatch.setattr(recorder, "PATIENCE_S", LONG_S)
            async with asyncio.timeout(LONG_S):
                await asyncio.to_thread(lambda: None)
                await ledger.record(new_record(1))
        finally:
            over.set()
        assert await ledger.ask(lambda opened: opened.find("rec_0001").entry.number) == 1


@pytest.mark.usefixtures("patient")
async def test_closing_does_not_wait_for_a_database_that_is_stalled(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "CLOSE_S", 0.05)

    async with opened(settings) as ledger:
        with written_elsewhere(url):
            given = asyncio.create_task(told(ledger.record(new_record(1))))
            await until(lambda: ledger._writing and not ledger._waiting)
            async with asyncio.timeout(LONG_S / 2):
                await ledger.close()
                assert not await given
        # What had been begun ends now, and takes its connection with it.
        await asyncio.to_thread(ledger._writer.shutdown)


@pytest.mark.usefixtures("patient")
async def test_what_was_erased_while_somebody_read_is_overwritten_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was erased by a process that has ended meanwhile."""
    monkeypatch.setattr(recorder, "OVERWRITE_AGAIN_S", 0.01)
    settings = Settings(state_dir=tmp_path)

    def left() -> bool:
        return any(b"a sentinel" in path.read_bytes() for path in tmp_path.iterdir())

    other = open_engine(database_url(settings, FILE))
    async with opened(settings) as ledger:
        await ledger.record(new_record(1, answer=b"a sentinel"))
        with other.connect() as reader:
            reader.execute(sa.select(entries)).all()
            found = await ledger.ask(lambda ledger: ledger.find("rec_0001"))
            assert await ledger.erase([found], "request") == 1
            assert left()
        await until(lambda: not left())
    with other.connect() as reader:  # longer than the process that erases
        async with opened(settings) as ledger:
            await ledger.record(new_record(2, answer=b"a sentinel"))
            reader.execute(sa.select(entries)).all()
            await ledger.ask(lambda ledger: ledger.erase(["rec_0002"], "request", datetime.now(UTC)))
        assert left()
    async with opened(settings):
        await until(lambda: not left())
    other.dispose()


async def test_all_that_is_due_is_swept_some_at_a_time(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SWEEP_AT_ONCE", 2)
    past = {"at": "2020-01-01T00:00:00.000Z", "expires_at": "2020-04-01T00:00:00.000Z"}

    async with opened(settings) as ledger:
        await ledger.record(*(new_record(number, **past if number % 3 else {}) for number in range(1, 9)))
        assert await ledger.sweep() == 6
        assert await ledger.sweep() == 0
        left = await ledger.ask(lambda ledger: ledger.newest(9))
    assert [record.entry.id for record in left] == ["rec_0006", "rec_0003"]


async def test_a_clock_that_is_years_ahead_of_the_newest_entry_sweeps_only_if_it_is_trusted(
    url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = datetime.now(UTC)
    times = {"at": timestamp(given), "expires_at": timestamp(given + timedelta(days=90))}
    async with opened(settings) as ledger:
        await ledger.record(new_record(1, **times))
        assert ledger.clock_warnings() == []
    monkeypatch.setattr(sure_clock, "datetime", ClockAhead)
    monkeypatch.setattr(recorder, "datetime", ClockAhead)
    async with opened(settings) as ledger:
        assert await ledger.sweep() == 0
        assert ledger.clock_doubted
        (told,) = ledger.clock_warnings()
        assert f"{given:%Y-%m-%d} is expected" in told
        assert await ledger.sweep(trust_clock=True) == 1
