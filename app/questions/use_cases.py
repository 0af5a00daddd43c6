"""What can be asked about one applicant: `USE_CASES`, with what each computes in a child process and what it answers.

To add a use case, add a module with its question, its answer, `compute` and `render`, and its line in the table; jobs
follow.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.futures.store import load_futures
from app.models import tasks
from app.questions import correction, frontier, offers, recourse, validity
from app.questions.answers import Json, plain, without_scores
from app.questions.correction import CorrectionQuestion
from app.questions.frame import Frame
from app.questions.frontier import FrontierQuestion
from app.questions.offers import OffersQuestion
from app.questions.question import Case, Question, reader
from app.questions.validity import ValidityQuestion
from app.reasons.answer import ReasonsQuestion, no_time_for_reasons, reasons_answer, reasons_of
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE
from app.recourse.actions.rules import Rule
from app.recourse.answer_part import AnswerPart
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import Futures
from app.recourse.problem import RecourseProblem
from app.recourse.solve import DEFAULT_METHOD, METHODS
from app.registry.ref import ModelRef, Store
from app.registry.version import RegisteredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCase:
    """One kind of question about an applicant, with the functions that answer it."""

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
    """Compute the full answer to the question of a use case, as clients get it; runs in a child process.

    Joint bounds of a plan stay rough where they take longer than `plan_s` seconds.
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
    """The frame with the method of the question; a frame that has a method already is returned as it is."""
    if frame.method is not None or not isinstance(question, Question):
        return frame
    return replace(frame, method=method_of(question))


def method_of(question: Question) -> Json:
    """The name and all parameters of a question's method, as JSON data."""
    return {"name": question.method, **asdict(question.params)}


def problem(ref: ModelRef, question: Case, deadline_s: float, like: RecourseProblem | None = None) -> RecourseProblem:
    """The question as a problem for the core, with a deadline `deadline_s` seconds from now.

    `like` is the problem of another applicant, from a question that differs in record and seed alone.
    """
    model = tasks.load(ref)
    if like is not None:
        actions = actions_of(model.black_box.space, question, model.rules)
        return replace(like, action_set=actions, seed=question.seed)
    deadline = time.monotonic() + deadline_s
    others = question.params.other_models().values() if isinstance(question, Question) else ()
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=actions_of(model.black_box.space, question, model.rules),
        siblings=tuple(sibling.by(deadline) for sibling in _siblings(ref, question.certificate)),
        others={name: tasks.load(_named(ref.store, name)).black_box for name in others},
        futures=_futures(model.registered, question),
        future_validity=question.robustness.future_validity if isinstance(question, Question) else None,
        under=question.robustness.under if isinstance(question, Question) else None,
        count=question.count if isinstance(question, Question) else 1,
        seed=question.seed,
        deadline=deadline,
    )


def _futures(model: RegisteredModel, question: Case) -> Futures | None:
    """The future models of a version; their backtest only for a question that it has asked, but for the share."""
    futures = load_futures(model)
    if futures is None or (isinstance(question, Question) and question.params == METHODS[DEFAULT_METHOD].params()):
        return futures
    return replace(futures, backtest=())


def actions_of(space: FeatureSpace, question: Case, rules: Sequence[Rule] = ()) -> ActionSet:
    """The action set of the applicant whom the question is about.

    Raises `InvalidRequest` or `ConstraintClash` where constraints, weights or wishes do not fit the model.
    """
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


RECOURSE, REASONS, FRONTIER, OFFERS = "recourse", "reasons", "frontier", "offers"
VALIDITY, CORRECTION = "validity", "correction"

BOUNDS_S = 300.0
"""Time for a job of joint bounds, in seconds."""

USE_CASES: Mapping[str, UseCase] = {
    RECOURSE: UseCase(
        question=Question, compute=recourse.compute, render=recourse.render, prefix="rec", stopped=recourse.out_of_time
    ),
    REASONS: UseCase(question=ReasonsQuestion, compute=reasons_of, render=reasons_answer, stopped=no_time_for_reasons),
    FRONTIER: UseCase(question=FrontierQuestion, compute=frontier.compute, render=frontier.render),
    OFFERS: UseCase(question=OffersQuestion, compute=offers.compute, render=offers.render),
    VALIDITY: UseCase(question=ValidityQuestion, compute=validity.compute, render=validity.render, job_s=BOUNDS_S),
    CORRECTION: UseCase(
        question=CorrectionQuestion, compute=correction.compute, render=correction.render, prefix="cor", job_s=BOUNDS_S
    ),
}
"""Every use case, by the name of its jobs."""

for _use_case in USE_CASES.values():
    reader(_use_case.question)
