"""Whether an ensemble of trees can reach a margin over an action set: branch and bound over the cells of its splits.

Between two splits of a feature the ensemble gives the same, so one legal value stands for all of them. A box is a range
of these values for each feature. Its bound adds the best leaf of each tree that the box meets (Chen et al., "Robustness
verification of tree-based models", 2019); it is divided until the bound is too low or a single record is left.
"""

import heapq
import itertools
import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.models.forest import Forest

MOST_BOXES = 20_000
"""Boxes that are divided; then it is open."""


@dataclass(frozen=True, slots=True)
class _Box:
    """Of each feature the first and the last of its values."""

    first: Int[np.ndarray, "p"]
    last: Int[np.ndarray, "p"]


class ForestBranching:
    """Searches one action set for a legal record with a high margin, the sum of the forest's leaf values.

    Parameters
    ----------
    actions : the action set; time alone changes none of its features, and no number leaves a state such as missing
    sign : 1 to search for high margins, -1 to search for low ones because the score falls as the margin grows
    """

    def __init__(self, forest: Forest, actions: ActionSet, sign: float = 1.0) -> None:
        self.forest = forest if sign > 0.0 else Forest(forest.lower, forest.upper, -forest.values, forest.first)
        self.actions, space = actions, actions.space
        self.values = [self._values(j) for j in range(space.p)]
        """Legal values that stand for all others, ascending; of a group its levels."""
        self.own = np.array([int(np.flatnonzero(v == actions.factual_raw[j])[0]) for j, v in enumerate(self.values)])
        own = space.encode(actions.factual_raw[None])[0]
        self._lower, self._upper = own.copy(), own.copy()
        for j in space.groups.tolist():
            self._lower[space.spans[j]] = self._upper[space.spans[j]] = 0.0
        self._numbers = [(j, space.spans[j].start) for j in space.numeric.tolist() if len(self.values[j]) > 1]
        self._encoded = {j: self._encode(j, self.values[j]) for j, _ in self._numbers}
        self.most = math.inf if actions.max_changes is None else actions.max_changes
        self._columns = np.arange(space.d)
        lower, upper = self._sides(self._whole)
        self._columns = np.flatnonzero(lower < upper)
        self.forest = self.forest.within(lower, upper, self._columns)

    def accepted(self, least: float, *, deadline: float = math.inf) -> Float[np.ndarray, "p"] | None:
        """A legal record whose margin times `sign` is at least `least`; None if there is no such record.

        Raises
        ------
        DeadlineExceeded : the search is not finished at `deadline`, a `time.monotonic()`
        SolverFailed : the search is not finished after `MOST_BOXES` boxes, or it found only records that break a rule
        """
        order, open_ = itertools.count(), [(-self._bound(self._whole), 0, self._whole)]
        illegal = False
        while open_:
            below, number, box = heapq.heappop(open_)
            if -below < least:
                break
            if time.monotonic() > deadline:
                raise DeadlineExceeded("The trees were not searched within the time limit.")
            if number > MOST_BOXES:
                raise SolverFailed("The trees have too many combinations of leaves.")
            if (box.first == box.last).all():
                row_raw = np.array([v[k] for v, k in zip(self.values, box.first, strict=True)])
                if self.actions.contains(row_raw[None])[0]:
                    return row_raw
                illegal = True
                continue
            for bound, half in self._halves(box):
                if bound >= least:
                    heapq.heappush(open_, (-bound, next(order) + 1, half))
        if illegal:
            raise SolverFailed("A record that the trees accept breaks a rule.")
        return None

    def _values(self, j: int) -> Float[np.ndarray, "v"]:
        A, space, fact = self.actions, self.actions.space, float(self.actions.factual_raw[j])
        if not A.movable[j]:
            return np.array([fact])
        if space.features[j].is_group or j in A.restricted:
            return np.unique([*map(float, A.levels(j)), fact])
        k = space.numeric.tolist().index(j)
        scale, center = float(space.scale_raw[k]), float(space.center_raw[k])
        edges = self.forest.edges[space.spans[j].start]
        splits, step = center + scale * edges, float(A.step_raw[j])
        near = np.array([-1.0, 0.0, 1.0, 2.0]) * step if step else np.array([-1e-9, 0.0, 1e-9]) * scale
        found = [np.array([fact])]
        for low, high in (
            (float(A.lower_raw[j]), float(A.below_raw[j])),
            (float(A.above_raw[j]), float(A.upper_raw[j])),
        ):
            if not low <= high:
                continue
            anchor = low if math.isfinite(low) else high
            base = anchor + np.floor((splits - anchor) / step) * step if step else splits
            tried = np.append((base[:, None] + near).ravel(), [end for end in (low, high) if math.isfinite(end)])
            found.append(np.clip(tried, low, high))
        rows = np.tile(A.factual_raw, (sum(map(len, found)), 1))
        rows[:, j] = np.concatenate(found)
        values = A.round(rows)[:, j]
        # Of each cell the value nearest to the factual.
        cells = np.searchsorted(edges, self._encode(j, values), side="left")
        nearest = np.lexsort((np.abs(values - fact), cells))
        first = np.unique(cells[nearest], return_index=True)[1]
        return np.unique(np.append(values[nearest[first]], fact))

    def _encode(self, j: int, values: Float[np.ndarray, "v"]) -> Float[np.ndarray, "v"]:
        """The encoded column of a number."""
        rows, space = np.tile(self.actions.factual_raw, (len(values), 1)), self.actions.space
        rows[:, j] = values
        return space.encode(rows)[:, space.spans[j].start]

    @property
    def _whole(self) -> _Box:
        return _Box(np.zeros(len(self.values), dtype=int), np.array([len(v) - 1 for v in self.values]))

    def _bound(self, box: _Box) -> float:
        changes = int(((self.own < box.first) | (self.own > box.last)).sum())
        if changes > self.most:
            return -math.inf
        return self.forest.most(*self._sides(box))

    def _sides(self, box: _Box) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c"]]:
        """The smallest and largest value of each column that varies."""
        space = self.actions.space
        lower, upper = self._lower.copy(), self._upper.copy()
        for j, place in self._numbers:
            lower[place], upper[place] = self._encoded[j][box.first[j]], self._encoded[j][box.last[j]]
        for j in space.groups.tolist():
            levels = self.values[j][box.first[j] : box.last[j] + 1].astype(int) + space.spans[j].start
            upper[levels] = 1.0
            lower[levels] = float(len(levels) == 1)
        return lower[self._columns], upper[self._columns]

    def _halves(self, box: _Box) -> list[tuple[float, _Box]]:
        """The box divided where the larger of both bounds is least; each half with its bound."""
        least, best = math.inf, list[tuple[float, _Box]]()
        for j in np.flatnonzero(box.last > box.first).tolist():
            middle = (box.first[j] + box.last[j]) // 2
            left, right = box.last.copy(), box.first.copy()
            left[j], right[j] = middle, middle + 1
            halves = [(self._bound(half), half) for half in (_Box(box.first, left), _Box(right, box.last))]
            lower, higher = sorted(bound for bound, _ in halves)
            worth = higher + 1e-3 * max(lower, -1e6)
            if not best or worth < least:
                least, best = worth, halves
        return best
