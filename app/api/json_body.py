"""Reads JSON strictly: exactly one value, and each key of an object once."""

import asyncio
import codecs
from typing import Any, TypeVar

from fastapi import Request
from jiter import from_json
from pydantic import BaseModel, ValidationError

from app.api.errors import LONGEST_TOKEN, faults_of, in_body
from app.collector import uncollected
from app.errors import InvalidRequest, MalformedJson

MOST_VALUES = 100_000
"""Most values of one JSON text, those in lists and objects included. A value takes up to about 250 bytes of memory,
however short it is written."""

READ_AT_ONCE = 64_000
"""Bytes of JSON that are read on the event loop; more is read in a thread."""

Model = TypeVar("Model", bound=BaseModel)


def read_json(body: bytes) -> Any:
    """The value of a JSON text.

    Raises
    ------
    MalformedJson : not JSON in UTF-8, nested more than 200 deep, half of a surrogate pair, or a key twice
    InvalidRequest : more than `MOST_VALUES` values
    """
    # As editors and shells of Windows write it.
    body = body.removeprefix(codecs.BOM_UTF8)
    # Before anything is built of it. Each value begins the text or a list, or follows a comma or the brace of its
    # object; commas and brackets in texts are counted too, of which no valid request has so many.
    if body.count(b",") + body.count(b"[") + body.count(b"{") >= MOST_VALUES:
        raise InvalidRequest(
            f"The request body has more than {MOST_VALUES:,} values (commas and opening brackets are counted). A batch "
            "of so many is sent as application/x-ndjson."
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
    """The value of a request's body. Errors as `read_json`."""
    body = await request.body()
    if len(body) <= READ_AT_ONCE:
        return read_json(body)
    return await asyncio.to_thread(read_json, body)


def validated(schema: type[Model], value: Any) -> Model:
    """A JSON value as its schema reads it. Raises `InvalidRequest` with every fault."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(faults=faults_of(in_body(error), value)) from None
