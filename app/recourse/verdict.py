"""Why nothing was found."""

from dataclasses import dataclass
from enum import StrEnum

from app.recourse.answer_part import AnswerPart
from app.recourse.counterfactual import Counterfactual


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
        "Within the given constraints, no change of this record makes the local model of the decision favourable."
    ),
    Reason.BOUNDARY_NOT_FOUND: (
        "The model accepts none of its reference records, so there is no decision boundary to search."
    ),
    Reason.DEGENERATE_SURROGATE: (
        "The model's decisions around this record do not show which changes help, and no favourable reference record "
        "could be adapted to the constraints."
    ),
    Reason.TARGET_NOT_REACHED: (
        "The local model of the decision accepts some changes, but the model refused every one that was tried."
    ),
    Reason.DEADLINE: "The time limit was reached before the model confirmed a favourable record.",
    Reason.MODEL_OUTPUT_INVALID: "The model gave no finite score for this record.",
    Reason.BUDGET: (
        "The model's request budget for one answer was used up before the model confirmed a favourable record."
    ),
}
"""The public sentence of each reason."""

LIMITED = (
    "Within the given constraints, no change that was searched makes the local model of the decision favourable. The "
    "schema is wide: only the features that promise most and common levels were searched, so this is no proof."
)
"""Instead of `INFEASIBLE_CONSTRAINTS`' where not all levels or features were searched."""

PROMISE_NOT_KEPT = (
    "The model accepts some changes of this record, but none of those tried reaches the requested robustness."
)
"""Instead of `TARGET_NOT_REACHED`'s sentence where the model accepted a record."""

NOTHING_PROPOSED = (
    "The search found no legal change to propose, and the model accepted none of the other records that were tried. "
    "This does not prove that there is none."
)
"""Instead of it where a search that is not exhaustive proposed nothing."""

NONE_EXISTS = "Within the given constraints the model itself refuses every record: it is proven that there is no way."
"""Instead of any of these where that is proven."""

UNPROVEN = frozenset((*SENTENCES.values(), LIMITED, NOTHING_PROPOSED))
"""Sentences about what was searched."""


def all_refused(count: int) -> str:
    """The sentence for the case that the model has refused all `count` records that the constraints allow."""
    if not count:
        return "The constraints allow no change of this record."
    records = "record" if count == 1 else "records"
    return (
        f"The model refuses every change that the constraints allow: {count:,} {records} besides the applicant's own."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation(AnswerPart):
    """The constraint of the request whose removal helps most, or the time within which an answer is valid."""

    constraint: str
    """`immutable`, `direction`, `bounds`, `max_change`, `least_change`, `max_changes`, `horizon_months`, `exclude` or
    `must_include`: one that the request sets, but `horizon_months` also where it sets none."""
    feature: str | None
    """The feature it binds; null for `max_changes`, `horizon_months` and sets that `exclude` names."""
    sufficient: bool
    """Whether removing it alone makes a favourable record possible under the local model; of `horizon_months`, whether
    an answer was found."""
    text: str
    """The advice as a sentence."""
    takes_months: float | None = None
    """How long that answer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The reason why no counterfactual was found, and the nearest record."""

    reason: Reason
    sentence: str
    nearest: Counterfactual | None = None
    """The legal record that came nearest: of those that the black box refuses the one with the highest score, or of
    those that it accepts the one that misses the method's own promise least."""
    relax: Relaxation | None = None
