"""Raw rows as in the lender's own table, and the output for the favourable class."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import ModelOutputInvalid
from app.recourse.features import Feature, FeatureType, Missing
from app.recourse.models.score import Output
from app.registry.manifest import Manifest

SINGLE_ROUNDING = 1e-6
"""Tolerance for probabilities in single precision outside [0, 1]."""


def raw_column(feature: Feature) -> Callable[[np.ndarray], np.ndarray]:
    """Maps the raw numbers of a feature to the values in the lender's own table.

    A missing number is NaN, and whole numbers are floating ones where some may be missing; a missing level is None.
    """
    if feature.type is FeatureType.CONTINUOUS:
        return lambda numbers: numbers
    missing = feature.missing is Missing.NAN
    if feature.type is FeatureType.INTEGER:
        return (lambda numbers: numbers) if missing else (lambda numbers: numbers.astype(np.int64))
    levels = np.array([*feature.levels, None], dtype=object)
    if feature.levels == (False, True) and not missing:
        levels = np.array(feature.levels)
    last = len(levels) - 1
    return lambda numbers: levels[np.where(np.isnan(numbers), last, numbers).astype(np.intp)]


def whole_levels(feature: Feature) -> bool:
    """Whether the levels of a feature are whole numbers, which a model may take as such."""
    return bool(feature.categories) and all(re.fullmatch(r"-?[0-9]{1,15}", level) for level in feature.categories)


def code_column(feature: Feature) -> Callable[[np.ndarray], np.ndarray]:
    """As `raw_column`, with levels that are whole numbers as numbers; a missing one is NaN."""
    if feature.is_number or not whole_levels(feature):
        return raw_column(feature)
    codes = np.array([int(level) for level in feature.categories])
    if feature.missing is not Missing.NAN:
        return lambda numbers: codes[numbers.astype(np.intp)]
    with_missing = np.array([*codes, np.nan])
    return lambda numbers: with_missing[np.where(np.isnan(numbers), len(codes), numbers).astype(np.intp)]


def as_json(values: np.ndarray) -> list[Any]:
    """Values of a column as plain data; NaN is null."""
    found: list[Any] = values.tolist()
    return [None if value != value else value for value in found] if values.dtype.kind == "f" else found


def labels_to_output(labels: Sequence[Any], manifest: Manifest) -> Float[np.ndarray, "n"]:
    """1 where a label is the favourable one, else 0."""
    return np.array([label == manifest.favourable for label in labels], dtype=float)


def numbers_to_output(values: np.ndarray, manifest: Manifest, column: int | None) -> Float[np.ndarray, "n"]:
    """The output of each record for the favourable class.

    Parameters
    ----------
    values : (n,) or (n, 1), for class 1; or (n, k), a probability for each class
    column : of (n, k), the favourable class; where it is None, that is class 0 or 1

    Raises
    ------
    ModelOutputInvalid : another shape
    """
    values = np.asarray(values, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1 and column is None:
        values = values[:, 0]
    if manifest.output is Output.POINTS and (values.ndim == 1 or column is None):
        found = values
    elif manifest.output is Output.LOGIT:
        found = values if manifest.favourable else -values
    elif values.ndim == 1 and column is None:
        found = values if manifest.favourable else 1.0 - values
    else:
        chosen = int(manifest.favourable) if column is None else column
        if values.ndim != 2 or chosen >= values.shape[1]:
            raise ModelOutputInvalid(f"the output has the shape {values.shape}, so it has no column {chosen}")
        found = values[:, chosen]
    if found.ndim != 1:
        raise ModelOutputInvalid(f"the output has the shape {values.shape}; it must be one number per record")
    return rounded(found) if manifest.output is Output.PROBABILITY else found


def rounded(probabilities: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Probabilities, with those just outside [0, 1] rounded to 0 or 1."""
    p = probabilities
    beyond = ((p < 0.0) & (p > -SINGLE_ROUNDING)) | ((p > 1.0) & (p < 1.0 + SINGLE_ROUNDING))
    return np.where(beyond, np.round(p), p)
