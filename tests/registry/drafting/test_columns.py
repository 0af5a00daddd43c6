"""What a column of records is taken for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.registry.artifact import Format
from app.registry.drafting.columns import describe
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import advise, feature_of
from app.registry.drafting.hints import hint_of, proposed, scale_of
from app.registry.drafting.matching import Source, match
from app.registry.trust import Trust
from tests.optional import library


def column(*texts: str) -> list[str]:
    return [*texts] * 10


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*range(100), *[-9] * 6], (-9.0,)),
        ([*range(100), *[-9] * 4], ()),  # too few: a mistake of typing
        ([*range(-50, 50), *[-9] * 6], ()),  # negative numbers are quantities
        ([*range(100), *[-9] * 6, *[-8] * 6], (-9.0, -8.0)),
        ([*range(100), *[999] * 6], (999.0,)),
        ([*range(100), *[9999] * 6, *[99999] * 6], (9999.0, 99999.0)),
        ([*range(100, 300), *[999] * 6], ()),  # near enough to be a quantity
        ([*range(18, 100), *[99] * 6], ()),
        ([0, 1] * 50 + [-1] * 6, (-1.0,)),
        ([*range(100), *[-9] * 6, -8], (-9.0, -8.0)),  # rare beside a frequent one
        ([*range(14), *[98] * 6, 96], (96.0, 98.0)),
        ([*range(-17_900, -100, 100), *[365243] * 6], (365243.0,)),
        ([-2, -1, 0, 1, 2] * 20, ()),  # of a payment status
    ],
)
def test_codes_are_numbers_that_stand_apart_and_are_frequent(values: list[int], codes: tuple[float, ...]) -> None:
    assert describe("x", [str(value) for value in values]).codes == codes


def test_a_code_of_another_column_need_not_be_frequent() -> None:
    rare = describe("NumTrades", [*map(str, range(100)), "-9", "-8"])
    assert rare.codes == ()
    assert rare.with_codes_of({-9.0}).codes == (-9.0, -8.0)
    late = describe("NumberOfTimes90DaysLate", [*map(str, range(15)), "98"])
    assert (late.codes, late.with_codes_of({98.0}).codes) == ((), (98.0,))
    assert describe("balance", ["-50", "3", "-9"]).with_codes_of({-9.0}).codes == ()


def test_missing_numbers_are_recognised_in_any_words() -> None:
    found = describe("x", column("1", "", "NA", "?", "2.5"))
    assert found.numbers is not None
    np.testing.assert_array_equal(found.numbers[:5], [1, np.nan, np.nan, np.nan, 2.5])
    assert found.missing == 30
    assert found.decimals == 1


def test_a_level_that_the_model_knows_is_never_missing() -> None:
    assert describe("x", column("a", "NA", "b")).missing == 10
    assert describe("x", column("a", "NA", "b"), {"a", "b", "NA"}).missing == 0
    assert describe("x", column(" a", " b"), {" a", " b"}).levels == (" a", " b")
    assert describe("x", column("1", "2"), {"1", "2"}).numbers is None


@pytest.mark.parametrize(
    ("texts", "flag", "whole", "step", "names_records"),
    [
        (column("0", "1"), True, True, 1, False),
        (column("True", "False"), True, False, 1, False),
        ([str(100 * k) for k in range(30)], False, True, 100, False),
        ([str(k) for k in range(30)], False, True, 1, True),
        ([f"C{k}" for k in range(30)], False, False, 1, True),
        ([str(k / 7) for k in range(30)], False, False, 1, False),
    ],
)
def test_what_a_column_is(texts: list[str], flag: bool, whole: bool, step: int, names_records: bool) -> None:
    found = describe("x", texts)
    assert (found.flag, found.whole, found.step, found.names_records) == (flag, whole, step, names_records)


HINTS: dict[str, dict[str, object] | None] = {
    "age|Applicant Age|applicantAge|marital_status|MAR|romantic|health_status": {"protected": True},
    "number_of_dependents|Medu|fatherJob|Pstatus|famsize": {"change": "none", "reason": {"named": False}},
    "capital_loss|COW|num_late_payments|tenure|failures|earliest_credit_line|home_address|traveltime|loan_purpose|reason|"
    "nursery|absences|sub_grade|fico_range_low|ExternalRiskEstimate|int_rate|G2|Column_13|property|home_ownership":
        {"change": "none"},
    "SCHL|grade_level": {"change": "increase", "takes": {"months_per_unit": 12}},
    "wages": {"change": "increase", "max_change": {"relative": 0.2}},
    "balance_mar": {"change": "increase"},
    "loan_amnt|amount|Credit amount": {"change": "decrease", "max_change": {"relative": 0.5}},
    "debts|number_credits|num_of_existing_loans|cigarettes_per_day|Walc": {"change": "decrease"},
    "mortgage|health_insurance|installment_rate|tax_credits|amount_paid|studytime": None,
}  # fmt: skip


@pytest.mark.parametrize(("name", "keys"), [(name, keys) for names, keys in HINTS.items() for name in names.split("|")])
def test_names_hint_at_what_people_can_change(name: str, keys: dict[str, object] | None) -> None:
    hint = hint_of(name, "integer")
    assert (None if hint is None else dict(hint.keys)) == keys


@pytest.mark.parametrize(
    ("name", "unit"),
    [("term_months", "months"), ("debtsEUR", "EUR"), ("inquiries_last_6_months", None), ("months", None)],
)
def test_a_name_may_end_with_a_unit_but_not_with_the_time_of_a_count(name: str, unit: str | None) -> None:
    facts = ModelFacts(format=Format.SKLEARN, file="model", content=b"")
    found = feature_of(Source(column=name), describe(name, ["1", "2", "3"]), facts)
    assert found.keys.get("unit") == unit


def test_words_give_levels_an_order() -> None:
    assert scale_of(("high", "low", "medium")) == ("low", "medium", "high")
    assert scale_of(("Bachelors", "HS-grad", "9th", "Some-college", "Doctorate")) == (
        "9th", "HS-grad", "Some-college", "Bachelors", "Doctorate",
    )  # fmt: skip
    census = (
        "No schooling completed", "Nursery school, preschool", "Kindergarten", "Grade 9", "12th grade - no diploma",
        "GED or alternative credential", "Regular high school diploma", "Some college, but less than 1 year",
        "1 or more years of college credit, no degree", "Associate's degree", "Bachelor's degree", "Master's degree",
        "Professional degree beyond a bachelor's degree", "Doctorate degree",
    )  # fmt: skip
    assert scale_of(tuple(sorted(census))) == census
    assert scale_of(("Bachelors", "HS-grad", "Sales")) is None
    assert scale_of(("Yes", "No")) == ("No", "Yes")
    assert scale_of(("red", "blue")) is None
    tenure = ("1 to 3 years", "over 7 years", "under 1 year", "3 to 7 years")
    assert scale_of(tenure) == ("under 1 year", "1 to 3 years", "3 to 7 years", "over 7 years")
    assert scale_of(("1,000-5,000", "none", "<1,000", "5,000+")) == ("none", "<1,000", "1,000-5,000", "5,000+")
    assert scale_of((">=1000", "100-500", "<100", "no savings", "500-1000")) == (
        "no savings", "<100", "100-500", "500-1000", ">=1000",
    )  # fmt: skip
    assert scale_of(("<0", "0-200", "no checking account")) is None
    assert scale_of(("A11", "A12", "A13")) is None
    assert scale_of(("10th", "11th", "Trade")) is None


def test_columns_of_a_model_are_found_under_their_usual_names() -> None:
    columns = {
        "income": describe("income", column("1", "2", "3")),
        "home type": describe("home type", column("own", "with family", "rent")),
        "job": describe("job", column("a", "b")),
    }
    names = ["num__income", "home_type_own", "home_type_rent", "home_type_with_family", "job_b"]
    assert match(names, columns, "model.json") == [
        Source(column="income", names=("num__income",)),
        Source(column="home type", levels=("own", "rent", "with family"), names=tuple(names[1:4])),
        Source(column="job", names=("job_b",)),
    ]


def test_groups_without_an_order_are_never_lowered() -> None:
    """An education that the model takes apart could go either way."""
    assert (hint := hint_of("education", "categorical")) is not None
    assert hint.keys == {"change": "none"}
    assert (hint := hint_of("cow", "categorical")) is not None
    assert hint.keys == {"change": "none"}


def advised(name: str, texts: list[str], facts: ModelFacts) -> dict[str, Any]:
    column = describe(name, texts)
    found = feature_of(Source(column=name), column, facts)
    advise(found, column)
    return found.keys


def test_a_draft_proposes_nothing_that_nobody_would() -> None:
    table = ModelFacts(format=Format.SKLEARN, file="", content=b"", input=Input.RAW)
    backers = advised("guarantor", ["sister", "?", "friend", "unknown", "friend"], table)
    assert backers["advice"] == {"categories": ["friend", "sister"]}
    assert backers["categories"] == ["?", "friend", "sister", "unknown"]
    assert advised("hours", [str(hours) for hours in range(20, 80)], table)["advice"] == {"min": 21, "max": 60}
    rare = advised("gain", ["0"] * 95 + ["500", "900", "40", "70", "80"], table)
    assert rare["change"] == "none"
    assert "advice" not in rare
    for none in ("no savings", "no savings account"):
        savings = advised("savings", [none, "<100", "100-500", ">=500"], table)
        assert (savings["type"], savings["change"]) == ("ordinal", "increase")
        assert savings["advice"] == {"categories": ["<100", "100-500", ">=500"]}
    status = advised("status", ["overdrawn", "0 to 200 DM", "200 DM or more", "no checking account"], table)
    assert status["advice"] == {"categories": ["0 to 200 DM", "200 DM or more"]}
    assert advised("telephone", ["no", "yes"], table)["change"] == "increase"


@pytest.mark.parametrize(
    ("name", "values", "months"),
    [
        ("debts", range(0, 2_500, 10), 12.0),
        ("credit_utilisation", np.arange(0.0, 1.2, 0.01), 12.0),
        ("monthly_savings", range(100, 900), 12.0),
        ("num_of_existing_loans", range(20), 12.0),
        ("monthly_income", range(1_000, 9_000), 3.0),
        ("savings", ("none", "some", "much"), 6.0),
        ("savings", ("<100", "100-500", "500-1000", "1000-2000", ">2000", "none"), 12.0),
        ("loan_amount", range(1_000, 9_000), 0.0), ("duration", range(6, 72), 0.0), ("hours", range(20, 60), 0.0),
    ],
)  # fmt: skip
def test_what_people_earn_or_pay_back_takes_its_time(name: str, values: Any, months: float) -> None:
    """From one end of what is advised to the other: a year of payments, three months for another job or a level."""
    table = ModelFacts(format=Format.SKLEARN, file="", content=b"", input=Input.RAW)
    found = advised(name, [str(value) for value in values], table)
    takes = found.get("takes", {})
    advice = found.get("advice", {})
    whole = takes.get("months", 0.0)
    whole += takes.get("months_per_unit", 0.0) * (advice.get("max", 0.0) - advice.get("min", 0.0))
    whole += takes.get("months_per_level", 0.0) * (len(found.get("categories", "_")) - 1)
    assert whole == pytest.approx(months, rel=0.05)


@pytest.mark.parametrize(
    ("name", "levels"), [("kind", ("1", "2", "10")), ("guarantors", ("A101", "A102")), ("pay", ("D1", "2"))]
)
def test_a_draft_does_not_propose_codes_that_nobody_can_read(name: str, levels: tuple[str, ...]) -> None:
    """An answer would say: change the guarantors from A101 to A103."""
    codes = ModelFacts(format=Format.XGBOOST, file="", content=b"", input=Input.RAW, levels={name: levels})
    texts = describe(name, list(levels), levels)
    found = feature_of(Source(column=name), texts, codes)
    advise(found, texts)
    assert (found.keys["type"], found.keys["change"]) == ("categorical", "none")
    (comment,) = found.comments
    assert "level_names" in comment


@pytest.mark.parametrize("texts", [["0.1k", "2.5k", "12k"], [" 36 months", " 60 months"]])
def test_texts_with_a_number_are_not_taken_for_codes_where_the_model_takes_one(texts: list[str]) -> None:
    """The model may take 2500, 2.5 or 1 for 2.5k."""
    facts = ModelFacts(format=Format.LINEAR, file="", content=b"", input=Input.ENCODED)
    with pytest.raises(ModelRefused, match=f'such as "{texts[0].strip()}": write the numbers'):
        feature_of(Source(column="amount"), describe("amount", texts), facts)


def test_codes_that_are_plain_numbers_have_no_order() -> None:
    """As of XGBoost, which names the categories of a column of whole numbers."""
    levels = ("1", "2", "10")
    facts = ModelFacts(format=Format.XGBOOST, file="", content=b"", input=Input.RAW, levels={"group": levels})
    column = describe("group", ["1.0", "10", "2", "1"], levels)
    keys = feature_of(Source(column="group"), column, facts).keys
    assert (keys["type"], keys["categories"]) == ("categorical", list(levels))
    assert column.texts == ("1", "10", "2", "1")


@pytest.mark.parametrize(
    "level",
    [
        "?",
        "Unknown",
        "Without-pay",
        "family business, unpaid",
        "Never-worked",
        "n/a",
        "no bank account",
        "No savings",
        "Exempt",
        "not applicable",
    ],
)
def test_levels_that_nobody_is_advised_to_have_are_not_proposed(level: str) -> None:
    assert not proposed(level)
    assert all(map(proposed, ("Private", "paid monthly", "retirement home", "self-employed", "no other loans", "none")))


@pytest.mark.parametrize("kind", ["trees", "card"])
def test_decimals_are_as_fine_as_the_model_cuts(tmp_path: Path, kind: str) -> None:
    """A share with some values in the thousands: its spread says whole numbers, and the model cuts at 0.35."""
    rng = np.random.default_rng(0)
    share = np.where(rng.random(900) < 0.02, rng.uniform(2_000, 50_000, 900), rng.uniform(0.0, 1.0, 900))
    texts = [f"{value:.7f}" for value in share]
    good = share < 0.35
    rows = ["utilisation,good", *(f"{text},{int(one)}" for text, one in zip(texts, good, strict=True))]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    if kind == "trees":
        lightgbm = library("lightgbm")
        data = lightgbm.Dataset(np.array(texts, float)[:, None], good.astype(int), feature_name=["utilisation"])
        lightgbm.train({"objective": "binary", "verbose": -1}, data, 5).save_model(tmp_path / "model.txt")
        wish = Wish(data=tmp_path / "d.csv", model=tmp_path / "model.txt", label="good", favourable="1")
    else:
        (tmp_path / "c.csv").write_text(
            "feature,from,to,category,points\n,,,,500\nutilisation,,0.35,,60\nutilisation,0.35,,,0\n"
        )
        wish = Wish(data=tmp_path / "d.csv", model=tmp_path / "c.csv", label="good", favourable="1", threshold=530.0)
    assert describe("utilisation", texts).decimals == 0
    draft(wish, tmp_path / "loan", Trust())
    (feature,) = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())["features"]
    decimals = feature["decimals"]
    other = [float(((np.round(share, digits) < 0.35) != good).mean()) for digits in range(decimals + 1)]
    assert other[-1] <= 0.005
    assert min(other[:-1]) > 0.005
