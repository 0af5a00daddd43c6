"""Jobs: work that goes on after the response."""

from datetime import datetime

from app.api.schemas.models import Described
from app.api.schemas.problem import Problem
from app.jobs.job import JobStatus


class JobProgress(Described):
    """How far a job is; of 1 where it has no steps."""

    done: int
    total: int


class JobAnswer(Described):
    """A job."""

    id: str
    kind: str
    """What is computed: `recourse` for POST /recourse."""
    status: JobStatus
    progress: JobProgress
    created_at: datetime
    started_at: datetime | None
    """When it was last taken up; null until then."""
    finished_at: datetime | None
    error: Problem | None
    """Why it failed, with the id of the request that started it."""
    result: str | None
    """Where the result is, once it has succeeded."""


class JobList(Described):
    """A page of jobs."""

    jobs: list[JobAnswer]
    """Newest first."""
    next_cursor: str | None
    """Pass it as `cursor` for the jobs before these; null on the last page."""
