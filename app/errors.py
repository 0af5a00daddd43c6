"""All errors of the service, one class each.

The docstring of a class is its default message, ``code``, its name in lower case with hyphens, what clients switch on,
and facts are attributes. Nothing here knows about HTTP: ``app.api.errors`` maps each class to its status in one table.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in an input: the JSON pointer to its place, and a sentence that says what is wrong."""

    pointer: str
    """JSON pointer into the input; "" for the whole input."""
    detail: str

    def under(self, prefix: str) -> "Fault":
        """The same fault, with `prefix` (a JSON pointer) put before the pointer of the fault.

        It is then a fault of a larger input, which contains the original input at `prefix`.
        """
        return Fault(prefix + self.pointer, self.detail)


class RecourseError(Exception):
    """An error occurred."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, detail: str | None = None, *, faults: Iterable[Fault] = (), **facts: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.faults = tuple(faults)
        self.facts = facts
        super().__init__(self.detail)

    def __str__(self) -> str:
        return "\n".join([self.detail, *(f"  {fault.pointer or '/'}: {fault.detail}" for fault in self.faults)])

    @property
    def sentence(self) -> str:
        """The detail of the error, and then every fault, as one line."""
        return "; ".join([self.detail, *(f"{fault.pointer or '/'}: {fault.detail}" for fault in self.faults)])

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data that can go to another process; `from_dict` is the inverse."""
        return {
            "code": self.code,
            "detail": self.detail,
            "faults": [asdict(fault) for fault in self.faults],
            "facts": self.facts,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> "RecourseError":
        """The error from which `to_dict` made `data`."""
        error_class = ERRORS[data["code"]]
        return error_class(data["detail"], faults=[Fault(**fault) for fault in data["faults"]], **data["facts"])


# --- what a client sent ----------------------------------------------------------------------------------------------


class InvalidRequest(RecourseError):
    """The request does not match the schema of this endpoint."""


class MalformedJson(InvalidRequest):
    """The request body is not JSON."""


class InvalidRecord(InvalidRequest):
    """A record does not fit the feature schema of the model."""


class ConstraintClash(InvalidRequest):
    """A constraint of the request contradicts the actionability of the model; a request may only tighten it."""


class SchemaDiffers(RecourseError):
    """The two versions do not have the same features with the same values, so they cannot be compared."""


class UnsupportedMediaType(RecourseError):
    """The body of this request must be application/json."""


class BodyTooLarge(RecourseError):
    """The request body is larger than this service accepts."""


class MalformedHttp(RecourseError):
    """What was sent is not a request of HTTP/1.1."""


class AddressTooLong(RecourseError):
    """The address of the request is longer than 8 KiB."""


class HeadersTooLarge(RecourseError):
    """The request has more than 100 headers, or more than 16 KiB of head."""


class RequestTimeout(RecourseError):
    """The request did not arrive in time."""


class IdempotencyKeyReused(InvalidRequest):
    """This Idempotency-Key was used before, for another request."""


class IdempotencyInProgress(RecourseError):
    """The first request with this Idempotency-Key has not been answered yet."""


class KeyRequired(RecourseError):
    """This endpoint requires an API key."""


class InvalidKey(KeyRequired):
    """The API key is unknown, or was revoked or renewed."""


class InsufficientScope(RecourseError):
    """The API key lacks a scope that this endpoint requires."""


class TooManyRequests(RecourseError):
    """The caller has exceeded its rate limit."""


class DailyBudgetSpent(RecourseError):
    """The models have been asked about as many records today as this key allows."""


class NotFound(RecourseError):
    """There is nothing at this address."""


class MethodNotAllowed(RecourseError):
    """This address does not support this HTTP method."""


class UnknownModel(NotFound):
    """No model of this name and version is registered and active."""


class UnknownRecourse(NotFound):
    """There is no recourse with this id in the ledger."""


class Erased(RecourseError):
    """The personal data of this recourse has been erased."""


class UnknownJob(NotFound):
    """There is no job with this id."""


class JobFinished(RecourseError):
    """The job has already ended, so it cannot be cancelled."""


class JobUnfinished(RecourseError):
    """The job has not ended yet, so it has no result."""


class JobCancelled(RecourseError):
    """The job was cancelled, so it has no result."""


class NoRowAnswered(RecourseError):
    """No applicant of the batch has an answer; the lines of its result say why, each for itself."""


class UnknownKey(NotFound):
    """There is no API key with this id."""


# --- models ----------------------------------------------------------------------------------------------------------


class ModelRefused(RecourseError):
    """The model cannot be registered."""


class ModelExists(ModelRefused):
    """This version of the model is already registered; versions are never overwritten."""


class ModelUnusable(RecourseError):
    """A registered model can no longer be loaded: its files have changed, or a library that it needs is missing."""


class ModelQuarantined(ModelUnusable):
    """The model has ended several child processes while they loaded it, so it is tried again only after a pause."""


class ModelOutputInvalid(RecourseError):
    """The output of the model is not one finite number per record."""


class ModelUnavailable(RecourseError):
    """The server of the remote model is unavailable."""


class TemplateFaulty(RecourseError):
    """A file of the letter has a fault."""


class NoticeIncomplete(RecourseError):
    """A letter lacks settings, words or reasons that it has to state."""


class RehearsalFailed(RecourseError):
    """The future models of this model could not be made."""


class RehearsalRunning(RecourseError):
    """The future models of this model are being made by another process."""


class BudgetExceeded(RecourseError):
    """The answer needs more requests to the model, or more records, than the manifest allows for one answer."""


# --- the numerics ----------------------------------------------------------------------------------------------------


class DegenerateSurrogate(RecourseError):
    """The samples around the decision boundary do not determine a surrogate."""


class BoundaryNotFound(RecourseError):
    """No decision boundary was found between the applicant and the favourable reference records."""


class DeadlineExceeded(RecourseError):
    """The deadline of the request has passed."""


class SolverFailed(RecourseError):
    """A numerical solver ended without a solution."""


# --- operations ------------------------------------------------------------------------------------------------------


class LaneTimeout(RecourseError):
    """The computation was stopped at its time limit."""


class LaneCrashed(RecourseError):
    """The process that computed the answer crashed; a new one is being started, and the request may be sent again."""


class JobAbandoned(RecourseError):
    """The job was abandoned: every attempt to compute it was interrupted."""


class StateUnusable(RecourseError):
    """The state directory (RECOURSE_STATE_DIR) cannot be written."""


class Open(RecourseError):
    """The service would be open to anyone who can reach its address."""


class Misdirected(RecourseError):
    """The request names a host that a service without API keys does not answer for."""


class Overloaded(RecourseError):
    """All workers are busy and the queue is full; try again shortly."""


class TooManyConnections(RecourseError):
    """The service, or this address, has as many connections as are allowed."""


class NotReady(RecourseError):
    """The service cannot answer requests now."""


class LedgerUnavailable(NotReady):
    """The ledger cannot be reached, so no recourse can be given or looked up."""


class InternalError(RecourseError):
    """Internal error; it is logged with the request id."""


def _tree(root: type[RecourseError]) -> list[type[RecourseError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


ERRORS: dict[str, type[RecourseError]] = {error.code: error for error in _tree(RecourseError)}
"""Every class of the tree by its code."""
