"""The lender's table of records: a CSV with a header, or Parquet."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.features import written
from app.registry.files import require_regular
from app.registry.reference import read_table

LEAST = 2
"""Fewest records of a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A table of records: for each column, the cells as texts. The text is empty where a value is absent."""

    columns: dict[str, list[str]]
    file: str
    lines: Sequence[int] = ()
    """Line of the file in which each record ends; none of Parquet."""
    delimiter: str = ","
    """What stands between the cells of the file."""

    @property
    def count(self) -> int:
        """Number of records."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str, what: str) -> list[str]:
        """The cells of a column, as texts.

        Raises `ModelRefused` where there is no such column; its message says for what (`what`) the column is needed.
        """
        if name not in self.columns:
            raise ModelRefused(f'{self.file} has no column "{name}" for {what}; it has {", ".join(self.columns)}')
        return self.columns[name]

    def of(self, rows: list[int]) -> "Records":
        """The records with the indices `rows`, in the order of `rows`."""
        columns = {name: [texts[i] for i in rows] for name, texts in self.columns.items()}
        return replace(self, columns=columns, lines=[self.lines[i] for i in rows] if self.lines else ())

    def place(self, record: int) -> str:
        """The place of the record with index `record` in its file, in words such as "line 3 of loans.csv"."""
        return f"line {self.lines[record]} of {self.file}" if self.lines else f"record {record} of {self.file}"


def read_records(path: Path) -> Records:
    """The records in a CSV or Parquet file.

    Raises `ModelRefused` where the file cannot be read or has no header, where two columns have one name, or where rows
    have different lengths.
    """
    try:
        require_regular(path)
        if path.suffix in (".parquet", ".pq"):
            return _parquet(path)
        table = read_table(path, as_written=True)
    except csv.Error as error:
        raise ModelRefused(f"{path} is no CSV that can be split into cells: {error}") from error
    except UnicodeDecodeError as error:
        raise ModelRefused(f"{path} is not a text in UTF-8: save it as CSV in UTF-8, or as .parquet") from error
    except OSError as error:
        raise ModelRefused(f"{path} cannot be read: {error.strerror}") from error
    names = table.header
    _require_once(path, names)
    if len(table.rows) < LEAST:
        raise ModelRefused(f"{path} has {len(table.rows)} records below its header; at least {LEAST} are needed")
    if wrong := [line for line, row in zip(table.lines, table.rows, strict=True) if len(row) != len(names)]:
        raise ModelRefused(
            f"{path} has {len(names)} names in its header, but another number of cells in {len(wrong)} lines, "
            f"the first of them line {wrong[0]}"
        )
    if all(written(name) is not None for name in names):
        raise ModelRefused(f"{path} has no header: its first line must be the names of the columns")
    columns = {name: list(table.texts(name)) for name in names}
    return Records(columns=columns, file=path.name, lines=table.lines, delimiter=table.delimiter)


def _require_once(path: Path, names: list[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ModelRefused(f'{path} has the column "{repeated[0]}" more than once')


def _parquet(path: Path) -> Records:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ModelRefused("Parquet files need pyarrow: pip install pyarrow, or save it as CSV") from None
    try:
        # Of the schema, as a table with a column twice cannot be read.
        _require_once(path, pyarrow.parquet.read_schema(path).names)
        table = pyarrow.parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise ModelRefused(f"{path} is not a Parquet file, or cut off") from error
    if table.num_rows < LEAST:
        raise ModelRefused(f"{path} has {table.num_rows} records; at least {LEAST} are needed")
    columns = {name: _texts(table.column(name)) for name in table.column_names}
    return Records(columns=columns, file=path.name)


def _texts(column: Any) -> list[str]:
    """The values of a column of Arrow."""
    values = column.to_pylist()
    if str(column.type) == "float":  # of single precision: 0.1 is not 0.10000000149011612
        values = [value if value is None or value != value else np.float32(value) for value in values]
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
