"""Covering knapsack: moves of least cost whose gains reach a need.

``min sum_i cost_i x_i  subject to  sum_i gain_i x_i >= need``, where each ``x_i`` is 0, or between `first` and `limit`,
on a lattice or continuous, and at most `uses` of the ``x_i`` are not 0.

This file decides which items move, `app.recourse.search.knapsack_amounts` how far. Under a cap, depth-first branch and
bound takes the items one by one, with a price in the bound in place of the cap. Without a cap all may move, and items
that leap, continuous beyond a first move, are continuous from 0 on until the best moves have one in between: then it
stays, or makes its first move.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import TypeAlias

from app.recourse.search.knapsack_amounts import SLACK, Amounts, BestSoFar, EffortLeft, Item, Movable, dominated

THOROUGH = 20_000
"""Branches after which a search for the cheapest moves gives up."""

QUICK = 1_000
"""The same where good moves suffice."""

PRICES, LEAST_PRICE = 10, 1 / 64
"""Prices of a use that are tried, and the least of them; in units of the mean cost per use, the largest."""


class Knapsack:
    """Items, of which a limited number may move; finds the cheapest moves whose gains sum to at least a given need.

    Parameters
    ----------
    items : in any order
    uses : largest number of items that may move, >= 0
    """

    def __init__(self, items: Sequence[Item], uses: int) -> None:
        self.items = items
        self.uses = min(uses, len(items))
        self._movable: dict[tuple[tuple[int, ...], frozenset[int]], Movable] = {}

    @cached_property
    def moving(self) -> "list[_Share]":
        """Gain and cost that each item can add beyond its first move, once it is decided that the item moves."""
        shares: list[_Share] = []
        for k, item in enumerate(self.items):
            gain = max(item.most_gain - item.first * item.gain, 0.0)
            shares.append((item.cost / item.gain, k, _State.MOVES, gain, item.most_cost - item.first * item.cost, 0))
        return shares

    @cached_property
    def open(self) -> "list[_Share]":
        """Gain and cost that each item can add while it is undecided whether the item moves.

        The price of using one of the moves that the cap allows is not included; the caller adds it.
        """
        items = enumerate(self.items)
        return [(item.cost / item.gain, k, _State.OPEN, item.most_gain, item.most_cost, 1) for k, item in items]

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
        least, effort = need * (1.0 - SLACK), EffortLeft(branches, deadline)
        search = _Leaps(self, least, effort) if self.uses == len(self.items) else _Selection(self, least, effort)
        search.run()
        if search.best is not None:
            self._top_up(search.best, need)
        return search.best, not effort.spent

    def amounts(
        self, chosen: tuple[int, ...], moving: frozenset[int], need: float, effort: EffortLeft, best_cost: float
    ) -> tuple[list[float], float] | None:
        """The cheapest moves of the `chosen` items that gain `need`, with their cost; None if not below `best_cost`.

        Parameters
        ----------
        chosen : indices of the items that may move
        moving : indices of the items with `leaps` that make at least their first move; any other item with `leaps` may
            move by less than its first move
        best_cost : only moves that cost less are of interest
        """
        items = self.items
        firsts = [items[k].first if k in moving else 0.0 for k in chosen]
        gain = sum(items[k].gain * first for k, first in zip(chosen, firsts, strict=True))
        cost = sum(items[k].cost * first for k, first in zip(chosen, firsts, strict=True))
        search = Amounts(self._beyond_first(chosen, moving), need - gain, effort, best_cost - cost)
        search.run()
        if search.best is None:
            return None
        moves = [0.0] * len(items)
        for k, first, beyond in zip(chosen, firsts, search.best, strict=True):
            moves[k] = first + beyond
        return moves, cost + search.best_cost

    def _beyond_first(self, chosen: tuple[int, ...], moving: frozenset[int]) -> Movable:
        """Some of the items, those that move beyond their first move."""
        key = (chosen, moving)
        if key not in self._movable:
            items = ((self.items[k], k in moving) for k in chosen)
            self._movable[key] = Movable(
                [replace(item, first=0.0, limit=item.limit - item.first) if moves else item for item, moves in items]
            )
        return self._movable[key]

    def _top_up(self, moves: list[float], need: float) -> None:
        """Cover the slack, which is meant for lattices, with continuous items."""
        short = need - sum(item.gain * amount for item, amount in zip(self.items, moves, strict=True))
        for k, item in enumerate(self.items):
            if short > 0.0 and item.step == 0.0 and 0.0 < moves[k] < item.limit:
                more = min(short / item.gain, item.limit - moves[k])
                moves[k] += more
                short -= more * item.gain


class _State(Enum):
    """What is decided about an item under a cap."""

    OPEN = auto()
    """Nothing."""
    MOVES = auto()
    """It moves, at least by its first move; in the end a lattice may stay after all."""
    STAYS = auto()


_Share: TypeAlias = tuple[float, int, _State, float, float, int]
"""What an item adds to a bound while it is in one state: its cost per gain with the price of its use, the item, the
state, its gain and its cost as far as it goes beyond what is decided, and how many uses that is."""


class _Leaps(BestSoFar):
    """Chooses the items that leap and move, without a cap; `Amounts` decides how far."""

    def __init__(self, knapsack: Knapsack, need: float, effort: EffortLeft) -> None:
        super().__init__(effort)
        self.knapsack, self.need = knapsack, need

    def run(self) -> None:
        self._branch(frozenset(), frozenset())

    def _branch(self, moving: frozenset[int], staying: frozenset[int]) -> None:
        """The best moves where some items make at least their first move and others stay."""
        items = self.knapsack.items
        chosen = tuple(k for k in range(len(items)) if k not in staying)
        found = self.knapsack.amounts(chosen, moving, self.need, self.effort, self.best_cost)
        if found is None:
            return
        moves, cost = found
        between = (k for k, item in enumerate(items) if item.leaps and 0.0 < moves[k] < item.first * (1.0 - SLACK))
        k = next(between, None)
        if k is None:
            self.best, self.best_cost = moves, cost
            return
        self._branch(moving | {k}, staying)
        self._branch(moving, staying | {k})


class _Selection(BestSoFar):
    """Chooses the items that move under a cap; `Amounts` decides how far.

    The bound relaxes the cap to a price for the share of an item that is used (Lagrangian relaxation); it is valid for
    every price >= 0, and tightest where exactly the allowed number is used.
    """

    def __init__(self, knapsack: Knapsack, need: float, effort: EffortLeft) -> None:
        super().__init__(effort)
        self.knapsack, self.need = knapsack, need
        self.state = [_State.OPEN] * len(knapsack.items)
        self.left_out = [0] * len(knapsack.items)
        """How many single moves that dominate it are not made."""
        self._set_price(0.0)

    def run(self) -> None:
        knapsack = self.knapsack
        relaxed = self._relaxed(self.need, knapsack.uses)
        if math.isinf(relaxed):
            return
        self._set_price(self._best_price(relaxed / max(knapsack.uses, 1)))
        self.order = [k for _, k, state, *_ in self.shares if state is _State.OPEN]
        self.dominated = dominated(knapsack.items, [k for k in self.order if knapsack.items[k].single])
        gains = [knapsack.items[k].most_gain for k in self.order]
        self.most = [list(accumulate(sorted(gains[t:], reverse=True), initial=0.0)) for t in range(len(gains) + 1)]
        """From each level on, the most that 0, 1, ... items gain."""
        self._branch(0, knapsack.uses, 0.0, self.need, 0.0)

    def _best_price(self, scale: float) -> float:
        """Of prices up to a scale the one with the highest bound."""
        best, best_price = -math.inf, 0.0
        for k in range(PRICES):
            self._set_price(scale * LEAST_PRICE ** (k / (PRICES - 1)))
            bound = self._relaxed(self.need, self.knapsack.uses)
            if bound > best:
                best, best_price = bound, self.price
        return best_price

    def _set_price(self, price: float) -> None:
        """Set the price of a use, and the shares of all items in each state, by value."""
        self.price = price
        shares = self.knapsack.moving.copy()
        for value, k, state, gain, cost, uses in self.knapsack.open:
            shares.append((value + price / gain, k, state, gain, cost + price, uses))
        self.shares = sorted(shares, key=itemgetter(0))

    def _relaxed(self, rest: float, left: int) -> float:
        """Least cost of covering `rest` at this price with what is not decided."""
        cost, states = -self.price * left, self.state
        for value, k, state, gain, whole, uses in self.shares:
            if states[k] is not state or (uses and not left):
                continue
            if gain >= rest:
                return cost + rest * value
            cost += whole
            rest -= gain
        return math.inf

    def _branch(self, level: int, left: int, reach: float, rest: float, cost: float) -> None:
        """Decide from a level on which items move.

        Parameters
        ----------
        left : how many may still move
        reach : most gain of those that move
        rest, cost : after the first move of each of them
        """
        self.effort.branch()
        if rest <= 0.0:
            if not self.hopeless(cost):
                self._note([item.first for item in self.knapsack.items], cost)
            return
        most = self.most[level]
        if reach + most[min(left, len(most) - 1)] < self.need or self.hopeless(cost + self._relaxed(rest, left)):
            return
        if left == 0 or level == len(self.order):
            self._settle()
            return
        k = self.order[level]
        item = self.knapsack.items[k]
        if not self.left_out[k]:
            self.state[k] = _State.MOVES
            after, spent = rest - item.first * item.gain, cost + item.first * item.cost
            self._branch(level + 1, left - 1, reach + item.most_gain, after, spent)
        dominated = self.dominated.get(k, [])
        self._leave_out([k, *dominated], 1)
        self._branch(level + 1, left, reach, rest, cost)
        self._leave_out([k, *dominated], -1)

    def _leave_out(self, items: list[int], more: int) -> None:
        for k in items:
            self.left_out[k] += more
            self.state[k] = _State.STAYS if self.left_out[k] else _State.OPEN

    def _settle(self) -> None:
        """Move the chosen items by the best amounts."""
        items = self.knapsack.items
        chosen = tuple(k for k, state in enumerate(self.state) if state is _State.MOVES)
        moving = frozenset(k for k in chosen if items[k].leaps)
        found = self.knapsack.amounts(chosen, moving, self.need, self.effort, self.best_cost)
        if found is not None:
            self._note(*found)

    def _note(self, amounts: list[float], cost: float) -> None:
        """These are the best moves so far, of the items that move."""
        self.best_cost = cost
        self.best = [
            amount if state is _State.MOVES else 0.0 for amount, state in zip(amounts, self.state, strict=True)
        ]
