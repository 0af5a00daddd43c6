"""Recourse: what a child computes, and the answer."""

from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from app.portfolio.preclusion import Preclusion, preclusion
from app.questions.answers import (
    CounterfactualAnswer,
    FactualDecision,
    Json,
    ModelVersion,
    Nearest,
    Plan,
    SecondLook,
    Timestamp,
    counterfactual_answers,
    decision_if_asked,
    nearest_answer,
    plan_answer,
)
from app.questions.frame import Frame
from app.questions.offers import Offer, offer_answer
from app.questions.question import Question
from app.reasons.answer import Explained, Reasons, reasons_first, reasons_part, together
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.sentences import months_text
from app.recourse.answer_part import EXACT, FULL, AnswerPart
from app.recourse.counterfactual import Counterfactual
from app.recourse.method import Yields
from app.recourse.offers import best_offer
from app.recourse.problem import RecourseProblem
from app.recourse.reports import SurrogateReport
from app.recourse.result import Diagnostics, RecourseResult, Status
from app.recourse.solve import METHODS, solve
from app.recourse.terms import directions
from app.recourse.verdict import NONE_EXISTS, SENTENCES, UNPROVEN, Reason, Relaxation, Verdict
from app.recourse.ways import named_ways

EXPIRES_WARNING = (
    "{} longer than the answer is valid: the model may decide otherwise by then, and another version of it may be in "
    "use."
)


LOOK_AGAIN = 0.5
"""Share of the held-back models, from which on a refusal is a coin flip of training."""

UNKNOWN = frozenset((Reason.DEADLINE, Reason.MODEL_OUTPUT_INVALID, Reason.BUDGET))
"""Reasons after which nothing is known about other records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precluded(AnswerPart):
    """Whether any recourse exists, where the search has found none."""

    status: Literal["proven", "open"]
    """`proven`: the model itself refuses every record that the limits allow, today's model and these limits. `open`:
    there may be one that it accepts."""
    proof: Literal["enumerated", "optimised"] | None
    """`enumerated`: every legal record was asked. `optimised`: no legal record reaches the threshold. Null if open."""
    accepted_share_at_most: float | None
    """If open: 95 % upper bound on the share of legal records that the model accepts, from random ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecourseAnswer(AnswerPart):
    """The answer; the model itself accepted every record in `counterfactuals`."""

    id: str
    """Id of the answer, under which the ledger has it."""
    status: Status
    """Whether recourse was found."""
    reference: str | None
    """The caller's own name for the case."""
    model: ModelVersion
    """The version that was asked."""
    threshold: float | None = field(metadata=EXACT)
    """Smallest favourable probability; null for a model whose output states none."""
    factual: FactualDecision | None
    """The model's decision on the applicant's record; null where it was not asked in time."""
    counterfactuals: tuple[CounterfactualAnswer, ...]
    """Ranked; empty unless `status` is `found`."""
    reason: Reason | None
    """Why nothing was found."""
    detail: str | None
    """The reason as a sentence."""
    reasons: Reasons | None
    """Why the model refuses the applicant's record, where the request asked for it; another question than recourse."""
    nearest: Nearest | None
    """The record that came nearest where nothing was found."""
    relax: Relaxation | None
    """The constraint whose relaxation helps most, where constraints are the reason."""
    plan: Plan | None
    """All counterfactuals together, where there are several or the method returns a plan; null where there is no
    certificate."""
    offer: Offer | None
    """The best terms of the contract with which the model accepts the applicant as they are. Null where it accepts none
    or the record itself, where the manifest names no terms or says of none which way is better, of remote models, and
    with `must_include`."""
    precluded: Precluded | None
    """Whether the model refuses every legal record, where nothing was found; null where nothing is known."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    stored: bool
    """Whether the answer is in the ledger, under its `id`."""
    created_at: Timestamp
    """When the answer was given."""
    expires_at: Timestamp
    """The answer is intended to hold until then, for this version of the model."""
    method: Json = field(metadata=FULL)
    """The method with every parameter, defaults filled in."""
    surrogate: SurrogateReport | None = field(metadata=FULL)
    diagnostics: Diagnostics = field(metadata=FULL)
    seed: int = field(metadata=FULL)


def compute(asked: RecourseProblem, question: Question, plan_s: float) -> Explained:
    """Recourse, with reasons if the question asks for them; where no recourse is found, with what a proof has shown.

    `plan_s` is the time in seconds for the joint bounds of a plan.
    """
    asked, reasons = reasons_first(asked, question.reasons)
    found = solve(asked, METHODS[question.method], question.params, question.certificate, plan_s=plan_s)
    found, precluded = completed(asked, found, question, plan_s)
    both = together(found, reasons)
    return both if precluded is None else replace(both, precluded=precluded)


def completed(
    asked: RecourseProblem, found: RecourseResult, question: Question, plan_s: float
) -> tuple[RecourseResult, Preclusion | None]:
    """The result of a search, completed where the model refuses the applicant's record; and what a proof has shown.

    The result gets an offer, and the share of future models that accept the record. A proof that no recourse exists is
    sought only where the search found nothing; otherwise the second item is None.
    """
    found, precluded = with_proof(asked, found, question, plan_s)
    if found.factual_score is None or found.factual_score >= 0.0:
        return found, precluded
    offer, spent = best_offer(asked)
    diagnostics, second_look = found.diagnostics, found.second_look
    if spent is not None:
        diagnostics = diagnostics.plus(spent.model_calls, spent.model_rows)
    if asked.futures is not None:
        accepted = float(asked.held_back.accept(asked.factual_raw[None]).mean())
        second_look = accepted, asked.futures.held_back.count
    found = replace(found, offer=offer, diagnostics=diagnostics, second_look=second_look)
    return found, precluded


def with_proof(
    asked: RecourseProblem, found: RecourseResult, question: Question, plan_s: float
) -> tuple[RecourseResult, Preclusion | None]:
    """The result of the search, and what a proof that no recourse exists has shown; None where no proof was sought.

    A proof is sought only where the search found nothing. The result counts the model calls of the proof. If the proof
    comes upon a record that the model accepts, the second item is None and the result has that record, unless a plan or
    a promise about future models is asked for.
    """
    if found.verdict is None or found.verdict.reason in UNKNOWN:
        return found, None
    known = preclusion(asked.black_box, asked.reference, asked.action_set, deadline=asked.deadline)
    if known.asked:
        found = replace(found, diagnostics=found.diagnostics.plus(calls=1, rows=known.asked))
    if known.row_raw is None:
        return found, known
    return with_record(asked, found, known.row_raw, question, plan_s), None


def with_record(
    asked: RecourseProblem, found: RecourseResult, row_raw: Float[np.ndarray, "p"], question: Question, plan_s: float
) -> RecourseResult:
    """A result that found nothing, but with an accepted raw row as its answer, made cheaper where the model allows.

    The result stays as it is where a plan or a promise about future models is asked for.
    """
    method = METHODS[question.method]
    if method.yields is Yields.PLAN or asked.future_validity is not None:
        return found
    offered = replace(asked, offered_raw=row_raw[None], count=1)
    again = solve(offered, method, question.params, question.certificate, plan_s=plan_s)
    spent = found.diagnostics.plus(calls=again.diagnostics.model_calls, rows=again.diagnostics.model_rows)
    return replace(again if again.status is Status.FOUND else found, diagnostics=spent)


def render(frame: Frame, action_set: ActionSet, found: Explained) -> RecourseAnswer:
    """The answer, made from the frame and from the core's result `found`."""
    reasons = None if found.reasons is None else reasons_part(action_set, found.reasons)
    recourse = replace(found.recourse, diagnostics=found.diagnostics)
    return recourse_answer(frame, action_set, recourse, reasons, precluded=found.precluded)


def recourse_answer(
    frame: Frame, action_set: ActionSet, found: RecourseResult, reasons: Reasons | None = None,
    *, precluded: Preclusion | None = None,
) -> RecourseAnswer:  # fmt: skip
    """The answer, made from the frame and from a result; with reasons, and with what a proof has shown, if given."""
    verdict = found.verdict
    return RecourseAnswer(
        **frame.known(),
        status=found.status,
        factual=_factual(frame, found),
        counterfactuals=counterfactual_answers(action_set, found.counterfactuals, frame.points),
        reason=verdict.reason if verdict else None,
        detail=_detail(verdict, precluded),
        reasons=reasons,
        nearest=nearest_answer(action_set, verdict.nearest, frame.points) if verdict and verdict.nearest else None,
        relax=verdict.relax if verdict else None,
        plan=plan_answer(found.plan),
        offer=None if found.offer is None else _offer(action_set, found.offer, frame),
        surrogate=found.surrogate,
        diagnostics=found.diagnostics,
        precluded=_precluded(precluded),
        warnings=(*found.warnings, *_expires_before(frame, found)),
    )


def _detail(verdict: Verdict | None, known: Preclusion | None) -> str | None:
    if verdict is None:
        return None
    proven = known is not None and known.proof is not None
    return NONE_EXISTS if proven and verdict.sentence in UNPROVEN else verdict.sentence


def _factual(frame: Frame, found: RecourseResult) -> FactualDecision | None:
    reason = found.verdict.reason if found.verdict else None
    now = decision_if_asked(found.factual_score, found.factual_probability, reason, frame.points)
    if now is None:
        return None
    again = None
    if found.second_look is not None:
        accepted, models = found.second_look
        again = SecondLook(accepted=accepted, models=models, look_again=accepted >= LOOK_AGAIN)
    return FactualDecision(**{f.name: getattr(now, f.name) for f in fields(now)}, future=again)


def _precluded(known: Preclusion | None) -> Precluded | None:
    if known is None or (known.proof is None and known.accepted_share_at_most is None):
        return None
    status: Literal["proven", "open"] = "open" if known.proof is None else "proven"
    return Precluded(status=status, proof=known.proof, accepted_share_at_most=known.accepted_share_at_most)


def _offer(action_set: ActionSet, found: Counterfactual, frame: Frame) -> Offer:
    return offer_answer(action_set, found, frame.points, next(iter(directions(action_set.space, {}))))


def _expires_before(frame: Frame, found: RecourseResult) -> list[str]:
    """A warning of answers that are no longer valid when their changes are made."""
    every = [one.takes_months for one in found.counterfactuals]
    late = {k + 1: months_text(months) for k, months in enumerate(every) if 0.0 < months > frame.valid_months}
    if not late:
        return []
    named = named_ways([f"{way} ({time})" for way, time in late.items()])
    several = f"{named} {'takes' if len(late) == 1 else 'take'}"
    return [EXPIRES_WARNING.format(several if len(every) > 1 else f"This takes {late[1]},")]


def out_of_time(frame: Frame, elapsed_ms: float) -> RecourseAnswer:
    """The answer where the computation was killed after its deadline: no recourse is known."""
    return RecourseAnswer(
        **frame.known(),
        status=Status.NOT_FOUND,
        factual=None,
        counterfactuals=(),
        reason=Reason.DEADLINE,
        detail=SENTENCES[Reason.DEADLINE],
        reasons=None,
        nearest=None,
        relax=None,
        plan=None,
        offer=None,
        precluded=None,
        surrogate=None,
        diagnostics=Diagnostics(model_calls=None, model_rows=None, elapsed_ms=elapsed_ms),
        warnings=("The computation did not end at its deadline by itself and was stopped.",),
    )
