"""Numbers known to lie in a range, with what they differ by from one point to the others of a box.

An *enclosure* of a function over a box is its range, its value at one corner of the box (the *anchor*), and for each
variable a range of slopes: somewhere in these ranges there are slopes with which the function is linear from the anchor
to any given point (Krawczyk and Neumaier's slopes). Where the slopes have one value, the function is linear in the box.
Because the anchor is a corner, the lowest slopes of variables that grow and the highest of those that fall give a
linear function that lies nowhere above.

Quotients are kept as quotients, so that the caller can multiply out a denominator whose sign it knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an enclosure: a feature's raw number, or the number that a table assigns to a category's level."""

    column: int
    """Of a raw row."""
    numbers: tuple[float, ...] = ()
    """By the index of the level."""


class Unbounded(ValueError):
    """Raised where a quotient has no bounds, since its denominator may be zero."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Bounds on a number, and on its slope in each variable, over a box of values of the variables."""

    range: Range
    anchor: float
    """At the anchor."""
    slopes: Mapping[Variable, Range]
    size: float
    """Largest size of the terms that it comes from; its rounding is relative to that."""

    @property
    def is_linear(self) -> bool:
        """Whether the number is a linear function of its variables."""
        return all(low == high for low, high in self.slopes.values())

    def __add__(self, other: "Enclosure") -> "Enclosure":
        slopes = _combined((1.0, 1.0), self.slopes, 1.0, other.slopes)
        return Enclosure(_plus(self.range, other.range), self.anchor + other.anchor, slopes, self.size + other.size)

    def __mul__(self, other: "Enclosure") -> "Enclosure":
        # f g - f0 g0 = f (g - g0) + g0 (f - f0), or the same with f and g exchanged.
        one = _combined(self.range, other.slopes, other.anchor, self.slopes)
        two = _combined(other.range, self.slopes, self.anchor, other.slopes)
        slopes = one if _width(one) <= _width(two) else two
        return Enclosure(_times(self.range, other.range), self.anchor * other.anchor, slopes, self.size * other.size)

    def reciprocal(self) -> "Enclosure":
        """The enclosure of 1 divided by this number. Raises `Unbounded` if this number may be zero."""
        low, high = self.range
        if low <= 0.0 <= high:
            raise Unbounded
        inverse: Range = (1.0 / high, 1.0 / low)
        # 1/g - 1/g0 = -(g - g0) / (g g0)
        factor = _times(inverse, (-1.0 / self.anchor, -1.0 / self.anchor))
        slopes = {v: _times(factor, slope) for v, slope in self.slopes.items()}
        return Enclosure(inverse, 1.0 / self.anchor, slopes, self.size * max(inverse[1] ** 2, inverse[0] ** 2))

    def lesser(self, other: "Enclosure") -> "Enclosure":
        """The enclosure of the minimum of this number and the other number."""
        if self.range[1] <= other.range[0]:
            return self
        if other.range[1] <= self.range[0]:
            return other
        slopes = {}
        for v in {**self.slopes, **other.slopes}:
            ends = (*self.slopes.get(v, (0.0, 0.0)), *other.slopes.get(v, (0.0, 0.0)))
            slopes[v] = (min(ends), max(ends))
        range_ = (min(self.range[0], other.range[0]), min(self.range[1], other.range[1]))
        return Enclosure(range_, min(self.anchor, other.anchor), slopes, max(self.size, other.size))


def constant(value: float) -> Enclosure:
    """The enclosure of a number that depends on no variable."""
    return Enclosure((value, value), value, {}, abs(value))


ONE, MINUS = constant(1.0), constant(-1.0)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A number as one enclosure divided by another."""

    over: Enclosure
    under: Enclosure = ONE
    unsigned: bool = True
    """Whether no divisor in it is negative, so that where one is 0 the sign of `over` is that of the infinite value."""

    def __add__(self, other: "Quotient") -> "Quotient":
        if self.under is other.under:
            return Quotient(self.over + other.over, self.under, self.unsigned)
        over = _product(self.over, other.under) + _product(other.over, self.under)
        return Quotient(over, _product(self.under, other.under), self.unsigned and other.unsigned)

    def __neg__(self) -> "Quotient":
        return Quotient(MINUS * self.over, self.under, self.unsigned)

    def __sub__(self, other: "Quotient") -> "Quotient":
        return self + -other

    def __mul__(self, other: "Quotient") -> "Quotient":
        over, under = _product(self.over, other.over), _product(self.under, other.under)
        return Quotient(over, under, self.unsigned and other.unsigned)

    def __truediv__(self, other: "Quotient") -> "Quotient":
        over, under = _product(self.over, other.under), _product(self.under, other.over)
        return Quotient(over, under, self.unsigned and other.unsigned and other.over.range[0] >= 0.0)

    def number(self) -> Enclosure:
        """The quotient as one enclosure. Raises `Unbounded` if the denominator may be zero."""
        return self.over if self.under is ONE else self.over * self.under.reciprocal()

    def numerator(self) -> Enclosure | None:
        """The numerator, negated if the denominator is negative; None if the denominator's sign is not known."""
        low, high = self.under.range
        if low > 0.0 or (low == 0.0 and self.unsigned):
            return self.over
        return MINUS * self.over if high < 0.0 else None


@dataclass(frozen=True, slots=True)
class Quotients:
    """The arithmetic that evaluates an expression to a `Quotient`.

    Parameters
    ----------
    known : the quotient of each name in the expression
    of_level : a function that takes a category's name and the number of each of its levels; it returns the number of
        the level that the category has, as a quotient
    """

    known: dict[str, Quotient]
    of_level: Callable[[str, tuple[float, ...]], Quotient]

    def constant(self, value: float) -> Quotient:
        """A constant as a quotient; it depends on no variable."""
        return Quotient(constant(value))

    def name(self, name: str) -> Quotient:
        """The quotient that a name stands for."""
        return self.known[name]

    def level(self, name: str, numbers: tuple[float, ...]) -> Quotient:
        """The number that belongs to the level of category `name`, as a quotient.

        Parameters
        ----------
        numbers : the number of each level of the category, in the order of the levels
        """
        return self.of_level(name, numbers)

    def lesser(self, one: Quotient, other: Quotient) -> Quotient:
        """The minimum of two quotients. Raises `Unbounded` if a denominator may be zero."""
        return Quotient(one.number().lesser(other.number()))


def _product(one: Enclosure, other: Enclosure) -> Enclosure:
    """The product; a factor of 1 is left out, so that denominators stay the same object."""
    if other is ONE:
        return one
    return other if one is ONE else one * other


def _combined(
    first: Range, slopes: Mapping[Variable, Range], second: float, others: Mapping[Variable, Range]
) -> dict[Variable, Range]:
    """``first * slopes + second * others``."""
    total = {v: _times(first, slope) for v, slope in slopes.items()}
    for v, slope in others.items():
        total[v] = _plus(total.get(v, (0.0, 0.0)), _times((second, second), slope))
    return total


def _width(slopes: Mapping[Variable, Range]) -> float:
    return sum(high - low for low, high in slopes.values())


def _plus(one: Range, other: Range) -> Range:
    return one[0] + other[0], one[1] + other[1]


def _times(one: Range, other: Range) -> Range:
    products = [0.0 if 0.0 in (a, b) else a * b for a in one for b in other]  # nothing times anything is nothing
    return min(products), max(products)
