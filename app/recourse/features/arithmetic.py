"""Kinds of numbers that an expression is evaluated with: arrays, arrays with slopes, linear functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@runtime_checkable
class Arithmetic(Protocol):
    """What a kind of number must provide so that formulas can be computed with it.

    The numbers themselves have Python's arithmetic operators.
    """

    def constant(self, value: float) -> Any:
        """The number of this kind that stands for the constant `value` in a formula."""

    def name(self, name: str) -> Any:
        """The number of this kind that stands for the feature `name` in a formula."""

    def level(self, name: str, numbers: tuple[float, ...]) -> Any:
        """The entry of `numbers` whose index is the level of the feature `name`."""

    def lesser(self, one: Any, other: Any) -> Any:
        """The smaller of two numbers; `one` where they are equal."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """Arithmetic on arrays, one value per record; the value of a feature with levels is the index of its level."""

    values: Mapping[str, Float[np.ndarray, "*n"]]

    def constant(self, value: float) -> Any:
        """`value` as a numpy scalar, so that a division by zero raises no error."""
        return np.float64(value)

    def name(self, name: str) -> Any:
        """The values of the feature `name`, as floats."""
        return np.asarray(self.values[name], dtype=float)

    def level(self, name: str, numbers: tuple[float, ...]) -> Any:
        """For each record, the entry of `numbers` whose index is the level of the feature `name`."""
        return np.array(numbers)[np.asarray(self.values[name]).astype(np.intp)]

    def lesser(self, one: Any, other: Any) -> Any:
        """The smaller of two arrays, element by element; NaN where either is NaN."""
        return np.where((other < one) | np.isnan(other), other, one)


@dataclass(frozen=True, slots=True)
class Sloped:
    """The values of a formula with their partial derivatives ("slopes") by feature name, element by element."""

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
        """The smaller of two values with its slopes, element by element; the value of `self` where both are equal."""
        second = other.value < self.value
        value = np.where(second, other.value, self.value)
        return self._with(value, np.where(second, 0.0, 1.0), other, np.where(second, 1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Slopes:
    """Arithmetic on arrays with their partial derivatives; the derivative by a feature with levels is 0."""

    values: Mapping[str, Sloped]

    def constant(self, value: float) -> Sloped:
        """A constant; all of its slopes are 0."""
        return Sloped(np.float64(value), {})

    def name(self, name: str) -> Sloped:
        """The value of the feature `name`, with its slopes."""
        return self.values[name]

    def level(self, name: str, numbers: tuple[float, ...]) -> Sloped:
        """For each record, the entry of `numbers` whose index is the level of the feature `name`; without slopes."""
        return Sloped(Arrays({name: self.values[name].value}).level(name, numbers), {})

    def lesser(self, one: Sloped, other: Sloped) -> Sloped:
        """The smaller of two values with its slopes, element by element."""
        return one.lesser(other)


class NotLinear(ValueError):
    """Raised where a formula is not linear in its names.

    It has a product of names, a quotient, the min or max of names, or a number that depends on a level.
    """


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
    known : by name, the linear form that takes the place of a name, such as that of a derived feature
    """

    known: Mapping[str, LinearForm] = field(default_factory=dict)

    def constant(self, value: float) -> LinearForm:
        """The linear form of a constant: no name has a weight."""
        return LinearForm({}, value)

    def name(self, name: str) -> LinearForm:
        """The linear form that `known` holds for the feature `name`; if none, the feature itself with weight 1."""
        return self.known.get(name) or LinearForm({name: 1.0}, 0.0)

    def level(self, name: str, numbers: tuple[float, ...]) -> LinearForm:  # noqa: ARG002 - as in Arithmetic
        """Raises `NotLinear`, because the number of a level is no linear function of the level's index."""
        raise NotLinear

    def lesser(self, one: LinearForm, other: LinearForm) -> LinearForm:
        """The smaller of two constants.

        Raises `NotLinear` where one of the two forms is no constant.
        """
        if one.weights or other.weights:
            raise NotLinear
        return other if other.constant < one.constant else one
