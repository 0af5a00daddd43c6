"""Corrections of a plan that the caller supplies: what a child computes, and the answer."""

from dataclasses import dataclass, fields

from app.questions.answers import (
    CounterfactualAnswer,
    Decision,
    ModelVersion,
    Plan,
    PlanValidity,
    Timestamp,
    counterfactual_answers,
    decision_if_asked,
    plan_answer,
)
from app.questions.frame import Frame
from app.questions.validity import ValidityQuestion
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import AnswerPart
from app.recourse.correct import Correction, CorrectionStatus, correct
from app.recourse.plans.corrector import OUTCOMES, CorrectionParams, MemberOutcome
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate
from app.recourse.verdict import SENTENCES, Reason, Relaxation


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionQuestion(ValidityQuestion):
    """Asks for the correction of a plan; the request gives the plan as records."""

    correction: CorrectionParams

    @property
    def takes_long(self) -> bool:
        """True: every correction takes long."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCorrection(AnswerPart):
    """The outcome of correcting one member."""

    changed: bool
    """Whether the record differs from the one in the request."""
    outcome: MemberOutcome
    """`corrected`, or why not: `met` the requirement already, `not_selected`, `infeasible`, `refused` by the model,
    `no_gain`, `undecided` in the time."""
    detail: str
    """The outcome as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedMember(CounterfactualAnswer):
    """A record of the plan: corrected and accepted by the model, or as in the request."""

    correction: MemberCorrection
    """Whether the record moved, and if not, why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedPlan(AnswerPart):
    """All records together, before and after the correction."""

    before: Plan | None
    """The plan of the request."""
    validity: PlanValidity
    """Joint bounds of all members."""
    proximity: float
    """Mean L2 distance to the factual, in standardised units."""
    diversity: float
    """Determinant of ``1/(1 + distance)`` between the members: 0 for equal members, towards 1 for distant ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectAnswer(AnswerPart):
    """The plan, with members corrected where that raises the plan's validity, which never falls."""

    id: str
    """Id of the answer."""
    status: CorrectionStatus
    """`corrected`: at least one member; `unchanged`: no correction raises the validity; `not_found`: see `reason`."""
    model: ModelVersion
    """The version that was asked."""
    reason: Reason | None
    """Why nothing was corrected."""
    detail: str | None
    """The reason as a sentence."""
    relax: Relaxation | None
    """The constraint whose relaxation helps most."""
    factual: Decision | None
    """The model's decision on the applicant's record; null where it was not asked in time."""
    counterfactuals: tuple[CorrectedMember, ...]
    """In the order of the request."""
    plan: CorrectedPlan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: Diagnostics
    """What the answer took to compute."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    seed: int
    """Seed of all random numbers."""
    created_at: Timestamp
    """When the answer was computed."""


LIMITED = {
    Reason.INFEASIBLE_CONSTRAINTS: MemberOutcome.INFEASIBLE,
    Reason.TARGET_NOT_REACHED: MemberOutcome.REFUSED,
}
"""Reasons with another sentence here: what a correction cannot reach within its limits may exist beyond them."""


def compute(asked: RecourseProblem, question: CorrectionQuestion, plan_s: float) -> Correction:
    """The correction of the question's plan; `plan_s` is the time in seconds for the joint bounds of the plan."""
    return correct(asked, question.rows_raw, question.correction, question.certificate, plan_s=plan_s)


def render(frame: Frame, action_set: ActionSet, found: Correction) -> CorrectAnswer:
    """The answer, made from the frame and from the core's correction `found`."""
    outcome = LIMITED.get(found.reason) if found.reason else None
    ranked = counterfactual_answers(action_set, found.members, frame.points)
    return CorrectAnswer(
        **frame.known("id", "model", "seed", "created_at"),
        status=found.status,
        reason=found.reason,
        detail=OUTCOMES[outcome] if outcome else found.reason and SENTENCES[found.reason],
        relax=found.relax,
        factual=decision_if_asked(found.factual_score, found.factual_probability, found.reason, frame.points),
        counterfactuals=tuple(map(corrected_member, ranked, found.outcomes)),
        plan=corrected_plan(found.before, found.plan),
        diagnostics=found.diagnostics,
        warnings=found.warnings,
    )


def corrected_member(member: CounterfactualAnswer, outcome: MemberOutcome) -> CorrectedMember:
    """A member of a corrected plan: the member's part of the answer, completed by the outcome of its correction."""
    correction = MemberCorrection(changed=outcome is MemberOutcome.CORRECTED, outcome=outcome, detail=OUTCOMES[outcome])
    return CorrectedMember(**{f.name: getattr(member, f.name) for f in fields(member)}, correction=correction)


def corrected_plan(before: PlanCertificate | None, after: PlanCertificate | None) -> CorrectedPlan | None:
    """The part of an answer about a plan before and after its correction; None where `after` is None."""
    plan = plan_answer(after)
    if plan is None:
        return None
    return CorrectedPlan(
        before=plan_answer(before), validity=plan.validity, proximity=plan.proximity, diversity=plan.diversity
    )
