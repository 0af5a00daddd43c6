"""Answers that are kept for their idempotency key. Blocks; not for an event loop.

A key is claimed before its request is answered, by a lease that its server renews: where that crashes or fails, the
lease ends, and the same request takes over when it is sent again, ids included, so that what the first one had begun is
not done twice.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import sqlalchemy as sa

from app.errors import IdempotencyInProgress, IdempotencyKeyReused
from app.store.chain import Kind
from app.store.engine import overwrite_log, writing
from app.store.moments import timestamp
from app.store.tables import entries, replays

Change = TypeVar("Change", sa.Update, sa.Delete)

LEASE = timedelta(seconds=10)
"""How long a key stays claimed by a server that is not heard of."""

KEPT = timedelta(hours=24)
"""How long an answer can be had again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The right to answer the request of a key."""

    name: str
    attempt: str
    """Tells it from one that took over from it."""
    ids: str
    """Where the ids begin that the request gives out, the same for who takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """An answer that was given."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Replays:
    """The answers in one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def claim(self, name: str, digest: str, ids: str, now: datetime) -> Attempt | Replay:
        """The answer that the request got before, or the right to answer it.

        Parameters
        ----------
        name : of the key and its caller; nobody can tell either from it
        digest : of the request
        ids : where its ids begin, if it is the first

        Raises
        ------
        IdempotencyKeyReused : the key came with another request
        IdempotencyInProgress : somebody answers it now
        """
        with writing(self._engine) as connection:
            row = connection.execute(sa.select(replays).where(replays.c.name == name)).one_or_none()
            if row is not None and row.until > timestamp(now):
                if row.digest != digest:
                    raise IdempotencyKeyReused
                if row.status is None:
                    raise IdempotencyInProgress
                return Replay(status=row.status, headers=json.loads(row.headers), body=row.body)
            if row is not None and row.status is None and row.digest == digest:
                ids = row.ids  # its server crashed, or failed with something begun that may yet come to pass
            attempt = Attempt(name=name, attempt=secrets.token_hex(16), ids=ids)
            connection.execute(sa.delete(replays).where(replays.c.name == name))
            values = {"name": name, "digest": digest, "ids": attempt.ids, "attempt": attempt.attempt}
            connection.execute(sa.insert(replays).values(**values, until=timestamp(now + LEASE)))
        return attempt

    def renew(self, attempt: Attempt, now: datetime) -> None:
        """Claim the key for another `LEASE`, unless its answer is there: that is kept for longer."""
        unanswered = _own(sa.update(replays), attempt).where(replays.c.status.is_(None))
        with writing(self._engine) as connection:
            connection.execute(unanswered.values(until=timestamp(now + LEASE)))

    def keep(self, attempt: Attempt, answer: Replay, recourse: str | None, now: datetime) -> bool:
        """Keep an answer for `KEPT`; `recourse` is the id of what it gives, or of the job that it tells of.

        False if that was erased meanwhile, which frees the key, or if somebody has taken over.
        """
        values = {
            "status": answer.status,
            "headers": json.dumps(dict(answer.headers)),
            "body": answer.body,
            "recourse": recourse,
            "until": timestamp(now + KEPT),
        }
        erased = sa.select(entries.c.number).where(entries.c.id == recourse, entries.c.kind == Kind.ERASED)
        with writing(self._engine) as connection:
            if connection.scalar(erased) is not None:
                connection.execute(_own(sa.delete(replays), attempt))
                return False
            return bool(connection.execute(_own(sa.update(replays), attempt).values(**values)).rowcount)

    def release(self, attempt: Attempt, now: datetime) -> None:
        """Let the key go: the request was refused or failed, and may be sent again.

        Its ids stay for that: a write that seemed to fail may yet come to pass. A renewal that comes late is nobody's.
        """
        with writing(self._engine) as connection:
            connection.execute(_own(sa.update(replays), attempt).values(until=timestamp(now), attempt=""))

    def erase(self, ids: Sequence[str]) -> int:
        """Delete the answers that give a recourse or tell of a job with one of these ids; how many those were."""
        with writing(self._engine) as connection:
            erased = connection.execute(sa.delete(replays).where(replays.c.recourse.in_(ids))).rowcount
        overwrite_log(self._engine)
        return erased

    def sweep(self, now: datetime) -> int:
        """Delete what nobody can have again; how much that was."""
        over = replays.c.status.is_not(None) & (replays.c.until < timestamp(now))
        given_up = replays.c.until < timestamp(now - KEPT)
        with writing(self._engine) as connection:
            return connection.execute(sa.delete(replays).where(over | given_up)).rowcount


def _own(statement: Change, attempt: Attempt) -> Change:
    return statement.where(replays.c.name == attempt.name, replays.c.attempt == attempt.attempt)
