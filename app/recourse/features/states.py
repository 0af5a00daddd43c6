"""States of a feature: a missing value, or a special code; no quantities."""

from enum import StrEnum

LARGEST = 1e16
"""Largest absolute number in a record; whole numbers stay below 2^53, where doubles are exact."""

MISSING = -1e30
"""Raw number that stands for a missing value; unlike NaN it is equal to itself."""


class Missing(StrEnum):
    """How the model sees a missing value."""

    NAN = "nan"
    INDICATOR = "indicator"
    FILL = "fill"


def json_text(value: object) -> str:
    """A level as it is written in JSON."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'
