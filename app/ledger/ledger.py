"""The ledger of recourse: write, find, erase, and verify that nothing was changed. Blocks; not for an event loop.

Errors of the database are SQLAlchemy's `DBAPIError`.
"""

import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from app.errors import Erased, UnknownRecourse
from app.ledger.chain import FIRST, Entry, Kind, PersonalData
from app.ledger.promises import Promises
from app.ledger.proof import Proof, holds, links, prove
from app.ledger.rows import AT_ONCE, HELD, HELD_FROM, RECORDS, Link, Record, entry_of, record_of
from app.ledger.search import Search, outlines
from app.store.engine import bare, overwrite_log, writing, writing_bare
from app.store.tables import checks, entries, idempotent_answers, personal_data
from app.store.timestamps import timestamp

FILE = "ledger.sqlite"

_FACTS = [name for name in Entry.__slots__ if name not in ("number", "digest")]

# Built once: building a statement takes as long as running it.
_KNOWN = sa.select(entries.c.id).where(
    entries.c.id.in_(sa.bindparam("ids", expanding=True)), entries.c.kind == Kind.GIVEN
)
_LAST = f"SELECT number, hash FROM {entries.name} ORDER BY number DESC LIMIT 1"  # noqa: S608 - our own name
_ADD_ENTRIES = sa.insert(entries)
_ADD_PERSONAL_DATA = sa.insert(personal_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to be added to the ledger: of a recourse, a letter or a review. Its fields are those of `Entry`."""

    kind: Kind = Kind.GIVEN
    id: str
    at: str
    expires_at: str | None = None
    model: str | None = None
    version: str | None = None
    sha256: str | None = None
    status: str | None = None
    about: str | None = None
    personal_data: PersonalData
    key: str | None = None
    """The id of the API key that asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What a list shows of one recourse that is not erased."""

    entry: Entry
    reference: str | None
    kept: bool | None
    """Whether the version accepts it that was asked last; None if none was."""


class Ledger:
    """The ledger in one database; several threads, processes and machines may use the database at once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    # --- write ---

    def append(self, records: Sequence[NewRecord]) -> None:
        """Add records of recourse: all of them or none. Records whose id the ledger already has are left out."""
        firsts: dict[str, NewRecord] = {}
        for record in records:
            firsts.setdefault(record.id, record)
        try:
            with writing_bare(self._engine) as cursor:
                _insert(cursor, self._engine.dialect, list(firsts.values()))
        except sa.exc.IntegrityError:
            # A record is there already only if it is computed again after a crash; a check up front would slow every
            # write.
            with writing(self._engine) as connection:
                known = set(connection.scalars(_KNOWN, {"ids": list(firsts)}))
                unknown = [record for recourse_id, record in firsts.items() if recourse_id not in known]
                with bare(connection) as cursor:
                    _insert(cursor, self._engine.dialect, unknown)

    def add(self, record: NewRecord) -> Record:
        """Add the record of a letter or review, unless the ledger has one with the same id; returns the stored record.

        Raises `Erased` where the recourse that the letter or review is about has no personal data any more.
        """
        own = RECORDS.where(entries.c.id == record.id, entries.c.kind == record.kind)
        held = sa.select(entries.c.number).select_from(HELD_FROM)
        held = held.where(entries.c.id == record.about, entries.c.kind == Kind.GIVEN)
        with writing(self._engine) as connection:
            if (number := connection.scalar(held)) is None:
                raise Erased
            if connection.execute(own).first() is None:
                with bare(connection) as cursor:
                    _insert(cursor, self._engine.dialect, [record], number)
            return record_of(connection.execute(own).one())

    def noted(
        self, kind: Kind, job: str, at: str, *, model: str, version: str, sha256: str, digest: str
    ) -> None:  # fmt: skip
        """Add an entry for a job that has compared versions or computed a portfolio report; each job gets only one.

        Parameters
        ----------
        job : id of the job
        at : time of the entry
        digest : hexadecimal SHA-256 of the job's result
        """
        own = sa.select(entries.c.number).where(entries.c.id == job, entries.c.kind == kind)
        facts = {"id": job, "at": at, "model": model, "version": version, "sha256": sha256, "digest": digest}
        with writing(self._engine) as connection:
            if connection.scalar(own) is None:
                with bare(connection) as cursor:
                    _link(cursor, self._engine.dialect, [{"kind": kind, **facts}], repeat(None))

    def erase(self, ids: Sequence[str], why: str, now: datetime) -> int:
        """Delete the personal data of recourses, and add an entry for each; returns how many still had personal data.

        In SQLite's files the data may stay until `overwrite_log` succeeds; this method tries that once.

        Parameters
        ----------
        why : the cause of the erasure, `request` or `retention`
        """
        with writing(self._engine) as connection:
            held = sa.select(entries.c.number, entries.c.id).join(personal_data).where(entries.c.id.in_(ids))
            found = connection.execute(held.order_by(entries.c.number)).all()
            numbers = [row.number for row in found]
            connection.execute(sa.delete(personal_data).where(personal_data.c.number.in_(numbers)))
            connection.execute(sa.delete(idempotent_answers).where(idempotent_answers.c.recourse.in_(ids)))
            links = [{"kind": Kind.ERASED, "id": row.id, "at": timestamp(now), "status": why} for row in found]
            with bare(connection) as cursor:
                _link(cursor, self._engine.dialect, links, repeat(None))
        overwrite_log(self._engine)
        return len(found)

    def note_checks(self, model: str, version: str, at: str, kept: Mapping[int, bool]) -> None:
        """Store which promises a version keeps, in place of earlier checks of these promises.

        Checks are no part of the chain, as they can be repeated.

        Parameters
        ----------
        kept : whether the version keeps the promise, by number of the promise's entry; erased ones are left out
        """
        rows = [{"model": model, "version": version, "at": at, "number": n, "kept": one} for n, one in kept.items()]
        with writing(self._engine) as connection:
            held = sa.select(personal_data.c.number).where(personal_data.c.number.in_(kept))
            numbers = set(connection.scalars(held))
            connection.execute(sa.delete(checks).where(checks.c.number.in_(numbers)))
            if rows := [row for row in rows if row["number"] in numbers]:
                connection.execute(sa.insert(checks), rows)

    # --- prove ---

    def prove(self) -> Proof:
        """Verify every entry of the ledger, and the personal data that the entry covers."""
        return prove(self._engine)

    def holds(self, head: str) -> bool:
        """Whether an entry has the hash `head`. This must be so for every head that was noted at an earlier time."""
        return holds(self._engine, head)

    def links(self, recourse_id: str) -> list[Link]:
        """The entries of a recourse, and of the letters and reviews about it, in the order of the chain.

        Empty where the recourse is erased.
        """
        return links(self._engine, recourse_id)

    # --- find ---

    def find(self, recourse_id: str) -> Record:
        """The record of one recourse, whether erased or not. Raises `UnknownRecourse`."""
        query = RECORDS.where(entries.c.kind == Kind.GIVEN, entries.c.id == recourse_id)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise UnknownRecourse
        return record_of(row)

    def newest(self, limit: int, **which: Any) -> list[Outline]:
        """At most `limit` recourses that are not erased, newest first; `which` are fields of a `Search`."""
        with self._engine.connect() as connection:
            found = connection.execute(outlines(limit, Search(**which)))
            return [Outline(entry=entry_of(row), reference=row.reference, kept=row.kept) for row in found]

    def references(
        self, ids: Sequence[str], *, key: str | None, models: Collection[str] | None
    ) -> dict[str, str | None]:
        """The clients' references of recourses, by id of the recourse.

        Recourses that are erased, or that may not be seen, are left out.

        Parameters
        ----------
        key : id of the only API key whose recourse may be seen; None for all API keys
        models : ids of the only models whose recourse may be seen; None for all models
        """
        where = [entries.c.kind == Kind.GIVEN]
        where += [] if key is None else [entries.c.key == key]
        where += [] if models is None else [entries.c.model.in_(models)]
        query = sa.select(entries.c.id, personal_data.c.reference).select_from(HELD_FROM).where(*where)
        found: dict[str, str | None] = {}
        with self._engine.connect() as connection:
            for start in range(0, len(ids), AT_ONCE):
                some = query.where(entries.c.id.in_(ids[start : start + AT_ONCE]))
                found |= {row.id: row.reference for row in connection.execute(some)}
        return found

    def due(self, *, given_before: datetime, now: datetime, limit: int, after: int = 0) -> list[Record]:
        """At most `limit` recourses, oldest first, that have expired and still have personal data.

        Parameters
        ----------
        given_before : only recourses that were given before this time
        now : only recourses that expired before this time
        after : only recourses whose entry has a number above this one
        """
        query = HELD.where(
            personal_data.c.number > after,
            entries.c.kind == Kind.GIVEN,
            entries.c.at < timestamp(given_before),
            entries.c.expires_at < timestamp(now),
        )
        with self._engine.connect() as connection:
            return [record_of(row) for row in connection.execute(query.order_by(personal_data.c.number).limit(limit))]

    def newest_at(self) -> str | None:
        """Timestamp of the newest entry; None where there is no entry."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(entries.c.at).order_by(entries.c.number.desc()).limit(1))

    def count(self, which: Promises) -> int:
        """Number of promises in the selection `which`."""
        query = sa.select(sa.func.count()).select_from(entries.join(personal_data)).where(*_conditions(which))
        with self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def promises(self, which: Promises) -> Iterator[list[Record]]:
        """The promises in the selection `which`, in the order of the chain, as lists of at most `AT_ONCE` promises."""
        after = 0
        while True:
            query = RECORDS.where(*_conditions(which), personal_data.c.number.is_not(None), entries.c.number > after)
            with self._engine.connect() as connection:
                found = [record_of(row) for row in connection.execute(query.order_by(entries.c.number).limit(AT_ONCE))]
            if not found:
                return
            yield found
            after = found[-1].entry.number

    def newest_found(self, model: str, most: int) -> Iterator[list[Record]]:
        """The newest `most` recourses of all versions of a model that have the status `found` and are not erased.

        They may have expired. The newest is first; each item is a list of at most `AT_ONCE` recourses.
        """
        return self._newest(most, *_found(model))

    def newest_given(self, model: str, *, since: str | None, until: str | None) -> Iterator[list[Record]]:
        """The recourses that all versions of a model gave in a period, whatever their status, without erased ones.

        The newest is first; each item is a list of at most `AT_ONCE` recourses.

        Parameters
        ----------
        since, until : the recourses were given at `since` or later and before `until`, in ISO 8601; None sets no limit
        """
        return self._newest(sys.maxsize, *_given(model, since, until))

    def count_erased(self, model: str, *, since: str | None, until: str | None) -> int:
        """Number of recourses that versions of a model gave in a period and that are erased now."""
        query = sa.select(sa.func.count()).select_from(entries.outerjoin(personal_data))
        with self._engine.connect() as connection:
            where = *_given(model, since, until), personal_data.c.number.is_(None)
            return connection.scalar(query.where(*where)) or 0

    def _newest(self, most: int, *where: sa.ColumnElement[bool]) -> Iterator[list[Record]]:
        before, left = sys.maxsize, most
        while left > 0:
            query = HELD.where(*where, personal_data.c.number < before)
            query = query.order_by(personal_data.c.number.desc()).limit(min(left, AT_ONCE))
            with self._engine.connect() as connection:
                found = [record_of(row) for row in connection.execute(query)]
            if not found:
                return
            yield found
            before, left = found[-1].entry.number, left - len(found)

    def count_found(self, model: str) -> int:
        """Number of recourses of all versions of a model that have the status `found` and are not erased."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(HELD_FROM).where(*_found(model))) or 0

    def check(self) -> None:
        """Raise `DBAPIError` if the ledger cannot be read."""
        with self._engine.connect() as connection:
            connection.execute(sa.select(entries.c.number).limit(1))


def _insert(cursor: DBAPICursor, dialect: sa.Dialect, records: Sequence[NewRecord], about: int | None = None) -> None:
    """Add records and their entries; `about` is the number of the recourse that they are about.

    The transaction must be the only writer.
    """
    salts = [secrets.token_bytes(32) for _ in records]
    links = [
        {field: getattr(record, field) for field in _FACTS} | {"digest": record.personal_data.digest(salt)}
        for record, salt in zip(records, salts, strict=True)
    ]
    numbers = _link(cursor, dialect, links, [record.key for record in records])
    rows = [
        {
            "number": number,
            "salt": salt,
            "reference": record.personal_data.reference,
            "job": record.personal_data.job,
            "request": record.personal_data.request,
            "answer": record.personal_data.answer,
            "about": about,
        }
        for number, record, salt in zip(numbers, records, salts, strict=True)
    ]
    cursor.executemany(_text(_ADD_PERSONAL_DATA, dialect), rows)


def _link(
    cursor: DBAPICursor, dialect: sa.Dialect, links: Sequence[dict[str, Any]], keys: Iterable[str | None]
) -> list[int]:
    """Add entries to the end of the chain; their numbers. The transaction must be the only writer."""
    cursor.execute(_LAST)
    number, before = cursor.fetchone() or (0, FIRST)
    rows = []
    for link, key in zip(links, keys, strict=False):
        number += 1
        entry = Entry(number=number, **link)
        before = entry.hash(before)
        rows.append({field: getattr(entry, field) for field in Entry.__slots__} | {"hash": before, "key": key})
    cursor.executemany(_text(_ADD_ENTRIES, dialect), rows)
    return [row["number"] for row in rows]


@lru_cache(maxsize=8)
def _text(statement: sa.Insert, dialect: sa.Dialect) -> str:
    """A statement as its driver takes it, with dicts for parameters: to prepare one takes longer than to run it."""
    return str(statement.compile(dialect=dialect))


def _found(model: str) -> list[sa.ColumnElement[bool]]:
    return [entries.c.model == model, entries.c.kind == Kind.GIVEN, entries.c.status == "found"]


def _given(model: str, since: str | None, until: str | None) -> list[sa.ColumnElement[bool]]:
    conditions = [entries.c.model == model, entries.c.kind == Kind.GIVEN]
    conditions += [] if since is None else [entries.c.at >= since]
    return conditions + ([] if until is None else [entries.c.at < until])


def _conditions(which: Promises) -> list[sa.ColumnElement[bool]]:
    conditions = [*_found(which.model), entries.c.expires_at > which.as_of]
    if which.since is not None:
        conditions.append(entries.c.at >= which.since)
    if which.until is not None:
        conditions.append(entries.c.at < which.until)
    return conditions
