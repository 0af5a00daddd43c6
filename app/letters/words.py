"""Words of the manifest that a letter needs and that are not there: names of codes, and a language's own."""

import re
from collections.abc import Iterator

from app.letters.language import Language
from app.letters.letter import Facts, Notice
from app.recourse.actions.sentences import level_text, title_text
from app.recourse.features import Feature, FeatureType, RawValue

CODE = re.compile(r"[A-Z]{0,4}[-_ ]?\d+(\.0)?")
"""A level that nobody reads as a word, such as A43; a number alone is one where levels have no order."""
UNEXPLAINED = re.compile(r"code -?\d+(\.\d+)?")
"""What a draft calls a special number that nobody has explained yet."""


def missing_words(facts: Facts, notice: Notice, language: Language, default: str) -> tuple[str, ...]:
    """Keys of the manifest without which the letter states a code, or speaks two languages.

    A manifest that says nothing in a language is taken to be in it where that is the `default` of all letters.
    """
    said = " ".join(_said(notice))
    found = [f"level_names of {one.name}" for one, level in _stated(facts) if _is_code(one, level, said, language)]
    if language.tag != "en" and (language.tag != default or any(language.tag in one.words for one in facts.features)):
        found += [f"words.{language.tag} of {one.name}" for one, level in _stated(facts)
                  if _is_foreign(one, level, said, language)]  # fmt: skip
        found += [] if language.tag in facts.titles else [f"titles.{language.tag}"]
    return tuple(f"{key} in model.yaml" for key in dict.fromkeys(found))


def _said(notice: Notice) -> Iterator[str]:
    for reason in notice.reasons:
        yield from (text for text in (reason.text, reason.value, reason.usual) if text)
    for way in notice.ways:
        yield from way.steps
    yield from notice.offer


def _stated(facts: Facts) -> Iterator[tuple[Feature, RawValue]]:
    """Features with the values that reasons and ways state of them."""
    features = {feature.name: feature for feature in facts.features}
    for reason in (facts.reasons or {"reasons": ()})["reasons"]:
        yield features[reason["feature"]], reason["value"]
        yield features[reason["feature"]], reason["reference"]
    for way in facts.answer["counterfactuals"]:
        for change in way["changes"]:
            yield features[change["feature"]], facts.applicant[change["feature"]]
            yield features[change["feature"]], way["applicant"][change["feature"]]


def _is_code(feature: Feature, value: RawValue, said: str, language: Language) -> bool:
    if value is None or isinstance(value, bool):
        return False
    if feature.is_number:
        meaning = feature.special.get(float(value), "")
        return UNEXPLAINED.fullmatch(meaning) is not None and _has(said, meaning)
    level = str(value)
    if feature.level_key(value) in {**feature.level_names, **_levels(feature, language)} or not CODE.fullmatch(level):
        return False
    return not (feature.type is FeatureType.ORDINAL and level.replace(".", "").isdigit()) and _has(said, level)


def _is_foreign(feature: Feature, value: RawValue, said: str, language: Language) -> bool:
    words = feature.words.get(language.tag)
    if (words is None or words.label is None) and _has(said, title_text(feature)):
        return True
    if feature.is_number or value is None or isinstance(value, bool):
        return False
    named = level_text(feature, value, language.phrases)
    return (
        feature.level_key(value) not in _levels(feature, language)
        and any(map(str.isalpha, named))
        and _has(said, named)
    )


def _levels(feature: Feature, language: Language) -> dict[str, str]:
    words = feature.words.get(language.tag)
    return {} if words is None else dict(words.levels)


def _has(said: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None
