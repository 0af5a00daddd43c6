"""The reasons for a refusal: what a child computes, and the answer."""

import time
from dataclasses import dataclass, fields, replace

from app.portfolio.preclusion import Preclusion
from app.questions.answers import Decision, ModelVersion, decision
from app.questions.frame import Frame
from app.questions.question import Case
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import AnswerPart
from app.recourse.features import RawValue
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.reasons import (
    NO_REASONS,
    Against,
    Departure,
    Explanation,
    FoundReason,
    NoReasons,
    ReasonsParams,
    ReasonsStatus,
    explain,
    reason_text,
)
from app.recourse.result import Diagnostics, RecourseResult

TIME_SHARE = 4
"""Reasons may take this part of the time of an answer that has recourse too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonsQuestion(Case):
    """Asks for the reasons why the model refuses the applicant's record."""

    reasons: ReasonsParams


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWith(AnswerPart):
    """Whom the applicant is compared with."""

    kind: Against
    """`accepted`: the reference records that the model accepts with the lowest scores; `everyone`: all of them."""
    text: str
    """The same in words."""
    records: int
    """Number of these reference records."""
    asked: int
    """How many of them the contributions are computed from; fewer only where the model is neither linear nor a
    scorecard."""
    score: float | None
    """Their mean score; the contributions of all features add up to the applicant's score less this. Null for a key
    that has neither the scope `scores` nor `models`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonAnswer(AnswerPart):
    """A feature that lowered the score."""

    feature: str
    """Name of the feature."""
    code: str | None
    """The lender's own code, from the manifest."""
    text: str
    """The reason in words; those of the manifest where it has some."""
    value: RawValue
    """The applicant's value; null where it is missing."""
    reference: RawValue
    """What is usual in the records of `against`: the average of an amount, or what three quarters have, the median
    of whole numbers and of levels, the most common category."""
    direction: Departure | None
    """Which way `value` differs from `reference`; null for categories and states, where both are the same, and where
    the value lowered the score by differing the other way from others of the records."""
    contribution: float | None
    """What the feature contributed to the score, below 0; in logit units. Null as `against.score`."""
    std_error: float | None
    """Standard error of `contribution` from sampling; 0 where it is exact. Null as `against.score`."""
    share: float
    """Part of all that lowered the score, in (0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons(AnswerPart):
    """The principal reasons for a refusal; features that cannot be changed are among them."""

    status: ReasonsStatus
    """Whether there are reasons."""
    against: ComparedWith | None
    """Null where nothing was compared."""
    reasons: tuple[ReasonAnswer, ...]
    """The largest contribution first; empty unless `status` is `found`."""
    protected_share: float | None
    """Part of all that lowered the score which features have that are never named: protected ones, and those that the
    manifest does not name as reasons. Null where nothing was compared."""
    reason: NoReasons | None
    """Why there are none."""
    detail: str | None
    """The same as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonsAnswer(Reasons):
    """The principal reasons for a refusal, asked for by themselves."""

    reference: str | None
    """Your own name for this case."""
    model: ModelVersion
    """The version that was asked."""
    factual: Decision | None
    """The model's decision on the applicant's record; null where the time ran out before the model was asked."""
    diagnostics: Diagnostics
    """What the answer took to compute."""
    seed: int
    """Seed of all random numbers."""


def reasons_of(asked: RecourseProblem, question: ReasonsQuestion, _plan_s: float) -> Explanation:
    """The core's explanation of a refusal, within the deadline of the problem `asked`; `_plan_s` is not used."""
    return explain(asked, question.reasons)


def reasons_answer(frame: Frame, action_set: ActionSet, found: Explanation) -> ReasonsAnswer:
    """The answer to a question that asks only for reasons, made from the frame and the core's explanation `found`."""
    part = reasons_part(action_set, found)
    return ReasonsAnswer(
        **{f.name: getattr(part, f.name) for f in fields(Reasons)},
        **frame.known("reference", "model", "seed"),
        factual=None
        if found.factual_score is None
        else decision(found.factual_score, found.factual_probability, frame.points),
        diagnostics=found.diagnostics,
    )


def no_time_for_reasons(frame: Frame, elapsed_ms: float) -> ReasonsAnswer:
    """The answer where the computation was killed after its deadline: no reason is known."""
    return ReasonsAnswer(
        status=ReasonsStatus.NOT_FOUND,
        against=None,
        reasons=(),
        protected_share=None,
        reason=NoReasons.DEADLINE,
        detail=NO_REASONS[NoReasons.DEADLINE],
        **frame.known("reference", "model", "seed"),
        factual=None,
        diagnostics=Diagnostics(model_calls=None, model_rows=None, elapsed_ms=elapsed_ms),
    )


def reasons_part(action_set: ActionSet, found: Explanation) -> Reasons:
    """The part of an answer that states the core's explanation, in the features, units and categories of the model."""
    return Reasons(
        status=found.status,
        against=_compared(found),
        reasons=tuple(_reason(action_set, one) for one in found.reasons),
        protected_share=found.protected_share,
        reason=found.verdict,
        detail=None if found.verdict is None else NO_REASONS[found.verdict],
    )


def _compared(found: Explanation) -> ComparedWith | None:
    if found.comparison is None or found.contributions is None:
        return None
    count = len(found.comparison.scores)
    words = {
        Against.ACCEPTED: f"the {count:,} reference records that the model accepts with the lowest scores",
        Against.EVERYONE: f"all {count:,} reference records",
    }
    return ComparedWith(
        kind=found.against,
        text=words[found.against],
        records=count,
        asked=found.contributions.records,
        score=found.comparison.score,
    )


def _reason(action_set: ActionSet, found: FoundReason) -> ReasonAnswer:
    feature, value_raw = action_set.space.features[found.feature], float(action_set.factual_raw[found.feature])
    usual: RawValue = feature.value(found.usual_raw)
    if feature.is_number and found.usual_raw not in feature.states_raw:
        usual = found.usual_raw
    return ReasonAnswer(
        feature=feature.name,
        code=feature.reason.code,
        text=reason_text(feature, value_raw, found.departure),
        value=feature.value(value_raw),
        reference=usual,
        direction=found.departure,
        contribution=found.contribution,
        std_error=found.std_error,
        share=found.share,
    )


# --- beside recourse -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Recourse, the reasons if they were asked for, and the model calls of both."""

    recourse: RecourseResult
    reasons: Explanation | None
    diagnostics: Diagnostics
    """Of both."""
    precluded: Preclusion | None = None
    """What is known where no recourse was found."""


def reasons_first(asked: RecourseProblem, params: ReasonsParams | None) -> tuple[RecourseProblem, Explanation | None]:
    """Compute the reasons for the refusal; returns two items: the problem for the search that follows, and the reasons.

    In that problem, the black box may be asked only as often as the budget still allows. Without `params`, the problem
    is `asked` itself and the reasons are None.
    """
    if params is None:
        return asked, None
    now = time.monotonic()
    meter = Meter(asked.black_box, now + (asked.deadline - now) / TIME_SHARE)
    found = explain(asked, params, meter)
    return replace(asked, black_box=meter.rest()), found


def together(recourse: RecourseResult, reasons: Explanation | None) -> Explained:
    """Recourse and reasons as one result; its diagnostics add up the model calls of both."""
    diagnostics = recourse.diagnostics
    if reasons is not None:
        diagnostics = diagnostics.plus(reasons.diagnostics.model_calls, reasons.diagnostics.model_rows)
    return Explained(recourse=recourse, reasons=reasons, diagnostics=diagnostics)
