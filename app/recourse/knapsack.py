"""Covering knapsack: moves of least cost whose gains reach a need.

``min sum_i cost_i x_i  subject to  sum_i gain_i x_i >= need``, where each ``x_i`` is 0, or between `first` and `limit`
on a lattice (or anything up to `limit`), and at most so many ``x_i`` are not 0. Depth-first branch and bound in order
of cost per gain, with the fractional knapsack as the bound (Martello and Toth, "Knapsack Problems", 1990, chapter 2),
and the cap on the number of moves relaxed to a price.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look."""

    gap: float
    """Relative: moves cheaper by less than this are not looked for."""
    nodes: int
    """Branches after which the search stops."""


EXACT = Effort(gap=1e-6, nodes=20_000)
QUICK = Effort(gap=1e-2, nodes=200)
SLACK = 1e-9
"""The need is met up to this share of it, so that rounding does not cost a whole step."""


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
    """Largest move; on the lattice, or infinite."""
    uses: int = 1
    """1 if moving it counts towards the cap, else 0."""

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


def most_gain(items: list[Item], uses: int) -> float:
    """The gain of moving everything as far as it goes, with at most `uses` items that count."""
    counted = sorted((item.gain * item.limit for item in items if item.uses), reverse=True)
    return sum(counted[: max(uses, 0)]) + sum(item.gain * item.limit for item in items if not item.uses)


def cover(items: list[Item], need: float, uses: int, effort: Effort = EXACT) -> tuple[list[float] | None, bool]:
    """The cheapest moves, one per item, whose gains sum to at least `need`.

    Amounts of continuous items are settled last, by filling in order, which is exact once it is known which of them
    may be used. Of single moves only those are left out that no taken one is worse than.

    Parameters
    ----------
    items : sorted by cost per gain
    uses : how many items that count may move, >= 0

    Returns
    -------
    moves : one per item, the best known; None where none are known
    settled : whether nothing cheaper by more than the gap exists; then None means that nothing reaches `need`
    """
    branching = _Branching(items, need * (1.0 - SLACK), uses, effort)
    if branching.best is not None:
        _top_up(items, branching.best, need)
    return branching.best, branching.nodes <= effort.nodes


def _top_up(items: list[Item], moves: list[float], need: float) -> None:
    """Let continuous items make up for the slack, which is meant for lattices."""
    short = need - sum(item.gain * amount for item, amount in zip(items, moves, strict=True))
    for k, item in enumerate(items):
        if short > 0.0 and item.step == 0.0 and 0.0 < moves[k] < item.limit:
            more = min(short / item.gain, item.limit - moves[k])
            moves[k] += more
            short -= more * item.gain


class _Branching:
    def __init__(self, items: list[Item], need: float, uses: int, effort: Effort) -> None:
        n = len(items)
        self.items, self.effort = items, effort
        self.full = [item.gain * item.limit for item in items]
        self.full_before = list(accumulate(self.full, initial=0.0))
        self.cost_before = list(accumulate((item.cost * item.limit for item in items), initial=0.0))
        self.finite = self.full_before[-1] < math.inf
        self.capped = uses < sum(item.uses for item in items)
        caps = range(uses + 1) if self.capped else [n]
        self.most = [[most_gain(items[i:], cap) for cap in caps] for i in range(n + 1)]
        # dominated[i]: later single moves that gain no more and cost no less than the single move i
        self.dominated = [
            [
                k
                for k in range(i + 1, n)
                if item.single
                and items[k].single
                and items[k].uses >= item.uses
                and self.full[k] <= self.full[i]
                and items[k].cost * items[k].limit >= item.cost * item.limit
            ]
            for i, item in enumerate(items)
        ]
        self.left_out = [0] * n
        self.any_left_out = 0
        self.usable: list[int] = []
        self.amounts = [0.0] * n
        self.best: list[float] | None = [0.0] * n if need <= 0.0 else None
        self.best_cost = math.inf if need > 0.0 else 0.0
        self.nodes = 0
        self.all_count = all(item.uses for item in items)
        self.price, self.by_price = 0.0, list(range(n))
        if self.capped and need > 0.0:
            self.price = self._best_price(need, uses)
            self._sort_by(self.price)
        if need > 0.0:
            self._consider(0, need, 0.0, uses)

    def _fill(self, i: int, rest: float, amounts: list[float] | None = None) -> float:
        """Least cost of covering `rest` with the usable items and, as if they were continuous, items i.. on."""
        items, full, left_out, cost = self.items, self.full, self.left_out, 0.0
        if rest <= 0.0:
            return 0.0
        if amounts is None and self.finite and not self.usable and not self.any_left_out:
            return self._fill_from(i, rest)
        for k in (*self.usable, *range(i, len(items))):
            if left_out[k]:
                continue
            if full[k] >= rest:
                if amounts is not None:
                    amounts[k] = rest / items[k].gain
                return cost + rest / items[k].gain * items[k].cost
            cost += items[k].limit * items[k].cost
            rest -= full[k]
            if amounts is not None:
                amounts[k] = items[k].limit
        return math.inf

    def _fill_from(self, i: int, rest: float) -> float:
        """`_fill` where all of items i.. on may be used, and no others."""
        target = self.full_before[i] + rest
        last = bisect_left(self.full_before, target, i + 1) - 1
        if last == len(self.items):
            return math.inf
        item = self.items[last]
        partly = (target - self.full_before[last]) / item.gain * item.cost
        return self.cost_before[last] - self.cost_before[i] + partly

    def _sort_by(self, price: float) -> None:
        self.by_price = sorted(
            range(len(self.items)),
            key=lambda k: self.items[k].cost / self.items[k].gain + price * self.items[k].uses / self.full[k],
        )

    def _best_price(self, need: float, uses: int) -> float:
        """The price per use of an item, in place of the cap, that gives the highest bound at the root."""
        best, best_bound = 0.0, -math.inf
        scale = self._fill(0, need) / max(uses, 1)
        for price in (scale * 2.0**power for power in range(-4, 5)):
            self._sort_by(price)
            if (bound := self._priced_fill(0, need, uses, price)) > best_bound:
                best, best_bound = price, bound
        return best

    def _priced_fill(self, i: int, rest: float, left: int, price: float) -> float:
        """A bound like `_fill` that knows how few items may move: each pays a price for its share of a use.

        Lagrangian relaxation of the cap, valid for every price >= 0.
        """
        items, full, usable = self.items, self.full, self.usable
        cost = -price * (left + sum(items[k].uses for k in usable))
        for k in self.by_price:
            if (k < i and k not in usable) or self.left_out[k]:
                continue
            per_use = price * items[k].uses
            if full[k] >= rest:
                return cost + rest * (items[k].cost / items[k].gain + per_use / full[k])
            cost += items[k].limit * items[k].cost + per_use
            rest -= full[k]
        return math.inf

    def _one_item(self, i: int, rest: float) -> float:
        """Cost of covering `rest` with one of the items i.. alone, as if it were continuous."""
        return min(
            (
                rest / self.items[k].gain * self.items[k].cost
                for k in range(i, len(self.items))
                if self.full[k] >= rest and not self.left_out[k]
            ),
            default=math.inf,
        )

    def _bound(self, i: int, rest: float, left: int) -> float:
        if not self.capped or rest <= 0.0:
            return self._fill(i, rest)
        if left <= 1 and self.all_count and not self.usable:
            return self._one_item(i, rest) if left else math.inf
        return max(self._fill(i, rest), self._priced_fill(i, rest, left, self.price))

    def _hopeless(self, cost: float) -> bool:
        return cost >= self.best_cost * (1.0 - self.effort.gap) or self.nodes > self.effort.nodes

    def _consider(self, i: int, rest: float, cost: float, left: int) -> None:
        """Branch unless that is hopeless."""
        self.nodes += 1
        if not self._hopeless(cost + self._bound(i, rest, left)):
            self._branch(i, rest, cost, left)

    def _branch(self, i: int, rest: float, cost: float, left: int) -> None:
        """Try everything that items i.. can do; those before cost `cost` and leave `rest` to gain."""
        if i == len(self.items) or rest <= 0.0:
            self.best = self.amounts.copy()
            self.best_cost = cost + self._fill(len(self.items), rest, self.best)
            return
        usable = sum(self.full[k] for k in self.usable) if self.usable else 0.0
        if self.most[i][left if self.capped else 0] + usable < rest:
            return
        item = self.items[i]
        if item.step == 0.0:
            self._branch_continuous(i, rest, cost, left)
            return
        if left >= item.uses and not self.left_out[i]:
            # The bound is convex in the amount, least where this item takes over from the usable ones, so each way
            # out from there ends at the first amount that cannot win.
            above = item.ceil((rest - usable) / item.gain)
            self._try_amounts(i, rest, cost, left, above, item.step)
            self._try_amounts(i, rest, cost, left, item.floor(above - item.step), -item.step)
        self.amounts[i] = 0.0
        self._leave_out(self.dominated[i], 1)
        self._consider(i + 1, rest, cost, left)
        self._leave_out(self.dominated[i], -1)

    def _leave_out(self, items: list[int], more: int) -> None:
        self.any_left_out += more * len(items)
        for k in items:
            self.left_out[k] += more

    def _branch_continuous(self, i: int, rest: float, cost: float, left: int) -> None:
        item = self.items[i]
        if left >= item.uses:
            self.usable.append(i)
            self._consider(i + 1, rest, cost, left - item.uses)
            self.usable.pop()
        if self.capped and item.uses:
            self._consider(i + 1, rest, cost, left)

    def _try_amounts(self, i: int, rest: float, cost: float, left: int, amount: float, stride: float) -> None:
        """Branch on amounts of lattice item `i` from `amount` on, `stride` apart."""
        item = self.items[i]
        while 0.0 < amount <= item.limit * (1.0 + SLACK):
            after, spent = rest - amount * item.gain, cost + amount * item.cost
            if self._hopeless(spent + self._bound(i + 1, after, left - item.uses)):
                return
            self.amounts[i] = amount
            self.nodes += 1
            self._branch(i + 1, after, spent, left - item.uses)
            if stride > 0.0 and after <= 0.0:
                return
            amount = amount + stride if stride > 0.0 else item.floor(amount + stride)
