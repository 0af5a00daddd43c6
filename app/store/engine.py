"""The two kinds of database, and all that differs between them."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

# DBOS imports it in another thread, and half imported it breaks the statements that are made meanwhile.
import sqlalchemy.orm

from app.settings import Settings

CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
"""How soon we notice that PostgreSQL's machine is gone, in seconds; the last, about what was sent, in milliseconds."""

SESSION = "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c lock_timeout=8000"
"""How soon PostgreSQL notices that ours is gone, in seconds: until then it keeps the locks that we held.

And how long it lets us wait for the locks of others, in milliseconds: of the writers, or of who changes a table.
"""

BUSY_MS = 5_000
"""How long a writer of SQLite waits for another one."""

OVERWRITE_MS = 200
"""How long overwriting what was erased waits for those who read."""

WRITERS = (7306, 0)
"""Our number among PostgreSQL's advisory locks: whoever writes the ledger or migrates it holds it."""


def database_url(settings: Settings, file: str) -> str:
    """The address of a database: `file` in the directory of the state, unless there is a PostgreSQL for everything."""
    if settings.database_url is not None:
        url = sa.make_url(settings.database_url.get_secret_value())
        # A database that was made without an encoding (SQL_ASCII) would give bytes, and nobody expects those.
        query = {"client_encoding": "utf8"} | dict(url.query)
        return url.set(query=query).render_as_string(hide_password=False)
    return f"sqlite:///{settings.state_dir.absolute() / file}"


def open_engine(url: str) -> sa.Engine:
    """An engine for an address of `database_url`; its errors and logs do not repeat what was written."""
    if url.startswith("sqlite"):
        engine = sa.create_engine(url, hide_parameters=True)
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    said = sa.make_url(url)
    # What the address says comes last and counts.
    options = " ".join([SESSION, *said.normalized_query.get("options", ())])
    query = CONNECTION | dict(said.query) | {"options": options}
    # DBOS speaks psycopg 3, whatever SQLAlchemy would take by default.
    address = said.set(drivername="postgresql+psycopg", query=query)
    return sa.create_engine(address, pool_pre_ping=True, hide_parameters=True)


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that no other writer is in at the same time, on whatever machine; it sees all that they wrote."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(*WRITERS)))
        yield connection


def overwrite_log(engine: sa.Engine) -> bool:
    """Empty SQLite's write-ahead log, in which data that was erased still stands.

    False if somebody reads or writes at the moment; then it has to be tried again.
    """
    if engine.dialect.name != "sqlite":
        return True
    connection = engine.raw_connection()
    cursor = connection.cursor()
    try:
        # Whoever wants to write waits for this meanwhile.
        cursor.execute(f"PRAGMA busy_timeout={OVERWRITE_MS}")
        (busy, *_) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    finally:
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        connection.close()


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # Transactions begin where SQLAlchemy says so, not where the driver guesses.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    # Readers and a writer do not wait for each other. Stays with the file, also for others who open it.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")
    # A promise that was sent must survive the power cut that follows.
    connection.execute("PRAGMA synchronous=FULL")
    # What is erased is overwritten, not only forgotten.
    connection.execute("PRAGMA secure_delete=ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer that began as a reader would be refused as soon as another one has written.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
