"""The level of a record: one number from the scores that several models give it, at least 0 iff they suffice.

Today's model must give a margin, a share of the future models must accept, and so must enough models of each stress.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from app.recourse.models.committee import models_needed


class Levels:
    """The levels of records by their scores, which have one column per model, today's model first.

    Parameters
    ----------
    share : least share of the future models that must accept, in (0, 1]; infinite if `sure` alone counts
    own_margin : least score that today's model must give
    plain : a count: `share` concerns the first `plain` future models only. Where absent, it concerns all of them
    bell : whether the scores that several models give one record are taken to follow a bell curve. If so, a stress
        is also withstood where the mean score of its models is high enough: a bell curve with this mean, and with
        the standard deviation of the plain models' scores, has the asked share above 0
    sure : a pair of a share below `share` and a number, read only with `bell`. A record also passes if this share
        of the plain models accepts the record, and the mean of the plain models' scores is at least that number of
        standard deviations above 0
    stressed : one pair for each stress: the score columns of its models, and how many of these models must accept
    """

    def __init__(
        self,
        share: float,
        *,
        own_margin: float = 0.0,
        plain: int | None = None,
        bell: bool = False,
        sure: tuple[float, float] | None = None,
        stressed: Sequence[tuple[slice, int]] = (),
    ) -> None:
        self.share, self.own_margin, self._bell, self._sure = share, own_margin, bell, sure
        alike: dict[tuple[int, int], list[int]] = {}
        for columns, needed in stressed:
            own = range(columns.start, columns.stop)
            alike.setdefault((needed, len(own)), []).extend(own)
        self._stressed = [(needed, models, np.array(columns)) for (needed, models), columns in alike.items()]
        """Of stresses with as many models, of which as many must accept: these numbers, and the columns of all."""
        self._plain = slice(1, None if plain is None else 1 + plain)

    def of(self, scores: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The smaller of the own score beyond its margin and the score that the asked share of the models reach."""
        plain = scores[..., self._plain]
        count = plain.shape[-1]
        mean = plain.mean(axis=-1)
        spread = np.sqrt(np.maximum(np.einsum("...k,...k->...", plain, plain) / count - mean**2, 0.0))
        level = np.full_like(mean, -np.inf)
        if self._bell and self._sure is not None:
            share, deviations = self._sure
            level = np.minimum(_kth(plain, models_needed(share, count)), mean - deviations * spread)
        if self.share < np.inf:
            level = np.maximum(level, _kth(plain, models_needed(self.share, count)))
        level = np.minimum(level, scores[..., 0] - self.own_margin)
        for needed, models, columns in self._stressed:
            own = self._by_stress(scores, models, columns)
            withstood = _reached_by(own, needed)
            if self._bell:
                withstood = np.maximum(withstood, own.sum(axis=0) / models - _deviations(needed, models) * spread)
            level = np.minimum(level, withstood.min(axis=0))
        return np.asarray(level)

    @staticmethod
    def _by_stress(
        scores: Float[np.ndarray, "*n m"], models: int, columns: Int[np.ndarray, "c"]
    ) -> Float[np.ndarray, "k s *n"]:
        """The scores in these columns, by model and stress: what concerns all models is fast along the first axis."""
        own = scores.T[columns].reshape(len(columns) // models, models, *scores.shape[:-1])
        return own.swapaxes(0, 1)

    def shares(self, scores: Float[np.ndarray, "*n m"]) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
        """Shares of the plain models and, in the mean over the stresses, of those under stress that accept."""
        plain = (scores[..., self._plain] >= 0.0).mean(axis=-1)
        stressed = [
            (self._by_stress(scores, models, columns) >= 0.0).mean(axis=0) for _, models, columns in self._stressed
        ]
        together = np.concatenate(stressed).mean(axis=0) if stressed else np.ones_like(plain)
        # A single record has scalars, which are arrays here too.
        return np.asarray(plain), np.asarray(together)


@cache
def _deviations(needed: int, models: int) -> float:
    """How far above 0 the mean of a bell is of whose scores so many are, in its deviations; all count half one less."""
    return float(ndtri(min(needed, models - 0.5) / models))


def _kth(scores: Float[np.ndarray, "*n k"], needed: int) -> Float[np.ndarray, "*n"]:
    """The largest score that so many of the models reach."""
    place = scores.shape[-1] - needed
    return np.asarray(np.partition(scores, place, axis=-1)[..., place])


def _reached_by(scores: Float[np.ndarray, "k *n"], needed: int) -> Float[np.ndarray, "*n"]:
    """The largest score that so many of a few models reach; they are the first axis."""
    # The lowest scores so far, ascending. To sort few scores each, for many records, takes far longer.
    lowest = [scores[0]]
    for own in scores[1:]:
        for i, low in enumerate(lowest):
            lowest[i], own = np.minimum(low, own), np.maximum(low, own)
        lowest = [*lowest, own][: len(scores) - needed + 1]
    return lowest[-1]
