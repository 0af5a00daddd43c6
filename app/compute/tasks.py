"""What child processes do with a model: load it, ask it. Plain data leaves; models stay where they were loaded.

Questions about an applicant are in `app.compute.use_cases`.
"""

import math
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from app.compute.answers import Decision, Json, decision, plain
from app.compute.messages import ModelRef, Store
from app.errors import RecourseError
from app.futures.store import load_futures
from app.recourse.actions.action_set import action_set
from app.recourse.certificate import CertificateParams
from app.recourse.models.black_box import BlackBox, Meter
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.version import LoadedModel

FIRST_QUESTION_S = 10.0
"""Time for the first question to each model; a slow model is ready all the same."""

MODELS_IN_MEMORY = 8
"""Models that one child keeps loaded; the least recently used makes room."""


SIBLINGS_IN_MEMORY = 100
"""Other versions of models that one child keeps, without their reference records."""


@lru_cache(maxsize=MODELS_IN_MEMORY)
def load(ref: ModelRef) -> LoadedModel:
    """The model, ready to be asked, whether or not it is active."""
    return ref.store.open().find(ref.name, include_inactive=True).load()


@lru_cache(maxsize=SIBLINGS_IN_MEMORY)
def load_sibling(ref: ModelRef) -> BlackBox:
    """Another version of a model that is asked; it takes no room from the models that `load` keeps."""
    return ref.store.open().find(ref.name, include_inactive=True).load().black_box


def prepare(store: Store) -> dict[str, str]:
    """Make the newest active models ready; gives why, for those that cannot be loaded."""
    active = [model for model in store.open().list() if model.active]
    problems = {}
    for ref in (ModelRef.of(store, model) for model in active[-MODELS_IN_MEMORY:]):
        try:
            ready(ref)
        except RecourseError as error:
            problems[ref.name] = error.sentence
    return problems


def ready(ref: ModelRef) -> None:
    """Load a model and ask it one question, so that no request waits for what happens only once. Idempotent.

    Errors as `RegisteredModel.load`.
    """
    load_futures(load(ref).registered)
    _ask_once(ref)


@lru_cache(maxsize=MODELS_IN_MEMORY)
def _ask_once(ref: ModelRef) -> None:
    model = load(ref)
    # A question to a remote model warms nothing here, and costs.
    if model.black_box.remote is not None or (refused := sample(ref, deadline_s=math.inf)) is None:
        return
    space, method = model.black_box.space, next(iter(METHODS.values()))
    problem = RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=action_set(space, space.read(refused), rules=model.rules),
        deadline=time.monotonic() + FIRST_QUESTION_S,
    )
    # A real question reports what is wrong.
    with suppress(RecourseError):
        solve(problem, method, method.params(), CertificateParams(), plan_s=0.0)


def predict(ref: ModelRef, rows_raw: Float[np.ndarray, "n p"], *, deadline_s: float) -> list[Json]:
    """The model's decisions about raw rows."""
    deadline = time.monotonic() + deadline_s
    found: list[Json] = plain(decisions(Meter(load(ref).black_box, deadline), rows_raw))
    return found


def decisions(meter: Meter, rows_raw: Float[np.ndarray, "n p"]) -> list[Decision]:
    """A model's decision about each raw row."""
    black_box = meter.black_box
    scores = meter.score_raw(rows_raw)
    probabilities = black_box.probability(scores)
    return [
        decision(_finite(score), None if probabilities is None else _finite(probabilities[i]))
        for i, score in enumerate(scores)
    ]


def sample(ref: ModelRef, *, deadline_s: float) -> dict[str, Any] | None:  # noqa: ARG001
    """The refused reference record with the median score; None where the model refuses none."""
    reference = load(ref).reference
    refused = np.flatnonzero(reference.scores < 0.0)
    if not refused.size:
        return None
    middle = refused[np.argsort(reference.scores[refused], kind="stable")[refused.size // 2]]
    return reference.space.record(reference.rows_raw[middle])


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
