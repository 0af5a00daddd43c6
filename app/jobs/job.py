"""A job, and how to read it from its row in the database."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from app.errors import JobCancelled, NoRowAnswered, RecourseError

BATCH = "batch"
"""The kind of jobs with one result per row."""

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
        """Whether the job has ended, so that its status cannot change any more."""
        return self not in UNFINISHED


UNFINISHED = (JobStatus.QUEUED, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work that is stored: it outlives the request that submitted it and the process that computes it."""

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
    version: str | None = None
    """The version of it."""
    detail: str = "full"
    """How much of its result the client asked for, `short` or `full`."""
    parts: int = 1
    """Into how many parts it is split, which are computed independently."""

    @property
    def address(self) -> str:
        """Path of the job in the HTTP interface."""
        return f"/jobs/{self.id}"

    @property
    def has_result(self) -> bool:
        """Whether the job has a result. A batch has a result even if all its lines are problem documents."""
        return self.status is JobStatus.SUCCEEDED or isinstance(self.error, NoRowAnswered)

    @property
    def outcome(self) -> str:
        """`succeeded`, or the code of the error with which the job ended; a cancelled job has such a code, too."""
        if self.status is JobStatus.CANCELLED:
            return JobCancelled.code
        return self.status.value if self.error is None else self.error.code

    @property
    def seconds(self) -> float:
        """Seconds from the start to the end of the job; 0 until it has ended."""
        return (self.finished_at - self.started_at).total_seconds() if self.finished_at and self.started_at else 0.0

    @classmethod
    def of(cls, row: Any) -> "Job":
        """The job that is stored in `row`, a row of the table `jobs`."""
        error = row.error and RecourseError.from_dict(json.loads(row.error))
        status = JobStatus(row.status)
        counted = row.timeout_s is None and (status is JobStatus.SUCCEEDED or isinstance(error, NoRowAnswered))
        same = ("id", "kind", "done", "total", "request_id", "about", "key", "model", "version", "detail", "parts")
        return cls(
            **{name: getattr(row, name) for name in same},
            status=status,
            created_at=_moment(row.created_at),
            started_at=row.started_at and _moment(row.started_at),
            finished_at=row.finished_at and _moment(row.finished_at),
            error=error,
            refused=row.refused if counted else None,
        )


def _moment(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000.0, UTC)
