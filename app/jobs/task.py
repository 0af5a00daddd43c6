"""What is computed in child processes. Plain data in, plain data out; models stay where they were loaded."""

import math
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import RecourseError
from app.jobs.answer import Json, answer, assessment, correction, curve, decision
from app.jobs.asked import Counterfactuals, ModelRef, Question, Store, Sweep
from app.recourse.actionability import ActionSet, Constraints, action_set
from app.recourse.assess import assess
from app.recourse.blackbox import BlackBox, Meter
from app.recourse.certificate import CertificateParams
from app.recourse.correct import correct
from app.recourse.frontier import frontier
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.registered import LoadedModel

FIRST_QUESTION_S = 10.0
"""Time for the first question to each model; a slow model is ready all the same."""

MODELS_IN_MEMORY = 8
"""Models that one child keeps loaded; the least recently used makes room."""


@lru_cache(maxsize=MODELS_IN_MEMORY)
def load(ref: ModelRef) -> LoadedModel:
    """The model that is meant, ready to be asked; whether it should be active is for the caller to know."""
    return ref.store.open().find(ref.name, include_inactive=True).load()


def prepare(store: Store) -> dict[str, str]:
    """Make the newest active models ready; of those that cannot be, why."""
    active = [model for model in store.open().list() if model.active]
    amiss = {}
    for ref in (ModelRef.of(store, model) for model in active[-MODELS_IN_MEMORY:]):
        try:
            ready(ref)
        except RecourseError as error:
            amiss[ref.name] = error.sentence
    return amiss


def ready(ref: ModelRef) -> None:
    """Load a model and ask it one question, so that no request waits for what happens only once.

    Errors as `RegisteredModel.load`. Once more costs nothing.
    """
    load(ref)
    _ask_once(ref)


@lru_cache(maxsize=MODELS_IN_MEMORY)
def _ask_once(ref: ModelRef) -> None:
    model = load(ref)
    # A question to a remote model warms nothing here, and costs.
    if model.black_box.remote is not None or (refused := sample(ref, deadline_s=math.inf)) is None:
        return
    name, method = next(iter(METHODS.items()))
    question = Question(
        factual_raw=model.black_box.space.read(refused),
        constraints=Constraints(),
        cost_weights={},
        method=name,
        params=method.params(),
        certificate=CertificateParams(),
        seed=0,
    )
    # Whoever asks in earnest is told what is wrong.
    with suppress(RecourseError):
        recourse(ref, question, 0.0, deadline_s=FIRST_QUESTION_S)


def recourse(ref: ModelRef, question: Question, plan_s: float = math.inf, *, deadline_s: float) -> Json:
    """The answer to one question; see `app.jobs.answer`.

    Joint bounds of a plan that take longer than `plan_s` are left as a bracket.
    """
    problem = question_problem(ref, question, deadline_s)
    found = solve(problem, METHODS[question.method], question.params, question.certificate, plan_s=plan_s)
    return answer(problem.action_set, found)


def sweep(ref: ModelRef, asked: Sweep, *, deadline_s: float) -> Json:
    """The cost-robustness curve of one question; see `app.jobs.answer`."""
    question = asked.question
    problem = question_problem(ref, question, deadline_s)
    method = METHODS[question.method]
    found = frontier(problem, method, question.params, asked.parameter, asked.values, question.certificate)
    return curve(problem.action_set, found)


def question_problem(ref: ModelRef, question: Question, deadline_s: float) -> RecourseProblem:
    """The question as the core is asked it; the time counts from now."""
    deadline = time.monotonic() + deadline_s
    others = {name: load(_named(ref.store, name)).black_box for name in question.params.other_models().values()}
    return replace(_problem(ref, _actions(ref, question), question, deadline), others=others)


def validity(ref: ModelRef, brought: Counterfactuals, plan_s: float, *, deadline_s: float) -> Json:
    """What counterfactuals are worth that the caller already has; see `app.jobs.answer`.

    Joint bounds that take longer than `plan_s` are left as a bracket.
    """
    deadline = time.monotonic() + deadline_s
    actions = _actions(ref, brought)
    problem = _problem(ref, actions, brought, deadline)
    return assessment(actions, assess(problem, brought.rows_raw, brought.certificate, plan_s=plan_s))


def corrected(ref: ModelRef, brought: Counterfactuals, plan_s: float, *, deadline_s: float) -> Json:
    """A plan that the caller already has, made more valid; see `app.jobs.answer`.

    What joint bounds cannot show to help within `plan_s` is not changed.
    """
    assert brought.correction is not None
    deadline = time.monotonic() + deadline_s
    actions = _actions(ref, brought)
    problem = _problem(ref, actions, brought, deadline)
    found = correct(problem, brought.rows_raw, brought.correction, brought.certificate, plan_s=plan_s)
    return correction(actions, found)


def _actions(ref: ModelRef, asked: Question | Counterfactuals) -> ActionSet:
    model = load(ref)
    return action_set(
        model.black_box.space,
        asked.factual_raw,
        constraints=asked.constraints,
        rules=model.rules,
        cost_weights=asked.cost_weights,
    )


def _problem(ref: ModelRef, actions: ActionSet, asked: Question | Counterfactuals, deadline: float) -> RecourseProblem:
    model = load(ref)
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=actions,
        siblings=tuple(sibling.by(deadline) for sibling in _siblings(ref, asked.certificate)),
        seed=asked.seed,
        deadline=deadline,
    )


def _named(store: Store, name: str) -> ModelRef:
    return ModelRef.of(store, store.open().find(name, include_inactive=True))


def _siblings(ref: ModelRef, certificate: CertificateParams) -> tuple[BlackBox, ...]:
    """The model's other active versions with the same columns, where the certificate asks for them."""
    if not (certificate.ensemble or certificate.moments == "ensemble"):
        return ()
    own = load(ref).registered
    others = [m for m in ref.store.open().list() if m.id == own.id and m.version != own.version and m.active]
    return tuple(load(ModelRef.of(ref.store, m)).black_box for m in others if m.space.same_columns(own.space))


def predict(ref: ModelRef, rows_raw: Float[np.ndarray, "n p"], *, deadline_s: float) -> list[Json]:
    """The model's decisions about raw rows."""
    deadline = time.monotonic() + deadline_s
    return decisions(Meter(load(ref).black_box, deadline), rows_raw)


def decisions(meter: Meter, rows_raw: Float[np.ndarray, "n p"]) -> list[Json]:
    """What a model says about each raw row."""
    black_box = meter.black_box
    scores = meter.score_raw(rows_raw)
    probabilities = black_box.probability(scores)
    return [
        decision(_finite(score), None if probabilities is None else _finite(probabilities[i]))
        for i, score in enumerate(scores)
    ]


def sample(ref: ModelRef, *, deadline_s: float) -> dict[str, Any] | None:  # noqa: ARG001
    """The refused reference record that is most ordinary, by its score; None where the model refuses none."""
    reference = load(ref).reference
    refused = np.flatnonzero(reference.scores < 0.0)
    if not refused.size:
        return None
    middle = refused[np.argsort(reference.scores[refused], kind="stable")[refused.size // 2]]
    return reference.space.record(reference.rows_raw[middle])


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
