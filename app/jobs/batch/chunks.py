"""The chunks of batches in the database: their rows and, once computed, one line of JSON for each row.

The lines of a chunk are written once, however often it is computed. Blocks; not for an event loop. Errors
are SQLAlchemy's `DBAPIError`.
"""

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from app.compute.answers import Json
from app.errors import Erased, UnknownJob
from app.jobs.batch.lines import GROUP, refused

CHUNK = 240
"""Most rows of one chunk: about a second of work to repeat after a crash. A chunk costs up to 30 ms of its own,
which is little beside so many rows."""

LEAST = 40
"""Least rows of a chunk that is not the last: as long as a worker takes to look for the next one."""

SHARES = 4
"""Chunks into which the rows that are left are split for each child."""

_metadata = sa.MetaData()

_chunks = sa.Table(
    "batch_chunks",
    _metadata,
    sa.Column("job", sa.String(40), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("rows", sa.Text, nullable=False),
    sa.Column("lines", sa.Text),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some consecutive rows of a batch."""

    first: int
    """Position of its first row in the batch."""
    rows: list[Json]
    """Empty once the chunk is finished."""
    lines: list[str] | None
    """The results, without line ends; None until they are computed."""


class Chunks:
    """The chunks of all batches of one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def create(self) -> None:
        """Create the table, if it does not exist."""
        _metadata.create_all(self._engine)

    def add(self, job: str, rows: Iterable[Json], *, children: int = 1) -> int:
        """Store the rows of a batch, all or none, and return the number of chunks; in memory they are compressed.

        A batch that has rows keeps them: an earlier attempt with the same id stored the same rows.

        Parameters
        ----------
        children : how many are expected to compute the chunks
        """
        if stored := self.count(job):
            return stored
        # Before the transaction: nobody else can write to SQLite until it ends, and parsing takes seconds.
        parts = [(len(part), _compressed(part)) for part in _parts(map(_text, rows), SHARES * children)]
        with self._engine.begin() as connection:
            for number, (size, text) in enumerate(parts):
                values = {"job": job, "number": number, "size": size, "rows": zlib.decompress(text).decode()}
                connection.execute(sa.insert(_chunks).values(values))
        return len(parts)

    def take(self, job: str, number: int) -> Chunk:
        """A chunk to compute."""
        with self._engine.connect() as connection:
            found = connection.execute(sa.select(_chunks.c.rows, _chunks.c.lines).where(_is(job, number))).one()
            before = sa.select(sa.func.sum(_chunks.c.size)).where(_chunks.c.job == job, _chunks.c.number < number)
            first = connection.scalar(before) or 0
        lines = None if found.lines is None else _split(found.lines)
        return Chunk(first=first, rows=json.loads(found.rows), lines=lines)

    def store(self, job: str, number: int, lines: list[str]) -> list[str]:
        """Write the results of a chunk, unless it has results; returns those that are stored."""
        values = {"lines": "".join(f"{line}\n" for line in lines)}
        with self._engine.begin() as connection:
            empty = sa.update(_chunks).where(_is(job, number), _chunks.c.lines.is_(None))
            stored = connection.execute(empty.values(values)).rowcount
        # The first results stored are final.
        return lines if stored else _split(self.lines(job, number))

    def finish(self, job: str, number: int) -> None:
        """Delete the rows of a chunk whose results are stored and recorded."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(_chunks).where(_is(job, number)).values(rows=_joined([])))

    def lines(self, job: str, number: int) -> str:
        """The results of a computed chunk, each line with its end. Raises `UnknownJob` if the chunk was deleted."""
        with self._engine.connect() as connection:
            found: str | None = connection.scalar(sa.select(_chunks.c.lines).where(_is(job, number)))
        if found is None:
            raise UnknownJob(f"There is no job {job}.")
        return found

    def progress(self, jobs: Sequence[str]) -> dict[str, tuple[int, int]]:
        """For each batch: the number of rows with results, and of all rows."""
        done = sa.func.sum(sa.case((_chunks.c.lines.is_not(None), _chunks.c.size), else_=0))
        query = sa.select(_chunks.c.job, done, sa.func.sum(_chunks.c.size)).group_by(_chunks.c.job)
        with self._engine.connect() as connection:
            return {job: (done, total) for job, done, total in connection.execute(query.where(_chunks.c.job.in_(jobs)))}

    def count(self, job: str) -> int:
        """Number of chunks of a batch."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).where(_chunks.c.job == job)) or 0

    def erase(self, job: str, recourse_id: str) -> bool:
        """Replace the line with this id, and its row if still stored, by an `Erased` refusal.

        False if the job is not a batch.
        """
        mark = _mark(recourse_id)
        found = _chunks.c.job == job, _chunks.c.lines.contains(mark)
        query = sa.select(_chunks.c.number, _chunks.c.rows, _chunks.c.lines).where(*found)
        # No other writer may come between read and update, or its erasures would be undone.
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            for number, rows, lines in connection.execute(query.with_for_update()).all():
                results, sources = _split(lines), json.loads(rows)
                for i, line in enumerate(results):
                    if mark in line:
                        results[i] = refused({}, Erased())
                        # An unfinished chunk, such as one of a cancelled batch, still has its rows.
                        if sources:
                            sources[i] = {"refused": Erased().to_dict()}
                values = {"lines": "".join(f"{line}\n" for line in results), "rows": _joined(map(_text, sources))}
                connection.execute(sa.update(_chunks).where(_is(job, number)).values(values))
        return self.count(job) > 0

    def holding(self, recourse_id: str) -> list[str]:
        """The batches with a line that has this id; reads every line stored."""
        query = sa.select(_chunks.c.job).where(_chunks.c.lines.contains(_mark(recourse_id))).distinct()
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

    def delete_lost(self, jobs: sa.ScalarSelect[str], before: str) -> int:
        """Delete batches that are not among `jobs`, with ids before `before`; returns the number of their chunks."""
        lost = _chunks.c.job.not_in(jobs) & (_chunks.c.job < before)
        with self._engine.begin() as connection:
            return connection.execute(sa.delete(_chunks).where(lost)).rowcount

    def delete(self, jobs: Sequence[str]) -> None:
        """Delete these batches. Idempotent."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_chunks).where(_chunks.c.job.in_(jobs)))


def _parts(rows: Iterable[str], shares: int) -> Iterator[list[str]]:
    """The rows in chunks that become smaller towards the end, so that all children finish at about the same time.

    Each chunk is one of so many `shares` of the rows that are left.
    """
    coming = iter(rows)
    # Where there are more than these, a share is more than a chunk.
    held = list(islice(coming, shares * CHUNK))
    while more := list(islice(coming, CHUNK)):
        yield held[:CHUNK]
        held = held[CHUNK:] + more
    while held:
        size = min(max(LEAST, GROUP * math.ceil(len(held) / (shares * GROUP))), CHUNK)
        yield held[:size]
        held = held[size:]


def _mark(recourse_id: str) -> str:
    """Text that only the line of this answer contains."""
    return f'"id":"{recourse_id}"'


def _is(job: str, number: int) -> sa.ColumnElement[bool]:
    return (_chunks.c.job == job) & (_chunks.c.number == number)


def _text(row: Json) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _joined(rows: Iterable[str]) -> str:
    return f"[{','.join(rows)}]"


def _compressed(rows: Iterable[str]) -> bytes:
    return zlib.compress(_joined(rows).encode(), level=1)


def _split(text: str) -> list[str]:
    # Not `splitlines`, which splits at more characters than JSON escapes.
    return text.removesuffix("\n").split("\n")
