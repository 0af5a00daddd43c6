"""A question about one applicant, and its answer."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, StrictBool, StringConstraints
from pydantic_core import PydanticCustomError

from app.api.schemas.methods import CHOICES, DEFAULT_METHOD, MethodChoice
from app.api.schemas.models import Decision, Described, ModelVersion, Record, Value
from app.api.schemas.strict import FEW, LONGEST_NAME, MOST_ENTRIES, NUMBER, Strict, derive
from app.jobs.batch import SEEDS
from app.recourse.actionability import CHEAPEST, DEAREST, Constraints
from app.recourse.certificate import CertificateParams
from app.recourse.result import Reason, Status

LONGEST_DEADLINE_MS = 60_000

ConstraintsRequest: Any = derive(Constraints)
CertificateRequest: Any = derive(CertificateParams)


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
    """What a change costs this applicant."""

    weights: Annotated[dict[FeatureName, Weight], Field(max_length=MOST_ENTRIES), FEW] = Field(default_factory=dict)
    """Factors on the model's own cost of each feature; 1 where none is given."""


class RecourseQuestion(Strict):
    """What is asked, apart from whom it is asked for."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`id` for its newest active version, or `id@version`."""
    method: MethodChoice = CHOICES[DEFAULT_METHOD].model_validate({"name": DEFAULT_METHOD})
    """The method and its parameters; `robust_mpm` with its defaults when absent."""
    constraints: ConstraintsRequest = Field(default_factory=ConstraintsRequest)
    """What this applicant cannot or will not do."""
    cost: Cost = Cost()
    """What changes cost this applicant."""
    certificate: CertificateRequest = Field(default_factory=CertificateRequest)
    """What the certificate of the answer is to say."""
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS), NUMBER] | None = None
    """Milliseconds until the answer; the operator's default when absent. What is not confirmed by then is not given."""
    seed: Annotated[int, Field(ge=0, le=SEEDS - 1), NUMBER] = 0
    """The same question with the same seed has the same answer."""


class ApplicantQuestion(RecourseQuestion):
    """The question what an applicant could change so that the model says yes."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; given back in the answer."""


class RecourseRequest(ApplicantQuestion):
    """The question what an applicant could change so that the model says yes, and whether to keep it."""

    store: StrictBool = True
    """Keep question and answer in the ledger, where they can be looked up and verified again. If false, neither is kept
    once it has been answered, apart from a job, which keeps both until it is deleted, and the answer for its
    `Idempotency-Key`; `DELETE /recourse/{id}` erases these too."""


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


class NoiseAnswer(Described):
    """What happens if the advice is followed inexactly."""

    std: float | dict[str, float]
    """Of the noise, in standardised units; for all numeric features, or by feature."""
    closed_form: float
    """Probability that the noise undoes the recourse, from the score and its slope."""
    upper_bound: float | None
    """A bound on it that does not use the record's own score; null unless `exact`, as it bounds nothing else."""
    exact: bool
    """Whether both are exact, as for a linear model, or `closed_form` is of first order."""
    of: Literal["model", "surrogate"]
    """Whose score and slope: the model's own, or the local model's where the model offers no slope."""
    monte_carlo: float | None
    """Share of noisy copies that the model itself refused; null where none were asked for."""
    interval: tuple[float, float] | None
    """95 % confidence interval of that share."""


class Gelbrich(Described):
    """Probability that a retrained model says yes, over every distribution of models near the estimate."""

    lower: float
    upper: float
    radius: float
    """How far mean and covariance of the models may be from the estimate."""
    moments: str
    """Where the estimate comes from, as in the request."""
    exact: bool


class ShiftAnswer(Described):
    """What happens if the model is retrained."""

    gelbrich: Gelbrich
    linf_radius: float
    """Every linear model whose weights are each within this distance of the local one (of length 1) says yes."""
    ensemble: float | None
    """Share of the model's other active versions that say yes; null where they were not asked, or there are none."""


class JointAnswer(Described):
    """Noise and retraining together."""

    lower: float
    """A lower bound on the probability of a yes."""
    interval: tuple[float, float]
    """95 % confidence interval of the bound; its lower end is the promise."""


class Validity(Described):
    """The certificate: whether the model says yes to the record, and how long that will last."""

    current: Decision
    """The model's own decision on exactly this record."""
    noise: NoiseAnswer | None
    """Null, like the other two, where the decisions around the applicant determine no local model."""
    shift: ShiftAnswer | None
    joint: JointAnswer | None


class InvalidationAnswer(Described):
    """How often noise undoes the recourse, against the rate that was asked for (method `probe`)."""

    kind: Literal["invalidation"]
    estimator: str
    """What the search went by: `closed_form`, `monte_carlo` or `tree`."""
    target: float
    """The rate that was asked for."""
    rate: float
    """Share of noisy copies of this record that the model itself refused."""
    interval: tuple[float, float]
    """95 % confidence interval of that share."""
    samples: int
    """Noisy copies."""
    fidelity: float | None
    """Where a decision tree stood for the model in the search: share of samples on which both decide alike."""


class TradeOffAnswer(Described):
    """Loss and cost under the worst model and under the predicted one (methods that weigh both)."""

    kind: Literal["trade_off"]
    cost_weight: float
    """What was used, also where it was chosen automatically."""
    theta_scale: float
    """Length of the weights on the scale of logits; radii and predictions are in these units."""
    objective: float
    """What the method minimises, for this record."""
    optimum: float
    """The least that is legal for this applicant, whatever the model says to it."""
    worst: float
    """Loss and cost under the worst model within the radius."""
    predicted: float | None
    """The same under the predicted model; null without a prediction."""
    robustness: float
    """By how much `worst` exceeds the least that is possible."""
    consistency: float | None
    """By how much `predicted` exceeds the least that is possible."""


MethodReport: TypeAlias = Annotated[InvalidationAnswer | TradeOffAnswer, Field(discriminator="kind")]
"""What a method itself says about its answer."""


class CounterfactualAnswer(Described):
    """A record that the model accepts."""

    rank: int
    applicant: dict[str, Value]
    """The whole record, with the changes made."""
    changes: list[FeatureChange]
    cost: ChangeCost
    validity: Validity
    report: MethodReport | None
    """What the method promises beyond that; null for most methods."""


class Nearest(Described):
    """The best record that was tried: the model refuses it, or it does not keep the promise that was asked for."""

    applicant: dict[str, Value]
    changes: list[FeatureChange]
    probability: float | None
    score: float
    favourable: bool
    report: MethodReport | None


class Relax(Described):
    """The one constraint whose removal helps most."""

    constraint: str
    """`immutable`, `direction`, `bounds`, `max_changes` of the request; `change` of the model."""
    feature: str | None
    sufficient: bool
    """Whether removing it alone makes the local model of the decision favourable."""
    text: str


class Surrogate(Described):
    """How well the local linear model stands for the black box."""

    kind: str
    worst_case_accuracy: float | None
    """Null for surrogates other than minimax machines."""
    fidelity: float
    """Share of the samples on which both agree."""
    samples: int


class PlanValidity(Described):
    """Probability that a retrained model says yes to every member of the plan, over all models near the estimate."""

    lower: float
    upper: float
    exact: bool
    """Whether the bounds are tight."""
    status: Literal["complete", "pending", "bracket"]
    """`pending`: tight bounds take longer and are computed by `job`; these follow from those of the members. `bracket`:
    the same where no tight bounds are to be had."""
    job: str | None
    """Where the job is that computes tight bounds."""


class Plan(Described):
    """All counterfactuals together."""

    validity: PlanValidity
    proximity: float
    """Mean distance to the factual, standardised units."""
    diversity: float
    """0 for equal members, towards 1 for distant ones."""


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
    plan: Plan | None
    """All counterfactuals together, for methods that give several."""
    surrogate: Surrogate | None
    diagnostics: DiagnosticsAnswer
    warnings: list[str]
    seed: int
    stored: bool
    """Whether the answer is in the ledger, under its `id`."""
    created_at: datetime
    expires_at: datetime
    """Until then the answer is meant to hold for this version of the model."""
