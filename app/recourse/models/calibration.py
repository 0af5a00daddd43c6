"""How what was told about future models compares with what later versions of the model did, and a correction.

A *promise* is one counterfactual with the share of held-back future models that accept it, which is what was told. The
next version of the model keeps it or breaks it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge, Interval, Len
from jaxtyping import Bool, Float
from scipy.optimize import isotonic_regression, minimize
from scipy.special import gammaincc, log_ndtr, ndtr, ndtri

FEWEST_PROMISES = 50
"""Checked promises without which nothing is corrected."""

SIGNIFICANCE = 0.05
"""Largest chance of a correction where retrainings are as the future models are."""

CURVE = 51
"""Points of a curve that corrects."""

NEEDED_GRID = 1001
"""Probabilities among which `Calibration.needed` chooses."""

GROUP, MOST_GROUPS = 25, 10
"""Promises in a group of similar ones, at least on average, and the largest number of groups."""

Shares: TypeAlias = Annotated[tuple[Annotated[float, Interval(ge=0, le=1)], ...], Len(1, 1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """The promises of one version, checked by the next."""

    told: Float[np.ndarray, "n"]
    kept: Bool[np.ndarray, "n"]
    rivals: Float[np.ndarray, "k"]
    """Share of these promises that each held-back future model of the version accepts; empty where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A correction of what is told, from promises that were checked: of earlier versions, or in trials."""

    told: Shares
    """Ascending, without duplicates; at least one."""
    by: Shares
    """How much to subtract there, >= 0; linear in between, constant beyond the ends."""
    promises: Annotated[int, Ge(0)]
    """Checked promises behind it."""
    retrainings: Annotated[int, Ge(0)]
    """Next versions, or models of trials, that checked them."""

    def __post_init__(self) -> None:
        if len(self.told) != len(self.by) or any(b <= a for a, b in pairwise(self.told)):
            raise ValueError("told must be ascending and as long as by")

    def corrected(self, probability: float) -> float:
        """What is told after the correction, in [0, `probability`]; it never falls where `probability` grows."""
        return max(0.0, probability - float(np.interp(probability, self.told, self.by)))

    def needed(self, corrected: float) -> float:
        """Smallest probability of which this much is left after the correction; 1 where none is enough."""
        grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, NEEDED_GRID), self.told]))
        enough = [p for p in grid.tolist() if self.corrected(p) >= corrected]
        return min(enough, default=1.0)


def calibrate(retrainings: Sequence[Retraining]) -> Calibration | None:
    """The correction that past retrainings call for; None where they broke no more than was told.

    Two steps. *Whether*: under the null hypothesis a version is followed by a model like its held-back future models,
    so among these the next version's share of kept promises has a uniform rank, however much its decisions about
    different people depend on each other. The conformal p-values of all retrainings are combined by Fisher's method.
    *How much*: the share of kept promises as an isotonic function of what was told, where it is below that.

    Parameters
    ----------
    retrainings : those without `rivals` are left out

    Notes
    -----
    The null hypothesis is rejected in error with probability at most `SIGNIFICANCE`. Once it is rejected, a corrected
    probability is kept at least as often as it says on average over retrainings like the past ones, up to the error of
    estimating this from `promises`; with few retrainings that error is dominated by their number.

    References
    ----------
    Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005 (p-values from ranks).
    """
    usable = [one for one in retrainings if len(one.rivals) and len(one.told)]
    count = sum(len(one.told) for one in usable)
    if count < FEWEST_PROMISES or not _broke_more(usable):
        return None
    told, kept = np.concatenate([one.told for one in usable]), np.concatenate([one.kept for one in usable])
    means, shares, sizes = _groups(told, kept)
    fitted = isotonic_regression(shares, weights=sizes).x
    by = np.maximum(means - fitted, 0.0)
    return Calibration(told=tuple(means.tolist()), by=tuple(by.tolist()), promises=count, retrainings=len(usable))


def calibrate_trials(retrainings: Sequence[Retraining], models: int) -> Calibration | None:
    """The correction that trials call for; None where they broke no more than was told.

    A record's margin, in standard deviations between models, is ``z = Phi^-1(told)``; the next model keeps the promise
    with probability ``Phi(a + c z)``, with `a` and `c` of greatest likelihood under a normal prior of `c` around 1, of
    variance 1. Trials have few models, so the ends follow from the curve, and a share of k in n counts as ``(k + 1/2) /
    (n + 1)``. Trials are few as well, and only lower what is told, so chance alone would lower it: the difference is
    multiplied by ``max(0, 1 - e^2 / d^2)``, where `d` is the mean over trials of kept minus told, and `e` its standard
    error: by 0 where `d` is one standard error or less, by 0.75 where it is two.

    Parameters
    ----------
    models : held-back models behind what the correction is applied to
    """
    usable = [one for one in retrainings if len(one.rivals) and len(one.told)]
    count = sum(len(one.told) for one in usable)
    if count < FEWEST_PROMISES or len(usable) < 2:
        return None
    differences = np.array([one.kept.mean() - one.told.mean() for one in usable])
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(usable))
    if mean >= -error:
        return None
    margins = np.concatenate([_margins(one.told, len(one.rivals)) for one in usable])
    signs = np.where(np.concatenate([one.kept for one in usable]), 1.0, -1.0)

    def loss(curve: Float[np.ndarray, "2"]) -> float:
        return -float(log_ndtr(signs * (curve[0] + curve[1] * margins)).sum()) + 0.5 * float((curve[1] - 1.0) ** 2)

    a, c = minimize(loss, np.array([0.0, 1.0]), bounds=[(-3.0, 3.0), (0.1, 2.0)]).x
    told = np.linspace(0.0, 1.0, CURVE)
    by = (1.0 - error**2 / mean**2) * np.maximum(told - ndtr(a + c * _margins(told, models)), 0.0)
    return Calibration(told=tuple(told.tolist()), by=tuple(by.tolist()), promises=count, retrainings=len(usable))


def _margins(told: Float[np.ndarray, "n"], models: int) -> Float[np.ndarray, "n"]:
    return np.asarray(ndtri((told * models + 0.5) / (models + 1)))


def rank(retraining: Retraining) -> float:
    """The conformal p-value of the next version among the held-back models: small where it keeps less than these."""
    rivals = retraining.rivals
    return float(1 + (rivals <= retraining.kept.mean()).sum()) / (1 + len(rivals))


def _broke_more(retrainings: Sequence[Retraining]) -> bool:
    # -2 sum(log p) has a chi-squared distribution with 2 m degrees of freedom.
    logs = -float(np.log([rank(one) for one in retrainings]).sum())
    return bool(gammaincc(len(retrainings), logs) <= SIGNIFICANCE)


def _groups(
    told: Float[np.ndarray, "n"], kept: Bool[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "g"], Float[np.ndarray, "g"], Float[np.ndarray, "g"]]:
    """Mean of what was told, share kept and size of groups of similar promises; equal ones are in one group."""
    groups = min(MOST_GROUPS, max(1, len(told) // GROUP))
    _, at, counts = np.unique(told, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    _, group = np.unique((first * groups // len(told))[at], return_inverse=True)
    sizes = np.bincount(group).astype(float)
    return np.bincount(group, told) / sizes, np.bincount(group, kept.astype(float)) / sizes, sizes
