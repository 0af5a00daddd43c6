"""Numbers that follow from a level in every record, such as the years of an education."""

from collections.abc import Mapping, Sequence

from app.registry.drafting.columns import Column
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import FeatureDraft, order

LEAST_LEVELS, LEAST_RECORDS = 3, 50
"""Fewest levels and records that show a rule; with fewer it may be chance."""


def derive(features: Sequence[FeatureDraft], columns: Mapping[str, Column], facts: ModelFacts) -> None:
    """Mark numbers that are another way to write a level as derived from it; its levels get their order."""
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
