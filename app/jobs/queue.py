"""The queue of parts (single jobs, or some rows of a batch): DBOS decides which process computes which part, and when.

DBOS keeps numbers and names only; what a job is, and what became of it, is in our own tables. Blocks.
"""

from collections.abc import Iterable

import sqlalchemy as sa
from dbos import DBOSClient, DBOSPortableJSONSerializer, WorkflowStatus

APPLICATION = "recourse"

VERSION = "jobs-2"
"""Raised by hand when queued parts can no longer be computed: DBOS gives out only those of its own version."""

WORKFLOW = "part"

SINGLE = "single-jobs"
"""Queue of single jobs, which so need not wait for the parts of batches."""

PARTS = "batch-parts"

NO_KEY = "-"
"""Partition of those who need no key."""

KEYS_AT_ONCE = 4
"""Keys whose parts a process takes at the same time, where each has as many as it may."""

SINGLE_POLL_S = 0.5
"""Interval at which a process looks for single jobs; each look costs some milliseconds."""

PARTS_POLL_S = 0.25
"""Interval at which it looks for parts of batches: less than a child needs for one, so that no child waits."""


class Queue:
    """The queue of parts (single jobs, or some rows of a batch) in one database. Its methods raise `DBAPIError`."""

    def __init__(self, url: str) -> None:
        self.client = DBOSClient(
            system_database_url=url,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
        )

    def register(self, children: int) -> None:
        """Set how many parts each process takes at once, given that it has `children` child processes.

        The setting is stored in the database for all processes: the process that starts last decides.
        """
        # Twice the children, so that a child which has finished a part finds the next one in this process.
        for name, most, poll_s in ((SINGLE, children, SINGLE_POLL_S), (PARTS, 2 * children, PARTS_POLL_S)):
            self.client.register_queue(
                name,
                worker_concurrency=KEYS_AT_ONCE * most,
                partition_worker_concurrency=most,
                polling_interval_sec=poll_s,
                on_conflict="always_update",
            )

    def put(self, connection: sa.Connection, job: str, number: int, key: str | None, single: bool) -> None:
        """Queue part `number` of a job, inside a transaction of the same database.

        Parameters
        ----------
        key : id of the API key that submitted the job; None without keys
        single : whether the job is a single job, not a batch
        """
        self.client.enqueue_in_transaction(
            connection,
            {
                "workflow_name": WORKFLOW,
                "queue_name": SINGLE if single else PARTS,
                "workflow_id": name_of(job, number),
                "app_version": VERSION,
                "application_name": APPLICATION,
                "queue_partition_key": key or NO_KEY,
            },
            job,
            number,
            key,
            single,
        )

    def begun(self) -> list[WorkflowStatus]:
        """The queue's entries of the parts that a process has begun and, as far as the queue knows, not ended."""
        return self.client.list_workflows(status="PENDING", name=WORKFLOW, load_input=False, load_output=False)

    def again(self, found: Iterable[WorkflowStatus]) -> None:
        """Queue again the parts `found`, which a lost process had begun; parts that have ended meanwhile stay ended."""
        by_queue: dict[str | None, list[str]] = {}
        for one in found:
            by_queue.setdefault(one.queue_name, []).append(one.workflow_id)
        for name, ids in by_queue.items():
            self.client.resume_workflows(ids, queue_name=name)

    def cancel(self, job: str, numbers: Iterable[int]) -> None:
        """Take parts of a job out of the queue; a process that is computing such a part stops within about a second."""
        self.client.cancel_workflows([name_of(job, number) for number in numbers])

    def delete(self, job: str, count: int) -> None:
        """Delete all parts of a job from the queue; `count` is the number of these parts."""
        self.client.delete_workflows([name_of(job, number) for number in range(count)])

    def close(self) -> None:
        """Close the connections of the queue."""
        self.client.destroy()


def name_of(job: str, number: int) -> str:
    """The id of a part in the queue: the job's id, a colon and the part's number.

    The character `.` is not used, since in the release before, ids with `.` had another meaning.
    """
    return f"{job}:{number}"
