"""Branch and bound over a trade-off whose features linear rules tie: the relaxation has a price for each rule.

What a record uses of a rule, times the price, is added to its cost (Lagrangian relaxation), so that the relaxation
remains a sum over features, which `app.recourse.search.simplicial` minimises. The minimum is concave in the price; the
best price is looked for along its tangents. Of the optima on either side of it, one exceeds the rule and one does not:
the mixture that just keeps the rule is the optimum of the relaxation.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LinearRule
from app.recourse.search.branching import Branching, Effort, Optimum
from app.recourse.search.responses import Node, Responses, legal
from app.recourse.search.simplicial import Mixture, Point, minimise, value
from app.recourse.search.tied_moves import linear_rules

TANGENTS = 12
"""Largest number of prices of one rule that are tried in one node."""
LEAST_NODES = 200
"""Branches before a search stops with a larger gap than it is asked for; it takes more of them than one without rules.
"""
KEPT = 1e-12
"""Excess of a rule, in units of its terms, that is rounding."""
NUDGE = 1e-6
"""Relative: by how much a price is beyond the one at which a feature turns."""


def is_tied_by_rules(action_set: ActionSet) -> bool:
    """Whether linear rules tie features, which the applicant's own record keeps, and nothing else does."""
    A = action_set
    others = A.clock.is_shared or A.has_holes or (bool(A.begun) and A.max_changes is not None)
    rules = [rule for rule in A.rules if isinstance(rule, LinearRule)]
    kept = all(rule.holds(A.factual_raw[None])[0] for rule in rules)
    return not others and kept and len(rules) == len(A.rules) and bool(linear_rules(A)[1])


class TiedTradeOff:
    """Minimises trade-offs under linear rules, for any number of cost weights."""

    def __init__(self, responses: Responses) -> None:
        self.responses = responses
        self.uses, slack = linear_rules(responses.action_set)
        self.slack = np.array(slack)
        self._prices = np.zeros(len(slack))
        self._slopes: tuple[float, float] | None = None
        """Of the rules and the losses, per unit of cost weight: the last ones that were found."""

    def best(self, weight: float, effort: Effort, deadline: float | None) -> Optimum | None:
        """The best row that is known; None where the search was not completed for reasons other than its effort."""
        effort = replace(effort, nodes=max(effort.nodes, LEAST_NODES))
        search = _TiedBranching(self, weight, effort, deadline, weight * self._prices)
        if self._slopes is not None:
            share, (a, b) = self.responses.share, self._slopes
            search.slopes = min(weight * a, share), min(weight * b, 1.0 - share)
        found = search.result()
        if search.root_prices is not None:
            self._prices = search.root_prices / weight
            self._slopes = search.slopes[0] / weight, search.slopes[1] / weight
        if found is None or search.lost:
            return None
        return replace(found, value=float(self.responses.weighted(found.row_raw[None], weight)[0]))


@dataclass(frozen=True, slots=True)
class _Priced:
    """The optimum of the relaxation at one price of a rule."""

    price: float
    mixture: Mixture
    excess: Float[np.ndarray, "k"]
    """By how much it exceeds each rule: the slope of the minimum in the price."""


class _TiedBranching(Branching):
    def __init__(
        self, trade_off: TiedTradeOff, weight: float, effort: Effort, deadline: float | None,
        prices: Float[np.ndarray, "k"],
    ) -> None:  # fmt: skip
        super().__init__(trade_off.responses, weight, effort, deadline)
        self.uses, self.slack, self.prices = trade_off.uses, trade_off.slack, prices
        self.root_prices: Float[np.ndarray, k] | None = None
        self.fact_raw = self.actions.factual_raw

    def _relaxation(self, node: Node, slopes: tuple[float, float]) -> Mixture | None:
        prices = self.prices.copy()
        found = self._at(node, prices, 0, slopes)
        bound, mixture = found.mixture.bound, found.mixture
        for r in range(len(prices)):
            if found.excess[r] <= KEPT and prices[r] == 0.0:
                continue
            over: _Priced | None = None
            under: _Priced | None = None
            current = first = replace(found, price=float(prices[r]))
            for _ in range(TANGENTS):
                if current.mixture.bound >= bound:
                    bound, found = current.mixture.bound, current
                if bound >= self._cutoff():
                    break
                mixture = current.mixture
                if abs(current.excess[r]) <= KEPT or (current.excess[r] < 0.0 and current.price == 0.0):
                    break
                if current.excess[r] > 0.0:
                    over = current
                else:
                    under = current
                if under is None:
                    price = 1.3 * current.price if current is first and current.price else self._turn(r, current)
                elif over is None:
                    price = 0.7 * current.price if current is first else 0.0
                else:
                    mixture = _mixed(over, under, r)
                    rise, fall = over.excess[r], under.excess[r]
                    gap = under.mixture.value - over.mixture.value + rise * over.price - fall * under.price
                    price = float(gap / (rise - fall))
                    meet = over.mixture.value + rise * (price - over.price)
                    if meet <= bound + 3.0 * self._tolerance(meet) or not over.price < price < under.price:
                        break
                    if meet <= bound + self.effort.gap * abs(meet):
                        self._note(self._rows(node, mixture)[0])
                        if bound >= self._cutoff():
                            break
                prices[r] = price
                current = self._at(node, prices, r, mixture.slopes)
            prices[r] = found.price
        if self.root_prices is None:
            self.root_prices = self.prices = prices
            self.slopes = mixture.slopes
        return replace(mixture, bound=bound)

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
                k, still = int(np.flatnonzero(self.responses.space.numeric == j)[0]), math.isfinite(node.cost[j, 0])
                # The applicant's own value need not be on the lattice.
                if uses[j] > 0.0:
                    node.high_raw[j] = max(legal(A, j, end, math.floor), fact[j] if fact[j] <= end else -math.inf)
                else:
                    node.low_raw[j] = min(legal(A, j, end, math.ceil), fact[j] if fact[j] >= end else math.inf)
                if 0.0 < node.low_raw[j] - node.high_raw[j] <= KEPT * (1.0 + abs(node.low_raw[j])):
                    node.high_raw[j] = node.low_raw[j]
                self.responses.write(node, k, j, still=still)
                if not np.isfinite(node.cost[j]).any():
                    return None
        return node

    def _tolerance(self, reached: float) -> float:
        return 0.1 * self.effort.gap * min(self.best_value, abs(reached))

    def _at(self, node: Node, prices: Float[np.ndarray, "k"], r: int, slopes: tuple[float, float]) -> _Priced:
        """The optimum of the relaxation of a node at these prices."""
        share, per_unit = self.responses.share, prices @ self.uses
        excesses: dict[int, Float[np.ndarray, k]] = {}

        def respond(a: float, b: float) -> Point:
            point = self.responses.respond(node, self.weight, a, b, per_unit)
            row_raw = node.values_raw.take(self.responses.rows + point.choice)
            excess = self.uses @ (row_raw - self.fact_raw) - self.slack
            reached = value(share, point)
            if reached < self.best_value and excess.max() <= KEPT:
                self.best_row, self.best_value = row_raw, reached
            excesses[id(point.choice)] = excess
            return Point(point.r, point.p, point.cost + float(prices @ excess), point.choice)

        first = respond(*slopes)
        tolerance = self._tolerance(value(share, first))
        mixture = minimise(first, respond, share, tolerance=tolerance, cutoff=self._cutoff())
        own = zip(mixture.weights, mixture.points, strict=True)
        excess = sum((weight * excesses[id(point.choice)] for weight, point in own), np.zeros(len(prices)))
        return _Priced(float(prices[r]), mixture, excess)

    def _turn(self, r: int, current: _Priced) -> float:
        """The next higher price of a rule at which a feature uses less of it, at the slopes of the present optimum."""
        space, (a, b), turns = self.responses.space, current.mixture.slopes, list[float]()
        for k, j in enumerate(space.numeric.tolist()):
            use = float(self.uses[r, j])
            if use and self.actions.movable[j]:
                column, scale = space.numeric_columns[k], float(space.scale_raw[k])
                worth = a * self.responses.w[column] + b * self.responses.w_predicted[column]
                radius, cost = a * self.responses.objective.radius, self.weight * self.actions.weights[j]
                turns += [
                    float(worth + one * radius + other * cost) / scale / use
                    for one in (-1.0, 1.0) for other in (-1.0, 1.0)
                ]  # fmt: skip
        beyond = [turn for turn in turns if turn > current.price * (1.0 + NUDGE)]
        return max(min(beyond, default=1.0) * (1.0 + 2.0 * NUDGE), 2.0 * current.price)


def _mixed(over: _Priced, under: _Priced, r: int) -> Mixture:
    """The mixture of two optima that just keeps a rule."""
    share = float(under.excess[r] / (under.excess[r] - over.excess[r]))
    weights = [share * w for w in over.mixture.weights] + [(1.0 - share) * w for w in under.mixture.weights]
    nearer = over.mixture if share > 0.5 else under.mixture
    return replace(nearer, points=[*over.mixture.points, *under.mixture.points], weights=weights)
