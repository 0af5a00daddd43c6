"""Rows of the ledger: the queries that read them, and what they are read as."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.ledger.chain import FIRST, Entry, Kind, PersonalData
from app.store.tables import entries, personal_data

AT_ONCE = 500
"""Rows per query of a long read."""

HOLDING = (Kind.GIVEN, Kind.SENT, Kind.REVIEWED)
"""Kinds of entries with personal data."""

_DATA = [personal_data.c[name] for name in ("salt", "reference", "job", "request", "answer")]

# Starts at the personal data: the entries without any grow in number, and none of them is read.
HELD_FROM = personal_data.join(entries, personal_data.c.number == entries.c.number)

HELD: sa.Select[Any] = sa.select(*entries.c, *_DATA, sa.null().label("erased_at")).select_from(HELD_FROM)
"""Entries with their personal data, of those that have some."""

erasures = entries.alias("erasures")


def _with_erasures(erased: sa.ColumnElement[str]) -> sa.Select[Any]:
    """All entries, with their personal data and the erasure of the recourse with this id."""
    own = entries.outerjoin(personal_data, personal_data.c.number == entries.c.number)
    joined = own.outerjoin(erasures, (erasures.c.id == erased) & (erasures.c.kind == Kind.ERASED))
    return sa.select(*entries.c, *_DATA, erasures.c.at.label("erased_at")).select_from(joined)


RECORDS = _with_erasures(entries.c.id)
"""Entries, each with the erasure of the recourse that it is; PostgreSQL finds that of one by its index."""

ALL = _with_erasures(sa.func.coalesce(entries.c.about, entries.c.id))
"""The same with the erasure of the recourse that a letter or review is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the ledger has of one recourse, letter or review: the entry and the personal data."""

    entry: Entry
    personal_data: PersonalData | None
    """None once erased."""
    erased_at: str | None
    key: str | None
    """The id of the API key that asked; None without keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An entry of the hash chain with its personal data; says whether both are as they were written."""

    record: Record
    before: str
    """Hash of the entry before."""
    hash: str
    holds: bool
    """Whether it hashes to this, and has the personal data that it was written with."""


def entry_of(row: sa.Row[Any]) -> Entry:
    """The `Entry` that a row of the database stores."""
    facts = {field: getattr(row, field) for field in Entry.__slots__}
    return Entry(**facts | {"kind": Kind(row.kind)})


# SQLite does not enforce column types: rows changed from outside can hold any type.


def is_entry(row: sa.Row[Any], before: str) -> bool:
    """Whether the hash in a row is right, given `before`, the hash of the previous entry."""
    try:
        return entry_of(row).hash(before) == row.hash
    except (TypeError, ValueError):
        return False


def has_its_personal_data(row: sa.Row[Any]) -> bool:
    """Whether the personal data in a row has the digest that the entry in the row states."""
    try:
        return _data_of(row).digest(row.salt) == row.digest
    except TypeError:
        return False


def _data_of(row: sa.Row[Any]) -> PersonalData:
    return PersonalData(reference=row.reference, job=row.job, request=row.request, answer=row.answer)


def record_of(row: sa.Row[Any]) -> Record:
    """The `Record` that a row of the database stores."""
    data = None if row.salt is None else _data_of(row)
    return Record(entry=entry_of(row), personal_data=data, erased_at=row.erased_at, key=row.key)


def link_of(row: sa.Row[Any], recourse_id: str) -> Link:
    """The `Link` that a row of the database stores, from a query about the recourse `recourse_id`.

    The row's column `before` has the hash of the previous entry.
    """
    before = FIRST if row.number == 1 else row.before
    holds = is_entry(row, before) and has_its_personal_data(row) and recourse_id in (row.id, row.about)
    return Link(record=record_of(row), before=before, hash=row.hash, holds=holds)
