"""POST /models/{id}/comparisons and /reports: what a new version changes, and who has recourse; always jobs."""

from typing import Annotated

from fastapi import APIRouter, Body, Path
from starlette.responses import Response

from app import errors
from app.api.deps import ModelName, ServiceDep
from app.api.error_docs import BODY, JOB, refusals
from app.api.job_responses import ACCEPTED, answer_later
from app.api.prefer import PreferDep
from app.api.strict_route import guarded
from app.errors import BodyTooLarge
from app.keys.scopes import Scope
from app.portfolio.report_schema import REPORT_EXAMPLES, ReportAnswer, ReportRequest
from app.portfolio.schema import COMPARISON_EXAMPLES, ComparisonAnswer, ComparisonRequest

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
)
async def compare(
    model_id: Annotated[
        str,
        Path(
            alias="id",
            description="Name of the model, without a version.",
            openapi_examples={"demo": {"value": "consumer-loan"}},
        ),
    ],
    request: Annotated[ComparisonRequest, Body(openapi_examples=COMPARISON_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> Response:
    """Decisions, recourse gained and lost, costs, and answers of the baseline that the candidate refuses; a job.

    `beyond_retraining` says whether it refuses more of them than a mere retraining of the baseline does. `GET
    /jobs/{id}/results` returns the figures, and with `Accept: application/x-ndjson` a line for each record, without
    values of features. Answers of a comparison are no promises: the ledger has only the digest of the figures. Records
    count against the budget of the key.
    """
    rows, most = request.rows(), service.settings.max_batch_rows
    if rows is not None and len(rows) > most:
        raise BodyTooLarge(f"A comparison must not have more than {most:,} records.")
    versions = request.baseline, request.candidate
    job = await service.comparisons.start(model_id, *versions, request.question(), rows, request.fail_if)
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
)
async def report(
    name: ModelName,
    request: Annotated[ReportRequest, Body(openapi_examples=REPORT_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> Response:
    """Of everybody whom the model refuses: who has recourse, at what cost, who has none, and what stands in the way.

    Also for whom it is harder, beyond chance and at equal score, where `groups` asks. A job, as a comparison is: `GET
    /jobs/{id}/results` returns the figures, and with `Accept: application/x-ndjson` a line for each record.
    """
    rows, most = request.rows(), service.settings.max_batch_rows
    if rows is not None and len(rows) > most:
        raise BodyTooLarge(f"A report must not have more than {most:,} records.")
    job = await service.reports.start(name, request.question(), rows, request.period(), request.figures())
    return await answer_later(job, prefer, service)
