"""Whether today's model looks like one that the recipe trains, where answers lie.

Answers lie apart from the records, where models that agree on all records may differ. So a few models of the search set
answer people whom they refuse, and today's model and the held-back models score these answers. None of them took part
in the search, so if the recipe is the lender's, today's model is one more of them: the rank of its distance from their
mean, among theirs, is a conformal p-value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.futures.store import SIGNIFICANCE
from app.futures.windows import answered, reference_of, rows_of
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import FutureModels
from app.registry.version import LoadedModel

ASKING = 3
"""Models of the search set that answer people."""
PEOPLE = 12
"""People whom each of them answers, at most."""
FEWEST = 10
"""Answers without which nothing is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How far today's model lies from the future models that one recipe makes."""

    rank: float
    """Small where it is far from them: its rank among the held-back models, in (0, 1]."""
    apart: float
    """Mean distance of its scores of the answers from the mean of these models', in their standard deviations."""


def compared(loaded: LoadedModel, asking: Sequence[BlackBox], held_back: FutureModels, seed: int) -> Compared | None:
    """Compare the scores of answers by today's model with those by held-back future models.

    None where there are too few models or answers.

    Parameters
    ----------
    asking : future models; answers are sought for people whom they refuse, which raises the errors of `solve`
    """
    if held_back.count < 1.0 / SIGNIFICANCE - 1.0:
        return None
    rows_raw = answers(loaded, asking, seed, PEOPLE)
    if len(rows_raw) < FEWEST:
        return None
    own, others = loaded.black_box.score_raw(rows_raw), held_back.scores_raw(rows_raw)
    usable = np.isfinite(own) & np.isfinite(others).all(axis=1) & (others.std(axis=1) > 0.0)
    if usable.sum() < FEWEST:
        return None
    own, others = own[usable, None], others[usable]
    every = np.hstack([own, others])
    distances = np.abs(((every - every.mean(axis=1, keepdims=True)) / every.std(axis=1, keepdims=True)).mean(axis=0))
    apart = ((own - others.mean(axis=1, keepdims=True)) / others.std(axis=1, ddof=1, keepdims=True)).mean()
    return Compared(rank=float((distances >= distances[0]).mean()), apart=float(abs(apart)))


def answers(loaded: LoadedModel, asking: Sequence[BlackBox], seed: int, people: int) -> Float[np.ndarray, "n p"]:
    """Answers of several models, as raw rows, each to so many people of the reference whom it refuses.

    Where no answer is found there is no row. Raises the errors of `solve`.
    """
    found: list[Counterfactual] = []
    for i, model in enumerate(asking):
        found += answered(loaded, model, reference_of(loaded, model, loaded.reference.rows_raw), people, [seed, i])
    return rows_of(loaded, found)
