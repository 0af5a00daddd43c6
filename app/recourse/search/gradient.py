"""Projected gradient descent from many starts at once, inside what one person can reach.

Records are relaxed to the convex hull of the encoded action set: numbers anywhere in their range, categories anywhere
in the simplex of their columns. Caps on the number of changes and rules between numbers are left to the caller.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet

Gradient = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n d"]]

NOWHERE = -1e9
"""Stands in for categories that a group does not have, far below any weight."""


class Hull:
    """The convex hull of an encoded action set, and the cost of its points."""

    def __init__(self, action_set: ActionSet) -> None:
        self.action_set = action_set
        A, space = action_set, action_set.space
        self.x0 = A.x0
        j = space.numeric
        self._groups = self._open_groups()
        self._is_level = self._groups >= 0
        self._levels = self._groups[self._is_level]
        self._lower, self._upper = self.x0.copy(), self.x0.copy()
        """Of each column by itself: of numbers their range, of levels that share a simplex none, of others a point."""
        for end, ends_raw, none in ((self._lower, A.lower_raw, -np.inf), (self._upper, A.upper_raw, np.inf)):
            end[space.numeric_columns] = space.encode_numbers(ends_raw[None])[0]
            end[self._levels] = none
        fixed = A.factual_raw[space.groups].astype(np.intp)
        self._feature, self._first = space.feature_of_column, np.array([span.start for span in space.spans])
        self._distance, self._current = np.zeros(space.d), np.zeros(space.d)
        self._distance[space.numeric_columns] = A.weights[j]
        self._current[space.group_starts + fixed] = A.weights[space.groups]

    def _open_groups(self) -> Int[np.ndarray, "g k"]:
        """Columns of each group that can change, those of levels that may be proposed; padded with -1."""
        A, space = self.action_set, self.action_set.space
        open_groups = [(space.spans[j].start, A.levels(j)) for j in space.groups[A.movable[space.groups]].tolist()]
        columns = np.full((len(open_groups), max((len(levels) for _, levels in open_groups), default=0)), -1)
        for row, (first, levels) in zip(columns, open_groups, strict=True):
            row[: len(levels)] = first + np.array(levels)
        return columns

    def cost(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """The cost of each encoded point; between records it is interpolated linearly."""
        return np.abs(X - self.x0) @ self._distance + (self.x0 - X) @ self._current

    def cost_slope(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """A subgradient of the cost at each encoded point."""
        return np.sign(X - self.x0) * self._distance - self._current

    def shared(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """`X` with each entry replaced by the sum of the entries in all columns that encode the same feature."""
        return np.asarray(np.add.reduceat(X, self._first, axis=1)[:, self._feature])

    def project(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Replace each point of `X`, in place, by the nearest point of the hull; returns `X`."""
        np.minimum(np.maximum(X, self._lower, out=X), self._upper, out=X)
        if self._levels.size:
            levels = np.where(self._is_level, X[:, self._groups], NOWHERE)
            X[:, self._levels] = nearest_on_simplex(levels)[:, self._is_level]
        return X


def nearest_on_simplex(X: Float[np.ndarray, "n g k"]) -> Float[np.ndarray, "n g k"]:
    """For each vector (last axis), the nearest vector with entries >= 0 that sum to 1 (Held, Wolfe, Crowder 1974)."""
    falling = -np.sort(-X, axis=2)
    # Each level above the threshold adds to it, and each below would take from it, so it is the largest of these.
    threshold = ((falling.cumsum(axis=2) - 1.0) / np.arange(1, X.shape[2] + 1)).max(axis=2, keepdims=True)
    return np.maximum(X - threshold, 0.0)


def descend(
    gradient: Gradient, starts: Float[np.ndarray, "n d"], hull: Hull, *, steps: int, rate: float
) -> Float[np.ndarray, "s n d"]:
    """All iterates of projected Adam, a gradient descent, from each start; the first axis of the result is the step.

    The columns of a category share one step size. With a step size for each column, all columns would move equally far,
    and the projection could not prefer the better level.

    Parameters
    ----------
    gradient : a function from points to a subgradient of the objective at each point
    starts : encoded points, one per row
    hull : every iterate is projected to it
    steps : number of iterates
    rate : largest step of a coordinate, encoded units

    References
    ----------
    Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    """
    X = hull.project(starts.copy())
    mean, square = np.zeros_like(X), np.zeros_like(X)
    iterates = np.empty((steps, *X.shape))
    for step in range(steps):
        G = gradient(X)
        mean += 0.1 * (G - mean)
        square += 0.01 * (hull.shared(G * G) - square)
        size = rate * math.sqrt(1.0 - 0.99 ** (step + 1)) / (1.0 - 0.9 ** (step + 1))
        X = hull.project(X - size * mean / (np.sqrt(square) + 1e-12))
        iterates[step] = X
    return iterates
