"""Covering knapsack: moves of least cost whose gains reach a need.

``min sum_i cost_i x_i  subject to  sum_i gain_i x_i >= need``, where each ``x_i`` is 0, or between `first` and `limit`
on a lattice (or anything up to `limit`), and at most so many ``x_i`` are not 0.

Depth-first branch and bound, with the fractional knapsack as the bound (Martello and Toth, "Knapsack Problems", 1990,
chapter 2). What is special here is the order. Single moves are decided first, then lattices from the coarsest to the
finest, continuous items last: what is left undecided is ever closer to the fractional knapsack, so the bound is tight
where the branches are many, and the last fine lattice fills the gap to the need. Under a cap it is decided first which
items may move at all, where the bound has a price in place of the cap; then how far they go.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import TypeAlias

GAP = 1e-6
"""Relative: moves cheaper by less than this are not looked for."""

THOROUGH = 20_000
"""Branches after which a search for the cheapest moves gives up."""

QUICK = 1_000
"""The same where good moves will do."""

SLACK = 1e-9
"""The need is met up to this share of it, so that rounding does not cost a whole step."""

LOOK = 256
"""Branches between two looks at the clock."""

PRICES = 10
"""Bisections for the price of a use, from a 64th of the mean cost per use to 64 times that."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that can be moved, in any unit."""

    gain: float
    """Per unit, > 0."""
    cost: float
    """Per unit, > 0."""
    first: float
    """Smallest move; 0 for a continuous item."""
    step: float
    """Distance between moves beyond the first; 0 for a continuous item."""
    limit: float
    """Largest move, >= first; on the lattice, or infinite."""
    uses: int = 1
    """1 if moving it counts towards the cap, else 0."""

    @property
    def most_gain(self) -> float:
        """Of as far as it goes."""
        return self.gain * self.limit

    @property
    def most_cost(self) -> float:
        """Of as far as it goes."""
        return self.cost * self.limit

    @property
    def single(self) -> bool:
        """Whether there is only one move."""
        return self.step > 0.0 and self.limit < self.first + 0.5 * self.step

    def floor(self, amount: float) -> float:
        """The largest move of a lattice item not above `amount`."""
        if amount < self.first * (1.0 - SLACK):
            return 0.0
        ticks = math.floor((amount - self.first) / self.step + SLACK)
        return min(self.first + ticks * self.step, self.limit)

    def ceil(self, amount: float) -> float:
        """The smallest move of a lattice item not below `amount`, but at least `first` and at most `limit`."""
        ticks = math.ceil(max(amount - self.first, 0.0) / self.step - SLACK)
        return min(self.first + max(ticks, 0) * self.step, self.limit)


class Knapsack:
    """Items and a cap, for any number of needs.

    Parameters
    ----------
    items : in any order
    uses : how many items that count may move, >= 0
    """

    def __init__(self, items: Sequence[Item], uses: int) -> None:
        self.items = items
        self.counted = [k for k, item in enumerate(items) if item.uses]
        self.uses = min(uses, len(self.counted))
        self._movable: dict[tuple[int, ...], _Movable] = {}

    @cached_property
    def moving(self) -> "list[_Share]":
        """What each item adds to a bound once it moves: by its first move at least, if it counts."""
        shares: list[_Share] = []
        for k, item in enumerate(self.items):
            first = item.first if item.uses else 0.0
            gain = max(item.most_gain - first * item.gain, 0.0)
            shares.append((item.cost / item.gain, k, _State.MOVES, gain, item.most_cost - first * item.cost, 0))
        return shares

    @cached_property
    def open(self) -> "list[_Share]":
        """What each item that counts adds while nothing is decided about it, but for the price of its use."""
        counted = ((k, self.items[k]) for k in self.counted)
        return [(item.cost / item.gain, k, _State.OPEN, item.most_gain, item.most_cost, 1) for k, item in counted]

    def cover(
        self, need: float, branches: int = THOROUGH, *, deadline: float | None = None
    ) -> tuple[list[float] | None, bool]:
        """The cheapest moves whose gains sum to at least `need`.

        Parameters
        ----------
        branches : the search stops after so many
        deadline : and at this `time.monotonic()`

        Returns
        -------
        moves : one per item, the best known; None where none are known
        settled : whether nothing cheaper by more than `GAP` exists; then None means that nothing reaches `need`
        """
        if need <= 0.0:
            return [0.0] * len(self.items), True
        least, effort = need * (1.0 - SLACK), _Effort(branches, deadline)
        search: _Amounts | _Selection
        if self.uses == len(self.counted):
            search = _Amounts(self.movable(tuple(range(len(self.items)))), least, effort)
        else:
            search = _Selection(self, least, effort)
        search.run()
        if search.best is not None:
            self._top_up(search.best, need)
        return search.best, not effort.spent

    def movable(self, chosen: tuple[int, ...]) -> "_Movable":
        """Some of the items, to be moved without a cap."""
        if chosen not in self._movable:
            self._movable[chosen] = _Movable([self.items[k] for k in chosen])
        return self._movable[chosen]

    def _top_up(self, moves: list[float], need: float) -> None:
        """Let continuous items make up for the slack, which is meant for lattices."""
        short = need - sum(item.gain * amount for item, amount in zip(self.items, moves, strict=True))
        for k, item in enumerate(self.items):
            if short > 0.0 and item.step == 0.0 and 0.0 < moves[k] < item.limit:
                more = min(short / item.gain, item.limit - moves[k])
                moves[k] += more
                short -= more * item.gain


class _Movable:
    """Items that may all move, in the order in which they are decided: level t decides item ``order[t]``.

    What a bound needs to know of the items from each level on is laid out in the order of cost per gain.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        n = len(items)
        self.items = items
        self.value = [item.cost / item.gain for item in items]
        self.most = [item.most_gain for item in items]
        self.most_cost = [item.most_cost for item in items]
        dearer = sorted(range(n), key=self.value.__getitem__)
        singles = [k for k in dearer if items[k].single]
        lattices = [k for k in dearer if items[k].step > 0.0 and not items[k].single]
        lattices.sort(key=lambda k: -items[k].step * items[k].cost)
        self.order = [*singles, *lattices, *(k for k in dearer if items[k].step == 0.0)]
        self.singles, self.lattices = len(singles), len(singles) + len(lattices)
        """The level after the last single move, and the one after the last lattice."""
        self.dominated = _dominated(items, singles)
        level = {k: t for t, k in enumerate(self.order)}
        self.open = [[k for k in dearer if level[k] >= t] for t in range(n + 1)]
        """Items from a level on, in order of cost per gain."""
        self.gains = [list(accumulate((self.most[k] for k in left), initial=0.0)) for left in self.open]
        self.costs = [list(accumulate((self.most_cost[k] for k in left), initial=0.0)) for left in self.open]
        rank = {k: r for r, k in enumerate(dearer)}
        self.ahead = [
            self.gains[t + 1][bisect_left(self.open[t + 1], rank[k], key=rank.__getitem__)]
            for t, k in enumerate(self.order)
        ]
        """Gain of all that is decided later than a level and costs less per gain."""

    def bound(self, level: int, rest: float) -> float:
        """Least cost of covering `rest` with the items from a level on, as if all were continuous."""
        if rest <= 0.0:
            return 0.0
        gains = self.gains[level]
        last = bisect_left(gains, rest, 1) - 1
        if last == len(gains) - 1:
            return math.inf
        return self.costs[level][last] + (rest - gains[last]) * self.value[self.open[level][last]]


def _dominated(items: Sequence[Item], singles: Sequence[int]) -> dict[int, list[int]]:
    """For each single move the later ones among them that gain no more and cost no less."""
    return {
        i: [
            k
            for k in singles[t + 1 :]
            if items[k].most_gain <= items[i].most_gain and items[k].most_cost >= items[i].most_cost
        ]
        for t, i in enumerate(singles)
    }


class _Effort:
    """What is left to spend on one need."""

    def __init__(self, branches: int, deadline: float | None) -> None:
        self._left = branches
        self._deadline = math.inf if deadline is None else deadline
        self.spent = False

    def branch(self) -> None:
        """Count a branch."""
        self._left -= 1
        if self._left < 0 or (self._left % LOOK == 0 and time.monotonic() > self._deadline):
            self.spent = True


class _Search:
    """The best moves so far, and when to stop."""

    def __init__(self, effort: _Effort, best_cost: float = math.inf) -> None:
        self.effort = effort
        self.best: list[float] | None = None
        self.best_cost = best_cost

    def hopeless(self, cost: float) -> bool:
        """Whether moves that cost so much or more are of no interest."""
        return self.effort.spent or cost >= self.best_cost * (1.0 - GAP)


class _Amounts(_Search):
    """How far to move items that may all move."""

    def __init__(self, movable: _Movable, need: float, effort: _Effort, best_cost: float = math.inf) -> None:
        super().__init__(effort, best_cost)
        self.movable, self.need = movable, need
        self.amounts = [0.0] * len(movable.items)
        self.left_out = [0] * len(movable.items)
        """How many single moves that dominate it are not made."""
        self.any_left_out = 0

    def run(self) -> None:
        if not self.hopeless(self._bound(0, self.need)):
            self._branch(0, self.need, 0.0)

    def _bound(self, level: int, rest: float) -> float:
        """`_Movable.bound` without the items that are left out."""
        movable = self.movable
        if not self.any_left_out or level >= movable.singles:
            return movable.bound(level, rest)
        cost = 0.0
        for k in movable.open[level] if rest > 0.0 else ():
            if self.left_out[k]:
                continue
            if movable.most[k] >= rest:
                return cost + rest * movable.value[k]
            cost += movable.most_cost[k]
            rest -= movable.most[k]
        return cost if rest <= 0.0 else math.inf

    def _branch(self, level: int, rest: float, cost: float) -> None:
        """Try everything from a level on; what is decided costs `cost` and leaves `rest` to gain."""
        self.effort.branch()
        movable = self.movable
        if rest <= 0.0 or level >= movable.lattices:
            self._note(level, rest, cost)
            return
        k = movable.order[level]
        item = movable.items[k]
        # The bound is convex in the amount. It is least where this item takes over from those that are decided later
        # and cost less, so that each way out from there ends at the first amount that cannot win.
        wanted = rest - movable.ahead[level]
        above = item.ceil(wanted / item.gain)
        below = item.floor(above - item.step)
        runs = [] if self.left_out[k] else [(above, item.step), (below, -item.step)]
        stay_first = wanted <= 0.0
        if runs and not stay_first and below == 0.0:
            move = above * item.cost + self._bound(level + 1, rest - above * item.gain)
            stay_first = move > self._bound(level + 1, rest)
        runs.insert(0 if stay_first else len(runs), (0.0, 0.0))
        for amount, stride in runs:
            # No function of its own, so that features may be many before recursion is too deep.
            while (amount > 0.0 or stride == 0.0) and amount <= item.limit * (1.0 + SLACK):
                after, spent = rest - amount * item.gain, cost + amount * item.cost
                dominated = movable.dominated.get(k, []) if amount == 0.0 else []
                self._leave_out(dominated, 1)
                promising = not self.hopeless(spent + self._bound(level + 1, after))
                if promising:
                    self.amounts[k] = amount
                    self._branch(level + 1, after, spent)
                self._leave_out(dominated, -1)
                if not promising or stride == 0.0 or (stride > 0.0 and after <= 0.0):
                    break
                amount = amount + stride if stride > 0.0 else item.floor(amount + stride)

    def _leave_out(self, items: list[int], more: int) -> None:
        self.any_left_out += more * len(items)
        for k in items:
            self.left_out[k] += more

    def _note(self, level: int, rest: float, cost: float) -> None:
        """These are the best moves so far, once continuous items have covered the rest."""
        self.best = self.amounts.copy()
        for k in self.movable.order[level:]:
            item = self.movable.items[k]
            self.best[k] = min(max(rest, 0.0) / item.gain, item.limit) if item.step == 0.0 else 0.0
            rest -= self.best[k] * item.gain
            cost += self.best[k] * item.cost
        self.best_cost = cost


class _State(Enum):
    """What is decided about an item under a cap."""

    OPEN = auto()
    """Nothing."""
    MOVES = auto()
    """It moves, at least by its first move; items that do not count may also stay."""
    STAYS = auto()


_Share: TypeAlias = tuple[float, int, _State, float, float, int]
"""What an item adds to a bound while it is in one state: its cost per gain with the price of its use, the item, the
state, its gain and its cost as far as it goes beyond what is decided, and how many uses that is."""


class _Selection(_Search):
    """Which items move at all, where only so many may; how far is settled by `_Amounts`.

    The bound relaxes the cap to a price for the share of an item that is used (Lagrangian relaxation); it is valid for
    every price >= 0, and best at the one at which as many are used as may.
    """

    def __init__(self, knapsack: Knapsack, need: float, effort: _Effort) -> None:
        super().__init__(effort)
        self.knapsack, self.need = knapsack, need
        self.state = [_State.OPEN if item.uses else _State.MOVES for item in knapsack.items]
        self.left_out = [0] * len(knapsack.items)
        """How many single moves that dominate it are not made."""
        self._set_price(0.0)

    def run(self) -> None:
        knapsack = self.knapsack
        relaxed, _ = self._relaxed(self.need, knapsack.uses)
        if math.isinf(relaxed):
            return
        self._set_price(self._best_price(relaxed / max(knapsack.uses, 1)))
        self.order = [k for _, k, state, *_ in self.shares if state is _State.OPEN]
        self.dominated = _dominated(knapsack.items, [k for k in self.order if knapsack.items[k].single])
        gains = [knapsack.items[k].most_gain for k in self.order]
        self.most = [list(accumulate(sorted(gains[t:], reverse=True), initial=0.0)) for t in range(len(gains) + 1)]
        """From each level on, the most that 0, 1, ... items gain."""
        free = sum(item.most_gain for item in knapsack.items if not item.uses)
        self._branch(0, knapsack.uses, free, self.need, 0.0)

    def _best_price(self, scale: float) -> float:
        low, high = scale / 64.0, scale * 64.0
        best, best_price = -math.inf, 0.0
        for _ in range(PRICES):
            self._set_price(math.sqrt(low * high))
            bound, used = self._relaxed(self.need, self.knapsack.uses)
            if bound > best:
                best, best_price = bound, self.price
            low, high = (self.price, high) if used > self.knapsack.uses else (low, self.price)
        return best_price

    def _set_price(self, price: float) -> None:
        """Of a use; with it come the shares of all items in each state, by value."""
        self.price = price
        shares = self.knapsack.moving.copy()
        for value, k, state, gain, cost, uses in self.knapsack.open:
            shares.append((value + price / gain, k, state, gain, cost + price, uses))
        self.shares = sorted(shares, key=itemgetter(0))

    def _relaxed(self, rest: float, left: int) -> tuple[float, float]:
        """Least cost of covering `rest` at this price with what is not decided, and how many open items that uses."""
        cost, used, states = -self.price * left, 0.0, self.state
        for value, k, state, gain, whole, uses in self.shares:
            if states[k] is not state or (uses and not left):
                continue
            if gain >= rest:
                return cost + rest * value, used + uses * rest / gain
            cost += whole
            rest -= gain
            used += uses
        return math.inf, used

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
                self._note({k: item.first for k, item in enumerate(self.knapsack.items) if item.uses}, cost)
            return
        most = self.most[level]
        if reach + most[min(left, len(most) - 1)] < self.need or self.hopeless(cost + self._relaxed(rest, left)[0]):
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
        """Move the chosen items as far as is best."""
        chosen = tuple(k for k, state in enumerate(self.state) if state is _State.MOVES)
        search = _Amounts(self.knapsack.movable(chosen), self.need, self.effort, self.best_cost)
        search.run()
        if search.best is not None:
            self._note(dict(zip(chosen, search.best, strict=True)), search.best_cost)

    def _note(self, amounts: dict[int, float], cost: float) -> None:
        """These are the best moves so far, of the items that move."""
        self.best_cost = cost
        self.best = [amounts.get(k, 0.0) if state is _State.MOVES else 0.0 for k, state in enumerate(self.state)]
