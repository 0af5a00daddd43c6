"""RBR: the record whose posterior odds stay best when the samples of both classes are wrong by a radius.

Around a boundary point, samples of each class are the centres of a Gaussian mixture of width `bandwidth`. The odds of
the unfavourable class at ``x`` are the largest likelihood that any mixture within `radius_unfavourable` gives it, over
the smallest that any within `radius_favourable` of the other class has. Both extremes depend on the distance ``c`` from
``x`` to a centre alone (``p`` dimensions, ``s`` bandwidth, ``e`` radius)::

    largest    exp of  max over a^2 + d^2 <= e^2      of  -log(s+d) - (c-a)^2 / 2(s+d)^2 - (p-1) log s
    smallest   exp of  min over a^2 + d^2 + f^2 = e^2 of  -log(s+d) - (c+a)^2 / 2(s+d)^2 - (p-1) log(s + f/sqrt(p-1))

The odds are lowered by projected gradient descent within a budget of cost: that of the cheapest accepted sample, and
`extra_cost`. The authors iterate for the inner extremes too; here they are read off a grid. Their cost is the L1
distance; ours is the action set's, which equals it for numbers of weight 1.

References
----------
Nguyen, Bui, Nguyen, Yue, Nguyen, "Robust Bayesian Recourse", UAI 2022.
"""

import time
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import RecourseProblem
from app.recourse.search.legal_rows import nearest_legal
from app.recourse.surrogate.boundary import SamplerParams

MOST_CENTRES = 100
"""Samples per class."""
STEPS = 120
STEP = 0.05
"""Length of a step, encoded units."""
_RADII, _ANGLES = np.meshgrid(np.linspace(0.0, 1.0, 5), np.linspace(0.0, np.pi / 2.0, 9), indexing="ij")
SHIFT, WIDEN = (_RADII * np.cos(_ANGLES)).ravel(), (_RADII * np.sin(_ANGLES)).ravel()
"""How far the Gaussians that are tried are shifted and widened, as shares of a radius."""
ROUNDING = 1e-9
"""Share of the budget by which a record may exceed it."""
PROPOSED = 13
"""Rows along the descent that are proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustBayesianParams(SamplerParams, MethodParams):
    """Parameters of robust Bayesian recourse."""

    radius_unfavourable: Annotated[float, Interval(ge=0, le=10)] = 1.0
    """Radius of the ambiguity set of the unfavourable samples, encoded units (epsilon_0)."""
    radius_favourable: Annotated[float, Interval(ge=0, le=10)] = 0.5
    """Radius of the ambiguity set of the favourable samples, encoded units (epsilon_1)."""
    bandwidth: Annotated[float, Interval(gt=0, le=10)] = 1.0
    """Width of the Gaussian around each sample, encoded units (sigma)."""
    extra_cost: Annotated[float, Interval(ge=0, le=100)] = 1.0
    """Cost allowed beyond that of the cheapest accepted sample of the boundary (delta_plus)."""


@dataclass(frozen=True, slots=True)
class Odds:
    """A function from points to the worst-case log odds of the unfavourable class there, and to their gradient."""

    favourable: Float[np.ndarray, "m d"]
    unfavourable: Float[np.ndarray, "k d"]
    params: RobustBayesianParams

    def __call__(self, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
        """Log odds of each point, and their gradient."""
        upper, up = self._likelihood(X, self.unfavourable, largest=True)
        lower, down = self._likelihood(X, self.favourable, largest=False)
        return upper - lower, up - down

    def _likelihood(
        self, X: Float[np.ndarray, "n d"], centres: Float[np.ndarray, "m d"], *, largest: bool
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
        p, s = self.params, self.params.bandwidth
        d = X.shape[1]
        e = p.radius_unfavourable if largest else p.radius_favourable
        c = cdist(X, centres)[:, :, None]
        grid = slice(1) if e == 0.0 else slice(None)
        a, b = e * SHIFT[grid], s + e * WIDEN[grid]
        if largest:
            distance = c - np.minimum(a, c)
            spare = np.zeros(len(a))
        else:
            distance = c + a
            spare = e * np.sqrt(np.maximum(1.0 - SHIFT[grid] ** 2 - WIDEN[grid] ** 2, 0.0) / max(d - 1, 1))
        log = -np.log(b) - 0.5 * (distance / b) ** 2 - (d - 1) * np.log(s + spare)
        pick = (log.argmax(axis=2) if largest else log.argmin(axis=2))[:, :, None]
        log = np.take_along_axis(log, pick, axis=2)[:, :, 0]
        slope = -np.take_along_axis(distance / b**2, pick, axis=2)[:, :, 0]
        total = logsumexp(log, axis=1)
        share = np.exp(log - total[:, None]) * slope / np.maximum(c[:, :, 0], 1e-12)
        return total, share.sum(axis=1)[:, None] * X - share @ centres


def generate(problem: RecourseProblem, params: RobustBayesianParams, context: MethodContext) -> Candidates:
    """Propose rows from a descent of the worst-case odds of the unfavourable class, the lowest odds first."""
    A, space, sample = problem.action_set, problem.action_set.space, context.sample
    odds = Odds(sample.X[sample.favourable][:MOST_CENTRES], sample.X[~sample.favourable][:MOST_CENTRES], params)
    # Odds with radius 0: much cheaper, and used only to order the changes of fallback records.
    nominal = Odds(odds.favourable, odds.unfavourable, replace(params, radius_unfavourable=0.0, radius_favourable=0.0))
    budget, path = _descend(problem, odds, context, params)

    def meets(rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        return A.cost(rows_raw) <= budget * (1.0 + ROUNDING)

    def how_far(row_raw: Float[np.ndarray, "p"]) -> str | None:
        cost = float(A.cost(row_raw[None])[0])
        return None if cost <= budget * (1.0 + ROUNDING) else f"It costs {cost:.3g}; the budget is {budget:.3g}."

    rows = A.snap(space.decode(path))
    if A.rules and not A.contains(rows).any():
        rows = np.concatenate([rows, nearest_legal(A, rows[:: len(rows) // PROPOSED + 1], deadline=problem.deadline)])
    cheaper = A.round(rows, toward_raw=np.broadcast_to(A.factual_raw, rows.shape))
    rows = unique_rows(np.concatenate([rows, cheaper]))
    rows = rows[A.contains(rows) & (rows != A.factual_raw).any(axis=1) & meets(rows)]
    values = odds(space.encode(rows))[0] if len(rows) else np.empty(0)
    best = rows[values.argsort(kind="stable")[:PROPOSED]]
    # The first point of the descent is a sample that the model accepts, unless rounding has moved it.
    first = A.snap(space.decode(path[:1]))
    best = np.concatenate([best, first[A.contains(first) & (first != A.factual_raw).any(axis=1) & meets(first)]])
    return Candidates(
        propose=lambda extra_margins: best[: len(extra_margins)],
        meets=meets,
        rank=lambda rows_raw: -nominal(space.encode(rows_raw))[0],
        nearness=lambda rows_raw: -A.cost(rows_raw),
        how_far=how_far,
        extra_margin_unit=1.0,
        proves_infeasible=False,
        objective=lambda rows_raw: odds(space.encode(rows_raw))[0],
    )


def _descend(
    problem: RecourseProblem, odds: Odds, context: MethodContext, params: RobustBayesianParams
) -> tuple[float, Float[np.ndarray, "n d"]]:
    """The budget, and the points of a descent from the cheapest favourable sample within it."""
    x0, sample, space = problem.x0, context.sample, problem.action_set.space
    free = np.zeros(space.d)
    free[sample.free] = 1.0
    accepted = sample.X[sample.favourable]
    # One change of category moves two columns.
    prices = problem.action_set.weights[space.feature_of_column]
    prices = np.where(np.isin(np.arange(space.d), space.numeric_columns), prices, 0.5 * prices)
    costs = np.abs(accepted - x0) @ prices
    nearest = accepted[costs.argmin()]
    budget = float(costs.min()) + params.extra_cost
    lower, upper = np.full(space.d, -np.inf), np.full(space.d, np.inf)
    lower[space.numeric_columns] = space.encode_numbers(problem.action_set.lower_raw[None])[0]
    upper[space.numeric_columns] = space.encode_numbers(problem.action_set.upper_raw[None])[0]
    x, path = np.clip(nearest, lower, upper), []
    until = 0.5 * (time.monotonic() + problem.deadline)  # verification needs the other half of the time
    for _ in range(STEPS):
        path.append(x)
        if time.monotonic() >= until:
            break
        gradient = odds(x[None])[1][0] * free
        length = float(np.linalg.norm(gradient))
        if not length > 1e-12:
            break
        step = _into_budget(np.clip(x - STEP * gradient / max(length, 1.0), lower, upper) - x0, prices, budget)
        x = x0 + step
    return budget, np.array(path)


def _into_budget(step: Float[np.ndarray, "d"], prices: Float[np.ndarray, "d"], budget: float) -> Float[np.ndarray, "d"]:
    """The nearest vector whose columns, each at its price > 0, cost no more than the budget."""
    size = np.abs(step)
    if size @ prices <= budget:
        return step
    order = (-size / prices).argsort(kind="stable")
    excess = (np.cumsum((size * prices)[order]) - budget) / np.cumsum(prices[order] ** 2)
    cut = excess[np.flatnonzero((size / prices)[order] > excess)[-1]]
    return np.asarray(np.sign(step) * np.maximum(size - cut * prices, 0.0))


METHOD = Method(
    name="robust_bayesian",
    params=RobustBayesianParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    knobs={"radius_unfavourable": 1, "extra_cost": 1},
    summary="The best posterior odds within a budget, for the worst samples within a radius of those seen; a baseline.",
    reference="Nguyen, Bui, Nguyen, Yue, Nguyen: Robust Bayesian Recourse, UAI 2022",
)
