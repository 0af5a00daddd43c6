"""Makes or migrates the database of the jobs: tables of DBOS, our own tables, and jobs of the release before."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from app.errors import InternalError, JobAbandoned
from app.jobs.job import JobStatus
from app.jobs.lines import REFUSED
from app.jobs.tables import jobs, metadata, parts
from app.observability import log
from app.questions.answers import Json
from app.store.engine import open_engine, writing

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from app.jobs.queue import Queue

FORMER_CHUNKS = sa.table("batch_chunks", *map(sa.column, ("job", "number", "size", "rows", "lines")))
"""Where the release before kept the rows and lines of batches; its jobs were workflows of DBOS."""

FORMER_WORKFLOWS = ["run_job", "run_batch"]

FORMER_QUEUES = ["bounds", "batches", "chunks"]

AT_ONCE = 100

STATUSES = {
    "SUCCESS": JobStatus.SUCCEEDED,
    "ERROR": JobStatus.FAILED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": JobStatus.FAILED,
    "CANCELLED": JobStatus.CANCELLED,
}
"""Status of a job by that of its former workflow; others have not ended, and are begun again."""


def migrate(url: str) -> None:
    """Create the tables of the jobs, or bring them up to date; needs no rights to change tables that are up to date.

    Blocks. Raises SQLAlchemy's `DBAPIError`.
    """
    from dbos import DBOS

    DBOS.migrate(url)
    engine = open_engine(url)
    try:
        # One process at a time.
        with writing(engine) as connection:
            metadata.create_all(connection)
            _complete(connection)
        if sa.inspect(engine).has_table(FORMER_CHUNKS.name):
            _take_over(engine, url)
    finally:
        engine.dispose()


def _complete(connection: sa.Connection) -> None:
    """Add the column and the indexes that a table of the release before lacks."""
    if "version" not in {column["name"] for column in sa.inspect(connection).get_columns(jobs.name)}:
        connection.execute(sa.text(f"ALTER TABLE {jobs.name} ADD COLUMN version TEXT"))
    for index in jobs.indexes:
        index.create(connection, checkfirst=True)


def _take_over(engine: sa.Engine, url: str) -> None:
    """Turn the jobs of the release before into rows of ours. Where it is interrupted, it goes on at the next start."""
    from app.jobs.queue import Queue

    queue = Queue(url)
    try:
        with writing(engine) as connection:
            taken = [_take(connection, queue, record) for record in _former(queue)]
        for start in range(0, len(taken), AT_ONCE):
            queue.client.delete_workflows(taken[start : start + AT_ONCE], delete_children=True)
        for name in FORMER_QUEUES:
            queue.client.delete_queue(name)
        with writing(engine) as connection:
            connection.execute(sa.text(f"DROP TABLE {FORMER_CHUNKS.name}"))
        log.warning("former-jobs-taken-over", jobs=len(taken))
    finally:
        queue.close()


def _former(queue: "Queue") -> "Iterator[WorkflowStatus]":
    offset = 0
    while found := queue.client.list_workflows(name=FORMER_WORKFLOWS, limit=AT_ONCE, offset=offset):
        yield from found
        offset += len(found)


def _take(connection: sa.Connection, queue: "Queue", record: "WorkflowStatus") -> str:
    """Insert one job with its parts, and queue those that are not finished; returns its id."""
    job, attributes = record.workflow_id, record.attributes or {}
    if connection.scalar(sa.select(jobs.c.id).where(jobs.c.id == job)):
        return job
    assert record.input is not None
    kind, payload, time_or_count = record.input["args"]
    single = record.name == "run_job"
    status = STATUSES.get(record.status, JobStatus.QUEUED)
    error = _error(record) if status is JobStatus.FAILED else None
    found = [_single_part(record)] if single else list(_batch_parts(connection, job))
    if status is JobStatus.QUEUED and all(part["rows"] is None for part in found):
        status = JobStatus.SUCCEEDED  # the workflow only had to notice
    open_parts = [part["number"] for part in found if part["rows"] is not None]
    total, done = sum(part["size"] for part in found), sum(part["size"] for part in found if part["rows"] is None)
    if single:
        done, total = attributes.get("progress", (0, 1))
        done = total if status is JobStatus.SUCCEEDED else done
    finished_at = record.completed_at or record.updated_at
    row = {
        "id": job, "kind": kind, "status": status.value, "payload": json.dumps(payload), "parts": len(found),
        "timeout_s": time_or_count if single else None, "remaining": len(open_parts), "done": done, "total": total,
        "refused": 0 if single else sum(part["refused"] for part in found), "created_at": record.created_at,
        "started_at": record.dequeued_at if status.finished else None,
        "finished_at": finished_at if status.finished else None,
        "error": error and json.dumps(error), "detail": "full",
        **{name: value for name, value in attributes.items() if name in jobs.c},
    }  # fmt: skip
    connection.execute(sa.insert(jobs).values(row))
    for part in found:
        values = {name: value for name, value in part.items() if name in parts.c}
        connection.execute(sa.insert(parts).values({**values, "job": job, "attempts": 0}))
    if status is JobStatus.QUEUED:
        for number in open_parts:
            queue.put(connection, job, number, attributes.get("key"), single)
    return job


def _single_part(record: "WorkflowStatus") -> Json:
    succeeded = record.status == "SUCCESS"
    lines = f"{json.dumps(record.output)}\n" if succeeded else None
    return {"number": 0, "first": 0, "size": 1, "rows": None if succeeded else "[]", "lines": lines}


def _batch_parts(connection: sa.Connection, job: str) -> Iterator[Json]:
    first = 0
    query = sa.select(FORMER_CHUNKS).where(FORMER_CHUNKS.c.job == job).order_by(FORMER_CHUNKS.c.number)
    for row in connection.execute(query):
        finished = row.rows == "[]"
        refused = sum(line.startswith(REFUSED) for line in row.lines.split("\n")) if finished else 0
        part = {"number": row.number, "first": first, "size": row.size, "lines": row.lines, "refused": refused}
        yield {**part, "rows": None if finished else row.rows}
        first += row.size


def _error(record: "WorkflowStatus") -> Json:
    if record.status != "ERROR":
        return JobAbandoned().to_dict()
    data: Any = getattr(record.error, "data", None)
    return data if isinstance(data, dict) and "code" in data else InternalError().to_dict()
