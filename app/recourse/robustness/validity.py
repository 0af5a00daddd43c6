"""Validity bounds over every distribution of linear models near a given mean and covariance (paper 4).

``theta ~ Q``; of Q it is only known that its mean and covariance lie within `radius` of ``(mean, covariance)``
in the Gelbrich distance, the Wasserstein-2 distance between Gaussians with these moments. For a plan ``x_1 .. x_J`` in
homogeneous form (a 1 appended)::

    lower = inf_Q Q(theta.x_j > 0 for all j),    upper = sup_Q Q(theta.x_j >= 0 for all j)

================  ===============================================
symbol            name
================  ===============================================
``mu, Sigma``     `WeightMoments`
``rho``           ``radius``
``x_j``           rows of ``points``
================  ===============================================

Three results are not in the paper; tests check them against independent computations:

* one counterfactual has a closed form: with ``m`` the mean and ``s`` the deviation of ``theta.x/|x|``, seen as the
  point ``(m, s)`` in the half-plane, the radius turns it by ``asin(rho/|(m, s)|)`` at most; the bounds are narrower
  where the score is taken to be bell-shaped (`bell`);
* only ``theta.x_j`` matters, and the projection of a Gelbrich ball is the Gelbrich ball of the projected moments, so a
  plan needs programs in at most J dimensions, for every dimension of the model;
* by Proposition 2.4 either the upper bound is 1 or the lower bound is 0, so one program is left.

Bounds are proven: a lower bound is taken from the dual side and lowered by the solver's residuals, an upper bound is
raised likewise. `joint_lower_bound` adds noise to the shift, and `linf_radius` is about every model in a box of weights
instead of a distribution.

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022, theorems 2.2, 2.3, prop. 2.4.
Pukelsheim, "The three sigma rule", The American Statistician 1994, for Gauss's inequality.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.models.in_step import joined
from app.recourse.models.linear import WeightMoments
from app.recourse.robustness.gelbrich_programs import lower_program, upper_program
from app.recourse.robustness.invalidation import CONFIDENCE, standard_noise

Radius: TypeAlias = float | Float[np.ndarray, "..."]
"""One for all points, or one for each."""
OUTWARD = 1e-12
"""Closed forms are widened by this much, which exceeds their rounding."""
SINGULAR = 1e-12
"""Variances below this are raised to it, and the radius is widened so that the ball still contains the old one."""


class BoundStatus(StrEnum):
    """Whether the bounds of a plan were computed in full, or only derived from the bounds of its members."""

    COMPLETE = "complete"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBounds:
    """Joint validity of a plan: the probability that all its members stay favourable lies in ``[lower, upper]``."""

    lower: float
    upper: float
    exact: bool
    """Whether both are tight up to the solver's accuracy."""
    status: BoundStatus
    lost: tuple[float, ...] | None = None
    """Probability with which a worst distribution loses each member; None where no program for the lower bound of
    several members was solved."""


def validity_bounds(
    points: Float[np.ndarray, "n m"], moments: WeightMoments, radius: float
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Lower and upper bound on the validity of each point by itself, in closed form.

    Parameters
    ----------
    points : homogeneous
    radius : >= 0, in the units of the weights

    Returns
    -------
    lower, upper : in [0, 1]; for each point the lower bound is 0, or the upper bound is 1, or both
    """
    return bounds_of(*_along(points, moments), radius)


def validity_lower(points: Float[np.ndarray, "n m"], moments: WeightMoments, radius: float) -> Float[np.ndarray, "n"]:
    """Lower bound on the validity of each homogeneous point by itself, in [0, 1]; cheaper than both bounds."""
    return lower_of(*_along(points, moments), radius)


def _along(
    points: Float[np.ndarray, "n m"], moments: WeightMoments
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Mean and standard deviation of the score along each unit point."""
    length = np.sqrt((points**2).sum(axis=1))
    mean, deviation = moments.project(points)
    return mean / length, deviation / length


def bounds_of(
    mean: Float[np.ndarray, "*n"], deviation: Float[np.ndarray, "*n"], radius: Radius, *, bell: bool = False
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Lower and upper bound on validity, in [0, 1], from mean and standard deviation of the score.

    Parameters
    ----------
    mean, deviation : of the score, divided by the length of the homogeneous point
    radius : largest Gelbrich distance, in units of weights of length 1
    bell : whether scores are taken to have one peak and to be symmetric around it, as under a normal distribution
    """
    inside, cos, sin = _turned(mean, deviation, -radius)
    beyond = _beyond_a_bell if bell else _beyond
    upper = np.where(inside & (cos < 0.0), beyond(cos, sin) + OUTWARD, 1.0)
    return lower_of(mean, deviation, radius, bell=bell), upper.clip(0.0, 1.0)


def lower_of(
    mean: Float[np.ndarray, "*n"], deviation: Float[np.ndarray, "*n"], radius: Radius, *, bell: bool = False
) -> Float[np.ndarray, "*n"]:
    """Lower bound on validity, in [0, 1], from mean and standard deviation of the score.

    Parameters
    ----------
    mean, deviation : of the score, divided by the length of the homogeneous point
    radius : largest Gelbrich distance, in units of weights of length 1
    bell : whether scores are taken to have one peak and to be symmetric around it, as under a normal distribution
    """
    inside, cos, sin = _turned(mean, deviation, radius)
    beyond = _beyond_a_bell if bell else _beyond
    lower = np.where(inside & (cos > 0.0), 1.0 - beyond(cos, sin) - OUTWARD, 0.0)
    return lower.clip(0.0, 1.0)


def _turned(
    mean: Float[np.ndarray, "*n"], deviation: Float[np.ndarray, "*n"], radius: Radius
) -> tuple[Bool[np.ndarray, "*n"], Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """Whether the radius leaves out the origin; and cosine and sine of the angle of each point, times the same factor.

    The points (mean, deviation) are turned as far as the radius allows: away from the side of acceptance, or towards it
    if the radius is negative.
    """
    squared = mean**2 + deviation**2 - radius**2
    inside, tangent = np.asarray(squared > 0.0), np.sqrt(np.maximum(squared, 0.0))
    return inside, mean * tangent - deviation * radius, deviation * tangent + mean * radius


def _beyond(cos: Float[np.ndarray, "*n"], sin: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """The greatest probability that the score has the other sign than its mean: Cantelli's inequality.

    Parameters
    ----------
    cos, sin : of the angle of the point (mean, deviation), times any factor
    """
    length = cos**2 + sin**2
    return np.asarray(sin**2 / np.where(length > 0.0, length, 1.0))


def _beyond_a_bell(cos: Float[np.ndarray, "*n"], sin: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """The same for scores with one peak and symmetric around it: half of Gauss's inequality."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.abs(cos / sin)
        far = 2.0 / (9.0 * deviations**2)
    return np.where(deviations >= 2.0 / math.sqrt(3.0), far, 0.5 - deviations / (2.0 * math.sqrt(3.0)))


def plan_bracket(points: Float[np.ndarray, "n m"], moments: WeightMoments, radius: float) -> PlanBounds:
    """Bounds on the joint validity of a plan that follow from the bounds of its members alone, without a program.

    The lower bound is ``max(0, 1 - sum(1 - lower_j))``; the upper bound is ``min upper_j``.
    """
    lower, upper = validity_bounds(points, moments, radius)
    single = len(points) == 1
    return PlanBounds(
        lower=max(0.0, 1.0 - float((1.0 - lower).sum())),
        upper=float(upper.min()),
        exact=single,
        status=BoundStatus.COMPLETE if single else BoundStatus.BRACKET,
    )


def plan_bounds(
    points: Float[np.ndarray, "n m"], moments: WeightMoments, radius: float, *, deadline: float = math.inf
) -> PlanBounds:
    """Bounds on the joint validity of a plan, by a semidefinite program with at most as many dimensions as members.

    If the solver does not converge, the result is that of `plan_bracket`, and `status` says so.
    """
    bracket = plan_bracket(points, moments, radius)
    if bracket.exact:
        return bracket
    basis = _basis(points)
    directions = points @ basis.T
    directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
    mean, root = basis @ moments.mean, moments.along(basis)
    covariance, radius = _regular(root @ root.T, radius)
    try:
        if (directions @ mean >= 0.0).all():  # proposition 2.4: some distribution loses no member
            bounds, lost = lower_program(directions, mean, covariance, radius, deadline)
            return PlanBounds(
                lower=max(min(bounds.lower, 1.0), bracket.lower),
                upper=1.0,
                exact=True,
                status=BoundStatus.COMPLETE,
                lost=tuple(lost.tolist()),
            )
        upper = max(upper_program(directions, mean, covariance, radius, deadline).upper, 0.0)
        return PlanBounds(lower=0.0, upper=min(upper, bracket.upper), exact=True, status=BoundStatus.COMPLETE)
    except (DeadlineExceeded, SolverFailed):
        return bracket


def linf_radius(points: Float[np.ndarray, "n m"], weights: Float[np.ndarray, "m"]) -> Float[np.ndarray, "n"]:
    """For each point, the largest ``alpha`` such that all models within ``alpha`` of `weights` accept it.

    Each weight, and the intercept, may differ by ``alpha``. The result is ``theta.x/|x|_1``; it is negative if the
    model `weights` itself refuses the point.

    Parameters
    ----------
    points : homogeneous
    weights : of the model ``theta``, with the intercept last
    """
    return points @ weights / np.abs(points).sum(axis=1)


def joint_lower_bound(
    points: Float[np.ndarray, "n m"],
    std: Float[np.ndarray, "d"],
    moments: tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]],
    radius: float,
    draws: int,
    seed: int,
    *,
    bell: bool = False,
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """For each point a lower bound on the probability of acceptance under noise and model shift together.

    The bound is the mean, over draws of the noise, of the lower validity of the noisy point. A mean of infima over
    models is at most the infimum of the mean, so this is a lower bound. As it is measured on draws, it has an interval
    (empirical Bernstein), whose lower end is the proven bound.

    Parameters
    ----------
    points : homogeneous
    std : standard deviation of the noise in each encoded column; if all are 0, the bound is exact
    moments : mean and covariance of the score of each point, and of its slopes along the columns with noise
    bell : whether the scores of each noisy copy are taken to have one peak and to be symmetric around it

    Returns
    -------
    The bound, and the ends of its interval, each in [0, 1]
    """
    columns, n = np.flatnonzero(std), len(points)
    if not columns.size:
        draws = 1
    noise = standard_noise("gaussian", seed, draws, len(columns)) * std[columns]
    far = np.concatenate([(points**2).sum(axis=1, keepdims=True), points[:, columns]], axis=1)
    drawn = np.broadcast_to(noise, (n, *noise.shape))
    return joined(_joint_of_a_bell if bell else _joint, *moments, far, drawn, np.full(n, radius))


def _joint(
    mean: Float[np.ndarray, "n k"],
    covariance: Float[np.ndarray, "n k k"],
    far: Float[np.ndarray, "n k"],
    noise: Float[np.ndarray, "n q c"],
    radius: Float[np.ndarray, "n"],
    *,
    bell: bool = False,
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The bounds of `joint_lower_bound` from draws of the noise for each point.

    Parameters
    ----------
    far : the squared length of each point, and where it is along each column with noise
    """
    varies = np.flatnonzero(covariance[:, 1:, 1:].any(axis=(0, 1)))
    moved = noise if len(varies) == noise.shape[2] else noise[:, :, varies]
    own, across = covariance[:, 1 + varies[:, None], 1 + varies], covariance[:, 1 + varies, :1]
    score = mean[:, :1] + (noise @ mean[:, 1:, None])[:, :, 0]
    squared = covariance[:, 0, :1] + 2.0 * (moved @ across)[:, :, 0] + np.einsum("nqc,nqc->nq", moved @ own, moved)
    length = far[:, :1] + 2.0 * (noise @ far[:, 1:, None])[:, :, 0] + np.einsum("nqc,nqc->nq", noise, noise)
    np.sqrt(length, out=length)
    lower = lower_of(score / length, np.sqrt(np.maximum(squared, 0.0)) / length, radius[:, None], bell=bell)
    value, draws = lower.mean(axis=1), noise.shape[1]
    if draws == 1:
        return value, value, value
    log_term = math.log(4.0 / (1.0 - CONFIDENCE))
    half = np.sqrt(2.0 * lower.var(axis=1, ddof=1) * log_term / draws) + 7.0 * log_term / (3.0 * (draws - 1))
    return value, np.maximum(value - half, 0.0), np.minimum(value + half, 1.0)


_joint_of_a_bell = partial(_joint, bell=True)


def _basis(points: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "r m"]:
    """Orthonormal rows that span the points."""
    _, sizes, rows = np.linalg.svd(points, full_matrices=False)
    return rows[sizes > 1e-10 * sizes[0]]


def _regular(covariance: Float[np.ndarray, "r r"], radius: float) -> tuple[Float[np.ndarray, "r r"], float]:
    """A positive definite covariance and a radius whose ball contains the given one."""
    smallest = float(np.linalg.eigvalsh(covariance)[0])
    if smallest >= SINGULAR:
        return covariance, radius
    raised = SINGULAR - min(smallest, 0.0)
    r = len(covariance)
    return covariance + raised * np.eye(r), radius + math.sqrt(r * raised)
