"""Synthetic applicants of a lender that asks a credit bureau, and whether they would repay the loan.

Nobody's data: every number is drawn from the process below. Its records are as untidy as a lender's: the self-employed
often do not state their income, some people do not say how they live, and the bureau answers with codes where it has no
number. A missing value is information, too.
"""

from typing import TypeAlias

import numpy as np

from app.recourse.features import Record

NO_RECORD, NO_TRADES = -9, -8
"""Codes of the bureau: it does not know the person; it knows no card or overdraft of theirs."""

YEARS = {"none": 8, "school": 10, "apprenticeship": 12, "college": 15, "university": 17}
"""Years that each education takes."""
EDUCATION = tuple(YEARS)
HOUSING = ("rented", "with family", "mortgaged", "owned")

ANNUAL_RATE = 0.08
"""Interest that the affordability of an instalment is judged with."""

Column: TypeAlias = np.ndarray


def applicants(n: int, seed: int) -> tuple[list[Record], Column]:
    """Records without their derived features, and ``(n,)`` whether each repays (1) or defaults (0)."""
    rng = np.random.default_rng(seed)
    careful, skill = rng.standard_normal(n), rng.standard_normal(n)
    age = np.clip(np.rint(18 + 62 * rng.beta(1.7, 2.8, n)), 18, 80)
    education = np.clip(np.rint(2 + 0.9 * skill + 0.7 * rng.standard_normal(n)), 0, 4).astype(int)
    months_in_job = np.minimum(np.floor(12 * rng.exponential(2 + 0.09 * age, n)), 12 * (age - 17))
    self_employed = rng.random(n) < 0.13

    usual = np.where(rng.random(n) < 0.2, rng.integers(15, 32, n), rng.integers(36, 43, n))
    hours = np.where(self_employed, np.clip(np.rint(rng.normal(47, 10, n)), 15, 75), usual)
    hourly = np.exp(2.28 + 0.055 * education + 0.012 * np.minimum(age - 18, 27) + 0.2 * skill + 0.15 * _normal(rng, n))
    income = _rounded(np.clip(hourly * hours * 4.33, 300, 15_000), 10)

    debt_payments = _rounded(income * rng.beta(1.4, 6.5, n) * np.exp(-0.2 * careful) * (rng.random(n) > 0.35), 10)
    utilisation = np.rint(110 * rng.beta(1.3 * np.exp(-0.4 * careful), 1.9 * np.exp(0.4 * careful)))
    late_payments = np.minimum(rng.poisson(0.5 * np.exp(-0.8 * careful + 0.012 * (utilisation - 40))), 24)

    richer, older = np.log(income / 2200), (age - 40) / 12
    living = [0.9 - 0.2 * older, -0.3 - 1.4 * older, 0.1 + 1.2 * richer, -0.5 + 0.9 * older]
    housing = np.argmax(np.array(living) + rng.gumbel(size=(4, n)), axis=0)
    share = np.maximum(0.22, 0.3 * np.exp(0.25 * _normal(rng, n)))
    rent = np.where(housing == 0, _rounded(np.maximum(250, share * income), 10), 0)
    amount = _rounded(np.clip(7_500 * np.exp(0.5 * richer + 0.6 * _normal(rng, n)), 500, 40_000), 100)
    term = np.clip(6 * np.rint(7 * np.sqrt(amount / 9_000) * np.exp(0.28 * _normal(rng, n))), 6, 96)

    unknown = rng.random(n) < _sigmoid(-3.2 - 1.6 * older)
    without_cards = rng.random(n) < 0.07
    monthly_rate = ANNUAL_RATE / 12
    instalment = amount * monthly_rate / (1 - (1 + monthly_rate) ** -term)
    burden = (instalment + debt_payments + rent) / income
    logit = (
        -2.5
        + 4.5 * (burden - 0.4)
        + 4.0 * np.maximum(burden - 0.55, 0)
        + 4.0 * np.maximum(debt_payments / income - 0.2, 0)
        - 0.5 * richer
        + np.where(unknown, 0.5, np.where(without_cards, 0.2, 0.022 * (utilisation - 40)))
        + np.where(unknown, 0.3, 0.7 * np.sqrt(late_payments))
        - 0.16 * (np.array(list(YEARS.values()))[education] - 12)
        - 0.35 * np.log1p(months_in_job / 12)
        - 0.02 * (np.minimum(hours, 45) - 38)
        + 0.4 * self_employed
        - 0.45 * careful
        + np.array([0.15, 0.0, -0.1, -0.3])[housing]
    )
    repaid = (rng.random(n) >= _sigmoid(logit)).astype(int)

    unstated = rng.random(n) < np.where(self_employed, 0.6, 0.04)
    silent = rng.random(n) < 0.06
    records: list[Record] = [
        {
            "age": int(age[i]),
            "months_in_job": int(months_in_job[i]),
            "education": EDUCATION[education[i]],
            "hours_per_week": int(hours[i]),
            "income": None if unstated[i] else int(income[i]),
            "debt_payments": int(debt_payments[i]),
            "utilisation": NO_RECORD if unknown[i] else NO_TRADES if without_cards[i] else int(utilisation[i]),
            "late_payments": NO_RECORD if unknown[i] else int(late_payments[i]),
            "housing": None if silent[i] else HOUSING[housing[i]],
            "rent": int(rent[i]),
            "amount": int(amount[i]),
            "term": int(term[i]),
        }
        for i in range(n)
    ]
    return records, repaid


def columns(records: list[Record]) -> dict[str, Column]:
    """What the model takes: a column for each number and each category, NaN where a number is missing."""

    def number(name: str) -> Column:
        return np.array([np.nan if record[name] is None else record[name] for record in records], dtype=float)

    def level(name: str, of: str | None) -> Column:
        return np.array([record[name] == of for record in records], dtype=float)

    education = [str(record["education"]) for record in records]
    return {
        "age": number("age"),
        "months_in_job": number("months_in_job"),
        "education": np.array([EDUCATION.index(name) for name in education], dtype=float),
        "years_of_education": np.array([YEARS[name] for name in education], dtype=float),
        "hours_per_week": number("hours_per_week"),
        "income": number("income"),
        "debt_payments": number("debt_payments"),
        "debt_to_income": number("debt_payments") / number("income"),
        "utilisation": number("utilisation"),
        "late_payments": number("late_payments"),
        **{f"housing={name}": level("housing", name) for name in HOUSING},
        "housing=missing": level("housing", None),
        **{name: number(name) for name in ("rent", "amount", "term")},
    }


def _normal(rng: np.random.Generator, n: int) -> Column:
    return rng.standard_normal(n)


def _rounded(values: Column, to: int) -> Column:
    return to * np.rint(values / to)


def _sigmoid(value: Column) -> Column:
    return np.asarray(1.0 / (1.0 + np.exp(-value)))
