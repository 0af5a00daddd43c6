"""Covering knapsack: moves of least cost whose gains reach a need.

``min sum_i cost_i x_i  subject to  sum_i gain_i x_i >= need``, where each ``x_i`` is 0, or between `first` and `limit`,
on a lattice or continuous, and at most `uses` of the ``x_i`` are not 0.

Branch and bound, depth first, over ranges of the ``x_i``. The bound is the fractional knapsack (Martello and Toth,
"Knapsack Problems", 1990, chapter 2): items are filled in order of cost per gain, so that only the last one may be at
an amount that is not legal. Rounded up, it gives moves; and its range is divided there. Where more items move than may,
a price for the share of an item that is used takes the place of the cap in the bound (Lagrangian relaxation), and the
first of these items moves or stays.
"""

import math
import time
from collections.abc import Sequence
from functools import cached_property
from heapq import nlargest
from operator import mul
from typing import NamedTuple

GAP = 1e-4
"""Relative: smaller savings are not searched for."""
SLACK = 1e-9
"""The need is met up to this share of it, so that rounding does not cost a whole step."""
THOROUGH, QUICK = 20_000, 1_000
"""Branches after which a search for the cheapest moves gives up, and one that good moves suffice."""
LOOK = 16
"""Branches between two checks of the clock."""
PRICES, LEAST_PRICE = 10, 1 / 64
"""Prices of a use that are tried, and the least of them; in units of the mean cost per use, the largest."""


class Item(NamedTuple):
    """An item of a knapsack: it moves by an amount, in any unit, for a gain and at a cost."""

    gain: float
    """Per unit, > 0."""
    cost: float
    """Per unit, > 0."""
    first: float
    """Smallest move; 0 for a continuous item that may move by any amount."""
    step: float
    """Distance between moves beyond the first; 0 for a continuous item."""
    limit: float
    """Largest move, >= first; on the lattice, or infinite."""

    def around(self, amount: float) -> tuple[float, float]:
        """The largest legal amount that is at most `amount` and the smallest that is at least; equal if it is legal."""
        if amount < self.first * (1.0 - SLACK):
            return 0.0, self.first
        if self.step == 0.0:
            return amount, amount
        ticks = (amount - self.first) / self.step
        slack = SLACK * max(ticks, 1.0)
        below, above = (self.first + tick * self.step for tick in (math.floor(ticks + slack), math.ceil(ticks - slack)))
        return min(below, self.limit), min(above, self.limit)


class _Node(NamedTuple):
    """A range of amounts for each item."""

    low: list[float]
    high: list[float]
    used: list[bool]
    """Items that count as used whatever their amount."""
    left: int
    """How many others may move."""


class _Filled(NamedTuple):
    """The least cost of covering the need in a node if amounts need not be legal."""

    cost: float
    last: int
    """The item that covers what is left; -1 if there is nothing left, or nothing covers it."""
    amount: float
    """Of that item."""
    moving: list[int]
    """Items that move and do not count as used."""


class Knapsack:
    """Items, of which a limited number may move; finds the cheapest moves whose gains sum to at least a given need.

    Parameters
    ----------
    items : in any order
    uses : largest number of items that may move, >= 0
    """

    def __init__(self, items: Sequence[Item], uses: int) -> None:
        self.items, self.uses = items, min(uses, len(items))
        self.gains, self.costs = [item.gain for item in items], [item.cost for item in items]
        self.order = sorted((item.cost / item.gain, k, False) for k, item in enumerate(items))
        """Items by cost per gain."""
        most = sorted((item.gain * item.limit for item in items), reverse=True)
        self.most = sum(most[: self.uses])
        """The largest gain of all moves."""

    def cover(
        self, need: float, branches: int = THOROUGH, *, deadline: float = math.inf
    ) -> tuple[list[float] | None, bool]:
        """The cheapest moves whose gains sum to at least `need`.

        Parameters
        ----------
        branches : largest number of branches; the search then stops
        deadline : `time.monotonic()` at which the search stops

        Returns
        -------
        moves : the best known moves, one amount per item; None if no moves with this gain are known
        proven : whether no other moves are cheaper by more than `GAP`; with `moves` None, whether no moves reach `need`
        """
        if need <= 0.0:
            return [0.0] * len(self.items), True
        search = _Search(self, need * (1.0 - SLACK))
        proven = search.run(branches, deadline)
        if search.best is not None:
            self._top_up(search.best, need)
        return search.best, proven

    def _top_up(self, moves: list[float], need: float) -> None:
        """Cover the slack, which is meant for lattices, with continuous items."""
        short = need - sum(map(mul, self.gains, moves))
        for k, item in enumerate(self.items):
            if short > 0.0 and item.step == 0.0 and 0.0 < moves[k] < item.limit:
                more = min(short / item.gain, item.limit - moves[k])
                moves[k] += more
                short -= more * item.gain


class _Search:
    """A search for the cheapest moves that cover one need."""

    def __init__(self, knapsack: Knapsack, need: float) -> None:
        self.knapsack, self.items, self.need = knapsack, knapsack.items, need
        self.best: list[float] | None = None
        self.best_cost = math.inf
        n, uses = len(items := self.items), knapsack.uses
        self.root = _Node([0.0] * n, [item.limit if uses else 0.0 for item in items], [uses == n] * n, uses)

    def run(self, branches: int, deadline: float) -> bool:
        """Search; the result says whether the search ended before so many branches and the deadline."""
        stack, count = [(self._bounded(self.root), self.root)], 0
        while stack:
            filled, node = stack.pop()
            if filled.cost >= self.best_cost * (1.0 - GAP):
                continue
            if count == branches or (count % LOOK == 0 and time.monotonic() > deadline):
                return False
            count += 1
            children = [(self._bounded(child), child) for child in self._children(node, filled)]
            stack += sorted(children, key=lambda one: -one[0].cost)
        return True

    @cached_property
    def priced(self) -> tuple[list[tuple[float, int, bool]], float]:
        """Shares of items by cost per gain, with the price of a use in the cost and without, as the last entry says.

        And this price: of several up to a scale the one with the highest bound.
        """
        scale = self._filled(self.root, self.knapsack.order, 0.0).cost / self.knapsack.uses
        tried = []
        for price in (scale * LEAST_PRICE ** (k / (PRICES - 1)) for k in range(PRICES)):
            items = enumerate(self.items)
            paying = [((item.cost + price / item.limit) / item.gain, k, True) for k, item in items]
            shares = sorted([*self.knapsack.order, *paying])
            tried.append((self._filled(self.root, shares, price).cost, price, shares))
        _, price, shares = max(tried, key=lambda one: one[0])
        return shares, price

    def _bounded(self, node: _Node) -> _Filled:
        """A bound on the cost in a node, and what moves there."""
        plain = self._filled(node, self.knapsack.order, 0.0)
        if len(plain.moving) <= node.left:
            return plain
        most = list(map(mul, self.knapsack.gains, node.high))
        reach = sum(gain for gain, used in zip(most, node.used, strict=True) if used)
        if reach + sum(nlargest(node.left, (most[k] for k, used in enumerate(node.used) if not used))) < self.need:
            return plain._replace(cost=math.inf)
        priced = self._filled(node, *self.priced)
        moving = priced.moving if len(priced.moving) > node.left else plain.moving
        return plain._replace(cost=max(plain.cost, priced.cost), moving=moving)

    def _filled(self, node: _Node, shares: list[tuple[float, int, bool]], price: float) -> _Filled:
        """Fill items by value, those that do not count as used by their shares with the price, if there is one."""
        low, high, used, gains = node.low, node.high, node.used, self.knapsack.gains
        rest, moving = self.need - sum(map(mul, gains, low)), list[int]()
        cost = sum(map(mul, self.knapsack.costs, low)) - price * node.left
        if rest <= 0.0:
            return _Filled(cost, -1, 0.0, moving)
        for value, k, with_price in shares:
            room = high[k] - low[k]
            if room <= 0.0 or (price > 0.0 and used[k] is with_price):
                continue
            if not used[k]:
                moving.append(k)
            gain = room * gains[k]
            if gain >= rest:
                return _Filled(cost + rest * value, k, low[k] + rest / gains[k], moving)
            cost += gain * value
            rest -= gain
        return _Filled(math.inf, -1, 0.0, moving)

    def _children(self, node: _Node, filled: _Filled) -> list[_Node]:
        """The parts of a node in which there may be cheaper moves; notes those that a node gives."""
        if len(filled.moving) > node.left:
            k = filled.moving[0]
            below, above = 0.0, self.items[k].first
        else:
            k, amounts = filled.last, node.low.copy()
            below, above = self.items[k].around(filled.amount) if k >= 0 else (0.0, 0.0)
            for _, j, _ in self.knapsack.order if k >= 0 else ():
                if j == k:
                    amounts[k] = above
                    break
                amounts[j] = node.high[j]
            cost = sum(map(mul, self.knapsack.costs, amounts))
            if cost < self.best_cost:
                self.best, self.best_cost = amounts, cost
            if below == above:
                return []
        high = node.high.copy()
        high[k] = below
        fewer = _Node(node.low, high, node.used, node.left)
        if not node.used[k] and not node.left:
            return [fewer]
        low, high, used, left = node.low.copy(), node.high, node.used, node.left
        low[k] = above
        if not used[k]:
            used, left = used.copy(), left - 1
            used[k] = True
            if not left:
                high = [end if is_used else 0.0 for end, is_used in zip(high, used, strict=True)]
        return [fewer, _Node(low, high, used, left)]
