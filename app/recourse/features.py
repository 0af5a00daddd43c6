"""Feature schema, and the two spaces a record lives in.

* *raw row*: one number per feature, shape ``(p,)``: the value itself for continuous and integer features, the index
  into ``categories`` for ordinal, categorical and binary ones. A JSON record and a raw row say the same thing exactly.
* *encoded point*: what models and methods compute with, shape ``(d,)``: ``(raw - center) / scale`` for numbers,
  ordinals and binaries, one column per category for categorical features.

Arrays are encoded unless their name ends in ``_raw``; rows are points.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from jaxtyping import Float, Int

from app.errors import Fault, InvalidRecord

LARGEST = 1e16
"""Numbers of records are at most this large; whole ones stay below 2^53, so that doubles can tell them apart."""

RawValue: TypeAlias = float | int | str | bool
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


NUMBERS = frozenset({FeatureType.CONTINUOUS, FeatureType.INTEGER})
"""Types whose raw value is the number itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One column of a model's input: its values, its words, and what a person can do about it."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}

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
    min: float | None = None
    """Smallest legal raw number."""
    max: float | None = None
    """Largest legal raw number."""
    step: Annotated[float, Gt(0)] | None = None
    """Advice moves an integer along `min + k * step`; facts may lie between."""
    decimals: Annotated[int, Ge(0), Le(9)] | None = None
    """Digits after the point that a person can be told (continuous features)."""
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

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.label or self.name

    @property
    def levels(self) -> tuple[RawValue, ...]:
        """Legal values of a feature that is not a number, by index."""
        if self.type is FeatureType.BINARY and not self.categories:
            return (False, True)
        return self.categories

    @property
    def is_number(self) -> bool:
        """Whether the raw value is the number itself."""
        return self.type in NUMBERS

    @property
    def is_group(self) -> bool:
        """Whether the feature is encoded as one column per category."""
        return self.type is FeatureType.CATEGORICAL

    @property
    def range_raw(self) -> tuple[float, float]:
        """Smallest and largest legal raw number or index; infinite where the schema sets no limit."""
        if not self.is_number:
            return 0.0, len(self.levels) - 1.0
        return (-math.inf if self.min is None else self.min), (math.inf if self.max is None else self.max)

    @property
    def lattice_raw(self) -> tuple[float, float]:
        """Step between raw values and one of these; the step is 0 where any number may be told."""
        if self.type is FeatureType.CONTINUOUS:
            return (0.0 if self.decimals is None else 10.0**-self.decimals), 0.0
        return (self.step or 1.0), (self.min if self.is_number and self.min is not None else 0.0)

    def faults(self) -> list[str]:
        """What is wrong with the description itself; empty when all is well."""
        numbers = {key: getattr(self, key) for key in ("min", "max", "step", "center", "scale", "cost")}
        found = [f"{key} must be finite" for key, value in numbers.items() if not math.isfinite(value or 0.0)]
        if found:
            return found
        if self.is_number:
            if self.categories:
                found.append(f"a {self.type} feature has no categories")
            if self.min is not None and self.max is not None and self.min >= self.max:
                found.append(f"min {self.min:g} must be below max {self.max:g}")
        else:
            if self.type is FeatureType.BINARY and len(self.categories) not in (0, 2):
                found.append("a binary feature has two categories, or none for false and true")
            elif self.type is not FeatureType.BINARY and len(self.categories) < 2:
                found.append(f"a {self.type} feature needs at least two categories")
            if len(set(self.categories)) < len(self.categories):
                found.append("categories must differ from each other")
            for key in ("min", "max"):
                if getattr(self, key) is not None:
                    found.append(f"{key} belongs to numeric features")
        if self.step is not None and (self.type is not FeatureType.INTEGER or self.step != int(self.step)):
            found.append("step is a whole number and belongs to integer features")
        if self.type is FeatureType.INTEGER:
            found += [
                f"{key} of an integer feature is a whole number"
                for key in ("min", "max")
                if (limit := getattr(self, key)) is not None and limit != int(limit)
            ]
        if self.decimals is not None and self.type is not FeatureType.CONTINUOUS:
            found.append("decimals belongs to continuous features")
        if self.is_group and self.change in (Change.INCREASE, Change.DECREASE):
            found.append("categories without an order cannot increase or decrease; use any or none")
        if self.is_group and (self.center is not None or self.scale is not None):
            found.append("center and scale belong to features that are encoded as one number")
        if (self.center is None) != (self.scale is None):
            found.append("center and scale are given together or not at all")
        return found

    def parse(self, value: object) -> float:
        """The raw number of a JSON value.

        Raises
        ------
        ValueError : the sentence says what was expected; it never repeats the value, which is applicant data.
        """
        if not self.is_number:
            for index, level in enumerate(self.levels):
                if type(value) is type(level) and value == level:
                    return float(index)
            raise ValueError("must be one of " + ", ".join(_json(level) for level in self.levels))
        expected = "a whole number" if self.type is FeatureType.INTEGER else "a number"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be {expected}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"must be {expected}, and finite")
        if self.type is FeatureType.INTEGER and (number != int(number) or abs(number) > 2**53):
            raise ValueError(f"must be {expected}")
        if abs(number) > LARGEST:
            raise ValueError(f"must be between {-LARGEST:g} and {LARGEST:g}")
        low, high = self.range_raw
        if number < low:
            raise ValueError(f"must be at least {low:g}")
        if number > high:
            raise ValueError(f"must be at most {high:g}")
        return number

    def value(self, number_raw: float) -> RawValue:
        """The JSON value of a raw number; inverse of `parse`."""
        if not self.is_number:
            return self.levels[int(number_raw)]
        return int(number_raw) if self.type is FeatureType.INTEGER else float(number_raw)


def _json(value: RawValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


class FeatureSpace:
    """An ordered feature schema with fitted scales; translates between records, raw rows and encoded points.

    Parameters
    ----------
    features : in the model's column order; each one that is encoded as a number has `center` and `scale`.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        self.names = tuple(feature.name for feature in self.features)
        self.p = len(self.features)
        spans: list[slice] = []
        columns: list[str] = []
        for feature in self.features:
            names = [f"{feature.name}={c}" for c in feature.categories] if feature.is_group else [feature.name]
            spans.append(slice(len(columns), len(columns) + len(names)))
            columns += names
        self.spans = tuple(spans)
        self.columns = tuple(columns)
        self.d = len(columns)
        numeric = [j for j, feature in enumerate(self.features) if not feature.is_group]
        groups = [j for j, feature in enumerate(self.features) if feature.is_group]
        if any(self.features[j].center is None or self.features[j].scale is None for j in numeric):
            raise ValueError("every feature that is encoded as a number needs center and scale; see `fit_encoding`")
        self.numeric: Int[np.ndarray, m] = np.array(numeric, dtype=np.intp)
        """Indices of features that are encoded as one number."""
        self.numeric_columns: Int[np.ndarray, m] = np.array([spans[j].start for j in numeric], dtype=np.intp)
        self.groups: Int[np.ndarray, g] = np.array(groups, dtype=np.intp)
        """Indices of features that are encoded as one column per category."""
        self.group_starts: Int[np.ndarray, g] = np.array([spans[j].start for j in groups], dtype=np.intp)
        self.center_raw: Float[np.ndarray, m] = np.array([self.features[j].center for j in numeric], dtype=float)
        self.scale_raw: Float[np.ndarray, m] = np.array([self.features[j].scale for j in numeric], dtype=float)

    @cached_property
    def feature_of_column(self) -> Int[np.ndarray, "d"]:
        """Index of the feature that each encoded column belongs to."""
        return np.repeat(np.arange(self.p), [span.stop - span.start for span in self.spans])

    @cached_property
    def lattice_raw(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """`Feature.lattice_raw` of all features: steps and anchors."""
        step, anchor = np.array([feature.lattice_raw for feature in self.features], dtype=float).reshape(-1, 2).T
        return step, anchor

    @cached_property
    def whole(self) -> Int[np.ndarray, "k"]:
        """Indices of features whose raw number is whole: all but continuous ones."""
        kinds = [j for j, feature in enumerate(self.features) if feature.type is not FeatureType.CONTINUOUS]
        return np.array(kinds, dtype=np.intp)

    @cached_property
    def whole_numeric(self) -> Int[np.ndarray, "k"]:
        """Of the features encoded as one number, those whose raw number is whole."""
        return np.intersect1d(self.whole, self.numeric)

    @cached_property
    def limits_raw(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """Smallest and largest legal raw number of each feature."""
        low, high = zip(*(feature.range_raw for feature in self.features), strict=True)
        return np.array(low), np.array(high)

    def encode(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
        """Encoded points of raw rows."""
        X = np.zeros((len(rows_raw), self.d))
        X[:, self.numeric_columns] = (rows_raw[:, self.numeric] - self.center_raw) / self.scale_raw
        if self.groups.size:
            hot = self.group_starts + rows_raw[:, self.groups].astype(np.intp)
            X[np.arange(len(X))[:, None], hot] = 1.0
        return X

    def decode(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """The legal raw row nearest to each encoded point: whole numbers rounded, limits kept, the largest category."""
        rows_raw = np.empty((len(X), self.p))
        rows_raw[:, self.numeric] = X[:, self.numeric_columns] * self.scale_raw + self.center_raw
        rows_raw[:, self.whole_numeric] = np.rint(rows_raw[:, self.whole_numeric])
        for j in self.groups:
            rows_raw[:, j] = X[:, self.spans[j]].argmax(axis=1)
        return np.clip(rows_raw, *self.limits_raw)

    def same_columns(self, other: "FeatureSpace") -> bool:
        """Whether another schema has the same features with the same values, if perhaps other scales."""
        return self.columns == other.columns and all(
            (mine.type, mine.levels) == (theirs.type, theirs.levels)
            for mine, theirs in zip(self.features, other.features, strict=True)
        )

    def recode(self, X: Float[np.ndarray, "n d"], other: "FeatureSpace") -> Float[np.ndarray, "n d"]:
        """Points of another space with the same columns, in the scales of this one."""
        recoded = X.copy()
        raw = X[:, other.numeric_columns] * other.scale_raw + other.center_raw
        recoded[:, self.numeric_columns] = (raw - self.center_raw) / self.scale_raw
        return recoded

    def read(self, record: Mapping[str, object], *, pointer: str = "/applicant") -> Float[np.ndarray, "p"]:
        """The raw row of a JSON record.

        Raises
        ------
        InvalidRecord : with every fault and its pointer
        """
        row_raw, faults = self._read(record, pointer)
        if faults:
            raise InvalidRecord(faults=faults)
        return row_raw

    def read_many(self, records: Iterable[Mapping[str, object]], *, pointer: str) -> Float[np.ndarray, "n p"]:
        """The raw rows of JSON records; pointers are ``{pointer}/{index}/{feature}``. Errors as in `read`."""
        rows: list[Float[np.ndarray, p]] = []
        faults: list[Fault] = []
        for index, record in enumerate(records):
            row_raw, found = self._read(record, f"{pointer}/{index}")
            rows.append(row_raw)
            faults += found
        if faults:
            raise InvalidRecord(faults=faults)
        return np.array(rows).reshape(len(rows), self.p)

    def _read(self, record: Mapping[str, object], pointer: str) -> tuple[Float[np.ndarray, "p"], list[Fault]]:
        row_raw = np.zeros(self.p)
        faults: list[Fault] = []
        for j, feature in enumerate(self.features):
            if feature.name not in record:
                faults.append(Fault(f"{pointer}/{escape(feature.name)}", "is missing"))
                continue
            try:
                row_raw[j] = feature.parse(record[feature.name])
            except ValueError as error:
                faults.append(Fault(f"{pointer}/{escape(feature.name)}", str(error)))
        unknown = [name for name in record if name not in self._index]
        faults += [
            Fault(f"{pointer}/{escape(name[:100])}", "is not a feature of this model; its features are "
                  + ", ".join(self.names)) for name in unknown[:20]
        ]  # fmt: skip
        return row_raw, faults

    def record(self, row_raw: Float[np.ndarray, "p"]) -> Record:
        """The JSON record of a raw row; `read` gives the same row back, to the last bit."""
        return {f.name: f.value(float(v)) for f, v in zip(self.features, row_raw, strict=True)}

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def index(self, name: str) -> int | None:
        """Position of a feature, None for a name that is not in the schema."""
        return self._index.get(name)


def escape(name: str) -> str:
    """A key as a JSON pointer token."""
    return name.replace("~", "~0").replace("/", "~1")


Encoding: TypeAlias = Literal["standard", "minmax", "none"]


def fit_encoding(
    features: Sequence[Feature], rows_raw: Float[np.ndarray, "n p"], encoding: Encoding
) -> tuple[Feature, ...]:
    """Features with `center` and `scale`; those that have them keep them.

    `standard` is mean and standard deviation of the reference data (population form), `minmax` maps its range to
    [0, 1], `none` keeps raw numbers. A constant column gets scale 1. Ordinals are fitted on their index; a binary is
    always 0 or 1.
    """
    fitted: list[Feature] = []
    for j, feature in enumerate(features):
        column = rows_raw[:, j]
        if feature.is_group or feature.center is not None:
            fitted.append(feature)
            continue
        if encoding == "none" or feature.type is FeatureType.BINARY:
            center, scale = 0.0, 1.0
        elif column.min() == column.max():  # the computed deviation of equal numbers need not be zero
            center, scale = float(column[0]), 1.0
        elif encoding == "standard":
            center, scale = float(column.mean()), float(column.std())
        else:
            center, scale = float(column.min()), float(np.ptp(column))
        fitted.append(replace(feature, center=center, scale=scale if scale > 0 else 1.0))
    return tuple(fitted)


def schema_faults(features: Sequence[Feature]) -> list[Fault]:
    """What is wrong with a feature schema; pointers are ``/features/{index}``. Empty when all is well."""
    faults = [Fault(f"/features/{j}", text) for j, feature in enumerate(features) for text in feature.faults()]
    seen: set[str] = set()
    for j, feature in enumerate(features):
        if feature.name in seen:
            faults.append(Fault(f"/features/{j}/name", f'"{feature.name}" is the name of an earlier feature'))
        seen.add(feature.name)
    return faults


def parse_column(feature: Feature, texts: Sequence[Any]) -> tuple[Float[np.ndarray, "n"], list[tuple[int, str]]]:
    """Raw numbers of a column of text (a CSV), and the rows that do not parse with the reason."""
    values = np.zeros(len(texts))
    faults: list[tuple[int, str]] = []
    for i, text in enumerate(texts):
        try:
            values[i] = feature.parse(_from_text(feature, text))
        except ValueError as error:
            faults.append((i, str(error)))
    return values, faults


def _from_text(feature: Feature, text: Any) -> object:
    if not isinstance(text, str):
        return text
    if feature.is_number:
        try:
            return float(text)
        except ValueError:
            return text
    if feature.type is FeatureType.BINARY and not feature.categories:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    return text
