"""A question about one applicant, and its answer."""

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StringConstraints
from pydantic_core import PydanticCustomError

from app.api.schemas.described import describe
from app.api.schemas.methods import CHOICES, DEFAULT_METHOD, MethodChoice
from app.api.schemas.models import Record
from app.api.schemas.strict import FEW, LONGEST_NAME, MOST_ENTRIES, NUMBER, Strict, derive, to_record
from app.compute import use_cases
from app.compute.messages import Question
from app.jobs.batch.lines import SEEDS
from app.recourse.actions.constraints import CHEAPEST, DEAREST, Constraints
from app.recourse.actions.timing import Timing
from app.recourse.certificate import CertificateParams
from app.recourse.problem import Robustness
from app.recourse.solve import METHODS
from app.service import Terms

LONGEST_DEADLINE_MS = 60_000

ConstraintsRequest: Any = derive(Constraints)
CertificateRequest: Any = derive(CertificateParams)
TimingRequest: Any = derive(Timing)
RobustnessRequest: Any = derive(Robustness)


def printable(text: str) -> str:
    """The text, if it can be shown on a line."""
    if not text.isprintable():
        raise PydanticCustomError("not_printable", "must consist of printable characters")
    return text


Reference = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]
"""A client's own name for a case."""

FeatureName = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Weight = Annotated[float, Field(ge=CHEAPEST, le=DEAREST), NUMBER]


class Cost(Strict):
    """Costs of changes for this applicant."""

    weights: Annotated[dict[FeatureName, Weight], Field(max_length=MOST_ENTRIES), FEW] = Field(default_factory=dict)
    """Factors on the model's own cost of each feature; 1 by default."""


class ModelQuestion(Strict):
    """What every question about an applicant has."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`id` for its newest active version, or `id@version`."""
    certificate: CertificateRequest = Field(default_factory=CertificateRequest)
    """Parameters of the certificates."""
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS), NUMBER] | None = None
    """Milliseconds until the answer; the operator's default when absent."""
    seed: Annotated[int, Field(ge=0, le=SEEDS - 1), NUMBER] = 0
    """The same request with the same seed has the same answer."""


class RecourseQuestion(ModelQuestion, TimingRequest):  # type: ignore[misc]
    """A question about recourse, apart from the applicant."""

    model_config = ConfigDict(use_attribute_docstrings=True)  # which derived schemas do not need

    method: MethodChoice = CHOICES[DEFAULT_METHOD].model_validate({"name": DEFAULT_METHOD})
    """The method and its parameters; `robust_mpm` with its defaults when absent."""
    constraints: ConstraintsRequest = Field(default_factory=ConstraintsRequest)
    """What this applicant cannot or will not do."""
    cost: Cost = Cost()
    """What changes cost this applicant."""
    robustness: RobustnessRequest = Field(default_factory=RobustnessRequest)
    """What the answer must withstand."""


class ApplicantQuestion(RecourseQuestion):
    """What an applicant could change so that the model accepts the record."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; returned in the answer."""


class RecourseRequest(ApplicantQuestion):
    """What an applicant could change so that the model accepts the record, and whether to keep the answer."""

    store: StrictBool = True
    """Keep request and answer in the ledger, to be looked up and verified later. If false, neither is kept after the
    answer, except in a job, until it is deleted, and under an `Idempotency-Key`, for 24 hours; `DELETE /recourse/{id}`
    erases both."""


RecourseAnswer: Any = describe(use_cases.RecourseAnswer)


def question_of(request: RecourseQuestion) -> Question:
    """The question of a request, without its record."""
    method = METHODS[request.method.name]
    return Question(
        constraints=to_record(Constraints, request.constraints),
        cost_weights=request.cost.weights,
        timing=to_record(Timing, request),
        certificate=to_record(CertificateParams, request.certificate),
        seed=request.seed,
        method=method.name,
        params=to_record(method.params, request.method),
        robustness=to_record(Robustness, request.robustness),
    )


def terms_of(request: ModelQuestion) -> Terms:
    """The terms of a request."""
    return Terms(
        model=request.model,
        reference=getattr(request, "reference", None),
        deadline_ms=request.deadline_ms,
        store=getattr(request, "store", False),
    )
