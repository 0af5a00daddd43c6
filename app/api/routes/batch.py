"""POST /recourse/batch: many applicants, in JSON or in lines of it, always a job."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.documented import BODY, refusals
from app.api.errors import faults_of
from app.api.examples import BATCH_EXAMPLES, BATCH_LINES
from app.api.json_route import guarded, read_json
from app.api.later import accepted
from app.api.media import JSON, NDJSON, media_type, require_plain
from app.api.routes.recourse import query_of
from app.api.schemas.batch import BatchCommon, BatchRequest, BatchRow
from app.api.schemas.jobs import JobAnswer
from app.errors import BodyTooLarge, InvalidRequest, RecourseError
from app.jobs.answer import Json
from app.service import BatchQuery
from app.store.keys import Scope

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

PATH = "/recourse/batch"

Model = TypeVar("Model", bound=BaseModel)


async def _query(request: Request, service: ServiceDep) -> BatchQuery:
    kind = media_type(request)
    if kind not in (JSON, NDJSON):
        raise errors.UnsupportedMediaType("The body of this request must be application/json or application/x-ndjson.")
    require_plain(request)
    read = _read_lines if kind == NDJSON else _read_whole
    # In a thread: a large body takes seconds.
    return await asyncio.to_thread(read, await request.body(), service.settings.max_batch_rows)


@router.post(
    PATH,
    name="batch",
    summary="What could each of many applicants change?",
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
            },
        }
    },
)
async def batch(query: Annotated[BatchQuery, Depends(_query)], service: ServiceDep) -> JSONResponse:
    """Always a job: it goes on whatever happens to the connection or the server, and can be cancelled.

    As `application/x-ndjson` the first line is what the applicants have in common, each further line one of them.

    `GET /jobs/{id}/results` gives one line for each applicant: the answer that `POST /recourse` would have given with
    the seed `seed + i`, apart from its `id` and times, or a problem document with its `reference`. A bad row never
    fails the others; pointers of its faults begin at the row. Applicants share model calls where that cannot change an
    answer. `deadline_ms` is for each applicant.
    """
    return accepted(await service.start_batch(query))


# --- reading ---------------------------------------------------------------------------------------------------------


def _read_whole(body: bytes, most_rows: int) -> BatchQuery:
    value = read_json(body)
    request = validated(BatchRequest, value)
    _refuse_many(len(request.applicants), most_rows)
    return BatchQuery(question=replace(query_of(request), store=request.store), rows=map(to_row, request.applicants))


def _read_lines(body: bytes, most_rows: int) -> BatchQuery:
    first, _, rest = body.partition(b"\n")
    request = validated(BatchCommon, read_json(first))
    _refuse_many(sum(1 for _ in _lines(rest)), most_rows)
    if not rest.strip():
        raise InvalidRequest("The first line must be followed by a line for each applicant.")
    return BatchQuery(question=replace(query_of(request), store=request.store), rows=map(line_to_row, _lines(rest)))


def _refuse_many(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        raise BodyTooLarge(f"A batch must not have more than {most_rows:,} applicants.")


def _lines(text: bytes) -> Iterator[bytes]:
    """The lines that are not empty, without a copy of them all."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        if line := text[start:end].strip():
            yield line
        start = end + 1


def line_to_row(line: bytes) -> Json:
    """An applicant in a line of JSON, or why it is none."""
    try:
        return to_row(read_json(line))
    except InvalidRequest as error:
        return _refused({}, error)


def to_row(value: Any) -> Json:
    """An applicant, or why the row is none."""
    try:
        return validated(BatchRow, value).model_dump()
    except InvalidRequest as error:
        return _refused(value, error)


def _refused(value: Any, error: RecourseError) -> Json:
    reference = value.get("reference") if isinstance(value, dict) else None
    known = isinstance(reference, str) and len(reference) <= 200 and reference.isprintable()
    return {"refused": error.to_dict(), "reference": reference if known else None}


def validated(schema: type[Model], value: Any) -> Model:
    """What a schema makes of a JSON value. Raises `InvalidRequest` with every fault."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        found = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        raise InvalidRequest(faults=faults_of(found, value)) from None
