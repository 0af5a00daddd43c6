"""Reference records: a CSV with the features' names in its header, one raw record per line, other columns ignored."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from app.errors import Fault
from app.recourse.features import Feature, FeatureType, escape, parse_column
from app.registry.files import require_regular

MAX_CELL_FAULTS = 20
"""Largest number of invalid cells listed; the others are only counted."""


MARKS = {"\t": "tabs"}
"""Separators that are not shown as they are."""

MAX_LINES = 5
"""Largest number of lines listed in which a column has the same fault."""


DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def _outcome(label: str) -> Feature:
    """The column of true outcomes, to read along with the features: 1 for favourable, 0 for not."""
    return Feature(name=label, type=FeatureType.ORDINAL, categories=("0", "1"))


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that cannot be read."""

    record: int
    name: str
    """Of the column."""
    line: int
    text: str
    """What it must be."""


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV as text."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    """Line of the file in which each row ends."""


def read_reference(
    path: Path, features: Sequence[Feature], label: str | None = None
) -> tuple[Float[np.ndarray, "n p"] | None, list[Fault]]:
    """Raw rows of a file, None if it has faults; pointers are ``/reference/{record}/{column}``.

    Parameters
    ----------
    label : column of true outcomes, which are the last column of the rows then: 1 for favourable, 0 for not
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
    columns = [
        _column(table, feature, "; write 1 where the outcome was favourable, else 0" if feature.name == label else "")
        for feature in features
        if table.header.count(feature.name) == 1
    ]
    bad = sorted((cell for _, found in columns for cell in _folded(found)), key=lambda cell: cell[0])
    faults += [*(fault for _, fault in bad[:MAX_CELL_FAULTS]), *_count(bad)]
    return (None, faults) if faults else (np.column_stack([values for values, _ in columns]), [])


def read_table(path: Path) -> Table:
    """The cells of a CSV with a header, without empty lines. Raises UnicodeDecodeError, csv.Error, OSError."""
    header, *found = list(_numbered(path)) or [(0, [])]
    return Table(_names(header[1]), [row for _, row in found], [line for line, _ in found])


def read_header(path: Path) -> list[str]:
    """The names of a CSV's columns. Errors as `read_table`."""
    return _names(next(_numbered(path), (0, []))[1])


def _names(header: list[str]) -> list[str]:
    return [name.strip() for name in header]


def _numbered(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not empty, as cells, with the number of the line in which each ends."""
    require_regular(path)
    # Spreadsheets write a byte order mark.
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, skipinitialspace=True, strict=True)
        yield from ((reader.line_num, row) for row in reader if row)


def _header_faults(table: Table, features: Sequence[Feature]) -> list[Fault]:
    known = ", ".join(table.header)[:1_000] or "nothing"
    if len(features) > 1 and not set(table.header) & {feature.name for feature in features}:
        # One sentence rather than one for each feature.
        names = ",".join(feature.name for feature in features if feature.derived is None)[:1_000]
        other = next((mark for mark in ";\t|" if len(table.header) == 1 and mark in known), None)
        remedy = (
            f"write {names}" if other is None else f"separate the cells by commas, not by {MARKS.get(other, other)}"
        )
        return [Fault("/reference", f"must begin with a line of the features' names, not with {known}; {remedy}")]
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


def _column(table: Table, feature: Feature, remedy: str) -> tuple[Float[np.ndarray, "n"], list[Cell]]:
    """The raw numbers of a column, and its cells with faults, in a sentence that ends with what to do."""
    at = table.header.index(feature.name)
    # A level may begin or end in a space, as the model knows it.
    texts = [row[at] if row[at] in feature.categories else row[at].strip() for row in table.rows]
    values, found = parse_column(feature, texts)
    if found and feature.is_number and DECIMAL_COMMA.fullmatch(texts[found[0][0]]):
        remedy = "; write 3.5, not 3,5"
    return values, [Cell(i, feature.name, table.lines[i], text + remedy) for i, text in found]


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
