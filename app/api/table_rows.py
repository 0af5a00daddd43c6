"""Records of a table as the rows of a batch."""

import csv
import io
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import IO, Any, TypeVar

from app.errors import BodyTooLarge, Fault, InvalidRequest
from app.questions.answers import Json
from app.questions.batch_schema import BatchRow, to_row
from app.recourse.features import DecimalMark, Feature, escape, lines_and_delimiter, read_cell

UNNAMED = "(without a heading)"
"""Name for the cells beyond the last column; such a row is refused."""

MOST_COLUMNS = 2000
"""Most columns of a table that was sent."""

READING_S = 120.0
"""Processor time in which a batch is read; 100,000 rows take some seconds."""

Line = TypeVar("Line")


def timely(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a batch, one by one.

    Raises `BodyTooLarge` once this thread has spent `READING_S` seconds of processor time since the first line.
    """
    began = time.thread_time()
    for line in lines:
        if time.thread_time() - began > READING_S:
            raise BodyTooLarge(f"Reading this batch takes more than {READING_S:.0f} seconds; send fewer applicants.")
        yield line


@dataclass(frozen=True, slots=True)
class Cells:
    """The lines of a CSV, each split into cells, and the delimiter between cells."""

    lines: Iterator[list[str]]
    """The lines that are not empty; the first is the heading."""
    delimiter: str


def table_lines(text: Iterable[str]) -> Cells:
    """The cells of the CSV `text`. Iterating over its lines raises `csv.Error` where the CSV has an error of form.

    A quotation mark that is never closed is such an error.
    """
    lines, delimiter = lines_and_delimiter(text)
    return Cells(filter(None, csv.reader(lines, delimiter=delimiter, strict=True)), delimiter)


def count_and_mark(cells: Cells, features: Iterable[Feature]) -> tuple[int, str]:
    """Number of records in a table, and the decimal mark of its numbers: a point or a comma.

    Raises
    ------
    ValueError : the numbers can be read with either decimal mark, or some need one mark and others the other
    """
    columns, seen, count = next(cells.lines, []), DecimalMark(), 0
    names = {feature.name for feature in features if feature.is_number}
    at = [j for j, name in enumerate(columns) if name in names]
    for row in cells.lines:
        count += 1
        seen.see([row[j] for j in at if j < len(row)])
    mark = seen.of(cells.delimiter)
    if mark is None:
        raise ValueError(f'has "{seen.either}", which is read two ways; write numbers without groups of digits')
    return count, mark


def table_records(lines: Iterator[list[str]]) -> Iterator[Json]:
    """The lines below the heading, each as a record with the cells by name of the column.

    Cells beyond the last column are in a list under `UNNAMED`.
    """
    columns = next(lines, [])
    for cells in lines:
        record = dict(zip(columns, cells, strict=False))
        yield record if len(cells) <= len(columns) else {**record, UNNAMED: cells[len(columns) :]}


def fault_of_heading(columns: Sequence[str], features: Iterable[Feature]) -> str:
    """The end of a sentence that says which columns occur twice or are missing; empty if the heading has no fault."""
    if twice := sorted(name for name, count in Counter(columns).items() if count > 1):
        return f"has these columns twice: {', '.join(twice)}."
    missing = _missing(columns, features)
    return f"lacks these columns, which the model needs: {', '.join(missing)}." if missing else ""


def _missing(columns: Sequence[str], features: Iterable[Feature]) -> list[str]:
    return [feature.name for feature in features if feature.derived is None and feature.name not in columns]


class Reader:
    """Converts records, which have texts or values by name of the column, to rows of a batch.

    The column `reference` has the client's own name for the applicant, unless a feature is called `reference`. Other
    columns that are not features are ignored.

    Parameters
    ----------
    mark : decimal mark of the table
    row : what a row is validated as
    groups : columns that become the `groups` of a row, which must know these
    """

    def __init__(
        self, features: Iterable[Feature], mark: str = ".", row: type[BatchRow] = BatchRow, groups: Sequence[str] = ()
    ) -> None:
        self._features = {feature.name: feature for feature in features}
        self._mark = mark
        self._row, self._groups = row, groups

    def row(self, record: Json) -> Json:
        """The row of a batch for a record.

        An empty cell is null if the feature may be missing; otherwise the cell is left out.
        """
        known = {*self._features, "reference", UNNAMED}
        cells = {name: None if value == "" or value != value else value for name, value in record.items()}
        kept = {name for name, feature in self._features.items() if feature.missing and feature.derived is None}
        cells = {name: value for name, value in cells.items() if name in known and (value is not None or name in kept)}
        reference = None if "reference" in self._features else cells.pop("reference", None)
        applicant = {name: self._value(name, value) for name, value in cells.items()}
        sent = {"applicant": applicant, "reference": None if reference is None else str(reference)}
        if self._groups:
            sent["groups"] = {name: str(record[name]) for name in self._groups if record.get(name) not in (None, "")}
        return to_row(sent, self._row)

    def _value(self, name: str, value: Any) -> Any:
        """A text, or what a table of a database has, as a value of the feature; others stay, and are refused later."""
        feature = self._features.get(name)
        if feature is None:
            return value
        if not isinstance(value, str):
            return _of_database(feature, value)
        try:
            return read_cell(feature, value, self._mark)
        except ValueError:
            return value


def _of_database(feature: Feature, value: Any) -> Any:
    """A decimal as a number, and a number that is the code of a level as this level."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value
    if feature.is_number:
        return float(value) if isinstance(value, Decimal) else value
    code = str(int(value)) if value % 1 == 0 else str(value)
    return code if code in feature.levels else value


@contextmanager
def _readable() -> Iterator[None]:
    """Turns the errors of reading a table into refusals."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The table is not in UTF-8: {error.reason}.") from None
    except csv.Error as error:
        raise InvalidRequest(f"The table is not CSV: {error}.") from None


class CsvTable:
    """A CSV that a client has sent: in UTF-8, with a heading that names the columns.

    Raises
    ------
    InvalidRequest : the file is not such a table, has too many columns, or lacks one that the model or a group needs
    """

    def __init__(
        self, file: IO[bytes], features: Iterable[Feature], most_rows: int = sys.maxsize, *,
        row: type[BatchRow] = BatchRow, groups: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._most_lines = min(most_rows, sys.maxsize - 2) + 2  # the heading, and one that is too many
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        self._features = tuple(features)
        self._row, self._groups = row, groups
        self._require(next(self._read().lines, None))
        try:
            self.count, self._mark = count_and_mark(self._read(), self._features)
        except ValueError as error:
            raise InvalidRequest(f"The table {error}.") from None

    def rows(self) -> Iterator[Json]:
        """The records as rows of a batch; they can be read only once.

        There are at most `most_rows` + 1 of them, so that the caller can see that there are too many.
        """
        reader = Reader(self._features, self._mark, self._row, self._groups)
        return map(reader.row, table_records(self._read().lines))

    def _read(self) -> Cells:
        self._text.seek(0)
        with _readable():
            cells = table_lines(timely(self._text))
        return Cells(islice(self._lines(cells), self._most_lines), cells.delimiter)

    @staticmethod
    def _lines(cells: Cells) -> Iterator[list[str]]:
        with _readable():
            yield from cells.lines

    def _require(self, columns: list[str] | None) -> None:
        if len(columns or []) > MOST_COLUMNS:
            raise InvalidRequest(f"The table has {len(columns or []):,} columns; at most {MOST_COLUMNS:,} are read.")
        if fault := fault_of_heading(columns or [], self._features):
            # Where the faults of a row would be.
            missing = _missing(columns or [], self._features)
            faults = [Fault(f"/applicant/{escape(name)}", "is missing") for name in missing]
            raise InvalidRequest(f"The table {fault}", faults=faults)
        if absent := [name for name in self._groups if name not in (columns or [])]:
            raise InvalidRequest(f"The table has no column of this name to group by: {', '.join(absent)}.")


def as_texts(cells: Json) -> Json:
    """The cells of a row, with an apostrophe before each text that a spreadsheet would compute.

    Numbers stay unchanged.
    """
    computed = ("=", "+", "-", "@", "\t", "\r")
    return {
        name: f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(computed) else cell
        for name, cell in cells.items()
    }
