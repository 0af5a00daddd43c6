"""Reads JSON strictly: exactly one value, and each key of an object once."""

import json
from collections import Counter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from app.api.errors import LONGEST_TOKEN, faults_of
from app.errors import InvalidRequest, MalformedJson

MOST_MEMBERS = 10_000
"""Most members of one JSON object."""

Model = TypeVar("Model", bound=BaseModel)


def read_json(body: bytes) -> Any:
    """The value of a JSON text.

    Raises
    ------
    MalformedJson : not JSON in UTF-8, nested more than 200 deep, half of a surrogate pair, or a key twice
    InvalidRequest : an object with more than `MOST_MEMBERS` members
    """
    try:
        # The stricter and faster of the two parsers decides what JSON is; the other one sees every key.
        from_json(body)
    except ValueError as error:
        raise MalformedJson(f"The request body is not JSON: {error}.") from None
    return json.loads(body, object_pairs_hook=_object)


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(members) > MOST_MEMBERS:
        raise InvalidRequest(f"An object in the request body has more than {MOST_MEMBERS:,} members.")
    found = dict(members)
    if len(found) < len(members):
        (key, _), *_ = Counter(key for key, _ in members).most_common(1)
        raise MalformedJson(f'An object in the request body has the key "{key[:LONGEST_TOKEN]}" twice.')
    return found


def validated(schema: type[Model], value: Any) -> Model:
    """A JSON value as its schema reads it. Raises `InvalidRequest` with every fault."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        found = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        raise InvalidRequest(faults=faults_of(found, value)) from None
