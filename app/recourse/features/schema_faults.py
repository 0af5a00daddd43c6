"""Faults of a feature schema: of each feature by itself, and of their names."""

import math
import re
from collections.abc import Collection, Iterator, Sequence

from app.errors import Fault
from app.recourse.features.feature import Change, Feature, FeatureType
from app.recourse.features.feature_options import LARGEST, Advice, Missing, Sentence, Takes, json_text


def option_faults(feature: Feature) -> list[str]:
    """Faults of all that `feature_options` declares, of `least_change`, `terms` and `protected`."""
    drift = feature.moves_with_time
    numbers = {
        "advice.min": feature.advice.min,
        "advice.max": feature.advice.max,
        "moves_with_time.per_year": None if drift is None else drift.per_year,
    }
    infinite = [f"{key} must be finite" for key, number in numbers.items() if not math.isfinite(number or 0.0)]
    if infinite:
        return infinite
    return [
        *_dummy_faults(feature),
        *_advice_faults(feature),
        *_time_faults(feature),
        *_change_faults(feature),
        *_terms_faults(feature),
        *_useless(feature),
        *_word_faults(feature),
    ]


def _dummy_faults(feature: Feature) -> Iterator[str]:
    if not feature.dummies:
        return
    if feature.type != "ordinal":
        yield "dummies belongs to ordinal features; of a categorical one, the model takes a column for each category"
    elif feature.missing is not None:
        yield "dummies and missing do not go together: let a level say that it is missing"
    elif feature.center is not None:
        yield "dummies are 0 and 1, without center and scale"


def _advice_faults(feature: Feature) -> Iterator[str]:
    advice, (low, high) = feature.advice, feature.range_raw
    for key, number in (("min", advice.min), ("max", advice.max)):
        if number is None:
            continue
        if not feature.is_number:
            yield f"advice.{key} belongs to numbers; name the levels that are proposed in advice.categories"
        elif not low <= number <= high:
            yield f"advice.{key} must lie in the feature's own range {low:g} to {high:g}"
    if advice.min is not None and advice.max is not None and advice.min > advice.max:
        yield f"advice.min {advice.min:g} must not be above advice.max {advice.max:g}"
    if advice.categories is None:
        return
    if feature.is_number:
        yield "advice.categories belongs to features with categories; limit numbers with advice.min and advice.max"
        return
    if not feature.categories:
        yield "advice.categories belongs to features with categories; use change: increase or change: decrease here"
        return
    if unknown := [name for name in advice.categories if name not in feature.categories]:
        yield (
            "advice.categories must be among the feature's own categories; "
            + ", ".join(f'"{name}"' for name in unknown)
            + (" is not" if len(unknown) == 1 else " are not")
        )
    if not advice.categories:
        yield "advice.categories must name at least one category; where nothing is proposed, use change: none"


def _time_faults(feature: Feature) -> Iterator[str]:
    takes = feature.takes
    if takes.months_per_unit and not feature.is_number:
        yield (
            "takes.months_per_unit belongs to numbers; use takes.months_per_level for ordinal features, else "
            "takes.months"
        )
    if takes.months_per_level and feature.type != "ordinal":
        yield (
            "takes.months_per_level belongs to ordinal features; use takes.months_per_unit for numbers, else "
            "takes.months"
        )
    if not all(math.isfinite(months) for months in (takes.months, takes.months_per_unit, takes.months_per_level)):
        yield "takes must be finite"
    if feature.moves_with_time is not None:
        if not feature.is_number:
            yield "moves_with_time belongs to numbers"
        elif feature.moves_with_time.per_year == 0.0:
            yield "moves_with_time.per_year must not be 0; a value that stays needs no moves_with_time"


def _change_faults(feature: Feature) -> Iterator[str]:
    for key, given in (("max_change", feature.max_change), ("least_change", feature.least_change)):
        if given is not None and not feature.is_number:
            yield f"{key} belongs to numbers"
    limit, least = feature.max_change, feature.least_change
    if limit is not None and limit.relative is None and limit.absolute is None:
        yield "max_change needs relative or absolute, or both"
    if limit is not None and not all(math.isfinite(part or 0.0) for part in (limit.relative, limit.absolute)):
        yield "max_change must be finite"
    if least is not None and not math.isfinite(least):
        yield "least_change must be finite"
    if least is not None and limit is not None and limit.absolute is not None and least > limit.absolute:
        yield f"least_change {least:g} must not be above max_change.absolute {limit.absolute:g}"


def _terms_faults(feature: Feature) -> Iterator[str]:
    if feature.better is not None and not feature.terms:
        yield "better belongs to terms of the contract; write terms: true if the lender sets this one"
    elif feature.better is not None and feature.is_group:
        yield "better belongs to features with an order; categories have none"


def _useless(feature: Feature) -> Iterator[str]:
    """What is said of changes to a feature that is never changed."""
    if feature.protected:
        why = "a protected feature is never advice"
    elif feature.moves_with_time is not None:
        why = "a feature with moves_with_time moves by itself and is never advice"
    elif feature.derived is not None:
        why = "a derived feature follows from others and is never advice; say it of these"
    else:
        return
    said = [
        ("advice", feature.advice != Advice()),
        ("takes", feature.takes != Takes()),
        ("max_change", feature.max_change is not None),
        ("least_change", feature.least_change is not None),
        ("provide", feature.provide),
        ("sentence", feature.sentence != Sentence()),
        ("terms", feature.terms),
    ]
    if given := [key for key, is_given in said if is_given]:
        yield f"{why}: remove {' and '.join(given)}"
    if feature.derived is not None and feature.moves_with_time is not None:
        yield "a derived feature follows from others; say moves_with_time of these"


TAG = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
PLACES = ("from", "to", "name", "Name")
"""Places for words in a sentence."""


def _word_faults(feature: Feature) -> Iterator[str]:
    levels = () if feature.is_number else [feature.level_key(level) for level in feature.levels if level is not None]
    codes = tuple(f"{code:.15g}" for code in feature.special)
    yield from _sentence_faults("sentence", feature, feature.sentence, levels)
    yield from _unknown("level_names", feature.level_names, levels)
    for tag, words in feature.words.items():
        if not TAG.fullmatch(tag):
            yield f'words has the key "{tag}", which is no tag of a language, such as de'
        yield from _sentence_faults(f"words.{tag}.sentence", feature, words.sentence, levels)
        yield from _unknown(f"words.{tag}.levels", words.levels, (*levels, *codes))


def _sentence_faults(at: str, feature: Feature, sentence: Sentence, levels: Collection[str]) -> Iterator[str]:
    yield from _unknown(f"{at}.to", sentence.to, levels)
    if feature.is_group and (sentence.increase or sentence.decrease):
        yield f"{at}.increase and {at}.decrease belong to features with an order; use any, or to"
    texts = {"any": sentence.any, "increase": sentence.increase, "decrease": sentence.decrease}
    texts |= {f"to.{level}": text for level, text in sentence.to.items()}
    for key, text in texts.items():
        for place in re.findall(r"\{(.*?)\}", text or ""):
            if place not in PLACES:
                known = ", ".join(f"{{{one}}}" for one in PLACES)
                yield f"{at}.{key} has {{{place}}}; its places are {known}"


def _unknown(at: str, named: Collection[str], levels: Collection[str]) -> Iterator[str]:
    for name in named:
        if name not in levels:
            own = f"its levels are {', '.join(levels)}" if levels else "it has none"
            yield f'{at} has "{name}", which is no level of this feature: {own}'


def schema_faults(features: Sequence[Feature]) -> list[Fault]:
    """Faults of a feature schema; pointers are ``/features/{index}``."""
    faults = [Fault(f"/features/{j}", text) for j, feature in enumerate(features) for text in own_faults(feature)]
    seen: set[str] = set()
    for j, feature in enumerate(features):
        if feature.name in seen:
            faults.append(Fault(f"/features/{j}/name", f'"{feature.name}" is the name of an earlier feature'))
        seen.add(feature.name)
    return faults


def own_faults(feature: Feature) -> list[str]:
    """Faults of the description of one feature."""
    numbers = {key: getattr(feature, key) for key in ("min", "max", "step", "center", "scale", "cost")}
    found = [f"{key} must be finite" for key, value in numbers.items() if not math.isfinite(value or 0.0)]
    if found:
        return found
    if feature.is_number:
        if feature.categories:
            found.append(f"a {feature.type} feature has no categories")
        if feature.min is not None and feature.max is not None and feature.min >= feature.max:
            found.append(f"min {feature.min:g} must be below max {feature.max:g}")
    else:
        if feature.type is FeatureType.BINARY and len(feature.categories) not in (0, 2):
            found.append("a binary feature has two categories, or none for false and true")
        elif feature.is_group and len(feature.categories) == 1 and feature.is_fixed:
            pass  # the same for all
        elif feature.type is not FeatureType.BINARY and len(feature.categories) < 2:
            same = "; of one that is the same for all, write change: none" if feature.is_group else ""
            found.append(f"a {feature.type} feature needs at least two categories{same}")
        if len(set(feature.categories)) < len(feature.categories):
            found.append("categories must differ from each other")
        for key in ("min", "max"):
            if getattr(feature, key) is not None:
                found.append(f"{key} belongs to numeric features")
    if feature.step is not None and (feature.type is not FeatureType.INTEGER or feature.step != int(feature.step)):
        found.append("step is a whole number and belongs to integer features")
    if feature.type is FeatureType.INTEGER:
        found += [
            f"{key} of an integer feature is a whole number"
            for key in ("min", "max")
            if (limit := getattr(feature, key)) is not None and limit != int(limit)
        ]
    if feature.decimals is not None and feature.type is not FeatureType.CONTINUOUS:
        found.append("decimals belongs to continuous features")
    if feature.is_group and feature.change in (Change.INCREASE, Change.DECREASE):
        found.append("categories without an order cannot increase or decrease; use any or none")
    if feature.is_group and (feature.center is not None or feature.scale is not None):
        found.append("center and scale belong to features that are encoded as one number")
    if (feature.center is None) != (feature.scale is None):
        found.append("center and scale are given together or not at all")
    return found + state_faults(feature) + option_faults(feature)


def state_faults(feature: Feature) -> list[str]:
    """Faults of `missing`, `fill`, `provide` and `special` of a feature."""
    found, missing = [], feature.missing
    if feature.fill is not None and missing not in (Missing.INDICATOR, Missing.FILL):
        found.append("fill belongs to missing: indicator and missing: fill")
    if (
        feature.fill is None
        and feature.missing is not None
        and feature.missing is not Missing.NAN
        and not feature.is_group
    ):
        found.append(f"missing: {feature.missing} needs fill, the value that the model sees")
    if feature.fill is not None and feature.is_group:
        found.append("a missing category is a category of its own and needs no fill; write missing: indicator")
    elif feature.fill is not None and feature.is_number and isinstance(feature.fill, str):
        found.append("fill must be a number")
    elif feature.fill is not None and not feature.is_number and feature.fill not in feature.levels:
        found.append("fill must be one of " + ", ".join(json_text(level) for level in feature.levels))
    if feature.is_group and missing is Missing.FILL:
        found.append("a missing category is a category of its own; write missing: nan or missing: indicator")
    if feature.percent is not None and not feature.is_number:
        found.append("percent belongs to numbers")
    if feature.provide and not missing:
        found.append("provide belongs to features that may be missing")
    if feature.special and not feature.is_number:
        found.append("special belongs to numbers; make the state one of the categories")
    if any(not abs(code) <= LARGEST for code in feature.special):
        found.append(f"special codes must be between {-LARGEST:g} and {LARGEST:g}")
    if feature.type == "integer" and any(code != int(code) for code in feature.special):
        found.append("special codes of an integer feature are whole numbers")
    return found
