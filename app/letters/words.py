"""Words that a letter needs and the manifest lacks: names of codes, and translations into the letter's language."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.letters.facts import Facts
from app.letters.language import Language
from app.letters.notice import Notice
from app.recourse.actions.sentences import level_text, title_text
from app.recourse.features import Change, Feature, RawValue

CODE = re.compile(r"([A-Z]{0,4}|[a-z])[-_ ]?\d+(\.0)?")
"""A level that nobody reads as a word, such as A43 or c1; a number alone says nothing of what it stands for."""
NAME = re.compile(r"[A-Z][A-Z0-9_]+|[A-Za-z]{1,4}_?\d+")
"""The name of a column that nobody reads as a word, such as WKHP or x1."""
UNEXPLAINED = re.compile(r"code -?\d+(\.\d+)?")
"""What a draft calls a special number that nobody has explained yet."""

NAMED = 5
"""Keys that a sentence lists, and words of each."""


def missing_words(facts: Facts, notice: Notice, language: Language, default: str) -> tuple[str, ...]:
    """Keys that the manifest lacks: without them, the letter shows a code instead of words, or mixes two languages."""
    said = " ".join(_said(notice))
    spoken = Spoken(
        model=facts.answer["model"]["id"], features=facts.features, title=facts.title, titles=facts.titles,
        default=default,
    )  # fmt: skip
    lacking = spoken.lacking(language, _stated(facts), lambda text: _has(said, text))
    return tuple(f"{key} in model.yaml" for key in lacking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The words that a manifest has for its model and features, in each language."""

    model: str
    """Id of the model; a draft has it for a title."""
    features: Sequence[Feature]
    title: str
    titles: Mapping[str, str]
    """In other languages than the manifest's own."""
    default: str
    """The language of letters for which none is asked. A manifest that says nothing in it is taken to be in it."""
    reported: Sequence[str] = ()
    """Names of features that a letter states since a credit bureau reports them."""

    def lacking(
        self, language: Language, stated: Iterable[tuple[Feature, RawValue]], said: Callable[[str], bool]
    ) -> dict[str, list[str]]:
        """Keys that the manifest lacks for the features and values `stated`, each with the texts that need the key.

        Parameters
        ----------
        said : returns whether a text occurs in the letter; a text that does not occur needs no key
        """
        pairs, found = list(stated), dict[str, list[str]]()

        def note(key: str, texts: Iterable[str]) -> None:
            for text in filter(said, texts):
                found.setdefault(key, []).append(text)

        for one, level in pairs:
            note(f"label of {one.name}", _unlabelled(one, language))
            note(f"level_names of {one.name}", _codes(one, level, language))
        if language.tag != "en" and (language.tag != self.default or language.tag in self._tags()):
            for one, level in pairs:
                note(f"words.{language.tag} of {one.name}", _foreign(one, level, language))
            if language.tag not in self.titles:
                found[f"titles.{language.tag}"] = []
        if self.titles.get(language.tag, self.title) == self.model:
            found["title"] = []
        return found

    def gaps(self, languages: Mapping[str, Language]) -> Iterator[str]:
        """Sentences about words that the manifest lacks: one for each language in which letters could lack words.

        This assumes letters that state all values of all features.
        """
        pairs = [(one, level) for one in self.features if _is_told(one) or one.name in self.reported
                 for level in (None, *(one.special if one.is_number else one.levels))]  # fmt: skip
        for tag in sorted({self.default, *self._tags()} & languages.keys()):
            lacking = self.lacking(languages[tag], pairs, bool)
            keys = [_key_text(key, list(dict.fromkeys(texts))) for key, texts in lacking.items()]
            if keys:
                more = f" and {len(keys) - NAMED} other keys" if len(keys) > NAMED else ""
                yield (
                    f"Letters in {tag} are refused where they would state what model.yaml has no words for: "
                    f"{', '.join(keys[:NAMED])}{more}"
                )

    def _tags(self) -> set[str]:
        return {*self.titles, *(tag for one in self.features for tag in one.words)}


def _key_text(key: str, texts: Sequence[str]) -> str:
    named = ", ".join(f'"{text}"' for text in texts[:NAMED])
    return f"{key} (for {named}{', …' if len(texts) > NAMED else ''})" if texts else key


def _is_told(feature: Feature) -> bool:
    """Whether a letter may state values of a feature: as a reason without words of its own, in a way, or as a term."""
    if feature.protected:
        return False
    if feature.terms:
        return True
    moves = feature.change is not Change.NONE and feature.derived is None and feature.moves_with_time is None
    return moves or (feature.reason.named and not feature.reason.text)


def _said(notice: Notice) -> Iterator[str]:
    for reason in notice.reasons:
        yield from (text for text in (reason.text, reason.value, reason.usual) if text)
    for way in notice.ways:
        yield from way.steps
    yield from (*notice.asked, *notice.reported, *notice.unreported, *notice.offer)


def _stated(facts: Facts) -> Iterator[tuple[Feature, RawValue]]:
    """Features with the values that the letter states of them."""
    features = {feature.name: feature for feature in facts.features}
    for one in facts.features:
        if one.terms or one.name in facts.reported:
            yield one, facts.applicant[one.name]
    for reason in (facts.reasons or {"reasons": ()})["reasons"]:
        yield features[reason["feature"]], reason["value"]
        yield features[reason["feature"]], reason["reference"]
    for way in facts.answer["counterfactuals"]:
        for change in way["changes"]:
            yield features[change["feature"]], facts.applicant[change["feature"]]
            yield features[change["feature"]], way["applicant"][change["feature"]]


def _unlabelled(feature: Feature, language: Language) -> Iterator[str]:
    """What a letter would call a feature that has no label, where its name is no word."""
    words = feature.words.get(language.tag)
    if NAME.fullmatch(feature.name) and not (feature.label or (words and words.label)):
        yield title_text(feature)


def _codes(feature: Feature, value: RawValue, language: Language) -> Iterator[str]:
    """What a letter would say of a value that is a code without a name."""
    if value is None or isinstance(value, bool):
        return
    if feature.is_number:
        meaning = feature.special.get(float(value), "")
        if UNEXPLAINED.fullmatch(meaning):
            yield meaning
        return
    level = str(value)
    named = feature.level_key(value) in {**feature.level_names, **_levels(feature, language)}
    if CODE.fullmatch(level) and not named:
        yield level


def _foreign(feature: Feature, value: RawValue, language: Language) -> Iterator[str]:
    """What a letter would say of a feature and its value in another language than its own."""
    words = feature.words.get(language.tag)
    if words is None or words.label is None:
        yield title_text(feature)
    if feature.is_number or value is None or isinstance(value, bool):
        return
    named = level_text(feature, value, language.phrases)
    if feature.level_key(value) not in _levels(feature, language) and any(map(str.isalpha, named)):
        yield named


def _levels(feature: Feature, language: Language) -> dict[str, str]:
    words = feature.words.get(language.tag)
    return {} if words is None else dict(words.levels)


def _has(said: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None
