"""Answers that are kept for their idempotency key. Blocks; not for an event loop.

A key is claimed before its request is answered, by a lease that its server renews. If the server crashes or fails, the
lease ends, and the same request takes over when it is sent again, with the same ids, so that nothing is done twice.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from app.errors import IdempotencyInProgress, IdempotencyKeyReused
from app.ledger.chain import Kind
from app.store.engine import overwrite_log, writing
from app.store.tables import entries
from app.store.tables import idempotent_answers as answers
from app.store.timestamps import timestamp

Change = TypeVar("Change", sa.Update, sa.Delete)

LEASE = timedelta(seconds=10)
"""How long a key stays claimed by a server that no longer renews its lease."""

SKEW = timedelta(minutes=5)
"""How far the clocks of servers may differ. A lease that ends later was taken by a clock that was wrong."""

KEPT = timedelta(hours=24)
"""How long an answer can be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to answer a request that came with an idempotency key; the attempt holds the key."""

    name: str
    attempt: str
    """Distinguishes this attempt from one that took over."""
    ids: str
    """Start of the ids that the request assigns; the same for an attempt that takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentAnswer:
    """A response that was sent; it is sent again if the request is repeated with the same idempotency key."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class IdempotentAnswers:
    """The idempotent answers in one database; several threads, processes and machines may use the database at once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def claim(self, name: str, digest: str, ids: str, now: datetime) -> Attempt | IdempotentAnswer:
        """The answer that the request got before; if there is none, a new attempt, which holds the key for a `LEASE`.

        Parameters
        ----------
        name : digest of key and caller; it reveals neither of them
        digest : digest of the request
        ids : start of the ids that the request assigns; not used if an earlier attempt has assigned ids

        Raises
        ------
        IdempotencyKeyReused : the key was used for another request
        IdempotencyInProgress : another attempt is answering the request
        """
        with writing(self._engine) as connection:
            row = connection.execute(sa.select(answers).where(answers.c.name == name)).one_or_none()
            if row is not None and _holds(row, now):
                if row.digest != digest:
                    raise IdempotencyKeyReused
                if row.status is None:
                    raise IdempotencyInProgress
                return IdempotentAnswer(status=row.status, headers=json.loads(row.headers), body=row.body)
            if row is not None and row.status is None and row.digest == digest:
                ids = row.ids  # its server crashed, or failed with a write that may still succeed
            attempt = Attempt(name=name, attempt=secrets.token_hex(16), ids=ids)
            connection.execute(sa.delete(answers).where(answers.c.name == name))
            values = {"name": name, "digest": digest, "ids": attempt.ids, "attempt": attempt.attempt}
            connection.execute(sa.insert(answers).values(**values, until=timestamp(now + LEASE)))
        return attempt

    def renew(self, attempt: Attempt, now: datetime) -> None:
        """Let the attempt hold its key for the time `LEASE` from now; no effect once the request is answered."""
        unanswered = _own(sa.update(answers), attempt).where(answers.c.status.is_(None))
        with writing(self._engine) as connection:
            connection.execute(unanswered.values(until=timestamp(now + LEASE)))

    def keep(self, attempt: Attempt, answer: IdempotentAnswer, recourse: str | None, now: datetime) -> bool:
        """Keep an answer for the time `KEPT`, and return whether it is kept.

        An answer is not kept if its recourse was erased meanwhile, which frees the key, or if another attempt has taken
        over.

        Parameters
        ----------
        recourse : id of the recourse or job in the answer
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
                connection.execute(_own(sa.delete(answers), attempt))
                return False
            return bool(connection.execute(_own(sa.update(answers), attempt).values(**values)).rowcount)

    def release(self, attempt: Attempt, now: datetime) -> None:
        """Free the key of a request that was refused or has failed, so that the request may be sent again at once.

        The ids of the request stay reserved: a write that seemed to fail may still succeed. Calling `renew` afterwards
        has no effect.
        """
        with writing(self._engine) as connection:
            connection.execute(_own(sa.update(answers), attempt).values(until=timestamp(now), attempt=""))

    def erase(self, ids: Sequence[str]) -> int:
        """Delete the idempotent answers that hold one of the recourses or jobs `ids`; returns how many these are."""
        with writing(self._engine) as connection:
            erased = connection.execute(sa.delete(answers).where(answers.c.recourse.in_(ids))).rowcount
        overwrite_log(self._engine)
        return erased

    def sweep(self, now: datetime, by_clock: datetime | None = None) -> int:
        """Delete expired answers and abandoned keys; returns how many were deleted.

        Answers are deleted, too, if they expire later than an answer that would be kept now: their time comes from a
        clock that was wrong.

        Parameters
        ----------
        now : the latest time that has certainly passed, even if this machine's clock is wrong
        by_clock : the time of this machine's clock, which may be ahead of `now`; `now` where absent
        """
        over = answers.c.status.is_not(None) & (answers.c.until < timestamp(now))
        given_up = answers.c.until < timestamp(now - KEPT)
        misdated = answers.c.until > timestamp(max(now, by_clock or now) + KEPT + SKEW)
        with writing(self._engine) as connection:
            return connection.execute(sa.delete(answers).where(over | given_up | misdated)).rowcount


def _holds(row: sa.Row[Any], now: datetime) -> bool:
    """Whether a row is an answer that can be repeated, or the lease of a server that may still be at work."""
    believed = row.status is not None or row.until <= timestamp(now + LEASE + SKEW)
    return row.until > timestamp(now) and believed


def _own(statement: Change, attempt: Attempt) -> Change:
    return statement.where(answers.c.name == attempt.name, answers.c.attempt == attempt.attempt)
