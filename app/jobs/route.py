"""Jobs: list, follow, cancel and delete them, and fetch their results."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from jiter import from_json
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response, StreamingResponse

from app import errors
from app.api import paging
from app.api.bodies import NDJSON
from app.api.deps import ServiceDep
from app.api.error_docs import refusals
from app.api.errors import problem
from app.api.job_responses import MOST_LISTED, described, lines, page
from app.api.paging import Cursor, Limit, VersionFilter
from app.api.strict import Moment
from app.api.strict_route import guarded
from app.jobs.followers import Stream
from app.jobs.job import BATCH, JOB_ID, Job, JobStatus
from app.jobs.kinds import CLOSED, JOB_KINDS
from app.jobs.lines import REFUSED, line_of, refusal
from app.jobs.records import split
from app.jobs.schema import JobAnswer, JobList
from app.keys.scopes import Scope
from app.pool.turns import caller
from app.questions.encoded_answer import shown
from app.questions.use_cases import RECOURSE

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=guarded(Scope.RECOURSE, Scope.AUDIT))
deleting = APIRouter(route_class=guarded(Scope.RECOURSE))

EXAMPLE = "/jobs/job_01KAHQ0W3MZC9Y7T5X2V8RDB4E"

POSITION = re.compile("[0-9]{1,9}", re.ASCII)
"""What a cursor within a result looks like."""

RECONNECT_MS = 2000
"""Asked of clients whose event stream breaks off."""


def _known_kind(kind: str) -> str:
    if kind not in JOB_KINDS:
        raise PydanticCustomError("enum", "is not known", {"expected": ", ".join(JOB_KINDS)})
    return kind


KindName = Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra={"enum": list(JOB_KINDS)})]
"""A kind of jobs of this release."""

JobId = Annotated[str, Path(alias="id", openapi_examples={"job": {"value": EXAMPLE.rpartition("/")[2]}})]


@router.get(
    "",
    name="list_jobs",
    summary="List jobs, newest first",
    response_model=JobList,
    responses=refusals("/jobs", errors.InvalidRequest, errors.NotReady),
)
async def list_jobs(
    service: ServiceDep,
    kind: Annotated[KindName | None, Query(description="Only jobs that compute this.")] = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs in this state.")] = None,
    model: Annotated[str | None, Query(description="Only jobs that ask this model.", max_length=200)] = None,
    version: VersionFilter = None,
    since: Annotated[Moment | None, Query(description="Only jobs submitted at this moment or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only jobs submitted before this moment.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JSONResponse:
    """A page of jobs, newest first; pages neither overlap nor skip a job while new ones arrive."""
    paging.check(cursor, JOB_ID)
    paging.require_model(version, model)
    found = await service.jobs.newest(
        limit + 1, kind=kind, status=status, model=model, version=version, since=since, until=until, before=cursor
    )
    listed, following = paging.split(found, limit, lambda job: job.id)
    return JSONResponse({"jobs": [described(job) for job in listed], "next_cursor": following})


@router.get(
    "/{id}",
    name="get_job",
    summary="Get a job",
    response_model=JobAnswer,
    responses=refusals(EXAMPLE, errors.InvalidRequest, errors.UnknownJob, errors.NotReady),
)
async def get_job(job_id: JobId, service: ServiceDep) -> JSONResponse:
    """The job's progress, and how the job ended."""
    return JSONResponse(described(await service.jobs.get(job_id)))


@router.get(
    "/{id}/results",
    name="get_job_results",
    summary="Get the result of a job",
    responses={
        200: {
            "description": "The answer of the direct request. Of a batch, a line for each applicant: an answer, or a "
            "problem with the applicant's `reference`.",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
        **refusals(
            f"{EXAMPLE}/results",
            errors.InvalidRequest,
            errors.UnknownJob,
            errors.JobUnfinished,
            errors.JobCancelled,
            errors.ModelUnusable,
            errors.ModelOutputInvalid,
            errors.ModelUnavailable,
            errors.BudgetExceeded,
            errors.LaneTimeout,
            errors.LaneCrashed,
            errors.JobAbandoned,
            errors.NotReady,
            errors.LedgerUnavailable,
        ),
    },
)
async def get_job_results(
    job_id: JobId,
    request: Request,
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="Entries of a long list.")] = MOST_LISTED,
    cursor: Annotated[
        str | None, Query(description="`next_cursor` of the part before, where a result has one.", max_length=100)
    ] = None,
) -> Response:
    """The answer; of a failed job, its problem document.

    Of a batch, one line for each applicant, streamed, all or none. An audit has its broken promises in parts; as
    `application/x-ndjson`, one line with the rest, then one for each broken promise. A comparison or report has one for
    each record instead.
    """
    paging.check(cursor, POSITION)
    job = await service.jobs.get(job_id)
    wants_lines = NDJSON in request.headers.get("accept", "")
    if job.kind == BATCH or (job.kind in CLOSED and wants_lines):
        answers = service.jobs.lines(job, closed=job.kind in CLOSED)
        # The first of them before the response begins, so that an error is a problem document.
        first = await anext(answers)
        return StreamingResponse(_lines(job, first, answers), media_type=NDJSON)
    result = shown(job.kind, await service.jobs.result(job_id), job.detail)
    if wants_lines:
        return Response(await lines(service, job.kind, result), media_type=NDJSON)
    return JSONResponse(await page(service, job.kind, result, limit, int(cursor or 0)))


@deleting.delete(
    "/{id}/results",
    name="delete_job_results",
    summary="Delete an ended job",
    status_code=204,
    response_class=Response,
    responses={
        204: {"description": "The job is gone."},
        **refusals(
            f"{EXAMPLE}/results",
            errors.InvalidRequest,
            errors.UnknownJob,
            errors.JobUnfinished,
            errors.NotReady,
            errors.LedgerUnavailable,
        ),
    },
)
async def delete_job_results(job_id: JobId, service: ServiceDep) -> Response:
    """Deletes the request, the result and the job itself, however it ended. The ledger keeps its entries."""
    await service.given.delete_job(job_id)
    return Response(status_code=204)


async def _lines(job: Job, first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    # In a thread: a chunk of lines may take longer than the event loop should wait.
    yield await asyncio.to_thread(_as_asked, job, first)
    async for part in rest:
        yield await asyncio.to_thread(_as_asked, job, part)


def _as_asked(job: Job, text: str) -> str:
    """The same lines in the detail of the request, with problem documents for rows that have no answer."""
    if job.detail == "full" and REFUSED not in text:
        return text
    return "".join(_line(job, line) + "\n" for line in split(text))


def _line(job: Job, line: str) -> str:
    if (found := refusal(line)) is None:
        return line if job.detail == "full" else line_of(shown(RECOURSE, from_json(line.encode()), job.detail))
    error, reference = found
    return line_of({**problem(error, f"{job.address}/results", request=job.request_id), "reference": reference})


async def _followed(job_id: JobId, service: ServiceDep) -> tuple[Job, Stream]:
    # Asked before the stream begins, so that an unknown job is a 404, and a stream too many a 429.
    return await service.jobs.get(job_id), service.jobs.followers.stream(caller.get())


@router.get(
    "/{id}/events",
    name="follow_job",
    summary="Follow a job until it ends",
    response_class=EventSourceResponse,
    responses=refusals(f"{EXAMPLE}/events", errors.InvalidRequest, errors.UnknownJob, errors.NotReady),
)
async def follow_job(
    followed: Annotated[tuple[Job, Stream], Depends(_followed)],
    service: ServiceDep,
    last_event_id: Annotated[str | None, Header(description="`id` of the last event seen.")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: `progress` at first and after each change, then `succeeded`, `failed` or `cancelled`.

    Each event carries the job. A request with `Last-Event-ID` gets only newer events. The stream ends with the job, or
    when the service stops.
    """
    job, stream = followed
    try:
        async with aclosing(service.jobs.followers.follow(job)) as states:
            async for now in states:
                event_id = _event_id(now)
                if event_id != last_event_id or now.status.finished:
                    name = now.status.value if now.status.finished else "progress"
                    yield ServerSentEvent(data=described(now), event=name, id=event_id, retry=RECONNECT_MS)
    finally:
        service.jobs.followers.end(stream)


def _event_id(job: Job) -> str:
    """Names the state of a job, so that any server knows whether a client has seen it."""
    return f"{job.status.value}-{job.done}-{job.total}"


@router.delete(
    "/{id}",
    name="cancel_job",
    summary="Cancel a job",
    response_model=JobAnswer,
    responses=refusals(EXAMPLE, errors.InvalidRequest, errors.UnknownJob, errors.JobFinished, errors.NotReady),
)
async def cancel_job(job_id: JobId, service: ServiceDep) -> JSONResponse:
    """Cancels a job and stops its computation, also within native code. Idempotent."""
    return JSONResponse(described(await service.cancel(job_id)))


router.include_router(deleting)
