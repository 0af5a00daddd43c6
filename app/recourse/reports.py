"""What methods and surrogates report of themselves, beside the certificate."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from app.recourse.answer_part import EXACT, AnswerPart


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidationReport(AnswerPart):
    """How often noise makes the decision unfavourable, against the target of the request (method `probe`)."""

    kind: Literal["invalidation"] = "invalidation"
    """Tells the reports of methods apart."""
    estimator: str
    """What the search used: `closed_form`, `monte_carlo` or `tree`."""
    target: float = field(metadata=EXACT)
    """`target_invalidation_rate` of the request."""
    rate: float
    """Share of noisy copies of this record that the model refused."""
    interval: tuple[float, float]
    """95 % confidence interval of `rate`."""
    samples: int
    """Number of noisy copies."""
    fidelity: float | None = None
    """For the estimator `tree`: share of samples on which the tree and the model agree; else null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffReport(AnswerPart):
    """Loss plus cost under the worst model and under the predicted one (methods that weigh both)."""

    kind: Literal["trade_off"] = "trade_off"
    """Tells the reports of methods apart."""
    cost_weight: float
    """Weight of the cost, given or chosen automatically."""
    theta_scale: float
    """Length of the weights on the logit scale; radii and predictions are in these units."""
    objective: float
    """The method's objective at this record."""
    optimum: float
    """Least objective of any legal record, whether or not the model accepts it."""
    worst: float
    """Loss plus cost under the worst model within the radius."""
    predicted: float | None
    """Loss plus cost under the predicted model; null without a prediction."""
    robustness: float
    """`worst` minus the least that is possible."""
    consistency: float | None
    """`predicted` minus the least that is possible."""


MethodReport: TypeAlias = InvalidationReport | TradeOffReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SurrogateReport(AnswerPart):
    """How well the local linear surrogate approximates the model."""

    kind: str
    """How the surrogate was fitted."""
    worst_case_accuracy: float | None
    """Over all distributions whose class moments lie in the ambiguity sets, in [0, 1]; null for surrogates other than
    minimax probability machines."""
    fidelity: float
    """Share of the boundary samples on which surrogate and model agree; in [0, 1]."""
    samples: int
    """Number of boundary samples."""
