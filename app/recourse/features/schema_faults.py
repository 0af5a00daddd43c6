"""Faults of a feature schema: of each feature by itself, and of their names."""

import math
from collections.abc import Sequence

from app.errors import Fault
from app.recourse.features.feature import Change, Feature, FeatureType
from app.recourse.features.option_faults import option_faults
from app.recourse.features.states import LARGEST, Missing, json_text


def schema_faults(features: Sequence[Feature]) -> list[Fault]:
    """Faults of a feature schema; pointers are ``/features/{index}``."""
    faults = [Fault(f"/features/{j}", text) for j, feature in enumerate(features) for text in own_faults(feature)]
    seen: set[str] = set()
    for j, feature in enumerate(features):
        if feature.name in seen:
            faults.append(Fault(f"/features/{j}/name", f'"{feature.name}" is the name of an earlier feature'))
        seen.add(feature.name)
    return faults


def own_faults(feature: Feature) -> list[str]:
    """Faults of the description of one feature."""
    numbers = {key: getattr(feature, key) for key in ("min", "max", "step", "center", "scale", "cost")}
    found = [f"{key} must be finite" for key, value in numbers.items() if not math.isfinite(value or 0.0)]
    if found:
        return found
    if feature.is_number:
        if feature.categories:
            found.append(f"a {feature.type} feature has no categories")
        if feature.min is not None and feature.max is not None and feature.min >= feature.max:
            found.append(f"min {feature.min:g} must be below max {feature.max:g}")
    else:
        if feature.type is FeatureType.BINARY and len(feature.categories) not in (0, 2):
            found.append("a binary feature has two categories, or none for false and true")
        elif feature.is_group and len(feature.categories) == 1 and feature.is_fixed:
            pass  # the same for everybody
        elif feature.type is not FeatureType.BINARY and len(feature.categories) < 2:
            same = "; of one that is the same for all, write change: none" if feature.is_group else ""
            found.append(f"a {feature.type} feature needs at least two categories{same}")
        if len(set(feature.categories)) < len(feature.categories):
            found.append("categories must differ from each other")
        for key in ("min", "max"):
            if getattr(feature, key) is not None:
                found.append(f"{key} belongs to numeric features")
    if feature.step is not None and (feature.type is not FeatureType.INTEGER or feature.step != int(feature.step)):
        found.append("step is a whole number and belongs to integer features")
    if feature.type is FeatureType.INTEGER:
        found += [
            f"{key} of an integer feature is a whole number"
            for key in ("min", "max")
            if (limit := getattr(feature, key)) is not None and limit != int(limit)
        ]
    if feature.decimals is not None and feature.type is not FeatureType.CONTINUOUS:
        found.append("decimals belongs to continuous features")
    if feature.is_group and feature.change in (Change.INCREASE, Change.DECREASE):
        found.append("categories without an order cannot increase or decrease; use any or none")
    if feature.is_group and (feature.center is not None or feature.scale is not None):
        found.append("center and scale belong to features that are encoded as one number")
    if (feature.center is None) != (feature.scale is None):
        found.append("center and scale are given together or not at all")
    return found + state_faults(feature) + option_faults(feature)


def state_faults(feature: Feature) -> list[str]:
    """Faults of `missing`, `fill`, `provide` and `special` of a feature."""
    found, missing = [], feature.missing
    if feature.fill is not None and missing not in (Missing.INDICATOR, Missing.FILL):
        found.append("fill belongs to missing: indicator and missing: fill")
    if (
        feature.fill is None
        and feature.missing is not None
        and feature.missing is not Missing.NAN
        and not feature.is_group
    ):
        found.append(f"missing: {feature.missing} needs fill, the value that the model sees")
    if feature.fill is not None and feature.is_group:
        found.append("a missing category is a category of its own and needs no fill; write missing: indicator")
    elif feature.fill is not None and feature.is_number and isinstance(feature.fill, str):
        found.append("fill must be a number")
    elif feature.fill is not None and not feature.is_number and feature.fill not in feature.levels:
        found.append("fill must be one of " + ", ".join(json_text(level) for level in feature.levels))
    if feature.is_group and missing is Missing.FILL:
        found.append("a missing category is a category of its own; write missing: nan or missing: indicator")
    if feature.percent is not None and not feature.is_number:
        found.append("percent belongs to numbers")
    if feature.provide and not missing:
        found.append("provide belongs to features that may be missing")
    if feature.special and not feature.is_number:
        found.append("special belongs to numbers; make the state one of the categories")
    if any(not abs(code) <= LARGEST for code in feature.special):
        found.append(f"special codes must be between {-LARGEST:g} and {LARGEST:g}")
    if feature.type == "integer" and any(code != int(code) for code in feature.special):
        found.append("special codes of an integer feature are whole numbers")
    return found
