"""Validity against every model in a box of weights, and under noise and shift together."""

import math

import numpy as np
from jaxtyping import Float

from app.recourse.models.linear import WeightMoments
from app.recourse.numerics.linalg import standard_normal
from app.recourse.robustness.invalidation import CONFIDENCE
from app.recourse.robustness.validity import bounds_of


def linf_radius(points: Float[np.ndarray, "n m"], moments: WeightMoments) -> Float[np.ndarray, "n"]:
    """The largest ``alpha`` such that every model within ``alpha`` of the mean, weight by weight, accepts the point.

    ``theta.x/|x|_1`` with the intercept among the weights; negative where the mean itself refuses.
    """
    return points @ moments.mean / np.abs(points).sum(axis=1)


def joint_lower_bound(
    point: Float[np.ndarray, "m"],
    std: Float[np.ndarray, "d"],
    moments: WeightMoments,
    radius: float,
    draws: int,
    seed: int,
) -> tuple[float, tuple[float, float]]:
    """A lower bound on the probability of acceptance under noise and model shift together, with its interval.

    ``E[lower(x + noise)]``: the infimum over models of an expectation is at least the expectation of the infima. The
    mean over draws is a measurement, so it has a distribution-free interval (empirical Bernstein), whose lower end is
    the proven bound.

    Parameters
    ----------
    std : noise per encoded column
    """
    columns = np.flatnonzero(std)
    noise = standard_normal(seed, draws, len(columns)) * std[columns]
    root = moments.root[columns]
    side, own = moments.root.T @ point, root @ root.T
    mean = float(point @ moments.mean) + noise @ moments.mean[columns]
    variance = float(side @ side) + 2.0 * noise @ (root @ side) + ((noise @ own) * noise).sum(axis=1)
    length = np.sqrt(float(point @ point) + 2.0 * noise @ point[columns] + (noise**2).sum(axis=1))
    lower, _ = bounds_of(mean / length, np.sqrt(np.maximum(variance, 0.0)) / length, radius)
    value = float(lower.mean())
    log_term = math.log(4.0 / (1.0 - CONFIDENCE))
    half = math.sqrt(2.0 * float(lower.var(ddof=1)) * log_term / draws) + 7.0 * log_term / (3.0 * (draws - 1))
    return value, (max(0.0, value - half), min(1.0, value + half))
