"""Corrections of a plan that the caller supplies: what a child computes, and the answer."""

from dataclasses import dataclass

from app.compute.answers import (
    CorrectedMember,
    CorrectedPlan,
    Decision,
    Frame,
    ModelVersion,
    Timestamp,
    corrected_member,
    corrected_plan,
    counterfactual_answers,
    decision,
)
from app.compute.messages import CorrectionQuestion
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import AnswerPart
from app.recourse.correct import Correction, CorrectionStatus, correct
from app.recourse.outcomes import OUTCOMES, MemberOutcome
from app.recourse.problem import RecourseProblem
from app.recourse.result import SENTENCES, Diagnostics, Reason, Relaxation


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectAnswer(AnswerPart):
    """The plan with those members corrected whose correction raises its validity; never less valid than before."""

    id: str
    status: CorrectionStatus
    """`corrected`: at least one member; `unchanged`: no correction raises the validity; `not_found`: see `reason`."""
    model: ModelVersion
    reason: Reason | None
    detail: str | None
    """The reason as a sentence."""
    relax: Relaxation | None
    factual: Decision
    counterfactuals: tuple[CorrectedMember, ...]
    """In the order of the request."""
    plan: CorrectedPlan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: Diagnostics
    warnings: tuple[str, ...]
    seed: int
    created_at: Timestamp


LIMITED = {
    Reason.INFEASIBLE_CONSTRAINTS: MemberOutcome.INFEASIBLE,
    Reason.TARGET_NOT_REACHED: MemberOutcome.REFUSED,
}
"""Reasons with another sentence here: what a correction cannot reach within its limits may exist beyond them."""


def correct_plan(asked: RecourseProblem, question: CorrectionQuestion, plan_s: float) -> Correction:
    """The core's result."""
    return correct(asked, question.rows_raw, question.correction, question.certificate, plan_s=plan_s)


def correct_answer(frame: Frame, action_set: ActionSet, found: Correction) -> CorrectAnswer:
    """The answer, from the frame and the core's result."""
    outcome = LIMITED.get(found.reason) if found.reason else None
    ranked = counterfactual_answers(action_set, found.members)
    return CorrectAnswer(
        **frame.known("id", "model", "seed", "created_at"),
        status=found.status,
        reason=found.reason,
        detail=OUTCOMES[outcome] if outcome else found.reason and SENTENCES[found.reason],
        relax=found.relax,
        factual=decision(found.factual_score, found.factual_probability),
        counterfactuals=tuple(map(corrected_member, ranked, found.outcomes)),
        plan=corrected_plan(found.before, found.plan),
        diagnostics=found.diagnostics,
        warnings=found.warnings,
    )
