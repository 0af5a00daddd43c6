"""Invalidation rates: how often noise in carrying out the advice turns the decision back (paper 3).

Noise is Gaussian in encoded units, independent per column, with a standard deviation of 0 for columns that are
implemented exactly: categories, and features with ``noise: false``.

References
----------
Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju, "Probabilistically Robust Recourse", ICLR 2023.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, ndtr

from app.recourse.blackbox import Meter
from app.recourse.features import FeatureSpace
from app.recourse.linalg import standard_normal

CONFIDENCE = 0.95
"""Of the intervals around measured rates."""


def noise_columns(space: FeatureSpace, noise_std: float | Mapping[str, float]) -> Float[np.ndarray, "d"]:
    """Standard deviation of each encoded column, for one number or for numbers by feature (0 where it is not named)."""
    std = np.zeros(space.d)
    for j, column in zip(space.numeric.tolist(), space.numeric_columns.tolist(), strict=True):
        feature = space.features[j]
        if isinstance(noise_std, Mapping):
            std[column] = noise_std.get(feature.name, 0.0)
        elif feature.noise and feature.is_number:
            std[column] = noise_std
    return std


def invalidation_rate_linear(
    scores: Float[np.ndarray, "n"], gradients: Float[np.ndarray, "n d"], std: Float[np.ndarray, "d"]
) -> Float[np.ndarray, "n"]:
    """Probability that noise turns a linear decision unfavourable: ``1 - Phi(f(x) / sqrt(g' diag(std)^2 g))``.

    Exact for a linear model, first order for a curved one; the caller says which. Without any noise the decision stays.
    A score or gradient that is not a number promises nothing: 1.
    """
    spread = np.sqrt(((gradients * std) ** 2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(spread == 0.0, np.where(scores >= 0.0, 0.0, 1.0), ndtr(-scores / spread))
    return np.where(np.isnan(rate), 1.0, rate)


def invalidation_bound(
    factual_score: float,
    factual_gradient: Float[np.ndarray, "d"],
    gradients: Float[np.ndarray, "n d"],
    actions: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "d"],
) -> Float[np.ndarray, "n"]:
    """Proposition 4: an upper bound on `invalidation_rate_linear` that needs no score of the counterfactual.

    In coordinates where the noise has deviation 1, and with ``|f(x0)| / |grad f(x)|`` in its constant, as the proof has
    it and the statement does not. Columns without noise contribute their exact part of the score.

    Parameters
    ----------
    actions : counterfactuals minus the factual, encoded

    Returns
    -------
    (n,); 1 where the proposition says nothing: the action does not point uphill, or something is not a number
    """
    noisy = std > 0.0
    g0, g, delta = (
        factual_gradient[noisy] * std[noisy],
        gradients[:, noisy] * std[noisy],
        actions[:, noisy] / std[noisy],
    )
    exact = actions[:, ~noisy] @ factual_gradient[~noisy]
    steepness, length = np.sqrt((g**2).sum(axis=1)), np.sqrt((delta**2).sum(axis=1))
    moved = np.maximum((delta != 0.0).sum(axis=1), 1)
    uphill = delta @ g0
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(length > 0.0, uphill / length * np.abs(delta).sum(axis=1) / np.sqrt(moved), 0.0)
        bound = ndtr(-(factual_score + exact + gain) / steepness)
    return np.where((uphill >= 0.0) & (steepness > 0.0) & ~np.isnan(bound), bound, 1.0)


def invalidation_rate(
    meter: Meter, X: Float[np.ndarray, "n d"], std: Float[np.ndarray, "d"], samples: int, seed: int
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n 2"]]:
    """Measured share of noisy copies of each point that the black box refuses, with its interval; one model call.

    All points get the same noise, so that rates can be compared. A copy without a finite score counts as refused.
    """
    columns = np.flatnonzero(std)
    noise = standard_normal(seed, samples, len(columns)) * std[columns]
    noisy = np.repeat(X, samples, axis=0)
    noisy[:, columns] += np.tile(noise, (len(X), 1))
    refused = (~(meter.score(noisy) >= 0.0)).reshape(len(X), samples).sum(axis=1)
    return refused / samples, np.array([clopper_pearson(int(k), samples) for k in refused]).reshape(-1, 2)


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval that holds the true rate with at least this confidence, whatever the rate is."""
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1.0 - tail))
    return low, high
