"""Best responses: the value of each feature that minimises cost minus priced scores, for `simplicial`.

A feature's worst score is concave in its value, with kinks at its centre; its cost has one at the fact. So only the
ends of its range and of the gaps in it, the kinks, or the lattice points next to these, can be best responses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import lattice_point, tick_slack
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.simplicial import Point


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a branch and bound: the values that each feature may still have; arrays have one row per feature.

    Column 0 is the present value of the feature. A value that is not allowed, or a column that is not used, has an
    infinite cost.
    """

    values_raw: Float[np.ndarray, "p m"]
    r: Float[np.ndarray, "p m"]
    p: Float[np.ndarray, "p m"]
    cost: Float[np.ndarray, "p m"]
    """Unweighted."""
    low_raw: Float[np.ndarray, "p"]
    high_raw: Float[np.ndarray, "p"]
    moved: Bool[np.ndarray, "p"]
    """Features that count as changed for any value."""


class Responses:
    """For each feature, the values that can be optimal, and what each adds to worst score, predicted score and cost."""

    def __init__(self, action_set: ActionSet, objective: LossAndCost) -> None:
        self.action_set, self.objective = action_set, objective
        space = action_set.space
        self.space = space
        self._place = {j: k for k, j in enumerate(space.numeric.tolist())}
        """Of each number among all numbers."""
        x0 = action_set.x0[None]
        self.base_r = float(objective.worst_score(x0)[0])
        predicted = objective.predicted or objective.model
        self.base_p = float(predicted.score(x0)[0])
        self.w, self.w_predicted = objective.model.w, predicted.w
        self.share = 1.0 if objective.predicted is None else objective.share
        cap = action_set.max_changes
        self.cap = cap if cap is not None and cap < int(action_set.movable.sum()) else None

    def weighted(self, rows_raw: Float[np.ndarray, "n p"], weight: float) -> Float[np.ndarray, "n"]:
        """The objective of raw rows, with `weight` in place of the objective's own cost weight."""
        X, cost = self.space.encode(rows_raw), self.action_set.cost(rows_raw)
        return replace(self.objective, cost_weight=weight, share=self.share).value(X, cost)

    def worth(self, weight: float) -> float:
        """The objective at the start, as a cost; no action that costs more is optimal if the start is legal."""
        return float(self.weighted(self.action_set.factual_raw[None], weight)[0]) / weight

    @cached_property
    def rows(self) -> Int[np.ndarray, "p"]:
        """For each feature, the index of its first value in the flattened array of a node."""
        return np.arange(self.space.p) * self._width

    @cached_property
    def _width(self) -> int:
        levels = max((len(self.space.features[g].levels) for g in self.space.groups), default=0)
        return max(levels + 1, 11)

    def root(self, weight: float) -> Node:
        """The node with all values that the action set allows."""
        A = self.action_set
        if np.isfinite(A.lower_raw[A.movable]).all() and np.isfinite(A.upper_raw[A.movable]).all():
            return self._bounded
        return self._root(weight)

    @cached_property
    def _bounded(self) -> Node:
        """The root where every range ends, whatever the weight."""
        return self._root(1.0)

    def _root(self, weight: float) -> Node:
        A, p = self.action_set, self.space.p
        low, high = A.lower_raw.copy(), A.upper_raw.copy()
        worth = self.worth(weight)
        for j, k in self._place.items():
            if not A.movable[j]:
                continue
            reach = worth * self.space.scale_raw[k] / A.weights[j]
            step = A.step_raw[j]
            reach = math.ceil(reach / step) * step if step > 0.0 else reach
            if math.isinf(low[j]):
                low[j] = min(legal(A, j, A.factual_raw[j] - reach, math.floor), A.below_raw[j])
            if math.isinf(high[j]):
                high[j] = max(legal(A, j, A.factual_raw[j] + reach, math.ceil), A.above_raw[j])
        blank = np.zeros((p, self._width))
        node = Node(blank, blank.copy(), blank.copy(), np.full_like(blank, np.inf), low, high, np.zeros(p, dtype=bool))
        for j in self._place:
            self.write(node, j, still=True)
        for g in self.space.groups.tolist():
            self.write_group(node, g, list(A.levels(g)))
        return node

    def write(self, node: Node, j: int, *, still: bool, move: bool = True) -> None:
        """Write into `node` the values number `j` may have: the present one if `still`, the others if `move`."""
        A, k, low, high = self.action_set, self._place[j], float(node.low_raw[j]), float(node.high_raw[j])
        fact, center = float(A.factual_raw[j]), float(self.space.center_raw[k])
        still = still and low <= fact <= high
        ends: set[float] = set()
        if move and A.movable[j]:
            below, above = float(A.below_raw[j]), float(A.above_raw[j])
            kinks = [center] if still and A.step_raw[j] == 0.0 else [center, fact]
            ends = {low, high, below, above} | {
                legal(A, j, kink, way) for kink in kinks if low <= kink <= high for way in (math.floor, math.ceil)
            }
            ends = {end for end in ends if low <= end <= high and (end <= below or end >= above)}
            ends = {end for end in ends if not (still and end == fact)}
        values = np.array([fact, *sorted(ends)])
        self._set(node, j, values, still=still)
        scale = self.space.scale_raw[k]
        encoded, base = (values - center) / scale, (fact - center) / scale
        column = self.space.numeric_columns[k]
        m = len(values)
        node.r[j, :m] = self.w[column] * (encoded - base) - self.objective.radius * (np.abs(encoded) - abs(base))
        node.p[j, :m] = self.w_predicted[column] * (encoded - base)
        node.cost[j, :m] += A.weights[j] * np.abs(values - fact) / scale

    def write_group(self, node: Node, g: int, levels: list[int]) -> None:
        """Write into `node` the `levels` that category `g` may have."""
        fact = int(self.action_set.factual_raw[g])
        others = [level for level in levels if level != fact]
        values = np.array([fact, *others])
        self._set(node, g, values.astype(float), still=fact in levels)
        span, m = self.space.spans[g], len(values)
        node.r[g, :m] = self.w[span][values] - self.w[span][fact]
        node.p[g, :m] = self.w_predicted[span][values] - self.w_predicted[span][fact]
        node.cost[g, :m] += self.action_set.weights[g] * (values != fact)

    @staticmethod
    def _set(node: Node, j: int, values: Float[np.ndarray, "m"], *, still: bool) -> None:
        m = len(values)
        node.values_raw[j], node.r[j], node.p[j], node.cost[j] = values[0], 0.0, 0.0, np.inf
        node.values_raw[j, :m] = values
        node.cost[j, 1:m] = 0.0
        node.cost[j, 0] = 0.0 if still else np.inf

    def respond(self, node: Node, weight: float, a: float, b: float) -> Point:
        """The point that minimises ``weight cost - a r - b p``, with worst score ``r`` and predicted score ``p``.

        The point has one value per feature.
        """
        reduced = weight * node.cost - a * node.r
        if b != 0.0:
            reduced -= b * node.p
        if self.cap is None:
            choice = reduced.argmin(axis=1)
        else:
            every = np.arange(len(reduced))
            moved = reduced[:, 1:].argmin(axis=1) + 1
            gain = reduced[:, 0] - reduced[every, moved]
            most = np.argsort(-gain, kind="stable")[: self.cap]
            choice = np.zeros(len(reduced), dtype=np.intp)
            chosen = most[gain[most] > 0.0]
            choice[chosen] = moved[chosen]
        at = self.rows + choice
        r, p, cost = (float(np.add.reduce(terms.take(at))) for terms in (node.r, node.p, node.cost))
        return Point(self.base_r + r, self.base_p + p, weight * cost, choice)


def legal(A: ActionSet, j: int, value_raw: float, rounding: Callable[[float], int]) -> float:
    """The value itself or, if number `j` has a lattice, the lattice point next to the value.

    Parameters
    ----------
    rounding : `math.floor` or `math.ceil`, for the lattice point below or above the value
    """
    step = float(A.step_raw[j])
    if step == 0.0:
        return value_raw
    ticks = (value_raw - A.anchor_raw[j]) / step
    near = round(ticks)
    ticks = float(near if abs(ticks - near) <= tick_slack(ticks) else rounding(ticks))
    return lattice_point(ticks, float(A.anchor_raw[j]), step)
