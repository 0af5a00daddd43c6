"""What can be asked about one applicant: `USE_CASES`, with what each computes in a child process and what it answers.

To add a use case, add its answer, its two functions and its line in the table; jobs and service follow.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from app.compute import tasks
from app.compute.answers import (
    CounterfactualAnswer,
    Decision,
    Frame,
    Json,
    ModelVersion,
    Nearest,
    Plan,
    Point,
    Timestamp,
    counterfactual_answers,
    decision,
    nearest_answer,
    plain,
    plan_answer,
    without_scores,
)
from app.compute.corrections import correct_answer, correct_plan
from app.compute.messages import (
    Case,
    CorrectionQuestion,
    FrontierQuestion,
    ModelRef,
    Question,
    ReasonsQuestion,
    Store,
    ValidityQuestion,
)
from app.futures.store import load_futures
from app.portfolio.preclusion import Preclusion, preclusion
from app.reasons.answer import (
    Explained,
    Reasons,
    no_time_for_reasons,
    reasons_answer,
    reasons_first,
    reasons_of,
    reasons_part,
    together,
)
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE
from app.recourse.actions.rules import Rule
from app.recourse.actions.sentences import months_text
from app.recourse.answer_part import EXACT, FULL, AnswerPart
from app.recourse.assess import Assessment, assess
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.frontier import Frontier, FrontierPoint, frontier
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import RecourseProblem
from app.recourse.reports import SurrogateReport
from app.recourse.result import Diagnostics, RecourseResult, Status
from app.recourse.solve import METHODS, solve
from app.recourse.verdict import SENTENCES, Reason, Relaxation
from app.recourse.ways import named_ways


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """One kind of question about an applicant."""

    question: type[Case]
    compute: Callable[[RecourseProblem, Any, float], Any]
    """The core's result, in a child; the number is the time in seconds for joint bounds of a plan."""
    render: Callable[[Frame, ActionSet, Any], AnswerPart]
    """The answer, from the frame and the core's result."""
    prefix: str | None = None
    """Begins the ids of its answers; None where they have none."""
    job_s: float | None = None
    """Time for a job; None for the deadline of the request."""
    stopped: Callable[[Frame, float], AnswerPart] | None = None
    """The answer where the computation was stopped after so many milliseconds; None where that is an error."""


def answer(ref: ModelRef, name: str, question: Case, frame: Frame, plan_s: float, *, deadline_s: float) -> Json:
    """The whole answer of a use case, as clients get it; runs in a child.

    Joint bounds of a plan that take longer than `plan_s` are left as a bracket.
    """
    began, use_case = time.perf_counter(), USE_CASES[name]
    asked = problem(ref, question, deadline_s)
    found = use_case.compute(asked, question, plan_s)
    # The core has counted its own time; loading other versions and future models takes time as well.
    elapsed_ms = 1e3 * (time.perf_counter() - began)
    found = replace(found, diagnostics=replace(found.diagnostics, elapsed_ms=elapsed_ms))
    rendered: Json = plain(use_case.render(with_method(frame, question), asked.action_set, found))
    brought = issubclass(use_case.question, ValidityQuestion)
    return rendered if frame.scores else without_scores(rendered, brought=brought)


def with_method(frame: Frame, question: Case) -> Frame:
    """The frame with the method of its question, unless it has one."""
    if frame.method is not None or not isinstance(question, Question):
        return frame
    return replace(frame, method=method_of(question))


def method_of(question: Question) -> Json:
    """The method with every parameter."""
    return {"name": question.method, **asdict(question.params)}


def problem(ref: ModelRef, question: Case, deadline_s: float) -> RecourseProblem:
    """The question as the core takes it; the time counts from now."""
    deadline = time.monotonic() + deadline_s
    model = tasks.load(ref)
    others = question.params.other_models().values() if isinstance(question, Question) else ()
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=actions_of(model.black_box.space, question, model.rules),
        siblings=tuple(sibling.by(deadline) for sibling in _siblings(ref, question.certificate)),
        others={name: tasks.load(_named(ref.store, name)).black_box for name in others},
        futures=load_futures(model.registered),
        future_validity=question.robustness.future_validity if isinstance(question, Question) else None,
        under=question.robustness.under if isinstance(question, Question) else None,
        count=question.count if isinstance(question, Question) else 1,
        seed=question.seed,
        deadline=deadline,
    )


def actions_of(space: FeatureSpace, question: Case, rules: Sequence[Rule] = ()) -> ActionSet:
    """What the applicant of a question can change. Errors as `action_set`."""
    return action_set(
        space,
        question.factual_raw,
        constraints=question.constraints,
        rules=rules,
        cost_weights=question.cost_weights,
        timing=question.timing,
        valid_months=math.inf if question.valid_months is None else question.valid_months,
        least_share=LEAST_SHARE,
        wishes=question.wishes if isinstance(question, Question) else None,
    )


def _named(store: Store, name: str) -> ModelRef:
    return ModelRef.of(store, store.open().find(name, include_inactive=True))


def _siblings(ref: ModelRef, certificate: CertificateParams) -> tuple[BlackBox, ...]:
    """The model's other active versions with the same columns, where the certificate asks for them."""
    if not certificate.asks_siblings:
        return ()
    own = tasks.load(ref).registered
    others = [m for m in ref.store.open().list() if m.id == own.id and m.version != own.version and m.active]
    return tuple(tasks.load_sibling(ModelRef.of(ref.store, m)) for m in others if m.space.same_columns(own.space))


# --- recourse --------------------------------------------------------------------------------------------------------


EXPIRES_WARNING = (
    "{} longer than the answer is valid: the model may decide otherwise by then, and another version of it may be in "
    "use."
)


UNKNOWN = frozenset((Reason.DEADLINE, Reason.MODEL_OUTPUT_INVALID, Reason.BUDGET))
"""Reasons after which nothing is known about other records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precluded(AnswerPart):
    """What is known beyond the search, which has found nothing."""

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
    factual: Decision | None
    """The model's decision on the applicant's record; null where the time ran out before the model was asked."""
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


def _recourse(asked: RecourseProblem, question: Question, plan_s: float) -> Explained:
    asked, reasons = reasons_first(asked, question.reasons)
    found = solve(asked, METHODS[question.method], question.params, question.certificate, plan_s=plan_s)
    found, precluded = with_proof(asked, found, asked.deadline)
    return replace(together(found, reasons), precluded=precluded)


def with_proof(
    asked: RecourseProblem, found: RecourseResult, deadline: float
) -> tuple[RecourseResult, Preclusion | None]:
    """Ask for a proof where a search found nothing. Returns the result with the calls of the proof, and the proof.

    None where the model accepts a record that the search could not use, such as one that misses a promise.
    """
    if found.verdict is None or found.verdict.reason in UNKNOWN:
        return found, None
    known = preclusion(asked.black_box, asked.reference, asked.action_set, deadline=deadline)
    spent = found.diagnostics
    if known.asked and spent.model_calls is not None and spent.model_rows is not None:
        spent = replace(spent, model_calls=spent.model_calls + 1, model_rows=spent.model_rows + known.asked)
    return replace(found, diagnostics=spent), known if known.row_raw is None else None


def _recourse_answer(frame: Frame, action_set: ActionSet, found: Explained) -> RecourseAnswer:
    reasons = None if found.reasons is None else reasons_part(action_set, found.reasons)
    recourse = replace(found.recourse, diagnostics=found.diagnostics)
    return recourse_answer(frame, action_set, recourse, reasons, precluded=found.precluded)


def recourse_answer(
    frame: Frame, action_set: ActionSet, found: RecourseResult, reasons: Reasons | None = None,
    *, precluded: Preclusion | None = None,
) -> RecourseAnswer:  # fmt: skip
    """The answer to one question."""
    verdict = found.verdict
    return RecourseAnswer(
        **frame.known(),
        status=found.status,
        factual=decision(found.factual_score, found.factual_probability, frame.points),
        counterfactuals=counterfactual_answers(action_set, found.counterfactuals, frame.points),
        reason=verdict.reason if verdict else None,
        detail=verdict.sentence if verdict else None,
        reasons=reasons,
        nearest=nearest_answer(action_set, verdict.nearest, frame.points) if verdict and verdict.nearest else None,
        relax=verdict.relax if verdict else None,
        plan=plan_answer(found.plan),
        surrogate=found.surrogate,
        diagnostics=found.diagnostics,
        precluded=_precluded(precluded),
        warnings=(*found.warnings, *_expires_before(frame, found)),
    )


def _precluded(known: Preclusion | None) -> Precluded | None:
    if known is None or (known.proof is None and known.accepted_share_at_most is None):
        return None
    status: Literal["proven", "open"] = "open" if known.proof is None else "proven"
    return Precluded(status=status, proof=known.proof, accepted_share_at_most=known.accepted_share_at_most)


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
    """The answer where the computation was stopped at its deadline from outside, so that nothing is known."""
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
        precluded=None,
        surrogate=None,
        diagnostics=Diagnostics(model_calls=None, model_rows=None, elapsed_ms=elapsed_ms),
        warnings=("The computation did not end at its deadline by itself and was stopped.",),
    )


# --- frontier --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierAnswer(AnswerPart):
    """The cost-robustness curve; the model itself accepted every record in it."""

    reference: str | None
    """The caller's own name for the case."""
    model: ModelVersion
    """The version that was asked."""
    threshold: float | None = field(metadata=EXACT)
    """Smallest favourable probability; null for a model whose output states none."""
    parameter: str
    """The parameter that varies."""
    factual: Decision
    """The model's decision on the applicant's record."""
    points: tuple[Point, ...]
    """In the order of the values. The cost of points that are not dominated grows with robustness."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    method: Json = field(metadata=FULL)
    """The method with every parameter, as in the request; each point has its own value of `parameter`."""
    diagnostics: Diagnostics = field(metadata=FULL)
    """Of all points together."""
    seed: int = field(metadata=FULL)


def _frontier(asked: RecourseProblem, question: FrontierQuestion, _plan_s: float) -> Frontier:
    method = METHODS[question.method]
    return frontier(asked, method, question.params, question.parameter, question.values, question.certificate)


def _frontier_answer(frame: Frame, action_set: ActionSet, found: Frontier) -> FrontierAnswer:
    first = found.points[0].result
    return FrontierAnswer(
        **frame.known("reference", "model", "threshold", "method", "seed"),
        parameter=found.parameter,
        factual=decision(first.factual_score, first.factual_probability, frame.points),
        points=tuple(_point(frame, action_set, point) for point in found.points),
        diagnostics=found.diagnostics,
        warnings=tuple(dict.fromkeys(warning for point in found.points for warning in point.result.warnings)),
    )


def _point(frame: Frame, action_set: ActionSet, point: FrontierPoint) -> Point:
    result, verdict = point.result, point.result.verdict
    best = next(iter(counterfactual_answers(action_set, result.counterfactuals[:1], frame.points)), None)
    return Point(
        value=point.value,
        status=result.status,
        cost=best.cost.total if best else None,
        dominated=point.dominated,
        counterfactual=best,
        reason=verdict.reason if verdict else None,
        detail=verdict.sentence if verdict else None,
    )


# --- validity --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityAnswer(AnswerPart):
    """The certificates of exactly the records given, favourable or not."""

    model: ModelVersion
    """The version that was asked."""
    factual: Decision
    """The model's decision on the applicant's record."""
    counterfactuals: tuple[CounterfactualAnswer, ...]
    """In the order of the request."""
    plan: Plan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: Diagnostics
    """What the answer took to compute."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    seed: int
    """Seed of all random numbers."""


def _validity(asked: RecourseProblem, question: ValidityQuestion, plan_s: float) -> Assessment:
    return assess(asked, question.rows_raw, question.certificate, plan_s=plan_s)


def _validity_answer(frame: Frame, action_set: ActionSet, found: Assessment) -> ValidityAnswer:
    return ValidityAnswer(
        **frame.known("model", "seed"),
        factual=decision(found.factual_score, found.factual_probability, frame.points),
        counterfactuals=counterfactual_answers(action_set, found.judged, frame.points),
        plan=plan_answer(found.plan),
        diagnostics=found.diagnostics,
        warnings=found.warnings,
    )


# --- the table -------------------------------------------------------------------------------------------------------

RECOURSE, REASONS, FRONTIER = "recourse", "reasons", "frontier"
VALIDITY, CORRECTION = "validity", "correction"

BOUNDS_S = 300.0
"""Time for a job of joint bounds, in seconds."""

USE_CASES: Mapping[str, UseCase] = {
    RECOURSE: UseCase(question=Question, compute=_recourse, render=_recourse_answer, prefix="rec", stopped=out_of_time),
    REASONS: UseCase(question=ReasonsQuestion, compute=reasons_of, render=reasons_answer, stopped=no_time_for_reasons),
    FRONTIER: UseCase(question=FrontierQuestion, compute=_frontier, render=_frontier_answer),
    VALIDITY: UseCase(question=ValidityQuestion, compute=_validity, render=_validity_answer, job_s=BOUNDS_S),
    CORRECTION: UseCase(
        question=CorrectionQuestion, compute=correct_plan, render=correct_answer, prefix="cor", job_s=BOUNDS_S
    ),
}
"""Every use case, by the name of its jobs."""
