"""POST /recourse/batch: many applicants, in JSON or in lines of it, always a job."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.error_docs import BODY, refusals
from app.api.examples import BATCH_EXAMPLES, BATCH_LINES
from app.api.job_responses import accepted
from app.api.json_body import read_json, validated
from app.api.media_type import JSON, NDJSON, media_type, require_plain
from app.api.schemas.batch import BatchCommon, BatchRequest, line_to_row, to_row
from app.api.schemas.jobs import JobAnswer
from app.api.schemas.recourse import question_of, terms_of
from app.api.strict_route import guarded
from app.compute.messages import Question
from app.errors import BodyTooLarge, InvalidRequest
from app.service import Rows, Terms
from app.store.keys import Scope

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

PATH = "/recourse/batch"

Batch: TypeAlias = tuple[Question, Terms, Rows]
"""What the applicants have in common, and the applicants."""


async def _read(request: Request, service: ServiceDep) -> Batch:
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
async def batch(asked: Annotated[Batch, Depends(_read)], service: ServiceDep) -> JSONResponse:
    """Always a job: it survives the connection and restarts of the server, and can be cancelled.

    As `application/x-ndjson` the first line is what the applicants have in common, each further line one applicant.

    `GET /jobs/{id}/results` returns one line for each applicant: the answer of `POST /recourse` with the seed
    `seed + i`, apart from its `id` and times, or a problem document with its `reference`. A bad row never fails the
    others; pointers of its faults begin at the row. Applicants share model calls where that cannot change an answer.
    `deadline_ms` applies to each applicant.
    """
    return accepted(await service.submit_batch(*asked))


# --- reading ---------------------------------------------------------------------------------------------------------


def _read_whole(body: bytes, most_rows: int) -> Batch:
    value = read_json(body)
    request = validated(BatchRequest, value)
    _refuse_many(len(request.applicants), most_rows)
    return question_of(request), terms_of(request), map(to_row, request.applicants)


def _read_lines(body: bytes, most_rows: int) -> Batch:
    first, _, rest = body.partition(b"\n")
    request = validated(BatchCommon, read_json(first))
    _refuse_many(sum(1 for _ in _lines(rest)), most_rows)
    if not rest.strip():
        raise InvalidRequest("The first line must be followed by a line for each applicant.")
    return question_of(request), terms_of(request), map(line_to_row, _lines(rest))


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
