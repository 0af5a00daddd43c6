"""Reference records: a CSV with the features' names in its header, one raw record per line, other columns ignored."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from app.errors import Fault
from app.recourse.features import DecimalMark, Feature, FeatureType, escape, lines_and_delimiter, parse_column
from app.registry.files import CHUNK, require_regular

MAX_CELL_FAULTS = 20
"""Largest number of invalid cells listed; the others are only counted."""


LARGEST = 500_000_000
"""Bytes of a file."""

MOST_ROWS = 2_000_000
"""Lines of a file."""

MAX_LINES = 5
"""Largest number of lines listed in which a column has the same fault."""


def _outcome(label: str) -> Feature:
    """The column of true outcomes, to read along with the features: 1 for favourable, 0 for not."""
    return Feature(name=label, type=FeatureType.ORDINAL, categories=("0", "1"))


@dataclass(frozen=True, slots=True)
class Cell:
    """The fault of one cell of the reference: its record, column and line, and what the cell must be."""

    record: int
    name: str
    """Name of the column."""
    line: int
    text: str
    """What it must be."""


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file as texts, and for each row its line number in the file."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    """Line of the file in which each row ends."""
    delimiter: str = ","
    """What stands between its cells."""

    def texts(self, name: str) -> Sequence[str]:
        """The cells of the column `name`. Raises `ValueError` where a row is not as long as the header."""
        return self._columns[self.header.index(name)]

    @cached_property
    def _columns(self) -> list[tuple[str, ...]]:
        return list(zip(*self.rows, strict=True)) or [()] * len(self.header)


def read_reference(
    path: Path, features: Sequence[Feature], label: str | None = None
) -> tuple[Float[np.ndarray, "n p"] | None, list[Fault]]:
    """The raw rows of a reference file, and the faults of the file; the rows are None if there are faults.

    The pointer of a fault is ``/reference/{record}/{column}``. If `label` names a column of true outcomes, the rows
    have it as a further last column: 1 for favourable, 0 for not.
    """
    if path.suffix != ".csv":
        return None, [Fault("/reference", "must be a .csv file")]
    try:
        table = read_table(path)
    except UnicodeDecodeError:
        return None, [Fault("/reference", "is not a text in UTF-8: save it as CSV in UTF-8")]
    except csv.Error as error:
        return None, [Fault("/reference", f"cannot be read as CSV: {error}")]
    features = features if label is None else (*features, _outcome(label))
    faults = _header_faults(table, features)
    ragged = _shape_faults(table)
    if ragged:
        return None, faults + ragged
    try:
        mark = mark_of(table, [one.name for one in features if one.is_number and table.header.count(one.name) == 1])
    except ValueError as error:
        return None, [*faults, Fault("/reference", str(error))]
    columns = [
        _outcomes(table, feature) if feature.name == label else _column(table, feature, mark)
        for feature in features
        if table.header.count(feature.name) == 1
    ]
    bad = sorted((cell for _, found in columns for cell in _folded(found)), key=lambda cell: cell[0])
    faults += [*(fault for _, fault in bad[:MAX_CELL_FAULTS]), *_count(bad)]
    return (None, faults) if faults else (np.column_stack([values for values, _ in columns]), [])


def read_dates(path: Path, column: str) -> tuple[Float[np.ndarray, "n"], list[Fault]]:
    """The dates in a column of a reference file, in days from the year 1, and the faults of the column.

    A cell that is no date gives NaN and a fault. `read_reference` must have found no fault in the file.
    """
    table = read_table(path)
    if (count := table.header.count(column)) != 1:
        how = f'has the column "{column}" {count} times' if count else f'has no column "{column}"'
        return np.array([]), [Fault("/reference", f"{how}; its header has {', '.join(table.header)[:1_000]}")]
    days, wrong = np.full(len(table.rows), np.nan), list[Cell]()
    for i, text in enumerate(table.texts(column)):
        try:
            days[i] = date.fromisoformat(text.strip()[:10]).toordinal()
        except ValueError:
            wrong.append(Cell(i, column, table.lines[i], "must be a date such as 2026-03-31"))
    faults = [fault for _, fault in _folded(wrong)]
    return days, [*faults[:MAX_CELL_FAULTS], *_count(faults)]


def size_fault(path: Path) -> Fault | None:
    """The fault of a file that is too large to be read; None where its size is allowed or the file does not exist."""
    try:
        size = require_regular(path).st_size
        if size <= LARGEST:
            with path.open("rb") as file:
                lines = sum(part.count(b"\n") for part in iter(lambda: file.read(CHUNK), b""))
            if lines <= MOST_ROWS:
                return None
            return Fault("/reference", f"has {lines:,} lines; {MOST_ROWS:,} are the most, and a random part is enough")
    except OSError:
        return None
    return Fault("/reference", f"has {size:,} bytes; {LARGEST:,} are the most, and a random part of it is enough")


def read_table(path: Path, *, as_written: bool = False) -> Table:
    """The cells of a CSV file with a header; empty lines are skipped.

    With `as_written`, spaces before a cell belong to the cell, and quotation marks need not match.

    Raises `UnicodeDecodeError`, `csv.Error`, `OSError`.
    """
    with _numbered(path, as_written=as_written) as (numbered, delimiter):
        header, *found = list(numbered) or [(0, [])]
    return Table(_names(header[1]), [row for _, row in found], [line for line, _ in found], delimiter)


def mark_of(table: Table, names: Sequence[str]) -> str:
    """The decimal mark of a table, found in its columns of numbers (`names`).

    Raises `ValueError` where a number could be read with either mark.
    """
    found = DecimalMark()
    for name in names:
        found.see(table.texts(name))
    mark = found.of(table.delimiter)
    if mark is None:
        raise ValueError(f'has "{found.either}", which is read two ways; write numbers without groups of digits')
    return mark


def read_header(path: Path) -> list[str]:
    """The names of a CSV's columns. Raises `UnicodeDecodeError`, `csv.Error`, `OSError`."""
    with _numbered(path) as (numbered, _):
        return _names(next(numbered, (0, []))[1])


def _names(header: list[str]) -> list[str]:
    return [name.strip() for name in header]


@contextmanager
def _numbered(path: Path, *, as_written: bool = False) -> Iterator[tuple[Iterator[tuple[int, list[str]]], str]]:
    """The lines that are not empty, as cells, with the number of the line in which each ends; and the delimiter."""
    require_regular(path)
    # Spreadsheets write a byte order mark.
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines, delimiter = lines_and_delimiter(file)
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=not as_written, strict=not as_written)
        yield ((reader.line_num, row) for row in reader if row), delimiter


def _header_faults(table: Table, features: Sequence[Feature]) -> list[Fault]:
    known = ", ".join(table.header)[:1_000] or "nothing"
    if len(features) > 1 and not set(table.header) & {feature.name for feature in features}:
        # One sentence rather than one for each feature.
        names = ",".join(feature.name for feature in features if feature.derived is None)[:1_000]
        return [Fault("/reference", f"must begin with a line of the features' names, not with {known}; write {names}")]
    counts = Counter(table.header)
    faults = [
        Fault("/reference", f'has no column "{feature.name}"; its header has {known}')
        for feature in features
        if not counts[feature.name]
    ]
    return faults + [
        Fault("/reference", f'has the column "{feature.name}" {counts[feature.name]} times')
        for feature in features
        if counts[feature.name] > 1
    ]


def _shape_faults(table: Table) -> list[Fault]:
    if len(table.rows) < 2:
        return [Fault("/reference", "needs at least two records")]
    width = len(table.header)
    ragged = [
        Fault(f"/reference/{i}", f"line {line}: has {len(row)} cells, the header {width}")
        for i, (row, line) in enumerate(zip(table.rows, table.lines, strict=True))
        if len(row) != width
    ]
    return [*ragged[:MAX_CELL_FAULTS], *_count(ragged)]


def _column(table: Table, feature: Feature, mark: str) -> tuple[Float[np.ndarray, "n"], list[Cell]]:
    """The raw numbers of a column, and its cells with faults."""
    values, found = parse_column(feature, table.texts(feature.name), mark)
    return values, [Cell(i, feature.name, table.lines[i], text) for i, text in found]


def _outcomes(table: Table, label: Feature) -> tuple[Float[np.ndarray, "n"], list[Cell]]:
    """The true outcomes: 0 or 1, and nothing like it; and the cells with faults, in a sentence with what to do."""
    texts = [text.strip() for text in table.texts(label.name)]
    detail = 'must be one of "0", "1"; write 1 where the outcome was favourable, else 0'
    wrong = [Cell(i, label.name, table.lines[i], detail) for i, text in enumerate(texts) if text not in ("0", "1")]
    return np.array([float(text == "1") for text in texts]), wrong


def _folded(cells: Sequence[Cell]) -> list[tuple[int, Fault]]:
    """Faults of one column with the record in which they begin; what is wrong in many lines is said once."""
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(cell.text, []).append(cell)
    found: list[tuple[int, Fault]] = []
    for text, same in alike.items():
        pointer = f"/reference/{{}}/{escape(same[0].name)}"
        if len(same) <= MAX_LINES:
            found += [(c.record, Fault(pointer.format(c.record), f"line {c.line}: {text}")) for c in same]
        else:
            lines = ", ".join(str(c.line) for c in same[:MAX_LINES])
            detail = f"lines {lines} and {len(same) - MAX_LINES} more: {text}"
            found.append((same[0].record, Fault(pointer.format(same[0].record), detail)))
    return found


def _count(faults: Sequence[object]) -> list[Fault]:
    more = len(faults) - MAX_CELL_FAULTS
    return [Fault("/reference", f"and {more} more, {len(faults)} in all")] if more > 0 else []
