"""Invalidation rates: how often noise in implementing the advice reverses the decision (paper 3).

Noise is independent per column, in encoded units, with a standard deviation of 0 for columns that are implemented
exactly: categories, and features with ``noise: false``. It is Gaussian unless another law is chosen; every law is
symmetric and given by its standard deviation.

References
----------
Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju, "Probabilistically Robust Recourse", ICLR 2023.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, ndtr, ndtri

from app.errors import Fault
from app.recourse.actions.constraints import derived_feature
from app.recourse.features import FeatureSpace, escape
from app.recourse.models.meter import Meter

NoiseLaw: TypeAlias = Literal["gaussian", "laplace", "uniform"]

CONFIDENCE = 0.95
"""Confidence of the intervals around measured rates."""
MOST_KEPT = 500_000
"""Larger arrays of draws are not cached."""
MOST_TOGETHER = 5_000
"""Noisy copies that a model on this machine scores at once: enough for its speed, few enough for the caches."""
FAR = 25.0
"""Deviations beyond which a sum of noise has no probability; the inversion is periodic there."""
FREQUENCIES = (np.arange(2048) + 0.5) * (math.pi / FAR)
"""Nodes of the inversion of characteristic functions, for sums of standard deviation 1 within `FAR`."""


def noise_faults(space: FeatureSpace, noise_std: float | Mapping[str, float]) -> list[Fault]:
    """One fault for each key of `noise_std` that is not a numeric feature; none if `noise_std` is a single number.

    The JSON pointer of a fault starts at `noise_std`.
    """
    if not isinstance(noise_std, Mapping):
        return []
    numeric = [space.names[j] for j in space.numeric.tolist()]
    expected = f"is not a numeric feature of this model: {', '.join(numeric)}"
    pointers = {name: f"/{escape(name)}" for name in noise_std if name not in numeric}
    return [derived_feature(space, name, at) or Fault(at, expected) for name, at in pointers.items()]


def noise_columns(
    space: FeatureSpace, noise_std: float | Mapping[str, float], factual_raw: Float[np.ndarray, "p"] | None = None
) -> Float[np.ndarray, "d"]:
    """Standard deviation of the noise in each encoded column, from one number or from numbers by feature name.

    A feature without a number of its own gets 0.

    Parameters
    ----------
    factual_raw : the person's row; a number that is in a state there, such as missing, gets 0
    """
    std = np.zeros(space.d)
    if isinstance(noise_std, Mapping):
        std[space.numeric_columns] = [noise_std.get(space.names[j], 0.0) for j in space.numeric.tolist()]
    else:
        std[space.noisy_columns] = noise_std
    if factual_raw is not None:
        std[space.numeric_columns[space.in_state(factual_raw[None])[0, space.numeric]]] = 0.0
    return std


def _laplace_cdf(x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    tail = 0.5 * np.exp(-math.sqrt(2.0) * np.abs(x))
    return np.where(x < 0.0, tail, 1.0 - tail)


def _uniform_cdf(x: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    return np.clip(0.5 + x / math.sqrt(12.0), 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Law:
    """Noise of one column: symmetric, with mean 0 and standard deviation 1."""

    cdf: Callable[[Float[np.ndarray, "*n"]], Float[np.ndarray, "*n"]]
    """Distribution function."""
    characteristic: Callable[[Float[np.ndarray, "*n"]], Float[np.ndarray, "*n"]]
    """Characteristic function, which is real."""
    draw: Callable[[np.random.Generator, tuple[int, int]], Float[np.ndarray, "n k"]]
    """Independent draws."""


NOISE_LAWS: Mapping[NoiseLaw, _Law] = {
    "gaussian": _Law(
        cdf=ndtr,
        characteristic=lambda t: np.exp(-0.5 * t * t),
        draw=lambda rng, shape: rng.standard_normal(shape),
    ),
    "laplace": _Law(
        cdf=_laplace_cdf,
        characteristic=lambda t: 1.0 / (1.0 + 0.5 * t * t),
        draw=lambda rng, shape: rng.laplace(scale=math.sqrt(0.5), size=shape),
    ),
    "uniform": _Law(
        cdf=_uniform_cdf,
        characteristic=lambda t: np.sinc(math.sqrt(3.0) / math.pi * t),
        draw=lambda rng, shape: rng.uniform(-math.sqrt(3.0), math.sqrt(3.0), shape),
    ),
}
"""Each law of `NoiseLaw`."""


def standard_noise(law: NoiseLaw, seed: int, n: int, k: int) -> Float[np.ndarray, "n k"]:
    """`n` draws of `k` independent numbers with mean 0 and standard deviation 1; small arrays are cached."""
    return _kept_noise(law, seed, n, k) if n * k <= MOST_KEPT else next(_noise_parts(law, seed, n, k, size=n))


@lru_cache(maxsize=16)
def _kept_noise(law: NoiseLaw, seed: int, n: int, k: int) -> Float[np.ndarray, "n k"]:
    draws = NOISE_LAWS[law].draw(np.random.default_rng(seed), (n, k))
    draws.flags.writeable = False
    return draws


def _noise_parts(law: NoiseLaw, seed: int, n: int, k: int, *, size: int) -> Iterator[Float[np.ndarray, "m k"]]:
    """The draws of `standard_noise`, the same numbers, at most `size` rows at a time."""
    kept = _kept_noise(law, seed, n, k) if n * k <= MOST_KEPT else None
    rng = np.random.default_rng(seed)
    for start in range(0, n, size):
        drawn = min(size, n - start)
        yield NOISE_LAWS[law].draw(rng, (drawn, k)) if kept is None else kept[start : start + drawn]


def invalidation_rate_linear(
    scores: Float[np.ndarray, "n"],
    gradients: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "*n d"],
    law: NoiseLaw = "gaussian",
) -> Float[np.ndarray, "n"]:
    """Probability that noise turns a linear decision unfavourable, for each point.

    With Gaussian noise this is ``1 - Phi(f(x) / sqrt(g' diag(std)^2 g))``, where ``f(x)`` is the score and ``g`` the
    gradient of the score. The result is exact for a linear model, and right to first order for a curved one. Without
    noise, the result is 0 for a favourable decision and 1 for an unfavourable one. If the score or the gradient is NaN,
    the result is 1.
    """
    scaled = gradients * std
    spread = np.sqrt((scaled**2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = lower_tail(-scores / spread, scaled / spread[:, None], law)
        rate = np.where(spread == 0.0, np.where(scores >= 0.0, 0.0, 1.0), tail)
    return np.where(np.isnan(rate), 1.0, rate)


def lower_tail(z: Float[np.ndarray, "n"], shares: Float[np.ndarray, "n d"], law: NoiseLaw) -> Float[np.ndarray, "n"]:
    """``P(sum_j shares_j e_j < z)`` for each row, where the ``e_j`` are independent noise of standard deviation 1.

    For other laws than the Gaussian, the characteristic function is inverted numerically, to about 1e-4.

    Parameters
    ----------
    shares : each row has L2 norm 1
    """
    if law == "gaussian":
        return np.asarray(ndtr(z))
    # A single column has its own distribution function, whose kinks the inversion would smooth.
    alone = np.abs(shares).max(axis=1, initial=0.0) > 1.0 - 1e-9
    return np.where(alone, NOISE_LAWS[law].cdf(z), _inverted(z, _spectrum(shares, law)))


def _spectrum(shares: Float[np.ndarray, "n d"], law: NoiseLaw) -> Float[np.ndarray, "n k"]:
    """Characteristic function of each sum at `FREQUENCIES`, divided by pi times their index."""
    product = np.ones((len(shares), len(FREQUENCIES)))
    for share in shares.T[(shares != 0.0).any(axis=0)]:
        product *= NOISE_LAWS[law].characteristic(share[:, None] * FREQUENCIES)
    return product / (math.pi * (np.arange(len(FREQUENCIES)) + 0.5))


def _inverted(z: Float[np.ndarray, "n"], spectrum: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "n"]:
    near = np.clip(z, -FAR, FAR)
    return np.clip(0.5 + (spectrum * np.sin(FREQUENCIES * near[:, None])).sum(axis=1), 0.0, 1.0)


def linear_margin(gradient: Float[np.ndarray, "d"], std: Float[np.ndarray, "d"], law: NoiseLaw, rate: float) -> float:
    """The score at which noise turns a linear decision unfavourable with probability `rate`; 0 without noise.

    It is negative if `rate` is above a half.
    """
    scaled = gradient * std
    spread = float(np.linalg.norm(scaled))
    if spread == 0.0:
        return 0.0
    if law == "gaussian":
        return -spread * float(ndtri(rate))
    shares = (scaled / spread)[None]
    alone = float(np.abs(shares).max()) > 1.0 - 1e-9
    spectrum = _spectrum(shares, law)
    low, high = -FAR, FAR
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        z = np.array([-middle])
        tail = NOISE_LAWS[law].cdf(z) if alone else _inverted(z, spectrum)
        low, high = (middle, high) if tail[0] > rate else (low, middle)
    return spread * high


def invalidation_bound(
    factual_score: float,
    factual_gradient: Float[np.ndarray, "d"],
    gradients: Float[np.ndarray, "n d"],
    actions: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "d"],
) -> Float[np.ndarray, "n"]:
    """An upper bound on `invalidation_rate_linear` that does not need the score of the counterfactual.

    This is proposition 4 of Pawelczyk et al. (2023), in coordinates where the noise has standard deviation 1. The
    constant of the bound contains ``|f(x0)| / |grad f(x)|``, as in the paper's proof and unlike the proposition.
    Columns without noise contribute exactly what they add to the score.

    Parameters
    ----------
    gradients : of the score at the counterfactuals
    actions : counterfactuals minus the factual, encoded

    Returns
    -------
    (n,); 1 where the proposition does not apply: the score falls along the action, or a number is NaN
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
    meter: Meter,
    X: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "d"],
    samples: int,
    seed: int,
    law: NoiseLaw = "gaussian",
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n 2"]]:
    """For each point, the share of noisy copies that the black box refuses, and the confidence interval of this share.

    All copies are scored in one model call. All points get the same noise, so that their rates can be compared. A copy
    without a finite score counts as refused. A model that is not remote scores many copies in several parts, to limit
    the memory.
    """
    columns = np.flatnonzero(std)
    size = samples if meter.black_box.remote else max(MOST_TOGETHER // max(len(X), 1), 1)
    refused, further = np.zeros(len(X), dtype=int), False
    for part in _noise_parts(law, seed, samples, len(columns), size=size):
        noisy = np.repeat(X[:, None], len(part), axis=1)
        noisy[:, :, columns] = X[:, None, columns] + part * std[columns]
        scores = meter.score(noisy.reshape(-1, X.shape[1]), further=further)
        refused += (~(scores >= 0.0)).reshape(len(X), -1).sum(axis=1)
        further = True
    return refused / samples, np.array([clopper_pearson(int(k), samples) for k in refused]).reshape(-1, 2)


def clopper_pearson(hits: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Clopper-Pearson confidence interval of a rate, given `hits` among `trials`."""
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1.0 - tail))
    return low, high
