"""Reasons in words."""

from dataclasses import replace

import numpy as np
import pytest

from app.recourse.features import MISSING, Change, Feature, FeatureType, Missing, ReasonWords
from app.recourse.reasons import Departure, departure, reason_text, usual_raw, usual_text, value_text

DEBT = Feature(name="debt", type=FeatureType.INTEGER, label="Monthly debts", unit="EUR", special={-9: "no record"},
               missing=Missing.NAN)  # fmt: skip
SAVINGS = Feature(name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"))
HOME = Feature(name="home", type=FeatureType.CATEGORICAL, label="Housing", categories=("rented", "owned"))
GUARANTOR = Feature(name="guarantor", type=FeatureType.BINARY)


@pytest.mark.parametrize(
    ("feature", "value", "usual", "expected"),
    [
        (DEBT, 900, 300.5, "Monthly debts too high"),
        (DEBT, 100, 300.5, "Monthly debts too low"),
        (DEBT, MISSING, 300.5, "Monthly debts not stated"),
        (DEBT, -9, 300.5, "Monthly debts: no record"),
        (SAVINGS, 0, 2, "Savings: none"),
        (SAVINGS, 1, 1, "Savings: some"),
        (HOME, 0, 1, "Housing: rented"),
        (GUARANTOR, 0, 1, "Guarantor: no"),
    ],
)
def test_a_feature_without_words_of_its_own(feature: Feature, value: float, usual: float, expected: str) -> None:
    assert reason_text(feature, value, departure(feature, value, usual)) == expected


def test_what_is_neither_too_high_nor_too_low_is_stated_as_it_is() -> None:
    assert reason_text(DEBT, 900, None) == "Monthly debts: 900 EUR"
    assert reason_text(SAVINGS, 0, None) == "Savings: none"


@pytest.mark.parametrize(
    ("change", "value", "expected"),
    [
        (Change.DECREASE, 1, "Drinks: 1"),
        (Change.DECREASE, 9, "Drinks too high"),
        (Change.INCREASE, 9, "Drinks: 9"),
        (Change.INCREASE, 1, "Drinks too low"),
        (Change.NONE, 1, "Drinks too low"),
    ],
)
def test_a_reason_does_not_suggest_what_nobody_is_advised_to_do(change: Change, value: float, expected: str) -> None:
    """To drink more, or to borrow more."""
    feature = Feature(name="drinks", type=FeatureType.INTEGER, change=change)
    assert reason_text(feature, value, departure(feature, value, 4.0)) == expected


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        ({"too_low": "Too short a time"}, 9, "Years: 9"),
        ({"too_low": "Too short a time"}, 1, "Too short a time"),
        ({"too_high": "Too long a time"}, 1, "Years: 1"),
        ({"too_low": "Too short", "too_high": "Too long"}, 9, "Too long"),
    ],
)
def test_a_reason_in_one_direction_says_that_the_other_is_good(
    words: dict[str, str], value: float, expected: str
) -> None:
    """The lender names short times as a reason: no letter calls a time in the job too long."""
    feature = Feature(name="years", type=FeatureType.INTEGER, change=Change.NONE, reason=ReasonWords(**words))
    assert reason_text(feature, value, departure(feature, value, 4.0)) == expected


@pytest.mark.parametrize(
    ("label", "unit", "expected"),
    [
        ("Duration", "months", "Duration: 36 months"),
        ("Years in the present job", None, "Years in the present job: 36"),
        ("Working hours per week", None, "Working hours per week: 36"),
        ("Monthly rent", "EUR", "Monthly rent too high"),
    ],
)
def test_a_time_is_neither_high_nor_low(label: str, unit: str | None, expected: str) -> None:
    """Nobody says that years are too high; the value says it, beside what is usual."""
    feature = Feature(name="time", type=FeatureType.INTEGER, label=label, unit=unit)
    assert reason_text(feature, 36, Departure.TOO_HIGH) == expected
    own = replace(feature, reason=ReasonWords(too_high="Too much of it"))
    assert reason_text(own, 36, Departure.TOO_HIGH) == "Too much of it"


def test_what_is_usual_of_a_number_is_what_most_have_else_the_average() -> None:
    assert usual_raw(DEBT, np.array([0.0] * 9 + [1000.0])) == 0.0
    assert usual_raw(DEBT, np.array([0.0] * 5 + [1000.0] * 5)) == 500.0


def test_nobody_has_a_part_of_a_child_and_who_has_what_is_usual_has_not_too_many() -> None:
    children = Feature(name="children", type=FeatureType.INTEGER, change=Change.NONE)
    usual = usual_raw(children, np.array([0.0] * 30 + [1.0] * 42 + [2.0] * 28))
    assert usual_text(children, usual) == "1"
    assert departure(children, 1.0, usual) is None
    assert departure(children, 2.0, usual) is Departure.TOO_HIGH


def test_the_lenders_words_by_direction() -> None:
    words = ReasonWords(code="R12", text="Debts", too_high="Debts too large", missing="Debts unknown")
    feature = Feature(name="debt", type=FeatureType.INTEGER, missing=Missing.NAN, reason=words)
    assert [
        reason_text(feature, value, way)
        for value, way in ((9, Departure.TOO_HIGH), (1, Departure.TOO_LOW), (MISSING, None))
    ] == [
        "Debts too large",
        "Debts",
        "Debts unknown",
    ]


def test_values_as_people_say_them() -> None:
    assert value_text(DEBT, 1200) == "1,200 EUR"
    assert value_text(DEBT, MISSING) == ""
    assert value_text(DEBT, -9) == "no record"
    assert usual_text(DEBT, 0.8) == "0.8 EUR"
    assert usual_text(DEBT, 12300.0) == "12,300 EUR"
    assert usual_text(SAVINGS, 1.0) == "some"
