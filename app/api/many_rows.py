"""Bodies with many applicants: one JSON text, lines of JSON, or a table."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from fastapi import Request
from pydantic import BaseModel

from app.api.bodies import CSV, JSON, NDJSON, media_type, read_json, require_plain, spooled, validated
from app.api.table_rows import CsvTable, timely
from app.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from app.pool.turns import caller
from app.questions.answers import Json
from app.questions.batch_schema import BatchRow, line_to_row
from app.recourse.features import Feature

LARGEST_WHOLE = 5_000_000
"""Bytes of one JSON text with many applicants, which is read as a whole; lines are read one by one."""

OF_TABLES = "Of `text/csv`:"
"""Begins the descriptions of query parameters."""

Common = TypeVar("Common", bound=BaseModel)
"""What the applicants have in common."""


@dataclass(frozen=True, kw_only=True)
class ManyRows(Generic[Common]):
    """How a route reads bodies with many applicants.

    Parameters
    ----------
    whole : returns what the applicants have in common, and their rows, of one JSON value; None where it names others
    common : the first line of lines of JSON, and the query of a table
    row : each of the other lines
    features : returns the features of a table
    groups : returns the names of further columns of a table
    """

    whole: Callable[[Any], tuple[Common, Iterable[Json] | None]]
    common: type[Common]
    row: type[BatchRow]
    features: Callable[[Common], Iterable[Feature]]
    groups: Callable[[Common], Sequence[str]] = lambda _: ()

    @asynccontextmanager
    async def read(
        self, request: Request, query: Mapping[str, Any], most_rows: int
    ) -> AsyncIterator[tuple[Common, Iterable[Json] | None]]:
        """What the applicants of a request have in common, and their rows, to be read in the context and only once.

        Parameters
        ----------
        query : what the applicants of a table have in common

        Raises
        ------
        UnsupportedMediaType, MalformedJson, InvalidRequest, BodyTooLarge : the body cannot be read
        """
        kind = media_type(request.headers)
        if kind not in (JSON, NDJSON, CSV):
            raise UnsupportedMediaType(f"The body of this request must be {JSON}, {NDJSON} or {CSV}.")
        require_plain(request)
        if kind != CSV and request.query_params:
            raise InvalidRequest(f"Query parameters are for {CSV}; this body says what the applicants have in common.")
        body = await request.body() if kind == JSON else await spooled(request)

        def read() -> tuple[Common, Iterable[Json] | None]:
            if isinstance(body, bytes):
                return self.whole(read_json(body))
            return self._table(body, query, most_rows) if kind == CSV else self._lines(body, most_rows)

        batches: WeakValueDictionary[str, asyncio.Lock] = request.app.state.batches
        # One body of a caller at a time, since its values take far more memory than its text.
        async with batches.setdefault(caller.get(), asyncio.Lock()):
            # In a thread: a large body takes seconds.
            yield await asyncio.to_thread(read)

    def _lines(self, file: IO[bytes], most_rows: int) -> tuple[Common, Iterable[Json]]:
        common = validated(self.common, read_json(file.readline()))
        rows_at = file.tell()
        count = sum(1 for _ in islice(_filled(file), most_rows + 1))
        refuse_many(count, most_rows)
        if not count:
            raise InvalidRequest("The first line must be followed by a line for each applicant.")
        file.seek(rows_at)
        return common, (line_to_row(line, self.row) for line in _filled(file))

    def _table(
        self, spooled_file: IO[bytes], query: Mapping[str, Any], most_rows: int
    ) -> tuple[Common, Iterable[Json]]:
        common = validated(self.common, {name: value for name, value in query.items() if value is not None})
        # A view of the file, since the reader of its text closes what it reads.
        file = io.BufferedReader(io.FileIO(spooled_file.fileno(), closefd=False))
        table = CsvTable(file, self.features(common), most_rows, row=self.row, groups=self.groups(common))
        refuse_many(table.count, most_rows)
        if not table.count:
            raise InvalidRequest("The headings must be followed by a line for each applicant.")
        return common, table.rows()


def limits(max_bytes: int) -> dict[tuple[str, str], int]:
    """The largest body with many applicants, in bytes, by the end of the path and the media type of the request."""
    return {
        **{(end, kind): max_bytes for end in ("/batch", "/comparisons", "/reports") for kind in (NDJSON, CSV)},
        ("/batch", JSON): min(max_bytes, LARGEST_WHOLE),
    }


def refuse_many(rows: int, most_rows: int) -> None:
    """Raise `BodyTooLarge` where there are more rows than one request may have."""
    if rows > most_rows:
        raise BodyTooLarge(f"A request must not have more than {most_rows:,} applicants.")


def _filled(file: IO[bytes]) -> Iterator[bytes]:
    """The lines that are not empty."""
    return filter(None, map(bytes.strip, timely(file)))
