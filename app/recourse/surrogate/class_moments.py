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
    """Both classes."""

    favourable: Moments
    unfavourable: Moments

    @property
    def between(self) -> Float[np.ndarray, "d"]:
        """From the mean of the unfavourable class to that of the favourable one."""
        return self.favourable.mean - self.unfavourable.mean


def class_moments(X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> Classes:
    """Sample moments of the favourable and the unfavourable points, with a ridge of `RIDGE`.

    Raises
    ------
    DegenerateSurrogate : fewer than two points in a class
    """
    if not 2 <= np.count_nonzero(favourable) <= len(X) - 2:
        raise DegenerateSurrogate("Almost all samples around the decision boundary have the same decision.")
    n, k = len(X), int(np.count_nonzero(favourable))
    centre = np.ones(n) @ X / n
    X = X - centre
    fewer = favourable if 2 * k <= n else ~favourable
    members = X.take(np.flatnonzero(fewer), axis=0)
    total, scatter, whole = fewer.astype(float) @ X, members.T @ members, X.T @ X
    # The centred points sum to zero, so the other class needs no pass of its own.
    sums = ((min(k, n - k), total, scatter), (max(k, n - k), -total, whole - scatter))
    found = [Moments(centre + s / m, (S - s[:, None] * (s / m)) / (m - 1.0)) for m, s, S in sums]
    plus, minus = found if fewer is favourable else found[::-1]
    within = max(float(plus.covariance.trace()), float(minus.covariance.trace()))
    # Where each class is a single point, the variance within is rounding and must not count.
    ridge = max(RIDGE * within, ROUNDING * float(whole.trace()) / n) / X.shape[1]
    for moments in (plus, minus):
        np.einsum("ii->i", moments.covariance)[:] += ridge
    return Classes(favourable=plus, unfavourable=minus)
