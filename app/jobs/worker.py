"""Computes parts in this process: DBOS takes them from the queue, an `Executor` computes them in children of a lane.

DBOS exists once per process, so a `Worker` does, too. DBOS runs workflows on an event loop of its own, while the lane
belongs to that of the service. A step runs its computation on the loop of the service and awaits it; cancelling the
step cancels the computation, which kills the child.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from dbos import DBOS, DBOSPortableJSONSerializer

from app.jobs.executor import Executor
from app.jobs.queue import APPLICATION, VERSION, WORKFLOW, name_of

CONNECTIONS = 3
"""Most connections of DBOS to the database, beside one that waits for notifications; threads that look for work share
them. Its own default is 20, and eight busy workers would take all hundred that PostgreSQL allows by default."""

_only_one = threading.Lock()


class Worker:
    """Computes jobs in this process; made on the event loop of the service."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Future[None]] = {}

    def start(self, url: str, executor_id: str) -> None:
        """Queue again the work that an earlier process with this executor id had begun, then start to take work.

        Blocks.
        """
        if not _only_one.acquire(blocking=False):
            raise RuntimeError("a process computes jobs for one service only")
        try:
            DBOS(
                config={
                    "name": APPLICATION,
                    "system_database_url": url,
                    "sys_db_pool_size": CONNECTIONS,
                    "application_version": VERSION,
                    "executor_id": executor_id,
                    "serializer": DBOSPortableJSONSerializer(),
                    "enable_otlp": False,
                    # Notifications are not used; by default a thread wakes for them a hundred times a second.
                    "notification_coalesce_sec": 1.0,
                    "log_level": "WARNING",
                    "run_migrations": False,
                }
            )
            self._register()
            DBOS.launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop computing; the next process that computes jobs begins the unfinished work again. Blocks."""
        DBOS.destroy(destroy_registry=True)
        _only_one.release()

    def interrupt(self, job_id: str) -> None:
        """Stop at once everything that this process computes for a job that has ended."""
        for name, running in list(self._running.items()):
            if name.startswith(f"{job_id}:"):
                running.cancel()

    def running(self) -> set[str]:
        """Ids in the queue of the parts (single jobs, or some rows of a batch) that this process is computing."""
        return set(self._running)

    def _register(self) -> None:
        @DBOS.step(name="compute", preemptible=True)
        async def compute(job: str, number: int, key: str | None, single: bool) -> None:
            await self._here(name_of(job, number), self._executor.compute(job, number, key, single=single))

        # The attempts are counted in our own table: by DBOS's count a part could be lost.
        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        async def part(job: str, number: int, key: str | None, single: bool) -> None:
            await compute(job, number, key, single)

    async def _here(self, name: str, computing: Coroutine[Any, Any, None]) -> None:
        """Await on the loop of DBOS what the loop of the service computes; cancelling one cancels the other."""
        running = asyncio.run_coroutine_threadsafe(computing, self._loop)
        self._running[name] = running
        try:
            await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # `interrupt` came before DBOS, which looks for cancelled parts once a second, then cancels this wait.
                await asyncio.Event().wait()
            raise
        finally:
            if self._running.get(name) is running:
                del self._running[name]
