"""The two spaces a record lives in: raw rows and encoded points."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import Fault, InvalidRecord
from app.recourse.features.derived import DerivedColumns
from app.recourse.features.feature import Feature, FeatureType, RawValue, Record
from app.recourse.features.feature_options import MISSING

SENT_ROUNDING = 1e-9
"""Relative tolerance of a derived value that was sent."""


class FeatureSpace:
    """The features of a model with their fitted scales; converts between JSON records, raw rows and encoded points.

    Parameters
    ----------
    features : all features in the manifest's order; each one that is encoded as a number has `center` and `scale`
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.schema = tuple(features)
        """All features of a record, in the order of the manifest."""
        self.features = self._own(features)
        """Those that rows and points have: all but derived ones."""
        more = len(self.features) < len(self.schema)
        self.derived = DerivedColumns(self.schema) if more else None
        self.names = tuple(feature.name for feature in self.features)
        self.p = len(self.features)
        spans: list[slice] = []
        columns: list[str] = []
        for feature in self.features:
            names = self._columns(feature)
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
        states = [
            (k, spans[j].start + 1 + i, state)
            for k, j in enumerate(numeric)
            for i, state in enumerate(self._states(self.features[j]))
        ]
        self.state_numbers: Int[np.ndarray, s] = np.array([k for k, _, _ in states], dtype=np.intp)
        """Which of `numeric` each state belongs to."""
        self.state_columns: Int[np.ndarray, s] = np.array([column for _, column, _ in states], dtype=np.intp)
        self.states_raw: Float[np.ndarray, s] = np.array([state for _, _, state in states], dtype=float)

    @staticmethod
    def _own(features: Sequence[Feature]) -> tuple[Feature, ...]:
        return tuple(feature for feature in features if feature.derived is None)

    @staticmethod
    def _states(feature: Feature) -> tuple[float, ...]:
        """Raw numbers of a number-like feature that have a column of their own."""
        return feature.states_raw

    def _columns(self, feature: Feature) -> list[str]:
        """Names of the encoded columns of a feature."""
        if feature.is_group:
            return [f"{feature.name}={'missing' if level is None else level}" for level in feature.levels]
        states = ("missing" if state == MISSING else f"{state:.15g}" for state in self._states(feature))
        return [feature.name, *(f"{feature.name}:{state}" for state in states)]

    @cached_property
    def feature_of_column(self) -> Int[np.ndarray, "d"]:
        """For each encoded column, the index of the feature that it belongs to."""
        return np.repeat(np.arange(self.p), [span.stop - span.start for span in self.spans])

    @cached_property
    def spread_raw(self) -> Float[np.ndarray, "p"]:
        """One unit of each feature's encoded column, in raw units; 1 for a feature with one column per category."""
        spread = np.ones(self.p)
        spread[self.numeric] = self.scale_raw
        return spread

    @cached_property
    def most_spreads(self) -> Float[np.ndarray, "p"]:
        """The longest distance that each feature can move, in spreads: 1 for a categorical feature, else infinite."""
        most = np.full(self.p, np.inf)
        most[self.groups] = 1.0
        return most

    @cached_property
    def holds_values(self) -> Bool[np.ndarray, "d"]:
        """Mask of the encoded columns that hold a number or a category; false for columns of states."""
        values = np.ones(self.d, dtype=bool)
        values[self.state_columns] = False
        return values

    @cached_property
    def noisy_columns(self) -> Int[np.ndarray, "k"]:
        """Indices of the encoded columns to which noise applies: numbers that people may implement inexactly."""
        return np.array([self.spans[j].start for j, f in enumerate(self.features) if f.is_number and f.noise], np.intp)

    @cached_property
    def lattice_raw(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """For each feature, the step between its legal raw numbers, and one of these numbers.

        The step is 0 where any number is allowed.
        """
        step, anchor = np.array([feature.lattice_raw for feature in self.features], dtype=float).reshape(-1, 2).T
        return step, anchor

    @cached_property
    def whole(self) -> Int[np.ndarray, "k"]:
        """Indices of the features whose raw numbers are whole: all but continuous ones."""
        kinds = [j for j, feature in enumerate(self.features) if feature.type is not FeatureType.CONTINUOUS]
        return np.array(kinds, dtype=np.intp)

    @cached_property
    def whole_numeric(self) -> Int[np.ndarray, "k"]:
        """Indices of the features that have one encoded column and whole raw numbers."""
        return np.intersect1d(self.whole, self.numeric)

    @cached_property
    def limits_raw(self) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
        """Two rows: the smallest and the largest legal raw number of each feature."""
        low, high = zip(*(feature.range_raw for feature in self.features), strict=True)
        return np.array(low, dtype=float), np.array(high, dtype=float)

    @cached_property
    def fill_raw(self) -> Float[np.ndarray, "m"]:
        """For each feature in `numeric`, the raw number that is encoded in place of a state.

        It is the feature's `fill`, or its `center` where it has none.
        """
        fills = [self.features[j].fill_raw for j in self.numeric.tolist()]
        return np.array(
            [c if fill is None else fill for c, fill in zip(self.center_raw.tolist(), fills, strict=True)], dtype=float
        )

    def in_state(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        """Mask, per row and feature, of missing values and special codes; a missing category is a level instead."""
        found = np.zeros(rows_raw.shape, dtype=bool)
        for k, state in zip(self.state_numbers.tolist(), self.states_raw.tolist(), strict=True):
            found[:, self.numeric[k]] |= rows_raw[:, self.numeric[k]] == state
        return found

    def encode_numbers(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n m"]:
        """The encoded numbers of raw rows, one column for each feature in `numeric`."""
        numbers = rows_raw.take(self.numeric, axis=1)
        if self.states_raw.size:
            numbers = np.where(self.in_state(rows_raw)[:, self.numeric], self.fill_raw, numbers)
        return (numbers - self.center_raw) / self.scale_raw

    def encode(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
        """Encoded points of raw rows."""
        X = np.zeros((len(rows_raw), self.d))
        X[:, self.numeric_columns] = self.encode_numbers(rows_raw)
        if self.states_raw.size:
            X[:, self.state_columns] = rows_raw[:, self.numeric[self.state_numbers]] == self.states_raw
        if self.groups.size:
            hot = self.group_starts + rows_raw.take(self.groups, axis=1).astype(np.intp)
            X[np.arange(len(X))[:, None], hot] = 1.0
        return X

    def decode(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """For each encoded point, the nearest raw row within the limits of the schema; whole numbers are rounded.

        Of a categorical feature, the category with the largest column is taken. A feature is missing or has a special
        code where the column of this state is above one half.
        """
        rows_raw = np.empty((len(X), self.p))
        rows_raw[:, self.numeric] = X[:, self.numeric_columns] * self.scale_raw + self.center_raw
        rows_raw[:, self.whole_numeric] = np.rint(rows_raw[:, self.whole_numeric])
        for j in self.groups:
            rows_raw[:, j] = X[:, self.spans[j]].argmax(axis=1)
        rows_raw = np.clip(rows_raw, *self.limits_raw)
        for k, column, state in zip(self.state_numbers, self.state_columns, self.states_raw, strict=True):
            rows_raw[X[:, column] > 0.5, self.numeric[k]] = state
        return rows_raw

    def same_columns(self, other: "FeatureSpace") -> bool:
        """Whether the `other` space has the same features, values and states; its scales may differ."""
        return self.columns == other.columns and all(
            (mine.type, mine.levels) == (theirs.type, theirs.levels)
            for mine, theirs in zip(self.features, other.features, strict=True)
        )

    def recode(self, X: Float[np.ndarray, "n d"], other: "FeatureSpace") -> Float[np.ndarray, "n d"]:
        """The encoded points `X` of another space converted to encoded points of this one.

        `other` is that space; it has the same encoded columns, in other units.
        """
        recoded = X.copy()
        raw = X[:, other.numeric_columns] * other.scale_raw + other.center_raw
        for k, column in zip(self.state_numbers, self.state_columns, strict=True):
            raw[:, k] += X[:, column] * (self.fill_raw[k] - other.fill_raw[k])
        recoded[:, self.numeric_columns] = (raw - self.center_raw) / self.scale_raw
        return recoded

    def read(self, record: Mapping[str, object], *, pointer: str = "") -> Float[np.ndarray, "p"]:
        """The raw row of a JSON record.

        Parameters
        ----------
        pointer : JSON pointer to the record in the caller's input; pointers of faults begin with it

        Raises
        ------
        InvalidRecord : the record is not legal; the error has every fault with its pointer
        """
        row_raw, faults = self._read(record, pointer)
        if faults:
            raise InvalidRecord(faults=faults)
        return row_raw

    def read_many(self, records: Iterable[Mapping[str, object]], *, pointer: str) -> Float[np.ndarray, "n p"]:
        """The raw rows of JSON records.

        Raises `InvalidRecord` with every fault of all records, at ``{pointer}/{index}/{feature}``.
        """
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
        for j, (feature, words) in enumerate(zip(self.features, self._words, strict=True)):
            if feature.name not in record:
                known = "is not in the record; send null where there is no value" if feature.missing else "is missing"
                faults.append(Fault(f"{pointer}/{escape(feature.name)}", known))
                continue
            value = record[feature.name]
            if type(value) is str and value in words:
                row_raw[j] = words[value]
                continue
            try:
                row_raw[j] = feature.parse(value)
            except ValueError as error:
                faults.append(Fault(f"{pointer}/{escape(feature.name)}", str(error)))
        if not faults:
            faults += self._derived_faults(row_raw, record, pointer)
        unknown = [name for name in record if name not in self._schema_names]
        faults += [
            Fault(f"{pointer}/{escape(name[:100])}", "is not a feature of this model; its features are "
                  + ", ".join(self._schema_names)) for name in unknown[:20]
        ]  # fmt: skip
        return row_raw, faults

    def _derived_faults(
        self, row_raw: Float[np.ndarray, "p"], record: Mapping[str, object], pointer: str
    ) -> list[Fault]:
        """Derived values that are no legal numbers, or that were sent otherwise than they follow from the others."""
        if self.derived is None:
            return []
        faults: list[Fault] = []
        values = self.derive(row_raw[None])
        for feature in self.schema:
            if feature.derived is None:
                continue
            at, value = f"{pointer}/{escape(feature.name)}", float(values[feature.name][0])
            if not _legal(feature, values[feature.name])[0]:
                faults.append(Fault(at, f"follows from other features as {value:g}; {_range(feature)}"))
            elif feature.name in record and (expected := _sent_wrong(feature, record[feature.name], value)):
                faults.append(Fault(at, expected))
        return faults

    def derive(self, rows_raw: Float[np.ndarray, "n p"]) -> dict[str, Float[np.ndarray, "n"]]:
        """The raw numbers of each derived feature, by its name: an array with one number per row."""
        if self.derived is None:
            return {}
        return self.derived.values({name: rows_raw[:, j] for j, name in enumerate(self.names)})

    def derives_legally(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which all derived values are legal."""
        legal = np.ones(len(rows_raw), dtype=bool)
        values = self.derive(rows_raw)
        for feature in self.schema:
            if feature.name in values:
                legal &= _legal(feature, values[feature.name])
        return legal

    def record(self, row_raw: Float[np.ndarray, "p"]) -> Record:
        """The JSON record of a raw row, with derived values; `read` returns the same row to the last bit."""
        if self.derived is None:
            pairs = zip(self.features, self._levels, row_raw.tolist(), strict=True)
            return {
                feature.name: feature.value(number) if levels is None else levels[int(number)]
                for feature, levels, number in pairs
            }
        values = dict(zip(self.names, row_raw.tolist(), strict=True))
        values |= {name: float(found[0]) for name, found in self.derive(row_raw[None]).items()}
        return {feature.name: feature.value(values[feature.name]) for feature in self.schema}

    @cached_property
    def _levels(self) -> list[tuple[RawValue, ...] | None]:
        """The levels of each feature that is no number and has no state; `Feature.levels` makes them anew each time."""
        return [None if f.is_number or f.states_raw else f.levels for f in self.features]

    @cached_property
    def _words(self) -> list[dict[str, int]]:
        """For each feature the index of each level that is a text."""
        return [{one: k for k, one in enumerate(levels or ()) if isinstance(one, str)} for levels in self._levels]

    @cached_property
    def _schema_names(self) -> dict[str, None]:
        """Names of all features, derived ones too, in order."""
        return dict.fromkeys(feature.name for feature in self.schema)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def index(self, name: str) -> int | None:
        """Column of the feature `name` in a raw row; None for a name without a column, such as a derived feature's."""
        return self._index.get(name)


def _legal(feature: Feature, values: Float[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Which raw numbers a record may hold."""
    low, high = feature.range_raw
    return (np.isfinite(values) & (values >= low) & (values <= high)) | np.isin(values, feature.states_raw)


def _range(feature: Feature) -> str:
    low, high = feature.range_raw
    limits = [f"at least {low:g}"] * math.isfinite(low) + [f"at most {high:g}"] * math.isfinite(high)
    return "it must be " + (" and ".join(limits) or "a finite number")


def _sent_wrong(feature: Feature, sent: object, value: float) -> str | None:
    """The fault of a derived value that was sent, None where it agrees; `decimals` say how far it may be rounded."""
    expected = "null" if value == MISSING else f"{value:.12g}"
    rounded = 0.5 * 10.0**-feature.decimals if feature.decimals is not None else 0.0
    if sent is None or value == MISSING:
        agrees = sent is None and value == MISSING
    elif isinstance(sent, int | float) and not isinstance(sent, bool):
        agrees = abs(sent - value) <= rounded + SENT_ROUNDING * max(1.0, abs(value))
    else:
        agrees = False
    return None if agrees else f"follows from other features as {expected}; send that, or leave it out"


def escape(name: str) -> str:
    """A key with the escapes that a JSON pointer needs."""
    return name.replace("~", "~0").replace("/", "~1")
