"""POST /recourse/batch: many applicants, in JSON or in lines of it, always a job."""

import asyncio
from collections.abc import Callable, Iterator
from typing import IO, TypeAlias

from fastapi import APIRouter, Request
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
from app.api.spool import spooled
from app.api.strict_route import guarded
from app.compute.messages import Question
from app.errors import BodyTooLarge, InvalidRequest
from app.service import Rows, Terms
from app.store.keys import Scope

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

PATH = "/recourse/batch"

LARGEST_WHOLE = 5_000_000
"""Bytes of a batch that is one JSON text, which is read as a whole; lines are read one by one."""

Batch: TypeAlias = tuple[Question, Terms, Rows]
"""What the applicants have in common, and the applicants."""


def limits(max_bytes: int) -> dict[tuple[str, str], int]:
    """The largest body of each media type."""
    return {(PATH, NDJSON): max_bytes, (PATH, JSON): min(max_bytes, LARGEST_WHOLE)}


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
async def batch(request: Request, service: ServiceDep) -> JSONResponse:
    """Always a job: it survives the connection and restarts of the server, and can be cancelled.

    As `application/x-ndjson` the first line is what the applicants have in common, each further line (at most 1 MB) one
    applicant. As `application/json` a batch has at most 5 MB.

    `GET /jobs/{id}/results` returns one line for each applicant: the answer of `POST /recourse` with the seed
    `seed + i`, apart from its `id` and times, or a problem document with its `reference`. A bad row never fails the
    others; pointers of its faults begin at the row. Applicants share model calls where that cannot change an answer.
    `deadline_ms` applies to each applicant.
    """
    kind = media_type(request)
    if kind not in (JSON, NDJSON):
        raise errors.UnsupportedMediaType("The body of this request must be application/json or application/x-ndjson.")
    require_plain(request)
    read = _read_lines(await spooled(request)) if kind == NDJSON else _read_whole(await request.body())
    async with request.app.state.batch:
        # In a thread: a large body takes seconds.
        asked = await asyncio.to_thread(read, service.settings.max_batch_rows)
        return accepted(await service.submit_batch(*asked))


# --- reading ---------------------------------------------------------------------------------------------------------


Read: TypeAlias = Callable[[int], Batch]
"""Reads a batch with at most so many applicants."""


def _read_whole(body: bytes) -> Read:
    def read(most_rows: int) -> Batch:
        request = validated(BatchRequest, read_json(body))
        _refuse_many(len(request.applicants), most_rows)
        return question_of(request), terms_of(request), map(to_row, request.applicants)

    return read


def _read_lines(file: IO[bytes]) -> Read:
    def read(most_rows: int) -> Batch:
        request = validated(BatchCommon, read_json(file.readline()))
        rows_at = file.tell()
        count = sum(1 for _ in _lines(file))
        _refuse_many(count, most_rows)
        if not count:
            raise InvalidRequest("The first line must be followed by a line for each applicant.")
        file.seek(rows_at)
        return question_of(request), terms_of(request), map(line_to_row, _lines(file))

    return read


def _refuse_many(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        raise BodyTooLarge(f"A batch must not have more than {most_rows:,} applicants.")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines that are not empty."""
    return filter(None, map(bytes.strip, file))
