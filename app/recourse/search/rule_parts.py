"""Parts of an action set and what the conditions of rules say in them.

A *part* is a box (ranges of numbers, levels of categories) and conditions that hold in it. In a box every comparison
has linear consequences (`app.recourse.search.enclosures`), its *cuts*; those of a linear comparison say all that it
says.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import lattice_point, tick_slack
from app.recourse.actions.rules import AllOf, AnyOf, Comparison, Condition, LevelTest
from app.recourse.search.enclosures import Enclosure, Quotient, Quotients, Range, Unbounded, Variable

ROUNDING = 1e-8
"""Excess of a difference, relative to its terms, that may be rounding."""
PASSES = 3
"""How often ranges are narrowed by conditions."""
NARROW = 1e-12
"""Relative width of a range that is not divided."""


@dataclass(frozen=True)
class Part:
    """A part of the action set: ranges of its numbers, levels of its categories, and conditions that its rows meet."""

    lower_raw: Float[np.ndarray, "p"]
    upper_raw: Float[np.ndarray, "p"]
    """Ranges of what is encoded as a number."""
    levels: dict[int, frozenset[int]]
    """Of each category."""
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Cut:
    """A linear inequality ``slopes . variables <= limit`` that holds for all legal rows in a part of the action set."""

    slopes: dict[Variable, float]
    limit: float
    strict: bool
    rounding: float
    """What counts as rounding of the left side."""
    exact: bool
    """Whether it says all that the comparison says."""


class Empty(Exception):
    """Raised where a part of the action set has no legal row."""


class Parts:
    """Narrows and divides parts of one action set, and derives linear cuts that hold in a part.

    Parameters
    ----------
    start_raw : the applicant's row
    whole : the part that is the whole action set
    """

    def __init__(self, action_set: ActionSet, start_raw: Float[np.ndarray, "p"], whole: Part) -> None:
        self.actions, self.start_raw, self.whole = action_set, start_raw, whole
        self._column = {name: j for j, name in enumerate(action_set.space.names)}

    def tightened(self, part: Part) -> Part:
        """The part with the values that its conditions can allow, and of alternatives those that may be true in it.

        Raises
        ------
        Empty : the conditions exclude each other
        """
        for _ in range(PASSES):
            before, waiting, kept = part, list(part.conditions), list[Condition]()
            part = replace(
                part, lower_raw=part.lower_raw.copy(), upper_raw=part.upper_raw.copy(), levels={**part.levels}
            )
            while waiting:
                condition = waiting.pop(0)
                if isinstance(condition, AllOf):
                    waiting = [*condition.parts, *waiting]
                elif isinstance(condition, AnyOf):
                    possible = tuple(one for one in condition.parts if self._is_possible(part, one))
                    if not possible:
                        raise Empty
                    if len(possible) == 1:
                        waiting.append(possible[0])
                    else:
                        kept.append(AnyOf(possible))
                elif isinstance(condition, LevelTest):
                    part.levels[condition.column] &= condition.levels
                    if not part.levels[condition.column]:
                        raise Empty
                else:
                    for cut in self.cuts(part, condition):
                        self._narrow(part, cut)
                    kept.append(condition)
            part = replace(part, conditions=tuple(kept))
            same = (part.lower_raw == before.lower_raw) & (part.upper_raw == before.upper_raw)
            if same.all() and part.levels == before.levels:
                break
        return part

    def pieces(self, j: int, low: float, high: float, at: float, *, known: bool) -> list[Range]:
        """The range from `low` to `high` of number `j`, divided in two at or near the value `at`.

        Parameters
        ----------
        known : whether a cut of the comparison is known; if not, a range that contains both signs is divided at 0
        """
        step, width = float(self.actions.step_raw[j]), high - low
        at = min(max(at, low + 0.2 * width), high - 0.2 * width)
        if not known and low < 0.0 < high:  # the sign decides what multiplying by it means
            at = 0.0
        if step == 0.0:
            return [(low, at), (at, high)]
        at = self._inward(j, at, 1.0)
        return [(low, at), (self._inward(j, at + 1e-3 * step, -1.0), high)]

    def widest(self, part: Part, comparison: Comparison) -> int | None:
        """The index of the feature with the widest range left, of those compared; None if every range is narrow."""
        scores: dict[int, float] = {}
        for one in comparison.inputs:
            j = one.column
            if self._is_unknown(part, replace(comparison, inputs=(one,))) is None:
                return j
            if j in part.levels:
                scores[j] = float(len(part.levels[j]) > 1)
            else:
                width = self.whole.upper_raw[j] - self.whole.lower_raw[j]
                narrow = NARROW * max(1.0, abs(part.lower_raw[j]), abs(part.upper_raw[j]))
                left = part.upper_raw[j] - part.lower_raw[j]
                scores[j] = float(left / width) if left > narrow else 0.0
        best = max(scores, key=lambda j: scores[j])
        return best if scores[best] > 0.0 else None

    def _is_possible(self, part: Part, condition: Condition) -> bool:
        """Whether a condition is not plainly false in a part."""
        try:
            self.tightened(replace(part, conditions=(condition,)))
        except Empty:
            return False
        return True

    def _only_row(self, part: Part, comparison: Comparison) -> Float[np.ndarray, "p"] | None:
        """A row of the part, if what the comparison reads is the same in all of them."""
        row_raw = part.lower_raw.copy()
        for one in comparison.inputs:
            j = one.column
            if j in part.levels:
                if len(part.levels[j]) > 1:
                    return None
                (row_raw[j],) = part.levels[j]
            elif part.lower_raw[j] < part.upper_raw[j]:
                return None
        return row_raw

    def _is_unknown(self, part: Part, comparison: Comparison) -> bool | None:
        """Whether a comparison reads what is missing or a special code; None where that is open."""
        found: bool | None = False
        for one in comparison.inputs:
            j = one.column
            if j in part.levels:
                states = part.levels[j] & {int(state) for state in one.states_raw}
                missing, sure = bool(states), states == part.levels[j]
            else:
                missing = sure = float(self.start_raw[j]) in one.states_raw  # a number stays in its state
            if sure:
                return True
            if missing:
                found = None
        return found

    def cuts(self, part: Part, comparison: Comparison) -> list[Cut]:
        """Linear inequalities that follow from a comparison in a part; an empty list if none is known.

        Raises
        ------
        Empty : the comparison is false everywhere in the part
        """
        if self._is_unknown(part, comparison) is not False:
            return []
        row_raw = self._only_row(part, comparison)
        if row_raw is not None:
            if comparison.allows(row_raw[None])[0]:
                return []
            raise Empty
        try:
            differences = {frozenset[Variable](): self._difference(part, comparison, frozenset())}
            slopes = differences[frozenset()].over.slopes
            if curved := frozenset(variable for variable, (low, high) in slopes.items() if low != high):
                differences[curved] = self._difference(part, comparison, curved)
        except Unbounded:
            return []
        cuts = (self._cut(part, comparison.strict, one, corner) for corner, one in differences.items())
        return [cut for cut in cuts if cut is not None]

    def _cut(self, part: Part, strict: bool, difference: Quotient, corner: frozenset[Variable]) -> Cut | None:
        """That a difference is at most 0, as a cut; None where the sign of its denominator is open."""
        over = difference.numerator()
        if over is None:
            return None
        rounding = ROUNDING * (over.size + difference.under.size)
        slopes: dict[Variable, float] = {}
        limit, least = -over.anchor, over.anchor
        for variable, ends in over.slopes.items():
            first, last = self._range(part, variable)
            slope, at = (ends[1], last) if variable in corner else (ends[0], first)
            slopes[variable] = slope
            limit += slope * at
            least += min(slope * (first - at), slope * (last - at))
        if not math.isfinite(limit + rounding):
            return None
        if max(least, over.range[0]) > rounding:
            raise Empty
        # Where the denominator is 0, so may the numerator be, and then the comparison is neither true nor false.
        positive = difference.under.range[0] > 0.0 or difference.under.range[1] < 0.0
        return Cut(slopes, limit, strict and positive, rounding, over.is_linear and (positive or not strict))

    def _difference(self, part: Part, comparison: Comparison, corner: frozenset[Variable]) -> Quotient:
        """Left minus right side in a part.

        Parameters
        ----------
        corner : variables that are anchored at the upper end of their range; the others are at the lower end

        Raises
        ------
        Unbounded : a divisor whose sign is open cannot be multiplied out
        """

        def enclosed(variable: Variable) -> Quotient:
            low, high = self._range(part, variable)
            slopes = {variable: (1.0, 1.0)} if low < high else {}
            anchor = high if variable in corner else low
            return Quotient(Enclosure((low, high), anchor, slopes, max(abs(low), abs(high))))

        def of_level(name: str, numbers: tuple[float, ...]) -> Quotient:
            j = self._column[name]
            if j in part.levels:
                return enclosed(Variable(j, numbers))
            low, high = int(part.lower_raw[j]), int(part.upper_raw[j])
            at = high if Variable(j) in corner else low
            possible = numbers[low : high + 1]
            secants = [(numbers[k] - numbers[at]) / (k - at) for k in range(low, high + 1) if k != at]
            slopes = {Variable(j): (min(secants), max(secants))} if secants else {}
            return Quotient(Enclosure((min(possible), max(possible)), numbers[at], slopes, max(map(abs, possible))))

        known = {one.name: enclosed(Variable(one.column)) for one in comparison.inputs if one.column not in part.levels}
        left, right = comparison.sides(Quotients(known, of_level), known)
        return left - right

    def _range(self, part: Part, variable: Variable) -> Range:
        if variable.numbers:
            numbers = [variable.numbers[level] for level in part.levels[variable.column]]
            return min(numbers), max(numbers)
        return float(part.lower_raw[variable.column]), float(part.upper_raw[variable.column])

    def _narrow(self, part: Part, cut: Cut) -> None:
        """Narrow the ranges of a part to what a cut leaves of them; raises `Empty` if that is nothing."""
        ranges = {variable: self._range(part, variable) for variable in cut.slopes}
        least = sum(min(slope * end for end in ranges[variable]) for variable, slope in cut.slopes.items())
        room = cut.limit + cut.rounding - least
        for variable, slope in cut.slopes.items():
            (low, high), j = ranges[variable], variable.column
            if variable.numbers or slope == 0.0:
                continue
            if slope > 0.0 and low + room / slope < high:
                part.upper_raw[j] = min(part.upper_raw[j], self._inward(j, low + room / slope, 1.0))
            elif slope < 0.0 and high + room / slope > low:
                part.lower_raw[j] = max(part.lower_raw[j], self._inward(j, high + room / slope, -1.0))
            if part.lower_raw[j] > part.upper_raw[j]:
                raise Empty

    def _inward(self, j: int, end: float, way: float) -> float:
        """The last value that a number can have before the end of a range."""
        step, anchor, fact = (float(one[j]) for one in (self.actions.step_raw, self.actions.anchor_raw, self.start_raw))
        if step == 0.0:
            return end
        tick = way * (end - anchor) / step
        point = lattice_point(int(way * math.floor(tick + float(tick_slack(tick)))), anchor, step)
        return way * max(way * point, way * fact) if way * fact <= way * end else point
