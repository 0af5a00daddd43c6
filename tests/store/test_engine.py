"""Where things are kept."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import make_url, select
from sqlalchemy.exc import OperationalError

from app.errors import StateUnusable
from app.ledger.ledger import FILE, Ledger
from app.ledger.recorder import PATIENCE_S
from app.settings import Settings
from app.store.engine import bare, database_url, open_engine, writing
from app.store.migrate import upgrade
from app.store.state import require_state
from tests.jobs.serving import database, postgres_missing
from tests.ledger.records import new_record

PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1, "busy_timeout": 5000}


def test_readers_do_not_wait_for_the_writer_and_a_commit_survives_a_power_cut(tmp_path: Path) -> None:
    url = database_url(Settings(state_dir=tmp_path), FILE)
    assert url == f"sqlite:///{tmp_path}/ledger.sqlite"
    engine = open_engine(url)
    with engine.connect() as connection:
        pragmas = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS}
    engine.dispose()
    assert pragmas == PRAGMAS


def test_the_directory_is_made(tmp_path: Path) -> None:
    require_state(Settings(state_dir=tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusable, match=r"RECOURSE_STATE_DIR.*/file/state: Not a directory"):
        require_state(Settings(state_dir=tmp_path / "file" / "state"))


def test_errors_of_the_driver_are_those_of_every_other_statement(tmp_path: Path) -> None:
    engine = open_engine(database_url(Settings(state_dir=tmp_path), FILE))
    secret = "a name that is in the statement"
    with engine.connect() as connection:
        with pytest.raises(OperationalError) as raised, bare(connection) as cursor:
            cursor.execute("INSERT INTO nothing VALUES (:name)", {"name": secret})
        assert "nothing" in str(raised.value.orig)
        assert secret not in str(raised.value)
        assert connection.scalar(select(1)) == 1
    engine.dispose()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StateUnusable, match="RECOURSE_STATE_DIR"):
        require_state(Settings(state_dir=tmp_path))


def test_a_database_elsewhere_needs_no_directory(tmp_path: Path) -> None:
    settings = Settings.model_validate({"state_dir": tmp_path / "state", "database_url": "postgresql://h/n"})
    require_state(settings)
    assert not (tmp_path / "state").exists()
    assert make_url(database_url(settings, FILE)).set(query={}) == make_url("postgresql://h/n")


def test_a_database_that_knows_no_encoding_holds_every_character(tmp_path: Path) -> None:
    if missing := postgres_missing():
        pytest.skip(missing)
    with database("encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0") as url:
        engine = open_engine(database_url(Settings.model_validate({"database_url": url}), FILE))
        upgrade(engine)
        given = new_record(1)
        reference = "Fräulein № 7 😀"
        Ledger(engine).append([replace(given, personal_data=replace(given.personal_data, reference=reference))])
        (found,) = Ledger(engine).newest(1, reference=reference)
        engine.dispose()
    assert found.reference == reference


def test_no_part_of_sqlalchemy_is_left_for_other_threads_to_import() -> None:
    """The ledger is used while DBOS is imported, and SQLAlchemy cannot be used while its ORM is."""
    program = "import sys, app.store.engine; assert 'sqlalchemy.orm' in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty PostgreSQL database."""
    if missing := postgres_missing():
        pytest.skip(missing)
    with database() as url:
        yield url


def shown(url: str, *names: str) -> list[str]:
    """What PostgreSQL does for a session of ours."""
    engine = open_engine(url)
    with engine.connect() as connection:
        found = [str(connection.exec_driver_sql(f"SHOW {name}").scalar()) for name in names]
    engine.dispose()
    return found


def test_postgresql_soon_notices_that_our_machine_is_gone(postgres: str) -> None:
    """Until then it keeps the lock of the writers, and nobody else writes."""
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    assert shown(postgres, *names) == ["5", "2", "3"]


def test_nobody_waits_for_a_lock_for_longer_than_for_the_ledger(postgres: str) -> None:
    """Or what was refused would be recorded as soon as the lock is free."""
    assert shown(postgres, "lock_timeout") == ["8s"]
    assert PATIENCE_S > 8
    first, second = open_engine(postgres), open_engine(f"{postgres}?options=-c%20lock_timeout%3D50")
    with writing(first), pytest.raises(OperationalError, match="lock timeout"), writing(second):
        pass
    first.dispose()
    second.dispose()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has it")
def test_we_soon_notice_that_the_machine_of_postgresql_is_gone(postgres: str) -> None:
    engine = open_engine(postgres)
    with engine.connect() as connection, socket.socket(fileno=os.dup(connection.connection.fileno())) as ours:
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        # Keepalives are sent only while nothing else is on its way.
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 11_000
    engine.dispose()


def test_what_an_address_says_about_the_session_counts(postgres: str) -> None:
    said = f"{postgres}?options=-c%20tcp_keepalives_idle%3D60%20-c%20work_mem%3D5MB"
    assert shown(said, "tcp_keepalives_idle", "tcp_keepalives_count", "work_mem") == ["60", "3", "5MB"]


def test_what_an_address_says_about_the_connection_stays() -> None:
    said = "postgresql://me:a%2Fb%40c@h:5433/n?sslmode=require&client_encoding=latin1"
    settings = Settings.model_validate({"database_url": said})
    assert make_url(database_url(settings, FILE)) == make_url(said)
