"""Records of a table as the rows of a batch."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import IO, Any

from app.api.schemas.batch import to_row
from app.compute.answers import Json
from app.errors import InvalidRequest
from app.recourse.features import Feature, number_of_text

UNNAMED = "(without a heading)"
"""Name for the cells beyond the last column; such a row is refused."""


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
        """A text as a value of the feature; a text that cannot be read stays one, and is refused later."""
        feature = self._features.get(name)
        if feature is None or not isinstance(value, str):
            return value
        if feature.is_number:
            try:
                return number_of_text(value)
            except ValueError:
                return value
        truths = {str(level).lower(): level for level in feature.levels if isinstance(level, bool)}
        return truths.get(value.lower(), value)


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
        reader, found = Reader(self._features), self._read()
        columns = next(found)
        for cells in found:
            record = dict(zip(columns, cells, strict=False))
            yield reader.row(record if len(cells) <= len(columns) else {**record, UNNAMED: cells[len(columns) :]})

    def _read(self) -> Iterator[list[str]]:
        """The lines that are not empty, as cells."""
        self._text.seek(0)
        try:
            yield from filter(None, csv.reader(self._text, strict=True))
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"The table is not in UTF-8: {error.reason}.") from None
        except csv.Error as error:
            raise InvalidRequest(f"The table is not CSV: {error}.") from None

    def _require(self, columns: list[str] | None) -> None:
        names = columns or []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRequest(f"The table has these columns twice: {', '.join(twice)}.")
        needed = (feature.name for feature in self._features if feature.derived is None)
        if missing := [name for name in needed if name not in names]:
            raise InvalidRequest(f"The table lacks these columns, which the model needs: {', '.join(missing)}.")
