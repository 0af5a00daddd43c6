"""Where jobs are kept: one SQLite file of this machine, or a PostgreSQL database that several servers share."""

import fcntl
import sqlite3
import zlib
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from app.errors import NotReady
from app.jobs.state import require_state
from app.settings import Settings

FILE = "jobs.sqlite"

LOCK = "jobs.lock"

CONNECT_S = 5

CLAIMS = 7305
"""Our number space among PostgreSQL's advisory locks."""


def database_url(settings: Settings) -> str:
    """The address of the jobs; a SQLite file is prepared so that readers and a writer do not wait for each other."""
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    require_state(settings)
    path = settings.state_dir.absolute() / FILE
    with sqlite3.connect(path) as connection:
        # Stays with the file. It has to be set before anybody else opens it.
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return f"sqlite:///{path}"


def open_engine(url: str) -> sa.Engine:
    """An engine of our own, for the few questions that DBOS does not answer."""
    if url.startswith("sqlite"):
        return sa.create_engine(url)
    # DBOS speaks psycopg 3, whatever SQLAlchemy would take by default.
    address = sa.make_url(url).set(drivername="postgresql+psycopg")
    return sa.create_engine(address, pool_pre_ping=True, pool_size=2, connect_args={"connect_timeout": CONNECT_S})


class Claim:
    """The right to compute the jobs of one executor id; it goes with the process that holds it, however that ends.

    Two processes with one id would take each other's running jobs away and compute them twice.
    """

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._held: IO[bytes] | sa.Connection
        if engine.dialect.name == "sqlite":
            self._held = _lock_file(settings.state_dir / LOCK)
        else:
            self._held = _lock_in_database(engine, settings.executor_id)

    def release(self) -> None:
        """Let others have it."""
        self._held.close()


def _lock_file(path: Path) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise NotReady("Another process computes the jobs of this directory (RECOURSE_STATE_DIR).") from None
    return file


def _lock_in_database(engine: sa.Engine, executor_id: str) -> sa.Connection:
    # Detached from the pool, so that closing it ends the session and with it the lock.
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    connection.detach()
    number = zlib.crc32(executor_id.encode()) - 2**31
    if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(CLAIMS, number))):
        connection.close()
        raise NotReady("Another process computes jobs under this name (RECOURSE_EXECUTOR_ID).")
    return connection
