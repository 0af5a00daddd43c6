"""Numbers that follow from other features in every record: from a level (years of an education), as ratio or sum."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from app.registry.drafting.columns import Column
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import FeatureDraft, order
from app.registry.drafting.hints import plain_name

LEAST_LEVELS, LEAST_RECORDS = 3, 50
"""Fewest levels and records that show a rule; with fewer it may be chance."""

SCALES = {1.0: "", 100.0: "100 * ", 12.0: "12 * ", 1200.0: "1200 * "}
"""Factors of a ratio, as of per cent and of months, and how they are written."""

FIRST = 64
"""Records that are looked at before all are."""

MOST_COLUMNS = 120
"""Numbers of a table up to which pairs are tried: their ratios fill 7 MB."""

FINE = 20.0
"""Digits of a number must tell at least so many different values within a standard deviation."""

RATIO = re.compile(r"(^|_)(percent|pct|ratio|share|rate|dti|pti|lti|ltv|per|to|burden|util\w*)(_|$)")


def combine(features: Sequence[FeatureDraft], columns: Mapping[str, Column], *, exact: bool) -> None:
    """Mark as derived each feature that is the ratio or the sum of two other features in all records.

    `exact` says that scores will be compared. A formula does not round, so a ratio that is rounded in the records then
    stays a feature of its own; advice then changes neither this ratio nor the two features from which it comes.
    """
    numbers = [
        feature for feature in features
        if feature.keys["type"] in ("integer", "continuous") and not {"missing", "derived"} & feature.keys.keys()
        and not columns[feature.name].codes and not columns[feature.name].constant
    ]  # fmt: skip
    if not 2 < len(numbers) <= MOST_COLUMNS or len(columns[numbers[0].name].texts) < LEAST_RECORDS:
        return
    values = np.array([columns[feature.name].numbers for feature in numbers])
    likeliest = sorted(
        range(len(numbers)),
        key=lambda k: (RATIO.search(plain_name(numbers[k].name)) is None, float(np.median(np.abs(values[k])))),
    )
    derived, parts = set[int](), set[int]()
    for k in likeliest:
        free = [j for j in range(len(numbers)) if j != k and j not in derived]
        found = None if k in parts else _found(values, k, free, columns[numbers[k].name].decimals)
        if found is None:
            continue
        a, b, sign, scale, rounded = found
        formula = f"{SCALES[scale]}{_written(numbers[a].name)} {sign} {_written(numbers[b].name)}"
        if rounded and exact:
            for part in (numbers[k], numbers[a], numbers[b]):
                part.keys["change"] = "none"
                part.comments.append(
                    f"change: none, as {numbers[k].name} is {formula}, rounded: a model of the exact ratio needs no "
                    "such column"
                )
        else:
            kept = {key: value for key, value in numbers[k].keys.items() if key in ("name", "label", "unit")}
            whole = sign == "+" and all(numbers[j].keys["type"] == "integer" for j in (a, b))
            numbers[k].keys = {**kept, "type": "integer" if whole else "continuous", "derived": formula}
            how = ", where it is rounded: scores beside a cut may differ, which --scores shows" if rounded else ""
            numbers[k].comments = [f"is {formula} in all records{how}"]
        derived.add(k)
        parts |= {a, b}


def _found(
    values: Float[np.ndarray, "p n"], k: int, free: Sequence[int], decimals: int
) -> tuple[int, int, str, float, bool] | None:
    """The two parts of a number, how they are joined, the factor, and whether the records round it."""
    own = values[k]
    unit = 0.5 * 10.0**-decimals * (1.0 + 1e-6)
    if unit * FINE > own.std() or not free:
        return None
    some = np.linspace(0, len(own) - 1, FIRST).astype(np.intp)
    few = values[free][:, some]
    with np.errstate(all="ignore"):
        for sign, joined in (("/", few[:, None] / few[None]), ("+", few[:, None] + few[None])):
            for scale in SCALES if sign == "/" else (1.0,):
                near = (np.abs(scale * joined - own[some]) <= unit + 1e-9 * np.abs(own[some])).all(axis=2)
                for one, other in np.argwhere(near):
                    a, b = free[int(one)], free[int(other)]
                    if a == b:
                        continue
                    full = scale * (values[a] / values[b]) if sign == "/" else values[a] + values[b]
                    off = np.abs(full - own)
                    if (off <= unit + 1e-9 * np.abs(own)).all() and np.isfinite(full).all():
                        return a, b, sign, scale, bool((off > 1e-9 * np.maximum(np.abs(own), 1.0)).any())
    return None


def _written(name: str) -> str:
    """A name as formulas have it."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) and name not in ("min", "max") else f"`{name}`"


def derive(features: Sequence[FeatureDraft], columns: Mapping[str, Column], facts: ModelFacts) -> None:
    """Mark as derived each number that follows from the level of one other feature in all records.

    The levels of the other feature are then ordered by that number.
    """
    levelled = [feature for feature in features if feature.keys["type"] in ("categorical", "ordinal")]
    for number in features:
        if number.keys["type"] not in ("integer", "continuous") or number.keys.get("missing"):
            continue
        for of in levelled:
            table = _table(columns[of.name], columns[number.name], of.keys["categories"])
            if table is None or of.keys.get("missing"):
                continue
            number.keys = {key: number.keys[key] for key in ("name", "label", "unit", "type") if key in number.keys}
            number.keys["derived"] = {"from": of.name, "table": table}
            number.comments = [f"follows from {of.name} in all records"]
            order(of, sorted(table, key=lambda level: table[level]), facts)
            break


def _table(levels: Column, numbers: Column, categories: Sequence[str]) -> dict[str, float | int] | None:
    """The number of each level; None where it is not one to one, or not seen of every level."""
    if numbers.numbers is None or numbers.codes or len(levels.texts) < LEAST_RECORDS:
        return None
    pairs = set(zip(levels.texts, numbers.numbers.tolist(), strict=True))
    table = {level: int(value) if value == int(value) else value for level, value in sorted(pairs)}
    one_to_one = len(pairs) == len(table) == len(set(table.values()))
    return table if one_to_one and set(table) == set(categories) and len(table) >= LEAST_LEVELS else None
