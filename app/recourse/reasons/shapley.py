"""How much each feature contributes to the difference between a score and the mean score of other records.

The Shapley values of the game ``v(S) = mean over records r of f(x in S, r elsewhere)``: for a set of features S, the
mean score of records that have the person's values in S and their own elsewhere. The values add up to
``f(x) - mean f(r)``. Where the score is a sum with one term per feature they have a closed form; for a linear model
that is ``w_j (x_j - mean r_j)``. Otherwise they are sampled: along a random order of the features, one record after
another takes over the person's values, and each feature gets the change of the score at its turn (Castro et al. 2009).
Each order is also walked backwards, which removes the error of first order (Mitchell et al. 2022).

Rows are raw, so a derived feature is computed again in every row, and what it does belongs to those it follows from.

References
----------
Castro, Gómez & Tejada, "Polynomial calculation of the Shapley value based on sampling", 2009.
Mitchell, Cooper, Frank & Holmes, "Sampling Permutations for Shapley Value Estimation", 2022.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from app.errors import BudgetExceeded, DeadlineExceeded, ModelOutputInvalid
from app.recourse.models.meter import Meter
from app.recourse.reasons.comparison import Comparison

MOST_RECORDS = 200
"""Records of the comparison from which walks begin, spread evenly over their scores."""
WALKS = 2
"""Orders for each record; each is walked in both directions."""
MOST_ROWS = 20_000
"""Rows of all walks, which fewer records keep to where there are many features."""
CALL_ROWS, ADDITIVE_ROWS = 5_000, 50_000
"""Rows in one call; of a scorecard, which is fast."""
REMOTE_SHARE = 4
"""A remote model is sent at most this part of its budget, in one call."""
LEAST_RECORDS = 8
"""Records below which there is no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """The contribution of each feature to a score.

    The contributions add up to the difference between the score and the mean score of the records that it is compared
    with.
    """

    values: Float[np.ndarray, "p"]
    """Contributions, in units of the score."""
    std_errors: Float[np.ndarray, "p"]
    """Standard errors of sampling; 0 where the values are exact."""
    lean: Float[np.ndarray, "p"]
    """What a feature contributes against records with more of it, less that against records with less; above 0 where
    it is having more that lowers the score. States do not count."""
    records: int
    """Records of the comparison that were asked about."""


def contributions(
    meter: Meter, factual_raw: Float[np.ndarray, "p"], factual_score: float, others: Comparison, seed: int
) -> Contributions:
    """The contribution of each feature to the difference between the factual's score and the mean score of `others`.

    Raises
    ------
    DeadlineExceeded, BudgetExceeded : time or budget ran out before the first estimate; later, they only make standard
        errors larger
    ModelOutputInvalid : the model gave no finite score for most of the rows
    """
    black_box = meter.black_box
    if black_box.knows_weights:
        return _linear(meter, factual_raw, others)
    if black_box.additive:
        return _additive(meter, factual_raw, factual_score, others)
    return _sampled(meter, factual_raw, factual_score, others, seed)


def _exact(values: Float[np.ndarray, "p"], lean: Float[np.ndarray, "p"], others: Comparison) -> Contributions:
    return Contributions(values=values, std_errors=np.zeros_like(values), lean=lean, records=len(others.scores))


def _sides(
    meter: Meter, factual_raw: Float[np.ndarray, "p"], rows_raw: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "n p"]:
    """Where records have more of a feature than the person, 1, or less, -1; 0 where one of the two is in a state."""
    space = meter.black_box.space
    states = space.in_state(rows_raw) | space.in_state(factual_raw[None])
    return np.where(states, 0.0, np.sign(rows_raw - factual_raw))


def _linear(meter: Meter, factual_raw: Float[np.ndarray, "p"], others: Comparison) -> Contributions:
    """``w_j (x_j - mean r_j)``, summed over the encoded columns of each feature."""
    space = meter.black_box.space
    x, X = space.encode(factual_raw[None]), space.encode(others.rows_raw)
    weights, sides = meter.gradient(x)[0], _sides(meter, factual_raw, others.rows_raw)[:, space.feature_of_column]

    def by_feature(by_column: Float[np.ndarray, "d"]) -> Float[np.ndarray, "p"]:
        return np.bincount(space.feature_of_column, weights=by_column, minlength=space.p)

    lean = by_feature(weights * (sides * (x - X)).mean(axis=0))
    return _exact(by_feature(weights * (x[0] - X.mean(axis=0))), lean, others)


def _additive(
    meter: Meter, factual_raw: Float[np.ndarray, "p"], factual_score: float, others: Comparison
) -> Contributions:
    """The term of each feature at the person's value, less its mean over the records: one value changes at a time."""
    columns = [np.unique(column, return_counts=True) for column in others.rows_raw.T]
    of = np.repeat(np.arange(factual_raw.size), [len(found) for found, _ in columns])
    weights = np.concatenate([counts for _, counts in columns]) / len(others.scores)
    rows_raw, each = np.repeat(factual_raw[None], len(of), axis=0), np.arange(len(of))
    rows_raw[each, of] = np.concatenate([found for found, _ in columns])
    scores = np.concatenate([meter.score_raw(rows_raw[some]) for some in _parts(np.arange(len(of)), ADDITIVE_ROWS)])
    sides = _sides(meter, factual_raw, rows_raw)[each, of]
    lean = np.bincount(of, weights=weights * sides * (factual_score - scores))
    return _exact(factual_score - np.bincount(of, weights=weights * scores), lean, others)


def _sampled(
    meter: Meter, factual_raw: Float[np.ndarray, "p"], factual_score: float, others: Comparison, seed: int
) -> Contributions:
    rng, p = np.random.default_rng(seed), factual_raw.size
    remote, rows_per_record = meter.black_box.remote, max(1, 2 * WALKS * (p - 1))
    rows = MOST_ROWS if remote is None else min(CALL_ROWS, remote.max_rows // REMOTE_SHARE)
    count = max(LEAST_RECORDS, min(MOST_RECORDS, rows // rows_per_record))
    start = _spread(others.scores, count, rng)
    walks: list[Float[np.ndarray, "w p"]] = []
    try:
        for some in _parts(start, max(1, (CALL_ROWS if remote is None else rows) // rows_per_record)):
            walks.append(_walk(meter, factual_raw, factual_score, others, some, rng))
    except (DeadlineExceeded, BudgetExceeded):
        if sum(map(len, walks)) < LEAST_RECORDS:
            raise
    found = np.concatenate(walks)
    whole = ~np.isnan(found).any(axis=(1, 2))
    found, asked = found[whole], int(whole.sum())
    if asked < LEAST_RECORDS and 2 * asked < len(whole):
        raise ModelOutputInvalid(
            "the model gave no finite score for most mixtures of this record with reference records"
        )
    values = found.mean(axis=(0, 1))
    sides = _sides(meter, factual_raw, others.rows_raw[start[: len(whole)][whole]])
    lean = (sides * found.mean(axis=1)).mean(axis=0)
    if asked == len(others.scores):
        # Every record was asked about, so the only error is that of the orders.
        variances = found.var(axis=1, ddof=1).mean(axis=0) / (WALKS * asked)
    else:
        variances = found.mean(axis=1).var(axis=0, ddof=1) / asked if asked > 1 else np.full(p, np.inf)
        # The sum is known: its error is that of the features in proportion to their variances.
        if variances.sum() > 0.0:
            values = values + variances / variances.sum() * (factual_score - others.score - values.sum())
    return Contributions(values=values, std_errors=np.sqrt(variances), lean=lean, records=asked)


def _spread(scores: Float[np.ndarray, "n"], count: int, rng: np.random.Generator) -> Int[np.ndarray, "k"]:
    """Records at even distances in the order of their scores, in random order; all of them where there are few."""
    by_score = np.argsort(scores, kind="stable")
    if len(scores) > count:
        by_score = by_score[((np.arange(count) + rng.random()) * len(scores) / count).astype(np.intp)]
    return rng.permutation(by_score)


def _parts(indices: Int[np.ndarray, "k"], size: int) -> Iterator[Int[np.ndarray, "m"]]:
    return (indices[start : start + size] for start in range(0, len(indices), size))


def _walk(
    meter: Meter,
    factual_raw: Float[np.ndarray, "p"],
    factual_score: float,
    others: Comparison,
    records: Int[np.ndarray, "m"],
    rng: np.random.Generator,
) -> Float[np.ndarray, "m w p"]:
    """The change of the score at the turn of each feature, by record and order, the mean of both directions.

    NaN where a mixture of two records is none that the model can score.
    """
    m, p = len(records), factual_raw.size
    orders = rng.permuted(np.tile(np.arange(p), (m, WALKS, 1)), axis=2)
    orders = np.stack([orders, orders[..., ::-1]], axis=2)  # (m, walks, directions, p)
    turn = np.argsort(orders, axis=3)
    own = turn[..., None, :] < np.arange(1, p)[:, None]  # (m, walks, directions, p - 1, p)
    rows_raw = np.where(own, factual_raw, others.rows_raw[records][:, None, None, None, :])
    along = np.empty((*orders.shape[:3], p + 1))
    along[..., 0], along[..., p] = others.scores[records][:, None, None], factual_score
    along[..., 1:p] = _scores(meter, rows_raw.reshape(-1, p)).reshape(*orders.shape[:3], p - 1)
    return np.take_along_axis(np.diff(along, axis=3), turn, axis=3).mean(axis=2)


def _scores(meter: Meter, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
    """Scores of rows; NaN where a derived value is no number."""
    scores = np.full(len(rows_raw), np.nan)
    sound = meter.black_box.space.derives_legally(rows_raw)
    if sound.any():
        scores[sound] = meter.score_raw(rows_raw[sound])
    return scores
