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
    """The shares of earlier answers like this one that later models kept; None where no earlier date has such answers.

    Parameters
    ----------
    asked : share of models that was asked for; earlier answers count that asked for the largest share not above it
    probability, promised : share of the future models that accept the answer, and the lower end of its interval
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
    """95 % confidence interval of the share of kept promises, where all people of a date share its models.

    Parameters
    ----------
    kept : for each date, of which there is at least one, whether each of its promises is kept
    shares : for each date, the share of its promises that each of k models accepts; these models vary as the later
        model does, given the one that promised
    remaining : part of the variance of these shares that remains in the mean over the dates, in (0, 1]

    Notes
    -----
    The larger of two variances of the share counts: that of its models, and that which is seen between dates. With
    ``rho`` its part of the variance of a single promise, n promises are worth ``n / (1 + (n - 1) rho)`` independent
    ones, which Clopper-Pearson is given.

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
