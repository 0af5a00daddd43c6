"""What searches with future models aim at, so that the held-back models probably reach the share that is asked for."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import brentq
from scipy.special import bdtrc, gammaln, ndtr, ndtri

from app.recourse.models.committee import ROUNDING, Futures, models_needed, quantiles
from app.recourse.robustness.share_interval import ERRORS, LIKELIHOOD

SURE = 0.94
"""Probability with which the held-back models should reach the asked share, of a record that no more of the search set
accept than have to. Most are accepted by more, so 95 % of answers reach it; with 0.95 here, 0.9 would ask for all of 60
models, as 0.95 does."""
MOST_DEVIATIONS = 4.0
"""What `deviations` asks for at most."""
FEWEST_SCORES = 10
"""Models from which on the deviation of their scores is used."""


@lru_cache(maxsize=256)
def aim(share: float, search: int, held_back: int) -> int:
    """Number of models in the search set that must accept a record so that, likely, `share` of the held-back ones do.

    The search picks records that the search set accepts, so one acceptance is not counted. The number of acceptances
    among the `held_back` models then has a beta-binomial law. The answer is the smallest number with which at least
    `share` of these models accept with probability `SURE`, or else `search`, all models of the search set.

    Parameters
    ----------
    search, held_back : numbers of models in the search set and among the held-back models
    """
    needed = models_needed(share, held_back)
    h = np.arange(needed, held_back + 1)
    for count in range(models_needed(share, search), search):
        a, b = count - 0.5, search - count + 1.5
        law = (
            gammaln(held_back + 1) - gammaln(h + 1) - gammaln(held_back - h + 1)
            + gammaln(h + a) + gammaln(held_back - h + b) - gammaln(held_back + a + b)
            + gammaln(a + b) - gammaln(a) - gammaln(b)
        )  # fmt: skip
        if np.exp(law).sum() >= SURE:
            return count
    return search


@lru_cache(maxsize=256)
def deviations(share: float, search: int, held_back: int) -> float:
    """How far a record's mean score by the search set must exceed 0, in standard deviations of these scores.

    If scores are normally distributed, at least `share` of the held-back models then accept the record with probability
    `SURE`. Mean and deviation say more than the number of models that accept, which `aim` counts.

    Parameters
    ----------
    search, held_back : numbers of models in the search set and among the held-back models

    Returns
    -------
    > 0; infinite where the search set has fewer than `FEWEST_SCORES` models, or no number up to `MOST_DEVIATIONS` fits
    """
    needed = models_needed(share, held_back)

    def short(z: float) -> float:
        own = z + ERRORS * math.sqrt((1.0 + 0.5 * z * z) / search)
        return float(LIKELIHOOD @ bdtrc(needed - 1, held_back, ndtr(own))) - SURE

    if search < FEWEST_SCORES or not short(0.0) < 0.0 < short(MOST_DEVIATIONS):
        return math.inf
    return float(brentq(short, 0.0, MOST_DEVIATIONS))


def bell_deviations(needed: float, search: int, held_back: int) -> float:
    """`deviations` where not the number of the held-back models that accept counts, but the quantile of their scores.

    Parameters
    ----------
    needed : the quantile that these scores have to reach, with probability `SURE`
    """
    return needed + float(ndtri(SURE)) * math.sqrt((1.0 + 0.5 * needed**2) * (1.0 / search + 1.0 / held_back))


def surely_accepted(futures: Futures, share: float, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
    """Which records the search set accepts so clearly that `share` can be promised of them, with probability `SURE`.

    By the number of models, except where promises are lowered: of offers of the demo whose mean score is high enough
    0.86 reach the share, by number 0.94.
    """
    search, held_back = futures.search, futures.held_back.count
    if futures.lowered is not None:
        needed = bell_deviations(futures.lowered.needed(share), search.count, held_back)
        return np.asarray(quantiles(search.scores_raw(rows_raw)) >= needed)
    return np.asarray(search.shares(rows_raw) >= aim(share, search.count, held_back) / search.count - ROUNDING)


@dataclass(frozen=True, slots=True)
class Aim:
    """What a search asks of the plain models of its set, as `Levels` takes it."""

    share: float
    """Of the models that accept; infinite where their number does not count."""
    sure: tuple[float, float] | None = None
    """A smaller share that suffices where the mean score is so many standard deviations above 0; None for no such."""


def aims(futures: Futures, asked: float, own: float, *, labels: bool) -> tuple[list[Aim], bool]:
    """What searches ask for, one after the other until something is found, and whether scores count as well.

    First that the held-back models reach the share that is asked for with probability `SURE`, then that they are as
    likely to reach it as not, then only that so many models of the search set accept.

    Parameters
    ----------
    own : least share of the search set that must accept, but in the last search
    labels : whether the model gives labels
    """
    search, held_back = futures.search.count, futures.held_back.count
    if futures.lowered is not None:
        needed = futures.lowered.needed(asked)
        clear = [(asked, one) for one in (bell_deviations(needed, search, held_back), needed)]
        return [*(Aim(math.inf, sure) for sure in clear), Aim(asked)], True
    z = math.inf if labels else deviations(asked, search, held_back)
    least, most = max(asked, own), max(aim(asked, search, held_back) / search, own)
    lesser = [Aim(one) for one in sorted({least, asked} - {most}, reverse=True)]
    return [Aim(most, (least, z) if z < math.inf else None), *lesser], z < math.inf
