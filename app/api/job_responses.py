"""Responses with a job, or with its result where the client waits for that."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from app.api.errors import RETRY_AFTER_S, problem
from app.api.prefer import Prefer
from app.jobs.job import Job, JobStatus
from app.jobs.kinds import AUDIT
from app.jobs.schema import JobAnswer
from app.questions.answers import encoded
from app.questions.encoded_answer import shown
from app.service import Service
from app.store.timestamps import timestamp

VARY = {"Vary": "Prefer"}

ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "model": JobAnswer,
        "description": "The job that computes the answer, where the client prefers one.",
        "headers": {
            "Location": {"description": "The job.", "schema": {"type": "string"}},
            "Preference-Applied": {"description": "Which preferences were followed.", "schema": {"type": "string"}},
        },
    }
}
"""The `responses` of a route that can answer with a job."""


def described(job: Job) -> dict[str, Any]:
    """A job as JSON data for clients."""
    return {
        "id": job.id,
        "kind": job.kind,
        "model": job.model if job.version is None else f"{job.model}@{job.version}",
        "status": job.status.value,
        "progress": {"done": job.done, "total": job.total, "refused": job.refused},
        "created_at": timestamp(job.created_at),
        "started_at": job.started_at and timestamp(job.started_at),
        "finished_at": job.finished_at and timestamp(job.finished_at),
        "error": job.error and problem(job.error, job.address, request=job.request_id),
        "result": f"{job.address}/results" if job.has_result else None,
    }


LISTED = {AUDIT: "broken_promises"}
"""Kinds of jobs whose results hold a list that may be long, and its name."""

MOST_LISTED = 1000
"""Longest part of such a list in one answer."""


async def page(service: Service, kind: str, result: Any, limit: int = MOST_LISTED, cursor: int = 0) -> Any:
    """The result of a job as a page: its list is cut to `limit` entries from index `cursor` on.

    `kind` is the kind of the job. A result that has no list is returned whole.
    """
    if (name := LISTED.get(kind)) is None:
        return result
    following = cursor + limit if cursor + limit < len(result[name]) else None
    listed = await service.given.with_references(result[name][cursor : cursor + limit])
    return {**result, name: listed, "next_cursor": following and str(following)}


async def lines(service: Service, kind: str, result: Any) -> bytes:
    """The result of a job as NDJSON: a line for everything but its list, then a line for each entry of the list.

    `kind` is the kind of the job.
    """
    name = LISTED.get(kind)
    first = {key: value for key, value in result.items() if key != name}
    rest = [] if name is None else await service.given.with_references(result[name])
    return b"".join(encoded(entry) + b"\n" for entry in (first, *rest))


async def answer_later(job: Job, prefer: Prefer, service: Service) -> JSONResponse:
    """The response that has the job's result if it is ready within the time `prefer.wait_s`, and the job otherwise.

    Raises
    ------
    RecourseError : the job failed while the client waited; the error says why
    """
    headers = {**({"Preference-Applied": prefer.applied} if prefer.wants_job else {}), **VARY}
    if prefer.wait_s:
        job = await service.jobs.wait(job.id, prefer.wait_s)
    if job.status in (JobStatus.SUCCEEDED, JobStatus.FAILED):
        result = await page(service, job.kind, shown(job.kind, await service.jobs.result(job.id), job.detail))
        return JSONResponse(result, headers={**headers, "Content-Location": f"{job.address}/results"})
    return accepted(job, headers)


def accepted(job: Job, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response 202, which describes a job and has the job's address in its header `Location`."""
    later = {"Location": job.address, "Retry-After": str(RETRY_AFTER_S)}
    return JSONResponse(described(job), 202, headers={**(headers or {}), **later})
