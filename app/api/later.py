"""Answers that come as a job, when a client prefers that."""

from typing import Any

from starlette.responses import JSONResponse

from app.api.errors import RETRY_AFTER_S, problem
from app.api.prefer import Prefer
from app.api.schemas.jobs import JobAnswer
from app.jobs.job import Job, JobStatus
from app.service import Service, timestamp

VARY = {"Vary": "Prefer"}

ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "model": JobAnswer,
        "description": "The job that computes the answer, where the client prefers that.",
        "headers": {
            "Location": {"description": "The job.", "schema": {"type": "string"}},
            "Preference-Applied": {"description": "Which preferences were followed.", "schema": {"type": "string"}},
        },
    }
}
"""The `responses` of a route that can answer with a job."""


def described(job: Job) -> dict[str, Any]:
    """A job as clients see it."""
    succeeded = job.status is JobStatus.SUCCEEDED
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status.value,
        "progress": {"done": job.done, "total": job.total},
        "created_at": timestamp(job.created_at),
        "started_at": job.started_at and timestamp(job.started_at),
        "finished_at": job.finished_at and timestamp(job.finished_at),
        "error": job.error and problem(job.error, job.address, request=job.request_id),
        "result": f"{job.address}/results" if succeeded else None,
    }


async def answer_later(job: Job, prefer: Prefer, service: Service) -> JSONResponse:
    """The job, or its result if that is there within the time that the client prefers to wait.

    Raises
    ------
    RecourseError : why the job failed while the client waited
    """
    headers = {"Preference-Applied": prefer.applied, **VARY}
    if prefer.wait_s:
        job = await service.jobs.wait(job.id, prefer.wait_s)
    if job.status in (JobStatus.SUCCEEDED, JobStatus.FAILED):
        result = await service.jobs.result(job.id)
        return JSONResponse(result, headers={**headers, "Content-Location": f"{job.address}/results"})
    later = {"Location": job.address, "Retry-After": str(RETRY_AFTER_S)}
    return JSONResponse(described(job), 202, headers={**headers, **later})
