"""What the OpenAPI description says about answers that are errors."""

from collections import defaultdict
from http import HTTPStatus
from typing import Any

from app import errors
from app.api.errors import MEANINGS, PROBLEM_JSON, problem
from app.errors import Fault, RecourseError

BODY = (
    errors.MalformedJson,
    errors.BodyTooLarge,
    errors.UnsupportedMediaType,
    errors.InvalidRequest,
    errors.IdempotencyKeyReused,
    errors.IdempotencyInProgress,
)
"""How a body can be refused before its content is read."""

LANE = (errors.Overloaded, errors.LaneCrashed)
"""How a computation can fail."""

QUESTION = (
    errors.InvalidRecord,
    errors.UnknownModel,
    errors.ModelUnusable,
    errors.ModelQuarantined,
    errors.ModelOutputInvalid,
    errors.ModelUnavailable,
    *LANE,
    errors.LaneTimeout,
    errors.DailyBudgetSpent,
)
"""How a question about a record can fail, once its body is understood."""

JOB = (
    errors.UnknownModel,
    errors.ModelUnusable,
    errors.ModelQuarantined,
    errors.DailyBudgetSpent,
    errors.LaneCrashed,
    errors.LaneTimeout,
    errors.JobAbandoned,
    errors.NotReady,
)
"""How a job about a model can be refused, or fail."""

GATE = (
    errors.KeyRequired,
    errors.InvalidKey,
    errors.InsufficientScope,
    errors.TooManyRequests,
    errors.NotReady,
)
"""How a caller can be refused, before its request is read; `Misdirected` stands in the head of the description."""

Responses = dict[int | str, dict[str, Any]]


FAULTS = {
    errors.InvalidRecord: Fault("/applicant/age", "must be at least 18"),
    errors.ConstraintClash: Fault("/constraints/direction/age", "can only increase in this model"),
}
"""Faults in the examples."""

REQUEST_ID = "example-1"


def refusals(path: str, *classes: type[RecourseError]) -> Responses:
    """The `responses` of a route that can fail with the errors `classes`, or with an internal error as every route can.

    `path` is an address of the route, for the examples.
    """
    by_status: defaultdict[int, list[type[RecourseError]]] = defaultdict(list)
    for error_class in (*classes, errors.InternalError):
        by_status[MEANINGS[error_class].status].append(error_class)
    return {status: _response(path, status, by_status[status]) for status in sorted(by_status)}


def _response(path: str, status: int, classes: list[type[RecourseError]]) -> dict[str, Any]:
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "examples": {error_class.code: {"value": _example(path, error_class)} for error_class in classes},
    }
    return {"description": f"{HTTPStatus(status).phrase}.", "content": {PROBLEM_JSON: content}}


def _example(path: str, error_class: type[RecourseError]) -> dict[str, Any]:
    faults = [FAULTS[error_class]] if error_class in FAULTS else []
    return {**problem(error_class(faults=faults), path), "request_id": REQUEST_ID}
