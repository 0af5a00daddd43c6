"""Whether the ledger is as it was written: all of it, or the entries of one case. Blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.ledger.chain import FIRST, Kind
from app.ledger.rows import (
    ALL,
    AT_ONCE,
    HELD,
    HELD_FROM,
    HOLDING,
    Link,
    erasures,
    has_its_personal_data,
    is_entry,
    link_of,
)
from app.store.tables import entries, personal_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first entry at which the chain is broken; `reason` says how."""

    number: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What verifying every entry of the ledger has shown; `broken` is None where the chain is sound."""

    entries: int
    erased: int
    head: str
    """Hash of the last entry."""
    broken: Broken | None
    """The first entry that does not verify."""


def prove(engine: sa.Engine) -> Proof:
    """Verify every entry, from number 1 on, and the personal data that the entry covers."""
    number, erased, head = 0, 0, FIRST
    unexplained: dict[str, Broken] = {}
    broken = None
    for row in _walk(engine):
        number += 1
        if type(row.number) is not int or row.number < 1:
            broken = Broken(number=row.number, id=row.id, reason="has a number that no entry has: they begin at 1")
        elif row.number != number:
            broken = Broken(number=number, id="", reason="is missing")
        elif not is_entry(row, head):
            broken = Broken(number=number, id=row.id, reason="is not as it was written")
        elif row.salt is not None and not has_its_personal_data(row):
            broken = Broken(number=number, id=row.id, reason="has other personal data than it was written with")
        if broken is not None:
            break
        head, erased = row.hash, erased + (row.kind == Kind.ERASED)
        if row.kind in HOLDING and row.salt is None and row.erased_at is None:
            reason = "has lost its personal data, and no entry says that it was erased"
            unexplained.setdefault(row.about or row.id, Broken(number=number, id=row.id, reason=reason))
    faults = [
        *_orphans(engine),
        *_unerased(engine),
        *_strays(engine),
        *_unexplained(engine, unexplained),
        *([broken] if broken else []),
    ]
    return Proof(entries=number, erased=erased, head=head, broken=min(faults, key=lambda b: b.number, default=None))


def holds(engine: sa.Engine, head: str) -> bool:
    """Whether an entry has the hash `head`. This must be so for every head that was noted at an earlier time."""
    with engine.connect() as connection:
        return connection.scalar(sa.select(entries.c.number).where(entries.c.hash == head)) is not None


def _walk(engine: sa.Engine) -> Iterator[sa.Row[Any]]:
    after = None
    while True:
        query = ALL if after is None else ALL.where(entries.c.number > after)
        with engine.connect() as connection:
            rows = connection.execute(query.order_by(entries.c.number).limit(AT_ONCE)).all()
        if not rows:
            return
        yield from rows
        after = rows[-1].number


def _orphans(engine: sa.Engine) -> list[Broken]:
    """Personal data that belongs to no entry, so that no erasure reaches it."""
    entry = sa.select(entries.c.number).where(entries.c.number == personal_data.c.number)
    query = sa.select(personal_data.c.number).where(~entry.exists()).order_by(personal_data.c.number).limit(1)
    with engine.connect() as connection:
        found = connection.scalars(query).all()
    reason = "has personal data, but there is no such entry"
    return [Broken(number=number, id="", reason=reason) for number in found]


def _unerased(engine: sa.Engine) -> list[Broken]:
    query = ALL.where(personal_data.c.number.is_not(None), erasures.c.number.is_not(None))
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(entries.c.number).limit(1)).all()
    return [Broken(number=row.number, id=row.id, reason="still has data that was erased") for row in rows]


def _strays(engine: sa.Engine) -> list[Broken]:
    """Letters and reviews whose personal data does not go with the recourse that the entry names."""
    given = entries.alias("given")
    named = (given.c.id == entries.c.about) & (given.c.kind == Kind.GIVEN)
    query = sa.select(entries.c.number, entries.c.id).select_from(HELD_FROM.outerjoin(given, named))
    query = query.where(entries.c.about.is_not(None) | personal_data.c.about.is_not(None))
    query = query.where(given.c.number.is_(None) | personal_data.c.about.is_distinct_from(given.c.number))
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(entries.c.number).limit(1)).all()
    return [Broken(number=row.number, id=row.id, reason="is not kept with what it is about") for row in rows]


def _unexplained(engine: sa.Engine, missing: dict[str, Broken]) -> list[Broken]:
    """Those whose data is missing without an erasure; queried last, as erasures go on meanwhile."""
    with engine.connect() as connection:
        explained = set(connection.scalars(sa.select(entries.c.id).where(entries.c.kind == Kind.ERASED)))
    return [broken for recourse_id, broken in missing.items() if recourse_id not in explained]


def links(engine: sa.Engine, recourse_id: str) -> list[Link]:
    """The entries of a recourse, and of the letters and reviews about it, in the order of the chain.

    Empty where the recourse is erased.
    """
    given = sa.select(entries.c.number).where(entries.c.kind == Kind.GIVEN, entries.c.id == recourse_id)
    before = entries.alias("before")
    hash_before = sa.select(before.c.hash).where(before.c.number == entries.c.number - 1).scalar_subquery()
    query = HELD.add_columns(hash_before.label("before")).where(entries.c.kind.in_(HOLDING))
    number = given.scalar_subquery()
    query = query.where((personal_data.c.number == number) | (personal_data.c.about == number))
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(entries.c.number)).all()
    return [link_of(row, recourse_id) for row in rows]
