"""POST /models/{id}/comparisons and /reports: what a new version changes, and who has recourse; always jobs."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from app import errors
from app.api import paging
from app.api.bodies import CSV, JSON, NDJSON, validated
from app.api.deps import ModelId, ModelName, ServiceDep
from app.api.error_docs import BODY, JOB, refusals
from app.api.job_responses import ACCEPTED, answer_later, described
from app.api.many_rows import OF_TABLES, ManyRows, refuse_many
from app.api.page_form import Accept, PageForm, wants_page
from app.api.paging import Cursor, Limit
from app.api.prefer import PreferDep
from app.api.strict_route import guarded
from app.errors import InvalidRequest
from app.jobs.job import JOB_ID
from app.keys.scopes import Scope
from app.letters.markup import policy_of
from app.portfolio.comparison_page import comparison_page
from app.portfolio.report_page import page
from app.portfolio.report_schema import (
    REPORT_EXAMPLES,
    GroupedRow,
    ReportAnswer,
    ReportCommon,
    ReportList,
    ReportRequest,
    by_of,
)
from app.portfolio.schema import COMPARISON_EXAMPLES, ComparisonAnswer, ComparisonCommon, ComparisonRequest
from app.questions.answers import Json
from app.questions.batch_schema import BatchRow
from app.service import Service

SEED = f"{OF_TABLES} `seed` of a JSON body."

Asked = TypeVar("Asked", ComparisonRequest, ReportRequest)

REPORT = "job_01KAHQ0W3MZC9Y7T5X2V8RDB4E"


def _many(schema: str, examples: Json) -> Json:
    """The body of a request with many applicants, as OpenAPI describes it."""
    whole = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": examples}
    text = {"schema": {"type": "string"}}
    return {"requestBody": {"required": True, "content": {JSON: whole, NDJSON: text, CSV: text}}}


def _whole(schema: type[Asked], service: Service) -> Callable[[Any], tuple[Asked, list[Json] | None]]:
    """Reads a JSON value as a request with this schema, and as rows; None where it names other records."""

    def read(value: Any) -> tuple[Asked, list[Json] | None]:
        asked = validated(schema, value)
        rows = asked.rows()
        if rows is not None:
            refuse_many(len(rows), service.settings.max_batch_rows)
        return asked, rows

    return read


router = APIRouter(tags=["ledger"], route_class=guarded(Scope.AUDIT))


@router.post(
    "/models/{id}/comparisons",
    name="create_comparison",
    summary="Compare two versions of a model",
    response_model=ComparisonAnswer,
    responses=ACCEPTED
    | refusals(
        "/models/consumer-loan/comparisons",
        *BODY,
        errors.SchemaDiffers,
        errors.ConstraintClash,
        *JOB,
        errors.ModelOutputInvalid,
        errors.NoRowAnswered,
        errors.LedgerUnavailable,
    ),
    openapi_extra=_many("ComparisonRequest", COMPARISON_EXAMPLES),
)
async def compare(
    model_id: ModelId,
    request: Request,
    service: ServiceDep,
    prefer: PreferDep,
    baseline: Annotated[str | None, Query(description=OF_TABLES)] = None,
    candidate: Annotated[str | None, Query(description=OF_TABLES)] = None,
    fail_if: Annotated[list[str] | None, Query(description=OF_TABLES)] = None,
    seed: Annotated[int | None, Query(description=SEED)] = None,
) -> Response:
    """Start a job that compares decisions, recourse, costs and promises of two versions.

    `beyond_retraining`: whether the candidate refuses more of the baseline's answers than a mere retraining does. `GET
    /jobs/{id}/results` has the figures or, as `application/x-ndjson`, a line for each record without values of
    features. The ledger has a digest of the figures. Records count against the key's budget.
    """
    many = ManyRows(
        whole=_whole(ComparisonRequest, service), common=ComparisonCommon, row=BatchRow,
        features=lambda asked: service.comparisons.version(model_id, asked.baseline, "/baseline").space.schema,
    )  # fmt: skip
    query = {"baseline": baseline, "candidate": candidate, "fail_if": fail_if, "seed": seed}
    async with many.read(request, query, service.settings.max_batch_rows) as (asked, rows):
        versions = asked.baseline, asked.candidate
        job = await service.comparisons.start(model_id, *versions, asked.question(), rows, asked.fail_if)
    return await answer_later(job, prefer, service)


@router.post(
    "/models/{id}/reports",
    name="create_report",
    summary="Report who has recourse",
    response_model=ReportAnswer,
    responses=ACCEPTED
    | refusals(
        "/models/consumer-loan/reports",
        *BODY,
        errors.ConstraintClash,
        *JOB,
        errors.ModelOutputInvalid,
        errors.NoRowAnswered,
        errors.LedgerUnavailable,
    ),
    openapi_extra=_many("ReportRequest", REPORT_EXAMPLES),
)
async def report(
    name: ModelName,
    request: Request,
    service: ServiceDep,
    prefer: PreferDep,
    by: Annotated[list[str] | None, Query(description=f"{OF_TABLES} a feature, `age:25,40` or column.")] = None,
    seed: Annotated[int | None, Query(description=SEED)] = None,
) -> Response:
    """Start a job that reports who of the refused has recourse, at what cost, who has none, and what stands in the way.

    With `groups`, also for whom it is harder. Results are as of a comparison. Many records, also of that,
    follow a request without `source` as `application/x-ndjson`, or are a table.
    """
    schema = service.models.find(name, include_inactive=True).space.schema
    many = ManyRows(
        whole=_whole(ReportRequest, service), common=ReportCommon, row=GroupedRow, features=lambda _: schema,
        groups=lambda asked: [one.column for one in asked.groups.by if one.column is not None],
    )  # fmt: skip
    try:
        groups = {"by": [by_of(text, [feature.name for feature in schema]) for text in by or ()]}
    except ValueError:
        raise InvalidRequest("Edges in `by` must be numbers with commas between, as in age:25,40.") from None
    async with many.read(request, {"seed": seed, "groups": groups}, service.settings.max_batch_rows) as (asked, rows):
        period = asked.period() if isinstance(asked, ReportRequest) else None
        job = await service.reports.start(name, asked.question(), rows, period, asked.figures())
    return await answer_later(job, prefer, service)


@router.get(
    "/models/{id}/reports",
    name="list_reports",
    summary="List reports on a model, newest first",
    response_model=ReportList,
    responses=refusals("/models/consumer-loan/reports", errors.InvalidRequest, errors.UnknownModel, errors.NotReady),
)
async def list_reports(
    model_id: ModelId, service: ServiceDep, limit: Limit = 50, cursor: Cursor = None
) -> JSONResponse:
    """Those whose jobs are still there, as of GET /jobs."""
    paging.check(cursor, JOB_ID)
    listed, following = paging.split(
        await service.reports.newest(model_id, limit + 1, cursor), limit, lambda job: job.id
    )  # fmt: skip
    return JSONResponse({"reports": [described(job) for job in listed], "next_cursor": following})


@router.get(
    "/reports/{id}",
    name="get_report",
    summary="Get a report or comparison",
    response_model=ReportAnswer | ComparisonAnswer,
    responses={
        200: {"description": "The figures, or the page.", "content": {"text/html": {"schema": {"type": "string"}}}},
        **refusals(
            f"/reports/{REPORT}",
            errors.InvalidRequest,
            errors.UnknownJob,
            errors.JobUnfinished,
            errors.JobCancelled,
            *JOB,
            errors.ModelOutputInvalid,
            errors.NoRowAnswered,
            errors.LedgerUnavailable,
        ),
    },
)
async def get_report(
    report_id: Annotated[str, Path(alias="id", openapi_examples={"report": {"value": REPORT}})],
    service: ServiceDep,
    form: PageForm = None,
    accept: Accept = "",
) -> Response:
    """What `GET /jobs/{id}/results` returns, or one file with plots and tables."""
    found = await service.reports.result(report_id)
    if wants_page(form, accept):
        written = comparison_page(found) if "comparison" in found else page(found)
        return HTMLResponse(written, headers={"Vary": "Accept", "Content-Security-Policy": policy_of(written)})
    return JSONResponse(found, headers={"Vary": "Accept"})
