"""Files as lenders have them: each is read, against the library that made it, or refused with the way out."""

import csv
import io
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ModelRefused
from app.recourse.models.score import Output
from app.registry.drafting import onnx_file
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.lender_scores import outputs_of
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from tests.optional import library
from tests.registry.drafting.loans import Made, loans

MADE = loans()


def drafted(
    tmp_path: Path, name: str, content: bytes, *, made: Made = MADE, label: str | None = "outcome", **answers: str
) -> LoadedModel:
    """The registered draft of a file of this name."""
    (tmp_path / name).write_bytes(content)
    lines = [",".join(made.columns), *(",".join(map(str, row)) for row in made.rows())]
    (tmp_path / "loans.csv").write_text("\n".join(lines))
    given = answers if label is None else {"favourable": "1", **answers}
    wish = Wish(data=tmp_path / "loans.csv", model=tmp_path / name, label=label, answers=given,
                drop=() if label else ("outcome",))  # fmt: skip
    draft(wish, tmp_path / "drafted", Trust(pickle=True))
    return Registry(tmp_path / "store", Trust(pickle=True)).register(tmp_path / "drafted").load()


def outputs(model: LoadedModel) -> np.ndarray:
    return outputs_of(model.black_box, model.reference.scores)


# --- boosted trees ---------------------------------------------------------------------------------------------------


def boosted(**params: Any) -> tuple[bytes, np.ndarray]:
    xgboost = library("xgboost")
    data = xgboost.DMatrix(MADE.matrix, MADE.outcome, feature_names=list(MADE.numbers))
    booster = xgboost.train({"max_depth": 3, "nthread": 1, **params}, data, 15)
    return bytes(booster.save_raw("json")), booster.predict(data)


@pytest.mark.parametrize(
    "params",
    [
        {"booster": "dart", "rate_drop": 0.3, "objective": "binary:logistic"},
        {"objective": "reg:logistic"},
        {"objective": "binary:logistic", "num_parallel_tree": 4, "subsample": 0.7},
    ],
    ids=["dart", "reg:logistic", "forest"],
)
def test_trees_of_xgboost_are_read(tmp_path: Path, params: dict[str, Any]) -> None:
    content, scores = boosted(**params)
    np.testing.assert_allclose(outputs(drafted(tmp_path, "model.json", content)), scores, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "way_out"),
    [
        (
            {"booster": "gblinear", "max_depth": None, "objective": "binary:logistic"},
            "is gblinear, .* a linear model",
        ),
        ({"objective": "binary:hinge"}, "objective binary:hinge.* train it with binary:logistic"),
        ({"objective": "multi:softprob", "num_class": 2}, "multi:softprob.* of two, train it with binary:logistic"),
        ({"objective": "count:poisson"}, "objective count:poisson.* train it with binary:logistic"),
    ],
)
def test_other_models_of_xgboost_are_refused_with_the_way_out(
    tmp_path: Path, params: dict[str, Any], way_out: str
) -> None:
    content, _ = boosted(**{key: value for key, value in params.items() if value is not None or key == "max_depth"})
    with pytest.raises(ModelRefused, match=way_out):
        drafted(tmp_path, "model.json", content)


def test_the_names_of_lightgbm_have_underscores_for_blanks(tmp_path: Path) -> None:
    lightgbm = library("lightgbm")
    names = ["monthly income (EUR)", "debts/credit.lines", "Dauer im Job é", "int rate"]
    data = lightgbm.Dataset(MADE.matrix, MADE.outcome, feature_name=[name.replace(" ", "_") for name in names])
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 15)
    made = Made(dict(zip(names, MADE.numbers.values(), strict=True)), MADE.outcome)
    model = drafted(tmp_path, "model.txt", booster.model_to_string().encode(), made=made)
    np.testing.assert_allclose(outputs(model), booster.predict(MADE.matrix), atol=1e-9)


# --- regressors and points -------------------------------------------------------------------------------------------

LIMIT = np.round(2 * MADE.column("income") - 40 * MADE.column("dti") + 15 * MADE.column("months_in_job"), -2)


def regressor_of_xgboost() -> tuple[str, bytes, np.ndarray]:
    xgboost = library("xgboost")
    data = xgboost.DMatrix(MADE.matrix, LIMIT, feature_names=list(MADE.numbers))
    booster = xgboost.train({"max_depth": 3, "nthread": 1, "objective": "reg:squarederror"}, data, 15)
    return "model.json", bytes(booster.save_raw("json")), booster.predict(data)


def regressor_of_lightgbm() -> tuple[str, bytes, np.ndarray]:
    lightgbm = library("lightgbm")
    data = lightgbm.Dataset(MADE.matrix, LIMIT, feature_name=list(MADE.numbers))
    booster = lightgbm.train({"objective": "regression", "verbose": -1, "num_threads": 1}, data, 15)
    return "model.txt", booster.model_to_string().encode(), booster.predict(MADE.matrix)


def regressor_of_sklearn() -> tuple[str, bytes, np.ndarray]:
    library("sklearn")
    import pandas
    from sklearn.ensemble import GradientBoostingRegressor

    table = pandas.DataFrame(MADE.numbers)
    fitted = GradientBoostingRegressor(n_estimators=15, random_state=0).fit(table, LIMIT)
    return "model.skops", library("skops.io").dumps(fitted), fitted.predict(table)


@pytest.mark.parametrize("make", [regressor_of_xgboost, regressor_of_lightgbm, regressor_of_sklearn])
def test_a_regressor_gives_points_whose_threshold_is_asked(
    tmp_path: Path, make: Callable[[], tuple[str, bytes, np.ndarray]]
) -> None:
    name, content, expected = make()
    with pytest.raises(Undecided) as caught:
        drafted(tmp_path, name, content, label=None)
    assert [question.name for question in caught.value.questions] == ["threshold", "better"]
    model = drafted(tmp_path, name, content, label=None, threshold="8000", better="higher")
    np.testing.assert_allclose(outputs(model), expected, rtol=1e-6)
    np.testing.assert_array_equal(model.reference.scores >= 0.0, expected >= 8_000)
    assert model.black_box.probability(model.reference.scores) is None
    # None is cut off where the scores of the core end: people far below the threshold are still told apart.
    assert len(set(model.reference.scores.tolist())) == len(set(expected.tolist()))


# --- pickles and other names -----------------------------------------------------------------------------------------


def logistic() -> tuple[Any, np.ndarray]:
    library("sklearn")
    import pandas
    from sklearn.linear_model import LogisticRegression

    table = pandas.DataFrame(MADE.numbers)
    fitted = LogisticRegression(max_iter=2_000).fit(table, MADE.outcome)
    return fitted, fitted.predict_proba(table)[:, 1]


@pytest.mark.parametrize("name", ["model.pickle", "model.sav", "model.dat", "model"])
def test_a_pickle_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    fitted, scores = logistic()
    np.testing.assert_allclose(outputs(drafted(tmp_path, name, pickle.dumps(fitted))), scores, atol=1e-9)


@pytest.mark.parametrize("name", ["model.bin", "model.model"])
def test_a_booster_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    xgboost = library("xgboost")
    booster = xgboost.Booster(model_file=bytearray(boosted(objective="binary:logistic")[0]))
    scores = booster.predict(xgboost.DMatrix(MADE.matrix, feature_names=list(MADE.numbers)))
    np.testing.assert_allclose(outputs(drafted(tmp_path, name, bytes(booster.save_raw("ubj")))), scores, atol=1e-6)


def test_an_estimator_among_others_is_refused_with_what_to_save(tmp_path: Path) -> None:
    content = pickle.dumps({"features": ["income"], "classifier": logistic()[0]})
    with pytest.raises(
        ModelRefused, match=r'but dict: save the estimator alone, as joblib\.dump\(bundle\["classifier"\]'
    ):
        drafted(tmp_path, "bundle.pkl", content)


def test_a_function_of_the_training_program_is_named(tmp_path: Path) -> None:
    """As pickle writes a function of the program that was started."""
    content = b"c__main__\nratio_of_debts\n."
    with pytest.raises(ModelRefused, match=r"it needs ratio_of_debts of the program that trained it \(__main__\)"):
        drafted(tmp_path, "model.pkl", content)


@pytest.mark.parametrize(
    ("name", "content", "way_out"),
    [
        ("model.cbm", b"CBM1" + bytes(99), 'CatBoost, .* format="onnx"'),
        ("model.pmml", b'<?xml version="1.0"?><PMML version="4.4"></PMML>', "is PMML, .* scorecard as CSV"),
        ("model.model", b"binf" + bytes(99), r"old binary form: .*save_model"),
        ("model.dat", b"nothing that is known", "no known format"),
    ],
)
def test_other_formats_are_named_with_the_way_out(
    tmp_path: Path, name: str, content: bytes, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)  # as where it is not installed
    with pytest.raises(ModelRefused, match=way_out):
        drafted(tmp_path, name, content)


def test_a_text_that_is_the_same_for_all_is_fixed(tmp_path: Path) -> None:
    library("sklearn")
    import pandas
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    made = MADE.with_column("country", np.full(len(MADE.outcome), "DE"))
    table = pandas.DataFrame(made.numbers)
    columns = make_column_transformer((OneHotEncoder(), ["country"]), (StandardScaler(), list(MADE.numbers)))
    fitted = make_pipeline(columns, LogisticRegression()).fit(table, made.outcome)
    model = drafted(tmp_path, "model.skops", library("skops.io").dumps(fitted), made=made)
    np.testing.assert_allclose(outputs(model), fitted.predict_proba(table)[:, 1], atol=1e-9)
    assert model.registered.manifest.features[-1].is_fixed


# --- scorecards of libraries -----------------------------------------------------------------------------------------

OPTBINNING = """Variable,Bin id,Bin,Count,WoE,Points
income,0,"(-inf, 3000.50)",9,-.5,20.5
income,1,"[3000.50, 6000.00)",9,.1,45.25
income,2,"[6000.00, inf)",9,.2,70
income,3,Special,0,0,44
income,4,Missing,0,0,44
grade,0,['a'],9,.1,55
grade,1,['b' 'c c'],9,.1,30
grade,2,Special,0,0,44
grade,3,Missing,0,0,20
"""
SCORECARDPY = """variable,bin,points
basepoints,,450
income,"[-inf,3000.5)",-20
income,"[3000.5,6000)",5
income,"[6000,inf)",30
grade,a,12
grade,"b%,%c c",-6
grade,missing,-9
"""
TOAD = """name,value,score
income,[-inf ~ 3000.5),20.1
income,[3000.5 ~ 6000),40.2
income,[6000 ~ inf),60
grade,a,44
grade,"b,c c,nan",21
"""
CARDS: dict[str, tuple[str, float, tuple[float, float, float], dict[str, float]]] = {
    "optbinning": (OPTBINNING, 0, (20.5, 45.25, 70), {"a": 55, "b": 30, "c c": 30, "": 20}),
    "scorecardpy": (SCORECARDPY, 450, (-20, 5, 30), {"a": 12, "b": -6, "c c": -6, "": -9}),
    "toad": (TOAD, 0, (20.1, 40.2, 60), {"a": 44, "b": 21, "c c": 21, "": 21}),
}


@pytest.mark.parametrize("json_of_toad", [False, True])
@pytest.mark.parametrize("kind", CARDS)
def test_scorecards_of_libraries_are_read(tmp_path: Path, kind: str, json_of_toad: bool) -> None:
    text, base, steps, levels = CARDS[kind]
    grade = np.random.default_rng(2).choice(list(levels), len(MADE.outcome))
    made = MADE.with_column("grade", grade)
    expected = base + np.array(steps)[np.searchsorted([3000.5, 6000], made.column("income"), side="right")]
    expected += np.array([levels[one] for one in grade])
    name, content = "card.csv", text.encode()
    if json_of_toad:
        if kind != "toad":
            pytest.skip("only toad writes JSON")
        found: dict[str, dict[str, float]] = {}
        for line in csv.DictReader(io.StringIO(text)):
            found.setdefault(line["name"], {})[line["value"]] = float(line["score"])
        name, content = "card.json", json.dumps(found).encode()
    middle = repr(float(np.median(expected)))
    np.testing.assert_allclose(outputs(drafted(tmp_path, name, content, made=made, threshold=middle)), expected)


# --- graphs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "chosen"),
    [
        (["variable"], (Output.PROBABILITY, None)),
        (["raw", "probabilities"], (Output.PROBABILITY, "probabilities")),
        (["raw", "margin"], None),
        (["prob_good", "prob_bad"], None),
    ],
)
def test_the_output_of_a_graph_that_has_probabilities_is_found(
    outputs: list[str], chosen: tuple[Output, str | None] | None
) -> None:
    helper, kind = library("onnx").helper, library("onnx").TensorProto.FLOAT
    nodes = [helper.make_node("Sigmoid", ["x"], [name]) for name in outputs]
    matrix = [helper.make_tensor_value_info(name, kind, [None, 3]) for name in ("x", *outputs)]
    model = helper.make_model(helper.make_graph(nodes, "g", matrix[:1], matrix[1:])).SerializeToString()
    if chosen is None:
        with pytest.raises(ModelRefused, match=f"has the outputs {', '.join(outputs)}: export only the one with the"):
            onnx_file.read("m.onnx", model)
    else:
        facts = onnx_file.read("m.onnx", model)
        assert (facts.output, facts.artifact.get("output_name")) == chosen
