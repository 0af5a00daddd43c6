"""What a letter says of the limits of what it says, in every language and regime that ships."""

import re
from dataclasses import replace
from typing import Any

import pytest

from app.letters.regime import SHIPPED
from tests.letters.test_letter import APPLICANT, FEATURES, JOB, LATE, REASONS, notice, reason, shipped, way, written

LIMITS = {
    "en": {
        **dict.fromkeys(("stay", "lowered"), "If future applicants are like today's, at least"),
        **dict.fromkeys(("few", "doubtful", "minority", "at_most", "unknown"), "Even if future applicants are like"),
        "same": "from the same records",
        "measured": "count on no more, even if",
        "holds": "most of the few versions trained for such changes still accept your application; other changes may",
        "holds_partly": "may refuse",
        "holds_not": "do not count on",
    },
    "de": {
        **dict.fromkeys(("stay", "lowered"), "Wenn künftige Antragsteller so sind wie die heutigen, nehmen mindestens"),
        **dict.fromkeys(("few", "doubtful", "minority", "at_most", "unknown"), "Selbst wenn künftige Antragsteller so"),
        "same": "aus denselben Daten",
        "measured": "mit mehr ist nicht zu rechnen, auch wenn",
        "holds": "meisten der wenigen dafür trainierten Fassungen Ihren Antrag noch an; bei anderen Änderungen viell",
        "holds_partly": "vielleicht doch ab",
        "holds_not": "rechnen Sie nicht mit",
    },
}
"""By language and sentence, how it limits what it promises."""


def letter_of(language: str, regime: str = "general", **changes: Any) -> str:
    return " ".join(written(language, regime, **changes).split())


@pytest.mark.parametrize("regime", sorted({regime for _, regime in LATE}))
def test_each_promise_has_its_limit_in_every_language(regime: str) -> None:
    for tag, language in shipped(regime).languages.items():
        for name, limit in LIMITS[tag].items():
            assert limit in getattr(language.promise, name), f"{name} in {tag}"


def enough_of(months: float, **values: Any) -> dict[str, Any]:
    """A way whose first step is enough."""
    first, second = values
    steps = [{"feature": first, "favourable": True}, {"feature": second, "favourable": True}]
    return way(months=months, **values) | {"steps": steps}


@pytest.mark.parametrize(("language", "regime"), LATE)
def test_who_has_done_what_is_enough_by_the_last_day_reads_what_happens(language: str, regime: str) -> None:
    letter = letter_of(language, regime, counterfactuals=[enough_of(6.0, guarantor=True, amount=15700)])
    for said in {
        "en": ("so we do not promise this yes: if the steps that are enough (which may take longer, too) are done by",
               "then, tell us, with proof, and we decide anew; otherwise apply again once all is done, with proof."),
        "de": ("(auch sie können länger dauern), melden Sie sich mit Nachweis, und wir entscheiden neu. Sonst stellen",
               "ein Ja sagen wir deshalb nicht zu: Sind bis dahin"),
    }[language]:  # fmt: skip
        assert said in letter


@pytest.mark.parametrize(("language", "regime"), LATE)
def test_rights_about_a_decision_wait_for_it(language: str, regime: str) -> None:
    yes = {"factual": {"probability": 0.9, "score": 1.0, "favourable": True}, "counterfactuals": []}
    once = {"en": "holds once we have decided", "de": "gilt, sobald wir entschieden haben"}[language]
    of_it = {
        "en": ("contest the decision", "look at the decision"),
        "de": ("Entscheidung schriftlich", "die Entscheid"),
    }
    letter = letter_of(language, regime, reasons=None, **yes)
    assert (once in letter) is any(said in letter for said in of_it[language])
    assert once not in letter_of(language, regime)


@pytest.mark.parametrize(
    ("language", "may_refuse", "milder"),
    [("en", "may well refuse your application then.", "cannot promise that a new"),
     ("de", "ist gut möglich, dass eine neue Fassung unseres Modells Ihren Antrag dann ablehnt.", "nicht zusagen")],
)  # fmt: skip
def test_an_expected_share_below_four_fifths_is_no_routine(language: str, may_refuse: str, milder: str) -> None:
    for share in (0.5, 0.79, 0.8, 0.93):
        one = way(amount=15700, share=share)
        one["validity"]["future"]["interval"] = [0.2, 0.97]
        letter = letter_of(language, counterfactuals=[one])
        assert (may_refuse in letter, milder in letter) == (share < 0.8, share >= 0.8)


@pytest.mark.parametrize(
    ("language", "said"), [("en", "is not promised for any"), ("de", "annimmt, sagen wir für keinen zu")]
)
def test_no_new_version_is_promised_for_a_value_to_state(language: str, said: str) -> None:
    assert said in letter_of(language, counterfactuals=[way(share=1.0, housing="owned")])


@pytest.mark.parametrize(
    ("language", "own", "birthday"),
    [("en", "assumed of that day: your age then", "birthday"),
     ("de", "angenommen für diesen Tag: Ihr Alter dann", "Geburtstag")],
)  # fmt: skip
def test_birthdays_that_are_counted_are_no_reservation(language: str, own: str, birthday: str) -> None:
    for months, counted in ((24.0, True), (6.0, False)):
        late = way(months=months, amount=15700, age=32 if counted else 30)
        letter = letter_of(language, counterfactuals=[late])
        assert (own in letter, birthday in letter) == (counted, not counted)
        both = letter_of(language, counterfactuals=[late, way(2, guarantor=True)])
        assert (own in both, birthday in both) == (counted, True)


@pytest.mark.parametrize(
    ("language", "long", "apart"),
    [("en", "longer (about 24 months) and that would lead", ", apart from the time"),
     ("de", "dauern (etwa 24 Monate). Sie würden", ", außer dass bis")],
)  # fmt: skip
def test_more_time_is_no_other_change_and_is_said(language: str, long: str, apart: str) -> None:
    relax = {"constraint": "horizon_months", "feature": None, "sufficient": True}
    for known in ({}, {"takes_months": 24.0}):  # answers of earlier releases have none
        letter = letter_of(language, counterfactuals=[], relax=relax | known)
        assert apart in letter
        assert (long in letter) is bool(known)
        assert "We do not promise that yes" in letter or "Dieses Ja sagen wir nicht zu" in letter
        # What today's model accepts sooner, too few new versions accept.
        some = letter_of(language, counterfactuals=[], relax=relax | known, nearest={"favourable": True})
        asked = "model and from as many of the new" if language == "en" else "Modells und so vieler der neuen"
        assert (asked in some, asked in letter) == (True, False)


@pytest.mark.parametrize(("language", "said"), [("en", "loan applied for"), ("de", "einen Kredit (auch diesen)")])
def test_money_that_is_spent_matters_where_a_loan_is_applied_for(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for terms in (True, False):
        monkeypatch.setitem(notice.__globals__, "FEATURES", (replace(FEATURES[0], terms=terms), *FEATURES[1:]))
        assert (said in letter_of(language, counterfactuals=[way(guarantor=True)])) is terms


@pytest.mark.parametrize(
    ("language", "said"), [("en", "days named for your way"), ("de", "der für Ihren Weg genannten Tage")]
)
def test_who_may_choose_reads_that_the_days_are_those_of_the_way(
    language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    ways = [way(1, months=1.0, amount=15700), way(2, months=2.0, guarantor=True)]
    assert said in letter_of(language, reasons=None, counterfactuals=ways)
    assert said not in letter_of(language, reasons=None, counterfactuals=ways[:1])


@pytest.mark.parametrize(("language", "said"), [("en", "not stated (Housing)"), ("de", "angegeben haben (Wohnen)")])
def test_a_way_without_a_value_of_the_application_says_so(language: str, said: str) -> None:
    """What the bureau did not know is said elsewhere."""
    worse = {"en": "the result may be better or worse", "de": "Das Ergebnis kann besser oder schlechter sein"}[language]
    for reported in ((), ("housing",)):
        letter = letter_of(language, counterfactuals=[way(guarantor=True)], reported=reported)
        assert (said in letter, worse in letter) == (not reported, not reported)
        both = letter_of(language, counterfactuals=[way(guarantor=True), way(2, amount=15700)], reported=reported)
        assert both.count(said) == (not reported), "once of several"


@pytest.mark.parametrize(("language", "regime"), LATE)
def test_a_small_reason_that_others_have_too_stands_alone_or_where_the_law_wants_it(language: str, regime: str) -> None:
    small, large = reason("guarantor", False) | {"share": 0.09}, reason("guarantor", False) | {"share": 0.1}
    for reasons, said in (([reason("amount", 7680.0), small], regime == "us"), ([small], True),
                          ([reason("amount", 7680.0), large], True)):  # fmt: skip
        told = notice(shipped(regime), language, reasons={**REASONS, "reasons": reasons})
        assert any("Guarantor" in one.text or "Bürgschaft" in one.text for one in told.reasons) is said
    ranked = [reason("amount", 7680.0), small, reason("late", 0.9) | {"share": 0.08}]
    told = notice(shipped(regime), language, reasons={**REASONS, "reasons": ranked})
    assert len(told.reasons) == (3 if regime == "us" else 1), "none follows of which one that counted more is left out"


def test_no_sentence_is_glued_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a template that ends with a tag loses its end, unless the tag keeps it."""
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    monkeypatch.setitem(APPLICANT, "late", 2)
    for language, regime in LATE:
        letter = letter_of(language, regime, counterfactuals=[way(share=1.0, housing="owned")])
        assert "differ. The yes holds" in letter or "anders sein. Das Ja gilt" in letter
    for file in SHIPPED.iterdir():
        if file.name.endswith(".txt") and file.name != "_letter.txt":
            for line in file.read_text().splitlines():
                assert not re.search(r"[^}]\{% (endif|endfor) %\}$", line), f"{file.name}: {line}"


@pytest.mark.parametrize("language", sorted(LIMITS))
def test_every_language_fills_every_sentence(language: str) -> None:
    base, filled = ((SHIPPED / name).read_text() for name in ("_letter.txt", f"_letter.{language}.txt"))
    blocks, own = (set(re.findall(r"{% block (\w+)", text)) for text in (base, filled))
    assert blocks - own == {"notices"}, "which only some regimes have"


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_a_step_makes_known_is_not_missing(language: str) -> None:
    """Such as a share of an income that the applicant states."""
    without = {"en": "not stated (Housing)", "de": "angegeben haben (Wohnen)"}[language]
    one = way(guarantor=True)
    assert without in letter_of(language, counterfactuals=[one])
    one["applicant"]["housing"] = "owned"
    assert without not in letter_of(language, counterfactuals=[one])


@pytest.mark.parametrize("language", ["en", "de"])
def test_an_offer_that_is_not_printed_takes_nothing_from_a_way_that_lasts(language: str) -> None:
    """It is too small to be printed."""
    birthday = {"en": "birthday", "de": "Geburtstag"}[language]
    small = {"terms": {"amount": 100}, "applicant": APPLICANT | {"amount": 100}, "lasts": False}
    told = notice(shipped("general"), language, states_offer=True, offer=small,
                  counterfactuals=[way(guarantor=True) | {"lasts": True}])  # fmt: skip
    assert told.offer == ()
    assert birthday not in shipped("general").text(told)


@pytest.mark.parametrize(("language", "said"), [("en", "only some of the steps"), ("de", "nur einen Teil umsetzen")])
def test_a_part_of_a_margin_is_asked_about_first(language: str, said: str) -> None:
    """The model has not accepted every part of it."""
    for enough in (1, 2, 3):
        one = way(amount=15700, guarantor=True, late=0)
        one["steps"] = [{"feature": name, "favourable": k >= enough, "score": 0.1}
                        for k, name in enumerate(("amount", "guarantor", "late"), start=1)]  # fmt: skip
        assert (said in letter_of(language, counterfactuals=[one])) is (enough == 1)


def long_way(favourable_from: int, rank: int = 1, **values: Any) -> dict[str, Any]:
    """A way of seven changes, of which the first `favourable_from` are enough."""
    one = way(rank, months=5.0, **(dict.fromkeys(FURTHER, 1) | {"amount": 15700, "guarantor": True} | values))
    order = ["amount", "guarantor", *FURTHER]
    one["changes"] = [change | {"takes_months": float(k)} for k, change in enumerate(one["changes"])]
    one["steps"] = [
        {"feature": name, "favourable": number >= favourable_from, "probability": 0.7 + number / 50, "score": number}
        for number, name in enumerate(order, start=1)
    ]
    return one | {"lasts": True}


FURTHER = ("f1", "f2", "f3", "f4", "f5")
"""Features that are changed as a margin."""


@pytest.mark.parametrize(
    ("language", "promise", "too_many"),
    [("en", "it is not known whether a new version", "more than we advise at the same time"),
     ("de", "ist nicht bekannt, ob eine neue Fassung", "mehr sind, als wir zugleich raten")],
)  # fmt: skip
def test_a_way_that_is_too_long_is_stated_without_its_margin(
    language: str, promise: str, too_many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        notice.__globals__, "FEATURES", (*FEATURES, *(replace(FEATURES[0], name=name) for name in FURTHER))
    )
    for name in FURTHER:
        monkeypatch.setitem(APPLICANT, name, 0)
    for enough in (2, 6):
        found = [long_way(enough), long_way(enough, 2, f5=2), long_way(enough, 3, amount=15600)]
        letter = letter_of(language, counterfactuals=found)
        assert (too_many in letter) is (enough == 6)
        told = notice(shipped("general"), language, counterfactuals=found)
        if enough == 2:  # the second way differs from the first in its margin only
            assert [(len(one.steps), one.enough, one.rating) for one in told.ways] == [(2, None, "74")] * 2
            assert promise in letter
        ends = notice(shipped("general"), language, counterfactuals=[found[0] | {"lasts": False}])
        assert bool(ends.ways) is False


@pytest.mark.parametrize(
    ("language", "flat", "lower"),
    [("en", "(margin; it does not change the rating)", "(margin; it lowers the rating)"),
     ("de", "(Vorsorge; ändert nicht die Bewertung)", "(Vorsorge; senkt die Bewertung)")],
)  # fmt: skip
def test_a_margin_that_raises_no_rating_says_so(language: str, flat: str, lower: str) -> None:
    for score, said in ((1.1, None), (1.0, flat), (0.9, lower), (None, None)):
        one = way(amount=15700, guarantor=True)
        one["steps"] = [{"feature": "amount", "favourable": True, "score": 1.0},
                        {"feature": "guarantor", "favourable": True, "score": score}]  # fmt: skip
        letter = letter_of(language, counterfactuals=[one])
        assert [text for text in (flat, lower) if text in letter] == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("language", "condition"),
    [("en", "If nothing else in your application changes, such as by a birthday, today's model says no"),
     ("de", "Wenn sich sonst nichts an Ihrem Antrag ändert, auch nicht durch einen Geburtstag, sagt das")],
)  # fmt: skip
def test_that_all_is_refused_has_its_condition(language: str, condition: str) -> None:
    assert condition in letter_of(
        language, counterfactuals=[], precluded={"status": "proven"}, nearest={"favourable": False}
    )


@pytest.mark.parametrize(
    ("language", "said"), [("en", "what is said of new versions"), ("de", "Aussagen zu neuen Fassungen")]
)
def test_a_letter_without_future_models_points_to_nothing_said_of_them(language: str, said: str) -> None:
    for share in (None, 1.0):
        one = way(amount=15700, guarantor=True, share=share)
        one["steps"] = [{"feature": name, "favourable": True} for name in ("amount", "guarantor")]
        for found in ([one], [one, one]):
            assert (said in letter_of(language, counterfactuals=found)) is (share is not None)


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "It is assessed without what you have not stated (Housing)"),
     ("de", "Dabei fehlt, was Sie nicht angegeben haben (Wohnen)")],
)  # fmt: skip
def test_a_yes_without_what_is_missing_says_so(language: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    favourable = {"probability": 0.9, "score": 1.0, "favourable": True}
    for housing, missing in ((None, True), ("rented", False)):
        monkeypatch.setitem(APPLICANT, "housing", housing)
        letter = letter_of(language, reasons=None, counterfactuals=[], factual=favourable)
        assert (said in letter) is missing


@pytest.mark.parametrize(
    ("language", "apart"),
    [("en", "apart from the time that passes until then (only on way 1), each"),
     ("de", "außer dass bis dahin Zeit vergeht (nur auf Weg 1), nimmt")],
)  # fmt: skip
def test_time_may_pass_only_where_the_model_was_asked_about_it(language: str, apart: str) -> None:
    soon = way(1, amount=15700, months=1.0) | {"lasts": True}
    late = way(2, guarantor=True, months=4.0) | {"lasts": None}
    assert apart in letter_of(language, counterfactuals=[soon, late])


@pytest.mark.parametrize(
    ("language", "said"), [("en", "more than one change at once. With such changes, there may be other ways"),
                           ("de", "mehr als eine Änderung zugleich. Damit könnte es weitere Wege geben")],
)  # fmt: skip
def test_what_a_search_left_out_is_said_of_ways_that_are_too_long(language: str, said: str) -> None:
    one = way(amount=15700)
    found = [one | {"changes": one["changes"] * 7}]
    assert said in letter_of(language, counterfactuals=found, asked={"constraints": {"max_changes": 1}})
