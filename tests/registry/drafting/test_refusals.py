"""What cannot be drafted is refused in a sentence that says what to do, and nothing is written."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.trust import Trust
from tests.registry.drafting.lender import TRAINED, Lender, lender, trained_pipeline
from tests.registry.test_wrong_directories import LIBRARY_WORDS


def refused(tmp_path: Path, **wish: Any) -> str:
    if "data" not in wish:
        wish["data"] = lender().write(tmp_path / "loans.csv")
    with pytest.raises(ModelRefused) as caught:
        draft(Wish(**wish), tmp_path / "loan", Trust())
    assert not (tmp_path / "loan").exists()
    said = str(caught.value)
    assert not LIBRARY_WORDS.search(said), said
    return said


def changed(records: Lender, name: str, of: Callable[[str], str]) -> dict[str, list[str]]:
    return {name: [of(text) for text in records.columns[name]]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has no header|0 records"),
        (b"a,b\n1,2\n", "has 1 records below its header; at least 2"),
        (b"1,2\n3,4\n5,6\n", "its first line must be the names of the columns"),
        (b"a,b\n1,2\n3\n4,5\n", "another number of cells in 1 lines, the first of them line 3"),
        (b"a,a\n1,2\n3,4\n", 'has the column "a" more than once'),
        (b"\xff\xfea\x00", "not a text in UTF-8: save it as CSV"),
    ],
)
def test_records_that_are_no_table(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "loans.csv").write_bytes(content)
    assert re.search(sentence, refused(tmp_path, data=tmp_path / "loans.csv"))


def test_parquet_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "loans.parquet").touch()
    assert "pip install pyarrow, or save it as CSV" in refused(tmp_path, data=tmp_path / "loans.parquet")


def test_records_that_are_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refused(tmp_path, data=tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["pipe.csv", "pipe.parquet"])
@pytest.mark.timeout(20)
def test_what_may_never_end_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    told = "cannot be read: it is a pipe or a device, not a file"
    assert told in refused(tmp_path, data=tmp_path / name)
    assert told in refused(tmp_path, scores=str(tmp_path / name))
    assert told in refused(tmp_path, scores="/dev/null")


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"label": "result"}, 'has no column "result" for the label; it has customer_id, age'),
        ({"label": "housing"}, "Which value of housing is the good outcome"),
        ({"label": "gender"}, "say --favourable female or --favourable male"),
        ({"label": "outcome", "favourable": "yes"}, '--favourable "yes" must be bad or good, .* value of outcome'),
        ({"scores": "points"}, '--scores "points" is neither a file nor a column of loans.csv'),
        ({"scores": "housing"}, 'the column "housing" is to hold scores, but record 0 has'),
        ({"drop": ("id",)}, 'has no column "id" for --drop'),
        ({"id": "My Model"}, '--id "My Model" must be of lower-case letters'),
    ],
)
def test_what_the_lender_says(tmp_path: Path, wish: dict[str, Any], sentence: str) -> None:
    assert re.search(sentence, refused(tmp_path, **wish), re.IGNORECASE)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("model.bin", b"x", "of no known format; the names of models end in .skops"),
        ("model.json", b'{"learner": {', "not a model of XGBoost, or it is damaged or cut off: save the model again"),
        ("model.ubj", b"{L", "not a model of XGBoost, or it is damaged or cut off"),
        ("model.txt", b"tree\nversion=v4\n", "not a model of LightGBM"),
        ("model.onnx", b"\x08", "not a model in ONNX, or it is damaged"),
        ("model.json", b'{"weights": ', "is no JSON, or cut off"),
        ("model.skops", b"PK", "cannot be read"),
        ("model.safetensors", b"x", "cannot be read"),
        ("model.joblib", b"x", "--trust-pickle"),
    ],
)
def test_models_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert sentence in refused(tmp_path, model=tmp_path / name)


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        (None, "is a directory without MLmodel"),
        ({"run_id": "x"}, "names no flavors"),
        ({"flavors": {"spark": {}}}, "has the flavors spark, of which none can be read"),
        ({"flavors": {"xgboost": {"data": "../secret"}}}, "there is no such file"),
        ({"flavors": {"xgboost": {"data": "model.xgb"}}}, "there is no such file"),
    ],
)
def test_directories_of_mlflow(tmp_path: Path, described: Any, sentence: str) -> None:
    place = tmp_path / "saved"
    place.mkdir()
    if described is not None:
        (place / "MLmodel").write_text(json.dumps(described))
    assert sentence in refused(tmp_path, model=place)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"housing": lambda text: text.title()}, r'"housing" has Owned, Rented, With Family in the records, which the'),
        (
            {"debts_eur": lambda text: "none yet" if text == "0" else text},
            r'takes "debts_eur" as a number, .*: none yet',
        ),
        ({"monthly_income": lambda text: f"{text} a month"}, 'takes "monthly_income" as a number, .* such as "'),
        (
            {"age": lambda text: f"19{text}-12-01"},
            'takes "age" as a number, .*-12-01" in line 2 .* in place of the date',
        ),
        ({"age": lambda text: f"1/12/19{text}"}, 'such as "1/12/19.*" in line 2 of .* in place of the date'),
        ({"age": lambda text: f"Dec-19{text}"}, 'such as "Dec-19.*" in line 2 of .* in place of the date'),
    ],
)
def test_records_that_do_not_fit_a_pipeline(
    tmp_path: Path, change: dict[str, Callable[[str], str]], sentence: str
) -> None:
    trained = trained_pipeline()
    ((name, of),) = change.items()
    data = trained.lender.write(tmp_path / "loans.csv", **changed(trained.lender, name, of))
    assert re.search(sentence, refused(tmp_path, data=data, model=trained.write(tmp_path)))


def test_columns_that_a_pipeline_lacks(tmp_path: Path) -> None:
    trained = trained_pipeline()
    path = tmp_path / "loans.csv"
    Lender(
        columns={name: texts for name, texts in trained.lender.columns.items() if name != "debts_eur"}, numbers={},
        good=trained.lender.good,
    ).write(path)  # fmt: skip
    said = refused(tmp_path, data=path, model=trained.write(tmp_path))
    assert "takes columns that loans.csv does not have: debts_eur. It has customer_id, age" in said


def test_a_matrix_of_another_width(tmp_path: Path) -> None:
    trained = TRAINED["matrix"]()
    said = refused(tmp_path, model=trained.write(tmp_path), columns=("age", "monthly_income"))
    assert "takes 5 columns without names, and the records have 2 (age, monthly_income). Say with --columns" in said


def test_more_scores_than_records(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("score\n0.5\n0.6\n")
    assert "there are 2 scores for 1000 records" in refused(tmp_path, scores=str(tmp_path / "scores.csv"))
