"""Faults of what a manifest says of advice, time and limits of one feature; each sentence names the right place."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.recourse.features.feature_options import Advice, Takes

if TYPE_CHECKING:
    from app.recourse.features.feature import Feature


def option_faults(feature: "Feature") -> list[str]:
    """Faults of `advice`, `takes`, `moves_with_time`, `max_change`, `least_change` and `protected`."""
    drift = feature.moves_with_time
    numbers = {
        "advice.min": feature.advice.min,
        "advice.max": feature.advice.max,
        "moves_with_time.per_year": None if drift is None else drift.per_year,
    }
    infinite = [f"{key} must be finite" for key, number in numbers.items() if not math.isfinite(number or 0.0)]
    if infinite:
        return infinite
    return [
        *_advice_faults(feature),
        *_time_faults(feature),
        *_change_faults(feature),
        *_useless(feature),
    ]


def _advice_faults(feature: "Feature") -> Iterator[str]:
    advice, (low, high) = feature.advice, feature.range_raw
    for key, number in (("min", advice.min), ("max", advice.max)):
        if number is None:
            continue
        if not feature.is_number:
            yield f"advice.{key} belongs to numbers; name the levels that are proposed in advice.categories"
        elif not low <= number <= high:
            yield f"advice.{key} must lie in the feature's own range {low:g} to {high:g}"
    if advice.min is not None and advice.max is not None and advice.min > advice.max:
        yield f"advice.min {advice.min:g} must not be above advice.max {advice.max:g}"
    if advice.categories is None:
        return
    if feature.is_number:
        yield "advice.categories belongs to features with categories; limit numbers with advice.min and advice.max"
        return
    if not feature.categories:
        yield "advice.categories belongs to features with categories; use change: increase or change: decrease here"
        return
    if unknown := [name for name in advice.categories if name not in feature.categories]:
        yield (
            "advice.categories must be among the feature's own categories; "
            + ", ".join(f'"{name}"' for name in unknown)
            + (" is not" if len(unknown) == 1 else " are not")
        )
    if not advice.categories:
        yield "advice.categories must name at least one category; where nothing is proposed, use change: none"


def _time_faults(feature: "Feature") -> Iterator[str]:
    takes = feature.takes
    if takes.months_per_unit and not feature.is_number:
        yield (
            "takes.months_per_unit belongs to numbers; use takes.months_per_level for ordinal features, else "
            "takes.months"
        )
    if takes.months_per_level and feature.type != "ordinal":
        yield (
            "takes.months_per_level belongs to ordinal features; use takes.months_per_unit for numbers, else "
            "takes.months"
        )
    if not all(math.isfinite(months) for months in (takes.months, takes.months_per_unit, takes.months_per_level)):
        yield "takes must be finite"
    if feature.moves_with_time is not None:
        if not feature.is_number:
            yield "moves_with_time belongs to numbers"
        elif feature.moves_with_time.per_year == 0.0:
            yield "moves_with_time.per_year must not be 0; a value that stays needs no moves_with_time"


def _change_faults(feature: "Feature") -> Iterator[str]:
    for key, given in (("max_change", feature.max_change), ("least_change", feature.least_change)):
        if given is not None and not feature.is_number:
            yield f"{key} belongs to numbers"
    limit, least = feature.max_change, feature.least_change
    if limit is not None and limit.relative is None and limit.absolute is None:
        yield "max_change needs relative or absolute, or both"
    if limit is not None and not all(math.isfinite(part or 0.0) for part in (limit.relative, limit.absolute)):
        yield "max_change must be finite"
    if least is not None and not math.isfinite(least):
        yield "least_change must be finite"
    if least is not None and limit is not None and limit.absolute is not None and least > limit.absolute:
        yield f"least_change {least:g} must not be above max_change.absolute {limit.absolute:g}"


def _useless(feature: "Feature") -> Iterator[str]:
    """What is said of changes to a feature that is never changed."""
    if feature.protected:
        why = "a protected feature is never advice"
    elif feature.moves_with_time is not None:
        why = "a feature with moves_with_time moves by itself and is never advice"
    elif feature.derived is not None:
        why = "a derived feature follows from others and is never advice; say it of these"
    else:
        return
    said = [
        ("advice", feature.advice != Advice()),
        ("takes", feature.takes != Takes()),
        ("max_change", feature.max_change is not None),
        ("least_change", feature.least_change is not None),
        ("provide", feature.provide),
    ]
    if given := [key for key, is_given in said if is_given]:
        yield f"{why}: remove {' and '.join(given)}"
    if feature.derived is not None and feature.moves_with_time is not None:
        yield "a derived feature follows from others; say moves_with_time of these"
