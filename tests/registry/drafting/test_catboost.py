"""A model of CatBoost is read by its own library where that is installed; elsewhere the ways out are said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.optional import library

catboost, pandas = library("catboost"), library("pandas")
library("onnx")
library("onnxruntime")

NAMES = ["income", "debts", "months in job"]


def table() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    numbers = rng.integers(900, 6_000, 500), 10.0 * rng.integers(0, 250, 500), rng.integers(0, 180, 500)
    values = np.column_stack(numbers)
    good = values[:, 0] - values[:, 1] + 9 * values[:, 2] + rng.normal(0, 900, 500) > 2_600
    values[rng.random(500) < 0.1, 1] = np.nan
    housing = rng.choice(["owned", "rented"], 500)
    return pandas.DataFrame(values, columns=NAMES).assign(housing=housing), good.astype(int)


def fitted(X: Any, y: Any, **more: Any) -> Any:
    return catboost.CatBoostClassifier(iterations=20, depth=3, verbose=0, allow_writing_files=False, **more).fit(X, y)


KINDS: dict[str, Callable[[Any, np.ndarray], tuple[Any, Any]]] = {
    "a table": lambda X, y: (fitted(X[NAMES], y), X[NAMES]),
    "a matrix": lambda X, y: (fitted(X[NAMES].to_numpy(), y), X[NAMES].to_numpy()),
    "classes in words": lambda X, y: (fitted(X[NAMES], np.where(y == 1, "good", "bad")), X[NAMES]),
    "columns in another order": lambda X, y: (fitted(X[NAMES[::-1]], y), X[NAMES[::-1]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_its_scores_are_those_of_catboost(tmp_path: Path, kind: str) -> None:
    X, y = table()
    model, given = KINDS[kind](X, y)
    model.save_model(str(tmp_path / "model.cbm"))
    X[NAMES].assign(outcome=y).to_csv(tmp_path / "loans.csv", index=False)
    wish = Wish(data=tmp_path / "loans.csv", model=tmp_path / "model.cbm", label="outcome", favourable="1")
    drafted = draft(wish, tmp_path / "loan", Trust())
    assert "model.cbm is written again as model.onnx, which needs no CatBoost." in drafted.notes
    loaded = Registry(tmp_path / "store").register(tmp_path / "loan").load()
    found = loaded.black_box.probability(loaded.reference.scores)
    np.testing.assert_allclose(found, model.predict_proba(given)[:, 1], atol=1e-6)


def test_categories_of_catboost_have_a_way_out(tmp_path: Path) -> None:
    X, y = table()
    fitted(X, y, cat_features=["housing"]).save_model(str(tmp_path / "model.cbm"))
    X.assign(outcome=y).to_csv(tmp_path / "loans.csv", index=False)
    with pytest.raises(ModelRefused, match=r"takes categories or texts, .* serve it and say --url"):
        draft(Wish(data=tmp_path / "loans.csv", model=tmp_path / "model.cbm"), tmp_path / "loan", Trust())


def test_what_only_begins_like_one_is_damaged(tmp_path: Path) -> None:
    X, y = table()
    X.assign(outcome=y).to_csv(tmp_path / "loans.csv", index=False)
    (tmp_path / "model.cbm").write_bytes(b"CBM1" + bytes(99))
    with pytest.raises(ModelRefused, match="not a model of CatBoost, or it is damaged"):
        draft(Wish(data=tmp_path / "loans.csv", model=tmp_path / "model.cbm"), tmp_path / "loan", Trust())
