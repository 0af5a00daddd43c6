"""What a letter says, in the languages that ship and in a lender's own."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import TemplateFaulty
from app.letters.facts import Facts
from app.letters.letter import notice_of
from app.letters.notice import Lender, Notice
from app.letters.regime import SHIPPED, Templates, preferred
from app.recourse.actions.sentences import about_text, number_text
from app.recourse.features import (
    Better,
    Change,
    Feature,
    FeatureType,
    Missing,
    MovesWithTime,
    ReasonWords,
    Sentence,
    Takes,
    Words,
)
from app.recourse.method_run import UNSEEN_WARNING
from app.recourse.shares import digits_apart, percent

FEATURES = (
    Feature(name="amount", type=FeatureType.INTEGER, label="Loan amount", unit="EUR",
            reason=ReasonWords(code="R1"), words={"de": Words(label="Kreditbetrag")}),
    Feature(name="late", type=FeatureType.INTEGER, label="Late payments", special={-9: "no record"},
            words={"de": Words(label="Verspätungen", levels={"-9": "keine Angaben"})}),
    Feature(name="guarantor", type=FeatureType.BINARY, sentence=Sentence(to={"true": "Find a guarantor"}),
            words={"de": Words(label="Bürgschaft", sentence=Sentence(to={"true": "Jemanden finden, der bürgt"}))}),
    Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rented", "owned"), missing=Missing.NAN,
            label="Housing", words={"de": Words(label="Wohnen", levels={"rented": "Miete", "owned": "Eigentum"})}),
    Feature(name="age", type=FeatureType.INTEGER, moves_with_time=MovesWithTime(per_year=1), protected=True),
)  # fmt: skip

JOB = Feature(name="late", type=FeatureType.INTEGER, label="Late payments", moves_with_time=MovesWithTime(per_year=12),
              words={"de": Words(label="Verspätungen")})  # fmt: skip
"""A count of months, which a letter of three months sees change."""

ROOT = Path(__file__).parents[2]
APPLICANT = {"amount": 20800, "late": -9, "guarantor": False, "housing": None, "age": 30}
LENDER = Lender(name="Bank & <Sons>", address=("1 Street", "Town"), contact="a@b.example", authority="The Agency",
                data_authority="The Data Agency", debt_advice="The Advisers", bureau=("Bureau", "0800 1"))  # fmt: skip


def reason(feature: str, usual: Any, text: str = "") -> dict[str, Any]:
    known = {"code": "R1" if feature == "amount" else None, "text": text, "value": APPLICANT[feature]}
    return {"feature": feature, **known, "reference": usual, "contribution": -1.0, "share": 0.5, "std_error": 0.0}


def change(feature: str, to: Any, *, by_time: bool = False) -> dict[str, Any]:
    return {"feature": feature, "from": APPLICANT[feature], "to": to, "by_time": by_time}


def way(rank: int = 1, months: float = 0.0, share: float | None = None, **values: Any) -> dict[str, Any]:
    future = {"probability": share, "interval": [0.941, 1.0], "models": 60, "source": "retrained", "records": "fresh"}
    return {
        "rank": rank, "applicant": {**APPLICANT, **values}, "takes_months": months, "steps": None,
        "changes": [change(name, value) for name, value in values.items()],
        "validity": {"current": {"probability": 0.917}, "future": None if share is None else future},
    }  # fmt: skip


def answered(**changes: Any) -> dict[str, Any]:
    return {
        "id": "rec_1", "reference": "case <7>", "seed": 0, "model": {"id": "loan", "version": "3", "sha256": "0"},
        "factual": {"probability": 0.6486, "score": -0.7, "favourable": False},
        "counterfactuals": [way(amount=15700, guarantor=True, months=3.0, share=1.0)],
        "created_at": "2026-03-02T23:59:00.000Z", "expires_at": "2026-05-31T23:59:00.000Z", **changes,
    }  # fmt: skip


REASONS = {
    "against": {"kind": "accepted", "records": 1200},
    "reasons": [reason("amount", 7680.0), reason("late", 0.9), reason("guarantor", True), reason("housing", "owned")],
}


shipped = cache(lambda regime: Templates.read(regime, None, "en"))
"""To read and check templates takes a hundred times as long as to fill one."""


def written(language: str = "en", regime: str = "general", directory: Path | None = None, **changes: Any) -> str:
    templates = Templates.read(regime, directory, "en") if directory else shipped(regime)
    return templates.text(notice(templates, language, **changes)).replace("\u00a0", " ")


def facts_about(reasons: Any, features: tuple[Feature, ...]) -> Facts:
    compared = {"against": REASONS["against"], "reasons": reasons}
    return Facts(answer=answered(counterfactuals=[]), question={}, applicant=APPLICANT, reasons=compared,
                 features=features, title="Car loan", titles={}, reported=(), threshold=0.8)  # fmt: skip


def notice(
    templates: Templates,
    language: str,
    reasons: Any = REASONS,
    *,
    states_offer: bool = False,
    asked: Any = None,
    reported: tuple[str, ...] = (),
    applied_on: date | None = None,
    **changes: Any,
) -> Notice:
    facts = Facts(
        answer=answered(**changes), applicant=APPLICANT, reasons=reasons, features=FEATURES, title="Car loan",
        titles={}, question=asked or {}, reported=reported, threshold=0.8,
    )  # fmt: skip
    return notice_of(facts, templates.languages[language], templates.regime, LENDER, applied_on=applied_on,
                     offer_share=0.4 if states_offer else None)  # fmt: skip


def test_a_refusal_in_english() -> None:
    letter = " ".join(written().split())
    for part in (
        "Bank & <Sons> 1 Street Town 2 March 2026 Reference: case <7>, rec_1 Your",
        "Your application: Car loan",
        "On a scale from 0 to 100, the model rates your application 65; it accepts applications rated 80 or more.",
        "compared with 1,200 comparison cases that the model only just accepts",
        "- Loan amount too high (yours: 20,800 EUR; usual among them: 7,680 EUR) [R1]",
        "- Late payments: no record -",
        "- Guarantor: no -",
        "- Housing not stated What you can change",
        "application changes, this leads to a yes from today's model, even where reasons above remain (time assumed "
        "if you begin all the steps now: up to 90 days): 1.",
        "1. Reduce the loan amount from 20,800 EUR to 15,700 EUR. 2. Find a guarantor.",
        "then rates your application 92. It is assessed without what you have not stated (Housing); if you tell us,",
        "If future applicants are like today's, at least 94 in 100 new versions of our",
        "begin at once",
        "up to and including 30 May 2026, provided",
        "The most important of these comes first. The codes in brackets are for our own use. -",
        "begin at once, and ask us if it takes longer",
        "The model itself has assessed your application as it would then be and accepts it. It does so up to and",
        "that we still use this model, that by then you have done all of this, that this stays so and that nothing "
        "else in your application changes. Ask us first in these cases, in which the answer may differ:",
        "Tell us as soon as you have done all of this, and send proof of it, in good time for us to decide by 30 May "
        "2026. We then decide anew, about your application as it then is and with the model that we then use.",
    ):
        assert part in letter


@pytest.mark.parametrize(("holds", "until"), [(None, "30 May 2026"), (9.0, "30 May 2026"), (1.5, "15 April 2026")])
def test_a_letter_is_valid_until_the_backtest_falls_below_the_promise(holds: float | None, until: str) -> None:
    before = {"share": 0.627, "interval": [0.4, 0.8], "promises": 90, "months": 12, "holds_months": holds}
    aged, other = way(1, amount=15700, share=1.0), way(2, guarantor=True, share=1.0)
    aged["validity"]["future"]["kept_before"] = before
    letter = " ".join(written(counterfactuals=[aged, other]).split())
    assert f"up to and including {until}" in letter
    assert (
        "Of 90 ways like this one that we could have named earlier, 62 in 100 still held 12 months later. If" in letter
    )
    late = way(1, amount=15700, months=2.0, share=1.0)
    late["validity"]["future"]["kept_before"] = before
    assert ("takes longer" in " ".join(written(counterfactuals=[late]).split())) == (holds == 1.5)


def test_a_refusal_in_german() -> None:
    letter = " ".join(written("de").split())
    for part in (
        "2. März 2026",
        "bewertet das Modell Ihren Antrag mit 65; angenommen werden Anträge ab 80.",
        "verglichen mit 1.200 Vergleichsfällen",
        "- Kreditbetrag zu hoch (bei Ihnen: 20.800 EUR; bei diesen Fällen üblich: 7.680 EUR) [R1]",
        "- Verspätungen: keine Angaben -",
        "- Bürgschaft: nein -",
        "- Wohnen: keine Angabe Was",
        "ändert, nimmt ihn das heutige Modell damit an, auch wo Gründe von oben bestehen bleiben (geschätzte Dauer, "
        "wenn Sie heute mit allen Schritten beginnen: bis zu 90 Tage): 1.",
        "das Wichtigste zuerst (die Kürzel in eckigen Klammern sind für uns):",
        "2026, wenn wir dieses Modell weiter verwenden, Sie bis dahin alles umgesetzt haben, das so bleibt und "
        "sich sonst nichts an Ihrem Antrag ändert.",
        "Teilen Sie uns mit, sobald Sie alles umgesetzt haben, mit Nachweis und so früh, dass wir "
        "bis zum 30. Mai 2026 entscheiden können. Dann entscheiden wir neu: über Ihren Antrag, wie er dann ist,",
        "1. Kreditbetrag senken: 15.700 EUR statt 20.800 EUR. 2. Jemanden finden, der bürgt.",
        "mindestens 94",
        "Das gilt bis einschließlich 30. Mai 2026, wenn",
    ):
        assert part in letter
    for word in ("Loan", "guarantor", "{", "}"):
        assert word not in letter


def test_ways_are_numbered_only_where_there_are_several() -> None:
    assert "Way 1" not in written()
    letter = written(counterfactuals=[way(1, amount=15700), way(2, guarantor=True)])
    assert "Way 1" in letter
    assert "Way 2" in letter
    assert "each of these ways by itself" in letter


def test_steps_come_in_the_order_in_which_they_help() -> None:
    one = way(amount=15700, guarantor=True)
    one["steps"] = [{"feature": "guarantor", "favourable": False}, {"feature": "amount", "favourable": True}]
    letter = " ".join(written(counterfactuals=[one]).split())
    assert "1. Find a guarantor. 2. Reduce the loan amount" in letter


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "If nothing else changes, the first step is enough for today's model; the rest"),
        ("de", "ändert, genügt dem heutigen Modell der erste Schritt; der Rest"),
    ],
)
def test_steps_that_today_s_model_does_not_need_are_told_from_the_others(language: str, said: str) -> None:
    for first, enough in ((True, 1), (False, None)):
        one = way(amount=15700, guarantor=True)
        one["steps"] = [{"feature": "guarantor", "favourable": first}, {"feature": "amount", "favourable": True}]
        templates = shipped("general")
        told = notice(templates, language, counterfactuals=[one])
        assert told.ways[0].enough == enough
        assert (said in " ".join(templates.text(told).split())) is first


@pytest.mark.parametrize("language", ["en", "de"])
def test_who_only_waits_is_not_told_to_do_anything(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(APPLICANT, "housing", "rented")
    for months, late in ((2.0, False), (12.0, True)):
        one = way(months=months, age=31)
        letter = " ".join(written(language, counterfactuals=[one | {"changes": []}]).split())
        assert "need not change anything" in letter or "müssen Sie nichts ändern" in letter
        assert (
            "once the time assumed has passed." in letter or "wenn die geschätzte Dauer vorbei ist." in letter
        ) is late
        assert (
            "this time has passed by then and" in letter or "diese Zeit bis dahin vergangen ist" in letter
        ) is not late
        for told in ("have done", "umgesetzt", "proof", "nach."):
            assert told not in letter


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "on the day we decide this is so: Late payments: -9"), ("de", "Entscheidung gilt: Verspätungen: -9")],
)  # fmt: skip
def test_a_yes_for_today_is_said_to_be_where_time_changes_applications(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for features, times in ((FEATURES, 0), ((FEATURES[0], JOB, *FEATURES[2:]), 1)):  # nobody ages by a quarter
        monkeypatch.setitem(notice.__globals__, "FEATURES", features)
        offer = {"terms": {"amount": 9000}, "applicant": APPLICANT | {"amount": 9000}}
        templates = shipped("general")
        yes = {"factual": {"probability": 0.9, "score": 1.0, "favourable": True}, "counterfactuals": []}
        today = {"counterfactuals": [way(amount=15700)]}
        for states_offer, changes in ((False, today), (True, {"offer": offer, "counterfactuals": []}), (False, yes)):
            told = notice(templates, language, reasons=None, states_offer=states_offer, **changes)
            letter = " ".join(templates.text(told).split())
            assert letter.count(said) == times
            assert ("including 1 April 2026" in letter or "einschließlich 1. April 2026" in letter) is bool(times)
            dated = "including 30 May 2026" in letter or "einschließlich 30. Mai 2026" in letter
            assert dated is (times == 0), "time may take the yes before"


def test_what_time_does_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    one = way(amount=15700, months=2.0, age=31)
    one["changes"] = [*one["changes"][:1], change("late", 0, by_time=True)]
    one["applicant"]["late"] = 0
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    letter = " ".join(written(reasons=None, counterfactuals=[one]).split())
    assert "2. Late" not in letter
    assert (
        "2 May 2026 to 30 May 2026, provided that on the day we decide this is so: Late payments: 0. On other" in letter
    )


def spelt(text: str) -> str:
    """The text of a letter as the regime `us` spells it."""
    return re.sub(r"(\d+) ([A-Z][a-z]+) (20\d\d)", r"\2 \1, \3", text).replace("instalment", "installment")


LATE = {
    ("en", "general"): (
        "This takes longer than this letter is valid (up to and including 30 May 2026), so we do not promise this yes: "
        "apply again once you have done it, with proof.",
        "When you apply again we decide anew, perhaps with another model, and may decide otherwise.",
        "It does so up to",
    ),
    ("de", "general"): (
        "Das dauert länger, als dieses Schreiben gilt (bis einschließlich 30. Mai 2026), ein Ja sagen wir deshalb "
        "nicht zu: Stellen Sie den Antrag neu, wenn Sie alles umgesetzt haben, und weisen Sie es nach.",
        "Über einen neuen Antrag entscheiden wir neu, "
        "vielleicht mit einem anderen Modell und vielleicht anders.",
        "Das gilt bis einschließlich",
    ),
}  # fmt: skip
LATE |= {("en", "us"): tuple(map(spelt, LATE["en", "general"]))}
LATE |= {("en", "uk"): LATE["en", "general"]}
LATE |= {(language, "eu"): LATE[language, "general"] for language in ("en", "de")}


def test_every_letter_that_ships_is_tried_with_a_way_that_takes_too_long() -> None:
    ships = {
        (*reversed(one.name.split(".")[:2]),)
        for one in SHIPPED.iterdir()
        if one.name.endswith(".txt") and not one.name.startswith("_")
    }
    assert ships == set(LATE)


@pytest.mark.parametrize(("language", "regime"), LATE)
def test_a_way_that_takes_longer_than_the_answer_is_valid_is_no_promise(language: str, regime: str) -> None:
    anew, holds, accepts = LATE[language, regime]
    late, soon = way(1, months=24.0, amount=15700), way(2, months=3.0, guarantor=True)

    def letter(*ways: dict[str, Any]) -> str:
        return " ".join(written(language, regime, counterfactuals=list(ways)).split())

    for part, said in ((anew, True), (holds, True), (accepts, False)):
        assert (part in letter(late)) == said
        assert (part in letter(soon)) != said
    both = letter(late, soon)
    assert both.count(anew) == 1
    assert both.index(anew) < both.index("Way 2" if language == "en" else "Weg 2")
    assert accepts in both
    ends = {
        "en": "Tell us as soon as you have done all the steps of way 2, and send",
        "de": "sobald Sie alle Schritte von Weg 2 umg",
    }
    assert ends[language] in both
    assert not any(said in letter(late) for said in ("Tell us as soon as", "sobald Sie alles umgesetzt"))
    assert "itif" not in letter(late)


@pytest.mark.parametrize(
    ("language", "apart"),
    [("en", "apart from the time that passes until then"), ("de", "außer dass bis dahin Zeit vergeht")],
)
def test_what_time_changes_is_no_other_change(language: str, apart: str) -> None:
    def aged(rank: int, months: float, age: int) -> dict[str, Any]:
        one = way(rank, months=months, amount=15700 + rank, age=age)
        return one | {"changes": one["changes"][:1]}  # the age is protected, so that no change names it

    # Where the yes is announced, and where it is promised.
    for months, age, times in ((2.5, 31, 2), (2.5, 30, 0), (24.0, 32, 1)):
        for ways in ([aged(1, months, age)], [aged(1, months, age), aged(2, months, age)]):
            assert " ".join(written(language, counterfactuals=ways).split()).count(apart) == times
    mixed = [aged(1, 2.5, 30), aged(2, 24.0, 32)]
    letter = " ".join(written(language, counterfactuals=mixed).split())
    assert letter.count(apart) == 1
    assert ("(only on way 2), each" if language == "en" else "(nur auf Weg 2), nimmt") in letter


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_letter_without_a_way_names_no_day(language: str) -> None:
    """Nor does it say "as long as that" of a day that it does not name."""
    favourable = {"probability": 0.9, "score": 1.0, "favourable": True}
    for factual in (favourable, answered()["factual"]):
        letter = " ".join(written(language, reasons=None, counterfactuals=[], factual=factual).split())
        promised = {"up to", "bis einschließlich"} if factual is favourable else set()
        for part in {"2026,", "up to", "bis einschließlich", "do not promise", "nicht zu"} - promised:
            assert part not in letter


def test_nothing_found_promises_nothing() -> None:
    letter = written(counterfactuals=[])
    assert "found none" in " ".join(letter.split())
    assert "30 May" not in letter
    assert "promise" not in letter
    assert "offer of credit" not in letter


def test_a_reason_without_a_direction_is_not_compared_with_what_is_usual() -> None:
    """A value below the average may have lowered the score because it is above that of many."""
    one = reason("amount", 23000.0) | {"direction": None}
    letter = written(reasons={"against": {"kind": "everyone", "records": 9}, "reasons": [one]})
    assert "Loan amount: 20,800 EUR (on average, theirs is rated higher) [R1]" in " ".join(letter.split())
    assert "usual" not in letter
    letter = written(reasons={"against": {"kind": "everyone", "records": 9}, "reasons": [reason("amount", 23000.0)]})
    assert "Loan amount too low (yours: 20,800 EUR; usual among them: 23,000 EUR) [R1]" in letter


@pytest.mark.parametrize(
    ("language", "regime", "expected"),
    [("en", "general", "it is enough that this time passes"), ("en", "us", "it is enough that this time passes"),
     ("de", "general", "Es genügt, dass diese Zeit vergeht")],
)  # fmt: skip
def test_a_way_in_which_only_time_passes_says_so(language: str, regime: str, expected: str) -> None:
    """The age is protected, so that no sentence names it."""
    waiting = way(months=2.0, age=31) | {"changes": []}
    acting = way(months=2.0, amount=15700)
    assert expected in " ".join(written(language, regime, counterfactuals=[waiting]).split())
    assert expected not in " ".join(written(language, regime, counterfactuals=[acting]).split())


def test_a_refusal_without_reasons_states_none() -> None:
    letter = written(reasons={"against": {"kind": "everyone", "records": 9}, "reasons": []})
    assert "Why" not in letter
    assert "{" not in letter


def test_an_answer_of_an_earlier_release_has_a_letter() -> None:
    one = way(amount=15700)
    for later in ("steps", "takes_months"):
        del one[later]
    del one["validity"]["future"], one["changes"][0]["by_time"]
    assert "1. Reduce the loan amount" in written(counterfactuals=[one])


def test_an_accepted_application_needs_no_change() -> None:
    letter = written(reasons=None, counterfactuals=[], factual={"probability": 0.9, "score": 1.0, "favourable": True})
    assert "rates yours high enough as it stands" in " ".join(letter.split())
    assert "Why" not in letter
    assert "What you can change" not in letter


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_chance_that_is_not_known_is_not_stated(language: str) -> None:
    """Of an answer to a key that may not read scores."""
    letter = " ".join(written(language, factual={"probability": None, "score": None, "favourable": False}).split())
    assert "accepts applications from" not in letter
    assert "angenommen werden Anträge" not in letter
    assert "Loan amount" in letter or "Kreditbetrag" in letter


@pytest.mark.parametrize("regime", ["general", "eu", "uk", "us"])
def test_no_decision_is_not_called_a_refusal(regime: str) -> None:
    letter = written(regime=regime, reasons=None, counterfactuals=[], factual=None)
    assert "Nothing has been decided yet" in " ".join(letter.split())
    for word in ("cannot accept", "look at the decision", "looks at the decision", "contest"):
        assert word not in letter


def test_a_measured_share_is_rounded_and_never_overstated() -> None:
    language = shipped("general").languages["en"]
    assert [language.percent_text(share) for share in (0.0, 0.001, 0.042, 0.97, 0.999, 1.0)] == [
        "0%", "below 1%", "4%", "97%", "above 99%", "100%",
    ]  # fmt: skip


def test_the_letter_of_another_regime_states_the_authority() -> None:
    letter = " ".join(written(regime="us").split())
    assert "Principal reasons" in letter
    assert "concerning this creditor is: The Agency." in letter


def test_the_page_escapes_what_the_lender_and_the_record_say() -> None:
    templates = shipped("general")
    page = templates.html(notice(templates, "en"))
    assert "Bank &amp; &lt;Sons&gt;" in page
    assert "case &lt;7&gt;" in page
    assert "<Sons>" not in page


def test_the_same_record_gives_the_same_letter() -> None:
    assert written() == written()


def test_a_third_language_is_two_files(tmp_path: Path) -> None:
    english = yaml.safe_load((SHIPPED / "en.yaml").read_text(encoding="utf-8"))
    french = {
        **english,
        "month_names": [f"mois {k}" for k in range(1, 13)],
        "percent": "{n}\u202f%",
        "phrases": {"decimal": ",", "group": "\u202f", "reduce": "Réduire : {name} de {from} à {to}."},
    }
    (tmp_path / "fr.yaml").write_text(json.dumps(french), encoding="utf-8")
    (tmp_path / "general.fr.txt").write_text(
        "# Votre demande\n\nLe {{date}}, {{rating}} {{unnamed}}\n\n"
        "{% for way in ways %}{% for step in way.steps %}\n1. {{step}}\n{% endfor %}{% endfor %}\n",
        encoding="utf-8",
    )
    letter = written("fr", directory=tmp_path, reasons={**REASONS, "protected_share": 0.6})
    assert "Le 2 mois 3 2026, 65 60\u202f%" in letter
    assert "1. Réduire : loan amount de 20\u202f800 EUR à 15\u202f700 EUR." in letter
    assert "We have assessed" in written("en", directory=tmp_path)  # the others stay


def test_a_regime_says_otherwise_only_what_its_own_file_says(tmp_path: Path) -> None:
    (tmp_path / "uk.en.yaml").write_text("everyone: all {n} of them", encoding="utf-8")
    (plain, own), us = (Templates.read("uk", where, "en").languages["en"] for where in (None, tmp_path)), shipped("us")
    assert own == replace(plain, everyone="all {n} of them")
    assert us.languages["en"] == replace(plain, date="{month}\u00a0{day}, {year}")
    assert us.languages["en"].date_text("2026-03-02T23:59:00.000Z") == "March\u00a02, 2026"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("general.en.txt", "Dear {{nmae}}", "general.en.txt: line 1 names nmae; there are .*lender"),
        ("general.en.txt", "Dear\n{{lender.nmae}}", "general.en.txt: line 2 names nmae"),
        ("general.en.txt", "{% for way in ways %}", "general.en.txt: line 1: Unexpected end of template"),
        ("general.en.txt", "a\n{{#ways}}", "general.en.txt: line 2: unexpected char '#'"),
        ("general.en.yaml", "date: 5", "en.yaml and general.en.yaml: date must be a text"),
        ("general.en.yaml", "- a", "general.en.yaml must be a mapping"),
        ("general.en.txt", "{% extends 'other.txt' %}", "There is no file other.txt"),
        ("general.fr.txt", "Bonjour", "general.fr.txt needs fr.yaml"),
        ("en.yaml", "date: '{day}'", "en.yaml: month_names is missing"),
        ("en.yaml", "phrases: {yes: oui}", "phrases.* must be a text; put it in quotes"),
        ("en.yaml", "- a", "en.yaml must be a mapping"),
    ],
)
def test_faults_name_the_file(tmp_path: Path, file: str, content: str, said: str) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(TemplateFaulty, match=said):
        Templates.read("general", tmp_path, "en")


@pytest.mark.parametrize(
    ("regime", "default", "said"),
    [
        ("mars", "en", "There is no letter mars.en.txt"),
        ("us", "de", "us.de.txt; RECOURSE_NOTICE_LANGUAGE"),
    ],
)
def test_a_letter_that_is_not_there_is_said_at_the_start(regime: str, default: str, said: str) -> None:
    with pytest.raises(TemplateFaulty, match=said):
        Templates.read(regime, None, default)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TemplateFaulty, match="cannot be read"):
        Templates.read("general", tmp_path / "none", "en")


def test_languages_are_chosen_as_the_client_prefers() -> None:
    templates = shipped("general")
    for accept, expected in [
        ("", "en"), ("de", "de"), ("de-AT, en;q=0.5", "de"), ("fr, de;q=0.3, en;q=0.8", "en"), ("fr", "en"),
        ("de;q=0", "en"), ("*", "en"), ("de;q=x, en", "en"),
    ]:  # fmt: skip
        assert templates.language(accept) == expected, accept
    assert preferred("text/html, */*;q=0.1, text/plain;q=0.9") == ["text/html", "text/plain", "*/*"]


@pytest.mark.parametrize("tag", ["en-gb", "en-GB"])
def test_a_regional_letter_goes_to_those_who_ask_for_it(tmp_path: Path, tag: str) -> None:
    (tmp_path / f"general.{tag}.txt").write_text((SHIPPED / "general.en.txt").read_text())
    (tmp_path / f"{tag}.yaml").write_text((SHIPPED / "en.yaml").read_text())
    templates = Templates.read("general", tmp_path, "en")
    for accept, expected in [("en-GB,en;q=0.5", tag), ("en-US", "en"), ("en", "en"), ("de-DE, en-GB;q=0.9", "de")]:
        assert templates.language(accept) == expected, accept


@pytest.mark.parametrize(
    ("threshold", "shares", "shown"),
    [
        (0.98, (0.7, 0.9), ["70", "90"]),
        (0.98, (0.9804, 0.9831), ["98.04", "98.31"]),
        (0.5, (0.4996, 0.500001), ["49.9600", "50.0001"]),
        (0.02, (0.0004, 0.0199), ["0.04", "1.99"]),
        (0.98, (0.98, 1.0), ["98", "100"]),
        (None, (0.9804,), ["98"]),
    ],
)
def test_digits_tell_a_chance_from_the_cut_off(
    threshold: float | None, shares: tuple[float, ...], shown: list[str]
) -> None:
    digits = digits_apart(threshold, shares)
    assert [percent(share, digits) for share in shares] == shown
    if threshold is not None:
        assert percent(threshold, digits) not in [one for one, p in zip(shown, shares, strict=True) if p != threshold]


def test_a_letter_tells_a_near_miss_from_the_cut_off() -> None:
    letter = " ".join(written("de", factual={"probability": 0.7986, "score": -0.7, "favourable": False}).split())
    assert "bewertet das Modell Ihren Antrag mit 79,9; angenommen werden Anträge ab 80,0." in letter


# --- a letter that may go out ----------------------------------------------------------------------------------------

REGIMES = sorted(LATE)


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_no_letter_goes_out_without_what_it_states_of_the_lender(language: str, regime: str) -> None:
    template = Templates.read(regime, None, language).letters[language]
    nobody = Lender(name="", address=(), contact="", authority="", data_authority="", debt_advice="", bureau=())
    stated = {"RECOURSE_LENDER_NAME", "RECOURSE_LENDER_ADDRESS", "RECOURSE_LENDER_CONTACT"}
    more = {"general": (), "us": ("AUTHORITY", "BUREAU"), "uk": ("AUTHORITY", "DATA_AUTHORITY", "DEBT_ADVICE"),
            "eu": ("AUTHORITY", "DATA_AUTHORITY", "DEBT_ADVICE", "BUREAU")}  # fmt: skip
    assert set(template.missing(nobody)) == stated | {f"RECOURSE_LENDER_{name}" for name in more[regime]}
    assert template.missing(LENDER) == ()
    assert template.missing(replace(LENDER, address=())) == ("RECOURSE_LENDER_ADDRESS",)


def test_a_letter_of_ones_own_names_its_sender_too(tmp_path: Path) -> None:
    (tmp_path / "general.en.txt").write_text("# A letter", encoding="utf-8")
    template = Templates.read("general", tmp_path, "en").letters["en"]
    assert template.missing(replace(LENDER, name="")) == ("RECOURSE_LENDER_NAME",)


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_every_letter_has_a_sender_a_date_and_a_reference(language: str, regime: str) -> None:
    for reference, shown in (("case 9", "case 9"), (None, "rec_1")):
        letter = written(language, regime, reference=reference)
        head = letter[: letter.index("===")]
        for part in ("Bank & <Sons>", "1 Street", "2026", shown):
            assert part in head


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_no_letter_claims_compliance(language: str, regime: str) -> None:
    letter = " ".join(written(language, regime).lower().split())
    letter = letter.replace("administers compliance with this law", "")
    for word in ("complian", "comply", "complies", "in accordance with", "konform", "gemäß", "entspricht"):
        assert word not in letter


@pytest.mark.parametrize(
    ("language", "regime", "parts"),
    [
        ("en", "us", ["principal reasons", "did not make the decision", "free copy", "60 days", "Bureau", "0800 1"]),
        ("en", "eu", ["explains to you", "your point of view", "reviews the assessment", "2023/2225", "2016/679",
                      "the decision to: The Agency;", "this Regulation) to: The Data", "advice from: The Advisers."]),
        ("de", "eu", ["erklärt Ihnen", "eigenen Standpunkt", "prüft die Bewertung", "2023/2225", "2016/679",
                      "beschweren: The Agency;", "dieser Verordnung) hier: The Data", "beraten lassen: The Advisers."]),
        ("en", "uk", ["information about how the decision was made", "what you have to say", "one of our staff",
                      "contest the decision", "Data (Use and Access) Act 2025", "our final answer, to: The Ag",
                      "your data you can complain to: The Data Agency."]),
        ("en", "general", ["a person look at the decision"]),
    ],
)  # fmt: skip
def test_a_regime_says_what_the_applicant_may_ask_for(language: str, regime: str, parts: list[str]) -> None:
    letter = " ".join(written(language, regime).split())
    for part in parts:
        assert part in letter


def test_who_uses_no_reports_names_no_agency() -> None:
    templates = shipped("us")
    facts = Facts(answer=answered(), applicant=APPLICANT, reasons=REASONS, features=FEATURES, title="Car loan",
                  titles={}, question={}, reported=(), threshold=0.8)  # fmt: skip
    lender = replace(LENDER, bureau=("none",))
    assert templates.letters["en"].missing(lender) == ()
    letter = templates.text(notice_of(facts, templates.languages["en"], "us", lender))
    assert "reporting agency" not in letter
    assert "Equal Credit Opportunity Act" in letter


TO_LENDERS = {
    "WEIGHTS_WARNING", "PRICE_WARNING", "LEFT_OUT_WARNING", "FALLBACK_WARNING", "NEAREST_WARNING", "MISTAKEN_WARNING",
    "SILENT_WARNING", "FEWER_WARNING", "FEWER_MEMBERS_WARNING", "STOPPED_WARNING", "GIVEN_UP_WARNING", "BUDGET_WARNING",
    "NOT_AIMED_WARNING", "ACCEPTED_WARNING", "NOT_ALL_WARNING", "MORE_WARNING",
}  # fmt: skip
"""Warnings about the method, the search or the request: nothing in them is for the applicant."""
TO_APPLICANTS = {"PROVIDED_WARNING", "EXPIRES_WARNING", "STRESS_WARNING", "UNSEEN_WARNING"}
"""The tests below and above show where the letter says them."""


def test_every_warning_of_an_answer_is_said_in_the_letter_or_is_none_of_the_applicant_s_business() -> None:
    found = {
        name
        for room in ("recourse", "questions")
        for path in (ROOT / "app" / room).rglob("*.py")
        for name in re.findall(r"^([A-Z_]*WARNING)\b(?:: \w+)? = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == TO_LENDERS | TO_APPLICANTS


@pytest.mark.parametrize(("language", "part"), [("en", "less reliable than usual"), ("de", "weniger verlässlich")])
@pytest.mark.parametrize("accepted", [False, True])
def test_an_application_unlike_all_others_is_said_to_be(language: str, part: str, accepted: bool) -> None:
    yes = {"factual": {"probability": 0.9, "score": 1.0, "favourable": True}, "counterfactuals": []}
    asked: dict[str, Any] = {"reasons": None, **yes} if accepted else {}
    assert part in " ".join(written(language, warnings=[f"Some sentence. {UNSEEN_WARNING}"], **asked).split())
    assert part not in " ".join(written(language, warnings=["Some sentence."], **asked).split())


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "personal facts. They made up {}% of what"), ("de", "Angaben weg. Sie machten {} % dessen aus")],
)
@pytest.mark.parametrize("regime", ["general", "us", "eu", "uk"])
def test_what_may_not_be_named_is_not_hidden(regime: str, language: str, said: str) -> None:
    """Of features that no letter names, where they count as much as a reason."""
    if language not in Templates.read(regime, None, "en").letters:
        return
    for share, stated in ((0.3, True), (0.12, True), (0.05, False), (0.0, False), (None, False)):
        reasons = {**REASONS, "protected_share": share, "reasons": [{**REASONS["reasons"][0], "share": 0.2}]}
        letter = " ".join(written(language, regime, reasons=reasons).split())
        percent = round(100.0 * (share or 0.0))
        assert (said.format(percent) in letter) is stated
        limits = {"de": "Von den übrigen Angaben sprach", "us": "the principal reason among the other facts"}
        assert (limits.get(regime if regime == "us" else language, "Of the other facts, this") in letter) is stated


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "(usual among them, too, but some have what"), ("de", "(auch dort üblich, manche haben aber, was")],
)
def test_no_reason_is_left_unexplained(language: str, said: str) -> None:
    for usual, explained in ((False, True), (True, False)):  # two levels say nothing beside each other
        letter = " ".join(written(language, reasons={**REASONS, "reasons": [reason("guarantor", usual)]}).split())
        assert (said in letter) is explained


def test_a_category_is_not_compared_with_the_most_common_one() -> None:
    """The most common one may be rated lower still."""
    for own, mixed in ((ReasonWords(), True), (ReasonWords(text="Housing"), False)):
        facts = facts_about([reason("housing", "owned") | {"value": "rented"}], (replace(FEATURES[3], reason=own),))
        templates = shipped("general")
        (said,) = notice_of(facts, templates.languages["en"], "general", LENDER).reasons
        assert (said.usual, said.mixed) == (None, mixed)


@pytest.mark.parametrize(
    ("language", "said"), [("en", "all the steps of way 1, that this stays so"), ("de", "alle Schritte von Weg 1 umg")]
)
def test_only_a_way_that_ends_in_time_is_promised(language: str, said: str) -> None:
    late = way(2, amount=9000, months=8.0)
    assert said in " ".join(written(language, counterfactuals=[way(1, amount=15700), late]).split())
    assert said not in " ".join(written(language, counterfactuals=[way(1, amount=15700), way(2, amount=9000)]).split())


def test_a_stated_value_has_its_range_and_no_numbers_of_a_single_value() -> None:
    one = way(share=1.0, housing="owned")
    one["changes"][0]["accepted"] = {"min": None, "max": None, "levels": ["rented", "owned"]}
    for language, said in (("en", 'Tell us, with proof, the housing; this way works if it is "rented" or "owned".'),
                           ("de", "mit Nachweis mitteilen: Dieser Weg gilt für: „Miete“ oder „Eigentum“")):  # fmt: skip
        letter = " ".join(written(language, counterfactuals=[one]).split())
        assert said in letter
        assert "for every value that a step allows" in letter or "jeden Wert, den ein Schritt zulässt" in letter
        assert "92" not in letter, "the chance is that of one value"
        assert "new versions" not in letter
        assert "neuen Fassungen" not in letter


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_is_proven_to_be_out_of_reach_is_not_called_unproven(language: str) -> None:
    unproven = "does not prove" if language == "en" else "beweist nicht"
    assert unproven in written(language, counterfactuals=[])
    assert unproven in written(language, counterfactuals=[], precluded={"status": "open", "proof": None})
    proven = {"status": "proven", "proof": "enumerated"}
    assert unproven not in written(language, counterfactuals=[], precluded=proven, nearest={"favourable": False})
    assert unproven in written(language, counterfactuals=[], precluded=proven, nearest=None), "nothing was allowed"


@pytest.mark.parametrize(
    ("language", "ruled_out", "by"),
    [
        (
            "en",
            "within your reach and not ruled out in the search",
            "within your reach by 30 May 2026",
        ),
        (
            "de",
            "die Ihnen nach unserer Annahme möglich sind und bei der Suche nicht ausgeschlossen waren",
            "die Ihnen nach unserer Annahme bis zum 30. Mai 2026",
        ),
    ],
)
@pytest.mark.parametrize("status", ["open", "proven"])
def test_nothing_found_is_said_with_the_limits_of_the_search(
    language: str, ruled_out: str, by: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = {"counterfactuals": [], "precluded": {"status": status}}
    free = " ".join(written(language, **nothing).split())
    assert ruled_out not in free
    assert by not in free
    for asked in ({"constraints": {"immutable": ["amount"]}}, {"wishes": {"exclude": {"features": ["amount"]}}}):
        assert ruled_out in " ".join(written(language, asked=asked, **nothing).split())
    takes_time = (replace(FEATURES[0], takes=Takes(months=1)), *FEATURES[1:])
    monkeypatch.setitem(notice.__globals__, "FEATURES", takes_time)
    assert by in " ".join(written(language, **nothing).split())
    sooner = " ".join(written(language, asked={"timing": {"horizon_months": 1.0}}, **nothing).split())
    assert "2 April 2026" in sooner or "2. April 2026" in sooner


@pytest.mark.parametrize(("language", "part"), [("en", "We advise none"), ("de", "Wir raten zu keiner")])
def test_a_change_that_only_today_s_model_accepts_is_not_denied(language: str, part: str) -> None:
    assert part in " ".join(written(language, counterfactuals=[], nearest={"favourable": True}).split())
    assert part not in " ".join(written(language, counterfactuals=[], nearest={"favourable": False}).split())


@pytest.mark.parametrize(
    ("points", "threshold", "shown"),
    [(579.553, 600.0, "580"), (599.7, 600.0, "599.7"), (600.0, 600.0, "600"), (391.44, 391.5, "391.4"),
     (1234.9, 600.0, "1,235"), (391.46, 391.5, "391.46"), (599.96, 600.0, "599.96")],
)  # fmt: skip
def test_points_have_the_digits_of_the_cut_off(points: float, threshold: float, shown: str) -> None:
    language = shipped("general").languages["en"]
    assert language.points_text(points, threshold) == shown


@pytest.mark.parametrize(
    ("months", "shown"), [(0.2, "1 week"), (0.5, "3 weeks"), (1.0, "1 month"), (1.01, "5 weeks"),
                          (1.95, "9 weeks"), (2.0, "2 months"),
                          (3.1, "14 weeks"), (4.4, "19 weeks"), (5.0, "5 months"), (6.4, "7 months")],
)  # fmt: skip
def test_a_time_is_said_in_weeks_or_whole_months(months: float, shown: str) -> None:
    assert about_text(months) == shown


def test_the_same_reason_is_said_once() -> None:
    """Two columns of a credit bureau that knows nothing are one reason to a reader."""
    missing = ReasonWords(missing="No credit history")
    features = (*FEATURES[:1], replace(FEATURES[1], reason=missing),
                replace(FEATURES[1], name="limits", reason=missing))  # fmt: skip
    reasons = [reason("late", 0.9), reason("amount", 7680.0), reason("late", 0.5) | {"feature": "limits"}]
    facts = facts_about(reasons, features)
    templates = shipped("general")
    said = notice_of(facts, templates.languages["en"], "general", LENDER)
    assert [one.text for one in said.reasons] == ["No credit history", "Loan amount too high"]


def test_a_level_is_said_once_beside_what_is_usual() -> None:
    """Nobody calls an education too low."""
    education = Feature(
        name="housing", type=FeatureType.ORDINAL, label="Education", categories=("none", "school", "college")
    )
    facts = facts_about([reason("housing", "school") | {"value": "none", "direction": "too_low"}], (education,))
    templates = shipped("general")
    letter = templates.text(notice_of(facts, templates.languages["en"], "general", LENDER))
    assert "- Education: none (usual among them: school)\n" in letter


def test_a_value_is_not_compared_with_one_that_reads_alike() -> None:
    """20,800 against an average of 20,796 that is rounded to 20,800."""
    features = (replace(FEATURES[0], type=FeatureType.CONTINUOUS, decimals=0), *FEATURES[1:])
    one = reason("amount", 20796.0) | {"direction": "too_high", "value": 20796.2}
    facts = facts_about([one], features)
    templates = shipped("general")
    (said,) = notice_of(facts, templates.languages["en"], "general", LENDER).reasons
    assert (said.text, said.value, said.usual) == ("Loan amount too high", None, None)


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("en", "If nothing else in your application changes, you have no birthday before we decide and we go on using "
               "today's model, it accepts these terms up to and including 30 May 2026, without the changes below. A "
               "new version of our model may refuse them. Tell us if you want these terms, in good time for us to "
               "decide by 30 May 2026: only then do we decide anew, after our other checks and with the model that we "
               "then use; if we say yes, you will see the instalment before you sign. - Loan amount: 9,000 EUR (in "
               "your application: 20,800 EUR) - Guarantor: no (as in your application) What you can"),
        ("de", "Wenn sich sonst nichts an Ihrem Antrag ändert, auch nicht durch einen Geburtstag, "
               "und wir das heutige Modell weiter verwenden, nimmt es ihn bis einschließlich 30. Mai 2026 zu diesen "
               "Bedingungen an, ohne die Änderungen unten. Eine neue Fassung unseres Modells könnte sie ablehnen. "
               "Möchten Sie diese Bedingungen, sagen Sie es uns so früh, dass wir bis zum 30. Mai 2026 entscheiden "
               "können: Erst dann entscheiden wir neu, nach den übrigen Prüfungen und mit dem Modell, das wir dann "
               "haben; bei einem Ja erfahren Sie Ihre Rate vor der Unterschrift. - Kreditbetrag: 9.000 EUR (in Ihrem "
               "Antrag: 20.800 EUR) - Bürgschaft: nein (wie beantragt) Was Sie"),
    ],
)  # fmt: skip
def test_other_terms_are_stated_with_their_condition_where_the_lender_wants_that(language: str, lines: str) -> None:
    terms = {"amount": 9000, "guarantor": False}
    offer = {"terms": terms, "applicant": APPLICANT | terms}
    for regime in (one for one in ("general", "us", "eu", "uk") if language in Templates.read(one, None, "en").letters):
        templates = Templates.read(regime, None, "en")
        for states_offer, found in ((True, offer), (True, None), (False, offer)):
            told = notice(templates, language, states_offer=states_offer, offer=found)
            said = spelt(lines) if regime == "us" else lines
            assert (said in " ".join(templates.text(told).split())) is bool(states_offer and found)
            assert len(told.offer) == (2 if states_offer and found else 0)


@pytest.mark.parametrize(
    ("better", "amount", "steps", "stated"),
    [
        (Better.MORE, 9500, None, False), (Better.MORE, 8500, None, True), (None, 9500, None, True),
        (None, 9000, None, False),
        (Better.LESS, 8500, None, False), (Better.MORE, 9500, "amount", False), (Better.MORE, 9500, "guarantor", True),
    ],
)  # fmt: skip
def test_an_offer_is_not_stated_beside_a_way_with_terms_as_good(
    better: Better | None, amount: int, steps: str | None, stated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`steps` is the first one of a way whose second, a guarantor, is no term."""
    monkeypatch.setitem(notice.__globals__, "FEATURES", (replace(FEATURES[0], better=better), *FEATURES[1:]))
    one = way(amount=amount, **({"guarantor": True} if steps else {}))
    if steps:
        order = (steps, "guarantor" if steps == "amount" else "amount")
        one["steps"] = [{"feature": name, "favourable": name == "amount" or k == 1} for k, name in enumerate(order)]
    offer = {"terms": {"amount": 9000}, "applicant": APPLICANT | {"amount": 9000}}
    told = notice(shipped("general"), "en", states_offer=True, offer=offer, counterfactuals=[one])
    assert bool(told.offer) is stated


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "We found changes that take longer"), ("de", "Gefunden haben wir Änderungen, die länger")],
)
def test_more_time_is_named_where_it_is_enough(language: str, said: str) -> None:
    for constraint, sufficient in (("horizon_months", True), ("horizon_months", False), ("bounds", True)):
        relax = {"constraint": constraint, "feature": None, "sufficient": sufficient}
        letter = " ".join(written(language, counterfactuals=[], relax=relax).split())
        assert (said in letter) is (constraint == "horizon_months" and sufficient)
        assert said not in " ".join(written(language, relax=relax).split())


def test_what_follows_from_the_terms_alone_is_stated_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    instalment = Feature(name="instalment", type=FeatureType.CONTINUOUS, label="Monthly instalment", unit="EUR",
                         decimals=0, derived="amount / 24")  # fmt: skip
    late = replace(instalment, name="late_share", label="Share", derived="late / amount")
    monkeypatch.setitem(notice.__globals__, "FEATURES", (*FEATURES, instalment, late))
    monkeypatch.setitem(APPLICANT, "instalment", 20800 / 24)
    offered = {**APPLICANT, "amount": 9000, "instalment": 9000 / 24}
    templates = shipped("general")
    told = notice(templates, "en", states_offer=True, offer={"terms": {"amount": 9000}, "applicant": offered})
    assert told.offer == (
        "Loan amount: 9,000 EUR (in your application: 20,800 EUR)",
        "Monthly instalment: 375 EUR (in your application: 867 EUR)",
    )


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_every_letter_greets_its_reader(language: str, regime: str) -> None:
    greeting = {"en": "Dear applicant,\n", "de": "Guten Tag,\n"}[language]
    for factual in (answered()["factual"], None, {"probability": 0.9, "score": 1.0, "favourable": True}):
        assert greeting in written(language, regime, reasons=None, counterfactuals=[], factual=factual)


def long_way(rank: int, steps: int) -> dict[str, Any]:
    """A way of so many changes."""
    one = way(rank, amount=15700)
    return one | {"changes": one["changes"] * steps}


@pytest.mark.parametrize(
    ("language", "said"), [("en", "more than we advise at the same time"), ("de", "mehr sind, als wir zugleich raten")]
)
def test_nobody_is_told_to_change_seven_things_at_the_same_time(language: str, said: str) -> None:
    templates = shipped("general")
    told = notice(templates, language, counterfactuals=[long_way(1, 7), way(2, guarantor=True), long_way(3, 5)])
    assert [(one.number, len(one.steps)) for one in told.ways] == [(1, 1), (2, 5)]
    assert said not in " ".join(templates.text(told).split())
    told = notice(templates, language, counterfactuals=[long_way(1, 7)])
    letter = " ".join(templates.text(told).split())
    assert said in letter
    for part in ("found none", "keine gefunden", "accepts your application up to", "nimmt Ihren Antrag bis"):
        assert part not in letter


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"constraints": {"max_changes": 1}}, "by your wish or by ours: more than one change at once"),
        ({"constraints": {"bounds": {"amount": {"min": 9}}, "max_changes": 2}},
         "by your wish or by ours: some values of “Loan amount”; more than 2 changes at once"),
        ({"wishes": {"exclude": {"features": ["amount"], "changes": [{"feature": "housing", "to": "owned"}]}},
          "constraints": {"max_change": {"amount": {"absolute": 9}}}},
         "by your wish or by ours: Loan amount; some values of “Housing”"),
    ],
)  # fmt: skip
def test_a_search_that_is_limited_says_by_what(asked: dict[str, Any], said: str) -> None:
    assert f"{said}. With such" in " ".join(written(asked=asked, counterfactuals=[]).split())


@pytest.mark.parametrize(
    ("language", "said"), [("en", ("if, of this, the search did not leave out: {}.", "may be a way")),
                           ("de", ("davon nur dies nicht ausließe: {}.", "einen Weg geben"))],
)  # fmt: skip
def test_what_alone_is_likely_enough_is_named(language: str, said: tuple[str, str]) -> None:
    asked = {"constraints": {"immutable": ["amount", "housing"], "max_changes": 1}}
    amount, one = ("Loan amount", "more than one change at once") if language == "en" else (
        "Kreditbetrag", "mehr als eine Änderung zugleich")  # fmt: skip
    for constraint, feature, sufficient, named in (
        ("immutable", "amount", True, amount), ("max_changes", None, True, one),
        ("immutable", "amount", False, None), ("horizon_months", None, True, None),
    ):  # fmt: skip
        relax = {"constraint": constraint, "feature": feature, "sufficient": sufficient}
        letter = " ".join(written(language, asked=asked, counterfactuals=[], relax=relax).split())
        assert (said[0].format(named) in letter) is (named is not None)
        assert (said[1] in letter) is (named is None and constraint != "horizon_months")
    relax = {"constraint": "max_changes", "feature": None, "sufficient": True}
    alone = " ".join(
        written(language, asked={"constraints": {"max_changes": 1}}, counterfactuals=[], relax=relax).split()
    )
    assert ("did not leave this out. Ask us" if language == "en" else "die Suche das nicht ausließe. Fragen") in alone


@pytest.mark.parametrize(
    ("language", "said"), [("en", "For all ways, left out of"), ("de", "Für alle Wege gilt: Bei der Suche")]
)
def test_what_was_left_out_is_left_out_of_all_ways(language: str, said: str) -> None:
    asked = {"constraints": {"immutable": ["housing"]}}
    for ways in ([], [way(amount=15700)], [way(amount=15700), way(2, guarantor=True)]):
        assert (said in " ".join(written(language, asked=asked, counterfactuals=ways).split())) is (len(ways) == 2)


@pytest.mark.parametrize(("language", "said"), [("en", "not stated (Housing)"), ("de", "angegeben haben (Wohnen)")])
def test_a_way_without_a_value_that_another_states_says_so(language: str, said: str) -> None:
    stating = way(1, amount=15700, housing="owned")
    for ways, unstated in (([stating, way(2, guarantor=True)], 1), ([stating], 0), ([way(1, guarantor=True)], 1)):
        assert " ".join(written(language, counterfactuals=ways).split()).count(said) == unstated


@pytest.mark.parametrize(
    ("language", "said"), [("en", "we do not promise this yes"), ("de", "ein Ja sagen wir deshalb nicht zu")]
)
def test_a_way_that_takes_too_long_says_itself_that_it_is_no_promise(language: str, said: str) -> None:
    """Also beside one that is promised."""
    ways = [way(1, amount=15700), way(2, months=8.0, guarantor=True)]
    letter = " ".join(written(language, counterfactuals=ways).split())
    assert letter.count(said) == 1
    assert letter.index(said) > letter.index("Way 2" if language == "en" else "Weg 2")


@pytest.mark.parametrize("language", ["en", "de"])
def test_halves_are_rounded_up(language: str) -> None:
    spoken = shipped("general").languages[language]
    assert [spoken.rating_text(share) for share in (0.205, 0.905, 0.125)] == ["21", "91", "13"]
    assert spoken.points_text(580.5, 600.0) == "581"
    assert percent(np.float64(0.205)) == "21", "as computed shares are"
    share = replace(FEATURES[0], type=FeatureType.CONTINUOUS, unit="%", decimals=0)
    assert [number_text(share, value) for value in (20.5, 90.5, 0.5)] == ["21%", "91%", "1%"]


@pytest.mark.parametrize(("language", "mark"), [("en", "(margin)"), ("de", "(Vorsorge)")])
def test_a_step_beyond_those_that_are_enough_is_marked(language: str, mark: str) -> None:
    one = way(amount=15700, guarantor=True)
    one["steps"] = [{"feature": "guarantor", "favourable": True}, {"feature": "amount", "favourable": True}]
    lines = written(language, counterfactuals=[one]).split("\n")
    assert [mark in line for line in lines if line.startswith(("1. ", "2. "))][-2:] == [False, True]


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_language_calls_a_time_too_high(language: str) -> None:
    """A unit in German begins with a capital."""
    term = Feature(name="amount", type=FeatureType.INTEGER, unit="months", label="Term",
                   words={"de": Words(label="Laufzeit", unit="Monate")})  # fmt: skip
    facts = facts_about([reason("amount", 18.0) | {"direction": "too_high"}], (term,))
    templates = shipped("general")
    (said,) = notice_of(facts, templates.languages[language], "general", LENDER).reasons
    assert said.text in ("Term: 20,800 months", "Laufzeit: 20.800 Monate")


@pytest.mark.parametrize(
    ("language", "said"), [("en", "once all its steps are done: If"), ("de", "Wege gilt nach allen Schritten: Wenn")]
)
def test_what_is_promised_alike_of_several_ways_is_said_once(language: str, said: str) -> None:
    for shares, times, alike in (((0.9,), 1, False), ((0.9, 0.9, 0.9), 1, True), ((0.9, 0.9, None), 2, False)):
        ways = [way(k, amount=15700 - k, share=share) for k, share in enumerate(shares, start=1)]
        letter = " ".join(written(language, counterfactuals=ways).split())
        assert letter.count("94") == times
        assert (said in letter) is alike


@pytest.mark.parametrize(
    ("language", "cannot_tell", "sure"),
    [
        ("en", ("we cannot promise that a new version of our model would then accept your application.",
                "do not count on a new version of our model to accept your application."),
         "like the 60 that we tried; it is not"),
        ("de", ("können wir nicht zusagen, dass eine neue Fassung unseres Modells Ihren Antrag dann annimmt.",
                "rechnen Sie nicht damit, dass eine neue Fassung unseres Modells"),
         "wie die 60 entstehen, die wir ausprobiert haben; Ihre"),
    ],
)  # fmt: skip
def test_an_interval_around_half_tells_nothing(language: str, cannot_tell: tuple[str, str], sure: str) -> None:
    for interval, share, tells in (([0.02, 0.99], 0.8, False), ([0.093, 0.704], 0.4, False),
                                   ([0.5, 1.0], 0.8, True), ([0.02, 0.4], 0.2, True)):  # fmt: skip
        one = way(amount=15700, share=share)
        one["validity"]["future"]["interval"] = interval
        letter = " ".join(written(language, counterfactuals=[one]).split())
        assert [said in letter for said in cannot_tell] == [not tells and share >= 0.5, not tells and share < 0.5]
        assert letter.count(sure) == tells
        assert "36" not in letter, "it would read as a chance of a yes"
        assert (" in 100" in letter or " von 100 n" in letter) is tells
        refused = "most new versions of our model would then refuse" in letter or "lehnen die meisten neuen" in letter
        assert refused is (interval[1] < 0.5)
    assert sure not in " ".join(written(language, counterfactuals=[way(amount=15700)]).split()), "promises nothing"


@pytest.mark.parametrize(
    ("months", "said"),
    [(12.0, "12 months, to 2 March 2027"), (6.0, "6 months, to 2 September 2026"), (0.5, "15 days, to 17 March 2026"),
     (6.4, "192 days, to 10 September 2026"), (3.0, "3 months, to 2 June 2026")],
)  # fmt: skip
def test_the_day_that_is_named_is_that_on_which_the_time_named_ends(months: float, said: str) -> None:
    """Twelve months after 2 March, it is 2 March again, though the search counts 360 days.

    No more months of the calendar end by that day than the search has counted.
    """
    assert f"{said})" in " ".join(written(counterfactuals=[way(amount=15700, age=31, months=months)]).split())


@pytest.mark.parametrize(
    ("language", "said"), [("en", "birthday before we decide"), ("de", "vor unserer Entscheidung")]
)
def test_who_has_a_birthday_before_the_decision_reads_that_it_may_differ(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search rounds years down; that of a year from today is the first that it counts."""
    yes = {"factual": {"probability": 0.9, "score": 1.0, "favourable": True}, "counterfactuals": []}
    for features, counts in ((FEATURES, 1), ((*FEATURES[:4], replace(FEATURES[4], moves_with_time=None)), 0)):
        monkeypatch.setitem(notice.__globals__, "FEATURES", features)
        for one in (way(amount=15700, months=2.5), way(months=2.0, age=31)):
            letter = written(language, counterfactuals=[one])
            assert " ".join(letter.split()).count(said) == counts
        assert " ".join(written(language, reasons=None, **yes).split()).count(said) == counts


@pytest.mark.parametrize(
    ("language", "said"), [("en", "ask us again after your next birthday"), ("de", "nach Ihrem nächsten Geburtstag")]
)
def test_a_yes_that_only_an_age_makes_may_come_with_a_birthday(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    for values, alone in (({"age": 31}, True), ({"age": 31, "late": 3}, False)):
        waiting = way(months=12.0, **values) | {"changes": []}
        assert (said in " ".join(written(language, counterfactuals=[waiting]).split())) is alone
    assert said not in " ".join(written(language, counterfactuals=[way(months=12.0, amount=9, age=31)]).split())


@pytest.mark.parametrize(("language", "said"), [("en", "Tell us as soon as"), ("de", "Teilen Sie uns mit")])
def test_a_letter_says_once_when_to_come_back(language: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enough = way(amount=15700, guarantor=True)
    enough["steps"] = [{"feature": "guarantor", "favourable": True}, {"feature": "amount", "favourable": True}]
    for features in (FEATURES, (FEATURES[0], JOB, *FEATURES[2:])):
        monkeypatch.setitem(notice.__globals__, "FEATURES", features)
        letter = " ".join(written(language, counterfactuals=[enough]).split())
        assert letter.count(said) == 1
        for other in ("tell us then", "Melden Sie sich", "at the time assumed", "angenommene Zeit"):
            assert other not in letter, "nor is a time assumed where none is named"


def test_ways_that_differ_in_their_margin_only_are_one() -> None:
    for second, ways in (("guarantor", 1), ("late", 2)):
        found = [way(1, amount=15700, guarantor=True), way(2, **{second: True if ways == 1 else 0}, housing="owned")]
        for one, first in zip(found, ("guarantor", second), strict=True):
            other = next(change["feature"] for change in one["changes"] if change["feature"] != first)
            one["steps"] = [{"feature": first, "favourable": True}, {"feature": other, "favourable": True}]
        found[1]["changes"][1]["from"] = "rented"
        told = notice(shipped("general"), "en", counterfactuals=found)
        assert [one.number for one in told.ways] == [*range(1, ways + 1)]
        assert "amount" in told.ways[0].steps[1], "the surer one comes first"


@pytest.mark.parametrize(
    ("language", "said"), [("en", "changes that take more than 2 months"), ("de", "die mehr als 2 Monate dauern")]
)
def test_a_shorter_time_than_the_letter_s_is_a_limit(language: str, said: str) -> None:
    for horizon in (None, 2.0, 12.0):
        asked = {"timing": {"horizon_months": horizon}}
        for ways in ({}, {"counterfactuals": []}):
            assert (said in " ".join(written(language, asked=asked, **ways).split())) is (horizon == 2.0)


def test_what_a_database_reported_reads_as_the_same_value_elsewhere() -> None:
    """Not 72.7% there, and 73% in a step."""
    share = replace(FEATURES[0], type=FeatureType.CONTINUOUS, unit="%", decimals=0)
    facts = replace(facts_about([reason("amount", 51.0) | {"value": 72.7}], (share, *FEATURES[1:])),
                    applicant={**APPLICANT, "amount": 72.7}, reported=("amount",))  # fmt: skip
    templates = shipped("eu")
    letter = templates.text(notice_of(facts, templates.languages["en"], "eu", LENDER))
    assert letter.count("73%") == 2
    assert "72.7" not in letter
    assert "(figures rounded)" in letter
    assert "rounded" not in written(regime="eu", reported=("guarantor",)), "where there is no figure"


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("day", ["2026-01-31", "2026-02-14", "2026-11-26", "2027-12-01"])
def test_no_way_that_ends_in_time_is_said_to_end_after_the_letter(language: str, day: str) -> None:
    """Three months of the calendar are longer than the 90 days that a letter is valid."""
    start = date.fromisoformat(day)
    dates = {"created_at": f"{day}T09:00:00.000Z", "expires_at": f"{start + timedelta(days=90)}T09:00:00.000Z"}
    spans = {"day": 1, "Tag": 1, "week": 7, "Woche": 7}
    for months in (0.1, 0.5, 1.0, 1.9, 2.0, 2.2, 2.9, 3.0):
        templates = shipped("general")
        (told,) = notice(templates, language, counterfactuals=[way(amount=15700, months=months)], **dates).ways
        assert told.time is not None
        assert not told.late
        number, unit = told.time.split()[-2:]
        days = next((spans[one] for one in spans if unit.startswith(one)), 0) * int(number)
        later = start.month - 1 + int(number)
        end = start + timedelta(days=days) if days else start.replace(
            year=start.year + later // 12, month=later % 12 + 1, day=min(start.day, 28)
        )  # fmt: skip
        assert end <= start + timedelta(days=90)
        assert days == 0 or days >= months * 30 - 1e-6, "a way is not said to be shorter than it is"


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("most new versions of our model would then refuse your application: at most 13 in 100 accept it. They",
                "do not count on a new version of our model to accept your application. They",
                "at least 94 in 100 new versions of our model would then accept your application too (60 of the 60",
                "A new version of our model may refuse them. They are assessed without what you have not stated")),
        ("de", ("lehnen die meisten neuen Fassungen unseres Modells Ihren Antrag dann ab: Höchstens 13 von 100 nehmen",
                "rechnen Sie nicht damit, dass eine neue Fassung unseres Modells Ihren Antrag dann annimmt.",
                "nehmen mindestens 94 von 100 neuen Fassungen unseres Modells Ihren Antrag dann ebenfalls an (60 von",
                "Eine neue Fassung unseres Modells könnte sie ablehnen. Dabei fehlt, was Sie nicht angegeben haben")),
    ],
)  # fmt: skip
def test_other_terms_that_most_models_would_refuse_are_said_to_be(language: str, said: tuple[str, ...]) -> None:
    offer: dict[str, Any] = {"terms": {"amount": 9000}, "applicant": APPLICANT | {"amount": 9000}}
    known = {"models": 60, "source": "retrained", "records": "fresh"}
    futures = ((1 / 60, [0.0, 0.13]), (0.4, [0.2, 0.7]), (1.0, [0.941, 1.0]), None)
    for k, future in enumerate(futures):
        found = offer | {"future": future and known | {"probability": future[0], "interval": future[1]}}
        templates = shipped("general")
        told = notice(templates, language, states_offer=True, offer=found, counterfactuals=[])
        letter = " ".join(templates.text(told).split())
        assert [part in letter for part in said] == [k == one for one in range(len(said))]
        # An offer without a way has what its numbers rest on, too.
        assert ("like the 60 that we tried" in letter or "wie die 60 entstehen" in letter) is (k in (0, 2))
        assert "renew our model" in letter or "erneuern unser Modell" in letter


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_a_single_reason_is_no_list(language: str, regime: str) -> None:
    for reasons in (REASONS["reasons"][:1], REASONS["reasons"]):
        letter = " ".join(written(language, regime, reasons={**REASONS, "reasons": reasons}).split())
        several = len(reasons) > 1
        assert (". The most important of these comes first." in letter or "das Wichtigste zuerst" in letter) is several
        if regime == "us":
            assert ("These are the principal reasons:" in letter) is several
            assert ("This is the principal reason:" in letter) is not several


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_a_yes_of_the_model_is_no_decision_to_lend(language: str, regime: str) -> None:
    yes = {"probability": 0.9, "score": 1.0, "favourable": True}
    letter = " ".join(written(language, regime, reasons=None, counterfactuals=[], factual=yes).split())
    assert "not yet a decision to lend" in letter or "noch nicht entschieden" in letter
    assert "may refuse because of them" in letter or "können deshalb ablehnen" in letter


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_an_offer_of_less_than_the_stated_share_is_left_out(
    language: str, regime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A term far shorter than the one asked for is no help either, so that a term without a direction counts too."""
    templates = Templates.read(regime, None, language)
    for better, amount, stated in ((Better.MORE, 8320, True), (Better.MORE, 8300, False), (None, 8300, False),
                                   (Better.LESS, 8300, True)):  # 40 % of 20,800 is 8,320  # fmt: skip
        terms = (replace(FEATURES[0], terms=True, better=better), *FEATURES[1:])
        monkeypatch.setitem(notice.__globals__, "FEATURES", terms)
        offer = {"terms": {"amount": amount}, "applicant": APPLICANT | {"amount": amount}}
        told = notice(templates, language, states_offer=True, offer=offer)
        assert bool(told.offer) is stated
        assert (("Other terms" if language == "en" else "Andere Bedingungen") in templates.text(told)) is stated


@pytest.mark.parametrize(("language", "regime"), REGIMES)
def test_a_letter_says_which_application_it_is_about(
    language: str, regime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(notice.__globals__, "FEATURES", (replace(FEATURES[0], terms=True), *FEATURES[1:]))
    said = {"en": ("Application of 1 March 2026", "Loan amount: 20,800 EUR"),
            "de": ("Antrag vom 1. März 2026", "Kreditbetrag: 20.800 EUR")}  # fmt: skip
    on, amount = said[language]
    letter = " ".join(written(language, regime, applied_on=date(2026, 3, 1)).split())
    assert f"{spelt(on) if regime == 'us' else on}; {amount} " in letter
    assert on not in written(language, regime)
    assert amount in " ".join(written(language, regime).split())


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "in whole or in part on information from this database: Bureau, 0800 1. It reported the following "
               "about you (figures rounded): Loan amount: 20,800 EUR · Guarantor: no. It had no information on: Late "
               "payments · Housing; that, too, went into the assessment."),
        ("de", "ganz oder teilweise auf Angaben aus dieser Datenbank: Bureau, 0800 1. Sie hat über Sie Folgendes "
               "gemeldet (Zahlen gerundet): Kreditbetrag: 20.800 EUR · Bürgschaft: nein. Keine Angaben hatte sie zu: "
               "Verspätungen · Wohnen; auch das hat die Bewertung beeinflusst."),
    ],
)  # fmt: skip
def test_a_letter_of_the_union_says_what_a_database_reported(language: str, said: str) -> None:
    both = ("amount", "late", "guarantor", "housing")
    assert said in " ".join(written(language, "eu", reported=both).split())
    unknown = " ".join(written(language, "eu", reported=("late",)).split())
    asked = ("We asked this database about you: Bureau, 0800 1. It had no",
             "Wir haben bei dieser Datenbank nach Ihnen gefragt: Bureau, 0800 1. Keine Angaben hatte")  # fmt: skip
    assert any(one in unknown for one in asked)
    assert "in whole or in part" not in unknown
    assert "ganz oder teilweise" not in unknown
    assert said not in " ".join(written(language, "eu").split())
    yes = {"factual": {"probability": 0.9, "score": 1.0, "favourable": True}, "counterfactuals": [], "reasons": None}
    assert said not in " ".join(written(language, "eu", reported=both, **yes).split())


def test_a_reason_against_the_stated_direction_is_compared_without_being_called_too_low() -> None:
    """Owing less than is usual counts against someone whose income is low."""
    debts = replace(FEATURES[0], change=Change.DECREASE)
    facts = facts_about([reason("amount", 23000.0) | {"direction": "too_low"}], (debts,))
    templates = shipped("general")
    told = notice_of(facts, templates.languages["en"], "general", LENDER)
    assert told.reasons[0].text == "Loan amount: 20,800 EUR"
    assert "(usual among them: 23,000 EUR; all the same, yours counts" in " ".join(templates.text(told).split())
    unsure = facts_about([reason("amount", 23000.0) | {"direction": None}], (debts,))
    assert notice_of(unsure, templates.languages["en"], "general", LENDER).reasons == told.reasons


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_stress_names_what_no_letter_names(language: str) -> None:
    one = way(amount=15700, share=1.0)
    for column, named in (("age", False), ("late", True)):
        for limit in (1.0, None):
            one["validity"]["future"]["stressed"] = {
                "holds_up_to": limit, "column": column, "direction": "up", "lowest": 0.75, "models": 12,
                "curve": [{"strength": 1.0, "share": 0.75}],
            }  # fmt: skip
            letter = " ".join(written(language, counterfactuals=[one]).split())
            assert ("we name if you ask" in letter or "wir Ihnen auf Nachfrage nennen" in letter) is not named
            assert "age”" not in letter
            assert "age“" not in letter


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", ("do not count on a yes from", "may refuse your application after", "most of the few versions")),
     ("de", ("rechnen Sie nicht mit dem Ja", "vielleicht doch ab", "meisten der wenigen"))],
)  # fmt: skip
def test_models_under_stress_are_not_counted(language: str, said: tuple[str, str, str]) -> None:
    """The 12 are of all strengths together: of the strongest alone, 0 of 4 may accept."""
    one = way(amount=15700, share=1.0)
    curve = [{"strength": at, "share": 0.75} for at in (0.0, 0.25, 0.5, 1.0)]
    for limit, expected in zip((None, 0.5, 1.0), said, strict=True):
        one["validity"]["future"]["stressed"] = {
            "holds_up_to": limit, "column": "late", "direction": "up", "lowest": 0.75, "strength": 1.0, "models": 12,
            "curve": curve,
        }  # fmt: skip
        letter = " ".join(written(language, counterfactuals=[one]).split())
        assert [part in letter for part in said] == [part == expected for part in said]
        assert "12" not in letter[letter.index("94 in 100" if language == "en" else "94 von 100") :]


@pytest.mark.parametrize(
    ("language", "day", "enough"),
    [("en", "for 2 April 2026 to 1 May 2026, provided that on the day we decide this is so: Late payments: 2. On",
      "On the days named, the"),
     ("de", "vom 2. April 2026 bis zum 1. Mai 2026, sofern am Tag unserer Entscheidung gilt: Verspätungen: 2. An",
      "An den genannten Tagen")],
)  # fmt: skip
def test_a_yes_that_depends_on_the_day_names_it(
    language: str, day: str, enough: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no month is full by then; and no other day is said to be early enough."""
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    monkeypatch.setitem(APPLICANT, "late", 2)
    one = way(amount=15700, guarantor=True, months=1.0)
    one["steps"] = [{"feature": "guarantor", "favourable": True}, {"feature": "amount", "favourable": True}]
    letter = " ".join(written(language, reasons=None, counterfactuals=[one]).split())
    assert day in letter
    assert enough in letter
    assert letter.count("30 May 2026") + letter.count("30. Mai 2026") == 0
    tight = " ".join(written(language, counterfactuals=[one | {"takes_months": 2.9}]).split())
    assert "30 May 2026)" in tight or "30. Mai 2026)" in tight, "until when the letter is valid"
    for months, ways in ((1.0, 1), (2.0, 2)):
        told = notice(shipped("general"), language, counterfactuals=[one, one | {"takes_months": months}])
        assert len(told.ways) == ways, "another day is no margin"


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_value_to_state_comes_first_and_is_no_margin(language: str) -> None:
    """The model may refuse another value, even where the steps before it are enough without one."""
    for first in ("amount", "housing", None):
        one = way(amount=15700, housing="owned")
        second = "housing" if first == "amount" else "amount"
        one["steps"] = [{"feature": first or "amount", "favourable": bool(first)},
                        {"feature": second if first else "housing", "favourable": True}]  # fmt: skip
        (told,) = notice(shipped("general"), language, counterfactuals=[one]).ways
        assert tuple("ousing" in step or "Wohnen" in step for step in told.steps) == (True, False)
        assert told.enough is None


@pytest.mark.parametrize(("language", "once"), [("en", "at least 94 in 100"), ("de", "mindestens 94 von 100")])
def test_ways_that_differ_in_how_far_they_hold_share_what_is_promised(language: str, once: str) -> None:
    ways = [way(1, amount=15700, share=1.0), way(2, guarantor=True, share=1.0)]
    for one, column in zip(ways, ("late", "amount"), strict=True):
        one["validity"]["future"]["stressed"] = {
            "holds_up_to": None, "column": column, "direction": "up", "lowest": 0.75, "models": 12,
            "curve": [{"strength": 1.0, "share": 0.75}],
        }  # fmt: skip
    templates = shipped("general")
    told = notice(templates, language, counterfactuals=ways)
    letter = " ".join(templates.text(told).split())
    assert told.alike is not None
    assert letter.count(once) == 1
    assert letter.index(once) < letter.index("Way 1" if language == "en" else "Weg 1")
    for one in told.ways:
        assert one.promise is not None
        assert one.promise in letter
    assert told.ways[0].promise != told.ways[1].promise


@pytest.mark.parametrize(
    ("language", "birthday", "passing", "until"),
    [("en", "birthday", "apart from the time that passes", "30 May 2026"),
     ("de", "Geburtstag", "außer dass", "30. Mai 2026")],
)  # fmt: skip
def test_a_yes_that_lasts_names_no_days_but_the_last_and_no_birthday(
    language: str, birthday: str, passing: str, until: str
) -> None:
    """Time makes the age one more; the model has accepted that, too."""
    older = way(amount=15700, months=2.0) | {"lasts": True}
    older["applicant"]["age"] += 1
    other = way(2, guarantor=True) | {"lasts": True}
    said = " ".join(written(language, counterfactuals=[older, other]).split())
    assert birthday not in said
    assert passing in said
    assert until in said
    assert "2 May" not in said
    assert "2. Mai" not in said
    for one in ({"lasts": False}, {"lasts": None}, {}):
        without = {key: value for key, value in other.items() if key != "lasts"}
        assert birthday in written(language, counterfactuals=[older, without | one])
    late = way(2, months=8.0, amount=9000)
    assert birthday not in written(language, counterfactuals=[older, late]), "which is not promised"
    assert birthday in written(language, counterfactuals=[late])
    templates = shipped("general")
    for lasts in (False, True):
        offer = {"terms": {"amount": 15000}, "applicant": APPLICANT | {"amount": 15000}, "lasts": lasts}
        told = notice(templates, language, states_offer=True, counterfactuals=[older], offer=offer)
        assert bool(told.offer) is lasts, "beside a way that lasts, terms last"
        assert birthday not in templates.text(told)
        alone = notice(templates, language, states_offer=True, counterfactuals=[], offer=offer)
        assert (birthday in templates.text(alone)) is not lasts
