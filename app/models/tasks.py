"""What child processes do with a model: load it, ask it. Results are plain data; models stay in their process.

Questions about an applicant are in `app.questions.use_cases`.
"""

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import RecourseError
from app.futures.store import load_futures
from app.kept import dropped, kept
from app.pool.child import Need
from app.questions.answers import Decision, Json, decision, plain
from app.recourse.actions.action_set import action_set
from app.recourse.certificate_params import CertificateParams
from app.recourse.models.black_box import BlackBox
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.solve import DEFAULT_METHOD, METHODS, solve
from app.registry.artifact import Endpoint
from app.registry.ref import ModelRef, Store
from app.registry.version import LoadedModel

FIRST_QUESTION_S = 10.0
"""Time for the first question to each model; a slow model is ready all the same."""

MOST_SAMPLES = 5
"""Records for people to try."""

PREPARED = 8
"""Models, the newest, that a child loads before it is asked about them."""

RECORDS_IN_USE, FILE_IN_USE = 2, 3
"""How many times the bytes of its records, and of its file, a model takes, with what is computed of them once."""

OWN_BYTES = 100_000
"""What a model takes besides."""

SIBLINGS_IN_MEMORY = 100
"""Other versions of models that one child keeps, without their reference records."""


def load(ref: ModelRef) -> LoadedModel:
    """The loaded model that `ref` identifies, active or not.

    The process keeps the model in memory as long as there is room.
    """
    return _kept(ref).model


@dataclass(slots=True)
class _Kept:
    model: LoadedModel
    was_asked: bool = False


def _kept(ref: ModelRef) -> _Kept:
    return kept(ref, lambda: _Kept(_read(ref)), name=ref.name, size=lambda found: _size(found.model))


def _read(ref: ModelRef) -> LoadedModel:
    return ref.store.open().find(ref.name, include_inactive=True).load()


def _size(model: LoadedModel) -> int:
    """Roughly: its records with their encoded points, its file as numbers in memory, and the leaves of its trees."""
    records = (model.reference.rows_raw, model.reference.X, model.reference.scores)
    forest, boxes = model.black_box.forest, model.black_box.boxes
    leaves = [of for of in (None if forest is None else forest.leaves, boxes) if of is not None]
    sides = [side for of in leaves for side in (of.lower, of.upper)]
    artifact = model.registered.manifest.artifact
    file = 0 if isinstance(artifact, Endpoint) else (model.registered.directory / artifact.path).stat().st_size
    return RECORDS_IN_USE * _bytes(records) + FILE_IN_USE * file + _bytes(sides) + OWN_BYTES


def _bytes(arrays: Iterable[np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays)


@lru_cache(maxsize=SIBLINGS_IN_MEMORY)
def load_sibling(ref: ModelRef) -> BlackBox:
    """The black box of a version with which the answering version is compared.

    The process keeps the last `SIBLINGS_IN_MEMORY` of them, without their reference records.
    """
    return _read(ref).black_box


def needs(store: Store) -> list[Need]:
    """A `Need` for each of the newest `PREPARED` active models; idle child processes load these in advance."""
    active = [model for model in store.open().list() if model.active]
    return [need_of(ModelRef.of(store, model)) for model in active[-PREPARED:]]


def need_of(ref: ModelRef) -> Need:
    """The `Need` of a call about a model: that its child process has loaded the model."""
    return Need(ref.name, ready, (ref,))


def ready(ref: ModelRef) -> list[str]:
    """Load a model and its future models, and ask it one question, so that the first request is not slow. Idempotent.

    Returns the names of the models that the process dropped to make room.

    Raises `ModelUnusable` where the model cannot be loaded, or its scores differ from those of its registration.
    """
    found = _kept(ref)
    load_futures(found.model.registered)
    if not found.was_asked:
        _ask_once(ref, found.model)
        found.was_asked = True
    return dropped()


def _ask_once(ref: ModelRef, model: LoadedModel) -> None:
    # A question to a remote model warms nothing here, and costs.
    if model.black_box.remote is not None or not (refused := samples(ref, deadline_s=math.inf)):
        return
    space, method = model.black_box.space, METHODS[DEFAULT_METHOD]
    problem = RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=action_set(space, space.read(refused[0]), rules=model.rules),
        deadline=time.monotonic() + FIRST_QUESTION_S,
    )
    # A real question reports what is wrong.
    with suppress(RecourseError):
        solve(problem, method, method.params(), CertificateParams(), plan_s=0.0)


def predict(ref: ModelRef, rows_raw: Float[np.ndarray, "n p"], *, deadline_s: float) -> list[Json]:
    """The model's decision about each raw row, as JSON data."""
    deadline = time.monotonic() + deadline_s
    found: list[Json] = plain(decisions(Meter(load(ref).black_box, deadline), rows_raw))
    return found


def decisions(meter: Meter, rows_raw: Float[np.ndarray, "n p"]) -> list[Decision]:
    """A model's decision about each raw row."""
    black_box = meter.black_box
    scores = meter.score_raw(rows_raw)
    probabilities = black_box.probability(scores)
    return [
        decision(_finite(score), None if probabilities is None else _finite(probabilities[i]), black_box.points)
        for i, score in enumerate(scores)
    ]


def samples(ref: ModelRef, *, deadline_s: float) -> list[dict[str, Any]]:  # noqa: ARG001
    """Sample records for people to try: at most `MOST_SAMPLES` different reference records that the model refuses.

    Their scores are spread evenly over the scores of all refused records. The samples are ordered by score: first from
    the median up to the boundary, then from the lowest score up to the median. Empty where no record is refused.
    """
    reference = load(ref).reference
    refused = np.flatnonzero(reference.scores < 0.0)
    by_score = refused[np.argsort(reference.scores[refused], kind="stable")]
    places = [(by_score.size * (2 * k + 1)) // (2 * MOST_SAMPLES) for k in range(MOST_SAMPLES)] if by_score.size else []
    middle = MOST_SAMPLES // 2
    rows_raw = [reference.rows_raw[by_score[place]] for place in places[middle:] + places[:middle]]
    records = [reference.space.record(row_raw) for row_raw in rows_raw]
    return [record for k, record in enumerate(records) if record not in records[:k]]


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
