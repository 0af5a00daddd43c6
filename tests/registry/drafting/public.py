"""Made-up records with the columns, codes and outcomes of public credit files; 1 is the bad outcome in all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.recourse.models.score import sigmoid
from tests.optional import library

RECORDS = 1_500


@dataclass(frozen=True)
class Public:
    """One file: its columns, and how strongly each one leads to default, in standard deviations."""

    columns: Mapping[str, Any]
    risk: Mapping[str, float]
    label: str
    values: tuple[str, str]
    """The good and the bad outcome."""
    movable: frozenset[str]
    """What an unedited draft may advise to change."""

    def write(self, directory: Path) -> tuple[Path, Path]:
        """The records and a model of them."""
        pandas, lightgbm = library("pandas"), library("lightgbm")
        table = pandas.DataFrame(self.columns)
        rng = np.random.default_rng(5)
        z = np.full(len(table), -0.6)
        for name, weight in self.risk.items():
            values = table[name].to_numpy(dtype=float)
            usual = np.where(np.isin(values, (-9, -8, -7, 96, 98, 365243)) | np.isnan(values), np.nan, values)
            z += weight * np.nan_to_num((usual - np.nanmean(usual)) / np.nanstd(usual))
        bad = rng.random(len(table)) < sigmoid(1.5 * z)
        texts = [name for name in table if table[name].dtype.kind not in "if"]
        fitted = table.assign(**{name: table[name].astype("category") for name in texts})
        model = lightgbm.LGBMClassifier(n_estimators=40, num_leaves=8, verbose=-1, n_jobs=1).fit(fitted, bad)
        model.booster_.save_model(directory / "model.txt")
        table.assign(**{self.label: np.where(bad, self.values[1], self.values[0])}).to_csv(
            directory / "records.csv", index=False
        )
        return directory / "records.csv", directory / "model.txt"


def _rng(seed: int) -> tuple[np.random.Generator, int]:
    return np.random.default_rng(seed), RECORDS


def give_me_some_credit() -> Public:
    r, n = _rng(1)
    odd = np.where(r.random(n) < 0.01, r.choice([96, 98], n), -1)
    late = {
        name: np.where(odd > 0, odd, r.poisson(mean, n))
        for name, mean in (
            ("NumberOfTime30-59DaysPastDueNotWorse", 0.4), ("NumberOfTimes90DaysLate", 0.15),
            ("NumberOfTime60-89DaysPastDueNotWorse", 0.1),
        )
    }  # fmt: skip
    columns = {
        "RevolvingUtilizationOfUnsecuredLines": np.round(r.beta(1, 2, n), 6), "age": r.integers(21, 90, n), **late,
        "DebtRatio": np.round(r.gamma(1, 0.4, n), 6),
        "MonthlyIncome": np.where(r.random(n) < 0.2, np.nan, r.integers(1_000, 12_000, n)),
        "NumberOfOpenCreditLinesAndLoans": r.integers(0, 20, n), "NumberRealEstateLoansOrLines": r.poisson(1, n),
        "NumberOfDependents": np.where(r.random(n) < 0.03, np.nan, r.integers(0, 5, n)),
    }  # fmt: skip
    risk = {
        "RevolvingUtilizationOfUnsecuredLines": 1.0,
        "DebtRatio": 0.7,
        "MonthlyIncome": -0.6,
        **dict.fromkeys(late, 0.4),
    }
    movable = {
        "RevolvingUtilizationOfUnsecuredLines", "DebtRatio", "MonthlyIncome", "NumberOfOpenCreditLinesAndLoans",
    }  # fmt: skip
    return Public(columns, risk, "SeriousDlqin2yrs", ("0", "1"), frozenset(movable))


def taiwan() -> Public:
    r, n = _rng(2)
    columns: dict[str, Any] = {
        "LIMIT_BAL": r.integers(1, 50, n) * 10_000.0, "SEX": r.integers(1, 3, n), "EDUCATION": r.integers(0, 7, n),
        "MARRIAGE": r.integers(0, 4, n), "AGE": r.integers(21, 70, n),
    }  # fmt: skip
    columns |= {f"PAY_{k}": r.choice([-2, -1, 0, 1, 2, 3], n) for k in (0, 2, 3, 4)}
    columns |= {f"BILL_AMT{k}": r.integers(-2_000, 200_000, n).astype(float) for k in (1, 2, 3)}
    columns |= {f"PAY_AMT{k}": r.integers(0, 20_000, n).astype(float) for k in (1, 2, 3)}
    risk = {"PAY_0": 1.0, "MARRIAGE": -0.6, "LIMIT_BAL": -0.6, "BILL_AMT1": 0.4, "EDUCATION": 0.4}
    return Public(columns, risk, "default.payment.next.month", ("0", "1"), frozenset())


def hmeq() -> Public:
    r, n = _rng(3)
    columns = {
        "LOAN": 100 * r.integers(11, 600, n), "MORTDUE": r.integers(5_000, 200_000, n),
        "VALUE": r.integers(20_000, 300_000, n), "REASON": r.choice(["DebtCon", "HomeImp"], n),
        "JOB": r.choice(["Mgr", "Office", "Other", "ProfExe", "Sales", "Self"], n), "YOJ": r.integers(0, 40, n),
        "DEROG": r.poisson(0.3, n), "DELINQ": r.poisson(0.5, n), "CLAGE": np.round(r.gamma(4, 45, n), 2),
        "NINQ": r.poisson(1.2, n), "CLNO": r.integers(0, 50, n), "DEBTINC": np.round(r.normal(34, 8, n).clip(1), 3),
    }  # fmt: skip
    risk = {"DEBTINC": 1.0, "LOAN": 0.5, "DELINQ": 0.7, "DEROG": 0.5, "CLAGE": -0.4, "CLNO": 0.3}
    return Public(columns, risk, "BAD", ("0", "1"), frozenset({"LOAN", "DEBTINC"}))


def heloc() -> Public:
    r, n = _rng(4)
    names = {
        "ExternalRiskEstimate": (40, 95), "MSinceOldestTradeOpen": (10, 500), "MSinceMostRecentTradeOpen": (0, 60),
        "AverageMInFile": (10, 200), "NumSatisfactoryTrades": (0, 60), "NumTrades60Ever2DerogPubRec": (0, 6),
        "PercentTradesNeverDelq": (50, 101), "MSinceMostRecentDelq": (0, 80), "MaxDelqEver": (2, 9),
        "NumTotalTrades": (1, 70), "NumTradesOpeninLast12M": (0, 8), "PercentInstallTrades": (0, 100),
        "NumInqLast6M": (0, 9), "NetFractionRevolvingBurden": (0, 120), "NetFractionInstallBurden": (0, 130),
        "NumRevolvingTradesWBalance": (0, 15), "NumBank2NatlTradesWHighUtilization": (0, 8),
        "PercentTradesWBalance": (0, 101),
    }  # fmt: skip
    absent = r.random(n) < 0.05
    columns = {name: np.where(absent, -9, r.integers(*limits, n)) for name, limits in names.items()}
    columns["MSinceMostRecentDelq"] = np.where(~absent & (r.random(n) < 0.4), -7, columns["MSinceMostRecentDelq"])
    columns["NetFractionInstallBurden"] = np.where(r.random(n) < 0.002, -8, columns["NetFractionInstallBurden"])
    risk = {
        "ExternalRiskEstimate": -1.0,
        "NetFractionRevolvingBurden": 0.8,
        "NumInqLast6M": 0.4,
        "NumTotalTrades": -0.3,
    }
    movable = [name for name in names if "Burden" in name or "TradesW" in name]
    return Public(columns, risk, "RiskPerformance", ("Good", "Bad"), frozenset(movable))


def home_credit() -> Public:
    r, n = _rng(6)
    columns = {
        "NAME_CONTRACT_TYPE": r.choice(["Cash loans", "Revolving loans"], n), "CODE_GENDER": r.choice(["M", "F"], n),
        "FLAG_OWN_CAR": r.choice(["Y", "N"], n), "FLAG_OWN_REALTY": r.choice(["Y", "N"], n),
        "CNT_CHILDREN": r.poisson(0.5, n), "AMT_INCOME_TOTAL": 4_500.0 * r.integers(6, 100, n),
        "AMT_CREDIT": 4_500.0 * r.integers(10, 400, n), "AMT_ANNUITY": 4.5 * r.integers(500, 12_000, n),
        "AMT_GOODS_PRICE": 4_500.0 * r.integers(10, 400, n),
        "NAME_FAMILY_STATUS": r.choice(["Married", "Single / not married", "Widow", "Separated"], n),
        "NAME_HOUSING_TYPE": r.choice(["House / apartment", "With parents", "Rented apartment"], n),
        "DAYS_BIRTH": -r.integers(7_500, 25_000, n),
        "DAYS_EMPLOYED": np.where(r.random(n) < 0.18, 365_243, -r.integers(1, 15_000, n)),
        "DAYS_ID_PUBLISH": -r.integers(0, 6_000, n), "FLAG_EMP_PHONE": r.integers(0, 2, n),
        "REGION_RATING_CLIENT": r.integers(1, 4, n), "EXT_SOURCE_2": np.round(r.beta(2, 2, n), 6),
        "DEF_30_CNT_SOCIAL_CIRCLE": r.poisson(0.2, n), "FLAG_DOCUMENT_3": r.integers(0, 2, n),
        "AMT_REQ_CREDIT_BUREAU_YEAR": r.poisson(2, n),
    }  # fmt: skip
    risk = {
        "EXT_SOURCE_2": -1.0,
        "AMT_CREDIT": 0.6,
        "AMT_INCOME_TOTAL": -0.5,
        "DAYS_EMPLOYED": 0.4,
        "FLAG_DOCUMENT_3": 0.3,
    }
    return Public(columns, risk, "TARGET", ("0", "1"), frozenset({"AMT_INCOME_TOTAL", "AMT_CREDIT"}))


def lending_club() -> Public:
    r, n = _rng(7)
    amount, income = 25.0 * r.integers(40, 1_400, n), 500.0 * r.integers(30, 400, n)
    columns = {
        "loan_amnt": amount, "term": r.choice([36, 60], n), "int_rate": np.round(r.uniform(5, 28, n), 2),
        "installment": np.round(amount / 30, 2) + r.integers(0, 9, n),
        "grade": r.choice(list("ABCDEFG"), n), "emp_length": r.integers(0, 11, n),
        "home_ownership": r.choice(["RENT", "OWN", "MORTGAGE"], n), "annual_inc": income,
        "purpose": r.choice(["car", "credit_card", "debt_consolidation"], n), "addr_state": r.choice(["CA", "NY"], n),
        "dti": np.round(r.uniform(0, 40, n), 2), "delinq_2yrs": r.poisson(0.3, n),
        "fico_range_low": 5 * r.integers(132, 170, n), "inq_last_6mths": r.poisson(0.8, n),
        "open_acc": r.integers(1, 30, n), "pub_rec": r.poisson(0.1, n), "revol_bal": r.integers(0, 60_000, n),
        "revol_util": np.round(r.uniform(0, 100, n), 1), "total_acc": r.integers(2, 60, n),
        "loan_percent_income": np.round(amount / income, 2),
    }  # fmt: skip
    risk = {"loan_percent_income": 0.8, "revol_util": 0.6, "dti": 0.5, "fico_range_low": -0.6, "open_acc": 0.3}
    movable = {"loan_amnt", "annual_inc", "dti", "revol_bal", "revol_util", "term"}
    return Public(columns, risk, "loan_status", ("Fully Paid", "Charged Off"), frozenset(movable))


PUBLIC: Mapping[str, Callable[[], Public]] = {
    "Give Me Some Credit": give_me_some_credit, "Taiwan": taiwan, "HMEQ": hmeq, "HELOC": heloc,
    "Home Credit": home_credit, "LendingClub": lending_club,
}  # fmt: skip
