"""A scorecard as risk teams have it: a table of attributes and their points, whose sum is the score.

As CSV, a row for each attribute; a row without a feature has the base points::

    feature,from,to,category,points
    ,,,,300
    income,,1500,,0
    income,1500,,,35
    income,,,missing,10
    housing,,,owned|free,40

A number from `from` up to, but not including, `to` has these points; an empty cell is no limit. `category` lists levels
(``|`` between several), or says ``missing`` or one special code of a number. As YAML or JSON, ``base`` and
``attributes``, a list of the same with `categories` as a list, ``missing: true`` or ``special: -9``.

Every legal value must have points, exactly once. A feature without attributes has none.
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import Fault, ModelRefused
from app.recourse.features import Feature, FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.registry.adapters.artifact import FAULTS, Number, black_box_of, form_refusal, read_artifact, refused
from app.registry.adapters.column_names import level_texts
from app.registry.manifest import Manifest
from app.registry.printable import listed
from app.registry.safe_yaml import read_yaml
from app.registry.trust import Trust

LARGEST_BYTES = 5_000_000
"""Largest file."""

COLUMNS = ("feature", "from", "to", "category", "points")


class Attribute(BaseModel):
    """One row of a scorecard: a feature, some of its values, and the points that these values give."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    feature: Annotated[str, Field(min_length=1)]
    from_: Annotated[Number | None, Field(alias="from")] = None
    to: Number | None = None
    categories: list[str | bool] | None = None
    missing: bool = False
    special: Number | None = None
    points: Number


class Scorecard(BaseModel):
    """The content of a scorecard's file: base points, and the attributes of all features."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Number = 0.0
    attributes: Annotated[list[Attribute], Field(min_length=1)]


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a scorecard.

    Raises `ModelRefused` where the file is no scorecard, or where a legal value has no points or is in two rows.
    """
    content = read_artifact(manifest, directory)
    if len(content) > LARGEST_BYTES:
        raise refused(f"has {len(content):,} bytes; {LARGEST_BYTES:,} is the most")
    try:
        stated = _of_csv(content, space) if manifest.file.path.endswith(".csv") else read_yaml(content)
        card = Scorecard.model_validate(stated)
    except ValidationError as error:
        raise form_refusal(error) from error
    except ValueError as error:
        raise refused(str(error)) from error
    characteristics = _characteristics(card, space)
    return black_box_of(manifest, space, _predict(card.base, characteristics), rowwise=True, additive=True)


# --- from the file ---------------------------------------------------------------------------------------------------


def _of_csv(content: bytes, space: FeatureSpace) -> dict[str, Any]:
    """The rows of a CSV as a `Scorecard` has them."""
    try:
        table = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise refused(f"cannot be read as CSV in UTF-8: {error}") from error
    rows = [(i, [cell.strip() for cell in row]) for i, row in enumerate(table) if any(cell.strip() for cell in row)]
    header = rows[0][1] if rows else []
    if set(header) - set(COLUMNS) or not {"feature", "points"} <= set(header) or len(set(header)) < len(header):
        raise refused(f"must have the columns {', '.join(COLUMNS)}; it has {listed(header) or 'none'}")
    features = {feature.name: feature for feature in space.features}
    base: list[str] = []
    attributes: list[dict[str, Any]] = []
    for i, row in rows[1:]:
        if len(row) != len(header):
            raise refused(f"has {len(row)} cells in row {i + 1}, and {len(header)} in its header")
        cells = {name: cell for name, cell in zip(header, row, strict=True) if cell}
        if "feature" not in cells:
            base.append(cells.get("points", ""))
            continue
        attributes.append(_attribute(cells, features.get(cells["feature"])))
    if len(base) > 1:
        raise refused("has several rows without a feature; one has the base points")
    return {"base": base[0] if base else 0.0, "attributes": attributes}


def _attribute(cells: dict[str, str], feature: Feature | None) -> dict[str, Any]:
    """A row of a CSV as an entry of `attributes`."""
    category = cells.pop("category", None)
    if category is None:
        return dict(cells)
    if category == "missing" and (feature is None or "missing" not in feature.levels):
        return {**cells, "missing": True}
    if feature is not None and feature.is_number:
        return {**cells, "special": category}
    return {**cells, "categories": [part.strip() for part in category.split("|")]}


# --- what it says of each feature ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Characteristic:
    """The points of one feature, by its raw numbers as the model sees them."""

    j: int
    starts: Float[np.ndarray, "k"]
    """The begin of each interval, from low to high."""
    points: Float[np.ndarray, "k"]
    stop: float
    """The end of the last interval."""
    states: dict[float, float]
    """Points of special codes."""
    missing: float
    """Points of a missing value; NaN where it has none."""

    def of(self, numbers: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """The points of each raw number of the feature; NaN for a number without points."""
        absent = np.isnan(numbers)
        at = np.searchsorted(self.starts, np.where(absent, np.inf, numbers), side="right") - 1
        known = (at >= 0) & ((numbers < self.stop) | np.isinf(self.stop))
        found = np.where(known, self.points[np.maximum(at, 0)], np.nan)
        for state, points in self.states.items():
            found[numbers == state] = points
        found[absent] = self.missing
        return found


def _predict(base: float, characteristics: Sequence[_Characteristic]) -> Callable[[np.ndarray], np.ndarray]:
    def total(rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        found = np.full(len(rows_raw), base)
        for one in characteristics:
            found += one.of(rows_raw[:, one.j])
        return found

    return total


def _characteristics(card: Scorecard, space: FeatureSpace) -> list[_Characteristic]:
    """By feature. Raises `ModelRefused` with all faults."""
    faults: list[Fault] = []
    rows: dict[int, list[tuple[int, Attribute]]] = {}
    for i, row in enumerate(card.attributes):
        if row.feature not in space.names:
            detail = f'"{row.feature}" is not a feature; these are {listed(space.names)}'
            faults.append(Fault(f"/artifact/attributes/{i}/feature", detail))
            continue
        rows.setdefault(space.names.index(row.feature), []).append((i, row))
    found = []
    for j, own in rows.items():
        of_feature = _of_number if space.features[j].is_number else _of_levels
        one, more = of_feature(j, space.features[j], own)
        faults += more
        found.append(one)
    if faults:
        raise ModelRefused(faults=faults[:FAULTS])
    return found


Rows = Sequence[tuple[int, Attribute]]


def _missing(feature: Feature, rows: Rows) -> tuple[float, list[Fault]]:
    """Points of a missing value, NaN where the model never sees one."""
    stated = [(i, row.points) for i, row in rows if row.missing]
    seen = feature.missing is not None and feature.fill is None
    faults = [Fault(f"/artifact/attributes/{i}", "is about missing values a second time") for i, _ in stated[1:]]
    if stated and not seen:
        detail = f'gives points to a missing "{feature.name}", which the manifest never leaves missing for the model'
        faults.append(Fault(f"/artifact/attributes/{stated[0][0]}", detail))
    elif seen and not stated:
        faults.append(Fault("/artifact", f'has no points for a missing "{feature.name}"'))
    return (stated[0][1] if stated else np.nan), faults


def _of_number(j: int, feature: Feature, rows: Rows) -> tuple[_Characteristic, list[Fault]]:
    missing, faults = _missing(feature, rows)
    states: dict[float, float] = {}
    bins: list[tuple[float, float, float]] = []
    for i, row in rows:
        pointer = f"/artifact/attributes/{i}"
        if row.categories is not None or (row.special is not None and row.special not in feature.special):
            codes = ", ".join(f"{code:g}" for code in sorted(feature.special)) or "none"
            detail = f'"{feature.name}" is a number: from, to, missing, or one of its special codes, which are {codes}'
            faults.append(Fault(pointer, detail))
        elif row.special is not None:
            if row.special in states:
                faults.append(Fault(pointer, f"is about {row.special:g} a second time"))
            states[row.special] = row.points
        elif not row.missing:
            start = -np.inf if row.from_ is None else row.from_
            stop = np.inf if row.to is None else row.to
            if not start < stop:
                faults.append(Fault(pointer, f"must begin below its end: from {start:g} to {stop:g}"))
            bins.append((start, stop, row.points))
    bins.sort()
    return (
        _Characteristic(
            j=j, starts=np.array([start for start, _, _ in bins]), points=np.array([points for _, _, points in bins]),
            stop=bins[-1][1] if bins else -np.inf, states=states, missing=missing,
        ),
        faults or _cover_faults(feature, bins),
    )  # fmt: skip


def _cover_faults(feature: Feature, bins: Sequence[tuple[float, float, float]]) -> list[Fault]:
    """Legal numbers without points, or with points twice."""
    low, high = feature.range_raw
    if feature.fill_raw is not None:
        low, high = min(low, feature.fill_raw), max(high, feature.fill_raw)
    faults = [
        Fault("/artifact", f'has points twice for "{feature.name}" from {after[0]:g} to {min(before[1], after[1]):g}')
        for before, after in pairwise(bins)
        if after[0] < before[1]
    ]
    gaps = [(before[1], after[0]) for before, after in pairwise(bins) if before[1] < after[0]]
    start, stop = (bins[0][0], bins[-1][1]) if bins else (np.inf, -np.inf)
    gaps = [(max(low, a), min(high, b)) for a, b in gaps if a <= high and b > low]
    if not bins:
        gaps = [(low, high)]
    else:
        gaps += [(low, start)] * bool(start > low) + [(stop, high)] * bool(stop <= high and np.isfinite(stop))
    return faults + [
        Fault("/artifact", f'has no points for "{feature.name}" from {a:g} to {b:g}; `to` itself is not in an interval')
        for a, b in gaps
    ]


def _of_levels(j: int, feature: Feature, rows: Rows) -> tuple[_Characteristic, list[Fault]]:
    missing, faults = _missing(feature, rows)
    levels = [level for level in feature.levels if level is not None]
    points = np.full(len(levels), np.nan)
    for i, row in rows:
        pointer = f"/artifact/attributes/{i}"
        if row.special is not None or row.from_ is not None or row.to is not None:
            faults.append(Fault(pointer, f'"{feature.name}" has levels: name them in categories'))
            continue
        for category in row.categories or ():
            at = [k for k, level in enumerate(levels) if category == level or str(category) in level_texts(level)]
            if not at:
                own = listed([level_texts(level)[-2 if isinstance(level, bool) else 0] for level in levels])
                faults.append(Fault(pointer, f'"{category}" is not a level of "{feature.name}"; these are {own}'))
            elif not np.isnan(points[at[0]]):
                faults.append(Fault(pointer, f'is about "{category}" a second time'))
            else:
                points[at[0]] = row.points
    if not faults:
        lost = [str(levels[k]) for k in np.flatnonzero(np.isnan(points))]
        faults += [Fault("/artifact", f'has no points for "{feature.name}": {listed(lost)}')] if lost else []
    if feature.is_group and feature.missing:
        points = np.append(points, missing)  # a category of its own
    found = _Characteristic(
        j=j, starts=np.arange(float(len(points))), points=points, stop=float(len(points)), states={}, missing=missing
    )
    return found, faults
