"""A ledger that cannot be written, or is not as it was written, says so."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.errors import LedgerUnavailable
from app.ledger import health
from app.ledger.health import fault_of_tail, lack_of_space, reason, refusal, try_write
from app.ledger.ledger import FILE, Ledger
from app.ledger.recorder import Recorder
from app.settings import Settings
from app.store import engine as engines
from app.store.engine import database_url, open_engine, writing
from app.store.migrate import VERSIONS, upgrade
from app.store.tables import entries, personal_data
from tests.ledger.records import new_record
from tests.ledger.test_recorder import forget, opened


def test_a_probe_writes_and_changes_nothing(ledger: Ledger) -> None:
    ledger.append([new_record(1)])
    before = ledger.prove()
    try_write(ledger._engine)
    assert ledger.prove() == before


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30])
def test_the_end_of_the_chain_is_verified(ledger: Ledger, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "TAIL", 10)
    ledger.append([new_record(number) for number in range(1, count + 1)])
    engine = ledger._engine
    assert fault_of_tail(engine) == ""
    if count > 2:
        with engine.begin() as connection:
            connection.execute(sa.update(entries).where(entries.c.number == count - 1).values(status="changed"))
        assert f"Entry {count - 1} of the ledger" in fault_of_tail(engine)
        with engine.begin() as connection:
            connection.execute(sa.delete(personal_data).where(personal_data.c.number == count - 1))
            connection.execute(sa.delete(entries).where(entries.c.number == count - 1))
        assert f"Entry {count - 1} of the ledger" in fault_of_tail(engine)


def checked(settings: Settings, harm: str = "") -> str:
    """What a check says, after some SQL on each new connection."""

    async def work() -> str:
        async with opened(settings) as recorder:
            engine = recorder._engine
            assert engine is not None
            if harm:
                engine.dispose()
                sa.event.listen(engine, "connect", lambda connection, _record: connection.execute(harm))
            try:
                await recorder.check()
            except LedgerUnavailable as error:
                return error.detail
            return ""

    return asyncio.run(work())


def test_a_ledger_that_cannot_be_written_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(state_dir=tmp_path)
    assert checked(settings) == ""
    assert checked(settings, "PRAGMA query_only=ON") == "The ledger is read-only."
    monkeypatch.setattr(health, "LEAST_FREE", 2**62)
    assert "MB left" in checked(settings)


async def test_a_full_disk_is_named_where_the_ledger_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).mkdir()
    monkeypatch.setattr(health, "LEAST_FREE", 2**62)
    recorder = Recorder(Settings(state_dir=tmp_path, run_jobs=False), forget)
    assert not await recorder._try_to_open()
    with pytest.raises(LedgerUnavailable) as caught:
        await recorder.check()
    await recorder.close()
    assert "MB left" in caught.value.detail


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        ("SET TRANSACTION READ ONLY", "The ledger is read-only."),
        ("SET LOCAL ROLE pg_monitor", "The role of the database lacks rights on the tables of the ledger."),
    ],
)
def test_what_postgresql_forbids_is_named(ledger: Ledger, harm: str, sentence: str) -> None:
    """A standby in the place of the primary is reached, and a role that may only read has its rights."""
    if ledger._engine.dialect.name == "sqlite":
        pytest.skip("of PostgreSQL only")
    with ledger._engine.connect() as connection:
        connection.execute(sa.text(harm))
        with pytest.raises(sa.exc.DBAPIError) as caught:
            connection.execute(health._TOUCH)
    assert reason(caught.value) == sentence


def test_the_log_may_say_why_a_database_is_not_reached_and_nothing_of_a_statement(ledger: Ledger) -> None:
    with pytest.raises(sa.exc.DBAPIError) as caught:
        open_engine("postgresql://nobody@127.0.0.1:9/nowhere").connect()
    assert "Connection refused" in (refusal(caught.value) or "")
    with ledger._engine.connect() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(sa.text("SELECT applicant"))
    assert refusal(caught.value) is None
    assert refusal(ValueError("applicant")) is None


def test_a_locked_ledger_is_named(url: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_MS", 50)
    monkeypatch.setattr(engines, "SESSION", "-c lock_timeout=50")
    second = open_engine(url)
    with writing(ledger._engine), pytest.raises(sa.exc.DBAPIError) as caught:
        try_write(second)
    second.dispose()
    assert reason(caught.value) == "Another process has locked the ledger."


def test_tables_of_a_newer_release_are_named(ledger: Ledger) -> None:
    with ledger._engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSIONS} SET version_num = '9999'"))
    with pytest.raises(LedgerUnavailable, match="those of a newer release") as caught:
        upgrade(ledger._engine)
    assert reason(caught.value) == caught.value.detail
    with ledger._engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE ledger_entries RENAME TO ledger_later"))
    with pytest.raises(sa.exc.DBAPIError) as missing:
        ledger.newest_at()
    assert reason(missing.value) == "The tables of the ledger are not those of this release."


def test_not_every_error_of_sqlite_is_about_its_tables(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / FILE}")
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.exec_driver_sql("ROLLBACK TO nowhere")
    engine.dispose()
    assert caught.value.orig is not None
    assert caught.value.orig.sqlite_errorname == "SQLITE_ERROR"
    assert reason(caught.value, unknown="It cannot be reached.") == "It cannot be reached."


async def test_a_ledger_that_was_not_opened_says_why_to_every_request(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()

    recorder = Recorder(Settings(state_dir=tmp_path, run_jobs=False), forget)
    assert not await recorder._try_to_open()
    with pytest.raises(LedgerUnavailable, match="The file of the ledger cannot be opened"):
        recorder.require()
    await recorder.close()


def test_a_changed_end_of_the_chain_is_found_at_the_start(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    assert checked(settings) == ""
    engine = open_engine(database_url(settings, FILE))
    Ledger(engine).append([new_record(1), new_record(2)])
    with engine.begin() as connection:
        connection.execute(sa.update(entries).where(entries.c.number == 1).values(status="changed"))
    engine.dispose()
    assert "Entry 1 of the ledger is not as it was written" in checked(settings)


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"SQLite format 3\0" + b"\1" * 5000])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "damaged.sqlite"
    file.write_bytes(content)
    with pytest.raises(sa.exc.DBAPIError) as caught:
        open_engine(f"sqlite:///{file}").connect()
    assert "is damaged" in reason(caught.value)


def test_space_is_looked_at_where_the_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lack_of_space(tmp_path) == lack_of_space(tmp_path / "missing") == ""
    monkeypatch.setattr(health, "LEAST_FREE", 2**62)
    assert lack_of_space(tmp_path)
