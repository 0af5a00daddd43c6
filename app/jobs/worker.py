"""Computes the jobs of the database: DBOS takes them from it, an `Executor` computes them in the children of a lane.

DBOS exists once per process, so a `Worker` does, too. DBOS runs workflows on an event loop of its own, while the lane
belongs to that of the service. A step runs its computation on the loop of the service and awaits it; cancelling the
step cancels the computation, which kills the child.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from dbos import DBOS, DBOSPortableJSONSerializer, PortableWorkflowError, SetWorkflowID
from dbos._error import DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded
from dbos._utils import INTERNAL_QUEUE_NAME

from app.compute.answers import Json
from app.errors import JobAbandoned, JobCancelled, NoRowAnswered
from app.jobs.executor import SUCCEEDED, Executor
from app.jobs.names import APPLICATION, BATCH_WORKFLOW, CHUNKS, VERSION, WORKFLOW

RECOVERIES = 3
"""How often a job is resumed after its server died: the job may be the reason."""

CHUNK_RECOVERIES = 20
"""The same for a chunk: another chunk of the same process may be the reason."""

BATCH_RECOVERIES = 1000
"""The same for a batch, which only waits for its chunks and is interrupted by every restart in that time."""

CHUNK_POLL_S = 0.2
"""Interval at which a batch checks whether its next chunk has been computed."""

CONNECTIONS = 3
"""Most connections of DBOS to the database, beside one that waits for notifications; threads that look for work share
them. Its own default is 20, and eight busy workers would take all hundred that PostgreSQL allows by default."""

_only_one = threading.Lock()


class Worker:
    """Computes jobs in this process; made on the event loop of the service."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, Future[Json]] = {}

    def start(self, url: str, executor_id: str) -> None:
        """Resume the unfinished jobs of this executor id, then take new ones. Blocks; not for an event loop."""
        if not _only_one.acquire(blocking=False):
            raise RuntimeError("a process computes jobs for one service only")
        try:
            self._dbos = DBOS(
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
        """Stop computing. Jobs in progress stay unfinished and are resumed at the next start. Blocks."""
        DBOS.destroy(destroy_registry=True)
        _only_one.release()

    def interrupt(self, job_id: str) -> None:
        """Stop computing a cancelled job immediately, if it is computed here."""
        for running_id, running in list(self._running.items()):
            if running_id == job_id or running_id.startswith(f"{job_id}."):
                running.cancel()

    def adopt(self, executor_id: str) -> int:
        """Put the unfinished workflows of a dead executor back into its queue; returns their number. Blocks."""
        return len(DBOS._recover_pending_workflows([executor_id]))

    def running(self) -> set[str]:
        """Ids of the workflows that this process has begun and not ended."""
        return set(self._dbos._active_workflows_set.activeList())

    def requeue(self, executor_id: str, workflows: Sequence[str]) -> None:
        """Put workflows that count as running under an executor id back into their queues. Blocks."""
        for workflow_id in workflows:
            self._dbos._sys_db.reenqueue_for_recovery(workflow_id, [executor_id], INTERNAL_QUEUE_NAME)

    def _register(self) -> None:
        executor = self._executor

        @DBOS.step(name="compute", preemptible=True)
        async def compute(job_id: str, kind: str, payload: Json, timeout_s: float) -> Json:
            return await self._here(job_id, executor.run_job(job_id, kind, payload, timeout_s))

        @DBOS.step(name="compute_chunk", preemptible=True)
        async def compute_chunk(job_id: str, number: int, kind: str, payload: Json) -> Json:
            return await self._here(f"{job_id}.{number}", executor.run_chunk(job_id, number, kind, payload))

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=RECOVERIES)
        async def run_job(kind: str, payload: Json, timeout_s: float) -> Json:
            job_id = DBOS.workflow_id
            assert job_id is not None
            return _ok(await compute(job_id, kind, payload, timeout_s))

        @DBOS.workflow(name="run_chunk", max_recovery_attempts=CHUNK_RECOVERIES)
        async def run_chunk(job_id: str, number: int, kind: str, payload: Json) -> Json:
            return await compute_chunk(job_id, number, kind, payload)

        @DBOS.workflow(name=BATCH_WORKFLOW, max_recovery_attempts=BATCH_RECOVERIES)
        async def run_batch(kind: str, payload: Json, count: int) -> Json:
            job_id = DBOS.workflow_id
            assert job_id is not None
            began, code = time.monotonic(), JobCancelled.code
            counted: Counter[str] = Counter()
            try:
                handles = []
                for number in range(count):
                    with SetWorkflowID(f"{job_id}.{number}"):
                        chunk = await DBOS.enqueue_workflow_async(CHUNKS, run_chunk, job_id, number, kind, payload)
                    handles.append(chunk)
                for handle in handles:
                    try:
                        outcome = await handle.get_result(polling_interval_sec=CHUNK_POLL_S)
                    except DBOSAwaitedWorkflowMaxRecoveryAttemptsExceeded:
                        outcome = {"error": JobAbandoned().to_dict()}
                    if "error" in outcome:
                        code = outcome["error"]["code"]
                        await DBOS.cancel_workflows_async([handle.workflow_id for handle in handles])
                    counted.update(_ok(outcome) or {})
                if 0 < counted["rows"] == counted["refused"]:
                    code = NoRowAnswered.code
                    _ok({"error": NoRowAnswered().to_dict()})
                code = SUCCEEDED
                return dict(counted)
            finally:
                executor.measure(kind, code, time.monotonic() - began)

    async def _here(self, job_id: str, computing: Coroutine[Any, Any, Json]) -> Json:
        """Await on the loop of DBOS what the loop of the service computes; cancelling one cancels the other."""
        running = asyncio.run_coroutine_threadsafe(computing, self._loop)
        self._running[job_id] = running
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                # `interrupt` came before DBOS, which looks for cancelled jobs once a second and then cancels this wait.
                await asyncio.Event().wait()
            raise
        finally:
            self._running.pop(job_id, None)


def _ok(outcome: Json) -> Any:
    """The result in an outcome. Raises its error instead, in a form that DBOS can store."""
    if (error := outcome.get("error")) is not None:
        raise PortableWorkflowError(error["detail"], error["code"], error["code"], error)
    return outcome["ok"]
