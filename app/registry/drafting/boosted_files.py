"""What files of boosted trees say: names of columns, categories, and the objective."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.registry.adapters import ubjson
from app.registry.adapters.lightgbm_categories import pandas_categories
from app.registry.adapters.tree_input import code_text
from app.registry.adapters.xgboost_categories import (
    EncodedCategories,
    TreeWithCategories,
    named_categories,
    splits_of,
)
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, unreadable

ENCODINGS = ("none", "standard", "minmax")
"""Trees take numbers as they are, but for lenders who scale them first."""


def read_xgboost(name: str, content: bytes) -> ModelFacts:
    """The facts of a booster in JSON or UBJSON. Raises `ModelRefused`."""
    binary = ubjson.is_ubjson(content)
    try:
        learner = (ubjson.parse(content) if binary else json.loads(content))["learner"]
        width = int(learner["learner_model_param"]["num_feature"])
        names = tuple(str(one) for one in learner.get("feature_names") or ())
        kinds = [str(one) for one in learner.get("feature_types") or ()]
        encoded = learner["gradient_booster"]["model"].get("cats", {}).get("enc", [])
        stored = named_categories([EncodedCategories.model_validate(one) for one in encoded])
        codes = _codes_of(learner["gradient_booster"]["model"].get("trees", []), names)
    except (ValueError, LookupError, TypeError, AttributeError, ValidationError) as error:
        raise unreadable(name, "a model of XGBoost") from error
    by_level = {names[j] for j, kind in enumerate(kinds) if kind == "c" and j < len(names)}
    by_level |= {names[j] for j in stored if j < len(names)}
    levels = {names[j]: tuple(texts) for j, texts in stored.items() if j < len(names)}
    return ModelFacts(
        format=Format.XGBOOST, file="model.ubj" if binary else "model.json", content=content, names=names or None,
        width=width, **_input(names, {**dict.fromkeys(by_level, ()), **levels}, codes),
    )  # fmt: skip


def _codes_of(trees: Sequence[Any], names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The codes by which trees of XGBoost split, by column. Raises `LookupError` or `ValueError` for no trees."""
    found: dict[str, set[int]] = {}
    for tree in trees:
        if any(tree.get("split_type", ())):
            for node, codes in splits_of(TreeWithCategories.model_validate(tree)).items():
                j = int(tree["split_indices"][node])
                found.setdefault(names[j] if j < len(names) else "", set()).update(codes)
    return {name: tuple(sorted(codes)) for name, codes in found.items()}


def read_lightgbm(name: str, content: bytes) -> ModelFacts:
    """The facts of a booster. Raises `ModelRefused`."""
    try:
        lines = content.decode().splitlines()
        first = lines.index("Tree=0")
        header = dict(line.split("=", 1) for line in lines[:first] if "=" in line)
        width = int(header["max_feature_idx"]) + 1
    except (ValueError, KeyError) as error:
        raise unreadable(name, "a model of LightGBM as save_model writes it") from error
    names = tuple(header.get("feature_names", "").split(" "))
    if len(names) != width:
        raise ModelRefused(f"{name} names {len(names)} columns but has {width}: save the model again")
    stored = [tuple(code_text(value) for value in part) for part in pandas_categories(lines)]
    ranges = header.get("feature_infos", "").split(" ")
    # A range of a number stands in brackets; an unused column, of which it is "none", may be either.
    asked = [one for one, values in zip(names, ranges, strict=False) if not values.startswith("[") and values != "none"]
    unused = [one for one, values in zip(names, ranges, strict=False) if values == "none"]
    if len(asked) != len(stored) and len(asked) + len(unused) == len(stored):
        asked = [one for one in names if one in asked or one in unused]
    levels: dict[str, tuple[str, ...]] = dict.fromkeys(asked, ())
    if len(asked) == len(stored):
        levels = dict(zip(asked, stored, strict=True))
    codes = {
        one: tuple(int(code) for code in values.split(":") if re.fullmatch("[0-9]{1,9}", code))
        for one, values in zip(names, ranges, strict=False)
        if one in asked
    }
    numbered = all(re.fullmatch(r"Column_\d+", one) for one in names)
    return ModelFacts(
        format=Format.LIGHTGBM, file="model.txt", content=content, names=None if numbered else names, width=width,
        **_input(names, {} if numbered else levels, codes),
    )  # fmt: skip


def _input(
    names: tuple[str, ...], levels: dict[str, tuple[str, ...]], codes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """What the model takes: the table of records, where it splits by categories itself."""
    if not levels:
        return {"encodings": ENCODINGS}
    coded = frozenset(name for name, known in levels.items() if not known)
    numbers = frozenset(names) - levels.keys()
    return {
        "input": Input.RAW, "levels": levels, "numbers": numbers, "coded": coded, "tolerant": frozenset(levels),
        "numbered_levels": codes,
    }  # fmt: skip
