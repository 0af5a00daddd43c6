"""Slots: the names under which processes compute jobs, each claimed by at most one process."""

import fcntl
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from app.errors import NotReady
from app.settings import Settings

LOCK = "jobs.lock"

CLAIMS = 7305
"""Our class of PostgreSQL advisory locks."""

LOCAL = "local"
"""Executor id with SQLite, where there is only one."""

SLOTS = [f"slot-{k}" for k in range(256)]
"""Executor ids of processes without a configured id; any of these processes may adopt the jobs of a dead one."""


def processes(engine: sa.Engine) -> int:
    """How many processes hold an executor id now: those that compute jobs. With SQLite at most one, which is not asked.

    Blocks; errors are SQLAlchemy's `DBAPIError`.
    """
    if engine.dialect.name == "sqlite":
        return 1
    held = sa.text(
        "select count(distinct objid) from pg_locks where locktype = 'advisory' and classid = :claims and granted"
        " and database = (select oid from pg_database where datname = current_database())"
    )
    with engine.connect() as connection:
        return connection.scalar(held, {"claims": CLAIMS}) or 0


class Claim:
    """The right to compute the jobs of one executor id; it ends with the process that holds it.

    Two processes with one id would take over each other's running jobs and compute them twice. Blocks; errors of
    PostgreSQL are SQLAlchemy's `DBAPIError`.

    Raises
    ------
    NotReady : another process holds it
    """

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._engine = engine
        self._connection: sa.Connection | None = None
        self._file: IO[bytes] | None = None
        if engine.dialect.name == "sqlite":
            self.executor_id = LOCAL
            self._file = _lock_file(settings.state_dir / LOCK)
        else:
            self._connection = _own_connection(engine)
            wanted = [settings.executor_id] if settings.executor_id else SLOTS
            found = next((name for name in wanted if _try_lock(self._connection, name)), None)
            if found is None:
                self._connection.close()
                raise NotReady("Another process computes jobs under this name (RECOURSE_EXECUTOR_ID).")
            self.executor_id = found

    def keep(self) -> bool:
        """Whether it is still held: a lock lost with its connection is taken again, unless another process has it.

        To be called regularly.
        """
        if self._connection is None:
            return True
        # An invalidated connection silently becomes another session, which holds no lock.
        if not self._connection.invalidated:
            with suppress(sa.exc.DBAPIError):
                self._connection.execute(sa.select(1))
                return True
        self._connection = _own_connection(self._engine)
        return _try_lock(self._connection, self.executor_id)

    def deserted(self) -> set[str]:
        """Slots without a holder that have unfinished jobs."""
        if self._connection is None:
            return set()
        status = sa.table("workflow_status", sa.column("executor_id"), sa.column("status"), schema="dbos")
        query = sa.select(status.c.executor_id).where(status.c.status == "PENDING").distinct()
        pending = set(self._connection.scalars(query)) & set(SLOTS) - {self.executor_id}
        return {name for name in pending if self.adopt(name, lambda: True)}

    def adopt(self, name: str, work: Callable[[], int]) -> int:
        """Run `work` while holding a deserted slot, and return its result; 0 if the slot is not deserted."""
        assert self._connection is not None
        if not _try_lock(self._connection, name):
            return 0
        try:
            return work()
        finally:
            self._connection.execute(sa.select(sa.func.pg_advisory_unlock(CLAIMS, _number(name))))

    def release(self) -> None:
        """Give the executor id up."""
        for held in (self._connection, self._file):
            if held is not None:
                held.close()


def _lock_file(path: Path) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise NotReady("Another process computes the jobs of this directory (RECOURSE_STATE_DIR).") from None
    return file


def _own_connection(engine: sa.Engine) -> sa.Connection:
    # Detached from the pool, so that closing it ends the session and with it the locks.
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    connection.detach()
    return connection


def _try_lock(connection: sa.Connection, name: str) -> bool:
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(CLAIMS, _number(name)))))


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) - 2**31
