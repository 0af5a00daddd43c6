"""Which processes compute jobs: each notes every `BEAT_S` that it runs, and others take over the work of a silent one.

Blocks; errors are SQLAlchemy's `DBAPIError`. Times are those of the database, whatever the clocks of the machines say.
"""

import fcntl
import secrets
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from app.errors import NotReady
from app.jobs.tables import workers
from app.settings import Settings
from app.store.engine import changing, writing

LOCK = "jobs.lock"

LOCAL = "local"
"""The name with SQLite, where one process computes jobs."""

BEAT_S = 2.0

SILENT_S = 10.0
"""Time without a word after which a process counts as dead. If it lives, some parts are computed twice, and stored
once."""

FORGOTTEN_S = 3600.0
"""Time after which the row of a dead process without a name of its own is deleted."""


class Presence:
    """The registration of this process as the only one that computes jobs under its executor id.

    Raises
    ------
    NotReady : the database is SQLite, and another process computes the jobs of the same directory
    """

    def __init__(self, engine: sa.Engine, settings: Settings) -> None:
        self._engine = engine
        self._process = secrets.token_hex(16)
        self._named = settings.executor_id is not None
        self._lock: IO[bytes] | None = None
        self.executor_id = settings.executor_id or f"worker-{self._process[:12]}"
        if engine.dialect.name == "sqlite":
            self._lock = _lock_file(settings.state_dir / LOCK)
            self.executor_id, self._named = LOCAL, True

    def begin(self) -> None:
        """Register this process under its executor id, before it computes anything.

        Raises `NotReady` if another running process is registered under this executor id.
        """
        mine = workers.c.id == self.executor_id
        row = {"id": self.executor_id, "process": self._process, "named": self._named, "seen_s": now_s(self._engine)}
        with writing(self._engine) as connection:
            if self._lock is None and connection.scalar(sa.select(workers.c.id).where(mine, _alive(self._engine))):
                raise NotReady("Another process computes jobs under this name (RECOURSE_EXECUTOR_ID).")
            connection.execute(sa.delete(workers).where(mine))
            connection.execute(sa.insert(workers).values(row))

    def beat(self) -> bool:
        """Note that this process still runs; returns false if its registration is gone.

        The registration is gone if another process has taken the executor id, for example.
        """
        mine = (workers.c.id == self.executor_id) & (workers.c.process == self._process)
        forgotten = (workers.c.seen_s < now_s(self._engine) - FORGOTTEN_S) & workers.c.named.is_(sa.false())
        with changing(self._engine) as connection:
            said = connection.execute(sa.update(workers).where(mine).values(seen_s=now_s(self._engine))).rowcount
            connection.execute(sa.delete(workers).where(forgotten))
        return bool(said)

    def spared(self) -> set[str]:
        """Executor ids whose work no other process may take: those of running processes, and ids that operators set."""
        with self._engine.connect() as connection:
            return set(connection.scalars(sa.select(workers.c.id).where(_alive(self._engine) | workers.c.named)))

    def end(self) -> None:
        """End the registration, so that other processes do not wait for it; an id chosen by an operator stays known."""
        mine = (workers.c.id == self.executor_id) & (workers.c.process == self._process)
        try:
            with changing(self._engine) as connection:
                connection.execute(sa.update(workers).where(mine, workers.c.named).values(seen_s=0.0))
                connection.execute(sa.delete(workers).where(mine, workers.c.named.is_(sa.false())))
        finally:
            if self._lock is not None:
                self._lock.close()


def count(engine: sa.Engine) -> int:
    """Number of processes that compute jobs now, on all servers."""
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(workers).where(_alive(engine))) or 0


def now_s(engine: sa.Engine) -> sa.ColumnElement[float]:
    """SQL expression for the current time of the database, in seconds since 1970."""
    if engine.dialect.name == "sqlite":
        return (sa.func.julianday("now", type_=sa.Float) - 2_440_587.5) * 86_400.0
    return sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Float)


def _alive(engine: sa.Engine) -> sa.ColumnElement[bool]:
    return workers.c.seen_s > now_s(engine) - SILENT_S


def _lock_file(path: Path) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise NotReady("Another process computes the jobs of this directory (RECOURSE_STATE_DIR).") from None
    return file
