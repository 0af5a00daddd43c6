"""Bodies of requests: their media type, strict JSON, and lines that are stored in a file as they come."""

import asyncio
import codecs
import tempfile
from contextlib import suppress
from io import BufferedRandom
from typing import Any, TypeVar

from fastapi import Request
from jiter import from_json
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers

from app.api.deps import service_of
from app.api.errors import LONGEST_TOKEN, faults_of, in_body
from app.collector import uncollected
from app.errors import BodyTooLarge, InvalidRequest, MalformedJson, StateUnusable, UnsupportedMediaType
from app.store.state import spool_directory

JSON = "application/json"

NDJSON = "application/x-ndjson"

CSV = "text/csv"


def media_type(headers: Headers) -> str:
    """The media type that a request's headers declare for its body, in lower case and without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def require_plain(request: Request) -> None:
    """Raise `UnsupportedMediaType` if the headers declare the body as compressed, or in another encoding than UTF-8."""
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise UnsupportedMediaType(
            f"The body must not be compressed; its Content-Encoding is {coding[:LONGEST_TOKEN]}."
        )
    parameters = (one.partition("=") for one in request.headers.get("content-type", "").split(";")[1:])
    for name, _, value in parameters:
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType(f"The body must be in UTF-8; its charset is {charset[:LONGEST_TOKEN]}.")


# --- JSON: exactly one value, and each key of an object once ---

MOST_VALUES = 100_000
"""Most values of one JSON text, those in lists and objects included. A value takes up to about 250 bytes of memory,
however short it is written."""

MANY = (
    "POST /recourse/batch and POST /models/{id}/reports take many applicants as application/x-ndjson, the commands "
    "`recourse report` and `recourse compare` with --data FILE."
)
"""Where to go with more applicants than one body of JSON can have."""

READ_AT_ONCE = 64_000
"""Bytes of JSON that are read on the event loop; more is read in a thread."""

Model = TypeVar("Model", bound=BaseModel)


def read_json(body: bytes) -> Any:
    """The value of a JSON text.

    Raises
    ------
    MalformedJson : the text is not JSON in UTF-8, is nested more than 200 deep, has half of a surrogate pair, or has an
        object with the same key twice
    InvalidRequest : the text has more than `MOST_VALUES` values
    """
    # As editors and shells of Windows write it.
    body = body.removeprefix(codecs.BOM_UTF8)
    # Before anything is built of it. Each value begins the text or a list, or follows a comma or the brace of its
    # object; commas and brackets in texts are counted too, of which no valid request has so many.
    if body.count(b",") + body.count(b"[") + body.count(b"{") >= MOST_VALUES:
        raise InvalidRequest(
            f"The request body has more than {MOST_VALUES:,} values (commas and opening brackets are counted). {MANY}"
        )
    with uncollected():
        try:
            return from_json(body, catch_duplicate_keys=True)
        except ValueError as error:
            fault = str(error)
            if len(fault) > 2 * LONGEST_TOKEN:  # it repeats a key in full, and ends with its place
                fault = f"{fault[:LONGEST_TOKEN]}…{fault[-LONGEST_TOKEN:]}"
            raise MalformedJson(f"The request body is not JSON: {fault}.") from None


async def read_body(request: Request) -> Any:
    """The value of a request's JSON body.

    Raises `MalformedJson`, or `InvalidRequest` where the body has more than `MOST_VALUES` values.
    """
    body = await request.body()
    if len(body) <= READ_AT_ONCE:
        return read_json(body)
    return await asyncio.to_thread(read_json, body)


def validated(schema: type[Model], value: Any) -> Model:
    """An instance of `schema`, made from a JSON value. Raises `InvalidRequest` with every fault of the value."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(faults=faults_of(in_body(error), value)) from None


# --- lines: in a file without a name, never whole in memory ---

LONGEST_LINE = 1_000_000
"""Bytes of one line."""

WRITTEN_AT_ONCE = 1_000_000
"""Bytes that are collected before they are written."""

_KEY = "spooled"


async def spooled(request: Request) -> BufferedRandom:
    """A file that holds the body of a request, positioned at its start; the caller must later call `close_spooled`.

    Raises
    ------
    BodyTooLarge : the body, or one of its lines, is too large
    StateUnusable : the body cannot be stored
    """
    try:
        if _KEY not in request.scope:
            directory = spool_directory(service_of(request).settings)
            request.scope[_KEY] = await asyncio.to_thread(tempfile.TemporaryFile, dir=directory)
            await _store(request, request.scope[_KEY])
        file: BufferedRandom = request.scope[_KEY]
        file.seek(0)  # writes what is in its buffer
    except OSError as error:
        raise StateUnusable(f"The body of the request cannot be stored: {error.strerror}.") from None
    return file


def close_spooled(request: Request) -> None:
    """Close and remove the file that `spooled` has made for a request; nothing happens if there is none."""
    if (file := request.scope.pop(_KEY, None)) is not None:
        # What could not be written is in its buffer still, and the request was refused for it.
        with suppress(OSError):
            file.close()


async def _store(request: Request, file: BufferedRandom) -> None:
    waiting, line = bytearray(), 0
    async for part in request.stream():
        first, *others = map(len, part.split(b"\n"))
        if max(line + first, *others, 0) > LONGEST_LINE:
            raise BodyTooLarge(f"A line must not exceed {LONGEST_LINE:,} bytes.")
        line = others[-1] if others else line + first
        waiting += part
        if len(waiting) >= WRITTEN_AT_ONCE or not part:
            await asyncio.to_thread(file.write, bytes(waiting))
            waiting.clear()
