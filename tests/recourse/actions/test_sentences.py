"""Sentences about changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recourse.actions.phrases import Phrases
from app.recourse.actions.sentences import FeatureChange, change_text, changes, months_text
from app.recourse.actions.timing import Clock
from app.recourse.features import MISSING, Feature, FeatureType, Missing, MovesWithTime, Sentence, Takes, Words

CONTINUOUS, INTEGER = FeatureType.CONTINUOUS, FeatureType.INTEGER


def sentence(feature: Feature, before_raw: float, after_raw: float) -> str:
    (change,) = listed([feature], [before_raw], [after_raw])
    return change.text


def listed(features: list[Feature], before_raw: list[float], after_raw: list[float]) -> tuple[FeatureChange, ...]:
    before = np.array(before_raw, dtype=float)
    return changes(features, before, np.array(after_raw, dtype=float), Clock(features, before))


@pytest.mark.parametrize(
    ("feature", "before_raw", "after_raw", "expected"),
    [
        (
            Feature(name="amount", type=INTEGER, label="Credit amount", unit="DM"), 5951, 2100,
            "Reduce the credit amount from 5,951 DM to 2,100 DM.",
        ),
        (Feature(name="months", type=INTEGER, unit="months"), 1, 12, "Increase the months from 1 month to 12 months."),
        (
            Feature(name="amount", type=INTEGER, action="Pay back"), 5000, 4000,
            "Pay back the amount from 5,000 to 4,000.",
        ),
        (Feature(name="debt_ratio", type=CONTINUOUS), 0.30000000000000004, 0.1,
         "Reduce the debt ratio from 0.3 to 0.1."),
        (Feature(name="r", type=CONTINUOUS, label="LTV ratio", unit="%", decimals=1), 92.5, 80,
         "Reduce the LTV ratio from 92.5% to 80%."),
        (Feature(name="balance", type=CONTINUOUS, unit="€", decimals=2), -12.5, 1000,
         "Increase the balance from -€12.50 to €1,000.00."),
        (Feature(name="x", type=CONTINUOUS), 1234567.5, 1, "Reduce the x from 1,234,568 to 1."),
        (Feature(name="x", type=CONTINUOUS), 1e300, 0, "Reduce the x from 1e+300 to 0."),
        (
            Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rent", "own")), 0, 1,
            "Change the housing from rent to own.",
        ),
        (
            Feature(name="education", type=FeatureType.ORDINAL, categories=("primary", "secondary")), 1, 0,
            "Change the education from secondary to primary.",
        ),
        (
            Feature(name="job", type=FeatureType.ORDINAL, categories=("short", "1 to 3 years"), action="Extend"), 0, 1,
            'Extend the job from "short" to "1 to 3 years".',
        ),
        (Feature(name="guarantor", type=FeatureType.BINARY), 0, 1, "Change the guarantor from no to yes."),
    ],
)  # fmt: skip
def test_reads_like_a_sentence(feature: Feature, before_raw: float, after_raw: float, expected: str) -> None:
    assert sentence(feature, before_raw, after_raw) == expected


def test_the_manifests_own_sentences_by_direction_level_and_else() -> None:
    words = Sentence(any="Change it: {from}, then {to}", increase="Get more than {from}", to={"high": "Be at the top!"})
    level = Feature(name="x", type=FeatureType.ORDINAL, categories=("low", "so so", "high"), sentence=words)
    assert [sentence(level, *pair) for pair in ((0, 1), (0, 2), (1, 0))] == [
        "Get more than low.", "Be at the top!", "Change it: so so, then low.",
    ]  # fmt: skip
    number = Feature(name="debt", type=INTEGER, label="Debts", unit="EUR", sentence=Sentence(decrease="{Name} to {to}"))
    assert sentence(number, 1500, 1000) == "Debts to 1,000 EUR."
    assert sentence(number, 1000, 1500) == "Increase the debts from 1,000 EUR to 1,500 EUR."


def test_levels_have_the_names_that_people_know() -> None:
    names = {"A11": "below 0 DM", "A12": "above"}
    feature = Feature(name="account", type=FeatureType.CATEGORICAL, categories=("A11", "A12"), level_names=names)
    assert sentence(feature, 0, 1) == 'Change the account from "below 0 DM" to "above".'


def test_another_language_has_its_own_words_and_numbers() -> None:
    german = Words(label="Schulden", unit="Euro", sentence=Sentence(decrease="Auf {to} senken"))
    feature = Feature(name="debt", type=INTEGER, label="Debts", unit="EUR", action="Repay", words={"de": german})
    phrases = Phrases(decimal=",", group=".", increase="{Name}: {from} - {to}.")
    assert change_text(feature.in_language("de"), 1500, 1000, phrases) == "Auf 1.000 Euro senken."
    assert change_text(feature.in_language("de"), 1000, 1500, phrases) == "Schulden: 1.000 Euro - 1.500 Euro."
    # Without words in a language the label stays; sentences and verbs of another one do not.
    assert change_text(feature.in_language("fr"), 1000, 1500, phrases) == "Debts: 1.000 EUR - 1.500 EUR."


def test_rounding_for_the_eye_never_hides_a_change() -> None:
    feature = Feature(name="rate", type=CONTINUOUS, decimals=1)
    assert sentence(feature, 2.34, 2.3) == "Reduce the rate from 2.34 to 2.3."


@pytest.mark.parametrize(
    ("number", "said"),
    [(99.5, "99.5%"), (99.97, "99.97%"), (100.0, "100%"), (0.4, "0.4%"), (0.0, "0%"), (82.6, "83%")],
)
def test_a_share_is_rounded_neither_to_all_nor_to_nothing(number: float, said: str) -> None:
    feature = Feature(name="limits in use", type=CONTINUOUS, unit="%", decimals=0)
    assert (
        sentence(feature, 50.0, number)
        == f"{'Increase' if number > 50.0 else 'Reduce'} the limits in use from 50% to {said}."
    )


def test_lists_only_what_differs_in_schema_order_with_exact_values() -> None:
    features = [
        Feature(name="a", type=CONTINUOUS),
        Feature(name="b", type=INTEGER, unit="months"),
        Feature(name="c", type=FeatureType.CATEGORICAL, categories=("x", "y")),
    ]
    found = listed(features, [0.3, 5.0, 0.0], [0.1, 5.0, 1.0])
    assert [(c.feature, c.from_, c.to, c.delta, c.unit) for c in found] == [
        ("a", 0.3, 0.1, -0.2, None),
        ("c", "x", "y", None, None),
    ]


def test_what_time_does_is_no_advice_and_what_is_protected_has_no_name() -> None:
    yearly = MovesWithTime(per_year=1)
    features = [
        Feature(name="age", type=INTEGER, unit="years", moves_with_time=yearly),
        Feature(name="seniority", type=INTEGER, moves_with_time=yearly, protected=True),
        Feature(name="origin", type=FeatureType.CATEGORICAL, categories=("here", "there"), protected=True),
        Feature(name="education", type=FeatureType.ORDINAL, categories=("low", "high"), takes=Takes(months=14)),
    ]
    found = listed(features, [30, 5, 0, 0], [31, 6, 1, 1])
    assert [change.text for change in found] == [
        "A protected attribute is different.",
        "Change the education from low to high.",
        "In 14 months the age is 31 years.",
    ]
    assert [change.takes_months for change in found] == [0, 14, 12]
    assert [change.by_time for change in found] == [False, False, True]
    assert [months_text(months) for months in (1, 0.26, 2.957, 12)] == [
        "1 month", "0.3 months", "3 months", "12 months",
    ]  # fmt: skip


def test_what_goes_against_time_takes_no_time_and_is_not_what_time_does() -> None:
    yearly = MovesWithTime(per_year=1)
    features = [
        Feature(name="age", type=INTEGER, unit="years", moves_with_time=yearly, missing=Missing.NAN),
        Feature(name="left", type=INTEGER, unit="years", moves_with_time=MovesWithTime(per_year=-1), protected=True),
    ]
    for age, text in ((20, "Reduce the age from 29 years to 20 years."), (MISSING, None)):
        found = listed(features, [29, 5], [age, 6])
        assert [(change.takes_months, change.by_time) for change in found] == [(0, False), (0, False)]
        assert text in (None, found[0].text)
        assert found[1].text == "A protected attribute is different."


@pytest.mark.parametrize(
    ("months", "expected"),
    [(1.95, "In 1.9 months the time is 31 months."), (2.0, "In 2 months the time is 32 months."),
     (3.35, "In 3.3 months the time is 33 months.")],
)  # fmt: skip
def test_what_time_does_is_so_after_the_months_that_are_said(months: float, expected: str) -> None:
    time = Feature(name="time", type=INTEGER, unit="months", moves_with_time=MovesWithTime(per_year=12))
    paid = Feature(name="used", type=INTEGER, takes=Takes(months_per_unit=0.05))
    before = np.array([30.0, 87.0])
    clock = Clock([time, paid], before)
    after = clock.settled(np.array([[30.0, 87.0 - months / 0.05]]))
    assert clock.total(after)[0] == pytest.approx(months)
    assert changes([time, paid], before, after[0], clock)[-1].text == expected
    said = float(expected.split()[1])
    assert 30 + int(said) == after[0, 0], "what the record holds after the months that are said"


@given(
    before_raw=st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != MISSING),
    after_raw=st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != MISSING),
    decimals=st.none() | st.integers(0, 9),
    unit=st.sampled_from([None, "%", "$", "months", "DM"]),
)
def test_every_pair_of_numbers_has_a_sentence_that_shows_a_change(
    before_raw: float, after_raw: float, decimals: int | None, unit: str | None
) -> None:
    feature = Feature(name="x", type=CONTINUOUS, decimals=decimals, unit=unit)
    found = listed([feature], [before_raw], [after_raw])
    if before_raw == after_raw:
        assert found == ()
        return
    before_text, after_text = found[0].text.removesuffix(".").split(" from ")[1].split(" to ")
    assert len(found[0].text) < 100
    assert before_text != after_text or "e" in before_text
