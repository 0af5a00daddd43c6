"""Statistics of a comparison: intervals of shares, medians of paired costs, and tests without assumptions."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr, ndtri

from app.recourse.robustness.invalidation import clopper_pearson

CONFIDENCE = 0.95

RESAMPLES = 999
"""Bootstrap samples of a median."""

AT_ONCE = 2_000_000
"""Numbers of bootstrap samples in memory at the same time."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of records, with its 95 % interval."""

    value: float
    interval: Interval


def wilson(hits: int, trials: int) -> Share | None:
    """The share of hits among trials, with its 95 % interval by Wilson (1927); None without trials."""
    if not trials:
        return None
    share, z2 = hits / trials, float(ndtri(0.5 * (1.0 + CONFIDENCE))) ** 2
    centre = (hits + 0.5 * z2) / (trials + z2)
    half = math.sqrt(z2 * (trials * share * (1.0 - share) + 0.25 * z2)) / (trials + z2)
    return Share(value=share, interval=(max(0.0, centre - half), min(1.0, centre + half)))


def exact(hits: int, trials: int) -> Share | None:
    """The share of hits among trials, with its interval by Clopper and Pearson (1934); None without trials.

    The interval covers at least 95 %.
    """
    return Share(value=hits / trials, interval=clopper_pearson(hits, trials, CONFIDENCE)) if trials else None


def mcnemar(gained: int, lost: int) -> float:
    """Exact two-sided p value of McNemar's test: whether as many people gain as lose.

    It is 1 where nobody gains or loses.
    """
    return min(1.0, 2.0 * float(bdtr(min(gained, lost), gained + lost, 0.5)))


def beyond_retraining(broken: int, retrainings: Int[np.ndarray, "k"]) -> float | None:
    """P value of the hypothesis that the candidate breaks no more promises than a mere retraining does.

    None without retrainings.

    Parameters
    ----------
    broken : number of promises that the candidate breaks
    retrainings : (k,), number of promises that each retraining of the baseline breaks
    """
    return (1 + int((retrainings >= broken).sum())) / (1 + len(retrainings)) if len(retrainings) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCosts:
    """How the costs of the same people change from the baseline to the candidate."""

    median_change: float
    """Median of the differences, cost units."""
    interval: Interval
    dearer: float
    """Share of the people whose cost rises."""
    ratio: float
    """Median cost afterwards over median cost before."""
    ratio_interval: Interval


def paired_costs(before: Float[np.ndarray, "n"], after: Float[np.ndarray, "n"], seed: int) -> PairedCosts | None:
    """How costs change from `before` to `after`: median difference, and ratio of medians; None without people.

    Both have 95 % percentile intervals from a bootstrap of people.
    """
    if not len(before):
        return None
    change, n = after - before, len(before)
    rng = np.random.default_rng(seed)
    drawn: list[Float[np.ndarray, "b 2"]] = []
    left, most = RESAMPLES, max(1, AT_ONCE // n)
    while left:
        people = rng.integers(n, size=(min(left, most), n))
        ratios = np.median(after[people], axis=1) / np.median(before[people], axis=1)
        drawn.append(np.column_stack([np.median(change[people], axis=1), ratios]))
        left -= len(people)
    low, high = np.percentile(np.concatenate(drawn), [50.0 * (1.0 - CONFIDENCE), 50.0 * (1.0 + CONFIDENCE)], axis=0)
    return PairedCosts(
        median_change=float(np.median(change)),
        interval=(float(low[0]), float(high[0])),
        dearer=float((change > 1e-9).mean()),
        ratio=float(np.median(after) / np.median(before)),
        ratio_interval=(float(low[1]), float(high[1])),
    )


def most_accepted(records: int) -> float:
    """95 % upper bound on the share of accepted records, if none of `records` random ones is accepted.

    It is 1 for no records.
    """
    return 1.0 - (1.0 - CONFIDENCE) ** (1.0 / records) if records else 1.0


def inside(limit: float, interval: Interval) -> bool:
    """Whether a finite limit lies in the closed interval, so that the true value may be on either side of the limit."""
    low, high = interval
    return low <= limit <= high and math.isfinite(limit)
