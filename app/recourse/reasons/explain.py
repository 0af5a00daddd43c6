"""The reasons for a refusal: ``explain(problem, params) -> Explanation``.

What a person could change is another question (`app.recourse.solve`): features that cannot be changed are named too.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import numpy as np
from annotated_types import Interval

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.features import Feature
from app.recourse.input_part import InputPart
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.reasons.comparison import Against, Comparison, Departure, departure, usual_raw
from app.recourse.reasons.shapley import Contributions, contributions
from app.recourse.result import Diagnostics

MOST_REASONS = 4
"""Reasons of one refusal: more of them would be of little use to the person."""
LEAST_OF_LARGEST = 0.1
"""A feature that contributed less than this part of the largest contribution is not a principal reason."""
ERRORS = 2.0
"""A contribution counts if it is below zero by so many standard errors."""


class ReasonsStatus(StrEnum):
    """Outcome of the question for reasons."""

    FOUND = "found"
    ALREADY_FAVOURABLE = "already_favourable"
    NOT_FOUND = "not_found"


class NoReasons(StrEnum):
    """Why there are no reasons."""

    NONE_ACCEPTED = "none_accepted"
    NOTHING_LOWERS = "nothing_lowers"
    DEADLINE = "deadline"
    BUDGET = "budget"
    MODEL_OUTPUT_INVALID = "model_output_invalid"


NO_REASONS: Mapping[NoReasons, str] = {
    NoReasons.NONE_ACCEPTED: "The model accepts none of its reference records, so there are none to compare with.",
    NoReasons.NOTHING_LOWERS: (
        "No feature that may be named lowered the score, compared with these reference records."
    ),
    NoReasons.DEADLINE: "The time limit was reached before the contributions of the features were known.",
    NoReasons.BUDGET: "The model's request budget was used up before the contributions of the features were known.",
    NoReasons.MODEL_OUTPUT_INVALID: "The model gave no finite score for this record.",
}
"""The public sentence of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonsParams(InputPart):
    """Which reasons are asked for."""

    against: Against = Against.ACCEPTED
    """Whom the applicant is compared with: `accepted`, the reference records just above the cut-off, or `everyone`."""
    count: Annotated[int, Interval(ge=1, le=MOST_REASONS)] = MOST_REASONS
    """Largest number of reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReason:
    """A feature that lowered the score."""

    feature: int
    """Index of the feature."""
    contribution: float
    """What it contributed to the score, < 0."""
    std_error: float
    share: float
    """Share of the feature in all that lowered the score, in (0, 1]."""
    usual_raw: float
    """Raw number of what is usual among the records of the comparison."""
    departure: Departure | None
    """Which way the value differs from that, where this is what lowered the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons for a refusal with the figures behind them, or why there are no reasons."""

    status: ReasonsStatus
    against: Against
    factual_score: float | None
    factual_probability: float | None
    diagnostics: Diagnostics
    verdict: NoReasons | None = None
    comparison: Comparison | None = None
    contributions: Contributions | None = None
    reasons: tuple[FoundReason, ...] = ()
    """The largest first."""
    protected_share: float | None = None
    """Part of all that lowered the score which is left out because it is protected; None without contributions."""


def explain(problem: RecourseProblem, params: ReasonsParams, meter: Meter | None = None) -> Explanation:
    """The reasons for a refusal: the features that lowered the score most, compared with reference records.

    Parameters
    ----------
    meter : the meter that counts the model calls, where they are part of a larger answer; None for a new one

    Raises
    ------
    ModelOutputInvalid : the model broke its contract
    ModelUnavailable : a remote model does not answer
    """
    started = time.perf_counter()
    meter = meter or Meter(problem.black_box, problem.deadline)

    def explained(status: ReasonsStatus, score: float | None, **known: object) -> Explanation:
        return Explanation(
            status=status,
            against=params.against,
            factual_score=score,
            factual_probability=None if score is None else problem.black_box.probability_of(score),
            diagnostics=Diagnostics.since(started, meter.calls, meter.rows),
            **known,  # type: ignore[arg-type]
        )

    score: float | None = None
    try:
        score = float(meter.score_raw(problem.factual_raw[None])[0])
        if math.isnan(score):
            return explained(ReasonsStatus.NOT_FOUND, None, verdict=NoReasons.MODEL_OUTPUT_INVALID)
        if problem.black_box.accepts(np.array([score]))[0]:
            return explained(ReasonsStatus.ALREADY_FAVOURABLE, score)
        comparison = Comparison.of(problem.reference, params.against)
        if not comparison.scores.size:
            return explained(ReasonsStatus.NOT_FOUND, score, verdict=NoReasons.NONE_ACCEPTED)
        found = contributions(meter, problem.factual_raw, score, comparison, problem.seed)
    except DeadlineExceeded:
        return explained(ReasonsStatus.NOT_FOUND, score, verdict=NoReasons.DEADLINE)
    except BudgetExceeded:
        return explained(ReasonsStatus.NOT_FOUND, score, verdict=NoReasons.BUDGET)
    reasons, protected_share = _principal(problem, comparison, found, params.count)
    known = {"comparison": comparison, "contributions": found, "protected_share": protected_share}
    if not reasons:
        return explained(ReasonsStatus.NOT_FOUND, score, verdict=NoReasons.NOTHING_LOWERS, **known)
    return explained(ReasonsStatus.FOUND, score, reasons=reasons, **known)


def _principal(
    problem: RecourseProblem, comparison: Comparison, found: Contributions, count: int
) -> tuple[tuple[FoundReason, ...], float]:
    """The principal reasons, and the part of what lowered the score that protected features have."""
    features = problem.black_box.space.features
    lowering = np.where(found.values < -ERRORS * found.std_errors, -found.values, 0.0)
    total = float(lowering.sum())
    protected = np.array([feature.protected or not feature.reason.named for feature in features])
    named = np.where(protected, 0.0, lowering)
    order = np.argsort(-named, kind="stable")[:count]

    def reason(j: int) -> FoundReason:
        usual = usual_raw(features[j], comparison.rows_raw[:, j])
        return FoundReason(
            feature=j,
            contribution=float(found.values[j]),
            std_error=float(found.std_errors[j]),
            share=float(lowering[j]) / total,
            usual_raw=usual,
            departure=_lowering_departure(features[j], float(problem.factual_raw[j]), usual, float(found.lean[j])),
        )

    reasons = tuple(
        reason(j) for j in order.tolist() if named[j] > 0.0 and named[j] >= LEAST_OF_LARGEST * named[order[0]]
    )
    return reasons, float(lowering[protected].sum()) / total if total > 0.0 else 0.0


def _lowering_departure(feature: Feature, value_raw: float, usual: float, lean: float) -> Departure | None:
    """Which way a value differs from what is usual; None where it lowered the score by differing the other way.

    A rent below the average of tenants and of people without a rent is not too low where less rent is better.
    """
    found = departure(feature, value_raw, usual)
    against = lean < 0.0 if found is Departure.TOO_HIGH else lean > 0.0
    return None if against else found
