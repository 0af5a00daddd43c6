"""Covering knapsack whose items are tied by linear rules, a cap, or time that they share.

``min sum_i cost_i |x_i|  subject to  sum_i gain_i x_i >= need  and  sum_i uses_ri x_i <= slack_r`` for each rule ``r``,
where each ``x_i`` is 0 or one of the item's moves, in both directions where a rule may need that.

Depth-first branch and bound in the order of `app.recourse.search.knapsack_amounts`: single moves, lattices from the
coarsest to the finest, continuous items last. In the bound each rule has a price (Lagrangian relaxation): what the
items use of it is added to their costs, and what remains is the fractional knapsack. A branch begins with the prices of
the one before. Where the bound at these does not end it, the best prices are looked for, along the tangents of the
bound, which is concave and piecewise linear in each price. A rule of which one item is open is a limit of that item and
has no price.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.recourse.search.knapsack_amounts import SLACK, BestSoFar, EffortLeft
from app.recourse.search.tied_items import TiedItem, TiedItems

THOROUGH = 2_000
"""Branches after which a search for the cheapest moves gives up."""
TANGENTS = 20
"""Largest number of tangents that a price is looked for with."""
TURNS, FAR = 5, 1e6
"""After so many prices at which a rule is exceeded, one so many times as high shows whether it can be kept."""
NUDGE = 1e-6
"""Relative: by how much a price is beyond the one at which an item turns."""
FEASIBLE = 1e-11
"""Rules and budgets are kept up to this much."""


@dataclass(frozen=True, slots=True)
class _Relaxed:
    """The least cost of what is open at given prices, a lower bound."""

    bound: float
    value: float
    """Cost of the last unit of gain."""
    amounts: list[float]
    """Of the open items that rules tie or that are decided last, in order."""
    rest: float
    """Gain that the other items are left to make."""
    excess: list[float]
    """By how much the amounts exceed each rule: the slope of the bound in its price."""


_NOTHING = _Relaxed(math.inf, math.inf, [], 0.0, [])


@dataclass(frozen=True, slots=True)
class _Node:
    """What is decided before a level."""

    level: int
    rest: float
    """Gain that is still needed."""
    cost: float
    slack: tuple[float, ...]
    """Of each rule."""
    left: tuple[float, ...]
    """Of each budget."""


class TiedKnapsack(TiedItems):
    """A knapsack whose items are tied by rules, a cap or shared time; one object serves for any number of needs."""

    def cover(
        self, need: float, branches: int = THOROUGH, *, deadline: float = math.inf
    ) -> tuple[list[float] | None, bool]:
        """The cheapest moves that keep all rules and gain at least `need`.

        Rules may force moves even where `need` is zero or less.

        Parameters
        ----------
        branches : largest number of branches; the search then stops
        deadline : `time.monotonic()` at which the search stops

        Returns
        -------
        moves : the best known moves, one amount per item; None if none are known
        proven : whether the search ended before its limits, so that no better moves exist
        """
        effort = EffortLeft(branches, deadline)
        search = _Tied(self, need - SLACK * abs(need), effort)
        search.run()
        return search.best, not effort.spent


class _Tied(BestSoFar):
    """The search for one need."""

    def __init__(self, knapsack: TiedKnapsack, need: float, effort: EffortLeft) -> None:
        super().__init__(effort)
        self.knapsack, self.need = knapsack, need
        self.items = knapsack.items
        self.low, self.high = [item.low for item in self.items], [item.high for item in self.items]
        self.amounts = [0.0] * len(self.items)

    def run(self) -> None:
        root = _Node(0, self.need, 0.0, self.knapsack.slack, self.knapsack.budgets)
        prices = (0.0,) * len(self.knapsack.slack)
        self._branch(root, self._relaxed(root, prices), prices)

    # --- bounds ------------------------------------------------------------------------------------------------------

    def _relaxed(self, node: _Node, prices: tuple[float, ...]) -> _Relaxed:
        """The relaxation of what is open; exact where no rule has a price."""
        knapsack, level, rest, slack = self.knapsack, node.level, node.rest, node.slack
        items, least = self.items, knapsack.least[level]
        special, bound = knapsack.special[level], 0.0
        for used, left in zip(least, slack, strict=True):
            if used > left + FEASIBLE:
                return _NOTHING
        amounts: list[float] = []
        edges: list[tuple[float, float, int]] = []
        for at, (k, rules) in enumerate(zip(special, knapsack.tied[level], strict=True)):
            item, low, high, price = items[k], self.low[k], self.high[k], 0.0
            gain, cost = item.gain, item.cost
            for r, use in rules:
                price += prices[r] * use
                if use > 0.0:
                    high = min(high, item.low + (slack[r] - least[r]) / use)
                else:
                    low = max(low, item.high + (slack[r] - least[r]) / use)
            if low > high:
                if low - high > SLACK * (item.high - item.low):
                    return _NOTHING
                low = high = self.low[k] if low == self.low[k] else self.high[k]
            # The cost with its price is convex: from the cheapest amount on upwards, what gains costs more and more.
            x = low
            if low < 0.0:
                end = min(high, 0.0)
                if price < cost:
                    x = end
                elif gain > 0.0:
                    edges.append(((price - cost) / gain, (end - low) * gain, at))
            if high > 0.0:
                start = max(low, 0.0)
                if price < -cost:
                    x = high
                elif gain > 0.0:
                    edges.append(((price + cost) / gain, (high - start) * gain, at))
            amounts.append(x)
            bound += cost * abs(x) + price * x
            rest -= gain * x
        for r in knapsack.priced[level]:
            bound -= prices[r] * slack[r]
        values, gains, costs = knapsack.value[level], knapsack.gains[level], knapsack.costs[level]
        value, is_covered = 0.0, rest <= 0.0
        for edge, gain, at in sorted(edges) if not is_covered else ():
            last = bisect_right(values, edge)
            if gains[last] >= rest:
                break
            value, taken = edge, min(gain, rest - gains[last])
            amounts[at] += taken / items[special[at]].gain
            bound += taken * edge
            rest -= taken
            if taken < gain:
                bound += costs[last]
                rest, is_covered = gains[last], True
                break
        if not is_covered and rest > 0.0:
            last = bisect_left(gains, rest, 1) - 1
            if last == len(gains) - 1:
                return _NOTHING
            bound += costs[last] + (rest - gains[last]) * values[last]
            value = max(value, values[last])
        excess = [
            sum([items[k].uses[r] * x for k, x in zip(special, amounts, strict=True)]) - slack[r]
            for r in range(len(slack))
        ]
        return _Relaxed(bound, value, amounts, rest, excess)

    def _priced(
        self, node: _Node, relaxed: _Relaxed, prices: tuple[float, ...]
    ) -> tuple[_Relaxed, tuple[float, ...], tuple[_Relaxed, _Relaxed]]:
        """The relaxation at the best prices, or at prices that end the branch.

        Returns
        -------
        relaxed, prices : the best
        sides : relaxations whose mixture is optimal, the one that exceeds the rule first, where there is one rule
        """
        sides = relaxed, relaxed
        for r in self.knapsack.priced[node.level] if relaxed is not _NOTHING else ():
            over: tuple[float, _Relaxed] | None = None
            under: tuple[float, _Relaxed] | None = None
            price, current = prices[r], relaxed
            for attempt in range(TANGENTS):
                if current.bound >= relaxed.bound:
                    relaxed, prices = current, (*prices[:r], price, *prices[r + 1 :])
                excess = current.excess[r]
                if abs(excess) <= FEASIBLE or (excess < 0.0 and price == 0.0):
                    sides = current, current
                    break
                if self.hopeless(node.cost + current.bound):
                    return relaxed, prices, sides
                if excess > 0.0:
                    over = price, current
                else:
                    under = price, current
                if under is None:
                    if attempt > TURNS:  # the least that may be used is too much
                        return _NOTHING, prices, sides
                    price = self._turn(node.level, r, price, current.value) if attempt < TURNS else FAR * (1.0 + price)
                elif over is None:
                    price = 0.0
                else:
                    sides = over[1], under[1]
                    rise, fall = over[1].excess[r], under[1].excess[r]
                    price = (under[1].bound - over[1].bound + rise * over[0] - fall * under[0]) / (rise - fall)
                    meet = over[1].bound + rise * (price - over[0])
                    if meet <= relaxed.bound + 1e-12 * (1.0 + abs(meet)) or not over[0] < price < under[0]:
                        break
                current = self._relaxed(node, (*prices[:r], price, *prices[r + 1 :]))
                if current is _NOTHING:
                    return current, prices, sides
        return relaxed, prices, sides

    def _mixed(self, sides: tuple[_Relaxed, _Relaxed]) -> tuple[list[float], float, float]:
        """The mixture of two relaxations that just keeps the rule: its amounts, its rest, and its largest excess."""
        one, other = sides
        between = [
            under / (under - over) for over, under in zip(one.excess, other.excess, strict=True) if over > 0.0 > under
        ]
        if not between:
            return one.amounts, one.rest, max(one.excess, default=0.0)
        share = min(between)
        amounts = [share * a + (1.0 - share) * b for a, b in zip(one.amounts, other.amounts, strict=True)]
        excess = max(share * a + (1.0 - share) * b for a, b in zip(one.excess, other.excess, strict=True))
        return amounts, share * one.rest + (1.0 - share) * other.rest, excess

    def _turn(self, level: int, r: int, price: float, value: float) -> float:
        """A higher price, at which an item uses less of a rule if a unit of gain is worth so much."""
        knapsack, turns = self.knapsack, []
        for k in knapsack.special[level]:
            item, use = self.items[k], self.items[k].uses[r]
            if use:
                worth = 0.0 if math.isinf(value) else value * item.gain
                turns += [(worth + way * item.cost) / use for way in (-1.0, 1.0)]
        beyond = [turn for turn in turns if turn > price * (1.0 + NUDGE)]
        return max(min(beyond, default=1.0) * (1.0 + 2.0 * NUDGE), 2.0 * price)

    # --- branches ----------------------------------------------------------------------------------------------------

    def _branch(self, node: _Node, relaxed: _Relaxed, prices: tuple[float, ...]) -> None:
        """Try everything from a level on."""
        self.effort.branch()
        knapsack, level = self.knapsack, node.level
        relaxed, prices, sides = self._priced(node, relaxed, prices)
        if self.hopeless(node.cost + relaxed.bound):
            return
        if level == knapsack.lattices:
            self._settle(node, prices, sides, frozenset())
            return
        k, following = knapsack.order[level], knapsack.priced[level + 1]
        item = self.items[k]
        prices = tuple(price if r in following else 0.0 for r, price in enumerate(prices))
        amounts, rest, _ = self._mixed(sides)
        if knapsack.special[level] and knapsack.special[level][0] == k:
            x = amounts[0]
        else:
            x = min(max((rest - knapsack.before[level]) / item.gain, 0.0), item.high)
        down = (-y for y in knapsack.mirrored[k].upwards(4.0 * SLACK * item.step - x))
        runs = [(1.0, item.upwards(x)), (-1.0, down)]
        nexts = [(self._next(node, k, prices, way, run), way, run) for way, run in runs]
        for found, way, run in sorted(nexts, key=lambda one: one[0][3] if one[0] else math.inf):
            while found:
                x, child, relaxed, bound = found
                if not self.hopeless(bound):
                    self.amounts[k] = x
                    self._branch(child, relaxed, prices)
                found = self._next(node, k, prices, way, run)
        self.amounts[k] = 0.0

    def _next(
        self, node: _Node, k: int, prices: tuple[float, ...], way: float, run: Iterator[float]
    ) -> tuple[float, _Node, _Relaxed, float] | None:
        """The next move of a run that may win, and the bound of all that comes with it; None where no further one can.

        Parameters
        ----------
        way : 1 where the run is upwards, -1 downwards
        """
        item = self.items[k]
        for x in run:
            if self.effort.spent:
                return None
            left = self._left(node.left, item, x)
            if left is None:
                if way * x > 0.0:
                    return None
                continue
            slack = tuple([s - use * x for s, use in zip(node.slack, item.uses, strict=True)])
            child = _Node(node.level + 1, node.rest - item.gain * x, node.cost + item.cost * abs(x), slack, left)
            relaxed = self._relaxed(child, prices)
            if not self.hopeless(child.cost + relaxed.bound):
                return x, child, relaxed, child.cost + relaxed.bound
            if relaxed is _NOTHING:
                # Out of reach of the need or of the rules; further moves may come closer.
                if self._is_further(child, item, way):
                    return None
                self.effort.branch()
                continue
            # At given prices the bound is convex in the amount: once it rises, no further move can win.
            slope = math.copysign(item.cost, x or way) - relaxed.value * item.gain
            slope += sum([price * use for price, use in zip(prices, item.uses, strict=True)])
            if way * slope >= 0.0:
                return None
        return None

    def _is_further(self, child: _Node, item: TiedItem, way: float) -> bool:
        """Whether all moves beyond one come even less close to the need, or to a rule, that is out of reach."""
        knapsack, level = self.knapsack, child.level
        if way * item.gain <= 0.0 and child.rest > knapsack.reach[level]:
            return True
        needs = zip(knapsack.least[level], child.slack, item.uses, strict=True)
        return any(used > left + FEASIBLE and way * use >= 0.0 for used, left, use in needs)

    @staticmethod
    def _left(left: tuple[float, ...], item: TiedItem, x: float) -> tuple[float, ...] | None:
        """What a move leaves of the budgets; None where they do not allow it."""
        if x == 0.0 or not left:
            return left
        after = tuple(b - once - per * abs(x) for b, once, per in zip(left, item.once, item.per, strict=True))
        return after if min(after) >= -FEASIBLE else None

    # --- items that are decided last ---------------------------------------------------------------------------------

    def _settle(
        self, node: _Node, prices: tuple[float, ...], sides: tuple[_Relaxed, _Relaxed], decided: frozenset[int]
    ) -> None:
        """The best amounts of continuous items, of which those that leap or need a budget stay or move.

        Parameters
        ----------
        decided : items of which that is known, their ranges and the budgets changed accordingly
        """
        knapsack, special = self.knapsack, self.knapsack.special[node.level]
        mixed, rest, excess = self._mixed(sides)
        if excess > FEASIBLE:
            self.effort.spent = True  # the best price was not found
            return
        left: tuple[float, ...] | None = node.left
        for k, x in zip(special, mixed, strict=True):
            item = self.items[k]
            if k in decided or x == 0.0:
                continue
            left = None if left is None else self._left(left, item, x)
            if left is None or -item.below * (1.0 - SLACK) < x < item.above * (1.0 - SLACK):
                self._divide(node, k, prices, decided)
                return
        moves, cost = self.amounts.copy(), node.cost
        for k, x in zip(special, mixed, strict=True):
            moves[k] = x
            cost += self.items[k].cost * abs(x)
        for k in knapsack.open[node.level]:
            item = self.items[k]
            moves[k] = min(max(rest, 0.0) / item.gain, item.high)
            rest -= moves[k] * item.gain
            cost += moves[k] * item.cost
        if not self.hopeless(cost):
            self.best, self.best_cost = moves, cost

    def _divide(self, node: _Node, k: int, prices: tuple[float, ...], decided: frozenset[int]) -> None:
        """Try one item that stays, and one that moves in either direction."""
        item, whole = self.items[k], (self.low[k], self.high[k])
        parts = [(0.0, 0.0, node.left)]
        left = self._left(node.left, item, 1.0)
        if left is not None and item.high > 0.0:
            parts.append((item.above, item.high, left))
        if left is not None and item.low < 0.0:
            parts.append((item.low, -item.below, left))
        for low, high, left in parts:
            self.low[k], self.high[k] = low, high
            self.effort.branch()
            child = replace(node, left=left)
            relaxed, best, sides = self._priced(child, self._relaxed(child, prices), prices)
            if not self.hopeless(child.cost + relaxed.bound):
                self._settle(child, best, sides, decided | {k})
        self.low[k], self.high[k] = whole
