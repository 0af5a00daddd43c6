"""The answer. Only `app.recourse.solve` makes one, after it has asked the black box about every record in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float


class Status(StrEnum):
    """How a question ended; every one of these is an answer, none is an error."""

    FOUND = "found"
    ALREADY_FAVOURABLE = "already_favourable"
    NOT_FOUND = "not_found"


class Reason(StrEnum):
    """Why nothing was found."""

    INFEASIBLE_CONSTRAINTS = "infeasible_constraints"
    BOUNDARY_NOT_FOUND = "boundary_not_found"
    DEGENERATE_SURROGATE = "degenerate_surrogate"
    TARGET_NOT_REACHED = "target_not_reached"
    DEADLINE = "deadline"
    MODEL_OUTPUT_INVALID = "model_output_invalid"
    BUDGET = "budget"


SENTENCES: dict[Reason, str] = {
    Reason.INFEASIBLE_CONSTRAINTS: (
        "Within the given constraints no change of this record turns the local model of the decision favourable."
    ),
    Reason.BOUNDARY_NOT_FOUND: (
        "The model accepts none of its reference records, so there is no decision boundary to aim for."
    ),
    Reason.DEGENERATE_SURROGATE: (
        "The model's decisions around this record do not determine a direction of change, and no favourable reference "
        "record could be made legal for this person."
    ),
    Reason.TARGET_NOT_REACHED: (
        "The local model of the decision accepts changes, but the model itself refused every one that was tried."
    ),
    Reason.DEADLINE: "The time allowed ran out before the model confirmed a favourable record.",
    Reason.MODEL_OUTPUT_INVALID: "The model gave no finite score for this record.",
    Reason.BUDGET: (
        "What the model's owner allows one answer to ask of the model ran out before it confirmed a favourable record."
    ),
}
"""What each reason means, for people."""

PROMISE_NOT_KEPT = (
    "The model accepts changes of this record, but none of those tried keeps the promise that was asked for."
)
"""Instead of `TARGET_NOT_REACHED`'s sentence where the model did say yes."""

NOTHING_PROPOSED = (
    "The search came upon no legal change to propose, and the model accepted none of the other records that were "
    "tried; that does not prove that there is none."
)
"""Instead of it where a search that does not look everywhere proposed nothing."""


class MemberOutcome(StrEnum):
    """What became of one member of a plan that was to be corrected."""

    CORRECTED = "corrected"
    MET = "met"
    NOT_SELECTED = "not_selected"
    INFEASIBLE = "infeasible"
    REFUSED = "refused"
    NO_GAIN = "no_gain"
    UNDECIDED = "undecided"


OUTCOMES: dict[MemberOutcome, str] = {
    MemberOutcome.CORRECTED: "The record was corrected.",
    MemberOutcome.MET: "The record meets the requirement as it is.",
    MemberOutcome.NOT_SELECTED: "Other members are more at risk; this one was left as it is.",
    MemberOutcome.INFEASIBLE: "No legal record within the limits of the correction meets what it asks for.",
    MemberOutcome.REFUSED: "The model refuses every corrected record that was tried, so this one was left as it is.",
    MemberOutcome.NO_GAIN: "The correction would not make the plan more valid, so the record was left as it is.",
    MemberOutcome.UNDECIDED: "The time did not suffice to show that a correction helps; the record was left as it is.",
}
"""What each outcome means, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseCertificate:
    """What happens if the advice is followed inexactly."""

    std: float | Mapping[str, float]
    """Of the noise, encoded units; by feature or for all."""
    closed_form: float
    """Probability that the noise undoes the recourse, from score and gradient."""
    upper_bound: float | None
    """A bound on it that does not use the counterfactual's own score (proposition 4 of PROBE); None unless `exact`."""
    exact: bool
    """Whether both are exact (the model is linear), or `closed_form` is of first order."""
    of: str
    """Whose score and gradient: `model` or `surrogate`."""
    monte_carlo: float | None
    """Share of noisy copies that the black box itself refused."""
    interval: tuple[float, float] | None
    """95 % confidence interval of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GelbrichCertificate:
    """Probability that a retrained model says yes, over every distribution of models near the estimate."""

    lower: float
    upper: float
    radius: float
    moments: str
    """Where mean and covariance of the models come from."""
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftCertificate:
    """What happens if the model is retrained."""

    gelbrich: GelbrichCertificate
    linf_radius: float
    """Every linear model whose weights are each within this distance of the local one (of length 1) says yes."""
    ensemble: float | None
    """Share of the model's other versions that say yes; None where they were not asked, or there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointCertificate:
    """A lower bound on the probability of a yes if both happen."""

    lower: float
    interval: tuple[float, float]
    """95 % confidence interval of the bound; its lower end is the promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How long a counterfactual stays favourable."""

    noise: NoiseCertificate
    shift: ShiftCertificate
    joint: JointCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidationReport:
    """How often noise undoes a counterfactual, against the rate that was asked for."""

    kind: Literal["invalidation"] = "invalidation"
    estimator: str
    """What the search went by: `closed_form`, `monte_carlo` or `tree`."""
    target: float
    """Rate that was asked for."""
    rate: float
    """Share of noisy copies of this record that the black box itself refused."""
    interval: tuple[float, float]
    """95 % confidence interval of it."""
    samples: int
    """Noisy copies."""
    fidelity: float | None = None
    """Of a decision tree that stands for the model: share of samples on which both decide alike; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffReport:
    """Loss and cost of a counterfactual under the worst model and under the predicted one."""

    kind: Literal["trade_off"] = "trade_off"
    cost_weight: float
    """What was used, also where it was chosen automatically."""
    theta_scale: float
    """Length of the weights on the scale of logits; radii and predictions are in these units."""
    objective: float
    """What the method minimises, here."""
    optimum: float
    """The least that is legal, whatever the black box says to it."""
    worst: float
    """Loss and cost under the worst model within the radius."""
    predicted: float | None
    """Loss and cost under the predicted model; None without a prediction."""
    robustness: float
    """By how much `worst` exceeds what the best record for the worst model has."""
    consistency: float | None
    """By how much `predicted` exceeds what the best record for the prediction has."""


MethodReport: TypeAlias = InvalidationReport | TradeOffReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """A raw row that the black box itself has scored."""

    row_raw: Float[np.ndarray, "p"]
    score: float
    probability: float | None
    cost: float
    """Weighted L1 in encoded units, a change of category counts 1."""
    changed: tuple[int, ...]
    """Indices of the features that differ from the factual."""
    certificate: Certificate | None = None
    """None where it was not asked for, or where the decisions around here determine no local model."""
    report: MethodReport | None = None
    """What the method itself promises of it; None for methods that promise nothing beyond the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A raw row that somebody brought; the black box has scored it, whatever it said."""

    row_raw: Float[np.ndarray, "p"]
    score: float | None
    """None where the model gave no finite score."""
    probability: float | None
    cost: float
    changed: tuple[int, ...]
    certificate: Certificate | None
    report: None = None
    """Nobody promised anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCertificate:
    """How likely all counterfactuals of a plan stay favourable together when the model is retrained."""

    lower: float
    upper: float
    exact: bool
    """Whether the bounds are tight, up to the solver's accuracy."""
    status: str
    """`complete`, or `bracket` where the solver did not end in time and the bounds come from the members' own."""
    proximity: float
    """Mean L2 distance to the factual, encoded units."""
    diversity: float
    """Determinant of ``1/(1 + distance)`` between the members: 0 for equal ones, towards 1 for distant ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The single constraint whose removal helps most."""

    constraint: str
    """`immutable`, `direction`, `bounds`, `max_changes` (of the request) or `change` (of the model)."""
    feature: str | None
    """The feature it binds; None for `max_changes` and rules."""
    sufficient: bool
    """Whether removing it alone makes the local model of the decision favourable."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why nothing was found, and what was nearest."""

    reason: Reason
    sentence: str
    nearest: Counterfactual | None = None
    """The legal record that came nearest: of those that the black box refuses the one with the highest score, or of
    those that it accepts the one that misses the method's own promise least."""
    relax: Relaxation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurrogateReport:
    """How well the local linear model stands for the black box."""

    kind: str
    worst_case_accuracy: float | None
    """Over all distributions whose class moments lie in the ambiguity sets, in [0, 1]; None for other than minimax
    machines."""
    fidelity: float
    """Share of the boundary samples on which surrogate and black box agree; measured on the samples."""
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What the answer took."""

    model_calls: int
    model_rows: int
    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecourseResult:
    """The verified answer to one `RecourseProblem`."""

    status: Status
    factual_score: float | None
    """None where the model gave no finite score."""
    factual_probability: float | None
    counterfactuals: tuple[Counterfactual, ...] = ()
    """Ranked, all confirmed favourable; empty unless `status` is `found`."""
    plan: PlanCertificate | None = None
    """Of all of them together, where the method gives several and a certificate was asked for."""
    verdict: Verdict | None = None
    """Present iff `status` is `not_found`."""
    fallback: bool = False
    """Whether what was found need not meet the method's own constraint; `warnings` says so to people."""
    surrogate: SurrogateReport | None = None
    diagnostics: Diagnostics
    warnings: tuple[str, ...] = ()
