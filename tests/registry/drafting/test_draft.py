"""A draft registers as it is, and the registered model scores the lender's records as the lender does."""

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import ModelRefused
from app.recourse.models.score import sigmoid
from app.registry.drafting.draft import Drafted, Wish, draft
from app.registry.lender_scores import outputs_of
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel
from tests.optional import library
from tests.registry.drafting.lender import NUMBERS, RECORDS, TRAINED, Trained, digest, lender, trained_pipeline

EQUAL = 1e-6


def drafted(trained: Trained, tmp_path: Path, *, scores: bool, **wish: Any) -> Drafted:
    data = trained.lender.write(tmp_path / "loans.csv")
    stated: dict[str, Any] = {"label": "outcome", "favourable": "good", **trained.wish, **wish}
    if scores:
        own = tmp_path / "scores.csv"
        own.write_text("score\n" + "\n".join(repr(float(score)) for score in trained.scores))
        stated["scores"] = str(own)
    found = Wish(data=data, model=trained.write(tmp_path), **stated)
    return draft(found, tmp_path / "loan", Trust(pickle=True))


def registered(tmp_path: Path) -> RegisteredModel:
    return Registry(tmp_path / "store", Trust(pickle=True)).register(tmp_path / "loan")


def manifest_of(tmp_path: Path) -> Any:
    return yaml.safe_load((tmp_path / "loan" / "model.yaml").read_text())


GUESSED = ("matrix", "torch", "lightgbm", "xgboost with missing")
"""Kinds whose file does not say everything, and whose outcomes do."""


@pytest.mark.parametrize(
    ("kind", "scores"), [*((kind, True) for kind in TRAINED), *((kind, False) for kind in GUESSED)]
)
def test_a_draft_registers_and_scores_as_the_lender_does(tmp_path: Path, kind: str, scores: bool) -> None:
    trained = TRAINED[kind]()
    drafted(trained, tmp_path, scores=scores)
    model = registered(tmp_path)
    loaded = model.load()
    found = outputs_of(loaded.black_box, loaded.reference.scores)
    assert len(found) == RECORDS
    assert np.abs(found - trained.scores).max() < EQUAL
    assert model.registration.warnings == ()
    assert sum("The scores are the lender's" in note for note in model.registration.notes) == scores


def test_a_draft_of_a_pipeline_says_all_that_can_be_seen(tmp_path: Path) -> None:
    found = drafted(trained_pipeline(missing=True), tmp_path, scores=True)
    manifest = manifest_of(tmp_path)
    assert (manifest["id"], manifest["input"], manifest["output"]) == ("loan", "raw", "probability")
    assert (manifest["favourable"], manifest["label"], manifest["threshold"]) == ("good", "outcome", 0.5)
    assert manifest["artifact"] == {
        "format": "sklearn", "path": "model.skops", "sha256": digest(tmp_path / "loan" / "model.skops"),
    }  # fmt: skip
    features = {feature.pop("name"): feature for feature in manifest["features"]}
    assert features["age"] == {"type": "integer", "min": 0, "protected": True}
    assert features["gender"] == {"type": "categorical", "categories": ["female", "male"], "protected": True}
    income = features["monthly_income"]
    assert (income["type"], income["min"], income["decimals"], income["missing"]) == ("continuous", 0, 2, "nan")
    known = lender(missing=True).numbers["monthly_income"]
    known = known[~np.isnan(known)]
    assert 0.005 < (known < income["advice"]["min"]).mean() < 0.015
    assert 0.005 < (known > income["advice"]["max"]).mean() < 0.015
    assert (features["utilisation"]["type"], features["utilisation"]["special"]) == ("integer", {-9: "code -9"})
    assert features["utilisation"]["advice"]["min"] == 0
    assert (features["debts_eur"]["step"], features["debts_eur"]["unit"]) == (10, "EUR")
    assert features["has_guarantor"] == {"label": "Has guarantor", "type": "binary"}
    assert features["housing"]["categories"] == ["owned", "rented", "with family"]
    assert (features["education"]["type"], features["education"]["change"]) == ("ordinal", "increase")
    assert features["education"]["categories"] == ["school", "apprenticeship", "college", "university"]
    assert features["education_years"]["derived"]["from"] == "education"
    assert "customer_id" not in features
    assert any("customer_id" in note for note in found.notes)
    reference = (tmp_path / "loan" / "reference.csv").read_text()
    assert "customer_id" not in reference
    assert set(reference.splitlines()[0].split(",")) == {*features, "outcome", "score"}


def test_dummies_get_the_order_that_a_number_beside_them_shows(tmp_path: Path) -> None:
    drafted(TRAINED["dummies of levels"](), tmp_path, scores=True)
    manifest = manifest_of(tmp_path)
    features = {feature.pop("name"): feature for feature in manifest["features"]}
    assert features["education"] == {
        "type": "ordinal", "dummies": True, "change": "increase", "takes": {"months_per_level": 12},
        "categories": ["school", "apprenticeship", "college", "university"],
    }  # fmt: skip
    assert features["education_years"]["derived"]["from"] == "education"
    assert "map" not in manifest["artifact"]


def test_only_what_a_person_must_decide_is_commented(tmp_path: Path) -> None:
    found = drafted(trained_pipeline(), tmp_path, scores=True)
    lines = (tmp_path / "loan" / "model.yaml").read_text().splitlines()
    comments = [line.partition("# ")[2] for line in lines if "# " in line]
    assert sum(comment.endswith("?") for comment in comments) == found.decisions
    about = {comment.partition(":")[0] for comment in comments if line_is_of_feature(lines, comment)}
    assert about == {
        "age", "gender", "monthly_income", "utilisation", "debts_eur", "housing", "education", "education_years",
    }  # fmt: skip
    assert all(len(line) <= 120 for line in lines)


def line_is_of_feature(lines: list[str], comment: str) -> bool:
    return f"  # {comment}" in lines


def test_a_wrong_class_is_found_by_the_scores(tmp_path: Path) -> None:
    """The lender's model says the probability of default, so 0 is the favourable class."""
    trained = TRAINED["xgboost"]()
    other = Trained(trained.lender, trained.write, 1.0 - trained.scores.astype(float))
    data = trained.lender.write(tmp_path / "loans.csv")
    wish = Wish(data=data, model=trained.write(tmp_path), scores=str(tmp_path / "own.csv"), favourable="0")
    (tmp_path / "own.csv").write_text("\n".join(map(repr, other.scores.tolist())))
    draft(wish, tmp_path / "loan", Trust())
    assert manifest_of(tmp_path)["favourable"] == 0
    assert registered(tmp_path).registration.warnings == ()


def test_levels_that_begin_with_a_space_stay_as_the_model_knows_them(tmp_path: Path) -> None:
    """As pandas reads a CSV with a space behind each comma."""
    library("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(2)
    table = library("pandas").DataFrame({"income": rng.normal(size=200), "job": rng.choice([" clerk", " cook"], 200)})
    good = (table.income + (table.job == " cook") > 0.4).astype(int)
    steps = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    fitted = make_pipeline(steps, LogisticRegression()).fit(table, good)
    table.assign(good=good, own=fitted.predict_proba(table)[:, 1]).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "model.skops").write_bytes(library("skops.io").dumps(fitted))
    wish = Wish(data=tmp_path / "data.csv", model=tmp_path / "model.skops", label="good", favourable="1", scores="own")
    draft(wish, tmp_path / "loan", Trust())
    assert manifest_of(tmp_path)["features"][1]["categories"] == [" clerk", " cook"]
    assert "200 compared" in registered(tmp_path).registration.notes[0]


def test_scores_of_the_other_outcome_stop_the_draft(tmp_path: Path) -> None:
    """Label and class are of default, and so are the scores: nothing is reversed, the lender says which is meant."""
    trained = TRAINED["xgboost"]()
    default = ["0" if yes else "1" for yes in trained.lender.good]
    data = trained.lender.write(
        tmp_path / "loans.csv", default=default, pd=[repr(1 - float(s)) for s in trained.scores]
    )
    wish = Wish(
        data=data, model=trained.write(tmp_path), label="default", favourable="0", scores="pd", columns=NUMBERS,
        drop=("outcome",),
    )  # fmt: skip
    with pytest.raises(ModelRefused, match="lower where default is 0, the favourable outcome"):
        draft(wish, tmp_path / "loan", Trust())
    assert not (tmp_path / "loan").exists()


def test_classes_coded_the_other_way_round_are_found_by_the_outcomes(tmp_path: Path) -> None:
    """1 is good in the records and bad in the model."""
    trained = TRAINED["xgboost"]()
    data = trained.lender.write(tmp_path / "loans.csv", good=["0" if yes else "1" for yes in trained.lender.good])
    wish = Wish(data=data, model=trained.write(tmp_path), label="good", favourable="1", columns=NUMBERS)
    draft(wish, tmp_path / "loan", Trust())
    model = registered(tmp_path)
    assert (model.manifest.favourable, model.registration.warnings) == (0, ())


def test_the_order_in_which_levels_were_coded_is_found_by_the_scores(tmp_path: Path) -> None:
    """Codes by the alphabet, as encoders give them: high, low, medium."""
    rng = np.random.default_rng(1)
    level, income = rng.choice(["low", "medium", "high"], 400), rng.normal(size=400).round(3)
    code = np.array([sorted(["low", "medium", "high"]).index(one) for one in level])
    (tmp_path / "data.csv").write_text(
        "income,risk\n" + "\n".join(f"{value},{one}" for value, one in zip(income, level, strict=True))
    )
    weights = {"space": "raw", "intercept": 0.2, "weights": {"income": 1.5, "risk": -0.7}}
    (tmp_path / "model.json").write_text(json.dumps(weights))
    scores = sigmoid(1.5 * income - 0.7 * code + 0.2)
    (tmp_path / "own.csv").write_text("\n".join(map(repr, scores.tolist())))
    wish = Wish(
        data=tmp_path / "data.csv", model=tmp_path / "model.json", scores=str(tmp_path / "own.csv"), favourable="1"
    )
    draft(wish, tmp_path / "loan", Trust())
    assert manifest_of(tmp_path)["features"][1]["categories"] == ["high", "low", "medium"]
    assert "400 compared" in registered(tmp_path).registration.notes[0]


def test_records_alone_make_a_manifest_without_a_model(tmp_path: Path) -> None:
    data = lender().write(tmp_path / "loans.csv")
    found = draft(Wish(data=data, label="outcome", favourable="good"), tmp_path / "loan", Trust())
    assert not found.complete
    manifest = manifest_of(tmp_path)
    assert manifest["artifact"]["path"] == "…"
    assert [feature["name"] for feature in manifest["features"]][:3] == ["age", "gender", "monthly_income"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    drafted(trained_pipeline(), tmp_path, scores=False)
    before = (tmp_path / "loan" / "model.yaml").read_text()
    with pytest.raises(ModelRefused, match="exists already; say --out"):
        drafted(trained_pipeline(), tmp_path, scores=False)
    assert (tmp_path / "loan" / "model.yaml").read_text() == before
    (tmp_path / "loan" / "model.yaml").unlink()
    with pytest.raises(ModelRefused, match=r"reference\.csv exists already"):
        drafted(trained_pipeline(), tmp_path, scores=False)
    (tmp_path / "loan" / "reference.csv").unlink()
    with pytest.raises(ModelRefused, match=r"answers\.yaml exists already"):
        drafted(trained_pipeline(), tmp_path, scores=False)
    (tmp_path / "loan" / "answers.yaml").unlink()
    (tmp_path / "loan" / "model.skops").write_bytes(b"another")
    with pytest.raises(ModelRefused, match=r"model\.skops exists already"):
        drafted(trained_pipeline(), tmp_path, scores=False)


def test_a_draft_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """As on a full disk: here no file may be as large as the reference."""
    wish = Wish(data=lender().write(tmp_path / "loans.csv"), label="outcome", favourable="good")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ModelRefused, match="loan cannot be written: File too large"):
            draft(wish, tmp_path / "loan", Trust())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "loan").exists()
    assert (draft(wish, tmp_path / "loan", Trust()).directory / "model.yaml").exists()


def test_a_trusted_pickle_is_written_again_as_a_file_without_code(tmp_path: Path) -> None:
    found = drafted(trained_pipeline(pickled=True), tmp_path, scores=True)
    assert any("model.joblib can run code when it is read" in note for note in found.notes)
    assert manifest_of(tmp_path)["artifact"]["path"] == "model.skops"
    registration = Registry(tmp_path / "store").register(tmp_path / "loan").registration
    assert registration.notes[0].startswith("The scores are the lender's: 1,000 compared")


def test_a_pickle_needs_trust(tmp_path: Path) -> None:
    trained = trained_pipeline(pickled=True)
    wish = Wish(data=trained.lender.write(tmp_path / "loans.csv"), model=trained.write(tmp_path))
    with pytest.raises(ModelRefused) as caught:
        draft(wish, tmp_path / "loan", Trust())
    assert "--trust-pickle" in str(caught.value)
    assert not (tmp_path / "loan").exists()
