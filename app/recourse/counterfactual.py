"""One counterfactual, what is certified about it, and its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.models.committee import Direction, Drawn, Likeness
from app.recourse.promise import promise_text
from app.recourse.reports import MethodReport


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseCertificate(AnswerPart):
    """How the record withstands Gaussian noise: advice that is followed inexactly."""

    std: float | Mapping[str, float] = field(metadata=EXACT)
    """Of the noise, in standardised units; for all numeric features, or by feature."""
    closed_form: float | None
    """Probability that the noise makes the decision unfavourable, from the model's own score and gradient; in [0, 1].
    Null where the model offers no gradient: `certificate.noise_samples` of the request measures it."""
    upper_bound: float | None
    """A bound on it that does not use the record's own score (proposition 4 of PROBE); null unless `exact`."""
    exact: bool
    """Whether `closed_form` is exact, as for a linear model, or a first-order approximation."""
    monte_carlo: float | None
    """Share of noisy copies that the model refused; null where none were asked for."""
    interval: tuple[float, float] | None
    """95 % confidence interval of `monte_carlo`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GelbrichCertificate(AnswerPart):
    """Worst-case and best-case probability that a linear model accepts the record.

    Over every distribution of the weights whose mean and covariance lie in a Gelbrich ball around those of the local
    model; with `moments` `future`, over those of the record's score around mean and deviation of the models' own
    scores, if symmetric with one peak, and never narrower than `future.interval`.
    """

    lower: float
    """The worst case over the ball; it bounds what the estimate allows, not how often retrained models accept."""
    upper: float
    """The best case over the ball."""
    radius: float = field(metadata=EXACT)
    """Radius of the ball, `ambiguity_radius` of the request."""
    moments: str
    """How mean and covariance were estimated, as in the request."""
    exact: bool
    """Whether the bounds are tight; false where `future.interval` widened them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftCertificate(AnswerPart):
    """How far the model may change before it refuses the record."""

    gelbrich: GelbrichCertificate
    """Bounds over a Gelbrich ball of distributions of linear models."""
    linf_radius: float
    """The record stays favourable for every linear model whose weights each differ from the local model's, scaled to
    length 1, by at most this."""
    estimated: bool
    """Whether the local model is an estimate; false where the model is linear and its own weights are used."""
    ensemble: float | None
    """Share of the model's other active versions that accept the record; null where they were not asked, or there are
    none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointCertificate(AnswerPart):
    """How the record withstands noise and a change of the model together."""

    lower: float
    """Lower bound on the probability of a favourable decision, over the same ball as `shift.gelbrich`; with `moments`
    `future` never above its `lower`."""
    interval: tuple[float, float]
    """95 % confidence interval of the bound; use its lower end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFuture(AnswerPart):
    """What later versions of the model kept of promises like this one: less than the future models say."""

    share: float
    """Share kept, in [0, 1]; the letter and the page state it in place of what the future models say."""
    promises: int
    """Counterfactuals that a next version has checked."""
    retrainings: int
    """Those next versions; few of them determine the share only roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBefore(AnswerPart):
    """What models trained later kept of answers like this one that could have been given at earlier dates."""

    share: float
    """Share kept, in [0, 1]."""
    interval: tuple[float, float]
    """95 % confidence interval of this share, as that of `calibration.backtest`."""
    promises: int
    """Answers that were given then."""
    months: int
    """How much later the models that were asked are trained; the longest time that was tried."""
    holds_months: float | None = field(metadata=EXACT)
    """Months after which the share kept falls below the lower end of this answer's own interval; the validity of a
    letter ends then. Null where it does not within `months`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(AnswerPart):
    """A point of the curve of share by strength."""

    strength: float = field(metadata=EXACT)
    """How far applicants change, from 0: not at all."""
    share: float
    """The smallest share of models that accept it, over all stresses up to this strength."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StressedFuture(AnswerPart):
    """How far applicants may change until future models refuse a counterfactual; not how likely that is."""

    lowest: float
    """Smallest share of models that accept it, over all stresses that were rehearsed, each up to its full strength; in
    [0, 1]."""
    interval: tuple[float, float]
    """95 % confidence interval of this share, as that of `future`."""
    column: str
    """The stress with the smallest share: a column; `@score`: the model's own score; `@label`: the odds of a good
    outcome; `@answers`: people who followed answers and failed."""
    direction: Direction
    """`up`: records with high values are more frequent among those trained on; `down`: those with low values, so weaker
    applicants, or fewer favourable outcomes."""
    strength: float
    """Up to which its models were counted, in (0, 1]: at 0.25 and 0.5 the mean rank of records moves from 0.5 to 0.625
    and 0.75; at 1 one half of them is left out, odds of `@label` double or halve, 5 % are `@answers`."""
    holds_up_to: float | None
    """Largest strength up to which the share that was asked for accepts it under every stress, or 0.9 where none was
    asked for; null where that is not so even at the smallest."""
    curve: tuple[CurvePoint, ...]
    """The smallest share over all stresses, by strength; that at 0 is `probability` of `future`."""
    models: int
    """Models behind `lowest`; no search has seen them, and no other share counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureCertificate(AnswerPart):
    """Share of the held-back future models that accept a counterfactual; no search has seen these models."""

    probability: float
    """In [0, 1]; less where halves of the records kept less."""
    interval: tuple[float, float]
    """95 % confidence interval of the share of models that accept it: with `records: fresh` of models trained on other
    records, which is wider."""
    models: int
    """Held-back future models."""
    source: str
    """Their source: `retrained`, `command`, `supplied` or `stand_in`."""
    records: Drawn | None
    """`fresh`: they vary as models of new records do; `same`: as models of today's; null where it is not known."""
    asked: float | None = field(metadata=EXACT)
    """The `future_validity` of the request; null where it set none."""
    recipe: Likeness | None = None
    """`differs`: today's model does not look like one that their recipe trains, and the interval is wider by as much;
    null where this was not compared."""
    measured: MeasuredFuture | None = None
    """Null where later versions kept as much as the probability says, or there is too little to compare."""
    under: Literal["stress", "same"] | None = None
    """What was asked for; null where nothing was, or no stress was rehearsed."""
    stressed: StressedFuture | None = None
    """Null where no stress was rehearsed."""
    kept_before: KeptBefore | None = None
    """Null where the reference has no dates, and for questions that its backtest did not ask: of another method, with
    other parameters, or for a smaller share."""

    promise: str = ""
    """All of this in words, the number first that can be promised, with its condition (English)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "promise", promise_text(self.by_name()))

    @property
    def promised(self) -> float:
        """The probability to promise: the share that later versions kept where there is one, else `probability`."""
        return self.probability if self.measured is None else self.measured.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How well a counterfactual withstands noise, a shift of the model, and both together."""

    noise: NoiseCertificate
    shift: ShiftCertificate
    joint: JointCertificate | None
    """None where the model offers no gradient: an estimate on the local surrogate would bound nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One of several changes made in order: the feature's index, and the record after this and all earlier changes."""

    feature: int
    row_raw: Float[np.ndarray, "p"]
    score: float | None
    """None where the model gave no finite score."""
    probability: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedCounterfactual:
    """A raw row with its score, cost and certificate; the black box may have refused it."""

    row_raw: Float[np.ndarray, "p"]
    score: float | None
    """None where the model gave no finite score."""
    probability: float | None
    cost: float
    """Weighted L1 in encoded units, a change of category counts 1."""
    changed: tuple[int, ...]
    """Indices of the features that the person has to change."""
    takes_months: float = 0.0
    """How long that takes."""
    lasts: bool | None = None
    """Whether the model accepts it with all that time may change until the answer expires, also after the first changes
    that are enough; None where time changes nothing, and where the model was not asked."""
    certificate: Certificate | None = None
    """None where it was not asked for, or where the decisions around the factual determine no local model."""
    report: MethodReport | None = None
    """The method's own figures; None for methods that have none beyond the certificate, and where no method made it."""
    future: FutureCertificate | None = None
    """None where the model has no future models."""
    accepted: Mapping[int, AcceptedValues] = field(default_factory=dict)
    """By the index of a feature whose missing value is provided: which values the model accepts."""
    steps: tuple[Step, ...] | None = None
    """The changes in the order in which each helps most; None for a single change, or where the model was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual(AssessedCounterfactual):
    """A counterfactual that the service has found, or the refused record of highest score; always with a score."""

    score: float
