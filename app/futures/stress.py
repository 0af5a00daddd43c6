"""A stress: future models of records that are drawn with weights tilted along one column.

No resampling of old records knows how the population will move. A stress says what answers are worth if it moves in a
stated direction: the record of the highest value is drawn `STRESS` times as often as that of the lowest one, or the
other way round. The weight of a record is ``STRESS^u``, or ``STRESS^-u``, where `u` in (0, 1) is the share of records
below it, equal ones counted half. So units and outliers do not matter. Where few records have the same value, the mean
of `u` moves from 0.5 to 0.75, or to 0.25: as far as if half of the records were left out, but no kind is missing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from app.errors import RehearsalFailed
from app.futures.records import Records
from app.recourse.features import Feature, FeatureType
from app.registry.reference import read_header, read_table
from app.registry.version import LoadedModel

Direction: TypeAlias = Literal["up", "down"]

STRESS = 36.4
"""How many times as often the last record is drawn as the first one: then the mean of `u` is 0.75."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress:
    """Along which column, and towards high values or low ones."""

    column: str
    """A number, an ordered category or a yes and no of the schema, or another column of the CSV, of numbers or dates
    (``2026-03-31``)."""
    direction: Direction


def columns(features: Sequence[Feature], header: Sequence[str]) -> list[str]:
    """Along which columns there can be a stress: categories without an order have none, nor have columns of one name.

    Whether another column of the records holds numbers or dates is seen when they are read.
    """
    names = {feature.name for feature in features}
    ordered = [feature.name for feature in features if feature.type is not FeatureType.CATEGORICAL]
    return ordered + [name for name in header if name not in names and header.count(name) == 1]


def weights(model: LoadedModel, records: Records, path: Path, stress: Stress) -> Float[np.ndarray, "n"]:
    """How likely each record is to be drawn; sums to 1. Missing values and special codes count as the middle.

    Parameters
    ----------
    path : CSV that the records come from

    Errors as `along`.
    """
    values = along(model.registered.space.features, records.rows_raw, path, stress.column)
    known = ~np.isnan(values)
    # Ranks of the middle of equal values, as shares.
    _, at, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    u = np.full(len(values), 0.5)
    u[known] = (np.cumsum(counts) - counts / 2)[at] / known.sum()
    tilted = np.exp(math.log(STRESS) * (u if stress.direction == "up" else -u))
    return np.asarray(tilted / tilted.sum())


def along(
    features: Sequence[Feature], rows_raw: Float[np.ndarray, "n p"], path: Path, column: str
) -> Float[np.ndarray, "n"]:
    """Numbers in the order of a column; NaN for what has no place in it.

    Parameters
    ----------
    rows_raw : the records of the CSV at `path`

    Raises
    ------
    RehearsalFailed : there is no such column, it has no order, or all of its values are the same
    UnicodeDecodeError, csv.Error, OSError : the CSV cannot be read
    """
    if column not in (known := columns(features, read_header(path))):
        raise RehearsalFailed(f'There is no stress along "{column}", only along one of {", ".join(known)[:1_000]}.')
    at = next((j for j, feature in enumerate(features) if feature.name == column), None)
    values = _other_numbers(path, column) if at is None else _of_feature(features[at], rows_raw[:, at])
    if len(np.unique(values[~np.isnan(values)])) < 2:
        raise RehearsalFailed(f'The column "{column}" has the same value in all records: no stress along it.')
    return values


def _other_numbers(path: Path, column: str) -> Float[np.ndarray, "n"]:
    """The numbers or dates in a column that is no feature. Raises `RehearsalFailed` where it holds anything else."""
    table = read_table(path)
    i = table.header.index(column)
    return np.array([_number(row[i].strip(), column, line) for row, line in zip(table.rows, table.lines, strict=True)])


def _of_feature(feature: Feature, values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    return np.where(np.isin(values, feature.states_raw), np.nan, values)


def _number(text: str, column: str, line: int) -> float:
    if not text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(date.fromisoformat(text[:10]).toordinal())
    except ValueError as error:
        detail = f'must be a number or a date such as 2026-03-31, for a stress along "{column}"'
        raise RehearsalFailed(f'The line {line} of the records has "{text[:50]}", which {detail}') from error
