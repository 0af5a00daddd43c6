"""How far to move the items of a covering knapsack that may all move: depth-first branch and bound.

The bound is the fractional knapsack (Martello and Toth, "Knapsack Problems", 1990, chapter 2). The order of decisions
is specific to this problem. Single moves are decided first, then lattices from the coarsest to the finest, continuous
items last: the undecided part gets closer and closer to the fractional knapsack, so the bound is tight where the
branches are many, and the last fine lattice fills the gap to the need.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

GAP = 1e-4
"""Relative: smaller savings are not searched for."""
SLACK = 1e-9
"""The need is met up to this share of it, so that rounding does not cost a whole step."""
LOOK = 16
"""Branches between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class Item:
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

    @property
    def most_gain(self) -> float:
        """The gain of the largest move."""
        return self.gain * self.limit

    @property
    def most_cost(self) -> float:
        """The cost of the largest move."""
        return self.cost * self.limit

    @property
    def leaps(self) -> bool:
        """Whether the item, if it moves, makes at least a first move and may go any distance beyond it."""
        return self.step == 0.0 and self.first > 0.0

    @property
    def single(self) -> bool:
        """Whether the item has only one move besides staying."""
        return self.step > 0.0 and self.limit < self.first + 0.5 * self.step

    def floor(self, amount: float) -> float:
        """The largest move of a lattice item that is at most `amount`; 0 if even the first move is larger."""
        if amount < self.first * (1.0 - SLACK):
            return 0.0
        ticks = math.floor((amount - self.first) / self.step + SLACK)
        return min(self.first + ticks * self.step, self.limit)

    def ceil(self, amount: float) -> float:
        """The smallest move of a lattice item that is at least `amount` and `first`; never more than `limit`."""
        ticks = math.ceil(max(amount - self.first, 0.0) / self.step - SLACK)
        return min(self.first + max(ticks, 0) * self.step, self.limit)


class Movable:
    """Items that may all move, in the order in which a search decides them: level t decides item ``order[t]``.

    An item that leaps counts as if it could move by any amount from 0. For each level, the object keeps the undecided
    items in order of cost per gain, and the sums of gains and costs from which a bound on the cost follows.
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
        self.dominated = dominated(items, singles)
        self.open = [dearer]
        """Items from a level on, in order of cost per gain; nothing is decided after the last lattice."""
        for k in self.order[: self.lattices]:
            left = self.open[-1].copy()
            left.remove(k)
            self.open.append(left)
        self.gains = [list(accumulate(map(self.most.__getitem__, left), initial=0.0)) for left in self.open]
        self.costs = [list(accumulate(map(self.most_cost.__getitem__, left), initial=0.0)) for left in self.open]
        places = [left.index(k) for left, k in zip(self.open, self.order[: self.lattices], strict=False)]
        self.ahead = [self.gains[t + 1][place] for t, place in enumerate(places)]
        """Gain of all that is decided later than a level and costs less per gain."""

    def bound(self, level: int, rest: float) -> float:
        """A lower bound on the cost of gaining `rest` with the items that are undecided at `level`.

        The bound treats these items as continuous. It is infinite if they cannot gain `rest`.
        """
        if rest <= 0.0:
            return 0.0
        gains = self.gains[level]
        last = bisect_left(gains, rest, 1) - 1
        if last == len(gains) - 1:
            return math.inf
        return self.costs[level][last] + (rest - gains[last]) * self.value[self.open[level][last]]


def dominated(items: Sequence[Item], singles: Sequence[int]) -> dict[int, list[int]]:
    """For each item of `singles`, the later items of `singles` that gain no more and cost no less.

    Parameters
    ----------
    singles : indices of the items that have a single move
    """
    gains, costs = [item.most_gain for item in items], [item.most_cost for item in items]
    return {
        i: [k for k in singles[t + 1 :] if gains[k] <= gains[i] and costs[k] >= costs[i]] for t, i in enumerate(singles)
    }


class EffortLeft:
    """The branches and the time that one search may still spend."""

    def __init__(self, branches: int, deadline: float) -> None:
        self._left = branches
        self._deadline = deadline
        self.spent = time.monotonic() > self._deadline  # few branches are made before the first look at the clock

    def branch(self) -> None:
        """Count one branch; sets `spent` when no branches are left or the deadline has passed."""
        self._left -= 1
        if self._left < 0 or (self._left % LOOK == 0 and time.monotonic() > self._deadline):
            self.spent = True


class BestSoFar:
    """The best moves that a search has found, and a test whether the search can still find better moves."""

    def __init__(self, effort: EffortLeft, best_cost: float = math.inf) -> None:
        self.effort = effort
        self.best: list[float] | None = None
        self.best_cost = best_cost

    def hopeless(self, cost: float) -> bool:
        """Whether to give up: the effort is spent, or moves that cost `cost` or more cannot beat the best known."""
        return self.effort.spent or cost >= self.best_cost * (1.0 - GAP)


class Amounts(BestSoFar):
    """A search for the cheapest moves whose gains cover a need, where every item may move."""

    def __init__(self, movable: Movable, need: float, effort: EffortLeft, best_cost: float = math.inf) -> None:
        super().__init__(effort, best_cost)
        self.movable, self.need = movable, need
        self.amounts = [0.0] * len(movable.items)
        self.left_out = [0] * len(movable.items)
        """How many single moves that dominate it are not made."""
        self.any_left_out = 0

    def run(self) -> None:
        """Search until no open branch can be better than `best`, or the effort is spent."""
        if not self.hopeless(self._bound(0, self.need)):
            self._branch(0, self.need, 0.0)

    def _bound(self, level: int, rest: float) -> float:
        """`Movable.bound` without the items that are left out."""
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
        item, gain, price = movable.items[k], movable.items[k].gain, movable.items[k].cost
        # The bound is convex in the amount. It is least where this item takes over from those that are decided later
        # and cost less, so that each way out from there ends at the first amount that cannot win.
        wanted = rest - movable.ahead[level]
        above = item.ceil(wanted / gain)
        below = item.floor(above - item.step)
        runs = [] if self.left_out[k] else [(above, item.step), (below, -item.step)]
        stay_first = wanted <= 0.0
        if runs and not stay_first and below == 0.0:
            move = above * price + self._bound(level + 1, rest - above * gain)
            stay_first = move > self._bound(level + 1, rest)
        runs.insert(0 if stay_first else len(runs), (0.0, 0.0))
        limit, effort = item.limit * (1.0 + SLACK), self.effort
        for amount, stride in runs:
            # Not a function of its own, to halve the depth of recursion for many features.
            dominated = movable.dominated.get(k) if stride == 0.0 else None
            if dominated:
                self._leave_out(dominated, 1)
            while (amount > 0.0 or stride == 0.0) and amount <= limit:
                after, spent = rest - amount * gain, cost + amount * price
                # `hopeless`, without the call: this is the innermost loop.
                if effort.spent or spent + self._bound(level + 1, after) >= self.best_cost * (1.0 - GAP):
                    break
                self.amounts[k] = amount
                self._branch(level + 1, after, spent)
                if stride == 0.0 or (stride > 0.0 and after <= 0.0):
                    break
                amount = amount + stride if stride > 0.0 else item.floor(amount + stride)
            if dominated:
                self._leave_out(dominated, -1)

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
