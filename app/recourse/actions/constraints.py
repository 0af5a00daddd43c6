"""The constraints of a request, and whether they fit a model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge

from app.errors import ConstraintClash, Fault, InvalidRequest
from app.recourse.features import LARGEST, Change, Feature, FeatureSpace, MaxChange, escape
from app.recourse.input_part import InputPart

CHEAPEST, DEAREST = 1e-6, 1e6
"""Limits of a request's factor on the cost of a feature; beyond them small costs are lost to rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(InputPart):
    """Limits of what is proposed for one feature, in raw units; categories of an ordinal feature by name."""

    min: float | str | None = None
    """Smallest value that is proposed; the applicant's own value may stay below it."""
    max: float | str | None = None
    """Largest value that is proposed; the applicant's own value may stay above it."""


class Direction(StrEnum):
    """The only direction in which a feature may move."""

    INCREASE = "increase"
    DECREASE = "decrease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints(InputPart):
    """Limits of this applicant's changes; they tighten the model's own actionability, never loosen it."""

    immutable: tuple[str, ...] = ()
    """Features that stay as they are."""
    direction: Mapping[str, Direction] = field(default_factory=dict)
    """Features that may only increase or only decrease."""
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """Limits of what is proposed, per feature, in raw units; no limit forces a change."""
    max_change: Mapping[str, MaxChange] = field(default_factory=dict)
    """How far a number moves at most, per feature; the model's own limit counts where it is tighter."""
    least_change: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """How far a number moves at least if it changes, per feature in raw units; the model's own limit counts where it is
    larger. Replaces the 2 % that hold where neither says anything."""
    max_changes: Annotated[int, Ge(1)] | None = None
    """Largest number of features that change."""


def check_constraints(
    space: FeatureSpace,
    constraints: Constraints,
    cost_weights: Mapping[str, float],
    *,
    weights_at: str = "/cost_weights",
) -> None:
    """Check that constraints and cost weights fit a model, whoever the applicant is.

    Parameters
    ----------
    weights_at : JSON pointer to the weights in the caller's input; the constraints are at ``/constraints``

    Raises
    ------
    InvalidRequest : a constraint or weight names an unknown feature or a value that is not in the schema
    ConstraintClash : a constraint would allow what the model's own actionability forbids
    Each error carries every fault of its kind.
    """
    invalid, clashes = constraint_faults(space, constraints)
    invalid = [fault.under("/constraints") for fault in invalid]
    invalid += [fault.under(weights_at) for fault in weight_faults(space, cost_weights)]
    if invalid:
        raise InvalidRequest("The constraints do not fit the feature schema of the model.", faults=invalid)
    if clashes:
        raise ConstraintClash(faults=[fault.under("/constraints") for fault in clashes])


def constraint_faults(space: FeatureSpace, constraints: Constraints) -> tuple[list[Fault], list[Fault]]:
    """Two lists of faults of constraints: those that do not fit the schema, and those that loosen the model's limits.

    The pointer of each fault is relative to `constraints`.
    """
    invalid: list[Fault] = []
    clashes: list[Fault] = []

    def look_up(name: str, pointer: str) -> Feature | None:
        j = space.index(name)
        if j is None:
            invalid.append(unknown_feature(space, name, pointer))
            return None
        return space.features[j]

    for i, name in enumerate(constraints.immutable):
        look_up(name, f"/immutable/{i}")
    for name, direction in constraints.direction.items():
        pointer = f"/direction/{escape(name)}"
        feature = look_up(name, pointer)
        if feature is None:
            continue
        if feature.is_group:
            invalid.append(Fault(pointer, "is categorical: its values have no order"))
        elif feature.is_fixed:
            clashes.append(Fault(pointer, "cannot change at all in this model"))
        elif feature.change is not Change.ANY and feature.change.value != direction.value:
            clashes.append(Fault(pointer, f"can only {feature.change} in this model"))
    for name, bounds in constraints.bounds.items():
        pointer = f"/bounds/{escape(name)}"
        feature = look_up(name, pointer)
        if feature is None:
            continue
        if feature.is_group:
            invalid.append(Fault(pointer, "is categorical: use immutable"))
            continue
        numbers: dict[str, float] = {}
        for key, value in (("min", bounds.min), ("max", bounds.max)):
            if value is None:
                continue
            try:
                numbers[key] = _bound_number(feature, value)
            except ValueError as error:
                invalid.append(Fault(f"{pointer}/{key}", str(error)))
                continue
            low, high = feature.range_raw
            if not low <= numbers[key] <= high:
                clashes.append(Fault(f"{pointer}/{key}", f"lies outside the model's own range {low:g} to {high:g}"))
        if numbers.get("min", -math.inf) > numbers.get("max", math.inf):
            invalid.append(Fault(pointer, "min must not be above max"))
    for key in ("max_change", "least_change"):
        for name, limit in getattr(constraints, key).items():
            pointer = f"/{key}/{escape(name)}"
            feature = look_up(name, pointer)
            if feature is not None:
                invalid += [Fault(pointer + at, text) for at, text in _change_faults(feature, limit)]
    return invalid, clashes


def _change_faults(feature: Feature, limit: MaxChange | float) -> list[tuple[str, str]]:
    """Faults of one largest or least change; pointers into it."""
    if not feature.is_number:
        return [("", "is not a number: use immutable, direction or bounds")]
    if not isinstance(limit, MaxChange):
        return [] if 0.0 <= limit <= LARGEST else [("", f"must be a number from 0 to {LARGEST:g}")]
    parts = [("relative", limit.relative), ("absolute", limit.absolute)]
    if all(part is None for _, part in parts):
        return [("", "needs relative or absolute, or both")]
    return [
        (f"/{key}", f"must be a number above 0 and at most {LARGEST:g}")
        for key, part in parts
        if part is not None and not 0.0 < part <= LARGEST
    ]


def weight_faults(space: FeatureSpace, weights: Mapping[str, float]) -> list[Fault]:
    """The fault of each cost weight that has no feature or lies outside `CHEAPEST` to `DEAREST`.

    The pointer of each fault is relative to `weights`.
    """
    faults: list[Fault] = []
    for name, weight in weights.items():
        pointer = f"/{escape(name)}"
        if space.index(name) is None:
            faults.append(unknown_feature(space, name, pointer))
        elif not CHEAPEST <= weight <= DEAREST:
            faults.append(Fault(pointer, f"must be a number from {CHEAPEST:g} to {DEAREST:g}"))
    return faults


def unknown_feature(space: FeatureSpace, name: str, pointer: str) -> Fault:
    """The fault of a name in a request that is no feature, or that is a derived feature.

    A request must not set a derived feature, since its value follows from other features.
    """
    others = "is not a feature of this model; the features are " + ", ".join(space.names)
    return derived_feature(space, name, pointer) or Fault(pointer, others)


def derived_feature(space: FeatureSpace, name: str, pointer: str) -> Fault | None:
    """The fault of a request that names the derived feature `name`; None where `name` is no derived feature."""
    formula = space.derived and space.derived.formulas.get(name)
    return Fault(pointer, f"is derived, from {' and '.join(formula.names)}: name these instead") if formula else None


def _bound_number(feature: Feature, value: float | str) -> float:
    if feature.is_number:
        if isinstance(value, str | bool) or not abs(value) <= LARGEST:
            raise ValueError(f"must be a number between {-LARGEST:g} and {LARGEST:g}")
        return float(value)
    if value not in feature.levels:
        raise ValueError("must be one of " + ", ".join(str(level) for level in feature.levels))
    return float(feature.levels.index(value))
