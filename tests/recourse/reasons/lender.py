"""A small lender whose contributions can be computed by hand: Shapley values over all sets of features."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from app.recourse.actions.action_set import action_set
from app.recourse.features import Feature, FeatureSpace, FeatureType, ModelColumns, ModelSpace
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem, Reference

FEATURES = (
    Feature(name="income", type=FeatureType.CONTINUOUS, min=0, center=2.0, scale=1.0),
    Feature(name="debt", type=FeatureType.CONTINUOUS, min=0, center=1.0, scale=1.0),
    Feature(name="age", type=FeatureType.INTEGER, min=18, max=90, center=40.0, scale=12.0),
    Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rented", "owned", "other")),
    Feature(name="late", type=FeatureType.INTEGER, min=0, max=9, special={-9: "no record"}, center=1.0, scale=1.0),
)


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Raw rows of `FEATURES`."""
    rng = np.random.default_rng(seed)
    late = np.where(rng.random(n) < 0.2, -9.0, rng.poisson(1.0, n))
    columns = (rng.gamma(4.0, 0.5, n), rng.gamma(2.0, 0.5, n), rng.integers(18, 80, n), rng.integers(0, 3, n), late)
    return np.column_stack(columns).astype(float)


def curved(table: np.ndarray) -> np.ndarray:
    """A score with products, a state and a threshold, of raw rows."""
    income, debt, age, housing, late = table.T
    score = 0.8 * income - 1.5 * debt / (0.5 + income) + 0.3 * (housing == 1) * income - 0.5 * (housing == 2)
    return score - np.where(late == -9.0, 0.7, 0.4 * np.minimum(late, 3) * (debt > 1.0)) + 0.01 * (age - 40) - 0.6


def problem(
    factual_raw: Sequence[float],
    predict: Callable[[Any], Any] = curved,
    features: Sequence[Feature] = FEATURES,
    reference_raw: np.ndarray | None = None,
    **options: Any,
) -> RecourseProblem:
    """A question about one applicant of a lender with this score of raw rows, derived columns included."""
    space = FeatureSpace(features)
    black_box = BlackBox(space=space, predict=predict, input=Input.RAW, output=Output.LOGIT, threshold=0.0)
    black_box = black_box.of_columns(ModelColumns(space, ModelSpace(features)))
    reference_raw = rows(150) if reference_raw is None else reference_raw
    reference = Reference(
        space=space, rows_raw=reference_raw, scores=black_box.score_raw(reference_raw), largest_distance=10.0
    )
    actions = action_set(space, np.array(factual_raw, dtype=float))
    return RecourseProblem(black_box=black_box, reference=reference, action_set=actions, **options)


def shapley(score: Callable[[np.ndarray], np.ndarray], person: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Shapley values of ``v(S) = mean score of the others with the person's values in S``, over all sets."""
    p = len(person)

    def value(of: tuple[int, ...]) -> float:
        mixed = others.copy()
        mixed[:, list(of)] = person[list(of)]
        return float(score(mixed).mean())

    values = {of: value(of) for k in range(p + 1) for of in combinations(range(p), k)}
    found = np.zeros(p)
    for j in range(p):
        for of in values:
            if j not in of:
                with_j = tuple(sorted((*of, j)))
                found[j] += (values[with_j] - values[of]) / (p * comb(p - 1, len(of)))
    return found
