"""Queries of the table in which DBOS keeps its workflows, for what its client cannot do. They block."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from app.jobs.batch.chunks import Chunks
from app.jobs.ids import first_id
from app.jobs.job import FINISHED, STATUSES
from app.jobs.names import BATCH_WORKFLOW, JOBS


def newest_ids(
    engine: sa.Engine, limit: int, before: str | None, *, key: str | None, models: Collection[str] | None
) -> list[str]:
    """Ids of jobs in descending order, which is that of creation. DBOS sorts by time only, and times can be equal.

    With `key` those that it submitted, with `models` those that ask one of these.
    """
    table = _workflows(engine)
    query = sa.select(table.c.workflow_uuid).where(table.c.name.in_(JOBS))
    if key is not None:
        query = query.where(table.c.attributes["key"].as_string() == key)
    if models is not None:
        query = query.where(table.c.attributes["model"].as_string().in_(models))
    if before is not None:
        query = query.where(table.c.workflow_uuid < before)
    with engine.connect() as connection:
        return list(connection.scalars(query.order_by(table.c.workflow_uuid.desc()).limit(limit)))


def ids_about(engine: sa.Engine, about: str) -> list[str]:
    """Ids of the jobs submitted for one recourse or version. DBOS can search attributes in PostgreSQL only."""
    table = _workflows(engine)
    named = table.c.attributes["about"].as_string() == about
    with engine.connect() as connection:
        return list(connection.scalars(sa.select(table.c.workflow_uuid).where(named)))


def ids_pending(engine: sa.Engine, executor_id: str) -> set[str]:
    """Ids of the workflows, chunks among them, that count as running in one process."""
    table = _workflows(engine)
    query = sa.select(table.c.workflow_uuid).where(table.c.status == "PENDING", table.c.executor_id == executor_id)
    with engine.connect() as connection:
        return set(connection.scalars(query))


def count_unfinished(engine: sa.Engine) -> Counter[tuple[str, str]]:
    """Number of unfinished jobs by kind and status."""
    table = _workflows(engine)
    kind = table.c.attributes["kind"].as_string()
    unfinished = table.c.status.in_([name for name in STATUSES if name not in FINISHED])
    query = sa.select(kind, table.c.status, sa.func.count()).where(unfinished, table.c.name.in_(JOBS))
    found: Counter[tuple[str, str]] = Counter()
    with engine.connect() as connection:
        for name, status, count in connection.execute(query.group_by(kind, table.c.status)):
            found[name, STATUSES[status].value] += count
    return found


def delete_lost_chunks(engine: sa.Engine, chunks: Chunks, before: datetime) -> int:
    """Delete chunks of batches from before a moment that have no job; returns their number."""
    table = _workflows(engine)
    jobs = sa.select(table.c.workflow_uuid).where(table.c.name == BATCH_WORKFLOW).scalar_subquery()
    return chunks.delete_lost(jobs, first_id("job", before))


def _workflows(engine: sa.Engine) -> sa.TableClause:
    """The columns that are read here."""
    names = ("workflow_uuid", "name", "status", "executor_id")
    columns = [*map(sa.column, names), sa.column("attributes", sa.JSON)]
    return sa.table("workflow_status", *columns, schema=None if engine.dialect.name == "sqlite" else "dbos")
