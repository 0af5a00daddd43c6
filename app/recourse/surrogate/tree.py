"""A decision tree distilled from a model's decisions at some points: for forests and boosted trees.

Grown by Gini impurity, as in CART; small, because it only proposes records and the model itself scores every proposal.

References
----------
Breiman, Friedman, Olshen, Stone, "Classification and Regression Trees", 1984.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.models.tree_boxes import Boxes

DEPTH = 10
"""Largest number of splits between the root and a leaf."""
SMALLEST_LEAF = 3
"""Least number of points in a leaf."""
HELD_OUT = 5
"""One point in so many measures the fidelity; at random, because samples are drawn from each crossing in turn."""


@dataclass(frozen=True, slots=True)
class DistilledTree:
    """A decision tree that imitates a model, and how well it does so."""

    boxes: Boxes
    """Scores are +1 and -1: the decision of most points in the leaf."""
    fidelity: float
    """Share of points on which a tree grown without them decides as the model does."""


def distil(X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> DistilledTree:
    """Grow a tree on all points, and a second tree on four fifths of them, whose fidelity is measured on the rest.

    Parameters
    ----------
    favourable : the model's decision on each point
    """
    held_out = np.random.default_rng(0).permutation(len(X)) % HELD_OUT == 0
    rehearsal = _grow(X[~held_out], favourable[~held_out])
    agree = (rehearsal.score(X[held_out]) >= 0.0) == favourable[held_out]
    return DistilledTree(_grow(X, favourable), float(agree.mean()))


def _grow(X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> Boxes:
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    decision: list[float] = []

    def node(members: Int[np.ndarray, "m"], depth: int) -> int:
        k = len(feature)
        split = _best_split(X[members], favourable[members]) if depth < DEPTH else None
        feature.append(-1 if split is None else split[0])
        threshold.append(0.0 if split is None else split[1])
        decision.append(1.0 if 2 * np.count_nonzero(favourable[members]) >= len(members) else -1.0)
        left.append(-1)
        right.append(-1)
        if split is not None:
            goes_left = X[members, split[0]] <= split[1]
            left[k] = node(members[goes_left], depth + 1)
            right[k] = node(members[~goes_left], depth + 1)
        return k

    node(np.arange(len(X)), 0)
    arrays = tuple(np.array(values) for values in (feature, threshold, left, right, decision))

    def score(points: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m"]:
        return _walk(arrays, points)

    return Boxes.of_tree(*arrays[:4], columns=X.shape[1], score=score)


def _best_split(X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> tuple[int, float] | None:
    """Column and threshold that leave least impurity; None where no split is left to make."""
    n, positives = len(X), int(np.count_nonzero(favourable))
    if positives in (0, n) or n < 2 * SMALLEST_LEAF:
        return None
    order = X.argsort(axis=0, kind="stable")
    ordered = np.take_along_axis(X, order, axis=0)
    before = favourable[order].cumsum(axis=0)[:-1].astype(float)
    size = np.arange(1, n, dtype=float)[:, None]
    after, rest = positives - before, n - size
    impurity = before * (size - before) / size + after * (rest - after) / rest
    possible = ordered[1:] > ordered[:-1]
    possible[: SMALLEST_LEAF - 1] = False
    possible[n - SMALLEST_LEAF :] = False
    impurity[~possible] = np.inf
    at, column = divmod(int(impurity.argmin()), X.shape[1])
    if not impurity[at, column] < positives * (n - positives) / n:
        return None
    below, above = ordered[at : at + 2, column].tolist()
    middle = 0.5 * (below + above)
    return column, middle if below <= middle < above else below


def _walk(tree: tuple[np.ndarray, ...], X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    feature, threshold, left, right, decision = tree
    at = np.zeros(len(X), dtype=np.intp)
    while (inner := left[at] >= 0).any():
        goes_left = X[np.arange(len(X)), feature[at]] <= threshold[at]
        at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
    return decision[at]
