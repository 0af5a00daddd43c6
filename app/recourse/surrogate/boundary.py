"""Samples around the decision boundary, on the side of it that this person can reach.

1. The `neighbours` nearest reference records that the model accepts, each moved into this person's reach. 2. On each
segment from the factual to a neighbour, the point where the decision flips: one call scores a grid on all
   segments, a second one a finer grid inside every bracket. Where no segment has one, the second call follows rays to
   accepted records near and far, and beyond them, within this person's reach.
3. Points drawn around the crossings, in equal numbers, and scored in a third call.

Differences from paper 1 and Laugel et al., each with its row in the benchmarks:

* all crossings are sampled, not the nearest alone: the classes stay balanced and one odd crossing matters less;
* features that the person cannot change stay at the factual, so all samples vary features that can change;
* a model that takes raw records scores legal records only (`BlackBox.fractional` is false): categories switch
  one after another along a segment, and are resampled around a crossing with a probability that matches the ball.

References
----------
Laugel et al., "Defining Locality for Surrogates in Post-hoc Interpretability", 2018.
Vlassopoulos et al., "Explaining Predictions by Approximating the Local Decision Boundary", 2020.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float, Int

from app.errors import BoundaryNotFound, DegenerateSurrogate
from app.recourse.actions.action_set import ActionSet
from app.recourse.input_part import InputPart
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.surrogate.class_moments import Classes, class_moments

GRID = 16
"""Points per segment in each of the two calls; the crossing is known to 1/256 of the segment."""
FARTHER = 2
"""Rays for each neighbour where the model refuses every reachable point near the neighbours."""
BEYOND = (0.5, 32.0)
"""First and last point of a ray, as multiples of the distance to its record."""
RESAMPLE_FACTORS = (0.25, 2.0)
"""Radii tried, in one further call, where almost all samples have the same decision."""
NEIGHBOUR_FRACTION = 0.5
"""Sampling radius of models without a gradient, as a share of the median distance to the nearest neighbour."""
BETWEEN_FRACTION = 0.1
"""Least radius of these, as a share of the median distance between two records."""
MAX_SWITCH = 0.5
"""Largest probability of resampling a category."""
PARTS = 4
"""Draws of the unit ball that are kept, as a multiple of those for one person."""
MOST_KEPT = 200_000
"""Numbers of one person's draws beyond which they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerParams(InputPart):
    """Where and how densely the decision boundary is sampled."""

    neighbours: Annotated[int, Interval(ge=1, le=100)] = 10
    """Nearest favourable records to seek the boundary towards."""
    samples: Annotated[int, Interval(ge=40, le=20000)] = 1000
    """Points drawn around the boundary."""
    radius_fraction: Annotated[float, Interval(gt=0, le=5)] | None = None
    """Sampling radius, a share of the records' largest distance; by dimension or neighbours if absent."""

    def radius(self, reference: Reference, *, smooth: bool = True) -> float:
        """Sampling radius, encoded units.

        Where `radius_fraction` is not given, the radius of a smooth model depends on the number of encoded columns: in
        many dimensions, a small ball holds only points near the boundary, and the radius of an ambiguity set has no
        effect. Any other model decides in steps, so the next boundary is near. Its radius is half the median distance
        of a record to the nearest other record, or a tenth of the median distance between two records, whichever is
        larger.

        Parameters
        ----------
        smooth : whether the model is linear or offers a gradient
        """
        fraction = self.radius_fraction
        if fraction is None:
            nearest, between = reference.median_distances if not smooth else (0.0, 0.0)
            if between > 0.0:
                return max(NEIGHBOUR_FRACTION * nearest, BETWEEN_FRACTION * between)
            fraction = float(np.interp(reference.space.d, (8, 40), (0.2, 0.5)))
        return fraction * reference.largest_distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The scores of the first model call: of the factual, and of points between the factual and its neighbours."""

    factual_score: float
    """NaN where the model gave no finite score."""
    ends: Float[np.ndarray, "k d"]
    """Neighbours, encoded and within this person's reach, nearest first."""
    scores: Float[np.ndarray, "k g"]
    """Scores along each segment, from the factual (excluded) to the neighbour (included)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundarySample:
    """Points around the decision boundary, with the scores that the black box gives them."""

    X: Float[np.ndarray, "n d"]
    scores: Float[np.ndarray, "n"]
    """Scores of the black box, finite."""
    favourable: Bool[np.ndarray, "n"]
    free: Int[np.ndarray, "k"]
    """Encoded columns that the person can change; the others are constant in `X`."""
    deviation: float
    """Standard deviation of the samples along one numeric column, encoded units."""

    @cached_property
    def X_free(self) -> Float[np.ndarray, "n k"]:
        """The columns `free` of `X`."""
        return self.X if len(self.free) == self.X.shape[1] else self.X.take(self.free, axis=1)

    def in_all_columns(self, model: LinearModel) -> LinearModel:
        """A linear model of the columns `free` as a model of all columns; every other column has weight 0."""
        w = np.zeros(self.X.shape[1])
        w[self.free] = model.w
        return LinearModel(w, model.c)

    def fidelity(self, model: LinearModel) -> float:
        """Share of the samples that a linear model, without weights in other columns, decides as the black box does."""
        accepted = self.X_free @ model.w[self.free] + model.c >= 0.0
        return float(np.count_nonzero(accepted == self.favourable) / len(self.X))

    @cached_property
    def machines(self) -> dict[object, object]:
        """A cache of the minimax machines fitted to these samples, for further questions about the same applicant."""
        return {}

    @cached_property
    def classes(self) -> Classes:
        """Moments of favourable and unfavourable samples in the free columns, for fitting minimax machines."""
        return class_moments(self.X_free, self.favourable)


def survey(problem: RecourseProblem, meter: Meter, params: SamplerParams) -> Survey:
    """Score, in one model call, the factual and a grid of points on the segments from the factual to neighbours."""
    ends = _reachable_neighbours(problem, params.neighbours)
    times = np.arange(1, GRID + 1) / GRID
    grid = _along(problem, ends, np.broadcast_to(times, (len(ends), GRID)))
    grid = grid.reshape(-1, problem.reference.space.d)
    if meter.black_box.fractional:
        scores = meter.score(np.concatenate([problem.x0[None], grid]))
    else:  # the factual itself, without rounding by encoding and decoding
        rows_raw = problem.reference.space.decode(grid)
        scores = meter.score_raw(np.concatenate([problem.factual_raw[None], rows_raw]))
    return Survey(factual_score=float(scores[0]), ends=ends, scores=scores[1:].reshape(len(ends), GRID))


def sample_boundary(
    problem: RecourseProblem,
    meter: Meter,
    params: SamplerParams,
    seen: Survey,
    free: Int[np.ndarray, "k"] | None = None,
) -> BoundarySample:
    """Find the points where the decision flips along the surveyed segments, and draw scored samples around these.

    This takes two model calls, and a third if nearly all samples have the same decision.

    Parameters
    ----------
    seen : the survey of the segments
    free : encoded columns that vary among the samples; None for all columns that the person can change

    Raises
    ------
    BoundaryNotFound : the model accepts no reference record
    DegenerateSurrogate : nothing can change, or nearly all samples have the same decision
    """
    if free is None:
        free = free_columns(problem.action_set)
    crossings = _crossings(problem, meter, params, seen)
    if not free.size:
        raise DegenerateSurrogate("Nothing in this record can change.")
    centres = np.repeat(problem.x0[None], len(crossings), axis=0)
    centres[:, free] = crossings[:, free]
    _complete(problem, centres)
    enough = min(max(len(free) + 1, 20), params.samples // 4)
    black_box = problem.black_box
    radius = params.radius(problem.reference, smooth=black_box.linear or black_box.gradient is not None)
    X = _draw(problem, centres, free, radius, params.samples)
    X, scores = ask(meter, X)
    if min(_class_sizes(scores)) < enough:
        half = params.samples // 2
        others = [_draw(problem, centres, free, radius * factor, half) for factor in RESAMPLE_FACTORS]
        more, more_scores = ask(meter, np.concatenate(others))
        tries = [(radius, X, scores)] + [
            (radius * factor, more[i * half : (i + 1) * half], more_scores[i * half : (i + 1) * half])
            for i, factor in enumerate(RESAMPLE_FACTORS)
        ]
        radius, X, scores = max(tries, key=lambda one: min(_class_sizes(one[2])) / len(one[1]))
    if meter.silent:
        finite = np.isfinite(scores)
        X, scores = X[finite], scores[finite]
    if min(_class_sizes(scores)) < 2:
        raise DegenerateSurrogate("Almost all samples around the decision boundary have the same decision.")
    return BoundarySample(
        X=X,
        scores=scores,
        favourable=favourable(scores),
        free=free,
        deviation=radius / math.sqrt(problem.reference.space.d + 2),
    )


def _complete(problem: RecourseProblem, centres: Float[np.ndarray, "m d"]) -> None:
    """Give the person's own level what a crossing has of levels that do not vary, in place."""
    space, factual_raw = problem.reference.space, problem.factual_raw
    for g in problem.action_set.restricted:
        if space.features[g].is_group:
            own = space.spans[g].start + int(factual_raw[g])
            centres[:, own] += 1.0 - centres[:, space.spans[g]].sum(axis=1)


def free_columns(action_set: ActionSet) -> Int[np.ndarray, "k"]:
    """Indices of the encoded columns that the person can change, without columns of states such as missing."""
    space = action_set.space
    return np.flatnonzero(action_set.movable[space.feature_of_column] & space.holds_values)


def _reachable_neighbours(problem: RecourseProblem, k: int) -> Float[np.ndarray, "k d"]:
    """The `k` nearest accepted reference records, moved to what this person can reach; fewer where there are fewer."""
    reference, space = problem.reference, problem.reference.space
    X = reference.X_favourable
    x0 = problem.x0
    distance = reference.squares_favourable - 2.0 * (X @ x0)
    near = distance.argpartition(min(3 * k, len(X)) - 1)[: 3 * k] if len(X) else np.empty(0, dtype=np.intp)
    reach = space.encode(problem.action_set.snap(reference.rows_favourable_raw[near]))
    moved = ((reach - x0) ** 2).sum(axis=1)
    order = moved.argsort(kind="stable")
    return reach[order[moved[order] > 0.0][:k]]


def _along(
    problem: RecourseProblem,
    ends: Float[np.ndarray, "k d"],
    times: Float[np.ndarray, "k g"],
) -> Float[np.ndarray, "k g d"]:
    """Points on the segments from the factual to each end.

    For a model of raw records the categories of a segment switch one after another, so that a crossing can lie between.
    """
    x0 = problem.x0
    points = x0 + times[:, :, None] * (ends - x0)[:, None, :]
    if not problem.black_box.fractional:
        space = problem.reference.space
        for rank, j in enumerate(space.groups):
            switched = times >= (rank + 0.5) / len(space.groups)
            span = space.spans[j]
            points[:, :, span] = np.where(switched[:, :, None], ends[:, None, span], x0[span])
    return points


def _crossings(problem: RecourseProblem, meter: Meter, params: SamplerParams, seen: Survey) -> Float[np.ndarray, "m d"]:
    """Points where the decision flips, nearest first."""
    if favourable(seen.scores).any():
        crosses = favourable(seen.scores).any(axis=1)
        ends = seen.ends[crosses]
        bracket = favourable(seen.scores[crosses]).argmax(axis=1) / GRID
        points = _along(problem, ends, bracket[:, None] + np.arange(1, GRID + 1) / GRID**2)
        rays = points[:0]
    else:
        # The model refuses everything reachable near the neighbours: search farther in their direction and towards
        # other records, and, if that fails too, towards the unchanged neighbours.
        ends = _neighbours(problem, params.neighbours)
        points = _along(problem, ends, np.broadcast_to(np.arange(1, GRID + 1) / GRID, (len(ends), GRID)))
        rays = _rays(problem, FARTHER * params.neighbours)
    points = np.concatenate([rays, points])
    _, scores = ask(meter, points.reshape(-1, problem.reference.space.d))
    flips = favourable(scores.reshape(len(points), GRID))
    reached = flips[: len(rays)].any(axis=1)
    if reached.any():
        points, flips = rays[reached], flips[: len(rays)][reached]
    else:
        # The end of each segment is known to be favourable, even if rounding or a random model now disagrees.
        points, flips = points[len(rays) :], flips[len(rays) :]
        flips[:, -1] = True
    first, every = flips.argmax(axis=1), np.arange(len(points))
    crossings = points[every, first]
    if reached.any() and meter.black_box.fractional:  # the points of a ray are far apart
        before = np.where(first[:, None] > 0, points[every, first - 1], problem.x0)
        crossings = 0.5 * (before + crossings)
    return np.asarray(crossings[((crossings - problem.x0) ** 2).sum(axis=1).argsort(kind="stable")])


def _rays(problem: RecourseProblem, k: int) -> Float[np.ndarray, "k g d"]:
    """Legal points towards up to `k` accepted records as this person can reach them, near and far, and beyond them."""
    actions, space = problem.action_set, problem.reference.space
    ends_raw = unique_rows(actions.snap(problem.reference.rows_favourable_raw))
    ends_raw = ends_raw[(ends_raw != actions.factual_raw).any(axis=1)]
    if not len(ends_raw):
        return np.empty((0, GRID, space.d))
    order = actions.cost(ends_raw).argsort(kind="stable")
    ends_raw = ends_raw[order[np.linspace(0, len(order) - 1, min(k, len(order))).astype(int)]]
    rows_raw, fact = np.repeat(ends_raw[:, None], GRID, axis=1), actions.factual_raw[space.numeric]
    rows_raw[:, :, space.numeric] = fact + np.geomspace(*BEYOND, GRID)[:, None] * (rows_raw[:, :, space.numeric] - fact)
    return space.encode(actions.snap(rows_raw.reshape(-1, space.p))).reshape(len(ends_raw), GRID, space.d)


def _neighbours(problem: RecourseProblem, k: int) -> Float[np.ndarray, "k d"]:
    """The `k` nearest accepted reference records as they are."""
    X = problem.reference.X_favourable
    if not len(X):
        raise BoundaryNotFound
    return X[((X - problem.x0) ** 2).sum(axis=1).argsort(kind="stable")[:k]]


def _draw(
    problem: RecourseProblem, crossings: Float[np.ndarray, "m d"], free: Int[np.ndarray, "k"], radius: float, n: int
) -> Float[np.ndarray, "n d"]:
    """`n` points around the crossings in turn, moved along the free columns only.

    The spread along one column is that of the uniform ball of `radius` in the whole space, for any share of free
    columns.
    """
    space = problem.reference.space
    deviation = radius / math.sqrt(space.d + 2)
    if problem.black_box.fractional:
        return _around(crossings, free, deviation * math.sqrt(len(free) + 2), unit_ball(problem.seed, n, len(free)))
    X = crossings.take(np.arange(n) % len(crossings), axis=0)
    rng = np.random.default_rng(problem.seed)
    numeric = np.intersect1d(free, space.numeric_columns)
    if numeric.size:
        X[:, numeric] += deviation * math.sqrt(len(numeric) + 2) * unit_ball(problem.seed, n, len(numeric))
    for j in space.groups[problem.action_set.movable[space.groups]].tolist():
        span = space.spans[j]
        levels = np.array(problem.action_set.levels(j))
        width = span.stop - span.start
        # Among points whose columns sum to 1, a ball of this deviation moves them by (width - 1) deviation^2 in the
        # mean square; a change of category by 2, and one in `width` switches among all levels changes nothing.
        switch = rng.random(n) < min(MAX_SWITCH, width * deviation**2 / 2.0)
        # A level that few samples have may be of one decision alone, and then decides the direction of a machine: it
        # has to be one that this person can take.
        X[switch, span] = 0.0
        X[np.flatnonzero(switch), span.start + rng.choice(levels, size=int(switch.sum()))] = 1.0
    return X


def _around(
    crossings: Float[np.ndarray, "m d"], free: Int[np.ndarray, "k"], radius: float, ball: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n d"]:
    """Points around the crossings in turn: each is moved along its free columns by a point of the unit ball."""
    n, m = len(ball), len(crossings)
    X = np.zeros((n, crossings.shape[1]))
    X[:, free] = radius * ball
    whole = n - n % m
    # Without copies of the crossings.
    X[:whole].reshape(-1, *crossings.shape)[:] += crossings
    X[whole:] += crossings[: n - whole]
    return X


def unit_ball(seed: int, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """`n` points drawn uniformly from the unit ball: for each seed another part of draws that are kept.

    The parts of consecutive seeds, such as those of a batch, have no point in common. Many points are drawn anew for
    each seed.
    """
    if n * d > MOST_KEPT:
        return _drawn(seed, n, d)
    pool = _pool(n, d)
    start = seed * n % (len(pool) - n + 1)
    return pool[start : start + n]


@lru_cache(maxsize=16)
def _pool(n: int, d: int) -> Float[np.ndarray, "m d"]:
    pool = np.concatenate([_drawn(seed, n, d) for seed in range(PARTS)])
    pool.flags.writeable = False
    return pool


def _drawn(seed: int, n: int, d: int) -> Float[np.ndarray, "n d"]:
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, d))
    directions *= (rng.random(n) ** (1.0 / max(d, 1)) / np.linalg.norm(directions, axis=1))[:, None]
    return directions


def ask(meter: Meter, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n"]]:
    """The points that the model scores, and their scores.

    The points are `X` itself, or the nearest legal records if the model takes raw records only.
    """
    if meter.black_box.fractional:
        return X, meter.score(X)
    rows_raw = meter.black_box.space.decode(X)
    return meter.black_box.space.encode(rows_raw), meter.score_raw(rows_raw)


def _class_sizes(scores: Float[np.ndarray, "n"]) -> tuple[int, int]:
    return int(np.count_nonzero(scores >= 0.0)), int(np.count_nonzero(scores < 0.0))
