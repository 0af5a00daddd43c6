"""A question about one applicant, and its answer."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from app.api.schemas.methods import CHOICES, DEFAULT_METHOD, MethodChoice
from app.api.schemas.models import Decision, Described, ModelVersion, Record, Value
from app.api.schemas.strict import FEW, LONGEST_NAME, MOST_ENTRIES, NUMBER, Strict, derive
from app.recourse.actionability import Constraints
from app.recourse.result import Reason, Status

LONGEST_DEADLINE_MS = 60_000

ConstraintsRequest: Any = derive(Constraints)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("not_printable", "must consist of printable characters")
    return text


FeatureName = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Weight = Annotated[float, Field(gt=0), NUMBER]


class Cost(Strict):
    """What a change costs this applicant."""

    weights: Annotated[dict[FeatureName, Weight], Field(max_length=MOST_ENTRIES), FEW] = Field(default_factory=dict)
    """Factors on the model's own cost of each feature; 1 where none is given."""


class RecourseRequest(Strict):
    """The question what an applicant could change so that the model says yes."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`id` for its newest active version, or `id@version`."""
    applicant: Record
    reference: Annotated[str, StringConstraints(max_length=200), AfterValidator(_printable)] | None = None
    """Your own name for this case; given back in the answer."""
    method: MethodChoice = CHOICES[DEFAULT_METHOD].model_validate({"name": DEFAULT_METHOD})
    """The method and its parameters; `robust_mpm` with its defaults when absent."""
    constraints: ConstraintsRequest = Field(default_factory=ConstraintsRequest)
    """What this applicant cannot or will not do."""
    cost: Cost = Cost()
    """What changes cost this applicant."""
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS), NUMBER] | None = None
    """Milliseconds until the answer; the operator's default when absent. What is not confirmed by then is not given."""
    seed: Annotated[int, Field(ge=0, le=2**53 - 1), NUMBER] = 0
    """The same question with the same seed has the same answer."""


class FeatureChange(Described):
    """One feature to change."""

    feature: str
    from_: Annotated[Value, Field(alias="from")]
    to: Value
    delta: float | int | None
    """`to - from`; null where the values are not numbers."""
    unit: str | None
    text: str
    """What to do, as a sentence."""


class ChangeCost(Described):
    """How much is asked of the applicant."""

    total: float
    """Weighted sum of the changes in standardised units; a change of category counts 1."""
    norm: Literal["l1"]
    changed_features: int


class Validity(Described):
    """Whether the model says yes to it."""

    current: Decision
    """The model's own decision on exactly this record."""


class CounterfactualAnswer(Described):
    """A record that the model accepts."""

    rank: int
    applicant: dict[str, Value]
    """The whole record, with the changes made."""
    changes: list[FeatureChange]
    cost: ChangeCost
    validity: Validity


class Nearest(Described):
    """The best record that was tried; the model refuses it."""

    applicant: dict[str, Value]
    changes: list[FeatureChange]
    probability: float | None
    score: float


class Relax(Described):
    """The one constraint whose removal helps most."""

    constraint: str
    """`immutable`, `direction`, `bounds`, `max_changes` of the request; `change`, `range`, `rule` of the model."""
    feature: str | None
    sufficient: bool
    """Whether removing it alone makes the local model of the decision favourable."""
    text: str


class Surrogate(Described):
    """How well the local linear model stands for the black box."""

    kind: str
    worst_case_accuracy: float
    fidelity: float
    """Share of the samples on which both agree."""
    samples: int


class DiagnosticsAnswer(Described):
    """What the answer took."""

    model_calls: int | None
    """Null where the computation was stopped from outside."""
    model_rows: int | None
    elapsed_ms: float


class RecourseAnswer(Described):
    """The answer; every record in `counterfactuals` was confirmed by the model itself."""

    id: str
    status: Status
    reference: str | None
    model: ModelVersion
    method: dict[str, Any]
    """The method with every parameter, defaults filled in."""
    factual: Decision | None
    """Null where the time ran out before the model was asked."""
    counterfactuals: list[CounterfactualAnswer]
    """Ranked; empty unless `status` is `found`."""
    reason: Reason | None
    """Why nothing was found."""
    detail: str | None
    """The reason as a sentence."""
    nearest: Nearest | None
    relax: Relax | None
    plan: None
    """Kept for methods that give several counterfactuals at once."""
    surrogate: Surrogate | None
    diagnostics: DiagnosticsAnswer
    warnings: list[str]
    seed: int
    created_at: datetime
    expires_at: datetime
    """Until then the answer is meant to hold for this version of the model."""
