"""Records of a table as the rows of a batch."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import IO, Any

from app.api.schemas.batch import to_row
from app.compute.answers import Json
from app.errors import Fault, InvalidRequest
from app.recourse.features import Feature, escape, number_of_text

UNNAMED = "(without a heading)"
"""Name for the cells beyond the last column; such a row is refused."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What programs write in place of commas."""


def table_lines(text: Iterable[str]) -> Iterator[list[str]]:
    """The lines of a CSV that are not empty, as cells. Raises csv.Error, also where a quote has no end."""
    return filter(None, csv.reader(text, strict=True))


def table_records(lines: Iterator[list[str]]) -> Iterator[Json]:
    """The lines below the heading as records; cells beyond the last column are under `UNNAMED`."""
    columns = next(lines, [])
    for cells in lines:
        record = dict(zip(columns, cells, strict=False))
        yield record if len(cells) <= len(columns) else {**record, UNNAMED: cells[len(columns) :]}


def fault_of_heading(columns: Sequence[str], features: Iterable[Feature]) -> str:
    """What is wrong with the columns of a table, as the end of a sentence; empty if nothing is."""
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        return f"has these columns twice: {', '.join(twice)}."
    missing = _missing(columns, features)
    for separator, name in SEPARATORS.items():
        if missing and len(columns) == 1 and separator in columns[0]:
            return f"has {name} between its cells; write commas, and points in decimal numbers."
    return f"lacks these columns, which the model needs: {', '.join(missing)}." if missing else ""


def _missing(columns: Sequence[str], features: Iterable[Feature]) -> list[str]:
    return [feature.name for feature in features if feature.derived is None and feature.name not in columns]


class Reader:
    """Turns flat records, of texts or values, into rows; `reference` is a feature only where the model has it.

    Other columns are ignored.
    """

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features = {feature.name: feature for feature in features}

    def row(self, record: Json) -> Json:
        """The row of a record. An empty cell is a missing value where the feature may be missing, else no value."""
        known = {*self._features, "reference", UNNAMED}
        cells = {name: None if value == "" or value != value else value for name, value in record.items()}
        kept = {name for name, feature in self._features.items() if feature.missing and feature.derived is None}
        cells = {name: value for name, value in cells.items() if name in known and (value is not None or name in kept)}
        reference = None if "reference" in self._features else cells.pop("reference", None)
        applicant = {name: self._value(name, value) for name, value in cells.items()}
        return to_row({"applicant": applicant, "reference": None if reference is None else str(reference)})

    def _value(self, name: str, value: Any) -> Any:
        """A text, or what a table of a database has, as a value of the feature; others stay, and are refused later."""
        feature = self._features.get(name)
        if feature is None:
            return value
        if not isinstance(value, str):
            return _of_database(feature, value)
        if feature.is_number:
            try:
                return number_of_text(value)
            except ValueError:
                return value
        truths = {str(level).lower(): level for level in feature.levels if isinstance(level, bool)}
        return truths.get(value.lower(), value)


def _of_database(feature: Feature, value: Any) -> Any:
    """A decimal as a number, and a number that is the code of a level as this level."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value
    if feature.is_number:
        return float(value) if isinstance(value, Decimal) else value
    code = str(int(value)) if value % 1 == 0 else str(value)
    return code if code in feature.levels else value


class CsvTable:
    """A table in CSV that was sent: UTF-8, with a heading for each column.

    Raises
    ------
    InvalidRequest : it is not such a table, or lacks a column that the model needs
    """

    def __init__(self, file: IO[bytes], features: Iterable[Feature]) -> None:
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        self._features = tuple(features)
        found = self._read()
        self._require(next(found, None))
        self.count = sum(1 for _ in found)
        """Number of records."""

    def rows(self) -> Iterator[Json]:
        """The records, once."""
        return map(Reader(self._features).row, table_records(self._read()))

    def _read(self) -> Iterator[list[str]]:
        """The lines that are not empty, as cells."""
        self._text.seek(0)
        try:
            yield from table_lines(self._text)
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"The table is not in UTF-8: {error.reason}.") from None
        except csv.Error as error:
            raise InvalidRequest(f"The table is not CSV: {error}.") from None

    def _require(self, columns: list[str] | None) -> None:
        if fault := fault_of_heading(columns or [], self._features):
            # Where the faults of a row would be.
            missing = _missing(columns or [], self._features)
            faults = [Fault(f"/applicant/{escape(name)}", "is missing") for name in missing]
            raise InvalidRequest(f"The table {fault}", faults=faults)
