"""Derived columns: what is answered agrees with its own formulas, and costs little more than the best there is."""

import csv
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import InvalidRecord
from app.recourse import CertificateParams, RecourseProblem, action_set, solve
from app.recourse.features import Record
from app.recourse.solve import METHODS
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from tests.records.bureau import cell

Ratio = Callable[[Any, Any], Any]
"""From debt payments and income, numbers or arrays."""

RATIOS: dict[str, Ratio] = {
    "debt_payments / income": lambda debt, income: debt / income,
    "max(debt_payments - 600, 0) / max(income, 1500)": lambda debt, income: (
        np.maximum(debt - 600, 0) / np.maximum(income, 1500)
    ),
}
YEARS = {"school": 10, "apprentice": 12, "college": 14, "university": 17}
FEATURES: list[dict[str, Any]] = [
    {"name": "income", "type": "integer", "min": 500, "max": 8_000, "step": 100},
    {"name": "debt_payments", "type": "integer", "min": 0, "max": 3_000, "step": 50},
    {"name": "education", "type": "ordinal", "categories": list(YEARS), "change": "increase"},
    {"name": "debt_to_income", "type": "continuous"},
    {"name": "years", "type": "integer", "derived": {"from": "education", "table": YEARS}},
    {"name": "age", "type": "integer", "min": 18, "max": 80, "change": "none"},
]


def complete(record: Record, ratio: Ratio) -> Record:
    """The record with what follows from it, by hand."""
    return record | {
        "debt_to_income": ratio(record["debt_payments"], record["income"]),
        "years": YEARS[record["education"]],
    }


def columns(rows: list[Record], ratio: Ratio) -> np.ndarray:
    names = ("income", "debt_payments", "debt_to_income", "years", "age")
    return np.array([[float(complete(row, ratio)[name]) for name in names] for row in rows])


def applicants(n: int, seed: int) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        {
            "income": int(rng.integers(10, 81) * 100), "debt_payments": int(rng.integers(0, 50) * 50),
            "education": list(YEARS)[rng.integers(4)], "age": int(rng.integers(18, 70)),
        }
        for _ in range(n)
    ]  # fmt: skip


def logits(X: np.ndarray) -> np.ndarray:
    income, _, ratio, years, age = X.T
    return (income - 4_000) / 2_000 - 6.0 * (ratio - 0.35) + 0.25 * (years - 13) + 0.01 * (age - 40)


class Lender:
    """Trees that take every column, derived ones too, and the same outside the service."""

    def __init__(self, directory: Path, formula: str) -> None:
        import xgboost

        self.ratio = RATIOS[formula]
        rows = applicants(2_000, 0)
        rng = np.random.default_rng(0)
        y = rng.random(len(rows)) < 1.0 / (1.0 + np.exp(-2.0 * logits(columns(rows, self.ratio))))
        X = self.eaten(rows)
        settings = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1, "base_score": 0.5}
        self.booster = xgboost.train(settings, xgboost.DMatrix(X, y), num_boost_round=30)
        content = bytes(self.booster.save_raw("json"))
        directory.mkdir()
        (directory / "model.json").write_bytes(content)
        out = io.StringIO()
        base = ["income", "debt_payments", "education", "age"]
        csv.writer(out).writerows([base, *([cell(row[name]) for name in base] for row in rows)])
        (directory / "reference.csv").write_text(out.getvalue())
        manifest = {
            "id": "derived", "version": "1", "title": "Loan",
            "artifact": {"format": "xgboost", "path": "model.json", "sha256": hashlib.sha256(content).hexdigest()},
            "input": "encoded", "output": "probability", "encoding": {"continuous": "none"},
            "features": [
                feature | ({"derived": formula} if feature["name"] == "debt_to_income" else {}) for feature in FEATURES
            ],
            "reference": "reference.csv",
        }  # fmt: skip
        (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))

    def eaten(self, rows: list[Record]) -> np.ndarray:
        X = columns(rows, self.ratio)
        education = np.array([[list(YEARS).index(row["education"])] for row in rows], dtype=float)
        return np.hstack([X[:, :2], education, X[:, 2:]])

    def score(self, rows: list[Record]) -> np.ndarray:
        import xgboost

        return np.asarray(self.booster.predict(xgboost.DMatrix(self.eaten(rows))))


@pytest.fixture(scope="module", params=RATIOS)
def lender(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lender, LoadedModel]:
    pytest.importorskip("xgboost")
    directory = tmp_path_factory.mktemp("derived")
    lender = Lender(directory / "model", request.param)
    return lender, Registry(directory / "store").register(directory / "model").load()


def test_the_model_sees_what_follows_from_the_record(lender: tuple[Lender, LoadedModel]) -> None:
    rows = applicants(100, 1)
    black_box = lender[1].black_box
    scored = black_box.probability(black_box.score_raw(black_box.space.read_many(rows, pointer="")))
    np.testing.assert_allclose(scored, lender[0].score(rows), atol=1e-6)


def test_what_is_sent_of_derived_features_is_checked(lender: tuple[Lender, LoadedModel]) -> None:
    space = lender[1].black_box.space
    record = applicants(1, 2)[0]
    np.testing.assert_array_equal(space.read(record), space.read(complete(record, lender[0].ratio)))
    with pytest.raises(InvalidRecord) as caught:
        space.read(complete(record, lender[0].ratio) | {"years": 3})
    (fault,) = caught.value.faults
    assert fault.pointer == "/years"
    assert f"follows from other features as {YEARS[record['education']]}" in fault.detail


def cheapest(lender: Lender, loaded: LoadedModel, record: Record) -> float:
    """The least cost of all records that this person can reach, by trying them all."""
    import xgboost

    space = loaded.black_box.space
    low = list(YEARS).index(record["education"])
    grid = np.meshgrid(range(500, 8_001, 100), range(0, 3_001, 50), range(low, len(YEARS)))
    income, debt, education = (one.ravel().astype(float) for one in grid)
    years, age = np.array(list(YEARS.values()))[education.astype(int)], np.full(len(income), record["age"])
    X = np.column_stack([income, debt, education, lender.ratio(debt, income), years, age])
    accepted = lender.booster.predict(xgboost.DMatrix(X)) >= 0.5
    rows_raw = np.tile(space.read(record), (int(accepted.sum()), 1))
    for name, values in (("income", income), ("debt_payments", debt), ("education", education)):
        rows_raw[:, [feature.name for feature in space.features].index(name)] = values[accepted]
    return float(action_set(space, space.read(record)).cost(rows_raw).min())


@pytest.mark.parametrize("method", METHODS)
def test_answers_agree_with_their_formulas(lender: tuple[Lender, LoadedModel], method: str) -> None:
    outside, loaded = lender
    space, chosen = loaded.black_box.space, METHODS[method]
    refused = [row for row in applicants(60, 3) if outside.score([row])[0] < 0.5][:8]
    found = 0
    for record in refused:
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, action_set=action_set(space, space.read(record))
        )
        for one in solve(problem, chosen, chosen.params(), CertificateParams(), plan_s=5.0).counterfactuals:
            found += 1
            proposed = space.record(one.row_raw)
            assert proposed == complete({name: proposed[name] for name in record}, outside.ratio)
            assert outside.score([proposed])[0] >= 0.5
    assert found >= len(refused)


@pytest.mark.release
@pytest.mark.parametrize(
    "asked", [("robust_mpm", {"divergence": "none"}), ("growing_spheres", {})], ids=lambda asked: asked[0]
)
def test_answers_cost_little_more_than_the_best(
    lender: tuple[Lender, LoadedModel], asked: tuple[str, dict[str, Any]]
) -> None:
    """Of the methods that ask for nothing but acceptance, the cost is that of the best of all records."""
    outside, loaded = lender
    space, chosen = loaded.black_box.space, METHODS[asked[0]]
    rows = applicants(1_000, 4)
    refused = [row for row, p in zip(rows, outside.score(rows), strict=True) if p < 0.5][:100]
    assert len(refused) == 100
    ratios = []
    for record in refused:
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, action_set=action_set(space, space.read(record))
        )
        result = solve(problem, chosen, chosen.params(**asked[1]), CertificateParams(), plan_s=5.0)
        ratios.append(result.counterfactuals[0].cost / cheapest(outside, loaded, record))
    assert min(ratios) >= 1.0 - 1e-9
    assert np.median(ratios) <= 1.01
    assert np.mean(ratios) <= 1.05
