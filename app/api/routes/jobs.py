"""Jobs: look at them, follow them, fetch what they have computed, cancel them."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.documented import refusals
from app.api.json_route import StrictRoute
from app.api.later import described
from app.api.schemas.jobs import JobAnswer, JobList
from app.errors import Fault, InvalidRequest
from app.jobs.job import JOB_ID, Job

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=StrictRoute)

EXAMPLE = "/jobs/job_01KAHQ0W3MZC9Y7T5X2V8RDB4E"

RECONNECT_MS = 2000
"""Asked of clients whose event stream breaks off."""

JobId = Annotated[str, Path(alias="id", openapi_examples={"job": {"value": EXAMPLE.rpartition("/")[2]}})]


@router.get(
    "",
    name="list_jobs",
    summary="All jobs, newest first",
    response_model=JobList,
    responses=refusals("/jobs", errors.InvalidRequest, errors.NotReady),
)
async def list_jobs(
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=200, openapi_examples={"few": {"value": 10}})] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=100)] = None,
) -> JSONResponse:
    """A page of them; pages neither overlap nor leave out anything while new jobs come in."""
    if cursor is not None and not JOB_ID.fullmatch(cursor):
        raise InvalidRequest(faults=[Fault("", "the query parameter cursor is not one that was given out")])
    # One more than asked for tells whether there is another page.
    jobs = await service.jobs.newest(limit + 1, before=cursor)
    page = jobs[:limit]
    following = page[-1].id if len(jobs) > limit else None
    return JSONResponse({"jobs": [described(job) for job in page], "next_cursor": following})


@router.get(
    "/{id}",
    name="get_job",
    summary="One job",
    response_model=JobAnswer,
    responses=refusals(EXAMPLE, errors.InvalidRequest, errors.UnknownJob, errors.NotReady),
)
async def get_job(job_id: JobId, service: ServiceDep) -> JSONResponse:
    """How far it is, and how it ended."""
    return JSONResponse(described(await service.jobs.get(job_id)))


@router.get(
    "/{id}/results",
    name="get_job_results",
    summary="What a job has computed",
    responses={
        200: {"description": "What the request would have been answered directly."},
        **refusals(
            f"{EXAMPLE}/results",
            errors.InvalidRequest,
            errors.UnknownJob,
            errors.JobUnfinished,
            errors.JobCancelled,
            errors.ModelUnusable,
            errors.ModelOutputInvalid,
            errors.LaneTimeout,
            errors.LaneCrashed,
            errors.JobAbandoned,
            errors.NotReady,
        ),
    },
)
async def get_job_results(job_id: JobId, service: ServiceDep) -> JSONResponse:
    """The body of the answer. Of a failed job, the problem that it failed with."""
    return JSONResponse(await service.jobs.result(job_id))


async def _job(job_id: JobId, service: ServiceDep) -> Job:
    # Asked before the stream begins, so that an unknown job is a 404.
    return await service.jobs.get(job_id)


@router.get(
    "/{id}/events",
    name="follow_job",
    summary="Follow a job until it has ended",
    response_class=EventSourceResponse,
    responses=refusals(f"{EXAMPLE}/events", errors.InvalidRequest, errors.UnknownJob, errors.NotReady),
)
async def follow_job(
    job: Annotated[Job, Depends(_job)],
    service: ServiceDep,
    last_event_id: Annotated[str | None, Header(description="`id` of the last event seen.")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: `progress` at first and after each change, then `succeeded`, `failed` or `cancelled`.

    Each carries the job. Who comes back with `Last-Event-ID` is told only what is new. The stream ends with the job, or
    when the service stops.
    """
    async for now in service.jobs.watch(job):
        event_id = _event_id(now)
        if event_id != last_event_id or now.status.finished:
            name = now.status.value if now.status.finished else "progress"
            yield ServerSentEvent(data=described(now), event=name, id=event_id, retry=RECONNECT_MS)


def _event_id(job: Job) -> str:
    """Names the state of a job, so that any server can tell whether a client has seen it."""
    return f"{job.status.value}-{job.done}-{job.total}"


@router.delete(
    "/{id}",
    name="cancel_job",
    summary="Cancel a job",
    response_model=JobAnswer,
    responses=refusals(EXAMPLE, errors.InvalidRequest, errors.UnknownJob, errors.JobFinished, errors.NotReady),
)
async def cancel_job(job_id: JobId, service: ServiceDep) -> JSONResponse:
    """The job, cancelled. What it is computing is stopped, also within native code. Once more does no harm."""
    return JSONResponse(described(await service.jobs.cancel(job_id)))
