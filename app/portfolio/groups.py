"""Whether it is harder for the members of some groups to get a yes, beyond chance and at equal score.

The burden of a person is the cost of their way, infinite where there is none, so that nobody drops out of a comparison
because no way exists. Burdens are compared by ranks; with many groups and measures the largest of all statistics is
compared with those of permuted groups, so that 5 % of all tables name anybody where nothing differs.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import bdtr

from app.portfolio.shares import Interval

LEAST = 30
"""Fewest refused members of a group that is shown."""

BINS = 10
"""Of the model's score, within which people count as alike."""

Burdens = Mapping[str, Float[np.ndarray, "n"]]
"""Of each measure the burden of each person: larger is harder, infinite where there is no way."""


def suppressed(labels: Sequence[str], least: int = LEAST) -> list[str]:
    """Names of the groups that are not shown: those of fewer than `least` people.

    If there is just one such group, the next smallest is not shown either. Otherwise subtraction from the totals would
    give the figures of the one group.
    """
    sizes = sorted(Counter(labels).items(), key=lambda one: (one[1], one[0]))
    small = [name for name, size in sizes if size < least]
    if len(small) == 1 and len(sizes) > 1:
        return [name for name, _ in sizes[:2]]
    return small


def strata_of(scores: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The stratum of each score, from 0 to 9: the tenth of all scores that it lies in; 0 has the lowest."""
    return np.digitize(scores, np.quantile(scores, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))


def superiority(mine: Float[np.ndarray, "n"], others: Float[np.ndarray, "m"]) -> tuple[float, Interval]:
    """The chance that a random burden of `mine` exceeds a random burden of `others`, and its 95 % interval.

    Ties count half. The interval is computed on the logit scale with the variance of Brunner and Munzel (2000). Burdens
    may be infinite.
    """
    n, m = len(mine), len(others)
    ranks = _mid_ranks(np.concatenate([mine, others]))
    own, theirs = ranks[:n], ranks[n:]
    value = float((own.mean() - (n + 1) / 2.0) / m)
    spread = float(np.var(own - _mid_ranks(mine), ddof=1)) / m**2 / n
    spread += float(np.var(theirs - _mid_ranks(others), ddof=1)) / n**2 / m
    inside = min(max(value, 1e-9), 1.0 - 1e-9)
    logit, half = math.log(inside / (1.0 - inside)), 1.96 * math.sqrt(spread) / (inside * (1.0 - inside))
    return value, (1.0 / (1.0 + math.exp(-(logit - half))), 1.0 / (1.0 + math.exp(-(logit + half))))


def at_equal_score(
    burden: Float[np.ndarray, "n"], mine: Bool[np.ndarray, "n"], strata: Int[np.ndarray, "n"]
) -> float | None:
    """The chance that a member's burden exceeds that of another person in the same stratum; ties count half.

    The mean over strata, each with the weight that `rank_tests` gives it. None where no stratum has both.
    """
    levels = np.unique(strata)
    own, sizes = (np.array([(where == level).sum() for level in levels]) for where in (strata[mine], strata))
    weight = float((own * (sizes - own) / (sizes + 1)).sum())
    return 0.5 + float(_ranked(burden, strata, levels).ranks[mine].sum()) / weight if weight else None


def _mid_ranks(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, places, ties = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(ties) - (ties - 1) / 2.0)[places]


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Centred ranks of one measure within strata, and the variance that a random member adds."""

    ranks: Float[np.ndarray, "n"]
    variances: Float[np.ndarray, "s"]


def _ranked(burden: Float[np.ndarray, "n"], strata: Int[np.ndarray, "n"], levels: Int[np.ndarray, "s"]) -> _Ranked:
    """Weights of van Elteren (1960): a stratum of `n` people counts ``1 / (n + 1)``."""
    ranks, variances = np.empty(len(burden)), np.empty(len(levels))
    for k, level in enumerate(levels):
        there = strata == level
        n = int(there.sum())
        ties = np.unique(burden[there], return_counts=True)[1].astype(float)
        ranks[there] = (_mid_ranks(burden[there]) - (n + 1) / 2.0) / (n + 1)
        variances[k] = (n + 1 - (ties**3 - ties).sum() / (n * max(n - 1, 1))) / 12.0 / (n + 1) ** 2
    return _Ranked(ranks, variances)


def rank_tests(
    burdens: Burdens,
    labels: Sequence[str],
    shown: Sequence[str],
    *,
    strata: Int[np.ndarray, "n"] | None = None,
    permutations: int,
    seed: int,
) -> Float[np.ndarray, "g k"]:
    """The p value of each group (row) and measure (column), adjusted for all groups and measures.

    The adjustment is that of Westfall and Young (1993), step-down, with the largest standardised sum of ranks. Labels
    of groups are permuted within strata.

    Parameters
    ----------
    labels : the group of each person
    shown : the groups that are compared, each with all other people
    strata : stratum of each person; None for a single stratum
    """
    where = np.zeros(len(labels), dtype=int) if strata is None else strata
    levels = np.unique(where)
    ranked = [_ranked(burden, where, levels) for burden in burdens.values()]
    ranks = np.column_stack([one.ranks for one in ranked])
    members = np.array([[label == name for label in labels] for name in shown], dtype=float).reshape(-1, len(labels))
    inside = np.column_stack([where == level for level in levels]).astype(float)
    own, sizes = members @ inside, inside.sum(axis=0)
    variance = np.column_stack([(own * (sizes - own)) @ one.variances for one in ranked])
    scale = 1.0 / np.sqrt(np.where(variance > 0.0, variance, np.inf))
    found = np.abs(members @ ranks * scale).ravel()
    order = np.argsort(-found, kind="stable")
    rng, larger = np.random.default_rng(seed), np.zeros(len(found))
    places = [np.flatnonzero(where == level) for level in levels]
    for _ in range(permutations):
        shuffled = np.empty_like(ranks)
        for place in places:
            shuffled[place] = ranks[rng.permutation(place)]
        other = np.abs(members @ shuffled * scale).ravel()[order]
        larger += np.maximum.accumulate(other[::-1])[::-1] >= found[order] - 1e-12
    p = np.empty(len(found))
    p[order] = np.maximum.accumulate((larger + 1.0) / (permutations + 1.0))
    return p.reshape(len(shown), len(ranked))


def median(burden: Float[np.ndarray, "n"]) -> tuple[float | None, tuple[float | None, float | None]]:
    """The median burden, and its 95 % interval by order statistics; a number that is infinite becomes None."""
    n = len(burden)
    low, high = np.searchsorted(bdtr(np.arange(n + 1), n, 0.5), [0.025, 0.975]).tolist()
    ordered = np.sort(burden)
    ends = float(ordered[max(low - 1, 0)]), float(ordered[min(high, n - 1)])
    return _finite(float(np.median(burden))), (_finite(ends[0]), _finite(ends[1]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
