"""Columns of public credit files: what a draft leaves fixed, and what it lets people change, unedited."""

import pytest

from app.recourse.models.black_box import Input
from app.registry.artifact import Format
from app.registry.drafting.columns import describe
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import advise, ask_codes_once, feature_of
from app.registry.drafting.labels import words_of
from app.registry.drafting.matching import Source

FACTS = ModelFacts(format=Format.SKLEARN, file="", content=b"", input=Input.RAW)

FIXED = {
    "Give Me Some Credit": (
        "NumberOfTime30-59DaysPastDueNotWorse NumberOfTimes90DaysLate NumberRealEstateLoansOrLines "
        "NumberOfTime60-89DaysPastDueNotWorse NumberOfDependents "
    ),
    "Taiwan": ("LIMIT_BAL EDUCATION PAY_0 PAY_2 PAY_6 BILL_AMT1 BILL_AMT6 PAY_AMT1 PAY_AMT6 "),
    "HMEQ": ("VALUE MORTDUE YOJ DEROG DELINQ CLAGE NINQ CLNO "),
    "HELOC": (
        "ExternalRiskEstimate MSinceOldestTradeOpen MSinceMostRecentTradeOpen AverageMInFile "
        "NumSatisfactoryTrades NumTrades60Ever2DerogPubRec NumTrades90Ever2DerogPubRec PercentTradesNeverDelq "
        "MSinceMostRecentDelq NumTotalTrades MaxDelq2PublicRecLast12M MaxDelqEver NumTradesOpeninLast12M "
        "PercentInstallTrades MSinceMostRecentInqexcl7days NumInqLast6M NumInqLast6Mexcl7days "
    ),
    "Home Credit": (
        "CNT_CHILDREN AMT_ANNUITY AMT_GOODS_PRICE REGION_POPULATION_RELATIVE DAYS_EMPLOYED DAYS_REGISTRATION "
        "DAYS_ID_PUBLISH OWN_CAR_AGE CNT_FAM_MEMBERS REGION_RATING_CLIENT HOUR_APPR_PROCESS_START EXT_SOURCE_1 "
        "EXT_SOURCE_3 APARTMENTS_AVG OBS_30_CNT_SOCIAL_CIRCLE DEF_60_CNT_SOCIAL_CIRCLE DAYS_LAST_PHONE_CHANGE "
        "AMT_REQ_CREDIT_BUREAU_YEAR "
    ),
    "LendingClub": (
        "funded_amnt int_rate installment grade sub_grade emp_length delinq_2yrs fico_range_low open_acc "
        "inq_last_6mths mths_since_last_delinq pub_rec total_acc total_rev_hi_lim pub_rec_bankruptcies "
        "acc_now_delinq tot_coll_amt total_pymnt collections_12_mths_ex_med "
    ),
}
PROTECTED = "age AGE SEX MARRIAGE DAYS_BIRTH CODE_GENDER NAME_FAMILY_STATUS person_age geschlecht"
MOVABLE = {
    "RevolvingUtilizationOfUnsecuredLines": "decrease", "DebtRatio": "decrease", "MonthlyIncome": "increase",
    "LOAN": "decrease", "DEBTINC": "decrease", "NetFractionRevolvingBurden": "decrease", "AMT_CREDIT": "decrease",
    "NumRevolvingTradesWBalance": "decrease", "AMT_INCOME_TOTAL": "increase", "loan_amnt": "decrease",
    "annual_inc": "increase", "dti": "decrease", "revol_util": "decrease", "revol_bal": "decrease",
    "person_income": "increase",
}  # fmt: skip


def advised(name: str, *texts: str, answer: str | None = None) -> tuple[dict[str, object], bool]:
    column = describe(name, [*texts] * 10)
    found = feature_of(Source(column=name), column, FACTS)
    unknown = advise(found, column, answer)
    return found.keys, unknown


@pytest.mark.parametrize("name", [name for names in FIXED.values() for name in names.split()])
def test_what_is_past_set_by_others_or_unknown_is_fixed(name: str) -> None:
    keys, _ = advised(name, "1", "2", "3", "6")
    assert keys.get("protected") or keys["change"] == "none"


@pytest.mark.parametrize("name", PROTECTED.split())
def test_what_people_may_not_be_judged_by_is_protected(name: str) -> None:
    assert advised(name, "1", "2", "3")[0]["protected"]


@pytest.mark.parametrize(("name", "change"), MOVABLE.items())
def test_what_names_say_people_can_move(name: str, change: str) -> None:
    assert advised(name, "1.5", "2", "3")[0]["change"] == change


@pytest.mark.parametrize(
    "levels",
    [("male", "female"), ("M", "F"), ("Married", "Single / not married", "Widow"), ("White", "Black", "Other")],
)
def test_levels_protect_whatever_the_name_says(levels: tuple[str, ...]) -> None:
    assert advised("kind", *levels)[0]["protected"]


@pytest.mark.parametrize("name", ["CLNO", "NumTotalTrades", "open_acc", "studytime", "XQ", "flag_own_thing"])
def test_what_nothing_is_known_of_is_fixed_until_the_lender_answers(name: str) -> None:
    keys, unknown = advised(name, "1", "2", "9")
    assert (keys["change"], unknown) == ("none", True)
    assert "advice" not in keys
    keys, unknown = advised(name, "1", "2", "9", answer="increase")
    assert (keys["change"], keys["advice"], unknown) == ("increase", {"min": 1, "max": 9}, False)
    assert "change" not in advised(name, "1", "2", "9", answer="any")[0]
    assert advised(name, "1", "2", "9", answer="protected")[0]["protected"]


def test_codes_of_schools_have_no_order_but_years_have() -> None:
    keys, unknown = advised("EDUCATION", "0", "1", "2", "3", "6")
    assert (keys["change"], unknown) == ("none", True)
    assert "takes" not in keys
    assert advised("education", "8", "12", "16")[0]["change"] == "increase"


SAID = {
    "AMT_INCOME_TOTAL": "Amount of total income", "annual_inc": "Annual income", "loan_amnt": "Loan amount",
    "revol_util": "Revolving utilisation", "dti": "Debt-to-income ratio", "DEBTINC": "Debt-to-income ratio",
    "NumberOfTime30-59DaysPastDueNotWorse": "Number of time 30-59 days past due not worse",
    "MSinceOldestTradeOpen": "Months since oldest trade open", "BILL_AMT1": "Bill amount 1", "LOAN": "Loan",
    "amount_financed": "Amount financed", "apr": "APR",
    "NumRevolvingTradesWBalance": "Number of revolving trades with balance", "debts_eur": "Debts",
}  # fmt: skip


@pytest.mark.parametrize(("name", "label"), SAID.items())
def test_labels_say_in_words_what_names_abbreviate(name: str, label: str) -> None:
    assert words_of(name)["label"] == label


@pytest.mark.parametrize("name", ["age", "x1", "V12", "income"])
def test_a_name_without_other_words_has_no_label(name: str) -> None:
    assert "label" not in words_of(name)


@pytest.mark.parametrize("name", ["NumberOfDependents", "CNT_CHILDREN", "household_size"])
def test_a_family_is_no_reason_that_is_stated(name: str) -> None:
    keys, _ = advised(name, "1", "2", "3")
    assert (keys["change"], keys["reason"]) == ("none", {"named": False})


@pytest.mark.parametrize("name", ["JOB", "occupation", "OCCUPATION_TYPE"])
def test_nobody_is_advised_to_take_up_another_profession(name: str) -> None:
    assert advised(name, "Mgr", "Office", "Sales")[0]["change"] == "none"


@pytest.mark.parametrize("name", ["DebtRatio", "debt_ratio", "DEBTINC", "dti", "revol_util"])
def test_burdens_fall_by_half_at_most(name: str) -> None:
    keys, _ = advised(name, "0.25", "0.5", "0.75")
    assert (keys["change"], keys["max_change"]) == ("decrease", {"relative": 0.5})


@pytest.mark.parametrize(
    ("terms", "grid"), [(("36", "60"), (12, 24)), (("24", "36", "48", "60"), (0, 12)), (("6", "7", "8"), (0, None))]
)
def test_terms_are_advised_that_the_records_have(terms: tuple[str, ...], grid: tuple[int, int | None]) -> None:
    keys, _ = advised("term", *terms)
    assert (keys["min"], keys.get("step")) == grid


def test_codes_of_a_table_are_asked_for_once() -> None:
    usual = [str(number) for number in range(40)]
    first, second = (
        feature_of(Source(column=name), describe(name, [*usual * 3, *codes * 9]), FACTS)
        for name, codes in (("burden", ["-9"]), ("trades", ["-9", "-8"]))
    )
    ask_codes_once([first, second])
    assert [comment for one in (first, second) for comment in one.comments if comment.endswith("?")] == [
        "-9 in 9 records: special, because no other value is near; what do -9, -8 mean here and below?"
    ]
