"""What a model takes: its own columns, in its own scales, with missing values as it knows them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from app.recourse.features.feature import Feature, FeatureType
from app.recourse.features.feature_options import MISSING, Missing
from app.recourse.features.space import FeatureSpace


class ModelSpace(FeatureSpace):
    """The columns that a model takes: all features of the manifest, with derived ones, in the model's scales.

    An ordinal feature with `dummies` is a categorical one here; its raw numbers are the same.

    A missing number in a raw row depends on the manifest. With `missing: nan`, it is NaN; with `missing: fill`, it is
    the feature's `fill`. With `missing: indicator`, it is `MISSING`; encoded, it is `fill` with 1 in a further column.
    A special code is a number like others.
    """

    @staticmethod
    def _own(features: Sequence[Feature]) -> tuple[Feature, ...]:
        return tuple(
            replace(feature, type=FeatureType.CATEGORICAL, center=None, scale=None) if feature.dummies else feature
            for feature in features
        )

    @staticmethod
    def _states(feature: Feature) -> tuple[float, ...]:
        return (MISSING,) if feature.missing is Missing.INDICATOR else ()


class ModelColumns:
    """Converts rows and points of the space in which methods compute to the columns that a model takes.

    Parameters
    ----------
    space : the space in which distances, costs and noise are measured
    model : the model's columns; it has the features of `space` and derived ones, perhaps in other scales
    """

    def __init__(self, space: FeatureSpace, model: ModelSpace) -> None:
        self.space, self.model = space, model
        position = {name: j for j, name in enumerate(space.names)}
        self._own = np.array([j for j, name in enumerate(model.names) if name in position], dtype=np.intp)
        self._from = np.array([position[name] for name in model.names if name in position], dtype=np.intp)
        self._seen = [
            (j, math.nan if feature.fill_raw is None else feature.fill_raw)
            for j, feature in enumerate(model.features)
            if feature.missing in (Missing.NAN, Missing.FILL) and not feature.is_group
        ]
        everything = np.arange(space.p)
        self._same = not self._seen and np.array_equal(self._own, everything) and np.array_equal(self._from, everything)
        self._same &= model.p == space.p
        self.has_nan = any(math.isnan(seen) for _, seen in self._seen)
        """Whether the model sees missing numbers as NaN."""
        dummies = any(feature.dummies for feature in model.features)
        self.affine = space.derived is None and not self.has_nan and not dummies
        """Whether points that are no legal record can be translated too, each column by a linear function."""
        if self.affine:
            self._scales()

    def _scales(self) -> None:
        space, model = self.space, self.model
        where = {name: column for column, name in enumerate(space.columns)}
        columns = np.array([where[name] for name in model.columns], dtype=np.intp)
        in_order = len(columns) == space.d and bool((columns == np.arange(space.d)).all())
        self._columns: Int[np.ndarray, e] | slice = slice(None) if in_order else columns
        """The encoded column from which each column of the model comes; all of them in order take no copy."""
        scale, shift = np.ones(model.d), np.zeros(model.d)
        own = {int(column): k for k, column in enumerate(space.numeric_columns)}
        number = [own[int(column)] for column in columns[model.numeric_columns]]
        scale[model.numeric_columns] = space.scale_raw[number] / model.scale_raw
        shift[model.numeric_columns] = (space.center_raw[number] - model.center_raw) / model.scale_raw
        self._scale, self._shift = scale, shift
        self._plain = bool((scale == 1.0).all() and (shift == 0.0).all() and model.columns == space.columns)
        # A number in a state stands at `fill_raw` in the space, and the model sees another one.
        at = {int(column): int(own_column) for own_column, column in zip(model.numeric_columns, number, strict=True)}
        self._states = [
            (int(column), at[int(k)], self._as_seen(int(k), float(state)) / model.scale_raw[number.index(int(k))])
            for k, column, state in zip(space.state_numbers, space.state_columns, space.states_raw, strict=True)
        ]

    def _as_seen(self, k: int, state: float) -> float:
        """The model's raw number for a missing value or special code, minus the one that the space stores."""
        stands = float(self.space.fill_raw[k])
        feature = self.space.features[int(self.space.numeric[k])]
        seen = stands if feature.fill_raw is None else feature.fill_raw
        return (seen if state == MISSING else state) - stands

    def rows(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """Raw rows of `space` converted to raw rows of the model, in the model's order of features.

        Derived features are added, and each missing number becomes what the model takes for it.
        """
        if self._same:
            return rows_raw
        rows = np.empty((len(rows_raw), self.model.p))
        rows[:, self._own] = rows_raw[:, self._from]
        for name, values in self.space.derive(rows_raw).items():
            rows[:, self.model.names.index(name)] = values
        for j, seen in self._seen:
            rows[rows[:, j] == MISSING, j] = seen
        return rows

    def encode(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n e"]:
        """Raw rows of `space` converted to encoded points of the model.

        A missing number is NaN where the model takes it as NaN.
        """
        return self.model.encode(self.rows(rows_raw))

    def points(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n e"]:
        """Encoded points of `space` converted to encoded points of the model; only if `affine`.

        The points need not be legal records.
        """
        if self._plain:
            return X
        found = X[:, self._columns] * self._scale
        found += self._shift
        for column, own, shift in self._states:
            if shift:
                found[:, own] += X[:, column] * shift
        return np.asarray(found)

    @property
    def invertible(self) -> bool:
        """Whether each encoded column of the model is one encoded column of `space` in other units."""
        return self.affine and not self.space.states_raw.size

    def limits(self, edges: Float[np.ndarray, "m e"]) -> Float[np.ndarray, "m d"]:
        """Limits on the model's encoded columns converted to limits on the encoded columns of `space`.

        Only if `invertible`.
        """
        found = np.empty((len(edges), self.space.d))
        found[:, self._columns] = (edges - self._shift) / self._scale
        return found

    def gradient(self, G: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n d"]:
        """Gradients by the model's encoded columns converted to gradients by the encoded columns of `space`.

        Only if `affine`.
        """
        if self._plain:
            return G
        found = np.zeros((len(G), self.space.d))
        found[:, self._columns] = G * self._scale
        for column, own, shift in self._states:
            found[:, column] += G[:, own] * shift
        return found
