"""One feature: its values, its states, its labels, and how a person can change it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from jaxtyping import Float

from app.recourse.features.cells import ABSENT, ABSENT_NUMBERS, plain_numbers, written
from app.recourse.features.feature_options import (
    LARGEST,
    MISSING,
    Advice,
    MaxChange,
    Missing,
    MovesWithTime,
    ReasonWords,
    Sentence,
    Table,
    Takes,
    Words,
    json_text,
)
from app.recourse.input_part import InputPart

RawValue: TypeAlias = float | int | str | bool | None
Record: TypeAlias = dict[str, RawValue]


class FeatureType(StrEnum):
    """What the values of a feature are."""

    CONTINUOUS = "continuous"
    INTEGER = "integer"
    ORDINAL = "ordinal"
    CATEGORICAL = "categorical"
    BINARY = "binary"


class Change(StrEnum):
    """In which direction a person can move a feature."""

    ANY = "any"
    INCREASE = "increase"
    DECREASE = "decrease"
    NONE = "none"


class Better(StrEnum):
    """Which way a term of the contract is better for the applicant."""

    MORE = "more"
    LESS = "less"


# Not a set: to hash a member takes several times as long as to compare it with two, and each value of a record asks.
NUMBERS = (FeatureType.CONTINUOUS, FeatureType.INTEGER)
"""Types whose raw value is the number itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature(InputPart):
    """One column of a model's input: its values, its labels, and how a person can change it."""

    name: Annotated[str, Len(1, 100)]
    """Key of the feature in a record."""
    type: FeatureType
    """`continuous`, `integer`, `ordinal` (ordered categories), `categorical` or `binary`."""
    label: str | None = None
    """What a person calls it; the name when absent."""
    unit: str | None = None
    """Unit of the raw number, for people."""
    action: str | None = None
    """Verb for the sentence that describes a change, e.g. `Pay back`."""
    categories: tuple[Annotated[str, Len(1, 100)], ...] = ()
    """Legal values; from lowest to highest for ordinal features; two for a binary one (`false`, `true` when absent)."""
    dummies: bool = False
    """Whether the model takes a column of 0 and 1 for each level of an ordinal feature, and not its place."""
    min: float | None = None
    """Smallest legal raw number."""
    max: float | None = None
    """Largest legal raw number."""
    step: Annotated[float, Gt(0)] | None = None
    """Advice moves an integer along `min + k * step`; facts may lie between."""
    decimals: Annotated[int, Ge(0), Le(9)] | None = None
    """Digits after the point in advice (continuous features)."""
    change: Change = Change.ANY
    """What the person can do: `any`, `increase`, `decrease` or `none`."""
    cost: Annotated[float, Gt(0)] = 1.0
    """Cost of one encoded unit, or of one change of category."""
    noise: bool = True
    """False for a feature that is always implemented exactly."""
    center: float | None = None
    """Encoded = (raw - center) / scale; fitted on the reference data when absent."""
    scale: Annotated[float, Gt(0)] | None = None
    """See `center`."""
    spread: Annotated[float, Gt(0)] | None = None
    """How far apart people are: the raw difference that costs 1 and is one unit of distance and noise; fitted on the
    reference data when absent."""
    missing: Missing | None = None
    """How the model sees a missing value; absent where the value may not be missing. A number is NaN (`nan`), `fill`
    with a column of its own that says so (`indicator`), or only `fill`. A missing category is a category of its own."""
    fill: float | str | None = None
    """What the model sees in place of a missing value, as `missing` says."""
    provide: bool = False
    """Whether providing a missing value is a change that a person can make."""
    provide_cost: Annotated[float, Ge(0)] = 1.0
    """Cost of providing a missing value, whatever the value."""
    percent: Literal["number", "share"] | None = None
    """What the model takes for 20.75 % in a table: 20.75 (`number`) or 0.2075 (`share`); percentages are refused where
    this is absent."""
    special: Mapping[float, Annotated[str, Len(1, 200)]] = field(default_factory=dict)
    """Numbers that are states and not quantities, such as -9 for "no bureau record", with what they mean."""
    advice: Advice = field(default_factory=Advice)
    """What advice may propose; a record may hold more."""
    derived: str | Table | None = None
    """How the value follows from other features; it is never a change by itself."""
    takes: Takes = field(default_factory=Takes)
    """How long a change takes."""
    moves_with_time: MovesWithTime | None = None
    """How the value changes by itself as time passes; it is never advice."""
    max_change: MaxChange | None = None
    """Largest change."""
    least_change: Annotated[float, Gt(0)] | None = None
    """Smallest change of a number that is worth advising, in raw units."""
    terms: bool = False
    """Whether this is a term of the contract, such as an amount or a rate, which the lender sets and may change."""
    better: Better | None = None
    """Of a term, what is better for the applicant: `more` or `less` of it. Nothing is assumed when absent."""
    protected: bool = False
    """Whether this is a protected attribute: never advice, never in a sentence, used in reports by group only."""
    reason: ReasonWords = field(default_factory=ReasonWords)
    """How the lender states it as a reason for a refusal."""
    sentence: Sentence = field(default_factory=Sentence)
    """What to do, as a person would say it."""
    level_names: Mapping[str, str] = field(default_factory=dict)
    """What people call levels, where that is not their name; ``true`` and ``false`` of a binary feature."""
    words: Mapping[Annotated[str, Len(2, 35)], Words] = field(default_factory=dict)
    """Its words in other languages, by their tags, such as `de`."""

    @property
    def title(self) -> str:
        """The feature's label, or else its name."""
        return self.label or self.name

    def in_language(self, language: str) -> "Feature":
        """The feature with its words in another language.

        Labels and units without a translation stay as they are. Sentences without a translation are dropped.
        """
        words = self.words.get(language)
        if words is None:
            return replace(self, action=None, sentence=Sentence())
        special = {code: words.levels.get(f"{code:.15g}", meaning) for code, meaning in self.special.items()}
        return replace(
            self,
            label=words.label or self.label,
            unit=words.unit or self.unit,
            action=None,
            special=special,
            level_names={**self.level_names, **words.levels},
            reason=replace(words.reason, code=words.reason.code or self.reason.code),
            sentence=words.sentence,
        )

    @property
    def levels(self) -> tuple[RawValue, ...]:
        """The legal values of a feature that is not a number; the last one is None where a category may be missing.

        The index of a value in this tuple is its raw number.
        """
        if self.type is FeatureType.BINARY and not self.categories:
            return (False, True)
        return (*self.categories, None) if self.is_group and self.missing else self.categories

    @staticmethod
    def level_key(level: RawValue) -> str:
        """The text that stands for a level as a key in the manifest: ``true`` for True."""
        return str(level).lower() if isinstance(level, bool) else str(level)

    @property
    def is_number(self) -> bool:
        """Whether the feature is continuous or integer, so that its raw number is the value itself."""
        return self.type in NUMBERS

    @property
    def is_group(self) -> bool:
        """Whether the feature is categorical, and so encoded as one column per category."""
        return self.type is FeatureType.CATEGORICAL

    @property
    def states_raw(self) -> tuple[float, ...]:
        """Raw numbers that stand for states: `MISSING` if it is allowed, then special codes in ascending order.

        Empty for a categorical feature, whose missing category is a level.
        """
        missing = (MISSING,) if self.missing and not self.is_group else ()
        return (*missing, *sorted(self.special))

    @property
    def is_fixed(self) -> bool:
        """Whether advice never changes the feature, for any applicant."""
        follows = self.derived is not None or self.moves_with_time is not None
        return self.change is Change.NONE or self.protected or follows

    @property
    def fill_raw(self) -> float | None:
        """The manifest's `fill` as a raw number: what a model sees in place of a missing value. None without `fill`."""
        if self.fill is None or self.is_number:
            return self.fill if self.fill is None else float(self.fill)
        return float(self.levels.index(self.fill))

    @property
    def range_raw(self) -> tuple[float, float]:
        """Smallest and largest legal raw number, apart from special codes; infinite without a limit.

        The raw number of a level is its index.
        """
        if not self.is_number:
            return 0.0, len(self.levels) - 1.0
        return (-math.inf if self.min is None else self.min), (math.inf if self.max is None else self.max)

    @property
    def lattice_raw(self) -> tuple[float, float]:
        """The step between legal raw numbers, and one legal raw number; the step is 0 where any number is allowed."""
        if self.type is FeatureType.CONTINUOUS:
            return (0.0 if self.decimals is None else 10.0**-self.decimals), 0.0
        return (self.step or 1.0), (self.min if self.is_number and self.min is not None else 0.0)

    def parse(self, value: object) -> float:
        """The raw number of a JSON value.

        Raises
        ------
        ValueError : the value is not legal; the message says what was expected and never repeats applicant data
        """
        if value is None and self.missing:
            return len(self.categories) if self.is_group else MISSING
        if value is None:
            raise ValueError("may not be missing")
        if not self.is_number:
            if isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0:
                value = str(int(value))  # a level that is a code, as 3 or 3.0 for "3"
            for index, level in enumerate(self.levels):
                if type(value) is type(level) and value == level:
                    return float(index)
            raise ValueError("must be one of " + ", ".join(json_text(level) for level in self.levels))
        expected = "a whole number" if self.type is FeatureType.INTEGER else "a number"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be {expected}")
        if value in self.special:
            return float(value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"must be {expected}, and finite")
        largest = 2.0**53 if self.type is FeatureType.INTEGER else LARGEST
        low, high = self.range_raw
        low, high = max(low, -largest), min(high, largest)
        if not low <= number <= high:
            limit = f"at least {low:.15g}" if number < low else f"at most {high:.15g}"
            codes = ", ".join(f"{code:.15g} ({meaning})" for code, meaning in sorted(self.special.items()))
            raise ValueError(f"must be {limit}" + (f", or a code: {codes}" if codes else ""))
        if self.type is FeatureType.INTEGER and number != int(number):
            raise ValueError(f"must be {expected}")
        return number

    def value(self, number_raw: float) -> RawValue:
        """The JSON value of a raw number; undoes `parse`."""
        if number_raw == MISSING:
            return None
        if not self.is_number:
            return self.levels[int(number_raw)]
        return int(number_raw) if self.type is FeatureType.INTEGER else float(number_raw)


def read_cell(feature: Feature, text: str, mark: str = ".") -> RawValue:
    """The JSON value of a cell of a table; a text that is no legal value is returned unchanged, for `Feature.parse`.

    Parameters
    ----------
    mark : decimal mark of the table, "." or ","

    Raises
    ------
    ValueError : the cell is a percentage, and the manifest does not say whether the model takes 5 or 0.05 for 5 %
    """
    if text in feature.categories:
        return text
    plain = text.strip()
    if plain in feature.categories:
        return plain
    if feature.missing and plain in (ABSENT_NUMBERS if feature.is_number else ABSENT):
        return None
    if feature.is_number:
        return _number(feature, text, mark)
    if not feature.categories:
        truths = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
        return truths.get(plain.lower(), text)
    code = re.sub(r"^(-?[0-9]+)\.0*$", r"\1", plain)  # pandas writes 3.0 for the level 3 where some are missing
    return code if code in feature.categories else text


def _number(feature: Feature, text: str, mark: str) -> RawValue:
    found = written(text, mark)
    if found is None:
        infinite = text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity")
        return float(text) if infinite else text
    if not found.percent:
        return float(found.plain)
    if feature.percent is None:
        raise ValueError(
            'must be a number without %; or say in the manifest what the model takes, as "percent: number"'
        )
    if feature.percent == "number":
        return float(found.plain)
    digits = len(found.plain.partition(".")[2])
    return round(float(found.plain) / 100.0, digits + 2) if "e" not in found.plain.lower() else float(found.plain) / 100


def parse_column(
    feature: Feature, texts: Sequence[Any], mark: str = "."
) -> tuple[Float[np.ndarray, "n"], list[tuple[int, str]]]:
    """Convert a column of texts, as of a CSV file, to raw numbers.

    Parameters
    ----------
    mark : decimal mark of the table, "." or ","

    Returns
    -------
    The raw numbers, and a pair for each text that is no legal value: its index and a sentence on what is wrong.
    """
    values, unclear = _plain_numbers(feature, texts, mark)
    faults: list[tuple[int, str]] = []
    known: dict[Any, float] = {}
    for i in unclear:
        text = texts[i]
        # Columns have few levels; 1, 1.0 and true are one key, but not one value.
        key = text if isinstance(text, str) else None
        try:
            if key is not None and key in known:
                values[i] = known[key]
                continue
            values[i] = feature.parse(read_cell(feature, text, mark) if isinstance(text, str) else text)
            if key is not None:
                known[key] = values[i]
        except ValueError as error:
            faults.append((i, str(error)))
    return values, faults


def _plain_numbers(feature: Feature, texts: Sequence[Any], mark: str) -> tuple[Float[np.ndarray, "n"], Sequence[int]]:
    """The numbers of a column at once, and the rows that `Feature.parse` has to look at."""
    everything = range(len(texts))
    if not feature.is_number or mark != ".":
        return np.zeros(len(texts)), everything
    try:
        values = plain_numbers(texts)
    except (ValueError, TypeError):  # other texts, or no texts
        return np.zeros(len(texts)), everything
    low, high = feature.range_raw
    with np.errstate(invalid="ignore"):
        plain = (np.abs(values) <= LARGEST) & (values >= low) & (values <= high)
        if feature.type is FeatureType.INTEGER:
            plain &= (values == np.rint(values)) & (np.abs(values) <= 2**53)
    return values, np.flatnonzero(~plain).tolist()
