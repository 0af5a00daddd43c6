"""Finds the column of the records that each column of the model comes from: the same column, or one of its levels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import ModelRefused
from app.registry import printable
from app.registry.drafting.columns import Column

SEPARATORS = ("=", "__", "_", ".", ":", "-", " ", "|")
"""Between a column and its level in the name of an encoded column."""

MISSING_MARKS = frozenset({"missing", "isna", "is_na", "is_missing", "nan", "na", "null"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A column of the records, with the columns of the model that are computed from it."""

    column: str
    levels: tuple[str | None, ...] | None = None
    """Levels with a column of the model each, in its order; None where it takes one number."""
    indicator: bool = False
    """Whether a column of the model says that the value is missing."""
    names: tuple[str, ...] = ()
    """The model's own names of these columns; empty where it has none."""


def match(names: Sequence[str], columns: Mapping[str, Column], model: str) -> list[Source]:
    """The columns of the records from which the model's columns are computed, in the model's order.

    Raises `ModelRefused` where a column of the model comes from no column of the records, or where several levels of a
    column have no column in the model.
    """
    found: list[Source] = []
    lost: list[str] = []
    for name in names:
        column, level = _split(name, columns)
        if column is None:  # a ColumnTransformer writes the name of a step before each column
            column, level = _split(re.sub(r"^\w+?__", "", name), columns)
        if column is None:
            lost.append(name)
        elif level is None:
            found.append(Source(column=column, names=(name,)))
        else:
            _add(found, columns[column], level, name)
    if lost:
        raise ModelRefused(
            f"{model} takes columns that do not come from the records: {listed(lost)}. The records have "
            f"{listed(list(columns))}. Give the table that the model was trained on"
        )
    return [_complete(source, columns[source.column], model) for source in found]


def match_width(width: int, columns: Mapping[str, Column], model: str) -> list[Source]:
    """The columns of the records, in their order, as sources for a model whose file names no columns.

    Columns that only identify records, such as account numbers, are left out. `width` is the number of columns that the
    model takes. Raises `ModelRefused` where the records cannot give this number.
    """
    used = [column for column in columns.values() if not column.names_records]
    for pairs in (False, True):  # levels of two, as two columns or as one
        sources = [_source_of(column, pairs) for column in used]
        if sum(len(source.levels or ("",)) for source in sources) == width:
            return sources
    numbers = [column for column in used if column.numbers is not None or column.flag]
    for plain in (used, numbers):
        if len(plain) == width:
            return [Source(column=column.name) for column in plain]
    count = sum(len(_source_of(column, False).levels or ("",)) for column in used)
    names = listed([column.name for column in used])
    raise ModelRefused(
        f"{model} takes {width} columns without names, and the records have {len(used)} ({names})"
        + (f", {count} with one for each level" if count != len(used) else "")
        + ". Say with --columns which of them it takes, in its order, or save the model with the names of its columns"
    )


def listed(names: Sequence[str]) -> str:
    """One text with the first 8 of `names`, without quotation marks, and the number of the other names."""
    return printable.listed(names, 8, quote="")


def _source_of(column: Column, pairs: bool) -> Source:
    one = column.numbers is not None or column.flag or (pairs and len(column.levels) == 2)
    return Source(column=column.name, levels=None if one else column.levels)


def _simple(text: str) -> str:
    """A text without what libraries replace in names."""
    return re.sub(r"[\W_]+", "_", text.strip().lower()).strip("_")


def _split(name: str, columns: Mapping[str, Column]) -> tuple[str | None, str | None]:
    """The column of the records, and the level; None for a level where it is the column itself."""
    if name in columns:
        return name, None
    for column in sorted(columns, key=len, reverse=True):
        for written in (column, re.sub(r"\s", "_", column)):
            for separator in SEPARATORS:
                prefix = written + separator
                if name.startswith(prefix) and len(name) > len(prefix):
                    return column, name[len(prefix) :]
    return next((column for column in columns if _simple(column) == _simple(name)), None), None


def _add(found: list[Source], column: Column, level: str, name: str) -> None:
    """One more column of the model, that of a level or of missing values."""
    at = next((k for k, source in enumerate(found) if source.column == column.name), len(found))
    last = found[at] if at < len(found) else None
    if column.numbers is not None and last is not None and last.levels is None and level.lower() in MISSING_MARKS:
        found[at] = Source(column=column.name, indicator=True, names=(*last.names, name))
        return
    known = {_simple(text): text for text in column.levels}
    exact: str | None = level if level in column.levels else known.get(_simple(level), level)
    if level.lower() in MISSING_MARKS and exact not in column.levels:
        exact = None
    if last is not None and last.levels is not None:
        found[at] = Source(column=column.name, levels=(*last.levels, exact), names=(*last.names, name))
    else:
        found.append(Source(column=column.name, levels=(exact,), names=(name,)))


def _complete(source: Source, column: Column, model: str) -> Source:
    """A source with all levels of the records; of two levels, one column says enough."""
    if source.levels is None:
        return source
    absent = [level for level in column.levels if level not in source.levels]
    if len(source.levels) == 1 and len(absent) == 1:
        return Source(column=source.column, levels=None, names=source.names)
    if len(absent) > 1:
        raise ModelRefused(
            f"{model} has no columns for {listed([f'{source.column}={level}' for level in absent])}; it may lack the "
            "column of one level. Give the records that it was trained on"
        )
    return Source(column=source.column, levels=(*absent, *source.levels), names=(*("" for _ in absent), *source.names))
