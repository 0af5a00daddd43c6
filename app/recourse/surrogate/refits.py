"""How much retraining moves a linear model: its mean and covariance over refits on random halves of labelled records.

Each refit is a logistic regression on half of the records, drawn without replacement. Half of the records doubles
the variance of all of them, and drawing without replacement halves it again: the covariance is, to first order, that of
a model trained on as many *new* records as these.

The refit minimises ``sum log(1 + exp(-s theta.x)) + |w|^2 / 2`` with ``s = 1`` for a favourable outcome and ``-1``
otherwise: scikit-learn's default, ``C = 1``. The penalty is small, about the weight of one record, and has two effects:

* Separable records still have one best model, with finite weights.
* The columns of a category add up to 1, like the intercept, so different weights can make the same decisions. The
  penalty spares the intercept, so the smallest weights win, and these sum to 0 in each category, however large the
  penalty. Every refit takes the same one of the equivalent models, so the covariance contains no arbitrary choice.

A classifier is only defined up to scale, so each ``theta = (w, c)`` is brought to length 1 before it counts, and all of
them are scaled so that their mean has length 1.

References
----------
Shao, Wu, "A general theory for jackknife variance estimation", Annals of Statistics 1989 (deleting half).
"""

import math

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DegenerateSurrogate, SolverFailed
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.models.score import sigmoid

RIDGE = 1.0
"""Penalty on each squared weight, halved, beside the sum of the log-losses; the intercept has none."""
LEAST = 2
"""Least number of records of each outcome for a refit."""
DECREMENT = 1e-12
"""Newton stops where it expects no more of a gain, relative to the loss."""
MAX_STEPS = 100
MAX_HALVINGS = 40
BATCH = 1 << 22
"""Numbers in the largest array that is held in memory at a time."""


def refit_moments(
    X: Float[np.ndarray, "n d"], y: Bool[np.ndarray, "n"], refits: int, seed: int, *, threshold: float = 0.0
) -> WeightMoments:
    """Mean and covariance of models that are refitted on random halves of the records and scaled to length 1.

    Parameters
    ----------
    X : encoded
    y : the true outcomes, True for favourable; at least `LEAST` of each
    refits : number of models, >= 2
    seed : same seed, same halves. A half without one of the outcomes is drawn again.
    threshold : smallest favourable logit; the models use the lender's threshold, not even odds

    Returns
    -------
    WeightMoments : of kind `registered`; the root is (d + 1, min(d + 1, refits))

    Raises
    ------
    DegenerateSurrogate : the refits have no direction in common, e.g. no column separates the outcomes
    SolverFailed : the records are too far from each other to be fitted in floating point
    """
    thetas = refit(X, y, refits, seed, threshold=threshold)
    lengths = np.linalg.norm(thetas, axis=1)
    if not lengths.all():
        raise DegenerateSurrogate
    thetas /= lengths[:, None]
    mean = thetas.mean(axis=0)
    length = float(np.linalg.norm(mean))
    if not length:
        raise DegenerateSurrogate
    _, singular, directions = np.linalg.svd((thetas - mean) / math.sqrt(refits - 1), full_matrices=False)
    return WeightMoments(mean=mean / length, factors=(directions.T * (singular / length),), kind="registered")


def refit(
    X: Float[np.ndarray, "n d"], y: Bool[np.ndarray, "n"], refits: int, seed: int, *, threshold: float = 0.0
) -> Float[np.ndarray, "r m"]:
    """The models refitted on random halves of the records: one row ``(w, c)`` per model, not scaled.

    A model accepts where ``w.x + c >= 0``.

    Parameters
    ----------
    X : encoded
    y : the true outcomes, True for favourable; at least `LEAST` of each
    refits : number of models
    seed : same seed, same halves
    threshold : smallest favourable logit

    Raises
    ------
    SolverFailed : the records are too far from each other to be fitted in floating point
    """
    points = homogeneous(X)
    shift = np.zeros(points.shape[1])
    shift[-1] = threshold
    start = fit(points, y, np.ones((1, len(y))), np.zeros(points.shape[1]))[0]
    rng = np.random.default_rng(seed)
    batch = max(1, BATCH // max(len(points), points.shape[1] ** 2))
    sizes = [min(batch, refits - done) for done in range(0, refits, batch)]
    return np.concatenate([fit(points, y, _halves(y, size, rng), start) for size in sizes]) - shift


def _halves(y: Bool[np.ndarray, "n"], count: int, rng: np.random.Generator) -> Float[np.ndarray, "b n"]:
    """Halves of the records, rounded up, each with both outcomes; 1 for a record that is in it, else 0."""
    halves = np.zeros((count, len(y)))
    for half in halves:
        while not 0.0 < half @ y < half.sum():
            half[:] = rng.permutation(len(y)) < (len(y) + 1) // 2
    return halves


def fit(
    points: Float[np.ndarray, "n m"],
    y: Bool[np.ndarray, "n"],
    weights: Float[np.ndarray, "b n"],
    start: Float[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Several logistic regressions of the same points; the result has one row of coefficients per row of `weights`.

    Newton's method fits all of them at once, since a few large matrix products are much faster than thousands of small
    ones. A step that does not lower the loss is halved.

    Parameters
    ----------
    points : homogeneous
    y : the outcomes, True for favourable
    weights : weight of each point in each regression
    start : first coefficients of every regression

    Raises
    ------
    SolverFailed : a regression does not converge
    """
    m = points.shape[1]
    penalty = np.full(m, RIDGE)
    penalty[-1] = 0.0
    signed = np.where(y[:, None], points, -points)

    def loss(thetas: Float[np.ndarray, "b m"], weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b"]:
        losses = np.logaddexp(0.0, -(thetas @ signed.T))
        return np.einsum("bn,bn->b", weights, losses) + 0.5 * thetas**2 @ penalty

    thetas = np.tile(start, (len(weights), 1))
    now = loss(thetas, weights)
    going = np.arange(len(weights))
    for _ in range(MAX_STEPS):
        miss = sigmoid(-(thetas[going] @ signed.T))
        gradient = penalty * thetas[going] - (weights[going] * miss) @ signed
        hessian = _products(points, weights[going] * miss * (1.0 - miss))
        hessian[:, range(m), range(m)] += penalty
        try:
            step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            break
        decrement = np.einsum("bm,bm->b", gradient, step)
        done = np.abs(decrement) <= DECREMENT * (1.0 + now[going])
        thetas[going[done]] -= step[done]
        going, step, decrement = going[~done], step[~done], decrement[~done]
        if not going.size:
            return thetas
        size = np.ones(len(going))
        for _ in range(MAX_HALVINGS):
            there = thetas[going] - size[:, None] * step
            after = loss(there, weights[going])
            short = ~(after <= now[going] - 1e-4 * size * decrement)
            if not short.any():
                break
            size[short] /= 2.0
        else:
            break
        thetas[going], now[going] = there, after
    raise SolverFailed("The logistic regression did not converge.")


def _products(points: Float[np.ndarray, "n m"], weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b m m"]:
    """``sum_i weight_i x_i x_i'`` for each row of weights, by one product with the distinct entries of ``x x'``."""
    m = points.shape[1]
    row, column = np.triu_indices(m)
    sums = np.zeros((len(weights), len(row)))
    rows = max(1, BATCH // len(row))
    for at in range(0, len(points), rows):
        block = points[at : at + rows]
        sums += weights[:, at : at + rows] @ (block[:, row] * block[:, column])
    products = np.empty((len(weights), m, m))
    products[:, row, column] = products[:, column, row] = sums
    return products
