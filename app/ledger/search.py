"""Searches of the ledger: recourse that is not erased, newest first.

A search reads one table in the order of its numbers, by an index, and looks up each row in the other tables. The
lookups have `OFFSET 0`, so that PostgreSQL does not make joins of them: a join would read both tables from their newest
rows, even where all rows that fit are old.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.ledger.chain import Kind
from app.store.tables import checks, entries, personal_data
from app.store.timestamps import timestamp

_OTHERS = entries.alias("others")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search for recourse looks for; a field that is None does not narrow the search."""

    reference: str | None = None
    job: str | None = None
    """That it computed."""
    model: str | None = None
    version: str | None = None
    status: str | None = None
    kept: bool | None = None
    """What the last check found."""
    since: datetime | None = None
    """Given then or later."""
    until: datetime | None = None
    """Given before."""
    before: str | None = None
    """The id of a recourse that was given later."""
    key: str | None = None
    """That asked for it."""
    models: Collection[str] | None = None
    """Those that may be seen."""


def outlines(limit: int, search: Search) -> sa.Select[Any]:
    """The query for at most `limit` recourses: entry, client's reference, and whether the promise was kept."""
    each: Collection[str | None] = [search.model]
    if search.models is not None and search.model not in search.models:
        each = search.models if search.model is None else []
    if search.kept is not None and search.status not in (None, "found"):
        each = []  # only a way is checked
    # One search for each model: together they would not be in the order of any index.
    parts = [_numbers(search, model).limit(limit).subquery() for model in each]
    none = sa.select(entries.c.number).where(sa.false())
    found = sa.union_all(none, *map(sa.select, parts)).subquery("found")
    page = sa.select(found.c.number).order_by(found.c.number.desc()).limit(limit).subquery("page")
    joined = (
        page.join(entries, entries.c.number == page.c.number)
        .join(personal_data, personal_data.c.number == page.c.number)
        .outerjoin(checks, checks.c.number == page.c.number)
    )
    query = sa.select(*entries.c, personal_data.c.reference, checks.c.kept).select_from(joined)
    return query.order_by(page.c.number.desc())


def _numbers(search: Search, model: str | None) -> sa.Select[Any]:
    """The numbers of what is found for one model, or for all; newest first."""
    entry = _given(entries.c.model, model) + _given(entries.c.version, search.version)
    entry += _given(entries.c.status, search.status) + _given(entries.c.key, search.key)
    data = _given(personal_data.c.reference, search.reference) + _given(personal_data.c.job, search.job)
    check = _given(checks.c.kept, search.kept) + (_given(checks.c.model, model) if search.kept is not None else [])
    table = personal_data if data or not (entry or check) else checks if check else entries
    bounds = []
    if search.since is not None:
        entry.append(entries.c.at >= timestamp(search.since))
        bounds.append(table.c.number >= _first(_OTHERS.c.at >= timestamp(search.since), by=_OTHERS.c.at))
    if search.until is not None:
        entry.append(entries.c.at < timestamp(search.until))
        bounds.append(table.c.number <= _last(_OTHERS.c.at < timestamp(search.until), by=_OTHERS.c.at))
    if search.before is not None:
        bounds.append(table.c.number < _first(_OTHERS.c.kind == Kind.GIVEN, _OTHERS.c.id == search.before))
    if model is not None and search.version is not None:
        version = _OTHERS.c.model == model, _OTHERS.c.version == search.version
        bounds += [table.c.number >= _first(*version), table.c.number <= _last(*version)]
    if table is entries:
        bounds.append(entries.c.number >= sa.select(sa.func.min(personal_data.c.number)).scalar_subquery())
    recourse = personal_data.c.about.is_(None)  # no letter or review
    where = {entries: [entries.c.kind == Kind.GIVEN, *entry], personal_data: [*data, recourse], checks: check}
    asked = [other for other in (entries, checks) if where[other] and other is not table and (entry or other is checks)]
    asked += [personal_data] if table is entries else []
    query = sa.select(table.c.number).where(*where[table], *bounds)
    query = query.where(*(_has(table, other, where[other]) for other in asked))
    return query.order_by(table.c.number.desc())


def _given(column: sa.Column[Any], value: object) -> list[sa.ColumnElement[bool]]:
    return [] if value is None else [column == value]


def _has(table: sa.Table, other: sa.Table, where: list[sa.ColumnElement[bool]]) -> sa.ColumnElement[bool]:
    """That the row of another table with the same number is as it should be."""
    query = sa.select(sa.literal(1)).select_from(other).where(other.c.number == table.c.number, *where)
    return query.offset(0).correlate(table).exists()


def _first(*where: sa.ColumnElement[bool], by: sa.ColumnElement[Any] | None = None) -> sa.ScalarSelect[Any]:
    """The least number of such entries; numbers follow time."""
    order = [_OTHERS.c.number] if by is None else [by, _OTHERS.c.number]
    return sa.select(_OTHERS.c.number).where(*where).order_by(*order).limit(1).scalar_subquery()


def _last(*where: sa.ColumnElement[bool], by: sa.ColumnElement[Any] | None = None) -> sa.ScalarSelect[Any]:
    order = [_OTHERS.c.number.desc()] if by is None else [by.desc(), _OTHERS.c.number.desc()]
    return sa.select(_OTHERS.c.number).where(*where).order_by(*order).limit(1).scalar_subquery()
