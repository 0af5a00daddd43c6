"""Center and scale of features: those of a model's own columns, and those that say how far apart people are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.features.feature import Feature, FeatureType
from app.recourse.features.feature_options import MISSING

Encoding: TypeAlias = Literal["standard", "minmax", "none"]

Spread: TypeAlias = Literal["robust", "encoding"]

TAIL = 0.01
"""Share of the values at either end that a robust spread does not look beyond."""


def fit_encoding(
    features: Sequence[Feature], rows_raw: Float[np.ndarray, "n p"], encoding: Encoding
) -> tuple[Feature, ...]:
    """The features with `center` and `scale` of the model's own columns filled in; features that have both keep them.

    With `standard`, these are the mean and the population standard deviation of the rows; with `minmax`, they map the
    rows to [0, 1]; with `none`, they keep raw numbers. A constant column gets scale 1. Ordinals are fitted on their
    index. Binaries keep 0 and 1.

    Parameters
    ----------
    rows_raw : (n, p), reference records as the model sees them; NaN is left out, and a missing value with an indicator
        counts as the feature's `fill`
    """
    fitted: list[Feature] = []
    for j, feature in enumerate(features):
        column = rows_raw[:, j]
        if feature.fill_raw is not None:
            column = np.where(column == MISSING, feature.fill_raw, column)
        column = column[~np.isnan(column)]
        if feature.is_group or feature.center is not None:
            fitted.append(feature)
            continue
        if encoding == "none" or feature.type is FeatureType.BINARY:
            center, scale = 0.0, 1.0
        elif (
            not column.size or column.min() == column.max()
        ):  # the computed deviation of equal numbers need not be zero
            center, scale = float(column[0]) if column.size else 0.0, 1.0
        elif encoding == "standard":
            center, scale = float(column.mean()), float(column.std())
        else:
            center, scale = float(column.min()), float(np.ptp(column))
        fitted.append(replace(feature, center=center, scale=scale if scale > 0 else 1.0))
    return tuple(fitted)


def fit_spread(features: Sequence[Feature], rows_raw: Float[np.ndarray, "n p"]) -> tuple[Feature, ...]:
    """The features with `center` and `scale` from the spread of values among people, not from the model's scales.

    The scale is the `spread` that a feature states. Without one, it is the standard deviation of its values, after
    values beyond the 1st and the 99th percentile are moved to that percentile. So a few very large values hardly change
    it; for a normal distribution, it is within 3 % of the plain standard deviation. Missing values and special codes
    are left out. Binaries keep 0 and 1.

    Parameters
    ----------
    rows_raw : (n, p), reference rows with these features as columns
    """
    fitted: list[Feature] = []
    for j, feature in enumerate(features):
        if feature.is_group:
            fitted.append(feature)
            continue
        column = rows_raw[~np.isin(rows_raw[:, j], feature.states_raw), j]
        center, scale = 0.0, 1.0
        if feature.type is not FeatureType.BINARY and column.size:
            inner = np.clip(column, *np.quantile(column, [TAIL, 1.0 - TAIL]))
            center = float(inner.mean())
            scale = next((float(x.std()) for x in (inner, column) if x.min() < x.max()), 1.0)
        fitted.append(replace(feature, center=center, scale=feature.spread or scale))
    return tuple(fitted)
