"""Rules that hold in every answer: linear ones between numbers, and conditions over numbers and levels.

A *condition* consists of comparisons of numbers and tests of levels, joined by all-of and any-of; implications and
negations are resolved into these when a rule is read (`app.registry.rules`). Two numbers that differ by no more than
rounding (`RULE_TOLERANCE` of the size of their terms) count as equal, so ``a < b`` asks for more than that.

A comparison that reads a missing value or a special code, or that has no value (0 / 0), is neither true nor false. A
rule is broken only where it is false: where what it says is false, or its condition is true and its conclusion false.
Since negations are resolved, that is so where a condition of the form above is false when each part that is neither
true nor false is taken for true.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.features.arithmetic import Arrays, Sloped, Slopes
from app.recourse.features.expression import Expression

RULE_TOLERANCE = 1e-9
"""Tolerance of a rule, relative to the size of its terms; covers rounding."""

NEWTON_STEPS = 6
"""Steps by which one number is moved to where a comparison is true."""

Repaired: TypeAlias = tuple[Float[np.ndarray, "m p"], Float[np.ndarray, "m p"]]
"""Rows in which one feature was moved, and the way (-1, 0 or 1) in which to round each number."""


@dataclass(frozen=True, slots=True)
class LinearRule:
    """The rule ``coefficients_raw . row_raw <= limit`` over numeric features, or ``=`` with `equality`."""

    text: str
    coefficients_raw: tuple[float, ...]
    """(p,)"""
    limit: float
    equality: bool = False

    @property
    def features(self) -> tuple[int, ...]:
        """Indices of the features whose coefficient in the rule is not 0."""
        return tuple(j for j, one in enumerate(self.coefficients_raw) if one != 0.0)

    def holds(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows that satisfy the rule, within rounding."""
        a = np.array(self.coefficients_raw)
        excess = rows_raw @ a - self.limit
        slack = RULE_TOLERANCE * (1.0 + np.abs(rows_raw) @ np.abs(a) + abs(self.limit))
        return np.asarray((np.abs(excess) if self.equality else excess) <= slack)

    def repaired(self, rows_raw: Float[np.ndarray, "n p"], movable: Bool[np.ndarray, "p"]) -> Iterator[Repaired]:
        """Rows repaired by one number: for each movable number of the rule, an item with all rows that break the rule.

        In the rows of an item, this number is set so that the rule holds. An item also has the direction in which to
        round each number, here always 0: to the nearest.
        """
        a = np.array(self.coefficients_raw)
        excess = rows_raw @ a - self.limit
        excess = excess if self.equality else np.maximum(excess, 0.0)
        broken = excess != 0.0
        for j in np.flatnonzero((a != 0.0) & movable):
            rows = rows_raw[broken]
            rows[:, j] -= excess[broken] / a[j]
            yield rows, np.zeros(rows.shape)


@dataclass(frozen=True, slots=True)
class Input:
    """A feature that a comparison reads, and the raw numbers that stand for states of this feature."""

    name: str
    column: int
    """Its column in a raw row."""
    states_raw: tuple[float, ...]
    """Raw numbers that are no quantities: missing, special codes; the index of a missing category."""

    def in_state(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which the feature is missing or a special code."""
        return np.isin(rows_raw[:, self.column], self.states_raw)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The condition ``left <= right``, or ``left < right`` with `strict`, between numbers of a record."""

    left: Expression
    right: Expression
    strict: bool
    inputs: tuple[Input, ...]
    """Features that determine it, derived ones resolved."""
    formulas: Mapping[str, Expression] = field(hash=False)
    """The formulas of derived features that it needs, each after those that the formula needs."""

    @property
    def features(self) -> tuple[int, ...]:
        """Indices of the features that the comparison reads."""
        return tuple(one.column for one in self.inputs)

    def negated(self) -> "Comparison":
        """The comparison that is true where this one is false, and false where this one is true."""
        return replace(self, left=self.right, right=self.left, strict=not self.strict)

    def sides(self, numbers: Any, known: dict[str, Any]) -> tuple[Any, Any]:
        """Values of the left and the right side, in the kind of number that `numbers` computes with.

        Parameters
        ----------
        numbers : an `Arithmetic` whose `name` reads from `known`
        known : by name, the value of each feature in `inputs`; this method adds the values of derived features
        """
        for name, formula in self.formulas.items():
            known[name] = formula.over(numbers)
        return self.left.over(numbers), self.right.over(numbers)

    def unknown(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which an input of the comparison is missing or a special code."""
        states = [one.in_state(rows_raw) for one in self.inputs if one.states_raw]
        return np.logical_or.reduce(states) if states else np.zeros(len(rows_raw), dtype=bool)

    def allows(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which the comparison is true or undecided.

        A missing value, a special code or NaN leaves it undecided.
        """
        unknown = self.unknown(rows_raw)
        known: dict[str, Any] = {}
        for one in self.inputs:
            values = np.where(unknown, 0.0, rows_raw[:, one.column])
            known[one.name] = _Sized(values, np.abs(values))
        with np.errstate(all="ignore"):
            left, right = self.sides(_SizedNumbers(known), known)
            excess = left.value - right.value
            slack = RULE_TOLERANCE * (1.0 + left.size + right.size)
        slack = np.where(np.isfinite(slack), slack, 0.0)
        holds = excess < -slack if self.strict else excess <= slack
        return np.asarray(unknown | np.isnan(excess) | holds)

    def repaired(self, rows_raw: Float[np.ndarray, "n p"], movable: Bool[np.ndarray, "p"]) -> Iterator[Repaired]:
        """Rows repaired by one number: for each movable number, an item with all rows where the comparison is false.

        In the rows of an item, Newton's method has moved this number towards where the comparison is true; it may stop
        short of that. An item also has the direction in which to round each number: -1, 1, or 0 for the nearest.
        """
        rows_raw = rows_raw[~self.allows(rows_raw)]
        for one in self.inputs:
            if not len(rows_raw) or not movable[one.column]:
                continue
            rows = rows_raw
            for _ in range(NEWTON_STEPS):
                rows = self._moved(rows, one)
                if self.allows(rows).all():
                    break
            yield rows, np.sign(rows - rows_raw)

    def _moved(self, rows_raw: Float[np.ndarray, "n p"], one: Input) -> Float[np.ndarray, "n p"]:
        """Rows with a number moved to where the comparison would be true if it were linear in it."""
        known = {each.name: Sloped(rows_raw[:, each.column], {}) for each in self.inputs}
        known[one.name] = Sloped(rows_raw[:, one.column], {one.name: np.ones(len(rows_raw))})
        with np.errstate(all="ignore"):
            left, right = self.sides(Slopes(known), known)
            excess = left - right
            size = np.abs(left.value) + np.abs(right.value)
            beyond = 4.0 * RULE_TOLERANCE * (1.0 + size) if self.strict else 0.0
            way = (excess.value + beyond) / excess.slopes.get(one.name, np.zeros(len(rows_raw)))
        moved = rows_raw.copy()
        moved[:, one.column] -= np.where(np.isfinite(way) & ~self.allows(rows_raw), way, 0.0)
        return moved


@dataclass(frozen=True, slots=True)
class LevelTest:
    """The condition that the feature in `column` has one of the `levels`."""

    column: int
    """Its column in a raw row."""
    levels: frozenset[int]
    """Indices; that of a missing category is always one."""
    count: int
    """Number of categories, without a missing one."""

    @property
    def features(self) -> tuple[int, ...]:
        """Index of the feature that is tested, as a tuple of one."""
        return (self.column,)

    def negated(self) -> "LevelTest":
        """The test that is true where this one is false; a missing category passes both tests."""
        missing = {level for level in self.levels if level >= self.count}
        return replace(self, levels=frozenset(range(self.count)) - self.levels | missing)

    def allows(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows whose level passes the test; a missing category passes."""
        return np.isin(rows_raw[:, self.column], list(self.levels))

    def repaired(self, rows_raw: Float[np.ndarray, "n p"], movable: Bool[np.ndarray, "p"]) -> Iterator[Repaired]:
        """Rows repaired by one level: for each level that passes, an item with all rows that fail the test.

        In the rows of an item, the feature has this level. There are no items where the feature is not movable. An item
        also has the direction in which to round each number, here always 0: to the nearest.
        """
        rows_raw = rows_raw[~self.allows(rows_raw)]
        for level in sorted(self.levels) if movable[self.column] else ():
            rows = rows_raw.copy()
            rows[:, self.column] = level
            yield rows, np.zeros(rows.shape)


@dataclass(frozen=True, slots=True)
class AllOf:
    """The condition that all `parts`, which are conditions, are true."""

    parts: "tuple[Condition, ...]"

    def negated(self) -> "AnyOf":
        """The condition that is true where this one is false."""
        return AnyOf(tuple(part.negated() for part in self.parts))

    def allows(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which every part is true or undecided."""
        return np.logical_and.reduce([part.allows(rows_raw) for part in self.parts])


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The condition that at least one of the `parts`, which are conditions, is true."""

    parts: "tuple[Condition, ...]"

    def negated(self) -> AllOf:
        """The condition that is true where this one is false."""
        return AllOf(tuple(part.negated() for part in self.parts))

    def allows(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which at least one part is true or undecided."""
        return np.logical_or.reduce([part.allows(rows_raw) for part in self.parts])


Condition: TypeAlias = Comparison | LevelTest | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class LogicRule:
    """Holds if `condition` is true of a record, or cannot be decided because of a missing value or special code."""

    text: str
    condition: Condition

    @property
    def features(self) -> tuple[int, ...]:
        """Indices of the features that the condition reads."""
        return tuple({column for part in parts_of(self.condition) for column in part.features})

    def holds(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which the condition is true or undecided."""
        return self.condition.allows(rows_raw)

    def repaired(self, rows_raw: Float[np.ndarray, "n p"], movable: Bool[np.ndarray, "p"]) -> Iterator[Repaired]:
        """The repaired rows of each comparison and level test in the condition, from all rows that break the rule.

        In the rows of an item, one feature is moved so that one comparison or level test is true. An item also has the
        direction in which to round each number: -1, 1, or 0 for the nearest.
        """
        rows_raw = rows_raw[~self.holds(rows_raw)]
        if len(rows_raw):
            for part in parts_of(self.condition):
                yield from part.repaired(rows_raw, movable)


Rule: TypeAlias = LinearRule | LogicRule


def parts_of(condition: Condition) -> Iterator[Comparison | LevelTest]:
    """The comparisons and level tests in a condition, from left to right."""
    if isinstance(condition, AllOf | AnyOf):
        for part in condition.parts:
            yield from parts_of(part)
    else:
        yield condition


@dataclass(frozen=True, slots=True)
class _Sized:
    """A value, and the size of the terms that it comes from, which its rounding is relative to."""

    value: Any
    size: Any

    def __neg__(self) -> "_Sized":
        return _Sized(-self.value, self.size)

    def __add__(self, other: "_Sized") -> "_Sized":
        return _Sized(self.value + other.value, self.size + other.size)

    def __sub__(self, other: "_Sized") -> "_Sized":
        return _Sized(self.value - other.value, self.size + other.size)

    def __mul__(self, other: "_Sized") -> "_Sized":
        return _Sized(self.value * other.value, self.size * other.size)

    def __truediv__(self, other: "_Sized") -> "_Sized":
        value = self.value / (other.value + 0.0)  # -0.0 is 0.0
        return _Sized(value, (self.size + np.abs(value) * other.size) / np.abs(other.value))


@dataclass(frozen=True, slots=True)
class _SizedNumbers:
    known: dict[str, _Sized]

    def constant(self, value: float) -> _Sized:
        return _Sized(np.float64(value), abs(value))

    def name(self, name: str) -> _Sized:
        return self.known[name]

    def level(self, name: str, numbers: tuple[float, ...]) -> _Sized:
        value = Arrays({name: self.known[name].value}).level(name, numbers)
        return _Sized(value, np.abs(value))

    def lesser(self, one: _Sized, other: _Sized) -> _Sized:
        value = Arrays({}).lesser(one.value, other.value)
        return _Sized(value, np.maximum(one.size, other.size))
