"""How errors look over HTTP: RFC 9457 problem documents, and one table from error class to status, title and remedy."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from app import errors
from app.errors import Fault, RecourseError
from app.observability import request_id
from app.recourse.features import escape
from app.registry.form_sentences import SENTENCES

MOST_FAULTS = 50
"""Faults listed in one answer; the number of all of them is in `detail`."""

LONGEST_TOKEN = 100
"""Keys of a request are repeated in pointers up to this length."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a class of errors means over HTTP: its status, its title, and how to remedy it."""

    status: int
    title: str
    remedy: str
    """How to resolve it."""


_OURS = "Report the request id to the operator; the log has the details."
_LATER = "Send the request again after the time in the Retry-After header."

MEANINGS: dict[type[RecourseError], Meaning] = {
    RecourseError: Meaning(500, "Error", _OURS),
    errors.InvalidRequest: Meaning(
        422, "Invalid request", "Correct the fields named in `errors`; /docs describes every field of every request."
    ),
    errors.MalformedJson: Meaning(
        400, "Malformed JSON", "Send one JSON value in UTF-8, each key of an object once, nested at most 200 deep."
    ),
    errors.InvalidRecord: Meaning(
        422, "Invalid record", "Correct the features named in `errors`; GET /models/{id}/schema lists the legal values."
    ),
    errors.ConstraintClash: Meaning(
        422,
        "Constraint clashes with the model",
        "A request may only tighten what the model's owner allows. Remove or narrow the constraints named in `errors`.",
    ),
    errors.UnsupportedMediaType: Meaning(
        415, "Unsupported media type", "Set the header Content-Type: application/json."
    ),
    errors.BodyTooLarge: Meaning(413, "Body too large", "Send fewer records at once."),
    errors.MalformedHttp: Meaning(400, "Malformed HTTP", "Send a request of HTTP/1.1, without TLS."),
    errors.AddressTooLong: Meaning(414, "Address too long", "Send what is long in the body, as /docs describes it."),
    errors.HeadersTooLarge: Meaning(431, "Headers too large", "Send fewer or shorter headers."),
    errors.RequestTimeout: Meaning(
        408, "Request timed out", "Send the head of a request within 10 seconds, and its body without long pauses."
    ),
    errors.IdempotencyKeyReused: Meaning(
        422, "Idempotency-Key used before", "Give each request an Idempotency-Key of its own, such as a UUID."
    ),
    errors.IdempotencyInProgress: Meaning(409, "First request in progress", _LATER),
    errors.KeyRequired: Meaning(
        401, "API key required", "Send the header Authorization: Bearer, with a key made by `recourse keys create`."
    ),
    errors.InvalidKey: Meaning(401, "Invalid API key", "Ask the operator for a key."),
    errors.InsufficientScope: Meaning(
        403, "Insufficient scope", "Use a key with one of the scopes that /docs lists for this operation."
    ),
    errors.TooManyRequests: Meaning(429, "Too many requests", _LATER),
    errors.DailyBudgetSpent: Meaning(
        429, "Daily budget spent", "Wait until midnight UTC, or ask the operator for a key with a larger budget."
    ),
    errors.UnknownKey: Meaning(404, "Unknown API key", "`recourse keys list` shows all of them."),
    errors.NotFound: Meaning(404, "Not found", "Look the address up in /docs."),
    errors.MethodNotAllowed: Meaning(
        405, "Method not allowed", "Use one of the methods in the Allow header; /docs lists every address."
    ),
    errors.TemplateFaulty: Meaning(
        503, "Faulty template", "The operator has to correct the file in RECOURSE_NOTICE_DIR that the detail names."
    ),
    errors.NoticeIncomplete: Meaning(
        409,
        "Letter incomplete",
        "The operator has to set what the detail names; `draft=true` shows the letter until then.",
    ),
    errors.RehearsalFailed: Meaning(
        409, "Future models could not be made", "The detail says why; correct the model's directory or the request."
    ),
    errors.RehearsalRunning: Meaning(409, "Future models are being made", "Wait for the other process to end."),
    errors.UnknownModel: Meaning(404, "Unknown model", "Choose one of the models that GET /models lists."),
    errors.SchemaDiffers: Meaning(
        422, "Schemas differ", "Compare versions whose features, levels and states are the same, in the same order."
    ),
    errors.UnknownRecourse: Meaning(
        404, "Unknown recourse", "Look it up by `reference`; recourse with `store: false` is not kept."
    ),
    errors.Erased: Meaning(410, "Erased", "Ask again with POST /recourse, if the applicant wants that."),
    errors.UnknownJob: Meaning(404, "Unknown job", "Choose one of the jobs that GET /jobs lists."),
    errors.JobFinished: Meaning(
        409, "Job finished", "GET /jobs/{id} shows how it ended; DELETE /jobs/{id}/results deletes what it holds."
    ),
    errors.JobUnfinished: Meaning(
        409, "Job not finished", "Ask again after the time in the Retry-After header, or follow GET /jobs/{id}/events."
    ),
    errors.JobCancelled: Meaning(409, "Job cancelled", "Send the request that started it again."),
    errors.NoRowAnswered: Meaning(
        422,
        "No row answered",
        "Read the problem of each line in the result of the job; correct the rows and send them again.",
    ),
    errors.ModelRefused: Meaning(422, "Model refused", "Correct the faults named in `errors` and register it again."),
    errors.ModelExists: Meaning(409, "Model exists", "Give the model a new version; versions are never overwritten."),
    errors.ModelUnusable: Meaning(
        503,
        "Model unusable",
        "The operator has to restore the model's files as they were registered, or install the library they need.",
    ),
    errors.ModelQuarantined: Meaning(
        503,
        "Model in quarantine",
        "A request after the time in `detail` tries it again. The operator has to examine the model, or whether the "
        "machine is too busy to load it in time; `recourse models release` ends the pause.",
    ),
    errors.ModelOutputInvalid: Meaning(
        502,
        "Invalid output of the model",
        "The operator has to examine the model; this service only reports its output.",
    ),
    errors.ModelUnavailable: Meaning(
        503, "Model unavailable", _LATER + " If it stays so, the operator has to look at the model's server."
    ),
    errors.BudgetExceeded: Meaning(
        422, "Query budget exceeded", "Send fewer records at once, or ask the model's owner for a larger budget."
    ),
    errors.DegenerateSurrogate: Meaning(500, "Degenerate surrogate", _OURS),
    errors.BoundaryNotFound: Meaning(500, "Boundary not found", _OURS),
    errors.DeadlineExceeded: Meaning(504, "Deadline exceeded", "Allow more time with `deadline_ms`."),
    errors.SolverFailed: Meaning(500, "Solver failed", _OURS),
    errors.LaneTimeout: Meaning(504, "Stopped at the time limit", "Send fewer records at once, or allow more time."),
    errors.LaneCrashed: Meaning(500, "Computation crashed", "Send the request again. If it crashes again: " + _OURS),
    errors.JobAbandoned: Meaning(
        500, "Job abandoned", "Send the request that started it again, once the service runs steadily. " + _OURS
    ),
    errors.StateUnusable: Meaning(
        503, "State cannot be written", "The operator has to give the service a directory that it may write."
    ),
    errors.Open: Meaning(
        500, "Service without access control", "The operator has to make a key, or listen on loopback only."
    ),
    errors.Misdirected: Meaning(
        421, "Misdirected request", "Use the address http://localhost or http://127.0.0.1, or make an API key."
    ),
    errors.Overloaded: Meaning(503, "Overloaded", _LATER),
    errors.TooManyConnections: Meaning(503, "Too many connections", _LATER + " Use one connection for many requests."),
    errors.NotReady: Meaning(
        503, "Not ready", "Wait until GET /health/ready answers 200; right after a start that takes a few seconds."
    ),
    errors.LedgerUnavailable: Meaning(
        503, "Ledger unavailable", _LATER + " If it goes on, the operator has to look at the database."
    ),
    errors.InternalError: Meaning(500, "Internal error", _OURS),
}
"""Every class of the error tree; a test looks for missing ones."""

RETRY_AFTER_S = 1

LATER = (
    errors.Overloaded,
    errors.TooManyConnections,
    errors.NotReady,
    errors.JobUnfinished,
    errors.ModelUnavailable,
    errors.IdempotencyInProgress,
    errors.TooManyRequests,
    errors.DailyBudgetSpent,
)
"""Temporary errors; the response says when to retry."""

PROBLEM_JSON = "application/problem+json"


def problem(error: RecourseError, instance: str, *, request: str | None = None) -> dict[str, Any]:
    """The problem document for an error that occurred while a request was answered.

    Parameters
    ----------
    instance : path of the request
    request : id of the request; None for the current one
    """
    meaning = MEANINGS[type(error)]
    document: dict[str, Any] = {
        "type": f"/problems/{error.code}",
        "title": meaning.title,
        "status": meaning.status,
        "detail": error.detail,
        "instance": instance,
        "request_id": request or request_id.get(),
        "code": error.code,
    }
    if error.faults:
        document["errors"] = [asdict(fault) for fault in error.faults[:MOST_FAULTS]]
        if len(error.faults) > MOST_FAULTS:
            document["detail"] += f" The first {MOST_FAULTS} of {len(error.faults)} faults are listed."
    return document


def problem_response(error: RecourseError, instance: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The HTTP response with the problem document of an error; `instance` is the path of the request."""
    document = problem(error, instance)
    response = JSONResponse(document, document["status"], headers, media_type=PROBLEM_JSON)
    if isinstance(error, LATER):
        response.headers["Retry-After"] = str(math.ceil(error.facts.get("retry_after_s") or RETRY_AFTER_S))
    if isinstance(error, errors.KeyRequired | errors.InsufficientScope):
        response.headers["WWW-Authenticate"] = _challenge(error)
    if isinstance(error, errors.RequestTimeout):
        response.headers["Connection"] = "close"
    return response


def _challenge(error: errors.KeyRequired | errors.InsufficientScope) -> str:
    """The challenge for a missing or insufficient key, as in RFC 6750."""
    realm = 'Bearer realm="recourse"'
    if isinstance(error, errors.InsufficientScope):
        return f'{realm}, error="insufficient_scope", scope="{" ".join(error.facts["scopes"])}"'
    return f'{realm}, error="invalid_token"' if isinstance(error, errors.InvalidKey) else realm


Further = Callable[[Request, object, Collection[object]], list[Fault]]
"""Finds further faults of a body, apart from the members of these names, which have the wrong form."""


def install(app: FastAPI, further: Further) -> None:
    """Let the application answer every error with a problem document.

    If some members of a request's body have the wrong form, `further` returns the faults of the other members.
    """

    async def on_validation_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        faults = faults_of(found, error.body)
        faults += further(request, error.body, {part for detail in found for part in detail["loc"][1:2]})
        return problem_response(errors.InvalidRequest(faults=faults), request.url.path)

    app.add_exception_handler(RecourseError, _on_recourse_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


async def _on_recourse_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RecourseError)
    return problem_response(error, request.url.path)


_FRAMEWORK_ERRORS: dict[int, type[RecourseError]] = {
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    413: errors.BodyTooLarge,
}


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    error_class = _FRAMEWORK_ERRORS.get(error.status_code, errors.InternalError)
    headers = dict(error.headers or {})
    if error_class is errors.MethodNotAllowed and _names_no_recourse(request):
        return problem_response(errors.NotFound(NO_SUCH_QUESTION), request.url.path)
    if "Allow" in headers:
        # The framework names the methods of one route; an address may have several.
        described = request.app.openapi()["paths"].get(getattr(request.scope.get("route"), "path", None), {})
        headers["Allow"] = ", ".join(sorted(map(str.upper, described))) or headers["Allow"]
    return problem_response(error_class(), request.url.path, headers)


def _names_no_recourse(request: Request) -> bool:
    """Whether the address is one of a recourse in form alone, as a misspelt /recourse/frontier is."""
    path: str = request.scope["path"]
    return path.startswith("/recourse/") and not path.startswith("/recourse/rec_") and path not in QUESTIONS


QUESTIONS = ("/recourse/batch", "/recourse/correct", "/recourse/frontier", "/recourse/offers", "/recourse/validity")

NO_SUCH_QUESTION = f"There is no such address. Questions are asked at /recourse, {', '.join(QUESTIONS)}."


# --- validation ------------------------------------------------------------------------------------------------------

_SENTENCES = SENTENCES | {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "unknown_field": "is not a field here; the fields are {fields}",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "timezone_aware": "must name its time zone, as in 2030-01-31T12:00:00Z",
    "datetime_parsing": "must be a time, as in 2030-01-31T12:00:00Z",
    "datetime_from_date_parsing": "must be a time, as in 2030-01-31T12:00:00Z",
    "datetime_object_invalid": "must be a time, as in 2030-01-31T12:00:00Z",
    "not_a_moment": "must be a time, as in 2030-01-31T12:00:00Z",
    "not_a_number": "must be a number",
    "too_short": "must not be empty",
    "too_many": "must have at most {most} entries",
    "not_printable": "must consist of printable characters",
    "none_of": "must be an object with one of the fields {names}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "is missing",
}
"""Sentences for pydantic's error types: those of manifests, but for what a request writes in another way.

Pydantic's own may repeat rejected values, which are applicant data.
"""


def in_body(error: ValidationError) -> list[dict[str, Any]]:
    """The details of a validation error; as in FastAPI, ``body`` is the first part of each location."""
    return [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]


def faults_of(details: Sequence[Mapping[str, Any]], body: object) -> list[Fault]:
    """The faults in the details of a validation error: one for each place, with a JSON pointer into the request's body.

    Where a value may have one of several types, and one type fits apart from faults inside the value, only those inner
    faults are listed.
    """
    faults: dict[str, list[str]] = {}
    of_type: dict[str, bool] = {}
    for found in details:
        pointer = _pointer(found, body)
        of_type[pointer] = of_type.get(pointer, True) and found["type"].endswith("_type")
        sentences = faults.setdefault(pointer, [])
        sentence = _SENTENCES.get(found["type"], "is not valid").format_map(found.get("ctx", {}))
        if found["loc"][0] == "query":
            sentence = f"the query parameter {found['loc'][1]} {sentence}"
        if sentence not in sentences:
            sentences.append(sentence)
    fitting = {pointer.rpartition("/")[0] for pointer in faults if pointer}
    return [
        Fault(pointer, " or ".join(sentences))
        for pointer, sentences in faults.items()
        if not (of_type[pointer] and pointer in fitting)
    ]


def _pointer(found: Mapping[str, Any], body: object) -> str:
    """The pointer of a fault: those parts of pydantic's location that exist in the body, and a key that is missing.

    The first part says that it is the body; others name members of unions and the like, which are not in the document.
    """
    tokens: list[str] = []
    value = body
    for part in found["loc"][1:]:
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            value = value[part]
            tokens.append(str(part))
    if found["type"] == "missing":
        tokens.append(str(found["loc"][-1]))
    elif found["type"].startswith("union_tag"):
        tokens.append(found["ctx"]["discriminator"].strip("'"))
    return "".join(f"/{escape(token[:LONGEST_TOKEN])}" for token in tokens)
