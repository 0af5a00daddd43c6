"""The ledger: recourse that was given, and whether it is still valid."""

import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app import errors
from app.api import paging
from app.api.bodies import CSV, NDJSON
from app.api.deps import RECOURSE_EXAMPLE, RecourseId, ServiceDep, model_path
from app.api.error_docs import BODY, JOB, LANE, refusals
from app.api.examples import AUDIT_EXAMPLES, VERIFY_EXAMPLES
from app.api.job_responses import ACCEPTED, answer_later, described
from app.api.paging import Cursor, Limit, VersionFilter
from app.api.prefer import DIRECT, PreferDep
from app.api.strict import Moment
from app.api.strict_route import guarded
from app.api.table_rows import as_texts
from app.jobs.ids import RECOURSE_ID
from app.jobs.job import JOB_ID, Job, JobStatus
from app.keys.scopes import Scope
from app.ledger.schema import AuditAnswer, AuditList, AuditRequest, GivenList, Tombstone, VerifyAnswer, VerifyRequest
from app.questions.answers import Json, encoded
from app.questions.schema import RecourseAnswer, Reference
from app.recourse.result import Status

COLUMNS = ("id", "reference", "status", "model", "version", "sha256", "created_at", "expires_at", "kept")


def _lines(found: Sequence[Json]) -> bytes:
    return b"".join(encoded(one) + b"\n" for one in found)


def _table(found: Sequence[Json]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    for one in found:
        model = one["model"]
        row = {**one, "model": model["id"], "version": model["version"], "sha256": model["sha256"]}
        writer.writerow(as_texts({**row, "kept": {True: "true", False: "false"}.get(one["kept"])}))
    return text.getvalue().encode()


EXPORTS: Mapping[str, tuple[bytes, Callable[[Sequence[Json]], bytes]]] = {
    NDJSON: (b"", _lines),
    CSV: (",".join(COLUMNS).encode() + b"\r\n", _table),
}
"""By media type: what the export begins with, and what writes some recourses of it."""


router = APIRouter(tags=["ledger"], route_class=guarded(Scope.RECOURSE, Scope.AUDIT))
erasing = APIRouter(route_class=guarded(Scope.RECOURSE))
auditing = APIRouter(route_class=guarded(Scope.AUDIT))

ModelId = Annotated[
    str, model_path("Name of the model, without a version: an audit covers the promises of all its versions.")
]

AUDITED = ("promises", "unchecked", "still_valid", "broken")
"""Numbers of an audit in a list."""

READING = (errors.InvalidRequest, errors.UnknownRecourse, errors.Erased, errors.LedgerUnavailable)
"""How looking up one recourse can fail."""


@router.get(
    "/recourse",
    name="list_recourse",
    summary="List recourse, newest first",
    response_model=GivenList,
    responses={
        200: {
            "description": "A page; with `Accept: application/x-ndjson` or `text/csv` all that is found, streamed.",
            "content": {NDJSON: {"schema": {"type": "string"}}, CSV: {"schema": {"type": "string"}}},
        },
        **refusals("/recourse", errors.InvalidRequest, errors.LedgerUnavailable),
    },
)
async def list_recourse(
    request: Request,
    service: ServiceDep,
    reference: Annotated[Reference | None, Query(description="Only recourse with this `reference`.")] = None,
    job: Annotated[
        str | None,
        Query(description="Only recourse that this job has computed, also a batch that was cancelled.", max_length=40),
    ] = None,
    model: Annotated[str | None, Query(description="Only recourse of this model.", max_length=200)] = None,
    version: VersionFilter = None,
    status: Annotated[Status | None, Query(description="Only recourse with this outcome.")] = None,
    kept: Annotated[
        bool | None,
        Query(
            description="Only recourse of which the version that was asked last still accepts every way (`true`) or "
            "not (`false`), of all versions but the one that answered."
        ),
    ] = None,
    since: Annotated[Moment | None, Query(description="Only recourse given at this moment or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only recourse given before this moment.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """A page of the ledger; pages neither overlap nor skip anything while new recourse is recorded.

    As `application/x-ndjson` or `text/csv`, all that is found, a line each, whatever `limit` is. Texts that a
    spreadsheet would compute begin with an apostrophe in the CSV.
    """
    paging.check(cursor, RECOURSE_ID)
    paging.require_model(version, model)
    which = {
        "reference": reference, "job": job, "model": model, "version": version, "status": status, "kept": kept,
        "since": since, "until": until, "before": cursor,
    }  # fmt: skip
    accepted = request.headers.get("accept", "")
    for media, (heading, lines) in EXPORTS.items():
        if media in accepted:
            parts = service.given.export(lines, **which)
            # The first of them before the response begins, so that an error is a problem document.
            return StreamingResponse(_joined(heading + await anext(parts), parts), media_type=media)
    found = await service.given.newest(limit + 1, **which)
    page, following = paging.split(found, limit, lambda entry: entry["id"])
    return JSONResponse({"recourse": page, "next_cursor": following})


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part


@router.get(
    "/recourse/{id}",
    name="get_recourse",
    summary="Get recourse",
    response_model=RecourseAnswer,
    responses=refusals(RECOURSE_EXAMPLE, *READING),
)
async def get_recourse(recourse_id: RecourseId, service: ServiceDep) -> Response:
    """The full answer, byte for byte as it was given with `detail: full`.

    Pending bounds of a plan are filled in once their job has computed them.
    """
    return Response(await service.given.answer(recourse_id), media_type="application/json")


@erasing.delete(
    "/recourse/{id}",
    name="erase_recourse",
    summary="Erase the personal data of recourse",
    response_model=Tombstone,
    responses={
        204: {"description": "It was not in the ledger; data about it elsewhere was deleted."},
        **refusals(
            RECOURSE_EXAMPLE, errors.InvalidRequest, errors.UnknownRecourse, errors.NotReady, errors.LedgerUnavailable
        ),
    },
)
async def erase_recourse(recourse_id: RecourseId, service: ServiceDep) -> Response:
    """Deletes record, reference, request and answer, also from the job that computed it. Idempotent.

    The ledger keeps id, model and times, so that its chain can be verified. For recourse with `store: false`, deletes
    jobs, lines of batches and answers kept for an `Idempotency-Key`; 404 where there are none.
    """
    tombstone = await service.given.erase(recourse_id)
    return Response(status_code=204) if tombstone is None else JSONResponse(tombstone)


@router.post(
    "/recourse/{id}/verify",
    name="verify_recourse",
    summary="Verify recourse again",
    dependencies=[DIRECT],
    response_model=VerifyAnswer,
    responses=refusals(
        f"{RECOURSE_EXAMPLE}/verify",
        *BODY,
        errors.UnknownRecourse,
        errors.Erased,
        errors.LedgerUnavailable,
        errors.UnknownModel,
        errors.ModelUnusable,
        errors.ModelOutputInvalid,
        *LANE,
        errors.LaneTimeout,
        errors.DailyBudgetSpent,
    ),
)
async def verify_recourse(
    recourse_id: RecourseId,
    service: ServiceDep,
    request: Annotated[VerifyRequest | None, Body(openapi_examples=VERIFY_EXAMPLES)] = None,
) -> JSONResponse:
    """The decision of a version of the model about every counterfactual of the answer.

    Without a body, the newest active version decides. `Prefer: respond-async` is refused.
    """
    return JSONResponse(await service.given.verify(recourse_id, None if request is None else request.model))


@auditing.post(
    "/models/{id}/audits",
    name="create_audit",
    summary="Audit a model version against past recourse",
    response_model=AuditAnswer,
    responses=ACCEPTED
    | refusals(
        "/models/consumer-loan/audits",
        *BODY,
        *JOB,
        errors.ModelOutputInvalid,
        errors.LedgerUnavailable,
    ),
)
async def audit(
    model_id: ModelId,
    request: Annotated[AuditRequest, Body(openapi_examples=AUDIT_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> Response:
    """Checks the candidate against all recourse that was found and has neither expired nor been erased. Always a job.

    With `Prefer: wait=N` the answer is the result, if it is ready in time. `GET /jobs/{id}/results` returns it in
    parts, or as lines of NDJSON: the summary, then one broken promise each.
    """
    asked = request.model_dump()
    job = await service.given.start_audit(model_id, asked.pop("model"), **asked)
    return await answer_later(job, prefer, service)


@auditing.get(
    "/models/{id}/audits",
    name="list_audits",
    summary="List audits of a model, newest first",
    response_model=AuditList,
    responses=refusals("/models/consumer-loan/audits", errors.InvalidRequest, errors.UnknownModel, errors.NotReady),
)
async def list_audits(
    model_id: ModelId,
    service: ServiceDep,
    version: Annotated[str | None, Query(description="Only audits of this version.", max_length=200)] = None,
    status: Annotated[JobStatus | None, Query(description="Only audits in this state.")] = None,
    since: Annotated[Moment | None, Query(description="Only audits submitted at this moment or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only audits submitted before this moment.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JSONResponse:
    """A page of the audits whose jobs are still there, as GET /jobs lists them."""
    paging.check(cursor, JOB_ID)
    found = await service.given.audits(
        model_id, limit + 1, version=version, status=status, since=since, until=until, before=cursor
    )
    page, following = paging.split(found, limit, lambda one: one[0].id)
    return JSONResponse({"audits": [_audited(*one) for one in page], "next_cursor": following})


def _audited(job: Job, summary: Json | None) -> Json:
    found = described(job)
    outline = {name: found[name] for name in ("id", "status", "created_at", "finished_at", "result")}
    numbers = {name: None if summary is None else summary[name] for name in AUDITED}
    return {**outline, "candidate": found["model"], **numbers}


router.include_router(erasing)
router.include_router(auditing)
