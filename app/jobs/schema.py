"""Jobs: work that continues after the response."""

from datetime import datetime

from app.api.described import Described
from app.api.problem import Problem
from app.jobs.job import JobStatus


class JobProgress(Described):
    """Steps done, of `total`; a job without steps counts as one."""

    done: int
    """Steps done, such as rows of a batch."""
    total: int
    """All steps."""
    refused: int | None
    """Rows of a batch that have no answer but a problem; null until it has ended, and for other jobs."""


class JobAnswer(Described):
    """A job."""

    id: str
    """Id of the job."""
    kind: str
    """What the job computes, such as `recourse` for POST /recourse."""
    model: str | None
    """The model that it asks, `id@version`; null for jobs of all models, without a version for jobs of old releases."""
    status: JobStatus
    """Whether it waits, runs or has ended, and how."""
    progress: JobProgress
    """How far it is."""
    created_at: datetime
    """When it was submitted."""
    started_at: datetime | None
    """When it was last started; null until then."""
    finished_at: datetime | None
    """When it ended; null before that."""
    error: Problem | None
    """Why it failed, as a batch does without any answer; `request_id` is that of the request that started it."""
    result: str | None
    """Address of the result, once the job has succeeded, or a batch has ended."""


class JobList(Described):
    """A page of jobs."""

    jobs: list[JobAnswer]
    """Newest first."""
    next_cursor: str | None
    """Pass it as `cursor` for the jobs before these; null on the last page."""
