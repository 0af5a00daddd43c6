"""The confidence interval of a share of future models.

Where future models were drawn as if records were new (`fresh`), they are bootstraps of half of one sample. They vary as
much as the next model does, but around a centre that this sample has moved: all of them say too much about one record,
or too little. No number of bootstraps shows that, so a binomial interval around their share is far too narrow for the
share among models of other records.

In the margin of a record, in standard deviations between models of independent samples, let ``m`` be the mean over all
samples. A share ``t = Phi(m)`` of these models accepts the record. Today's sample has an error ``e ~ N(0, 1)``; its
bootstraps have the mean ``m + e``, the variance 2, and accept with ``Phi((m + e) / sqrt(2))``. An end of the interval
is the share ``t`` at which as many acceptances as were counted, or more (fewer), have the probability of a tail.

What varies for another reason than the records, such as the seed of a network, is counted as if it were records; the
interval is wider than it has to be then.

Where today's model is far from the models of the recipe, so may the next one be: both ends move by as much.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, ndtr, ndtri

from app.recourse.models.committee import Drawn
from app.recourse.robustness.invalidation import CONFIDENCE, clopper_pearson

ERRORS = np.linspace(-8.0, 8.0, 257)
"""Errors of a sample, in standard deviations."""
LIKELIHOOD = np.exp(-0.5 * ERRORS**2) / np.exp(-0.5 * ERRORS**2).sum()
"""Of each of them."""
FARTHEST = float(ndtri(1.0 - 1e-15))
"""Margin of a share that counts as 1."""


@lru_cache(maxsize=4096)
def share_interval(hits: int, models: int, records: Drawn | None, apart: float = 0.0) -> tuple[float, float]:
    """95 % confidence interval, in [0, 1], of the share of models that accept a record.

    The interval is for the share among all models of this kind or, if `records` is `fresh`, among models that are
    trained on new records.

    Parameters
    ----------
    hits : number of models that accept the record
    models : number of models that were asked
    records : how the training records of the models were drawn; None if unknown, as for supplied models
    apart : how far the lender's own model may be from the mean of the models, in standard deviations of the models
    """
    if apart:
        # In standard deviations between models of independent samples, of which half-sized bootstraps have two.
        moved = apart * (math.sqrt(2.0) if records == "fresh" else 1.0)
        low, high = share_interval(hits, models, records)
        return float(ndtr(ndtri(low) - moved)), float(ndtr(ndtri(high) + moved))
    if records != "fresh":
        return clopper_pearson(hits, models)
    tail = (1.0 - CONFIDENCE) / 2.0
    low = 0.0 if hits == 0 else _share_where(lambda share: bdtrc(hits - 1, models, share), tail)
    high = 1.0 if hits == models else _share_where(lambda share: bdtr(hits, models, share), tail)
    return low, high


def _share_where(probability: Callable[[np.ndarray], np.ndarray], tail: float) -> float:
    """The true share at which an event has the probability `tail`.

    Parameters
    ----------
    probability : of the event, for shares of bootstraps; monotone
    """

    def excess(margin: float) -> float:
        return float(LIKELIHOOD @ probability(ndtr((margin + ERRORS) / math.sqrt(2.0)))) - tail

    return float(ndtr(brentq(excess, -FARTHEST, FARTHEST)))
