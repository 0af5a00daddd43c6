"""What a backtest says of an answer: the share that models trained later kept, its interval, and when it ages."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.counterfactual import KeptBefore
from app.recourse.models.committee import Backtest
from app.recourse.robustness.invalidation import clopper_pearson


def kept_before(
    backtest: Sequence[Backtest], asked: float | None, under: str | None, probability: float, promised: float
) -> KeptBefore | None:
    """What share of similar earlier promises later models kept; None if the backtest has no similar answers.

    Of the earlier answers that asked for at most the share `asked`, those that asked for the largest share are similar.
    If `asked` is None, those that asked for no share are similar.

    Parameters
    ----------
    backtest : one entry for each share that was asked for and each age in months
    asked : share of models that this request asks for; None if it asks for none
    under : whether the request asks for this share under stress (`stress`) or not (`same`)
    probability : share of the future models that accept the answer
    promised : lower end of the interval of `probability`
    """
    if asked is None:
        alike = [one for one in backtest if one.asked is None]
    else:
        alike = [one for one in backtest if one.asked is not None and one.asked <= asked and one.under == under]
    if not alike:
        return None
    level = max(one.asked or 0.0 for one in alike)
    aging = sorted((one for one in alike if (one.asked or 0.0) == level), key=lambda one: one.months)
    last = aging[-1]
    curve = [(0.0, probability), *((float(one.months), one.kept) for one in aging)]
    return KeptBefore(
        share=last.kept, interval=last.interval, promises=last.promises, months=last.months,
        holds_months=_months_until(curve, promised),
    )  # fmt: skip


def _months_until(curve: Sequence[tuple[float, float]], least: float) -> float | None:
    """When a curve of shares by months, linear between its points, first falls below a share; None where it never does.

    The first share is not below.
    """
    for (before, high), (after, low) in pairwise(curve):
        if low < least:
            return round(before + (after - before) * (high - least) / (high - low), 1)
    return None


def clustered_interval(
    kept: Sequence[Bool[np.ndarray, "n"]], shares: Sequence[Float[np.ndarray, "k"]], remaining: float
) -> tuple[float, float]:
    """95 % confidence interval of the share of promises that are kept, if all promises of a date share their models.

    Parameters
    ----------
    kept : for each date, whether each of its promises is kept; at least one date
    shares : for each date, the share of its promises that each of k models accepts; these models vary as the later
        model does, given the model that promised
    remaining : part of the variance of these shares that remains in the mean over the dates, in (0, 1]

    Notes
    -----
    The variance of the share is estimated in two ways, from the k models and from the differences between dates; the
    larger estimate counts. Let ``rho`` be this variance divided by the variance of a single promise. Then n promises
    are worth ``n / (1 + (n - 1) rho)`` independent ones, and the interval is that of Clopper and Pearson for this
    number.

    References
    ----------
    Korn, Graubard, Confidence intervals for proportions with small expected number of positive counts estimated from
    survey data, Survey Methodology 24, 1998.
    """
    every = np.concatenate(kept)
    n, share, dates = len(every), float(every.mean()), len(kept)
    weights = np.array([len(one) for one in kept]) / n
    between = remaining * float(weights @ [one.var(ddof=1) for one in shares])
    if dates > 1:
        seen = float(weights @ [(one.mean() - share) ** 2 for one in kept]) / (dates - 1)
        between = max(between, seen)
    typical = float(weights @ [one.mean() for one in shares])
    single = max(typical * (1.0 - typical), share * (1.0 - share))
    rho = min(1.0, between / single) if single > 0.0 else 0.0
    effective = n / (1.0 + (n - 1) * rho)
    return clopper_pearson(share * effective, effective)
