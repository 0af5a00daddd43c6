"""Levels that are numbers, and missing values, reach boosted trees as in training; what no file says is asked."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from tests.optional import library
from tests.registry.drafting.loans import loans

N = 600
BRANCHES = (3, 17, 120, 450)


def table(branches: tuple[int, ...] = BRANCHES, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Loans with a branch, which decides who repays, and who does."""
    rng = np.random.default_rng(seed)
    made = loans(N, seed)
    numbers = {**made.numbers, "branch": rng.choice(branches, N)}
    good = np.where((numbers["branch"] == branches[1]) & (rng.random(N) < 0.7), 1, made.outcome)
    good = np.where((numbers["branch"] == branches[-1]) & (rng.random(N) < 0.7), 0, good)
    return numbers, good


def drafted(
    tmp_path: Path,
    numbers: Mapping[str, Any],
    good: np.ndarray,
    model: str,
    scores: np.ndarray | None = None,
    **answers: str,
) -> LoadedModel:
    """The registered draft."""
    cells = {name: ["" if value != value else str(value) for value in values.tolist()]
             for name, values in numbers.items()}  # fmt: skip
    lines = [",".join([*cells, "outcome"]), *map(",".join, zip(*cells.values(), map(str, good.tolist()), strict=True))]
    (tmp_path / "loans.csv").write_text("\n".join(lines) + "\n")
    if scores is not None:
        (tmp_path / "scores.csv").write_text("\n".join(["score", *map(repr, scores.astype(float).tolist())]))
    wish = Wish(
        data=tmp_path / "loans.csv", model=tmp_path / model, label="outcome", favourable="1", answers=answers,
        scores=None if scores is None else str(tmp_path / "scores.csv"),
    )  # fmt: skip
    draft(wish, tmp_path / "drafted", Trust())
    return Registry(tmp_path / "store", Trust()).register(tmp_path / "drafted").load()


def agrees(model: LoadedModel, scores: np.ndarray) -> None:
    np.testing.assert_allclose(model.black_box.probability(model.reference.scores), scores, atol=1e-6)


def asked(caught: pytest.ExceptionInfo[Undecided]) -> list[str]:
    return [question.name for question in caught.value.questions]


# --- codes of levels -------------------------------------------------------------------------------------------------


def lightgbm_model(path: Path, X: np.ndarray, names: list[str], good: np.ndarray) -> np.ndarray:
    lightgbm = library("lightgbm")
    params = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_per_group": 5, "cat_smooth": 1.0}
    data = lightgbm.Dataset(X, good, feature_name=names, categorical_feature=["branch"])
    booster = lightgbm.train(params, data, 15)
    booster.save_model(path / "model.txt")
    return np.asarray(booster.predict(X))


@pytest.mark.parametrize("branches", [BRANCHES, (-1, 3, 17, 120), (0, 1, 2, 3), (1, 2, 3, 4)])
def test_whole_numbers_that_lightgbm_splits_as_categories_are_levels(tmp_path: Path, branches: tuple[int, ...]) -> None:
    numbers, good = table(branches)
    scores = lightgbm_model(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good)
    model = drafted(tmp_path, numbers, good, "model.txt")
    agrees(model, scores)
    branch = model.registered.manifest.features[-1]
    assert branch.type == "categorical"
    assert set(branch.categories) >= {str(one) for one in branches}


def test_positions_of_levels_are_found_where_the_codes_can_be_nothing_else(tmp_path: Path) -> None:
    """The lender coded 1 to 4 as 0 to 3 before training."""
    numbers, good = table((1, 2, 3, 4))
    X = np.column_stack(list(numbers.values()))
    X[:, -1] -= 1
    scores = lightgbm_model(tmp_path, X, list(numbers), good)
    agrees(drafted(tmp_path, numbers, good, "model.txt"), scores)


def test_levels_in_words_that_are_coded_are_asked_about(tmp_path: Path) -> None:
    numbers, good = table((0, 1, 2, 3))
    scores = lightgbm_model(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good)
    words = {**numbers, "branch": np.array(["east", "north", "south", "west"])[numbers["branch"]]}
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, words, good, "model.txt")
    assert asked(caught) == ["codes.branch"]
    agrees(drafted(tmp_path, words, good, "model.txt", None, **{"codes.branch": "yes"}), scores)


def xgboost_codes(path: Path, X: np.ndarray, names: list[str], good: np.ndarray) -> np.ndarray:
    xgboost = library("xgboost")
    kinds = ["c" if name == "branch" else "float" for name in names]
    data = xgboost.DMatrix(X, good, feature_names=names, feature_types=kinds, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, 15)
    booster.save_model(path / "model.json")
    return np.asarray(booster.predict(data))


def test_codes_of_xgboost_are_numbers_where_they_can_be_nothing_else(tmp_path: Path) -> None:
    numbers, good = table()
    scores = xgboost_codes(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good)
    agrees(drafted(tmp_path, numbers, good, "model.json"), scores)


@pytest.mark.parametrize("shift", [0, 1])
def test_codes_that_can_be_both_are_asked_about_or_shown_by_scores(tmp_path: Path, shift: int) -> None:
    numbers, good = table((1, 2, 3, 5))
    X = np.column_stack(list(numbers.values()))
    if shift:
        X[:, -1] = np.searchsorted([1, 2, 3, 5], X[:, -1])
    scores = xgboost_codes(tmp_path, X, list(numbers), good)
    agrees(drafted(tmp_path, numbers, good, "model.json", scores), scores)


# --- missing values --------------------------------------------------------------------------------------------------


def xgboost_missing(
    path: Path, X: np.ndarray, names: list[str], good: np.ndarray, missing: float, trees: int = 20
) -> np.ndarray:
    xgboost = library("xgboost")
    model = xgboost.XGBClassifier(n_estimators=trees, max_depth=3, n_jobs=1, missing=missing)
    model.fit(X, good)
    model.get_booster().feature_names = names
    model.get_booster().save_model(path / "model.json")
    return np.asarray(model.predict_proba(X)[:, 1])


def gaps(missing: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A column with many missing values, whose people mostly repay."""
    rng = np.random.default_rng(3)
    made = loans(N)
    bureau = rng.integers(300, 850, N).astype(float)
    absent = rng.random(N) < 0.2
    bureau[absent] = missing
    return {**made.numbers, "bureau": bureau}, np.where(absent & (rng.random(N) < 0.8), 1, made.outcome)


@pytest.mark.parametrize("missing", [-999.0, -1.0, 0.0, 9999.0])
def test_a_number_that_is_read_as_missing_is_asked_for_or_shown_by_scores(tmp_path: Path, missing: float) -> None:
    numbers, good = gaps(missing)
    scores = xgboost_missing(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good, missing)
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, numbers, good, "model.json")
    assert asked(caught) == ["missing"]
    model = drafted(tmp_path, numbers, good, "model.json", None, missing=f"{missing:g}")
    agrees(model, scores)
    assert model.registered.manifest.file.missing == missing


def test_scores_show_the_number_that_is_read_as_missing(tmp_path: Path) -> None:
    numbers, good = gaps(-999.0)
    scores = xgboost_missing(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good, -999.0)
    agrees(drafted(tmp_path, numbers, good, "model.json", scores), scores)


def test_a_model_without_missing_values_is_not_asked_about(tmp_path: Path) -> None:
    numbers, good = gaps(420.0)
    scores = xgboost_missing(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good, np.nan)
    agrees(drafted(tmp_path, numbers, good, "model.json"), scores)


def test_empty_cells_are_what_the_model_had_as_missing(tmp_path: Path) -> None:
    numbers, good = gaps(np.nan)
    scores = xgboost_missing(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good, np.nan)
    agrees(drafted(tmp_path, numbers, good, "model.json"), scores)


@pytest.mark.parametrize("library_name", ["xgboost", "lightgbm"])
def test_what_the_model_had_in_place_of_missing_values_is_asked_for(tmp_path: Path, library_name: str) -> None:
    """The records have empty cells, and the model was trained on -5 in their place."""
    numbers, good = gaps(np.nan)
    X = np.nan_to_num(np.column_stack(list(numbers.values())), nan=-5.0)
    if library_name == "xgboost":
        name, scores = "model.json", xgboost_missing(tmp_path, X, list(numbers), good, np.nan)
    else:
        lightgbm = library("lightgbm")
        data = lightgbm.Dataset(X, good, feature_name=list(numbers))
        booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 15)
        booster.save_model(tmp_path / "model.txt")
        name, scores = "model.txt", booster.predict(X)
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, numbers, good, name)
    assert asked(caught) == ["fill.bureau"]
    agrees(drafted(tmp_path, numbers, good, name, None, **{"fill.bureau": "-5"}), scores)


# --- models that take no missing numbers -----------------------------------------------------------------------------


FILLINGS = {"median": np.median, "mean": np.mean, "0": lambda known: 0.0}


def _with_gaps(directory: Path, kind: str, way: str) -> tuple[Path, np.ndarray]:
    """A model file, and what it gives; its training had numbers in place of missing ones."""
    made = loans(600)
    rng = np.random.default_rng(4)
    gaps = {name: np.where(rng.random(600) < 0.1, np.nan, made.column(name)) for name in ("income", "dti")}
    numbers = {**made.numbers, **gaps}
    X = np.column_stack([
        np.where(np.isnan(column), FILLINGS[way](column[~np.isnan(column)]), column) for column in numbers.values()
    ])  # fmt: skip
    lines = [",".join([*numbers, "outcome"])]
    for row in zip(*(column.tolist() for column in numbers.values()), made.outcome.tolist(), strict=True):
        lines.append(",".join("" if cell != cell else repr(cell) for cell in row))
    (directory / "loans.csv").write_text("\n".join(lines))
    if kind == "linear":
        weights = dict(zip(numbers, (0.001, -0.1, 0.004, -0.15), strict=True))
        path = directory / "weights.json"
        path.write_text(json.dumps({"space": "raw", "intercept": 1.0, "weights": weights}))
        return path, 1 / (1 + np.exp(-(X @ np.array(list(weights.values())) + 1.0)))
    library("sklearn")
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    last = LogisticRegression() if kind == "matrix" else GradientBoostingClassifier(n_estimators=20, random_state=0)
    fitted = make_pipeline(StandardScaler(), last).fit(X, made.outcome)
    path = directory / "model.skops"
    path.write_bytes(library("skops.io").dumps(fitted))
    return path, fitted.predict_proba(X)[:, 1]


@pytest.mark.slow
@pytest.mark.parametrize("way", FILLINGS)
@pytest.mark.parametrize("kind", ["linear", "matrix", "trees"])
def test_what_stands_for_a_missing_number_is_asked_or_shown_by_scores(tmp_path: Path, kind: str, way: str) -> None:
    model, truth = _with_gaps(tmp_path, kind, way)
    wish = Wish(data=tmp_path / "loans.csv", model=model, label="outcome", favourable="1")
    with pytest.raises(Undecided) as caught:
        draft(wish, tmp_path / "loan", Trust())
    assert [one.name for one in caught.value.questions] == ["filled"]
    (tmp_path / "own.csv").write_text("\n".join(map(repr, truth.tolist())))
    for more in ({"answers": {"filled": way}}, {"scores": str(tmp_path / "own.csv")}):
        place = tmp_path / next(iter(more))
        draft(replace(wish, **more), place, Trust())
        loaded = Registry(tmp_path / f"store{place.name}").register(place).load()
        np.testing.assert_allclose(loaded.black_box.probability(loaded.reference.scores), truth, atol=1e-6)


def test_blanks_that_lightgbm_wrote_as_underscores_are_matched_beside_categories(tmp_path: Path) -> None:
    lightgbm, pandas = library("lightgbm"), library("pandas")
    made = loans(N)
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({
        **{f"own {name}": column for name, column in made.numbers.items()},
        "kind of housing": rng.choice(["owned", "rented", "with family"], N),
    })  # fmt: skip
    good = np.where((frame["kind of housing"] == "rented") & (rng.random(N) < 0.8), 0, made.outcome)
    given = frame.assign(**{"kind of housing": frame["kind of housing"].astype("category")})
    fitted = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(given, good)
    fitted.booster_.save_model(tmp_path / "model.txt")
    assert "kind_of_housing" in fitted.booster_.feature_name()
    frame.assign(outcome=good).to_csv(tmp_path / "loans.csv", index=False)
    wish = Wish(data=tmp_path / "loans.csv", model=tmp_path / "model.txt", label="outcome", favourable="1")
    draft(wish, tmp_path / "loan", Trust())
    loaded = Registry(tmp_path / "store").register(tmp_path / "loan").load()
    found = loaded.black_box.probability(loaded.reference.scores)
    np.testing.assert_allclose(found, fitted.predict_proba(given)[:, 1], atol=1e-9)


def test_missing_values_that_all_go_to_one_side_are_not_taken_for_values_of_another_column(tmp_path: Path) -> None:
    """Records without a number of late payments are as good as those with none, so that they always go left."""
    rng = np.random.default_rng(6)
    absent, income = rng.random(2 * N) < 0.2, rng.uniform(1000.0, 6000.0, 2 * N).round()
    late = np.where(absent, 0.0, rng.integers(0, 2, 2 * N))
    good = (rng.random(2 * N) < 1 / (1 + np.exp(2.5 * late - income / 2000))).astype(int)
    numbers = {"income": income, "late_payments": np.where(absent, np.nan, late)}
    scores = xgboost_missing(tmp_path, np.column_stack(list(numbers.values())), list(numbers), good, np.nan, 4)
    agrees(drafted(tmp_path, numbers, good, "model.json"), scores)
