"""Everything that can go wrong, one class each.

The docstring of a class is its default sentence, ``code`` is the stable name clients switch on, and the facts are
attributes. Nothing here knows about HTTP: ``app.api.errors`` gives each class its status in one table.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input, and where."""

    pointer: str
    """JSON pointer into the input, "" for the whole of it."""
    detail: str


class RecourseError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str | None = None, *, faults: Iterable[Fault] = (), **facts: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.faults = tuple(faults)
        self.facts = facts
        super().__init__(self.detail)

    def __str__(self) -> str:
        return "\n".join([self.detail, *(f"  {fault.pointer or '/'}: {fault.detail}" for fault in self.faults)])

    @property
    def sentence(self) -> str:
        """The detail with every fault, in one line."""
        return "; ".join([self.detail, *(f"{fault.pointer or '/'}: {fault.detail}" for fault in self.faults)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, to cross a process boundary; `from_dict` is its inverse."""
        return {
            "code": self.code,
            "detail": self.detail,
            "faults": [asdict(fault) for fault in self.faults],
            "facts": self.facts,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> "RecourseError":
        """The error that `to_dict` described."""
        error_class = ERRORS[data["code"]]
        return error_class(data["detail"], faults=[Fault(**fault) for fault in data["faults"]], **data["facts"])


# --- what a client sent ----------------------------------------------------------------------------------------------


class InvalidRequest(RecourseError):
    """The request does not have the form that this endpoint takes."""

    code = "invalid-request"


class MalformedJson(InvalidRequest):
    """The request body is not JSON."""

    code = "malformed-json"


class InvalidRecord(InvalidRequest):
    """A record does not fit the feature schema of the model."""

    code = "invalid-record"


class ConstraintClash(InvalidRequest):
    """A constraint of the request contradicts the model's own actionability; it may only tighten it."""

    code = "constraint-clash"


class UnsupportedMediaType(RecourseError):
    """The body of this request must be application/json."""

    code = "unsupported-media-type"


class BodyTooLarge(RecourseError):
    """The request body is larger than this service accepts."""

    code = "body-too-large"


class IdempotencyKeyReused(InvalidRequest):
    """This Idempotency-Key came with another request before."""

    code = "idempotency-key-reused"


class IdempotencyInProgress(RecourseError):
    """The first request with this Idempotency-Key has not been answered yet."""

    code = "idempotency-in-progress"


class KeyRequired(RecourseError):
    """This address asks for an API key."""

    code = "key-required"


class InvalidKey(KeyRequired):
    """The API key is unknown or was revoked."""

    code = "invalid-key"


class InsufficientScope(RecourseError):
    """The API key is not meant for this."""

    code = "insufficient-scope"


class TooManyRequests(RecourseError):
    """There were more requests in a short time than this service takes from one caller."""

    code = "too-many-requests"


class NotFound(RecourseError):
    """There is nothing at this address."""

    code = "not-found"


class MethodNotAllowed(RecourseError):
    """This address does not answer this HTTP method."""

    code = "method-not-allowed"


class UnknownModel(NotFound):
    """No model of this name and version is registered and active."""

    code = "unknown-model"


class UnknownRecourse(NotFound):
    """There is no recourse of this name in the ledger."""

    code = "unknown-recourse"


class Erased(RecourseError):
    """The personal data of this recourse has been erased; that it was given is all that is left."""

    code = "erased"


class UnknownJob(NotFound):
    """There is no job of this name."""

    code = "unknown-job"


class JobFinished(RecourseError):
    """The job has ended already; there is nothing left to cancel."""

    code = "job-finished"


class JobUnfinished(RecourseError):
    """The job has not ended yet, so it has no result."""

    code = "job-unfinished"


class JobCancelled(RecourseError):
    """The job was cancelled, so it has no result."""

    code = "job-cancelled"


class UnknownKey(NotFound):
    """There is no API key with this id."""

    code = "unknown-key"


# --- models ----------------------------------------------------------------------------------------------------------


class ModelRefused(RecourseError):
    """The model cannot be registered."""

    code = "model-refused"


class ModelExists(ModelRefused):
    """This version of the model is registered already; versions are never overwritten."""

    code = "model-exists"


class ModelUnusable(RecourseError):
    """A registered model cannot be loaded any more: its files have changed, or a library it needs is missing."""

    code = "model-unusable"


class ModelOutputInvalid(RecourseError):
    """The black box answered with something that is not one finite number per record."""

    code = "model-output-invalid"


class ModelUnavailable(RecourseError):
    """The server of a remote model does not answer, or will not now; `retry_after_s` is when it may, if it said so."""

    code = "model-unavailable"


class BudgetExceeded(RecourseError):
    """The answer would take more requests or records than the model's owner allows for one answer."""

    code = "budget-exceeded"


# --- the numerics ----------------------------------------------------------------------------------------------------


class DegenerateSurrogate(RecourseError):
    """The samples around the decision boundary do not determine a surrogate."""

    code = "degenerate-surrogate"


class BoundaryNotFound(RecourseError):
    """No decision boundary was found between the applicant and the favourable reference records."""

    code = "boundary-not-found"


class DeadlineExceeded(RecourseError):
    """The time that the request allowed ran out."""

    code = "deadline-exceeded"


class SolverFailed(RecourseError):
    """A numerical solver ended without an answer."""

    code = "solver-failed"


# --- operations ------------------------------------------------------------------------------------------------------


class LaneTimeout(RecourseError):
    """The computation was stopped at its time limit."""

    code = "lane-timeout"


class LaneCrashed(RecourseError):
    """The process that computed the answer died; a new one has been started, so the request may be sent again."""

    code = "lane-crashed"


class JobAbandoned(RecourseError):
    """The job was given up: it was interrupted again each time it was taken up."""

    code = "job-abandoned"


class StateUnusable(RecourseError):
    """The directory for the state of the service (RECOURSE_STATE_DIR) cannot be written."""

    code = "state-unusable"


class Open(RecourseError):
    """The service would be open to everybody who can reach its address."""

    code = "open"


class Misdirected(RecourseError):
    """A service that asks for no key was asked under a name that anybody can have point to it."""

    code = "misdirected"


class Overloaded(RecourseError):
    """All workers are busy and the waiting line is full; try again shortly."""

    code = "overloaded"


class NotReady(RecourseError):
    """The service cannot answer requests now."""

    code = "not-ready"


class LedgerUnavailable(NotReady):
    """The ledger cannot be reached, so no recourse can be given or looked up."""

    code = "ledger-unavailable"


class InternalError(RecourseError):
    """An error of this service; it has been logged under the request id."""

    code = "internal-error"


def _tree(root: type[RecourseError]) -> list[type[RecourseError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


ERRORS: dict[str, type[RecourseError]] = {error.code: error for error in _tree(RecourseError)}
"""Every class of the tree by its code."""
