"""POST /recourse/batch: many applicants, in JSON, in lines of it or in a table, always a job."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from app import errors
from app.api.bodies import CSV, JSON, NDJSON, validated
from app.api.deps import ServiceDep
from app.api.error_docs import BODY, refusals
from app.api.examples import BATCH_EXAMPLES, BATCH_LINES, BATCH_TABLE
from app.api.job_responses import accepted
from app.api.many_rows import OF_TABLES, ManyRows, refuse_many
from app.api.strict_route import guarded
from app.jobs.schema import JobAnswer
from app.keys.scopes import Scope
from app.questions.answers import Json
from app.questions.batch_schema import BatchCommon, BatchRequest, BatchRow, to_row

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

PATH = "/recourse/batch"


@router.post(
    PATH,
    name="create_batch",
    summary="Find recourse for many applicants",
    status_code=202,
    response_model=JobAnswer,
    responses={
        202: {
            "description": "The job. Its result has one line for each applicant, in the order of the request.",
            "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}},
        },
        **refusals(
            PATH,
            *BODY,
            errors.ConstraintClash,
            errors.UnknownModel,
            errors.ModelUnusable,
            errors.ModelQuarantined,
            errors.DailyBudgetSpent,
            errors.NotReady,
            errors.LedgerUnavailable,
        ),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"$ref": "#/components/schemas/BatchRequest"}, "examples": BATCH_EXAMPLES},
                NDJSON: {"schema": {"type": "string"}, "examples": BATCH_LINES},
                CSV: {"schema": {"type": "string"}, "examples": BATCH_TABLE},
            },
        }
    },
)
async def batch(
    request: Request,
    service: ServiceDep,
    model: Annotated[str | None, Query(description=f"{OF_TABLES} `model` of a JSON body.")] = None,
    method: Annotated[str | None, Query(description=f"{OF_TABLES} the name of the method.")] = None,
    future_validity: Annotated[float | None, Query(description=f"{OF_TABLES} as in `robustness`.")] = None,
    count: Annotated[int | None, Query(description=f"{OF_TABLES} `count` of a JSON body.")] = None,
    seed: Annotated[int | None, Query(description=f"{OF_TABLES} `seed` of a JSON body.")] = None,
    store: Annotated[bool | None, Query(description=f"{OF_TABLES} `store` of a JSON body.")] = None,
) -> JSONResponse:
    """The answer is always a job, which outlives connection and server.

    `application/x-ndjson` has what the applicants have in common on its first line, then one applicant (at most 1 MB) a
    line; `application/json` has at most 5 MB; `text/csv` has a column for each feature, and `reference`, and the query
    has what the applicants have in common.

    `GET /jobs/{id}/results` has a line for each applicant: the records and verdict of `POST /recourse` with the seed
    `seed + i`, or a problem document whose pointers begin at the row. A bad row never fails the others.
    `deadline_ms` is for each applicant.
    """
    query: dict[str, Any] = {"model": model, "count": count, "seed": seed, "store": store}
    query |= {"method": method and {"name": method}, "robustness": {"future_validity": future_validity}}
    most_rows = service.settings.max_batch_rows

    def whole(value: Any) -> tuple[BatchCommon, Iterable[Json]]:
        asked = validated(BatchRequest, value)
        refuse_many(len(asked.applicants), most_rows)
        return asked, map(to_row, asked.applicants)

    many = ManyRows(
        whole=whole, common=BatchCommon, row=BatchRow,
        features=lambda asked: service.models.find(asked.model, pointer="/model").space.schema,
    )  # fmt: skip
    async with many.read(request, query, most_rows) as (asked, rows):
        assert rows is not None, "a batch names no others"
        return accepted(await service.questions.submit_batch(asked.question(), asked.terms(), rows))
