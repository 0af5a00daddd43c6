"""The two kinds of database, SQLite and PostgreSQL, and everything that differs between them."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import sqlalchemy as sa

# DBOS imports it in another thread; a half-imported module breaks statements that are built meanwhile.
import sqlalchemy.orm
from sqlalchemy.engine.interfaces import DBAPICursor

from app.settings import Settings

CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
"""When we notice that PostgreSQL's machine is gone, in seconds; `tcp_user_timeout`, for unacknowledged data, in ms."""

SESSION = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c lock_timeout=8000"
"""When PostgreSQL notices that our machine is gone, in seconds: until then it keeps our locks.

`lock_timeout` is the longest wait for a lock, in milliseconds: that of the writers, or of a migration.
"""

BUSY_MS = 5_000
"""Longest time that a writer of SQLite waits for another one."""

OVERWRITE_MS = 200
"""Longest time that overwriting erased data waits for readers."""

UNREACHABLE = (sa.exc.DBAPIError, sa.exc.PendingRollbackError, sa.exc.TimeoutError)
"""Errors of a database that cannot be reached: lost, lost inside a transaction, or every connection is in use."""

BEGIN_WRITING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(7306, 0)"}
"""What makes a transaction the only one that writes; in PostgreSQL our lock, also held while the ledger is migrated."""


def database_url(settings: Settings, file: str) -> str:
    """URL of the PostgreSQL database in the settings; without one, of the SQLite file `file` in the state directory."""
    if settings.database_url is not None:
        url = sa.make_url(settings.database_url.get_secret_value())
        # A database without an encoding (SQL_ASCII) would return bytes in place of text.
        query = {"client_encoding": "utf8"} | dict(url.query)
        return url.set(query=query).render_as_string(hide_password=False)
    return f"sqlite:///{settings.state_dir.absolute() / file}"


def open_engine(url: str) -> sa.Engine:
    """An engine for a URL that `database_url` has made; its errors and logs omit the parameters of statements."""
    if url.startswith("sqlite"):
        # Parameters are dicts, as those of psycopg.
        engine = sa.create_engine(url, hide_parameters=True, paramstyle="named")
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    address = sa.make_url(url)
    # Options in the address come last, and the last one counts.
    options = " ".join([SESSION, *address.normalized_query.get("options", ())])
    query = CONNECTION | dict(address.query) | {"options": options}
    # The driver that DBOS uses, whatever the default of SQLAlchemy.
    address = address.set(drivername="postgresql+psycopg", query=query)
    return sa.create_engine(address, pool_pre_ping=True, hide_parameters=True)


@contextmanager
def changing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Context with a transaction that writes; in PostgreSQL, other transactions may write other rows meanwhile."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Context with a transaction that writes and excludes all other writers, on all machines.

    It sees everything that was committed before it.
    """
    with changing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(BEGIN_WRITING["postgresql"])
        yield connection


@contextmanager
def writing_bare(engine: sa.Engine) -> Iterator[DBAPICursor]:
    """Context with a transaction that writes and excludes all other writers; yields a cursor of the driver.

    SQLAlchemy's own transaction would take longer than writing a row. Errors of the driver are raised as SQLAlchemy's.
    """
    with _errors(engine.dialect), closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute(BEGIN_WRITING[engine.dialect.name])
        yield cursor
        # Otherwise the pool rolls back.
        connection.commit()


@contextmanager
def bare(connection: sa.Connection) -> Iterator[DBAPICursor]:
    """Context with a cursor of the driver, inside a transaction; errors of the driver are raised as SQLAlchemy's."""
    with _errors(connection.dialect):
        yield connection.connection.cursor()


@contextmanager
def _errors(dialect: sa.Dialect) -> Iterator[None]:
    driver = dialect.loaded_dbapi
    try:
        yield
    except driver.Error as error:
        wrapped: Exception = sa.exc.DBAPIError.instance(
            None, None, error, driver.Error, hide_parameters=True, dialect=dialect
        )
        raise wrapped from error


def overwrite_log(engine: sa.Engine) -> bool:
    """Empty SQLite's write-ahead log, which still holds erased data; returns whether that succeeded.

    While another connection is reading or writing, the log is not emptied: call the function again later.
    """
    if engine.dialect.name != "sqlite":
        return True
    connection = engine.raw_connection()
    cursor = connection.cursor()
    try:
        # Writers wait for this meanwhile.
        cursor.execute(f"PRAGMA busy_timeout={OVERWRITE_MS}")
        (busy, *_) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    finally:
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        connection.close()


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # SQLAlchemy begins transactions, not the driver.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    _write_ahead(connection)
    connection.execute("PRAGMA foreign_keys=ON")
    # A promise that was sent must survive a power cut.
    connection.execute("PRAGMA synchronous=FULL")
    # Erased data is overwritten, not only unlinked.
    connection.execute("PRAGMA secure_delete=ON")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Readers and a writer do not wait for each other. Persists in the file.

    SQLite does not wait where two connections turn this on in a new file at once, so this does.
    """
    until = time.monotonic() + BUSY_MS / 1_000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(0.01)


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that begins as a reader could no longer write once another one has written.
    writes = connection.get_execution_options().get("writes", False)
    with bare(connection) as cursor:
        cursor.execute(BEGIN_WRITING["sqlite"] if writes else "BEGIN")
