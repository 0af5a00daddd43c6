"""Items that linear rules, a cap or shared time tie, in the order in which a search decides them.

The order is that of `app.recourse.search.knapsack_amounts`: single moves, lattices from the coarsest to the finest,
continuous items last.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.recourse.search.knapsack_amounts import SLACK


@dataclass(frozen=True, slots=True)
class TiedItem:
    """An item of a knapsack that moves by an amount, in any unit: up, which gains, or down, which loses."""

    gain: float
    """Per unit, >= 0; > 0 where no rule ties it."""
    cost: float
    """Per unit in either direction, > 0."""
    low: float
    high: float
    """Farthest moves, <= 0 and >= 0, finite for items of rules."""
    below: float
    above: float
    """Sizes of the least moves downwards and upwards, 0 for a continuous item that may move by any amount."""
    step: float
    """Distance between further moves; 0 for a continuous item."""
    uses: tuple[float, ...]
    """Of each rule per unit."""
    once: tuple[float, ...] = ()
    per: tuple[float, ...] = ()
    """Of each budget, for moving at all and per unit in either direction."""
    points: tuple[float, ...] = ()
    """All moves in order, 0 among them, where these are not on a lattice."""

    @property
    def moves_freely(self) -> bool:
        """Whether the item is continuous, at least beyond a first move."""
        return self.step == 0.0 and not self.points

    @property
    def single(self) -> bool:
        """Whether the item has only one move besides staying."""
        return self.low == 0.0 and self.high == self.above and self.step > 0.0

    @property
    def coarseness(self) -> float:
        """The cost of one step of the lattice; the cost of one unit for an item that has no lattice."""
        return self.cost * (self.step or 1.0)

    def upwards(self, amount: float) -> Iterator[float]:
        """The item's moves that are at least `amount`, in increasing order."""
        if self.points:
            yield from self.points[bisect_left(self.points, amount - SLACK) :]
            return
        slack = SLACK * self.step
        if amount < -self.below + slack and self.low < 0.0:
            tick = math.floor((-self.below - amount) / self.step + SLACK)
            while tick >= 0:
                move = -self.below - tick * self.step
                if move >= self.low - slack:
                    yield move
                tick -= 1
        if amount <= slack:
            yield 0.0
        tick = max(math.ceil((amount - self.above) / self.step - SLACK), 0)
        while (move := self.above + tick * self.step) <= self.high + slack:
            yield move
            tick += 1

    def mirrored(self) -> "TiedItem":
        """The item with up and down exchanged. Only the moves of the result are right, not its gain and its uses."""
        points = tuple(-point for point in reversed(self.points))
        return replace(self, low=-self.high, high=-self.low, below=self.above, above=self.below, points=points)


class NotCovered(Exception):
    """Raised if a knapsack cannot treat the given items, so that the general solver has to."""


class TiedItems:
    """Items, rules and budgets, arranged by level: level t decides item ``order[t]``.

    Parameters
    ----------
    slack : for each rule, how much of it the moves may use
    budgets : for each budget, how much of it the moves may use; a budget is a cap on changes or a limit on time

    Raises
    ------
    NotCovered : several rules tie the same continuous items, or a budget depends on how far a continuous item moves
    """

    def __init__(self, items: Sequence[TiedItem], slack: Sequence[float], budgets: Sequence[float]) -> None:
        self.items, self.slack, self.budgets = items, tuple(slack), tuple(budgets)
        n, rules = len(items), range(len(slack))
        value = [item.cost / item.gain if item.gain > 0.0 else math.inf for item in items]
        dearer = sorted(range(n), key=value.__getitem__)
        singles = [k for k in dearer if items[k].single and not any(items[k].uses)]
        lattices = [k for k in dearer if not items[k].moves_freely and k not in singles]
        lattices.sort(key=lambda k: -items[k].coarseness)
        self.order = [*singles, *lattices, *(k for k in dearer if items[k].moves_freely)]
        self.lattices = len(singles) + len(lattices)
        """The level after the last lattice."""
        self.mirrored = [item.mirrored() for item in items]
        is_special = [any(item.uses) or (item.moves_freely and (bool(budgets) or item.above > 0.0)) for item in items]
        level = {k: t for t, k in enumerate(self.order)}
        levels = range(self.lattices + 1)
        self.special = [[k for k in self.order[t:] if is_special[k]] for t in levels]
        """Items from a level on that rules tie, or whose range may be divided in the end."""
        self.open = [[k for k in dearer if level[k] >= t and not is_special[k]] for t in levels]
        """The other items from a level on, in order of cost per gain."""
        self.value = [[value[k] for k in left] for left in self.open]
        self.gains = [
            list(accumulate((items[k].gain * items[k].high for k in left), initial=0.0)) for left in self.open
        ]
        self.costs = [
            list(accumulate((items[k].cost * items[k].high for k in left), initial=0.0)) for left in self.open
        ]
        self.tied = [[[(r, items[k].uses[r]) for r in rules if items[k].uses[r]] for k in own] for own in self.special]
        """The rules of each of the special items from a level on, and what it uses of them."""
        self.priced = [tuple(r for r in rules if sum(items[k].uses[r] != 0.0 for k in own) > 1) for own in self.special]
        """The rules that tie several items from a level on."""
        self.least = [[sum(self._least(k, r) for k in own) for r in rules] for own in self.special]
        """What the items from a level on use of each rule at least."""
        self.reach = [sum(items[k].gain * items[k].high for k in self.order[t:]) for t in levels]
        """What the items from a level on gain at most."""
        self.before = [
            self.gains[t][self.open[t].index(k)] if k in self.open[t] else 0.0
            for t, k in enumerate(self.order[: self.lattices])
        ]
        """What the other items that cost less per gain than the one that is decided at a level gain together."""
        free = [items[k] for k in self.order[self.lattices :]]
        if len(self.priced[-1]) > 1 or any(any(item.per) for item in free):
            raise NotCovered

    def _least(self, k: int, r: int) -> float:
        item = self.items[k]
        return min(item.uses[r] * item.low, item.uses[r] * item.high) if item.uses[r] else 0.0
