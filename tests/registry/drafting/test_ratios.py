"""Ratios and sums of other columns are derived, so that no answer leaves them behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.recourse.models.score import sigmoid
from app.registry.drafting.draft import Wish, draft
from app.registry.registry import Registry
from app.registry.trust import Trust

RNG = np.random.default_rng(0)
AMOUNT = 100.0 * RNG.integers(10, 350, 300)
INCOME = RNG.integers(9_000, 90_000, 300)
DEBTS = RNG.integers(0, 9_000, 300)


def features(tmp_path: Path, *, scores: bool = False, **columns: np.ndarray) -> dict[str, Any]:
    """Draft a linear model of these columns; it registers."""
    z = 2.0 - AMOUNT / 20_000 + (INCOME - 50_000) / 40_000
    good = np.random.default_rng(1).random(300) < sigmoid(z)
    weights = dict.fromkeys(columns, 0.0) | {next(iter(columns)): -1e-4}
    (tmp_path / "m.json").write_text(json.dumps({"space": "raw", "intercept": 1.0, "weights": weights}))
    table = dict(columns) | {"good": good.astype(int)}
    if scores:
        table["own"] = sigmoid(1.0 - 1e-4 * next(iter(columns.values())))
    rows = zip(*(values.tolist() for values in table.values()), strict=True)
    (tmp_path / "d.csv").write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]))
    wish = Wish(
        data=tmp_path / "d.csv", model=tmp_path / "m.json", label="good", favourable="1",
        scores="own" if scores else None,
    )  # fmt: skip
    draft(wish, tmp_path / "loan", Trust())
    Registry(tmp_path / "store").register(tmp_path / "loan")
    manifest = yaml.safe_load((tmp_path / "loan/model.yaml").read_text())
    return {feature["name"]: feature for feature in manifest["features"]}


@pytest.mark.parametrize(
    ("name", "values", "formula"),
    [
        ("loan_percent_income", AMOUNT / INCOME, "loan_amnt / person_income"),
        ("loan_percent_income", np.round(AMOUNT / INCOME, 2), "loan_amnt / person_income"),
        ("dti", np.round(1200 * DEBTS / INCOME, 2), "1200 * debts / person_income"),
        ("total_owed", AMOUNT + DEBTS, "loan_amnt + debts"),
    ],
)
def test_what_follows_from_two_columns_is_derived(tmp_path: Path, name: str, values: np.ndarray, formula: str) -> None:
    found = features(tmp_path, loan_amnt=AMOUNT, person_income=INCOME, debts=DEBTS, **{name: values})
    assert found[name]["derived"] == formula
    assert "change" not in found[name]
    assert found["loan_amnt"]["change"] == "decrease"


def test_a_rounded_ratio_stays_as_it_is_where_scores_are_compared(tmp_path: Path) -> None:
    """The formula does not round, so its scores would differ; nobody is advised to leave the ratio behind."""
    ratio = np.round(AMOUNT / INCOME, 2)
    found = features(tmp_path, scores=True, loan_amnt=AMOUNT, person_income=INCOME, loan_percent_income=ratio)
    assert "derived" not in found["loan_percent_income"]
    assert {found[name]["change"] for name in found} == {"none"}


def test_numbers_that_only_look_like_a_ratio_are_left_alone(tmp_path: Path) -> None:
    near = AMOUNT / INCOME
    near[7] *= 1.5
    found = features(tmp_path, loan_amnt=AMOUNT, person_income=INCOME, loan_percent_income=near)
    assert "derived" not in found["loan_percent_income"]
