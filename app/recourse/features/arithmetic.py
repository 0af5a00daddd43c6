"""Kinds of numbers that an expression is evaluated with: arrays, arrays with slopes, linear functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class Arithmetic(Protocol):
    """A kind of number in which formulas are evaluated: it makes and compares numbers that have Python's operators."""

    def constant(self, value: float) -> Any:
        """The number for a constant `value` in a formula."""

    def name(self, name: str) -> Any:
        """The value of the feature `name`."""

    def level(self, name: str, numbers: tuple[float, ...]) -> Any:
        """The entry of `numbers` at the level of the feature `name`."""

    def lesser(self, one: Any, other: Any) -> Any:
        """The smaller of two numbers; `one` where they are equal."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arithmetic on arrays, one value per record; the value of a feature with levels is the index of its level."""

    values: Mapping[str, Float[np.ndarray, "*n"]]

    def constant(self, value: float) -> Any:
        """`value` as a scalar of numpy, which divides by zero without an error."""
        return np.float64(value)

    def name(self, name: str) -> Any:
        """The values of the feature `name`, as floats."""
        return np.asarray(self.values[name], dtype=float)

    def level(self, name: str, numbers: tuple[float, ...]) -> Any:
        """The entry of `numbers` at each record's level of the feature `name`."""
        return np.array(numbers)[np.asarray(self.values[name]).astype(np.intp)]

    def lesser(self, one: Any, other: Any) -> Any:
        """The smaller of two arrays, element by element; NaN where either is NaN."""
        return np.where((other < one) | np.isnan(other), other, one)


@dataclass(frozen=True, slots=True)
class Sloped:
    """Values of a formula, and by feature name its partial derivatives ("slopes"), element by element."""

    value: Any
    slopes: Mapping[str, Any]

    def _with(self, value: Any, own: Any, other: "Sloped", others: Any) -> "Sloped":
        slopes = {name: own * slope for name, slope in self.slopes.items()}
        for name, slope in other.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + others * slope
        return Sloped(value, slopes)

    def __neg__(self) -> "Sloped":
        return Sloped(-self.value, {name: -slope for name, slope in self.slopes.items()})

    def __add__(self, other: "Sloped") -> "Sloped":
        return self._with(self.value + other.value, 1.0, other, 1.0)

    def __sub__(self, other: "Sloped") -> "Sloped":
        return self._with(self.value - other.value, 1.0, other, -1.0)

    def __mul__(self, other: "Sloped") -> "Sloped":
        return self._with(self.value * other.value, other.value, other, self.value)

    def __truediv__(self, other: "Sloped") -> "Sloped":
        value = self.value / other.value
        return self._with(value, 1.0 / other.value, other, -value / other.value)

    def lesser(self, other: "Sloped") -> "Sloped":
        """The smaller of the two values, element by element, with its slopes; `self` where they are equal."""
        second = other.value < self.value
        value = np.where(second, other.value, self.value)
        return self._with(value, np.where(second, 0.0, 1.0), other, np.where(second, 1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Slopes:
    """Arithmetic on arrays together with their partial derivatives; that by a feature with levels is 0."""

    values: Mapping[str, Sloped]

    def constant(self, value: float) -> Sloped:
        """A constant; all of its slopes are 0."""
        return Sloped(np.float64(value), {})

    def name(self, name: str) -> Sloped:
        """The value of the feature `name`, with its slopes."""
        return self.values[name]

    def level(self, name: str, numbers: tuple[float, ...]) -> Sloped:
        """The entry of `numbers` at each record's level of the feature `name`, without slopes."""
        return Sloped(Arrays({name: self.values[name].value}).level(name, numbers), {})

    def lesser(self, one: Sloped, other: Sloped) -> Sloped:
        """The smaller of the two values, element by element, with its slopes."""
        return one.lesser(other)


class NotLinear(ValueError):
    """Raised where a product of names, a quotient, a min or max of names, or a level makes a formula not linear."""


@dataclass(frozen=True, slots=True)
class LinearForm:
    """A linear function of feature values: a weight for each name, and a constant."""

    weights: Mapping[str, float]
    constant: float

    def __neg__(self) -> "LinearForm":
        return self._times(-1.0)

    def __add__(self, other: "LinearForm") -> "LinearForm":
        weights = dict(self.weights)
        for name, weight in other.weights.items():
            weights[name] = weights.get(name, 0.0) + weight
        return LinearForm(weights, self.constant + other.constant)

    def __sub__(self, other: "LinearForm") -> "LinearForm":
        return self + -other

    def __mul__(self, other: "LinearForm") -> "LinearForm":
        if self.weights and other.weights:
            raise NotLinear
        return other._times(self.constant) if other.weights else self._times(other.constant)

    def __truediv__(self, other: "LinearForm") -> "LinearForm":
        if other.weights or other.constant == 0.0:
            raise NotLinear
        weights = {name: weight / other.constant for name, weight in self.weights.items()}
        return LinearForm(weights, self.constant / other.constant)

    def _times(self, factor: float) -> "LinearForm":
        return LinearForm({name: weight * factor for name, weight in self.weights.items()}, self.constant * factor)


@dataclass(frozen=True, slots=True)
class LinearForms:
    """Arithmetic on linear functions of feature values.

    Parameters
    ----------
    known : linear forms that stand for names
    """

    known: Mapping[str, LinearForm] = field(default_factory=dict)

    def constant(self, value: float) -> LinearForm:
        """The linear form of a constant: no name has a weight in it."""
        return LinearForm({}, value)

    def name(self, name: str) -> LinearForm:
        """The linear form that `known` has for `name`, or else the form that is the feature `name` itself."""
        return self.known.get(name) or LinearForm({name: 1.0}, 0.0)

    def level(self, name: str, numbers: tuple[float, ...]) -> LinearForm:  # noqa: ARG002 - as in Arithmetic
        """Raises `NotLinear`, because the numbers of levels lie on no line."""
        raise NotLinear

    def lesser(self, one: LinearForm, other: LinearForm) -> LinearForm:
        """The smaller of two constants. Raises `NotLinear` where one of them is no constant."""
        if one.weights or other.weights:
            raise NotLinear
        return other if other.constant < one.constant else one
