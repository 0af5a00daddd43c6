"""Faults of a feature schema: of each feature by itself, and of their names."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from app.errors import Fault
from app.recourse.features.feature import Change, Feature, FeatureType
from app.recourse.features.feature_options import LARGEST, Advice, Missing, Sentence, Takes, json_text


def _where(*rows: tuple[bool, str]) -> list[str]:
    """The sentence of each row whose condition holds."""
    return [text for wrong, text in rows if wrong]


def _endless(numbers: Mapping[str, float | None]) -> list[str]:
    return [f"{key} must be finite" for key, number in numbers.items() if not math.isfinite(number or 0.0)]


def option_faults(feature: Feature) -> list[str]:
    """Sentences on the faults of a feature's optional entries: advice, times, changes, words, `terms` and others."""
    advice, drift = feature.advice, feature.moves_with_time
    per_year = None if drift is None else drift.per_year
    return _endless({"advice.min": advice.min, "advice.max": advice.max, "moves_with_time.per_year": per_year}) or [
        *_dummy_faults(feature),
        *_advice_faults(feature),
        *_time_faults(feature),
        *_change_faults(feature),
        *_useless(feature),
        *_word_faults(feature),
    ]


def _dummy_faults(feature: Feature) -> list[str]:
    found = _where(
        (feature.type != "ordinal",
         "dummies belongs to ordinal features; of a categorical one, the model takes a column for each category"),
        (feature.missing is not None, "dummies and missing do not go together: let a level say that it is missing"),
        (feature.center is not None, "dummies are 0 and 1, without center and scale"),
    )  # fmt: skip
    return found[:1] if feature.dummies else []


def _advice_faults(feature: Feature) -> Iterator[str]:
    advice, (low, high) = feature.advice, feature.range_raw
    for key, number in (("min", advice.min), ("max", advice.max)):
        if number is not None and not feature.is_number:
            yield f"advice.{key} belongs to numbers; name the levels that are proposed in advice.categories"
        elif number is not None and not low <= number <= high:
            yield f"advice.{key} must lie in the feature's own range {low:g} to {high:g}"
    if advice.min is not None and advice.max is not None and advice.min > advice.max:
        yield f"advice.min {advice.min:g} must not be above advice.max {advice.max:g}"
    if advice.categories is None:
        return
    if not feature.categories:
        way = "limit numbers with advice.min and advice.max"
        way = way if feature.is_number else "use change: increase or change: decrease here"
        yield f"advice.categories belongs to features with categories; {way}"
        return
    if unknown := [f'"{name}"' for name in advice.categories if name not in feature.categories]:
        verb = "is" if len(unknown) == 1 else "are"
        yield f"advice.categories must be among the feature's own categories; {', '.join(unknown)} {verb} not"
    if not advice.categories:
        yield "advice.categories must name at least one category; where nothing is proposed, use change: none"


def _time_faults(feature: Feature) -> list[str]:
    takes, drift = feature.takes, feature.moves_with_time
    months, other = (takes.months, takes.months_per_unit, takes.months_per_level), "else takes.months"
    return _where(
        (bool(takes.months_per_unit) and not feature.is_number,
         f"takes.months_per_unit belongs to numbers; use takes.months_per_level for ordinal features, {other}"),
        (bool(takes.months_per_level) and feature.type != "ordinal",
         f"takes.months_per_level belongs to ordinal features; use takes.months_per_unit for numbers, {other}"),
        (not all(map(math.isfinite, months)), "takes must be finite"),
        (drift is not None and not feature.is_number, "moves_with_time belongs to numbers"),
        (drift is not None and feature.is_number and drift.per_year == 0.0,
         "moves_with_time.per_year must not be 0; a value that stays needs no moves_with_time"),
    )  # fmt: skip


def _change_faults(feature: Feature) -> list[str]:
    limit, least, number = feature.max_change, feature.least_change, feature.is_number
    parts = () if limit is None else (limit.relative, limit.absolute)
    most = math.inf if limit is None or limit.absolute is None else limit.absolute
    term = feature.better is not None
    return _where(
        (limit is not None and not number, "max_change belongs to numbers"),
        (least is not None and not number, "least_change belongs to numbers"),
        (parts == (None, None), "max_change needs relative or absolute, or both"),
        (not all(math.isfinite(part or 0.0) for part in parts), "max_change must be finite"),
        (not math.isfinite(least or 0.0), "least_change must be finite"),
        ((least or 0.0) > most, f"least_change {least or 0.0:g} must not be above max_change.absolute {most:g}"),
        (term and not feature.terms,
         "better belongs to terms of the contract; write terms: true if the lender sets this one"),
        (term and feature.terms and feature.is_group, "better belongs to features with an order; categories have none"),
    )  # fmt: skip


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
    usual = {"advice": Advice(), "takes": Takes(), "max_change": None, "least_change": None, "provide": False,
             "sentence": Sentence(), "terms": False}  # fmt: skip
    if given := [key for key, value in usual.items() if getattr(feature, key) != value]:
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
    """The faults of each feature by itself, and of names that two features share.

    Each has the pointer ``/features/{index}``, or ``/features/{index}/name`` for a shared name.
    """
    faults = [Fault(f"/features/{j}", text) for j, feature in enumerate(features) for text in own_faults(feature)]
    seen: set[str] = set()
    for j, feature in enumerate(features):
        if feature.name in seen:
            faults.append(Fault(f"/features/{j}/name", f'"{feature.name}" is the name of an earlier feature'))
        seen.add(feature.name)
    return faults


def own_faults(feature: Feature) -> list[str]:
    """Sentences on the faults of one feature's description, without regard to other features."""
    kind, low, high, step = feature.type, feature.min, feature.max, feature.step
    number, group, count = feature.is_number, feature.is_group, len(feature.categories)
    binary, integer = kind is FeatureType.BINARY, kind is FeatureType.INTEGER
    endless = _endless({key: getattr(feature, key) for key in ("min", "max", "step", "center", "scale", "cost")})
    if endless:
        return endless
    constant = group and count == 1 and feature.is_fixed  # the same for all
    same = "; of one that is the same for all, write change: none" if group else ""
    found = _where(
        (number and count > 0, f"a {kind} feature has no categories"),
        (number and low is not None and high is not None and low >= high,
         f"min {low or 0.0:g} must be below max {high or 0.0:g}"),
        (binary and count not in (0, 2), "a binary feature has two categories, or none for false and true"),
        (not number and not binary and not constant and count < 2,
         f"a {kind} feature needs at least two categories{same}"),
        (not number and len(set(feature.categories)) < count, "categories must differ from each other"),
        (not number and low is not None, "min belongs to numeric features"),
        (not number and high is not None, "max belongs to numeric features"),
        (step is not None and (not integer or step != int(step)),
         "step is a whole number and belongs to integer features"),
        (integer and low is not None and low != int(low), "min of an integer feature is a whole number"),
        (integer and high is not None and high != int(high), "max of an integer feature is a whole number"),
        (feature.decimals is not None and kind != "continuous", "decimals belongs to continuous features"),
        (group and feature.change in (Change.INCREASE, Change.DECREASE),
         "categories without an order cannot increase or decrease; use any or none"),
        (group and not (feature.center is None and feature.scale is None),
         "center and scale belong to features that are encoded as one number"),
        ((feature.center is None) != (feature.scale is None), "center and scale are given together or not at all"),
    )  # fmt: skip
    return found + state_faults(feature) + option_faults(feature)


def state_faults(feature: Feature) -> list[str]:
    """Sentences on the faults of a feature's `missing`, `fill`, `percent`, `provide` and `special`."""
    missing, fill, group, number = feature.missing, feature.fill, feature.is_group, feature.is_number
    filled = missing in (Missing.INDICATOR, Missing.FILL)
    levels = ", ".join(json_text(level) for level in feature.levels)
    return _where(
        (fill is not None and not filled, "fill belongs to missing: indicator and missing: fill"),
        (fill is None and filled and not group, f"missing: {missing} needs fill, the value that the model sees"),
        (fill is not None and group,
         "a missing category is a category of its own and needs no fill; write missing: indicator"),
        (number and isinstance(fill, str), "fill must be a number"),
        (fill is not None and not group and not number and fill not in feature.levels, f"fill must be one of {levels}"),
        (group and missing is Missing.FILL,
         "a missing category is a category of its own; write missing: nan or missing: indicator"),
        (feature.percent is not None and not number, "percent belongs to numbers"),
        (feature.provide and not missing, "provide belongs to features that may be missing"),
        (bool(feature.special) and not number, "special belongs to numbers; make the state one of the categories"),
        (any(not abs(code) <= LARGEST for code in feature.special),
         f"special codes must be between {-LARGEST:g} and {LARGEST:g}"),
        (feature.type == "integer" and any(not float(code).is_integer() for code in feature.special),
         "special codes of an integer feature are whole numbers"),
    )  # fmt: skip
