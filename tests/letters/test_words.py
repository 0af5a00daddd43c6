"""What keeps a letter from stating a code, or from speaking two languages."""

from typing import Any

import pytest

from app.letters.facts import Facts
from app.letters.letter import notice_of
from app.letters.notice import Lender
from app.letters.regime import Templates
from app.letters.words import Spoken, missing_words
from app.recourse.features import Change, Feature, FeatureType, ReasonWords, Words
from tests.letters.test_letter import answered

LENDER = Lender(
    name="Bank", address=("Town",), contact="us", authority="", data_authority="", debt_advice="", bureau=()
)


def missing(
    feature: Feature, value: Any, language: str = "en", *, default: str = "en", title: str = "Loan", **titles: str
) -> list[str]:
    """What a letter lacks of which the value of this feature is a reason."""
    templates = Templates.read("general", None, default)
    reason = {"feature": feature.name, "code": None, "value": value, "reference": value, "direction": None}
    facts = Facts(
        answer=answered(counterfactuals=[]), question={}, applicant={feature.name: value}, features=(feature,),
        title=title, titles=titles, reported=(), threshold=None,
        reasons={"reasons": [reason], "against": {"kind": "everyone", "records": 9}},
    )  # fmt: skip
    spoken = templates.languages[language]
    return list(missing_words(facts, notice_of(facts, spoken, "general", LENDER), spoken, default))


def levels(*names: str, kind: FeatureType = FeatureType.CATEGORICAL, **options: Any) -> Feature:
    return Feature(name="work", type=kind, label="Work", categories=names, **options)


@pytest.mark.parametrize(
    ("feature", "value", "lacks"),
    [
        (levels("1", "2"), "1", True),
        (levels("A43", "B2"), "A43", True),
        (levels("1", "2", level_names={"1": "clerk"}), "1", False),
        (levels("clerk", "farmer"), "clerk", False),
        (levels("1", "2", "3", kind=FeatureType.ORDINAL), "2", True),
        (levels("1", "2", kind=FeatureType.ORDINAL, level_names={"1": "1", "2": "2"}), "2", False),
        (levels("c1", "c2"), "c2", True),
        (levels("C1", "C2", kind=FeatureType.ORDINAL), "C2", True),
        (levels("1", "2", reason=ReasonWords(text="The kind of work")), "1", False),
        (Feature(name="work", type=FeatureType.INTEGER, special={98: "code 98"}), 98, True),
        (Feature(name="work", type=FeatureType.INTEGER, special={98: "no record"}), 98, False),
        (Feature(name="work", type=FeatureType.BINARY), True, False),
    ],
)
def test_a_letter_states_no_code(feature: Feature, value: Any, lacks: bool) -> None:
    assert missing(feature, value) == (["level_names of work in model.yaml"] if lacks else [])


def test_a_letter_speaks_one_language() -> None:
    english = levels("clerk", "farmer")
    assert missing(english, "clerk", "de") == ["words.de of work in model.yaml", "titles.de in model.yaml"]
    label_only = levels("clerk", "farmer", words={"de": Words(label="Arbeit")})
    assert missing(label_only, "clerk", "de", de="Kredit") == ["words.de of work in model.yaml"]
    whole = levels("clerk", "farmer", words={"de": Words(label="Arbeit", levels={"clerk": "Büro"})})
    assert missing(whole, "clerk", "de", de="Kredit") == []
    assert missing(whole, "clerk", "en") == []


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_letter_has_the_id_of_the_model_for_a_title(language: str) -> None:
    """As a draft has."""
    work = levels("clerk", words={"de": Words(label="Arbeit", levels={"clerk": "Büro"})})
    assert "title in model.yaml" in missing(work, "clerk", language, default=language, title="loan")
    assert missing(work, "clerk", language, title="loan", **{language: "Loan"}) == []


def test_a_manifest_in_the_language_of_the_lender_needs_no_words() -> None:
    assert missing(levels("Büro", "Hof"), "Büro", "de", default="de") == []


def gaps(*features: Feature, default: str = "en", reported: tuple[str, ...] = (), **titles: str) -> list[str]:
    """What is said of the words of a manifest before there is an answer."""
    spoken = Spoken(model="loan", features=features, title="Loan", titles=titles, default=default, reported=reported)
    return list(spoken.gaps(Templates.read("general", None, default).languages))


def test_what_a_letter_would_lack_is_known_of_the_manifest() -> None:
    """Whatever is missing from the letter about a value is named, with the same key, before there is an answer."""
    codes = levels("A43", "B2", words={"de": Words(label="Arbeit", levels={"A43": "Radio"})})
    for language, default in [("en", "en"), ("de", "en"), ("de", "de")]:
        said = " ".join(gaps(codes, default=default, de="Kredit"))
        for value in ("A43", "B2"):
            for key in missing(codes, value, language, default=default, de="Kredit"):
                assert key.removesuffix(" in model.yaml") in said
    english, german = gaps(codes, de="Kredit")[::-1]
    refused = "Letters in {} are refused where they would state what model.yaml has no words for: {}"
    assert english == refused.format("en", 'level_names of work (for "A43", "B2")')
    assert german.startswith(refused.format("de", 'level_names of work (for "B2")'))


def test_a_manifest_with_all_its_words_lacks_none() -> None:
    whole = levels("clerk", "farmer", words={"de": Words(label="Arbeit", levels={"clerk": "Büro", "farmer": "Hof"})})
    assert gaps(whole, de="Kredit") == []
    assert gaps(levels("clerk")) == [], "German is no language of this manifest"
    assert gaps(levels("Büro"), default="de") == [], "it is taken to be in the language of all letters"
    assert gaps(levels("A43", protected=True)) == []
    assert gaps(whole) == [
        "Letters in de are refused where they would state what model.yaml has no words for: titles.de"
    ]


def test_terms_and_what_a_bureau_reports_are_stated_even_if_they_are_never_a_reason() -> None:
    silent = {"change": Change.NONE, "reason": ReasonWords(named=False)}
    assert gaps(levels("A43", **silent)) == []
    assert "level_names of work" in gaps(levels("A43", terms=True, **silent))[0]
    assert "level_names of work" in gaps(levels("A43", **silent), reported=("work",))[0]
