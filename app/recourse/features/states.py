"""States of a feature: a missing value, or a special code; no quantities."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.recourse.features.feature import Feature

LARGEST = 1e16
"""Largest absolute number in a record; whole numbers stay below 2^53, where doubles are exact."""

MISSING = -1e30
"""Raw number that stands for a missing value; unlike NaN it is equal to itself."""


class Missing(StrEnum):
    """How the model sees a missing value."""

    NAN = "nan"
    INDICATOR = "indicator"
    FILL = "fill"


def state_faults(feature: "Feature") -> list[str]:
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
    if feature.provide and not missing:
        found.append("provide belongs to features that may be missing")
    if feature.special and not feature.is_number:
        found.append("special belongs to numbers; make the state one of the categories")
    if any(not abs(code) <= LARGEST for code in feature.special):
        found.append(f"special codes must be between {-LARGEST:g} and {LARGEST:g}")
    if feature.type == "integer" and any(code != int(code) for code in feature.special):
        found.append("special codes of an integer feature are whole numbers")
    return found


def json_text(value: object) -> str:
    """A level as it is written in JSON."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
