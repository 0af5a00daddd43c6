"""What a scorecard says: its features, their levels and special codes."""

import csv
import io

from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, unreadable


def read(name: str, content: bytes) -> ModelFacts:
    """The facts of a scorecard as CSV. Raises `ModelRefused`."""
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
        names = tuple(dict.fromkeys(row["feature"].strip() for row in rows if row["feature"].strip()))
    except (UnicodeDecodeError, csv.Error, KeyError, AttributeError) as error:
        raise unreadable(name, "a scorecard with the columns feature, from, to, category, points") from error
    numbers = {row["feature"].strip() for row in rows if row.get("from") or row.get("to")}
    levels: dict[str, tuple[str | None, ...]] = {}
    codes: dict[str, tuple[float, ...]] = {}
    for row in rows:
        feature, texts = row["feature"].strip(), (row.get("category") or "").strip()
        if feature in numbers and texts and texts != "missing":
            codes[feature] = (*codes.get(feature, ()), float(texts))
        elif feature and feature not in numbers and texts:
            found = [None if text == "missing" else text.strip() for text in texts.split("|")]
            levels[feature] = (*levels.get(feature, ()), *found)
    return ModelFacts(
        format=Format.SCORECARD, file="scorecard.csv", content=content, input=Input.RAW, output=Output.POINTS,
        names=names, width=len(names), levels=levels, numbers=frozenset(numbers), codes=codes,
    )  # fmt: skip
