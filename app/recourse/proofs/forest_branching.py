"""Whether an ensemble of trees can reach a margin over an action set: branch and bound over the cells of its splits.

Between two splits of a feature the ensemble gives the same, so one legal value stands for all of them. A box is a range
of these values for each feature. Its bound adds the best leaf of each tree that the box meets (Chen et al., "Robustness
verification of tree-based models", 2019); it is divided until the bound is too low or a single record is left.
"""

import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.models.forest import Forest
from app.recourse.search.legal_rows import every_value, with_values

MOST_WORK, PER_HALF = 3e8, 8e3
"""Leaves that are looked at, roughly, before a search is open: about a second; and what a half of a box costs beside
them. No time, so that the same question has the same answer."""

MOST_LISTED = 512
"""Values of a lattice that are all tried; of more, those beside the splits."""

MOST_CELLS = 50_000_000
"""Leaves times values that are kept, in two bytes each."""


@dataclass(frozen=True, slots=True)
class _Box:
    """Of each feature the first and the last of its values."""

    first: Int[np.ndarray, "f"]
    last: Int[np.ndarray, "f"]


@dataclass(frozen=True, slots=True)
class _Lever:
    """A feature that may change: the values that stand for all others, ascending, and which leaves have them."""

    feature: int
    values: Float[np.ndarray, "v"]
    own: int
    """Index of the person's own value."""
    counts: Int[np.ndarray, "v+1 m"]
    """How many of the first values are in each leaf."""

    def meets(self, first: int, last: int) -> Bool[np.ndarray, "m"]:
        """Which leaves have one of the values from `first` to `last`."""
        return self.counts[last + 1] > self.counts[first]


class ForestBranching:
    """Searches one action set for a legal record with a high margin, the sum of the forest's leaf values.

    Parameters
    ----------
    rows : maps raw rows to the input of the black box
    actions : the action set; time alone changes none of its features, and no number leaves a state such as missing
    sign : 1 to search for high margins, -1 to search for low ones because the score falls as the margin grows

    Raises `SolverFailed` where there are too many leaves and values.
    """

    def __init__(
        self, forest: Forest, rows: Callable[[np.ndarray], np.ndarray], actions: ActionSet, sign: float = 1.0
    ) -> None:
        self.actions = actions
        self._forest = forest
        listed = {j: every_value(actions, j, MOST_LISTED) for j in np.flatnonzero(actions.movable).tolist()}
        # Two calls for all features together: each may pass a pipeline.
        fact = actions.factual_raw
        numbers = [j for j, values in listed.items() if values is None]
        further = [with_values(actions, j, fact[[j]] + self._unit(j)) for j in numbers]
        own, *moved = forest.matrix(rows(np.vstack([fact[None], *further])))
        beside = {j: self._beside(j, own, other) for j, other in zip(numbers, moved, strict=True)}
        tried = {j: beside[j] if values is None else values for j, values in listed.items()}
        stacked = forest.matrix(rows(np.vstack([fact[None], *(with_values(actions, *one) for one in tried.items())])))[
            1:
        ]
        parts = np.split(stacked, np.cumsum([len(values) for values in tried.values()]))
        columns = dict(zip(tried, parts, strict=False))
        varying = {j: np.flatnonzero(~_alike(X, own).all(axis=0)) for j, X in columns.items()}
        fixed = np.setdiff1d(np.arange(len(own)), np.concatenate([np.zeros(0, dtype=int), *varying.values()]))
        met = np.ones(len(forest.values), dtype=bool)
        for column in fixed.tolist():
            met &= forest.leaves.hold(column, own[[column]])[:, 0]
        leaves = forest.leaves[met]
        self._values = sign * forest.values[met]
        self._first = np.flatnonzero(np.diff(leaves.tree, prepend=-1))
        if len(self._values) * sum(map(len, tried.values())) > MOST_CELLS:
            raise SolverFailed("The trees have too many leaves and values.")
        self._levers = []
        for j, among in varying.items():
            held = np.ones((len(self._values), len(tried[j])), dtype=bool)
            for column in among.tolist():
                held &= leaves.hold(column, columns[j][:, column])
            self._levers.append(self._lever(j, tried[j], held))
        self._most = math.inf if actions.max_changes is None else actions.max_changes
        self._none = np.zeros(len(self._values), dtype=np.int16)
        self._own = np.array([lever.own for lever in self._levers], dtype=int)
        self._work = 2 * len(self._levers) * (PER_HALF + len(self._values))
        """For one box."""

    def accepted(self, least: float, *, deadline: float = math.inf) -> Float[np.ndarray, "p"] | None:
        """A legal record whose margin times `sign` is at least `least`; None if there is no such record.

        Raises
        ------
        DeadlineExceeded : the search is not finished at `deadline`, a `time.monotonic()`
        SolverFailed : the search is not finished after `MOST_WORK`, or it found only records that break a rule
        """
        last = np.array([len(lever.values) - 1 for lever in self._levers], dtype=int)
        whole = _Box(np.zeros(len(last), dtype=int), last)
        outside = self._outside(whole)
        order, open_ = itertools.count(), [(-self._bound(whole, sum(outside, self._none)), 0, whole)]
        illegal = False
        while open_:
            below, number, box = heapq.heappop(open_)
            if -below < least:
                break
            if time.monotonic() > deadline:
                raise DeadlineExceeded("The trees were not searched within the time limit.")
            if number * self._work > MOST_WORK:
                raise SolverFailed("The trees have too many combinations of leaves.")
            if (box.first == box.last).all():
                row_raw = self.actions.factual_raw.copy()
                for lever, k in zip(self._levers, box.first.tolist(), strict=True):
                    row_raw[lever.feature] = lever.values[k]
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

    def _beside(self, j: int, own: Float[np.ndarray, "d"], moved: Float[np.ndarray, "d"]) -> Float[np.ndarray, "v"]:
        """Legal values of a number, at least one between any two splits that have one between them.

        Columns of the trees are affine in it; `own` and `moved` are those of the person, and with a number larger by
        `_unit`.
        """
        A, leaves = self.actions, self._forest.leaves
        fact, step = float(A.factual_raw[j]), float(A.step_raw[j])
        found, splits = [np.array([fact])], [np.zeros(0)]
        for column in np.flatnonzero(~_alike(moved, own)).tolist():
            sides = np.concatenate([side[:, column] for side in (leaves.lower, leaves.upper)])
            edges = np.unique(sides[np.isfinite(sides)])
            splits.append(fact + (edges - own[column]) / (moved[column] - own[column]) * self._unit(j))
        edges = np.concatenate(splits)
        near = np.array([-1.0, 0.0, 1.0, 2.0]) * step if step else np.array([-1e-9, 0.0, 1e-9]) * self._unit(j)
        for low, high in ((A.lower_raw[j], A.below_raw[j]), (A.above_raw[j], A.upper_raw[j])):
            if low <= high:
                ends = [end for end in (low, high) if math.isfinite(end)]
                anchor = (ends or [fact])[0]
                base = anchor + np.floor((edges - anchor) / step) * step if step else edges
                found.append(np.clip(np.append((base[:, None] + near).ravel(), ends), low, high))
        return np.unique(np.append(A.round(with_values(A, j, np.concatenate(found)))[:, j], fact))

    def _unit(self, j: int) -> float:
        """A spread of a feature."""
        return float(self.actions.space.spread_raw[j]) or 1.0

    def _lever(self, j: int, values: Float[np.ndarray, "v"], held: Bool[np.ndarray, "m v"]) -> _Lever:
        """A feature with one value, that nearest to the person's own, of those that are in the same leaves."""
        fact = float(self.actions.factual_raw[j])
        nearest = np.argsort(np.abs(values - fact), kind="stable")
        cells = np.ascontiguousarray(np.packbits(held, axis=0).T[nearest])
        _, first = np.unique(cells, axis=0, return_index=True)
        kept = np.sort(nearest[first])
        counts = np.zeros((len(kept) + 1, len(held)), dtype=np.int16)
        np.cumsum(held[:, kept].T, axis=0, out=counts[1:])
        return _Lever(j, values[kept], int(np.flatnonzero(values[kept] == fact)[0]), counts)

    def _outside(self, box: _Box) -> list[Bool[np.ndarray, "m"]]:
        """For each feature, which leaves have none of its values in a box."""
        pairs = zip(self._levers, box.first.tolist(), box.last.tolist(), strict=True)
        return [~lever.meets(first, last) for lever, first, last in pairs]

    def _bound(self, box: _Box, missed: Int[np.ndarray, "m"]) -> float:
        """Upper bound on the margin in a box, given how many features each leaf misses there."""
        if int(((self._own < box.first) | (self._own > box.last)).sum()) > self._most:
            return -math.inf
        return float(np.maximum.reduceat(np.where(missed == 0, self._values, -np.inf), self._first).sum())

    def _halves(self, box: _Box) -> list[tuple[float, _Box]]:
        """The box divided where the larger of both bounds is least; each half with its bound."""
        least, best = math.inf, list[tuple[float, _Box]]()
        outside = self._outside(box)
        missed = sum(outside, self._none)
        for j in np.flatnonzero(box.last > box.first).tolist():
            middle = (box.first[j] + box.last[j]) // 2
            left, right = box.last.copy(), box.first.copy()
            left[j], right[j] = middle, middle + 1
            halves = []
            for half in (_Box(box.first, left), _Box(right, box.last)):
                without = ~self._levers[j].meets(int(half.first[j]), int(half.last[j]))
                halves.append((self._bound(half, missed - outside[j] + without), half))
            lower, higher = sorted(bound for bound, _ in halves)
            worth = higher + 1e-3 * max(lower, -1e6)
            if not best or worth < least:
                least, best = worth, halves
        return best


def _alike(X: Float[np.ndarray, "v d"], x: Float[np.ndarray, "d"]) -> Bool[np.ndarray, "v d"]:
    """Where rows have the number of one row, or both have none."""
    return (x == X) | (np.isnan(X) & np.isnan(x))
