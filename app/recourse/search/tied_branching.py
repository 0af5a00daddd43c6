"""Branch and bound over a trade-off whose features linear rules tie: the relaxation has a price for each rule.

What a record uses of a rule, times the price, is added to its cost (Lagrangian relaxation), so that the relaxation
remains a sum over features, which `app.recourse.search.simplicial` minimises. The minimum is concave in the prices; the
best ones, of all rules at once, follow from the optima at those that were tried (`RulePrices`). So does the
mixture of these optima that keeps every rule: the optimum of the relaxation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LinearRule
from app.recourse.search.branching import Branching, Effort
from app.recourse.search.responses import Node, Responses, legal
from app.recourse.search.simplicial import Mixture, Point, minimise, slopes, value
from app.recourse.search.tied_moves import linear_rules

PRICES = 30
"""Largest number of prices that are tried in one node."""
STEP = 1.5
"""Factor by which a price goes beyond all that were tried, and by which the first one is changed at most."""
BEYOND = 1.1
"""Value of what keeps no rule, relative to that of the best legal row."""
FAR = 100.0
"""The same, relative to the value without rules, where no legal row is known."""
LEAST_NODES = 200
"""Branches before a search stops with a larger gap than it is asked for; it takes more of them than one without rules.
"""
KEPT = 1e-12
"""Excess of a rule, in units of its terms, that is rounding."""
PIVOTS = 100
"""Largest number of exchanges for one column."""
ROUNDING = 1e-12
"""Relative: smaller improvements are not looked for."""
LEAST_PIVOT = 1e-9
"""Relative to the largest entry of its column."""


def is_tied_by_rules(action_set: ActionSet) -> bool:
    """Whether only linear rules tie features to each other, and the applicant's record keeps these rules."""
    A = action_set
    others = A.clock.is_shared or A.has_holes or (bool(A.begun) and A.max_changes is not None)
    rules = [rule for rule in A.rules if isinstance(rule, LinearRule)]
    kept = all(rule.holds(A.factual_raw[None])[0] for rule in rules)
    return not others and kept and len(rules) == len(A.rules) and bool(linear_rules(A)[1])


@dataclass(frozen=True, slots=True)
class _TiedPoint(Point):
    """A point whose cost includes the prices of rules."""

    unweighted: float
    """Its cost without them, in units of the cost weight."""
    excess: Float[np.ndarray, "k"]
    """By how much it exceeds each rule."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """A mixture of points, without prices."""

    points: list[Point]
    weights: list[float]
    at: Point
    excess: Float[np.ndarray, "k"]

    def mixture(self, reached: float, bound: float, at: tuple[float, float]) -> Mixture:
        """This mean as a `Mixture`.

        Parameters
        ----------
        reached : value of the mixture
        bound : lower bound on all values
        at : slopes of the two losses at the mixture
        """
        return Mixture(self.points, self.weights, reached, bound, at)


class TiedBranching(Branching):
    """The same search as `Branching`, for rows that keep linear rules."""

    def __init__(self, responses: Responses, weight: float, effort: Effort, deadline: float) -> None:
        effort = replace(effort, nodes=max(effort.nodes, LEAST_NODES))
        super().__init__(responses, weight, effort, deadline)
        self.uses, slack = linear_rules(self.actions)
        self.slack = np.array(slack)
        self.fact_raw = self.actions.factual_raw
        self._first_prices: Float[np.ndarray, k] | None = None
        """The best ones of the root, which other nodes try first."""

    def _relaxation(self, node: Node, at: tuple[float, float]) -> Mixture | None:
        share, program = self.responses.share, RulePrices(len(self.slack), PRICES)
        highest = prices = best = np.zeros(len(self.slack)) if self._first_prices is None else self._first_prices
        tried, used, bound = list[_Mean](), list[tuple[int, float]](), -math.inf
        for count in range(1, PRICES + 1):
            current = self._at(node, prices, at)
            if current.bound >= bound:
                bound, best = current.bound, prices
            found, highest = self._mean(current.points, current.weights), np.maximum(highest, prices)
            tried.append(found)
            program.add(value(share, found.at), found.excess)
            if bound >= self._cutoff():
                break
            used, prices = program.best(min(BEYOND * self.best_value, FAR * (1.0 + value(share, tried[0].at))))
            if used:
                points = [point for i, _ in used for point in tried[i].points]
                found = self._mean(points, [part * weight for i, part in used for weight in tried[i].weights])
            at, reached = slopes(share, found.at.r, found.at.p), value(share, found.at)
            if sum(part for _, part in used) > 1.0 - KEPT:
                if reached - bound <= 3.0 * self._tolerance(reached):
                    break
                if reached - bound <= self.effort.gap * reached:
                    self._note(self._rows(node, found.mixture(reached, bound, at))[0])
                    if bound >= self._cutoff():
                        break
                # On an edge between two points these prices are the best; elsewhere those of the tangents get closer.
                if count % 3:
                    prices = program.prices([one.at.cost - at[0] * one.at.r - at[1] * one.at.p for one in tried])
            prices = np.where(highest > 0.0, np.minimum(prices, STEP**count * highest), prices)
        if self._first_prices is None:
            self._first_prices = best
        return found.mixture(value(share, found.at), bound, at)

    def _children(self, node: Node, mixture: Mixture, j: int) -> list[Node]:
        children = (self._narrowed(child) for child in super()._children(node, mixture, j))
        return [child for child in children if child is not None]

    def _narrowed(self, node: Node) -> Node | None:
        """A node with the ranges that the rules leave; None where they leave nothing."""
        A, fact = self.actions, self.fact_raw
        low, high = node.low_raw - fact, node.high_raw - fact
        for uses, slack in zip(self.uses, self.slack.tolist(), strict=True):
            tied = np.flatnonzero(uses).tolist()
            ends = {j: (float(uses[j] * low[j]), float(uses[j] * high[j])) for j in tied}
            room = slack - sum(min(pair) for pair in ends.values())
            if room < -KEPT:
                return None
            for j, pair in ends.items():
                if not A.movable[j] or abs(pair[1] - pair[0]) <= room:
                    continue
                end = float(fact[j]) + (min(pair) + room) / float(uses[j])
                still = math.isfinite(node.cost[j, 0])
                # The applicant's own value need not be on the lattice.
                if uses[j] > 0.0:
                    node.high_raw[j] = max(legal(A, j, end, math.floor), fact[j] if fact[j] <= end else -math.inf)
                else:
                    node.low_raw[j] = min(legal(A, j, end, math.ceil), fact[j] if fact[j] >= end else math.inf)
                if 0.0 < node.low_raw[j] - node.high_raw[j] <= KEPT * (1.0 + abs(node.low_raw[j])):
                    node.high_raw[j] = node.low_raw[j]
                self.responses.write(node, j, still=still)
                if not np.isfinite(node.cost[j]).any():
                    return None
        return node

    def _tolerance(self, reached: float) -> float:
        return 0.1 * self.effort.gap * min(self.best_value, abs(reached))

    def _at(self, node: Node, prices: Float[np.ndarray, "k"], at: tuple[float, float]) -> Mixture:
        """The optimum of the relaxation of a node at these prices."""
        share, per_unit = self.responses.share, prices @ self.uses
        priced = self.weight * node.cost + per_unit[:, None] * (node.values_raw - self.fact_raw[:, None])

        def respond(a: float, b: float) -> Point:
            point = self.responses.respond(node, self.weight, a, b, priced)
            row_raw = node.values_raw.take(self.responses.rows + point.choice)
            excess = self.uses @ (row_raw - self.fact_raw) - self.slack
            reached = value(share, point)
            if reached < self.best_value and excess.max() <= KEPT:
                self.best_row, self.best_value = row_raw, reached
            cost = point.cost + float(prices @ excess)
            return _TiedPoint(point.r, point.p, cost, point.choice, point.cost / self.weight, excess)

        first = respond(*at)
        tolerance = self._tolerance(value(share, first))
        return minimise(first, respond, share, tolerance=tolerance, cutoff=self._cutoff())

    def _mean(self, points: Sequence[Point], parts: Sequence[float]) -> _Mean:
        """A mixture without prices; parts are relative to their sum."""
        r, p, cost, excess, total = 0.0, 0.0, 0.0, np.zeros(len(self.slack)), sum(parts)
        weights = [part / total for part in parts]
        for point, weight in zip(points, weights, strict=True):
            assert isinstance(point, _TiedPoint)
            r += weight * point.r
            p += weight * point.p
            cost += weight * point.unweighted
            excess += weight * point.excess
        return _Mean(list(points), weights, Point(r, p, self.weight * cost, points[0].choice), excess)


class RulePrices:
    """The best prices of several rules, computed from the optima at the prices that were tried.

    An optimum has a value, which includes no prices, and an excess over the limit of each rule. A mixture of optima has
    their mean value and their mean excesses. So a linear program with one row per rule finds the mixture of least value
    that keeps every rule. The duals of this program are the prices to try next: they maximise the least ``value +
    prices.excess`` of all optima (Dantzig-Wolfe decomposition). The simplex method solves the program from its last
    basis on, because the program has few rows and grows by one column at a time.

    Parameters
    ----------
    rules : number of rules
    most : largest number of optima that are added
    """

    def __init__(self, rules: int, most: int) -> None:
        # Besides the optima: what keeps every rule at the value `beyond`, and what is left of each rule.
        self._columns = np.eye(rules + 1, rules + 1 + most)
        self._costs = np.zeros(rules + 1 + most)
        self._basis = list(range(rules + 1))
        self._inverse = np.eye(rules + 1)
        self._size = rules + 1

    def add(self, value: float, excess: Float[np.ndarray, "k"]) -> None:
        """Add an optimum.

        Parameters
        ----------
        value : value of the optimum, without prices
        excess : by how much the optimum exceeds the limit of each rule; negative where it is below
        """
        self._columns[0, self._size], self._columns[1:, self._size] = 1.0, excess
        self._costs[self._size] = value
        self._size += 1

    def best(self, beyond: float) -> tuple[list[tuple[int, float]], Float[np.ndarray, "k"]]:
        """The mixture of least value that keeps every rule, and the prices to try next.

        Parameters
        ----------
        beyond : value of an imaginary optimum that keeps every rule; worse than any value of interest

        Returns
        -------
        shares : pairs of an optimum and its share of the mixture; the optimum is given by its place in the order of
            `add`. The shares sum to less than 1 if no mixture of the optima keeps every rule
        prices : one per rule, >= 0
        """
        columns, costs, rows = self._columns[:, : self._size], self._costs[: self._size], len(self._columns)
        costs[0] = beyond
        for _ in range(PIVOTS):
            reduced = costs - costs[self._basis] @ self._inverse @ columns
            entering = int(reduced.argmin())
            way = self._inverse @ columns[:, entering]
            may_leave = way > LEAST_PIVOT * np.abs(way).max()
            if reduced[entering] >= -ROUNDING * (1.0 + abs(beyond)) or not may_leave.any():
                break
            ratios = np.divide(self._inverse[:, 0], way, out=np.full(rows, math.inf), where=may_leave)
            leaving = int(ratios.argmin())
            pivot = self._inverse[leaving] / way[leaving]
            self._inverse -= np.outer(way, pivot)
            self._inverse[leaving] = pivot
            self._basis[leaving] = entering
        shares = zip(self._basis, self._inverse[:, 0].tolist(), strict=True)
        used = [(one - rows, share) for one, share in shares if one >= rows and share > 0.0]
        return used, self._duals(costs[self._basis])

    def prices(self, values: Sequence[float]) -> Float[np.ndarray, "k"]:
        """The prices at which all optima of the latest mixture would be equally good if they had the given values.

        Parameters
        ----------
        values : one per optimum, in the order of `add`
        """
        rows = len(self._columns)
        return self._duals(np.array([self._costs[k] if k < rows else values[k - rows] for k in self._basis]))

    def _duals(self, costs: Float[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
        return np.maximum(-(costs @ self._inverse)[1:], 0.0)
