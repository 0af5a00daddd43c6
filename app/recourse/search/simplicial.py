"""Minimise two losses and a cost over a set that is known only by its best responses.

``min share loss(r) + (1 - share) loss(p) + cost`` over the convex hull of points ``(r, p, cost)``. There may be very
many points, but for given slopes ``(a, b)`` the one that is best for ``cost - a r - b p`` is easy to find. So the
hull is explored point by point (simplicial decomposition): minimise over the hull of the few points kept (at most three
besides the new one, because only two numbers enter the losses), and add the best response to the slopes there. It ends
at the optimum after finitely many points, with a proven bound at every step.

References
----------
Hearn, Lawphongpanich, Ventura, "Restricted simplicial decomposition", Mathematical Programming Study 31, 1987.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Int

MOST_POINTS = 200
"""Largest number of points; tens are usual."""
NEWTON_STEPS = 100
NEGLIGIBLE = 1e-12
"""Smaller weights count as zero."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point ``(r, p, cost)`` of the set that is searched, and the choice of one value per feature that gives it."""

    r: float
    p: float
    cost: float
    choice: Int[np.ndarray, "n"]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A point of the convex hull, as a weighted mean of points of the set; the weights sum to 1."""

    points: list[Point]
    weights: list[float]
    value: float
    bound: float
    """Nothing in the hull has a lower value."""
    slopes: tuple[float, float]
    """At this point: minus the derivatives of the losses by both scores."""


Weighted = tuple[tuple[int, ...], tuple[float, ...], float]
"""Indices of points, their weights, and the value there."""


def minimise(
    start: Point,
    respond: Callable[[float, float], Point],
    share: float,
    *,
    tolerance: float,
    cutoff: float = math.inf,
) -> Mixture:
    """The mixture of least value in the convex hull of all points that `respond` can return.

    The value of a point is ``share loss(r) + (1 - share) loss(p) + cost``.

    Parameters
    ----------
    start : any point of the set
    respond : a function that takes ``a`` and ``b`` and returns the point that minimises ``cost - a r - b p``
    share : weight of the first loss, in [0, 1]
    tolerance : the value of the result may exceed the least value by this much
    cutoff : the search stops once its lower bound reaches this value
    """
    bound, points = -math.inf, [start]
    found: Weighted = ((0,), (1.0,), value(share, start))
    for _ in range(MOST_POINTS):
        indices, weights, lowest = found
        points = [points[i] for i in indices]
        r, p, cost = (
            sum(w * getattr(one, name) for w, one in zip(weights, points, strict=True)) for name in ("r", "p", "cost")
        )
        a, b = slopes(share, r, p)
        new = respond(a, b)
        gap = (cost - a * r - b * p) - (new.cost - a * new.r - b * new.p)
        bound = max(bound, lowest - gap)
        if gap <= tolerance or bound >= cutoff:
            break
        better = _lowest([*points, new], share)
        if better[2] > lowest - 1e-3 * tolerance:  # within rounding
            break
        points, found = [*points, new], better
    else:
        points = [points[i] for i in found[0]]
    return Mixture(points, list(found[1]), found[2], bound, (a, b))


def value(share: float, point: Point) -> float:
    """The value ``share loss(r) + (1 - share) loss(p) + cost`` of one point."""
    return share * _loss(point.r) + (1.0 - share) * _loss(point.p) + point.cost


def slopes(share: float, r: float, p: float) -> tuple[float, float]:
    """Minus the derivative of the weighted losses with respect to each of the scores `r` and `p`."""
    return share * _falling(r), (1.0 - share) * _falling(p)


def _loss(s: float) -> float:
    return math.log1p(math.exp(-s)) if s > 0.0 else math.log1p(math.exp(s)) - s


def _falling(s: float) -> float:
    """Minus the slope of the loss."""
    return math.exp(-s) / (1.0 + math.exp(-s)) if s > 0.0 else 1.0 / (1.0 + math.exp(s))


def _lowest(points: list[Point], share: float) -> Weighted:
    """The lowest value in the hull of at most four points; the last one is known to take part."""
    last = len(points) - 1
    found: Weighted = ((last,), (1.0,), value(share, points[last]))
    for i in range(last):
        t = _on_edge(points[i], points[last], share)
        if t > NEGLIGIBLE:
            one = _weighted((i, last), (1.0 - t, t), points, share)
            found = min(found, one, key=lambda w: w[2])
    if 0.0 < share < 1.0:
        for i, j in combinations(range(last), 2):
            inside = _in_triangle(points[last], points[i], points[j], share)
            if inside is not None:
                one = _weighted((i, j, last), (*inside, 1.0 - sum(inside)), points, share)
                found = min(found, one, key=lambda w: w[2])
    return found


def _weighted(indices: tuple[int, ...], weights: tuple[float, ...], points: list[Point], share: float) -> Weighted:
    r, p, cost = 0.0, 0.0, 0.0
    for i, weight in zip(indices, weights, strict=True):
        r += weight * points[i].r
        p += weight * points[i].p
        cost += weight * points[i].cost
    return indices, weights, share * _loss(r) + (1.0 - share) * _loss(p) + cost


def _on_edge(one: Point, other: Point, share: float) -> float:
    """How far from `one` to `other` the value is least, in [0, 1]: Newton steps kept inside a bracket."""
    dr, dp, dk = other.r - one.r, other.p - one.p, other.cost - one.cost
    if dk <= share * _falling(other.r) * dr + (1.0 - share) * _falling(other.p) * dp:
        return 1.0
    low, high, t = 0.0, 1.0, 0.5
    for _ in range(NEWTON_STEPS):
        fr, fp = _falling(one.r + t * dr), _falling(one.p + t * dp)
        slope = dk - share * fr * dr - (1.0 - share) * fp * dp
        low, high = (t, high) if slope < 0.0 else (low, t)
        curve = share * fr * (1.0 - fr) * dr * dr + (1.0 - share) * fp * (1.0 - fp) * dp * dp
        step = t - slope / curve if curve > 0.0 else math.nan
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - t) <= 1e-16 + 1e-15 * t:
            break
        t = following
    return t


def _in_triangle(last: Point, one: Point, other: Point, share: float) -> tuple[float, float] | None:
    """Weights of `one` and `other` where the value is least inside the triangle; None where that is on its rim.

    Inside, all three points are equally good for the slopes, which determines the slopes and so both scores.
    """
    r1, p1, k1 = one.r - last.r, one.p - last.p, one.cost - last.cost
    r2, p2, k2 = other.r - last.r, other.p - last.p, other.cost - last.cost
    determinant = r1 * p2 - r2 * p1
    if abs(determinant) <= 1e-14 * (abs(r1 * p2) + abs(r2 * p1)):
        return None
    a, b = (k1 * p2 - k2 * p1) / determinant, (r1 * k2 - r2 * k1) / determinant
    if not (0.0 < a < share and 0.0 < b < 1.0 - share):
        return None
    r, p = math.log(share / a - 1.0) - last.r, math.log((1.0 - share) / b - 1.0) - last.p
    t, u = (r * p2 - r2 * p) / determinant, (r1 * p - r * p1) / determinant
    return (t, u) if t > NEGLIGIBLE and u > NEGLIGIBLE and t + u < 1.0 - NEGLIGIBLE else None
