"""The quality of one future model, on records that it was not trained on."""

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import RecourseError
from app.futures.records import Records
from app.futures.store import Part
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import Reference
from app.registry.performance import auc, auc_deviation

CHANCE = 0.5
"""Area under the ROC curve of a model that is no better than chance; one that is better is so by a standard error."""

EXAMINED = 20_000
"""Records on which a model is examined, at most."""


class Check(Part):
    """The quality of one future model on records that it was not trained on, and whether the model is dropped."""

    auc: float
    """Area under the ROC curve on records that it has not seen; NaN is kept as 0."""
    agreement: float
    """Share of the reference records that it has not seen and decides as today's model does."""
    dropped: bool
    seconds: float


def check(
    member: BlackBox, records: Records, reference: Reference, chosen: Int[np.ndarray, "m"], seconds: float
) -> Check:
    """Examine a future model on records that it has not seen.

    Parameters
    ----------
    records : what future models are drawn from
    reference : records with the scores of today's model
    chosen : indices of the `records` that the model was trained on
    seconds : that its training took
    """
    unseen = _unseen(len(records.favourable), chosen)
    scores = _scores(member, records.rows_raw[unseen])
    if records.of_reference:
        alike = (scores >= 0.0) == (reference.scores[unseen] >= 0.0)
    else:
        some = _unseen(len(reference.scores), np.array([], dtype=int))
        alike = (_scores(member, reference.rows_raw[some]) >= 0.0) == (reference.scores[some] >= 0.0)
    found = area(scores, records.favourable[unseen])
    dropped = not found > CHANCE + auc_deviation(records.favourable[unseen])
    return Check(auc=found, agreement=float(alike.mean()), dropped=dropped, seconds=seconds)


def area(scores: Float[np.ndarray, "n"], favourable: Bool[np.ndarray, "n"]) -> float:
    """Area under the ROC curve; 0 if some score is not finite, 0.5 if all labels are the same."""
    if not np.isfinite(scores).all():
        return 0.0
    return CHANCE if favourable.all() or not favourable.any() else auc(scores, favourable)


def _unseen(count: int, chosen: Int[np.ndarray, "m"]) -> Int[np.ndarray, "n"]:
    """Indices of records that were not drawn, some of them where they are many."""
    found = np.setdiff1d(np.arange(count), chosen)
    return found[:: max(1, -(-len(found) // EXAMINED))]


def _scores(member: BlackBox, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
    try:
        return member.score_raw(rows_raw)
    except RecourseError:
        return np.full(len(rows_raw), np.nan)
