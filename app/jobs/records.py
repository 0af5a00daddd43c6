"""The jobs in the database: submitted whole or not at all, each part stored once, ended once. Blocks.

Errors are SQLAlchemy's `DBAPIError`. Every method is one transaction; safe to use from several threads, processes and
machines.
"""

import json
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

import sqlalchemy as sa

from app.errors import Erased, NoRowAnswered, RecourseError, UnknownJob
from app.jobs.ids import first_id
from app.jobs.job import UNFINISHED, Job, JobStatus
from app.jobs.lines import GROUP, refused
from app.jobs.tables import jobs, parts
from app.questions.answers import Json
from app.store.engine import changing

CHUNK = 240
"""Most rows of one part: about a second of work to repeat after a crash. A part costs up to 30 ms of its own, which is
little beside so many rows."""

LEAST = 60
"""Least rows of a part that is not the last: as long as a worker takes to look for the next one."""

HEAD = 2000
"""What is read of a result without its long list: it ends well before."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHARES = 4
"""Parts into which the rows that are left are split for each child."""

Enqueue = Callable[[sa.Connection, str, int, str | None, bool], None]
"""In a transaction, puts a part into the queue: its job, its number, the key, whether it is a single job."""

COLUMNS = [column for column in jobs.c if column is not jobs.c.payload]

_open = jobs.c.status.in_([status.value for status in UNFINISHED])


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A unit of computation: some consecutive rows of a batch, or a single job."""

    job: str
    number: int
    kind: str
    payload: Json
    """What all parts have in common."""
    timeout_s: float | None
    """Time for a single job; None for a part of a batch."""
    first: int
    """Position of its first row in the batch."""
    rows: list[Json]
    lines: list[str] | None
    """The results, without line ends, where they are stored but not recorded."""
    attempts: int
    """How often it was begun, this time included."""


class Records:
    """The stored jobs of one database."""

    def __init__(self, engine: sa.Engine, enqueue: Enqueue) -> None:
        self._engine = engine
        self._enqueue = enqueue

    def submit(self, job: Json, rows: Iterable[Json] | None = None, *, children: int = 1, closed: bool = False) -> None:
        """Store a job and queue its parts; does nothing where an earlier attempt has stored a job with the same id.

        Parameters
        ----------
        job : columns of the job, apart from status, counts and times
        rows : rows of a batch, compressed in memory; None for a single job
        children : number of child processes that are expected to compute the rows
        closed : whether a last part runs after all others; its input is their lines of output, in place of rows
        """
        if self.load([job["id"]]):
            return
        # Before the transaction: nobody else can write to SQLite until it ends, and parsing takes seconds.
        made = [(1, _compressed([]))] if rows is None else list(_compressed_parts(rows, children))
        made += [(0, _compressed([]))] if closed else []
        now, total = _now_ms(), sum(size for size, _ in made)
        counts = {"parts": len(made), "remaining": len(made), "done": 0, "total": total, "refused": 0}
        with changing(self._engine) as connection:
            row = {
                **job,
                **counts,
                "status": JobStatus.QUEUED.value,
                "payload": json.dumps(job["payload"]),
                "created_at": now,
            }
            connection.execute(sa.insert(jobs).values(row))
            first = 0
            for number, (size, text) in enumerate(made):
                part = {"job": job["id"], "number": number, "first": first, "size": size, "attempts": 0}
                connection.execute(sa.insert(parts).values({**part, "rows": zlib.decompress(text).decode()}))
                # The last part of a closed job waits for the others, unless there are none.
                if size or not total:
                    self._enqueue(connection, job["id"], number, job["key"], rows is None)
                first += size

    # --- a part that is computed ---

    def take(self, job: str, number: int) -> Part | None:
        """Count one more attempt at a part, and return the part; None if the part need not be computed any more."""
        needed = sa.select(parts, jobs.c.kind, jobs.c.payload, jobs.c.timeout_s).join(jobs, jobs.c.id == parts.c.job)
        with changing(self._engine) as connection:
            row = connection.execute(needed.where(_is(job, number), parts.c.rows.is_not(None), _open)).one_or_none()
            if row is None:
                return None
            attempts = row.attempts + 1
            connection.execute(sa.update(parts).where(_is(job, number)).values(attempts=attempts))
            # A batch has begun with its first part.
            begun = (
                (jobs.c.id == job) & ((jobs.c.status == JobStatus.QUEUED.value) | jobs.c.timeout_s.is_not(None)) & _open
            )
            values = {"status": JobStatus.RUNNING.value, "started_at": _now_ms()}
            connection.execute(sa.update(jobs).where(begun).values(values))
        return Part(
            job=job,
            number=number,
            kind=row.kind,
            payload=json.loads(row.payload),
            timeout_s=row.timeout_s,
            first=row.first,
            rows=json.loads(row.rows),
            lines=None if row.lines is None else split(row.lines),
            attempts=attempts,
        )

    def put_back(self, job: str, number: int) -> None:
        """Take back the count of the last attempt at a part, because the attempt was stopped from outside."""
        with changing(self._engine) as connection:
            connection.execute(sa.update(parts).where(_is(job, number)).values(attempts=parts.c.attempts - 1))

    def store(self, job: str, number: int, lines: list[str]) -> list[str] | None:
        """Store the lines of a part unless lines are stored already, and return the lines that are stored.

        If the job has ended or was deleted meanwhile, stores nothing and returns None.
        """
        runs = sa.select(jobs.c.id).where(jobs.c.id == job, _open)
        empty = sa.update(parts).where(_is(job, number), parts.c.lines.is_(None), runs.exists())
        with changing(self._engine) as connection:
            if connection.execute(empty.values(lines=_text_of(lines))).rowcount:
                return lines
            # The first results stored are final.
            query = sa.select(parts.c.lines).where(_is(job, number), parts.c.lines.is_not(None), runs.exists())
            found: str | None = connection.scalar(query)
        return None if found is None else split(found)

    def finish(self, job: str, number: int, refused_rows: int = 0) -> Job | None:
        """Count a part as finished, once its lines are stored and recorded, and delete its rows.

        Returns the job if it has ended with this part, else None.

        Parameters
        ----------
        refused_rows : number of lines of the part that hold errors
        """
        with changing(self._engine) as connection:
            due = sa.update(parts).where(_is(job, number), parts.c.rows.is_not(None), parts.c.lines.is_not(None))
            size = connection.scalar(due.values(rows=None).returning(parts.c.size))
            if size is None:
                return None
            counts = {
                "remaining": jobs.c.remaining - 1,
                "done": sa.case((jobs.c.timeout_s.is_(None), jobs.c.done + size), else_=jobs.c.total),
                "refused": jobs.c.refused + refused_rows,
            }
            counted = sa.update(jobs).where(jobs.c.id == job, _open).values(counts)
            state = counted.returning(jobs.c.remaining, jobs.c.refused, jobs.c.total, jobs.c.parts, jobs.c.key)
            row = connection.execute(state).one_or_none()
            if row is None:
                return None
            if row.remaining:
                last = sa.select(parts.c.size).where(_is(job, row.parts - 1))
                if row.remaining == 1 and connection.scalar(last) == 0:
                    self._enqueue(connection, job, row.parts - 1, row.key, False)
                return None
            error = NoRowAnswered() if 0 < row.refused == row.total else None
            return _end(connection, job, JobStatus.FAILED if error else JobStatus.SUCCEEDED, error)

    def fail(self, job: str, error: RecourseError) -> Job | None:
        """End a job with an error, and return the job; None if the job had ended or was deleted."""
        with changing(self._engine) as connection:
            return _end(connection, job, JobStatus.FAILED, error)

    def cancel(self, job: str) -> Job | None:
        """Cancel a job, and return the job; None if the job had ended or was deleted."""
        with changing(self._engine) as connection:
            return _end(connection, job, JobStatus.CANCELLED)

    def note_progress(self, job: str, done: int, total: int) -> None:
        """Note that `done` of `total` steps of a single job are done."""
        with changing(self._engine) as connection:
            connection.execute(sa.update(jobs).where(jobs.c.id == job, _open).values(done=done, total=total))

    def unfinished_parts(self, job: str) -> list[int]:
        """Numbers of the parts of a job that are not finished."""
        with self._engine.connect() as connection:
            query = sa.select(parts.c.number).where(parts.c.job == job, parts.c.rows.is_not(None))
            return list(connection.scalars(query.order_by(parts.c.number)))

    # --- looking ---

    def load(self, job_ids: Collection[str]) -> list[Job]:
        """The jobs with the ids `job_ids`, newest first; deleted jobs are left out."""
        return self._jobs(jobs.c.id.in_(job_ids))

    def newest(
        self,
        limit: int,
        *,
        before: str | None = None,
        kind: str | None = None,
        status: str | None = None,
        model: str | None = None,
        version: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        key: str | None = None,
        models: Collection[str] | None = None,
    ) -> list[Job]:
        """At most `limit` jobs, newest first, that comply with every argument that is not None.

        Parameters
        ----------
        before : the ids of the jobs sort before this id
        since, until : the jobs were submitted at `since` or later, and before `until`
        key : id of the API key that submitted the jobs
        models : ids of models; the jobs are about one of these
        """
        equal = {
            jobs.c.kind: kind, jobs.c.status: status, jobs.c.model: model, jobs.c.version: version, jobs.c.key: key
        }  # fmt: skip
        where = [sa.true(), *(column == value for column, value in equal.items() if value is not None)]
        where += [] if before is None else [jobs.c.id < before]
        where += [] if models is None else [jobs.c.model.in_(models)]
        where += [] if since is None else [jobs.c.created_at >= _epoch_ms(since)]
        if until is not None:
            # An id is made before its job is stored; by ids the newest are found without looking at those after them.
            later = max(until, EPOCH) + timedelta(milliseconds=1)
            where += [jobs.c.created_at < _epoch_ms(until), jobs.c.id < first_id("job", later)]
        return self._jobs(*where, limit=limit)

    def heads(self, job_ids: Collection[str]) -> dict[str, str]:
        """By job id, the first `HEAD` characters of the job's result; jobs without a result are left out.

        Not for batches.
        """
        head = sa.func.substr(parts.c.lines, 1, HEAD)
        query = sa.select(parts.c.job, head).where(parts.c.job.in_(job_ids), parts.c.number == 0)
        with self._engine.connect() as connection:
            return {job: text for job, text in connection.execute(query) if text is not None}

    def about(self, about: str) -> list[Job]:
        """The jobs that were submitted with this `about`: the id of a recourse, or the name of a version of a model."""
        return self._jobs(jobs.c.about == about)

    def ended_before(self, moment: datetime, limit: int) -> list[Job]:
        """At most `limit` jobs that have ended and were submitted before `moment`."""
        return self._jobs(jobs.c.created_at < 1000.0 * moment.timestamp(), ~_open, limit=limit)

    def lines(self, job: str, number: int) -> str:
        """The lines of a computed part as one text, each with its line end. Raises `UnknownJob` for a deleted job."""
        with self._engine.connect() as connection:
            found: str | None = connection.scalar(sa.select(parts.c.lines).where(_is(job, number)))
        if found is None:
            raise UnknownJob(f"There is no job {job}.")
        return found

    def count_unfinished(self) -> Counter[tuple[str, str]]:
        """Number of jobs that have not ended, by kind and status."""
        query = sa.select(jobs.c.kind, jobs.c.status, sa.func.count()).where(_open)
        with self._engine.connect() as connection:
            rows = connection.execute(query.group_by(jobs.c.kind, jobs.c.status))
            return Counter({(kind, status): count for kind, status, count in rows})

    # --- deleting ---

    def holding(self, recourse_id: str) -> list[str]:
        """Ids of the jobs that hold data of one recourse: the jobs that computed the recourse, or belong to it.

        Reads every stored line of all batches.
        """
        marked = sa.select(parts.c.job).where(parts.c.lines.contains(_mark(recourse_id)))
        held = (jobs.c.about == recourse_id) | (jobs.c.timeout_s.is_(None) & jobs.c.id.in_(marked))
        return [job.id for job in self._jobs(held)]

    def erase(self, job: str, recourse_id: str) -> bool:
        """Replace the line of a recourse in a batch by the error `Erased`, and also its row if that is still stored.

        Returns whether the job is a batch; of another job, nothing is erased.
        """
        mark = _mark(recourse_id)
        query = sa.select(parts.c.number, parts.c.rows, parts.c.lines)
        query = query.where(parts.c.job == job, parts.c.lines.contains(mark))
        # No other writer may come between read and update, or its erasures would be undone.
        with changing(self._engine) as connection:
            if not connection.scalar(sa.select(jobs.c.id).where(jobs.c.id == job, jobs.c.timeout_s.is_(None))):
                return False
            for number, rows, lines in connection.execute(query.with_for_update()).all():
                results, sources = split(lines), rows and json.loads(rows)
                for i, line in enumerate(results):
                    if mark in line:
                        results[i] = refused({}, Erased())
                        # An unfinished part, such as one of a cancelled batch, still has its rows.
                        if sources:
                            sources[i] = {"refused": Erased().to_dict()}
                values = {"lines": _text_of(results), "rows": rows and _joined(map(_text, sources))}
                connection.execute(sa.update(parts).where(_is(job, number)).values(values))
        return True

    def delete(self, job_ids: Sequence[str]) -> None:
        """Delete jobs, with their payloads and results. Idempotent."""
        with changing(self._engine) as connection:
            connection.execute(sa.delete(parts).where(parts.c.job.in_(job_ids)))
            connection.execute(sa.delete(jobs).where(jobs.c.id.in_(job_ids)))

    def _jobs(self, *where: sa.ColumnElement[bool], limit: int | None = None) -> list[Job]:
        # By their ids, which are in the order of creation; times can be equal.
        query = sa.select(*COLUMNS).where(*where).order_by(jobs.c.id.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [Job.of(row) for row in connection.execute(query)]


def _end(connection: sa.Connection, job: str, status: JobStatus, error: RecourseError | None = None) -> Job | None:
    values = {"status": status.value, "finished_at": _now_ms(), "error": error and json.dumps(error.to_dict())}
    ended = sa.update(jobs).where(jobs.c.id == job, _open).values(values).returning(*COLUMNS)
    row = connection.execute(ended).one_or_none()
    return None if row is None else Job.of(row)


def _compressed_parts(rows: Iterable[Json], children: int) -> Iterator[tuple[int, bytes]]:
    for part in _split_rows(map(_text, rows), SHARES * children):
        yield len(part), _compressed(part)


def _split_rows(rows: Iterable[str], shares: int) -> Iterator[list[str]]:
    """The rows in parts that become smaller towards the end, so that all children finish at about the same time.

    Each part is one of so many `shares` of the rows that are left.
    """
    coming = iter(rows)
    # Where there are more than these, a share is more than a part.
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
    return (parts.c.job == job) & (parts.c.number == number)


def _epoch_ms(moment: datetime) -> int:
    """Milliseconds from 1970 on, rounded up: all that were stored at a later one are from then or later."""
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(row: Json) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _joined(rows: Iterable[str]) -> str:
    return f"[{','.join(rows)}]"


def _compressed(rows: Iterable[str]) -> bytes:
    return zlib.compress(_joined(rows).encode(), level=1)


def _text_of(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def split(text: str) -> list[str]:
    """The lines of a text, without line ends."""
    # Not `splitlines`, which splits at more characters than JSON escapes.
    return text.removesuffix("\n").split("\n")
