"""Deletes old jobs, so that the database does not grow without limit."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from app.jobs.connection import Connection
from app.jobs.job import FINISHED, Job
from app.jobs.names import JOBS
from app.jobs.workflows import delete_lost_chunks
from app.observability import log, trace
from app.store.sure_clock import SureClock

FORGET_S = 3600.0
"""Interval at which old jobs are deleted."""

FORGET_AT_ONCE = 200

LOST_S = 3600.0
"""Age from which rows of a batch without a job are deleted: their submission has failed."""


class Retention:
    """Deletes the jobs of one database."""

    def __init__(self, connection: Connection, days: float) -> None:
        self._connection = connection
        self._days = days
        self._clock: SureClock | None = None
        """None until the newest job is known."""

    async def run(self) -> None:
        """Delete old jobs now and every `FORGET_S`, until cancelled."""
        while True:
            try:
                self._clock = self._clock or SureClock(await self._newest_at())
                await self.sweep(self._clock.now())
            except Exception as error:  # noqa: BLE001 - such as a database that is lost; it is tried again
                log.warning("jobs-not-forgotten", trace=trace(error))
            await asyncio.sleep(FORGET_S)

    async def sweep(self, now: datetime) -> None:
        """Delete what is old at a moment."""
        deleted = await self.forget(now - timedelta(days=self._days))
        lost = await self.forget_lost(now - timedelta(seconds=LOST_S))
        log.info("jobs-forgotten", deleted=deleted, lost_chunks=lost)

    async def _newest_at(self) -> datetime | None:
        """When the newest job was submitted; None if there is none."""
        connection = self._connection
        newest = connection.client.list_workflows_async(
            name=list(JOBS), sort_desc=True, limit=1, load_input=False, load_output=False
        )
        return next((Job.of(record).created_at for record in await connection.reached(newest)), None)

    async def forget(self, before: datetime) -> int:
        """Delete finished jobs that were submitted before a moment; returns their number."""
        client, deleted = self._connection.client, 0
        while True:
            records = await self._connection.reached(
                client.list_workflows_async(
                    name=list(JOBS),
                    status=FINISHED,
                    end_time=before.isoformat(),
                    limit=FORGET_AT_ONCE,
                    load_input=False,
                    load_output=False,
                )
            )
            if not records:
                return deleted
            await self.delete([record.workflow_id for record in records])
            deleted += len(records)

    async def forget_lost(self, before: datetime) -> int:
        """Delete the rows of batches from before a moment that have no job; returns the number of their chunks.

        Rows are stored before their job: the connection may be lost, or the process end, in between.
        """
        connection = self._connection
        return await connection.ask(delete_lost_chunks, connection.engine, connection.chunks, before)

    async def delete(self, job_ids: Sequence[str]) -> None:
        """Delete jobs with their payloads and results, also from the files. Idempotent."""
        connection = self._connection
        await connection.ask(connection.chunks.delete, job_ids)
        await connection.reached(connection.client.delete_workflows_async(list(job_ids), delete_children=True))
        await connection.overwrite()
