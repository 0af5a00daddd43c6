"""What a manifest may say of one feature in a mapping of its own: advice, time, limits of a change, a table, words.

Also states of a feature, which are no quantities: a missing value, or a special code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from annotated_types import Ge, Gt, Len

from app.recourse.input_part import InputPart

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
    """A level as it is written in JSON: ``null``, ``true``, or the text in quotation marks."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


Text: TypeAlias = Annotated[str, Len(1, 300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice(InputPart):
    """The values that advice may propose."""

    min: float | None = None
    """Smallest raw number that is proposed."""
    max: float | None = None
    """Largest raw number that is proposed."""
    categories: tuple[str, ...] | None = None
    """Categories that are proposed; all of them when absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes(InputPart):
    """How long a change takes; the times add up."""

    months: Annotated[float, Ge(0)] = 0.0
    """For any change."""
    months_per_unit: Annotated[float, Ge(0)] = 0.0
    """For each raw unit by which a number changes."""
    months_per_level: Annotated[float, Ge(0)] = 0.0
    """For each level by which an ordinal feature changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesWithTime(InputPart):
    """How a number changes by itself."""

    per_year: float
    """Raw units in a year; negative where it falls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxChange(InputPart):
    """How far a number may move at most; of two limits, the tighter one counts."""

    relative: Annotated[float, Gt(0)] | None = None
    """Share of the person's own value."""
    absolute: Annotated[float, Gt(0)] | None = None
    """Raw units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(InputPart):
    """The number that belongs to each level of another feature."""

    __pydantic_config__: ClassVar[dict[str, object]] = {
        **InputPart.__pydantic_config__,
        "alias_generator": lambda name: name.rstrip("_"),  # `from` is a keyword
        "validate_by_name": True,
    }

    from_: Annotated[str, Len(1, 100)]
    """Name of the other feature, which has levels."""
    table: Mapping[str, float]
    """Raw number of each of its levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonWords(InputPart):
    """How a lender states the feature as a reason for a refusal."""

    code: Annotated[str, Len(1, 40)] | None = None
    """The lender's own code."""
    text: Text | None = None
    """The reason, whatever the value."""
    too_high: Text | None = None
    """The reason where the value is above that of the people it is compared with."""
    too_low: Text | None = None
    """The reason where it is below."""
    missing: Text | None = None
    """The reason where there is no value, or a special code."""
    named: bool = True
    """Whether it may be named as a reason at all: false for private matters, such as the size of a family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence(InputPart):
    """What to do, as a person would say it; ``{from}`` and ``{to}`` are the values."""

    any: Text | None = None
    """For any change that has no sentence below."""
    increase: Text | None = None
    """For a larger number, or a higher level."""
    decrease: Text | None = None
    """For a smaller number, or a lower level."""
    to: Mapping[str, Text] = field(default_factory=dict)
    """For a change to each of these levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(InputPart):
    """The words of a feature in another language."""

    label: Text | None = None
    unit: Text | None = None
    levels: Mapping[str, Text] = field(default_factory=dict)
    """Levels and special codes, as people call them."""
    reason: ReasonWords = field(default_factory=ReasonWords)
    sentence: Sentence = field(default_factory=Sentence)
