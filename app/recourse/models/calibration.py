"""How promised shares of future models compare with what later versions of the model kept, and a correction.

A *promise* is one counterfactual with the share of held-back future models that accept it: the promised share. The
next version of the model keeps it or breaks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge, Interval, Len
from jaxtyping import Bool, Float
from scipy.optimize import isotonic_regression
from scipy.special import gammaincc

FEWEST_PROMISES = 50
"""Checked promises without which nothing is corrected."""

SIGNIFICANCE = 0.05
"""Largest chance of a correction where retrainings are as the future models are."""

GROUP, MOST_GROUPS = 25, 10
"""Promises in a group of similar ones, at least on average, and the largest number of groups."""

Shares: TypeAlias = Annotated[tuple[Annotated[float, Interval(ge=0, le=1)], ...], Len(1, 1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """The promises that one model version gave, and whether the next version kept them."""

    promised: Float[np.ndarray, "n"]
    kept: Bool[np.ndarray, "n"]
    rivals: Float[np.ndarray, "k"]
    """Share of these promises that each held-back future model of the version accepts; empty where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A correction of promised shares, learnt from promises that later versions of the model kept or broke."""

    told: Shares
    """Ascending, without duplicates; at least one."""
    by: Shares
    """How much to subtract there, >= 0; linear in between, constant beyond the ends."""
    promises: Annotated[int, Ge(0)]
    """Checked promises behind it."""
    retrainings: Annotated[int, Ge(0)]
    """Next versions that checked them."""

    def __post_init__(self) -> None:
        if len(self.told) != len(self.by) or any(b <= a for a, b in pairwise(self.told)):
            raise ValueError("told must be ascending and as long as by")

    def corrected(self, probability: float) -> float:
        """The promised share after correction, in [0, `probability`]; it never decreases as `probability` increases."""
        return max(0.0, probability - float(np.interp(probability, self.told, self.by)))


def calibrate(retrainings: Sequence[Retraining]) -> Calibration | None:
    """A correction of promised shares, if past versions broke more promises than expected by chance; otherwise None.

    Whether to correct: the null hypothesis is that the next version is like the held-back future models. Then the share
    of promises that the next version keeps has a uniform rank among the shares that these models keep, however much
    decisions about different people depend on each other. The ranks give conformal p-values, one per retraining, which
    Fisher's method combines.

    How much to correct: the share of kept promises is fitted as an isotonic function of the promised share. The
    correction is the difference of the two where the fit is lower.

    Parameters
    ----------
    retrainings : any without `rivals` is left out

    Notes
    -----
    The chance of a correction under the null hypothesis is at most `SIGNIFICANCE`. On average over retrainings like the
    past ones, a corrected share is kept at least as often as it says, up to the error of the estimate. With few
    retrainings, their number dominates this error.

    References
    ----------
    Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005 (p-values from ranks).
    """
    usable = [one for one in retrainings if len(one.rivals) and len(one.promised)]
    count = sum(len(one.promised) for one in usable)
    if count < FEWEST_PROMISES or not _broke_more(usable):
        return None
    promised, kept = np.concatenate([one.promised for one in usable]), np.concatenate([one.kept for one in usable])
    means, shares, sizes = _groups(promised, kept)
    fitted = isotonic_regression(shares, weights=sizes).x
    by = np.maximum(means - fitted, 0.0)
    return Calibration(told=tuple(means.tolist()), by=tuple(by.tolist()), promises=count, retrainings=len(usable))


def rank(retraining: Retraining) -> float:
    """The conformal p-value of the next version's share of kept promises, among the held-back models' shares.

    It is in (0, 1]; a small value means that the next version kept fewer promises than these models would keep.
    """
    rivals = retraining.rivals
    return float(1 + (rivals <= retraining.kept.mean()).sum()) / (1 + len(rivals))


def _broke_more(retrainings: Sequence[Retraining]) -> bool:
    # -2 sum(log p) has a chi-squared distribution with 2 m degrees of freedom.
    logs = -float(np.log([rank(one) for one in retrainings]).sum())
    return bool(gammaincc(len(retrainings), logs) <= SIGNIFICANCE)


def _groups(
    promised: Float[np.ndarray, "n"], kept: Bool[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "g"], Float[np.ndarray, "g"], Float[np.ndarray, "g"]]:
    """Mean promised share, share kept and size of groups of similar promises; equal ones are in one group."""
    groups = min(MOST_GROUPS, max(1, len(promised) // GROUP))
    _, at, counts = np.unique(promised, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    _, group = np.unique((first * groups // len(promised))[at], return_inverse=True)
    sizes = np.bincount(group).astype(float)
    return np.bincount(group, promised) / sizes, np.bincount(group, kept.astype(float)) / sizes, sizes
