"""Synthetic applicants for a personal loan, and whether they would repay it.

Nobody's data: every number is drawn from the process below, so it may be shipped, and it comes out the same for the
same seed. It follows what a credit officer would recognise: income grows with age and time in the job, careful people
save more and miss fewer payments, purposes have their usual amounts, and default depends on how the instalment weighs
on the income, on the record of paying, and on chance.
"""

import numpy as np

from app.recourse.features import Advice, Better, Change, Feature, FeatureType, MaxChange, MovesWithTime, Takes
from examples.consumer_loan.words import words_of

EMPLOYMENT = ("under 1 year", "1 to 3 years", "3 to 7 years", "over 7 years")
SAVINGS = ("none", "under 1,000 EUR", "1,000 to 5,000 EUR", "5,000 to 15,000 EUR", "over 15,000 EUR")
HOUSING = ("rented", "with family", "mortgaged", "owned")
PURPOSE = ("car", "home improvement", "debt consolidation", "education", "other")

FEATURES = (
    Feature(
        name="age", type=FeatureType.INTEGER, label="Age", unit="years", min=18, max=80,
        change=Change.NONE, noise=False, moves_with_time=MovesWithTime(per_year=1), **words_of("age"),
    ),
    Feature(
        name="monthly_income", type=FeatureType.CONTINUOUS, label="Net monthly income", unit="EUR", min=500, max=15000,
        decimals=0, change=Change.INCREASE, cost=4.0, max_change=MaxChange(relative=0.2), takes=Takes(months=2),
        **words_of("monthly_income"),
    ),
    Feature(
        name="monthly_debt", type=FeatureType.CONTINUOUS, label="Monthly payments on other debts", unit="EUR", min=0,
        max=6000, decimals=0, change=Change.DECREASE, takes=Takes(months=2), **words_of("monthly_debt"),
    ),
    Feature(
        name="card_utilisation", type=FeatureType.CONTINUOUS, label="Share of card and overdraft limits in use",
        unit="%", min=0, max=100, decimals=0, change=Change.DECREASE, cost=0.7, takes=Takes(months_per_unit=0.03),
        **words_of("card_utilisation"),
    ),
    Feature(
        name="late_payments", type=FeatureType.INTEGER, label="Late payments in the last 24 months", min=0, max=6,
        change=Change.NONE, **words_of("late_payments"),
    ),
    Feature(
        name="amount", type=FeatureType.INTEGER, label="Loan amount", unit="EUR", min=500, max=30000, step=100,
        change=Change.DECREASE, noise=False, cost=1.6, max_change=MaxChange(relative=0.5),
        terms=True, better=Better.MORE, **words_of("amount"),
    ),
    Feature(
        name="term", type=FeatureType.INTEGER, label="Repayment term", unit="months", min=6, max=84, step=6,
        change=Change.ANY, noise=False, cost=0.7, max_change=MaxChange(relative=0.5),
        terms=True, **words_of("term"),
    ),
    Feature(
        name="employment", type=FeatureType.ORDINAL, label="Time in the current job", categories=EMPLOYMENT,
        action="Extend", change=Change.INCREASE, cost=3.0, takes=Takes(months_per_level=24), **words_of("employment"),
    ),
    Feature(
        name="savings", type=FeatureType.ORDINAL, label="Savings", categories=SAVINGS, change=Change.INCREASE, cost=1.2,
        advice=Advice(categories=SAVINGS[:-1]), takes=Takes(months_per_level=2),
        level_names={"under 1,000 EUR": "some, but under 1,000 EUR"}, **words_of("savings"),
    ),
    Feature(
        name="housing", type=FeatureType.CATEGORICAL, label="Housing", categories=HOUSING, change=Change.ANY, cost=6.0,
        advice=Advice(categories=("rented", "with family")), takes=Takes(months=3), **words_of("housing"),
    ),
    Feature(
        name="purpose", type=FeatureType.CATEGORICAL, label="Purpose of the loan", categories=PURPOSE,
        change=Change.NONE, **words_of("purpose"),
    ),
    Feature(
        name="guarantor", type=FeatureType.BINARY, label="Guarantor for the loan", change=Change.INCREASE, noise=False,
        cost=1.2, **words_of("guarantor"),
    ),
)  # fmt: skip
"""In the order of the columns of `applicants`.

`cost` is the lender's policy on what to advise first: a standard deviation of income is harder to come by than one of
the card balance, and no advice says to move house while anything else helps, nor to buy one. Two years more in a job
take two years, so they are no advice for an answer of three months. An income is not advised to grow by more than a
fifth. A raise takes two months, as does paying a debt off or rescheduling it; in a month people pay a third of
their limits back.
"""

ANNUAL_RATE = 0.08
"""Interest that the affordability of an instalment is judged with."""


def applicants(n: int, seed: int, year: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Raw rows ``(n, 12)`` as `FEATURES` describes them, and ``(n,)`` whether each repays (1) or defaults (0).

    Parameters
    ----------
    year : years after those of the demo model; from each to the next fewer people without savings repay
    """
    rng = np.random.default_rng(seed)
    careful, skill = rng.standard_normal(n), rng.standard_normal(n)

    age = np.clip(np.rint(18 + 62 * rng.beta(1.7, 2.8, n)), 18, 80)
    years_in_job = np.minimum(rng.exponential(2.0 + 0.085 * age, n), age - 17.5)
    employment = np.digitize(years_in_job, [1, 3, 7])
    career = 0.016 * np.minimum(age - 18, 27) + 0.05 * employment
    income = np.clip(np.rint(1450 * np.exp(career + 0.28 * skill + 0.16 * rng.standard_normal(n))), 500, 8000)

    savings_eur = income * np.exp(-0.6 + 0.9 * careful + 0.022 * (age - 40) + 0.8 * rng.standard_normal(n))
    savings = np.digitize(savings_eur, [150, 1000, 5000, 15000])
    utilisation = rng.beta(1.3 * np.exp(-0.35 * careful), 1.9 * np.exp(0.35 * careful))
    utilisation = np.clip(np.round(100 * utilisation, 1), 0, 100)
    late = np.minimum(rng.poisson(0.5 * np.exp(-0.75 * careful + 0.012 * (utilisation - 40))), 6)
    share_of_debt = rng.beta(1.4, 7.5, n) * (1 + 0.006 * (utilisation - 40)) * (rng.random(n) > 0.35)
    debt = np.clip(np.rint(income * share_of_debt), 0, 1500)

    older, richer = (age - 40) / 12, np.log(income / 2300)
    housing = _choose(rng, [0.9 - 0.2 * older, -0.2 - 1.3 * older, 0.2 + 1.2 * richer, -0.5 + 0.9 * older])
    consolidates = -1.2 + 0.02 * utilisation + 3.0 * debt / income
    purpose = _choose(rng, [0.5 + 0 * age, -0.3 + 0.5 * (housing >= 2), consolidates, -0.9 - 0.8 * older, 0 * age])
    typical = np.array([9000, 8000, 7500, 5000, 3000])[purpose]
    amount = typical * np.exp(0.45 * richer + 0.5 * rng.standard_normal(n))
    amount = np.clip(100 * np.rint(amount / 100), 500, 30000)
    term = 6 * np.rint(7 * np.sqrt(amount / 9000) * np.exp(0.28 * rng.standard_normal(n)))
    term = np.clip(term, 6, 84)
    guarantor = rng.random(n) < _sigmoid(-2.4 - 0.5 * older - 0.8 * richer)

    rows_raw = np.column_stack(
        [age, income, debt, utilisation, late, amount, term, employment, savings, housing, purpose, guarantor]
    ).astype(float)
    chance = _sigmoid(default_logit(rows_raw) + year * downturn(rows_raw) + 0.6 * rng.standard_normal(n))
    return rows_raw, (rng.random(n) >= chance).astype(int)


def downturn(rows_raw: np.ndarray) -> np.ndarray:
    """What a year of rising prices adds to the log-odds of default, (n,): most for those without savings."""
    savings = rows_raw[:, [feature.name for feature in FEATURES].index("savings")]
    return np.asarray(0.5 * np.maximum(2.0 - savings, 0.0))


def default_logit(rows_raw: np.ndarray) -> np.ndarray:
    """Log-odds of default before chance: what an all-knowing credit officer would go by, (n,).

    Burden is the share of income that goes into this loan's instalment and the other debts; it hurts more beyond a
    third of the income. A longer term lowers it but leaves more time for trouble. Late payments weigh more where the
    limits are nearly exhausted; a guarantor helps most where the job is new.
    """
    age, income, debt, utilisation, late, amount, term, employment, savings, housing, purpose, guarantor = rows_raw.T
    monthly_rate = ANNUAL_RATE / 12
    instalment = amount * monthly_rate / (1 - (1 + monthly_rate) ** -term)
    burden = (instalment + debt) / income
    return np.asarray(
        -2.45
        + 4.0 * (burden - 0.2)
        + 5.0 * np.maximum(burden - 0.33, 0.0)
        + 0.14 * (amount / income - 3.4)
        + 0.008 * (term - 36)
        - 0.45 * np.log(income / 2300)
        + 0.022 * (utilisation - 40)
        + 0.75 * np.sqrt(late) * (0.7 + 0.6 * utilisation / 100)
        - 0.30 * (employment - 1.5)
        - 0.34 * (savings - 2)
        - guarantor * (0.9 + 0.5 * (employment == 0))
        - 0.012 * (np.minimum(age, 60) - 40)
        + np.array([0.25, 0.05, -0.15, -0.30])[housing.astype(int)]
        + np.array([-0.05, -0.20, 0.30, 0.10, 0.05])[purpose.astype(int)]
    )


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-value)))


def _choose(rng: np.random.Generator, utilities: list[np.ndarray]) -> np.ndarray:
    """One of several options each, with the odds that the utilities give (Gumbel's trick)."""
    noise = rng.gumbel(size=(len(utilities), len(utilities[0])))
    return np.asarray((np.array(utilities) + noise).argmax(axis=0))
