"""What the OpenAPI description says about answers that are errors."""

from collections import defaultdict
from typing import Any

from app import errors
from app.api.errors import MEANINGS, PROBLEM_JSON
from app.errors import RecourseError

BODY = (
    errors.MalformedJson,
    errors.BodyTooLarge,
    errors.UnsupportedMediaType,
    errors.InvalidRequest,
)
"""How a body can be refused, before anybody looks at what it asks for."""

LANE = (errors.Overloaded, errors.LaneCrashed)
"""How a computation can fail."""

Responses = dict[int | str, dict[str, Any]]


def refusals(*classes: type[RecourseError]) -> Responses:
    """The `responses` of a route that can fail with these errors; every route can fail with an internal one."""
    by_status: defaultdict[int, list[type[RecourseError]]] = defaultdict(list)
    for error_class in (*classes, errors.InternalError):
        by_status[MEANINGS[error_class].status].append(error_class)
    return {status: _response(by_status[status]) for status in sorted(by_status)}


def _response(classes: list[type[RecourseError]]) -> dict[str, Any]:
    lines = [f"`{error_class.code}`: {(error_class.__doc__ or '').strip()}" for error_class in classes]
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": "\n\n".join(lines), "content": {PROBLEM_JSON: {"schema": schema}}}
