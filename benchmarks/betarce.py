"""BetaRCE, written plainly: a counterfactual of any method, moved until a beta law promises that retraining keeps it.

Stepka, Stefanowski, Lango, "Counterfactual Explanations with Probabilistic Guarantees on their Robustness to Model
Change", KDD 2025. Post hoc; growing spheres around the given counterfactual; no constraints. Here points are snapped to
what the applicant can reach, as it would find nothing legal otherwise.
"""

import math

import numpy as np
from scipy.stats import beta

from app.recourse.models.committee import FutureModels
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import unit_ball

CONFIDENCE = 0.9
"""Of the promise, over the models that are sampled."""
FIRST, GROWTH, SHELLS, POINTS = 0.1, 1.3, 20, 100
"""Radius of the first sphere, its growth, how many spheres, and points in each."""


def betarce(
    problem: RecourseProblem, row_raw: np.ndarray, models: FutureModels, share: float
) -> tuple[np.ndarray, float] | None:
    """The point of the smallest sphere that the beta law promises a share of the models for, with its cost."""
    actions = problem.action_set
    space, centre = actions.space, actions.space.encode(row_raw[None])
    radius = 0.0
    for shell in range(SHELLS):
        directions = unit_ball(shell, POINTS, space.d)
        directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        outer = FIRST * GROWTH**shell
        spread = np.random.default_rng(shell).uniform(radius, outer, (POINTS, 1))
        rows = np.concatenate([row_raw[None], actions.snap(space.decode(centre + spread * directions))])
        rows = rows[actions.contains(rows) & (problem.black_box.score_raw(rows) >= 0.0)]
        yes = np.rint(models.shares(rows) * models.count)
        promised = beta.ppf(1.0 - CONFIDENCE, yes + 1.0, models.count - yes + 1.0) >= share
        if promised.any():
            costs = np.where(promised, actions.cost(rows), math.inf)
            return rows[int(costs.argmin())], float(costs.min())
        radius = outer
    return None
