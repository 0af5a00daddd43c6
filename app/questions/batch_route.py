"""POST /recourse/batch: many applicants, in JSON, in lines of it or in a table, always a job."""

import asyncio
import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import IO, Annotated, Any, TypeAlias
from weakref import WeakValueDictionary

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from app import errors
from app.api.bodies import CSV, JSON, NDJSON, media_type, read_json, require_plain, spooled, validated
from app.api.deps import ServiceDep
from app.api.error_docs import BODY, refusals
from app.api.examples import BATCH_EXAMPLES, BATCH_LINES, BATCH_TABLE
from app.api.job_responses import accepted
from app.api.strict_route import guarded
from app.api.table_rows import CsvTable, timely
from app.errors import BodyTooLarge, InvalidRequest
from app.jobs.schema import JobAnswer
from app.keys.scopes import Scope
from app.pool.turns import caller
from app.questions.batch_schema import BatchCommon, BatchRequest, line_to_row, to_row
from app.questions.question import Question, Rows, Terms
from app.service import Service

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))

PATH = "/recourse/batch"

LARGEST_WHOLE = 5_000_000
"""Bytes of a batch that is one JSON text, which is read as a whole; lines are read one by one."""

OF_TABLES = "Of a body in `text/csv`:"

Batch: TypeAlias = tuple[Question, Terms, Rows]
"""What the applicants have in common, and the applicants."""


def limits(max_bytes: int) -> dict[tuple[str, str], int]:
    """The largest body of a batch, in bytes, by the path and the media type of the request."""
    return {(PATH, NDJSON): max_bytes, (PATH, CSV): max_bytes, (PATH, JSON): min(max_bytes, LARGEST_WHOLE)}


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
    """The answer is always a job, which outlives the connection and restarts of the server.

    `application/x-ndjson` has what the applicants have in common on its first line, then one applicant (at most 1 MB) a
    line; `application/json` has at most 5 MB; `text/csv` has a column for each feature, and `reference`, and the query
    has what the applicants have in common.

    `GET /jobs/{id}/results` has a line for each applicant: the answer of `POST /recourse` with the seed `seed + i`,
    apart from `id` and times, or a problem document whose pointers begin at the row. A bad row never fails the others.
    `deadline_ms` is for each applicant.
    """
    kind = media_type(request.headers)
    if kind not in (JSON, NDJSON, CSV):
        raise errors.UnsupportedMediaType(f"The body of this request must be {JSON}, {NDJSON} or {CSV}.")
    require_plain(request)
    if kind == CSV:
        common: dict[str, Any] = {"model": model, "count": count, "seed": seed, "store": store}
        common |= {"method": method and {"name": method}, "robustness": {"future_validity": future_validity}}
        # A view of the file, since the reader of its text closes what it reads.
        file = io.BufferedReader(io.FileIO((await spooled(request)).fileno(), closefd=False))
        read: Read = partial(_read_table, file, common, service)
    elif request.query_params:
        raise InvalidRequest(f"Query parameters are for {CSV}; this body says what the applicants have in common.")
    else:
        lines = kind == NDJSON
        read = partial(_read_lines, await spooled(request)) if lines else partial(_read_whole, await request.body())
    batches: WeakValueDictionary[str, asyncio.Lock] = request.app.state.batches
    # One batch of a caller at a time, since its values take far more memory than its text.
    async with batches.setdefault(caller.get(), asyncio.Lock()):
        # In a thread: a large body takes seconds.
        asked = await asyncio.to_thread(read, service.settings.max_batch_rows)
        return accepted(await service.questions.submit_batch(*asked))


# --- reading ---------------------------------------------------------------------------------------------------------


Read: TypeAlias = Callable[[int], Batch]
"""Reads a batch with at most so many applicants."""


def _read_whole(body: bytes, most_rows: int) -> Batch:
    request = validated(BatchRequest, read_json(body))
    _refuse_many(len(request.applicants), most_rows)
    return request.question(), request.terms(), map(to_row, request.applicants)


def _read_lines(file: IO[bytes], most_rows: int) -> Batch:
    request = validated(BatchCommon, read_json(file.readline()))
    rows_at = file.tell()
    count = sum(1 for _ in islice(_lines(file), most_rows + 1))
    _refuse_many(count, most_rows)
    if not count:
        raise InvalidRequest("The first line must be followed by a line for each applicant.")
    file.seek(rows_at)
    return request.question(), request.terms(), map(line_to_row, _lines(file))


def _read_table(file: IO[bytes], common: dict[str, Any], service: Service, most_rows: int) -> Batch:
    request = validated(BatchCommon, {name: value for name, value in common.items() if value is not None})
    table = CsvTable(file, service.models.find(request.model, pointer="/model").space.schema, most_rows)
    _refuse_many(table.count, most_rows)
    if not table.count:
        raise InvalidRequest("The headings must be followed by a line for each applicant.")
    return request.question(), request.terms(), table.rows()


def _refuse_many(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        raise BodyTooLarge(f"A batch must not have more than {most_rows:,} applicants.")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines that are not empty."""
    return filter(None, map(bytes.strip, timely(file)))
