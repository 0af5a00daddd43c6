"""Means and covariances of the samples of the two decisions, the input of minimax machines."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DegenerateSurrogate

RIDGE = 1e-6
"""Share of the wider class's mean variance added to each covariance: samples may lie in a plane by chance."""
ROUNDING = 1e-12
"""Share of the whole variance that may be rounding."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and covariance of one class of samples."""

    mean: Float[np.ndarray, "d"]
    covariance: Float[np.ndarray, "d d"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """Moments of the favourable and of the unfavourable class."""

    favourable: Moments
    unfavourable: Moments

    @property
    def between(self) -> Float[np.ndarray, "d"]:
        """The mean of the favourable class minus that of the unfavourable class."""
        return self.favourable.mean - self.unfavourable.mean


def class_moments(X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> Classes:
    """Mean and covariance of the favourable points, and of the unfavourable ones; each covariance has a small ridge.

    Raises
    ------
    DegenerateSurrogate : fewer than two points in a class
    """
    if not 2 <= np.count_nonzero(favourable) <= len(X) - 2:
        raise DegenerateSurrogate("Almost all samples around the decision boundary have the same decision.")
    plus, minus = (_moments(X.take(np.flatnonzero(members), axis=0)) for members in (favourable, ~favourable))
    within = max(float(plus.covariance.trace()), float(minus.covariance.trace()))
    found = Classes(favourable=plus, unfavourable=minus)
    between = found.between
    # Where each class is a single point, the variance within is rounding and must not count.
    ridge = max(RIDGE * within, ROUNDING * (within + float(between @ between))) / X.shape[1]
    for moments in (plus, minus):
        np.einsum("ii->i", moments.covariance)[:] += ridge
    return found


def _moments(X: Float[np.ndarray, "m d"]) -> Moments:
    """Sample moments of one class, whose points are centred in place."""
    mean = np.ones(len(X)) @ X / len(X)
    X -= mean
    return Moments(mean, X.T @ X / (len(X) - 1.0))
