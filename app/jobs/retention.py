"""Deletes old jobs, so that the database does not grow without limit."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from app.jobs.connection import Connection
from app.jobs.job import Job
from app.ledger.sure_clock import SureClock
from app.observability import log, trace

FORGET_S = 3600.0
"""Interval at which old jobs are deleted."""

FORGET_AT_ONCE = 200


class Retention:
    """Deletes old jobs from one database."""

    def __init__(self, connection: Connection, days: float) -> None:
        self._connection = connection
        self._days = days
        self._clock: SureClock | None = None
        """None until the newest job is known."""

    async def run(self) -> None:
        """Delete old jobs now and every `FORGET_S` seconds, until cancelled."""
        while True:
            try:
                self._clock = self._clock or SureClock(await self._newest_at())
                await self.sweep(self._clock.now())
            except Exception as error:  # noqa: BLE001 - such as a database that is lost; it is tried again
                log.warning("jobs-not-forgotten", trace=trace(error))
            await asyncio.sleep(FORGET_S)

    async def sweep(self, now: datetime) -> None:
        """Delete the jobs that have ended and whose retention period is over at the time `now`."""
        log.info("jobs-forgotten", deleted=await self.forget(now - timedelta(days=self._days)))

    async def _newest_at(self) -> datetime | None:
        """When the newest job was submitted; None if there is none."""
        connection = self._connection
        return next((job.created_at for job in await connection.ask(connection.records.newest, 1)), None)

    async def forget(self, before: datetime) -> int:
        """Delete the jobs that have ended and were submitted before the time `before`; returns how many these are."""
        connection, deleted = self._connection, 0
        while found := await connection.ask(connection.records.ended_before, before, FORGET_AT_ONCE):
            await self.delete(found)
            deleted += len(found)
        return deleted

    async def delete(self, found: Sequence[Job]) -> None:
        """Delete jobs, with their payloads and results, also from SQLite's files. Idempotent."""
        connection = self._connection
        for job in found:
            await connection.ask(connection.queue.delete, job.id, job.parts)
        await connection.ask(connection.records.delete, [job.id for job in found])
        await connection.overwrite()
