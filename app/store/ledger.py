"""The ledger of recourse given: write, find, erase, and prove that nothing was changed. Blocks; not for an event loop.

Errors of the database are SQLAlchemy's `DBAPIError`.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from app.errors import UnknownRecourse
from app.store.chain import FIRST, Entry, Kind, Particulars
from app.store.engine import overwrite_log, writing
from app.store.moments import timestamp
from app.store.tables import entries, particulars, replays

FILE = "ledger.sqlite"

AT_ONCE = 500
"""Rows that are read at a time."""

_erasures = entries.alias("erasures")

_DATA = [column for column in particulars.c if column is not particulars.c.number]

_RECORDS: sa.Select[Any] = sa.select(
    *entries.c,
    *_DATA,
    _erasures.c.at.label("erased_at"),
).select_from(
    entries.outerjoin(particulars, particulars.c.number == entries.c.number).outerjoin(
        _erasures, (_erasures.c.id == entries.c.id) & (_erasures.c.kind == Kind.ERASED)
    )
)

# By way of the personal data: of the entries without any there are ever more, and none of them is looked at.
_HOLDING = particulars.join(entries, particulars.c.number == entries.c.number)

_HELD: sa.Select[Any] = sa.select(*entries.c, *_DATA, sa.null().label("erased_at")).select_from(_HOLDING)

_OUTLINES: sa.Select[Any] = sa.select(*entries.c, particulars.c.reference).select_from(_HOLDING)

# Made once: to put a statement together takes as long as to run it.
_KNOWN = sa.select(entries.c.id).where(
    entries.c.id.in_(sa.bindparam("ids", expanding=True)), entries.c.kind == Kind.GIVEN
)
_LAST = sa.select(entries.c.number, entries.c.hash).order_by(entries.c.number.desc()).limit(1)
_ADD_ENTRIES = sa.insert(entries)
_ADD_PARTICULARS = sa.insert(particulars)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A recourse that is about to be given."""

    id: str
    at: str
    expires_at: str
    model: str
    version: str
    sha256: str
    status: str
    particulars: Particulars


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the ledger knows about one recourse."""

    entry: Entry
    particulars: Particulars | None
    """None once erased."""
    erased_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """As much of a recourse that is not erased as a list shows."""

    entry: Entry
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """Which promises are meant: found, neither expired nor erased."""

    model: str
    as_of: str
    """Those that expire after this moment."""
    since: str | None = None
    """Those given at this moment or later."""
    until: str | None = None
    """Those given before this moment."""

    @classmethod
    def unexpired(cls, model: str, *, since: datetime | None, until: datetime | None) -> "Promises":
        """Those of all versions of a model that have not expired now; `since` and `until` know their time zone."""
        return cls(
            model=model,
            as_of=timestamp(datetime.now(UTC)),
            since=None if since is None else timestamp(since),
            until=None if until is None else timestamp(until),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Where the chain does not hold."""

    number: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found by looking at every entry."""

    entries: int
    erased: int
    head: str
    """Hash of the last entry."""
    broken: Broken | None
    """The first entry that is not as it was written."""


class Ledger:
    """The ledger in one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    # --- write ---

    def append(self, gifts: Sequence[Given]) -> None:
        """Add entries, all or none; one whose id is there already, or comes twice, stays as it was first."""
        firsts: dict[str, Given] = {}
        for given in gifts:
            firsts.setdefault(given.id, given)
        try:
            with writing(self._engine) as connection:
                _give(connection, list(firsts.values()))
        except sa.exc.IntegrityError:
            # Only what is computed once more after a crash is there already; asking first would cost everybody.
            with writing(self._engine) as connection:
                known = set(connection.scalars(_KNOWN, {"ids": list(firsts)}))
                _give(connection, [given for recourse_id, given in firsts.items() if recourse_id not in known])

    def erase(self, ids: Sequence[str], why: str, now: datetime) -> int:
        """Delete the personal data of recourses and add entries that say so; how many still had some.

        With SQLite some of it may be left in the files until `overwrite_log` has succeeded, which is tried here once.
        """
        with writing(self._engine) as connection:
            held = sa.select(entries.c.number, entries.c.id).join(particulars).where(entries.c.id.in_(ids))
            found = connection.execute(held.order_by(entries.c.number)).all()
            numbers = [row.number for row in found]
            connection.execute(sa.delete(particulars).where(particulars.c.number.in_(numbers)))
            connection.execute(sa.delete(replays).where(replays.c.recourse.in_(ids)))
            links = [{"kind": Kind.ERASED, "id": row.id, "at": timestamp(now), "status": why} for row in found]
            _link(connection, links)
        overwrite_log(self._engine)
        return len(found)

    # --- find ---

    def find(self, recourse_id: str) -> Record:
        """One recourse, also an erased one. Raises `UnknownRecourse`."""
        query = _RECORDS.where(entries.c.kind == Kind.GIVEN, entries.c.id == recourse_id)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise UnknownRecourse
        return _record(row)

    def newest(self, limit: int, *, reference: str | None = None, before: str | None = None) -> list[Outline]:
        """The newest recourses that are not erased, newest first; those before the id `before`."""
        query = _OUTLINES.where(entries.c.kind == Kind.GIVEN)
        if reference is not None:
            query = query.where(particulars.c.reference == reference)
        if before is not None:
            at = sa.select(entries.c.number).where(entries.c.kind == Kind.GIVEN, entries.c.id == before)
            query = query.where(particulars.c.number < at.scalar_subquery())
        query = query.order_by(particulars.c.number.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [Outline(entry=_entry(row), reference=row.reference) for row in connection.execute(query)]

    def due(self, *, given_before: datetime, now: datetime, limit: int, after: int = 0) -> list[Record]:
        """Recourses that were given before a moment, have expired and still hold personal data; the oldest first.

        Those whose numbers come after `after`.
        """
        query = _HELD.where(
            particulars.c.number > after,
            entries.c.kind == Kind.GIVEN,
            entries.c.at < timestamp(given_before),
            entries.c.expires_at < timestamp(now),
        )
        with self._engine.connect() as connection:
            return [_record(row) for row in connection.execute(query.order_by(particulars.c.number).limit(limit))]

    def count(self, which: Promises) -> int:
        """How many promises there are."""
        query = sa.select(sa.func.count()).select_from(entries.join(particulars)).where(*_conditions(which))
        with self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def promises(self, which: Promises) -> Iterator[list[Record]]:
        """The promises in the order of the chain, some at a time."""
        after = 0
        while True:
            query = _RECORDS.where(*_conditions(which), particulars.c.number.is_not(None), entries.c.number > after)
            with self._engine.connect() as connection:
                found = [_record(row) for row in connection.execute(query.order_by(entries.c.number).limit(AT_ONCE))]
            if not found:
                return
            yield found
            after = found[-1].entry.number

    def check(self) -> None:
        """Raise `DBAPIError` if the ledger cannot be read."""
        with self._engine.connect() as connection:
            connection.execute(sa.select(entries.c.number).limit(1))

    # --- prove ---

    def prove(self) -> Proof:
        """Look at every entry, from the first."""
        number, erased, head = 0, 0, FIRST
        unexplained: dict[str, Broken] = {}
        broken = None
        for row in self._walk():
            number += 1
            if row.number != number:
                broken = Broken(number=number, id="", reason="is missing")
            elif not _is_entry(row, head):
                broken = Broken(number=number, id=row.id, reason="is not as it was written")
            elif row.salt is not None and not _has_its_particulars(row):
                broken = Broken(number=number, id=row.id, reason="has other personal data than it was written with")
            if broken is not None:
                break
            head, erased = row.hash, erased + (row.kind == Kind.ERASED)
            if row.kind == Kind.GIVEN and row.salt is None:
                reason = "has lost its personal data, and no entry says that it was erased"
                unexplained[row.id] = Broken(number=number, id=row.id, reason=reason)
        faults = [*self._unerased(), *self._unexplained(unexplained), *([broken] if broken else [])]
        return Proof(entries=number, erased=erased, head=head, broken=min(faults, key=lambda b: b.number, default=None))

    def holds(self, head: str) -> bool:
        """Whether an entry has this hash: one that was noted earlier must still be there."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(entries.c.number).where(entries.c.hash == head)) is not None

    def _walk(self) -> Iterator[sa.Row[Any]]:
        after = -1
        while True:
            query = _RECORDS.where(entries.c.number > after).order_by(entries.c.number).limit(AT_ONCE)
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
            if not rows:
                return
            yield from rows
            after = rows[-1].number

    def _unerased(self) -> list[Broken]:
        query = _RECORDS.where(particulars.c.number.is_not(None), _erasures.c.number.is_not(None))
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(entries.c.number).limit(1)).all()
        return [Broken(number=row.number, id=row.id, reason="still has data that was erased") for row in rows]

    def _unexplained(self, missing: dict[str, Broken]) -> list[Broken]:
        """Those whose data is missing although nobody erased it; asked last, as erasing goes on meanwhile."""
        with self._engine.connect() as connection:
            explained = set(connection.scalars(sa.select(entries.c.id).where(entries.c.kind == Kind.ERASED)))
        return [broken for recourse_id, broken in missing.items() if recourse_id not in explained]


def _give(connection: sa.Connection, gifts: Sequence[Given]) -> None:
    """Add gifts and their entries. The connection must be the only writer."""
    salts = [secrets.token_bytes(32) for _ in gifts]
    links = [
        {
            "kind": Kind.GIVEN,
            "id": given.id,
            "at": given.at,
            "expires_at": given.expires_at,
            "model": given.model,
            "version": given.version,
            "sha256": given.sha256,
            "status": given.status,
            "digest": given.particulars.digest(salt),
        }
        for given, salt in zip(gifts, salts, strict=True)
    ]
    numbers = _link(connection, links)
    rows = [
        {
            "number": number,
            "salt": salt,
            "reference": given.particulars.reference,
            "job": given.particulars.job,
            "request": given.particulars.request,
            "answer": given.particulars.answer,
        }
        for number, given, salt in zip(numbers, gifts, salts, strict=True)
    ]
    if rows:
        connection.execute(_ADD_PARTICULARS, rows)


def _link(connection: sa.Connection, links: Sequence[dict[str, Any]]) -> list[int]:
    """Add entries to the end of the chain; their numbers. The connection must be the only writer."""
    number, before = connection.execute(_LAST).one_or_none() or (0, FIRST)
    rows = []
    for link in links:
        number += 1
        entry = Entry(number=number, **link)
        before = entry.hash(before)
        rows.append({field: getattr(entry, field) for field in Entry.__slots__} | {"hash": before})
    if rows:
        connection.execute(_ADD_ENTRIES, rows)
    return [row["number"] for row in rows]


def _conditions(which: Promises) -> list[sa.ColumnElement[bool]]:
    conditions = [
        entries.c.model == which.model,
        entries.c.kind == Kind.GIVEN,
        entries.c.status == "found",
        entries.c.expires_at > which.as_of,
    ]
    if which.since is not None:
        conditions.append(entries.c.at >= which.since)
    if which.until is not None:
        conditions.append(entries.c.at < which.until)
    return conditions


def _entry(row: sa.Row[Any]) -> Entry:
    facts = {field: getattr(row, field) for field in Entry.__slots__}
    return Entry(**facts | {"kind": Kind(row.kind)})


# What somebody else has written into SQLite can be of any type, whatever the column says.


def _is_entry(row: sa.Row[Any], before: str) -> bool:
    """Whether it is the entry that was written after the one with this hash."""
    try:
        return _entry(row).hash(before) == row.hash
    except (TypeError, ValueError):
        return False


def _has_its_particulars(row: sa.Row[Any]) -> bool:
    """Whether the personal data is what the entry was written with."""
    try:
        return _particulars(row).digest(row.salt) == row.digest
    except TypeError:
        return False


def _particulars(row: sa.Row[Any]) -> Particulars:
    return Particulars(reference=row.reference, job=row.job, request=row.request, answer=row.answer)


def _record(row: sa.Row[Any]) -> Record:
    particulars = None if row.salt is None else _particulars(row)
    return Record(entry=_entry(row), particulars=particulars, erased_at=row.erased_at)
