"""The chunks of batches in the database: what is asked, and, once it is computed, one line of JSON for each row.

A chunk's lines are written once and never again, whoever computed it how often. Blocks; not for an event loop. Errors
are SQLAlchemy's `DBAPIError`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from app.errors import Erased, UnknownJob
from app.jobs.answer import Json
from app.jobs.batch import refused

CHUNK = 100
"""Rows of one chunk: a second or less of work that is done again after a crash."""

LAST = 50
"""Rows of the chunks at the end of a batch, so that those who compute it come to the end together."""

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
    """Empty once nothing is left to do."""
    lines: list[str] | None
    """The results, without the ends of their lines; None until they are computed."""


class Chunks:
    """The chunks of all batches of one database; safe to use from several threads, processes and machines."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def create(self) -> None:
        """Make the table, if that has not been done."""
        _metadata.create_all(self._engine)

    def add(self, job: str, rows: Iterable[Json]) -> int:
        """Store the rows of a batch, all or none, with a few chunks in memory at a time; how many chunks there are.

        A batch that has rows keeps them: whoever began before with the same id stored the same.
        """
        if stored := self.count(job):
            return stored
        count = 0
        with self._engine.begin() as connection:
            for part in _parts(rows):
                values = {"job": job, "number": count, "size": len(part), "rows": _text(part)}
                connection.execute(sa.insert(_chunks).values(values))
                count += 1
        return count

    def take(self, job: str, number: int) -> Chunk:
        """A chunk to compute."""
        with self._engine.connect() as connection:
            found = connection.execute(sa.select(_chunks.c.rows, _chunks.c.lines).where(_is(job, number))).one()
            before = sa.select(sa.func.sum(_chunks.c.size)).where(_chunks.c.job == job, _chunks.c.number < number)
            first = connection.scalar(before) or 0
        lines = None if found.lines is None else _split(found.lines)
        return Chunk(first=first, rows=json.loads(found.rows), lines=lines)

    def store(self, job: str, number: int, lines: list[str]) -> list[str]:
        """Write the results of a chunk, unless it has some; those that it has now."""
        values = {"lines": "".join(f"{line}\n" for line in lines)}
        with self._engine.begin() as connection:
            empty = sa.update(_chunks).where(_is(job, number), _chunks.c.lines.is_(None))
            stored = connection.execute(empty.values(values)).rowcount
        # Whoever stored first has decided.
        return lines if stored else _split(self.lines(job, number))

    def finish(self, job: str, number: int) -> None:
        """Drop the rows of a chunk with which nothing is left to do."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(_chunks).where(_is(job, number)).values(rows=_text([])))

    def lines(self, job: str, number: int) -> str:
        """The results of a chunk that has been computed, each line with its end. Raises `UnknownJob` if it is gone."""
        with self._engine.connect() as connection:
            found: str | None = connection.scalar(sa.select(_chunks.c.lines).where(_is(job, number)))
        if found is None:
            raise UnknownJob(f"There is no job {job}.")
        return found

    def progress(self, jobs: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Of each of these batches: how many rows have results, and of how many."""
        done = sa.func.sum(sa.case((_chunks.c.lines.is_not(None), _chunks.c.size), else_=0))
        query = sa.select(_chunks.c.job, done, sa.func.sum(_chunks.c.size)).group_by(_chunks.c.job)
        with self._engine.connect() as connection:
            return {job: (done, total) for job, done, total in connection.execute(query.where(_chunks.c.job.in_(jobs)))}

    def count(self, job: str) -> int:
        """How many chunks a batch has."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).where(_chunks.c.job == job)) or 0

    def erase(self, job: str, recourse_id: str) -> bool:
        """Put what erased answers have in place of the line with this id, and of its row where that is still there.

        Gives whether the job is a batch at all.
        """
        mark = _mark(recourse_id)
        found = _chunks.c.job == job, _chunks.c.lines.contains(mark)
        query = sa.select(_chunks.c.number, _chunks.c.rows, _chunks.c.lines).where(*found)
        # Nobody else may write between the look and the change, or what they have erased would come back.
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            for number, rows, lines in connection.execute(query.with_for_update()).all():
                told, asked = _split(lines), json.loads(rows)
                for i, line in enumerate(told):
                    if mark in line:
                        told[i] = refused({}, Erased())
                        # A chunk that is not finished, as of a cancelled batch, still has its rows.
                        if asked:
                            asked[i] = {"refused": Erased().to_dict()}
                values = {"lines": "".join(f"{line}\n" for line in told), "rows": _text(asked)}
                connection.execute(sa.update(_chunks).where(_is(job, number)).values(values))
        return self.count(job) > 0

    def holding(self, recourse_id: str) -> list[str]:
        """The batches with a line that has this id; looks at every line there is."""
        query = sa.select(_chunks.c.job).where(_chunks.c.lines.contains(_mark(recourse_id))).distinct()
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

    def delete_lost(self, jobs: sa.ScalarSelect[str], before: str) -> int:
        """Forget batches that are none of `jobs`, of ids before `before`; how many chunks those had."""
        lost = _chunks.c.job.not_in(jobs) & (_chunks.c.job < before)
        with self._engine.begin() as connection:
            return connection.execute(sa.delete(_chunks).where(lost)).rowcount

    def delete(self, jobs: Sequence[str]) -> None:
        """Forget all about these batches."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_chunks).where(_chunks.c.job.in_(jobs)))


def _parts(rows: Iterable[Json]) -> Iterator[list[Json]]:
    """The rows in chunks."""
    coming = iter(rows)
    held = list(islice(coming, 2 * CHUNK))
    while more := list(islice(coming, CHUNK)):
        yield held[:CHUNK]
        held = held[CHUNK:] + more
    for start in range(0, len(held), LAST):
        yield held[start : start + LAST]


def _mark(recourse_id: str) -> str:
    """What is in the line of an answer, and in no other."""
    return f'"id":"{recourse_id}"'


def _is(job: str, number: int) -> sa.ColumnElement[bool]:
    return (_chunks.c.job == job) & (_chunks.c.number == number)


def _text(rows: Sequence[Json]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _split(text: str) -> list[str]:
    # Not `splitlines`, which knows more ends of lines than JSON escapes.
    return text.removesuffix("\n").split("\n")
