"""Base of the dataclasses of the core that clients are sent."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar

FULL: Mapping[str, str] = {"detail": "full"}
"""Metadata of a field that clients are sent only where they ask for all details."""

EXACT: Mapping[str, str] = {"digits": "all"}
"""Metadata of a number that is sent as it is: it comes from the request, or is rounded already."""

DIGITS = 6
"""Significant digits of all other numbers: more of them say nothing about a model that was fitted to records."""

_ROUNDED = f"%.{DIGITS}g"

NEAR = 1e-3
"""Distance of a score from the threshold, in logit units, within which a rounded output could be beyond it."""


def rounded(number: float) -> float:
    """The number rounded to `DIGITS` significant digits."""
    return float(_ROUNDED % number)


def rounded_output(output: float | None, score: float | None) -> float | None:
    """A rounded probability or number of points; unchanged near the threshold, which rounding might cross."""
    if output is None or score is None or abs(score) < NEAR:
        return output
    return rounded(output)


class AnswerPart:
    """Base of dataclasses that clients are sent; their fields and docstrings become the response schema."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"use_attribute_docstrings": True}

    def by_name(self) -> dict[str, Any]:
        """The fields by name, and those of parts within it; unlike `asdict`, which is slower, it copies no values."""
        found: dict[str, Any] = _by_name(self)
        return found


def _by_name(value: Any) -> Any:
    if isinstance(value, AnswerPart):
        kind: Any = value.__class__
        return {name: _by_name(getattr(value, name)) for name in _names(kind)}
    return tuple(map(_by_name, value)) if isinstance(value, tuple) else value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
