"""A job, and how to read it from its record in the database."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from app.errors import InternalError, JobAbandoned, NoRowAnswered, RecourseError

if TYPE_CHECKING:
    from dbos import WorkflowStatus

BATCH = "batch"
"""The kind of jobs with one result per row."""

STARTED = "started_at"
"""Attribute of a cancelled job: when it was last started, in milliseconds since 1970."""

JOB_ID = re.compile(r"job_[0-9A-HJKMNP-TV-Z]{26}")


class JobStatus(StrEnum):
    """State of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        """Whether the status is final."""
        return self not in (JobStatus.QUEUED, JobStatus.RUNNING)


STATUSES = {
    "DELAYED": JobStatus.QUEUED,
    "ENQUEUED": JobStatus.QUEUED,
    "PENDING": JobStatus.RUNNING,
    "SUCCESS": JobStatus.SUCCEEDED,
    "ERROR": JobStatus.FAILED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": JobStatus.FAILED,
    "CANCELLED": JobStatus.CANCELLED,
}
"""Status of a job by that of its DBOS workflow."""

FINISHED = [name for name, status in STATUSES.items() if status.finished]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One durable piece of work: it outlives the request that submitted it, and the process that computes it."""

    id: str
    kind: str
    status: JobStatus
    done: int
    """Steps done, of `total`."""
    total: int
    created_at: datetime
    started_at: datetime | None
    """When it was last started; None until then."""
    finished_at: datetime | None
    error: RecourseError | None = None
    """Present iff it failed."""
    request_id: str | None = None
    """Id of the request that submitted it."""
    refused: int | None = None
    """Rows of a batch without an answer; None until it has ended, and for other jobs."""
    about: str | None = None
    """The recourse that it computes or belongs to; of future models, their version."""
    key: str | None = None
    """Id of the API key that submitted it; None without keys."""
    model: str | None = None
    """Id of the model that it asks."""
    detail: str = "full"
    """How much of its result the client asked for, `short` or `full`."""

    @property
    def address(self) -> str:
        """Path of the job in the HTTP interface."""
        return f"/jobs/{self.id}"

    @property
    def has_result(self) -> bool:
        """Whether there is a result: of a batch also where each of its lines is a problem."""
        return self.status is JobStatus.SUCCEEDED or isinstance(self.error, NoRowAnswered)

    @classmethod
    def of(cls, record: "WorkflowStatus", rows: tuple[int, int] | None = None) -> "Job":
        """The job in a record of DBOS, which must be loaded with its error if the job failed.

        `rows` is the progress of a batch.
        """
        attributes = record.attributes or {}
        status = STATUSES[record.status]
        done, total = rows or attributes.get("progress", (0, 1))
        created_at = _moment(record.created_at)
        assert created_at is not None
        error = _error(record) if status is JobStatus.FAILED else None
        counted = (record.output or {}) if rows is not None and status is JobStatus.SUCCEEDED else {}
        return cls(
            id=record.workflow_id,
            kind=attributes.get("kind", "unknown"),
            status=status,
            done=total if status is JobStatus.SUCCEEDED else done,
            total=total,
            created_at=created_at,
            started_at=_moment(record.dequeued_at or attributes.get(STARTED)),
            finished_at=_moment(record.completed_at) if status.finished else None,
            error=error,
            refused=total if isinstance(error, NoRowAnswered) else counted.get("refused"),
            request_id=attributes.get("request_id"),
            about=attributes.get("about"),
            key=attributes.get("key"),
            model=attributes.get("model"),
            detail=attributes.get("detail", "full"),
        )


def _error(record: "WorkflowStatus") -> RecourseError:
    if record.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        return JobAbandoned()
    data: Any = getattr(record.error, "data", None)
    if isinstance(data, dict) and "code" in data:
        return RecourseError.from_dict(data)
    return InternalError()


def _moment(epoch_ms: int | None) -> datetime | None:
    return None if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000.0, UTC)
