"""What files of boosted trees say: names of columns, categories, and the objective."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.adapters import ubjson
from app.registry.adapters.lightgbm_categories import pandas_categories
from app.registry.adapters.lightgbm_model import REGRESSORS as NUMBERS
from app.registry.adapters.tree_input import code_text
from app.registry.adapters.xgboost_file import (
    EncodedCategories,
    TreeWithCategories,
    named_categories,
    splits_of,
    without_drops,
)
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, unreadable

ENCODINGS = ("none", "standard", "minmax")
"""Trees take numbers as they are, but for lenders who scale them first."""

SURE = 16
"""Splits that send missing values to the usual side only, from which on that is hardly chance."""

CATEGORICAL = 1
"""Bit of a decision of LightGBM: it splits by categories. The bits above the second say what was missing: nothing (0),
zeros (1) or NaN (2)."""


def read_xgboost(name: str, content: bytes) -> ModelFacts:
    """The facts that an XGBoost file in JSON or UBJSON states about its model.

    Raises `ModelRefused` where the file cannot be read, or has a kind of model that the service does not take.
    """
    binary = ubjson.is_ubjson(content)
    try:
        learner = (ubjson.parse(content) if binary else json.loads(content))["learner"]
        width = int(learner["learner_model_param"]["num_feature"])
        names = tuple(str(one) for one in learner.get("feature_names") or ())
        kinds = [str(one) for one in learner.get("feature_types") or ()]
        linear = learner["gradient_booster"]["name"] == "gblinear"
        booster = without_drops(learner["gradient_booster"])["model"]
        objective = str(learner["objective"]["name"])
        encoded = booster.get("cats", {}).get("enc", [])
        stored = named_categories([EncodedCategories.model_validate(one) for one in encoded])
        codes = _codes_of(booster.get("trees", []), names)
        missing = _missing_of_xgboost(booster.get("trees", []), names)
    except (ValueError, LookupError, TypeError, AttributeError, ValidationError) as error:
        raise unreadable(name, "a model of XGBoost") from error
    if linear:
        raise ModelRefused(
            f"{name} is gblinear, which has weights and no trees: give them as a linear model ({LINEAR})"
        )
    _refuse_objective(name, objective)
    by_level = {names[j] for j, kind in enumerate(kinds) if kind == "c" and j < len(names)}
    by_level |= {names[j] for j in stored if j < len(names)}
    levels = {names[j]: tuple(texts) for j, texts in stored.items() if j < len(names)}
    return ModelFacts(
        format=Format.XGBOOST, file="model.ubj" if binary else "model.json", content=content, names=names or None,
        width=width, all_codes=False,
        output=Output.POINTS if objective in REGRESSORS else Output.PROBABILITY, **missing,
        **_input(names, {**dict.fromkeys(by_level, ()), **levels}, codes),
    )  # fmt: skip


REGRESSORS = ("reg:squarederror", "reg:pseudohubererror", "reg:absoluteerror")
"""Objectives of XGBoost whose output is a number, such as points."""

LINEAR = '{"space": "raw", "intercept": …, "weights": {…}}, in the order of its columns'

WAYS_OUT = {
    "binary:hinge": "gives decisions and no probability: train it with binary:logistic",
    "multi:": "tells several classes apart: of two, train it with binary:logistic; of more, save the "
    "estimator with joblib, pass --trust-pickle, and say with --favourable which of them is good",
    "": "has an output that is no probability and no number of points: train it with binary:logistic",
}
"""What to do with other objectives, by how their names begin."""


def _refuse_objective(name: str, objective: str) -> None:
    if objective not in ("binary:logistic", "binary:logitraw", "reg:logistic", *REGRESSORS):
        way = next(way for start, way in WAYS_OUT.items() if objective.startswith(start))
        raise ModelRefused(f"{name} has the objective {objective}, so it {way}")


def _codes_of(trees: Sequence[Any], names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """The codes by which trees of XGBoost split, by column. Raises `LookupError` or `ValueError` for no trees."""
    found: dict[str, set[int]] = {}
    for tree in trees:
        if any(tree.get("split_type", ())):
            for node, codes in splits_of(TreeWithCategories.model_validate(tree)).items():
                j = int(tree["split_indices"][node])
                found.setdefault(names[j] if j < len(names) else "", set()).update(codes)
    return {name: tuple(sorted(codes)) for name, codes in found.items()}


def _missing_of_xgboost(trees: Sequence[Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Which columns had missing values in training, and which had none: those go left at some splits, right at others.

    XGBoost sends missing values to the side that training has shown to be better. Without any, it is one side for all
    columns: the right one for histograms, the left one for exact splits. The file does not say which of the two, so
    that of most splits counts. Nothing where columns have no names, or nothing is split.
    """
    sides: dict[int, Counter[int]] = {}
    for tree in trees:
        kinds = tree.get("split_type") or [0] * len(tree["left_children"])
        parts = zip(tree["split_indices"], tree["left_children"], tree["default_left"], kinds, strict=True)
        for j, left, side, kind in parts:
            if int(left) >= 0 and not kind:
                sides.setdefault(int(j), Counter())[int(side)] += 1
    if not names or not sides:
        return {}
    usual = sum((one for one in sides.values() if len(one) == 1), Counter[int]()).most_common(1)
    found = {j for j, one in sides.items() if len(one) > 1 or (usual and next(iter(one)) != usual[0][0])}
    none = {j for j, one in sides.items() if j not in found and one.total() >= SURE}
    return {
        "saw_missing": frozenset(names[j] for j in found if j < len(names)),
        "saw_all": frozenset(names[j] for j in none if j < len(names)),
    }


def _missing_of_lightgbm(lines: Sequence[str], names: tuple[str, ...]) -> dict[str, Any]:
    """As `_missing_of_xgboost`: each split says whether its column had missing values."""
    kinds: dict[int, set[int]] = {}
    columns: list[int] = []
    for line in lines:
        key, _, values = line.partition("=")
        if key == "split_feature":
            columns = [int(one) for one in values.split()]
        elif key == "decision_type":
            for j, decision in zip(columns, map(int, values.split()), strict=True):
                if not decision & CATEGORICAL:
                    kinds.setdefault(j, set()).add(decision >> 2)
    missing = frozenset(names[j] for j, found in kinds.items() if found & {1, 2} and j < len(names))
    none = frozenset(names[j] for j, found in kinds.items() if found == {0} and j < len(names))
    return {"saw_missing": missing, "saw_all": none} if kinds else {}


def read_lightgbm(name: str, content: bytes) -> ModelFacts:
    """The facts that a LightGBM text file states about its model.

    Raises `ModelRefused` where the file cannot be read, or has a kind of model that the service does not take.
    """
    try:
        lines = content.decode().splitlines()
        first = lines.index("Tree=0")
        header = dict(line.split("=", 1) for line in lines[:first] if "=" in line)
        width = int(header["max_feature_idx"]) + 1
    except (ValueError, KeyError) as error:
        raise unreadable(name, "a model of LightGBM as save_model writes it") from error
    objective = header.get("objective", "").split(" ")[0]
    if objective.startswith("multiclass") or objective == "softmax":
        raise ModelRefused(
            f"{name} tells several classes apart: of two, train it with the objective binary; of more, save "
            "the estimator with joblib, pass --trust-pickle, and say with --favourable which of them is good"
        )
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
    try:
        missing = _missing_of_lightgbm(lines, names)
    except ValueError as error:
        raise unreadable(name, "a model of LightGBM as save_model writes it") from error
    numbered = all(re.fullmatch(r"Column_\d+", one) for one in names)
    return ModelFacts(
        format=Format.LIGHTGBM, file="model.txt", content=content,
        output=Output.POINTS if objective in NUMBERS else Output.PROBABILITY,
        names=None if numbered else names, width=width,
        **({} if numbered else missing), **_input(names, {} if numbered else levels, codes),
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
