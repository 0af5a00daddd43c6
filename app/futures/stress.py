"""Stresses: future models of records that are drawn as if applicants had changed.

No resampling of old records knows how the population will move. A stress says what answers are worth if it moves in a
stated direction, and how far it may move. Along a column, or along today's model's own score, the record of the highest
value is drawn more often than that of the lowest one, or the other way round. With `u` in (0, 1) the share of records
below one, equal ones counted half, the weight of a record is ``exp(t u)`` or ``exp(-t u)``, so units and outliers do
not matter; the strength `s` sets `t` so that the mean of `u` moves from 0.5 to ``0.5 + s / 2``. At strength 1, instead,
one half of the records is left out: the mean of `u` is 0.75 as at 0.5, but models know nothing of the other half. Along
the base rate, the odds of the favourable outcome are multiplied by ``2^s`` or ``2^-s``.

Trees know nothing where there are no records, and answers may lie there: no resampling of the records changes what all
trees say of such an answer, and one new record may. So for trees, a part of the records drawn, `FAILED` at strength 1,
are people who followed an answer of today's model and failed. Among many records like them these few change nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from app.errors import RehearsalFailed
from app.futures.records import LEAST, MOST_DRAWN, Records
from app.recourse.features import Feature, FeatureType
from app.recourse.models.committee import ANSWERS, BASE_RATE, OWN_SCORE, Stress
from app.registry.reference import read_header, read_table
from app.registry.version import LoadedModel

__all__ = ["Stress", "Stressed", "along", "columns", "followed", "ranks", "stressed_records", "weights"]

STRENGTHS = (0.25, 0.5, 1.0)
"""Of each stress; the mean of `u` is 0.625 and 0.75, and then half of the records are left out."""

COLUMNS = 3
"""Columns that matter most to today's model, along which there is a stress by itself."""

FAILED = 0.05
"""Share of the records drawn that are people who followed an answer and failed, at strength 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stressed:
    """A stress, and at each strength the probability with which it draws each record."""

    stress: Stress
    weights: Float[np.ndarray, "t n"]
    """How likely each record is to be drawn, at each strength; rows sum to 1."""


def stressed_records(
    model: LoadedModel, records: Records, path: Path, chosen: str | Sequence[Stress], most: int
) -> list[Stressed]:
    """The stresses to rehearse, each with the probabilities of records at all `STRENGTHS`.

    Parameters
    ----------
    path : CSV that has the records
    chosen : `auto`, `none`, or a list of stresses; `auto` leaves out stresses that draw too few records of one label
    most : largest number of stresses; the first ones are kept

    Raises
    ------
    RehearsalFailed : the column of a stress does not exist, has no order, or holds a single value; or a listed stress
        draws too few records of one label
    """
    found: list[Stressed] = []
    if chosen == "none":
        return found
    automatic = isinstance(chosen, str)
    for stress in _usual(model) if isinstance(chosen, str) else chosen:
        drawn = np.array([weights(model, records, path, stress, strength) for strength in STRENGTHS])
        size = min((len(records.favourable) + 1) // 2, MOST_DRAWN)
        rates = drawn @ records.favourable
        if size * min(rates.min(), 1.0 - rates.max()) >= LEAST / 2.0:
            found.append(Stressed(stress=stress, weights=drawn))
        elif not automatic:
            raise RehearsalFailed(
                f"Under the stress {stress.column}={stress.direction} too few records have one of the outcomes."
            )
        if len(found) == most:
            break
    return found


def followed(records: Records, answers_raw: Float[np.ndarray, "m p"]) -> tuple[Records, Stressed]:
    """The records, after them people who followed these answers and failed, and the stress that draws such people."""
    n, m = len(records.favourable), len(answers_raw)
    both = replace(
        records,
        rows_raw=np.concatenate([records.rows_raw, answers_raw]),
        favourable=np.concatenate([records.favourable, np.zeros(m, dtype=bool)]),
    )
    failed = FAILED * np.array(STRENGTHS)[:, None]
    drawn = np.concatenate([np.tile((1.0 - failed) / n, n), np.tile(failed / m, m)], axis=1)
    return both, Stressed(stress=Stress(column=ANSWERS, direction="down"), weights=drawn)


def _usual(model: LoadedModel) -> Iterator[Stress]:
    """What applicants may do: weaker before stronger, then fewer favourable outcomes, then columns by weight."""
    own = (OWN_SCORE, BASE_RATE)
    for column, direction in ((OWN_SCORE, "down"), (BASE_RATE, "down"), (OWN_SCORE, "up"), (BASE_RATE, "up")):
        yield Stress(column=column, direction=direction)  # type: ignore[arg-type]
    for column in _leading(model):
        if column not in own:
            yield Stress(column=column, direction="down")
            yield Stress(column=column, direction="up")


def _leading(model: LoadedModel) -> list[str]:
    """The columns that matter most: those with the largest weights in a linear fit of the model's score by ranks.

    No model is asked: the reference has the scores.
    """
    space, reference = model.registered.space, model.reference
    at = [j for j, one in enumerate(space.features) if one.type is not FeatureType.CATEGORICAL]
    values = [_of_feature(space.features[j], reference.rows_raw[:, j]) for j in at]
    varied = [(j, v) for j, v in zip(at, values, strict=True) if len(np.unique(v[~np.isnan(v)])) > 1]
    if not varied:
        return []
    U = np.column_stack([ranks(v) for _, v in varied])
    finite = np.isfinite(reference.scores)
    fitted, *_ = np.linalg.lstsq(
        np.column_stack([U, np.ones(len(U))])[finite], ranks(reference.scores)[finite], rcond=None
    )
    order = np.argsort(-np.abs(fitted[:-1]) * U.std(axis=0), kind="stable")[:COLUMNS]
    return [space.features[varied[i][0]].name for i in order]


def columns(features: Sequence[Feature], header: Sequence[str]) -> list[str]:
    """Names of the columns along which a stress can shift the records.

    Left out are features without an order of categories, and names that `header` has twice. Columns of the CSV that are
    no features are included; only reading them shows whether they hold numbers or dates.
    """
    names = {feature.name for feature in features}
    ordered = [feature.name for feature in features if feature.type is not FeatureType.CATEGORICAL]
    return ordered + [name for name in header if name not in names and header.count(name) == 1]


def weights(
    model: LoadedModel, records: Records, path: Path, stress: Stress, strength: float = 0.5
) -> Float[np.ndarray, "n"]:
    """Probability with which a stress draws each record; missing values and special codes rank in the middle.

    Parameters
    ----------
    path : CSV that has the records
    strength : how far the stress goes, in (0, 1]

    Raises
    ------
    RehearsalFailed : the column does not exist, has no order, or holds a single value
    UnicodeDecodeError, csv.Error, OSError : the CSV cannot be read
    """
    sign = 1.0 if stress.direction == "up" else -1.0
    if stress.column == BASE_RATE:
        drawn = np.where(records.favourable, 2.0 ** (sign * strength), 1.0)
    else:
        if stress.column == OWN_SCORE:
            values = model.reference.scores if records.of_reference else model.black_box.score_raw(records.rows_raw)
        else:
            values = along(model.registered.space.features, records.rows_raw, path, stress.column)
        drawn = _half(sign * values) if strength == 1.0 else np.exp(_tilt(strength) * sign * ranks(values))
    return np.asarray(drawn / drawn.sum())


def _tilt(strength: float) -> float:
    """The `t` at which the mean of `u` under ``exp(t u)`` is ``0.5 + strength / 2``."""
    return float(brentq(lambda t: 1.0 / -math.expm1(-t) - 1.0 / t - 0.5 - strength / 2.0, 1e-6, 600.0))


def ranks(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """For each value, the share of values below it plus half the share of equal values; 0.5 for NaN."""
    low, high = _places(values)
    return np.asarray((low + high) / 2.0)


def _half(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The part of each record that is in the half of larger values; equal ones have equal parts."""
    low, high = _places(values)
    return np.asarray((high - np.clip(0.5, low, high)) / (high - low))


def _places(values: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The shares of records that are smaller than each, and that are not larger; from 0 to 1 for NaN."""
    known = ~np.isnan(values)
    _, at, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    low, high = np.zeros(len(values)), np.ones(len(values))
    above = np.cumsum(counts)
    low[known], high[known] = ((above - counts) / known.sum())[at], (above / known.sum())[at]
    return low, high


def along(
    features: Sequence[Feature], rows_raw: Float[np.ndarray, "n p"], path: Path, column: str
) -> Float[np.ndarray, "n"]:
    """The values of a column as numbers that keep the column's order; NaN for a value without a place in this order.

    Parameters
    ----------
    path : CSV that has the records
    rows_raw : the same records as raw rows

    Raises
    ------
    RehearsalFailed : the column does not exist, has no order, or holds a single value
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
