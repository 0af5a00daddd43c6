"""Future models of every format: made, kept, loaded, and scored as each of them would be by itself."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import RehearsalFailed, RehearsalRunning
from app.futures import check, rehearsal
from app.futures.check import area
from app.futures.records import sample
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material, choices_of, outlook
from app.futures.store import load_futures, read_record, status
from app.recourse.models.black_box import Input
from app.registry.version import RegisteredModel
from tests.futures.models import LAYERS, estimator, registered, torch_network
from tests.optional import library

FEW = Choices(stress="none", search=6, held_back=4)


def forest() -> Any:
    return library("sklearn.ensemble").RandomForestClassifier(5, max_depth=3, random_state=0)


def histograms() -> Any:
    return library("sklearn.ensemble").HistGradientBoostingClassifier(max_iter=5)


def boosted() -> Any:
    return library("xgboost").XGBClassifier(n_estimators=20, max_depth=3, learning_rate=0.2)


def leafwise() -> Any:
    return library("lightgbm").LGBMClassifier(n_estimators=20, num_leaves=7, learning_rate=0.2, verbosity=-1)


def pipeline() -> Any:
    compose = library("sklearn.compose")
    preprocessing = library("sklearn.preprocessing")
    columns = compose.ColumnTransformer(
        [
            ("categories", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["savings", "housing"]),
            ("numbers", preprocessing.StandardScaler(), ["age", "income", "amount"]),
        ]
    )
    logistic = library("sklearn.linear_model").LogisticRegression()
    return library("sklearn.pipeline").make_pipeline(columns, logistic)


MODELS: dict[str, Any] = {
    "linear": "linear",
    "torch": "torch",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "forest": estimator(forest),
    "histograms": estimator(histograms),
    "pipeline": estimator(pipeline, raw=True),
    "joblib": estimator(forest, suffix=".joblib"),
}


IN_PIPELINES = {"boosted": estimator(boosted, suffix=".joblib"), "leafwise": estimator(leafwise, suffix=".joblib")}
"""Estimators of other libraries, as a file of scikit-learn has them."""


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> RegisteredModel:
    return registered(tmp_path, MODELS[request.param])


def test_every_format_can_be_retrained(model: RegisteredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: dict[int, np.ndarray] = {}
    reference = model.load().reference
    checked = rehearsal._Rehearsal._checked

    def noting(self: Any, path: Path, content: bytes, drawn: Any, seconds: float) -> Any:
        member = self.kind.member(path.parent, path.name, content)
        alone[drawn.index] = member.score_raw(reference.rows_raw)
        return checked(self, path, content, drawn, seconds)

    monkeypatch.setattr(rehearsal._Rehearsal, "_checked", noting)
    steps: list[tuple[int, int]] = []
    retrained = replace(FEW, source="retrained")
    record = rehearse(model, retrained, progress=lambda done, total: steps.append((done, total)))
    assert record.source == "retrained"
    assert record.labels == "outcomes"
    assert steps[0] == (0, 10)
    assert steps[-1] == (10, 10)

    futures = load_futures(model)
    assert futures is not None
    assert futures.source == "retrained"
    for models, indices in ((futures.search, range(6)), (futures.held_back, range(6, 10))):
        kept = np.column_stack([alone[i] for i in indices])
        scores = models.scores_raw(reference.rows_raw)
        assert scores.shape == kept.shape
        np.testing.assert_allclose(scores, kept, rtol=1e-4, atol=1e-5)
        if models.input is Input.ENCODED:
            np.testing.assert_allclose(models.scores(reference.X), kept, rtol=1e-4, atol=1e-5)
        assert models.scores_raw(reference.rows_raw[:0]).shape == (0, len(indices))
        # They are models of this label, and no two of them are the same.
        assert ((models.shares(reference.rows_raw) >= 0.5) == (reference.scores >= 0.0)).mean() > 0.7
        assert len(np.unique(scores, axis=1).T) == len(indices)

    found = status(model)
    assert (found["status"], found["search"], found["held_back"]) == ("ready", 6, 4)
    assert 0.6 < found["agreement"] <= 1.0
    assert not (model.directory / "futures.partial").exists()


@pytest.mark.parametrize(("kind", "source"), [("forest", "stand_in"), ("pipeline", "retrained")])
def test_trees_of_an_estimator_have_twins_and_a_linear_pipeline_is_one_matrix(
    tmp_path: Path, kind: str, source: str
) -> None:
    model = registered(tmp_path, MODELS[kind])
    record = rehearse(model, FEW)
    assert record.source == source
    assert ("stand-ins" in outlook(model.load())) == (source == "stand_in")
    if source == "retrained":
        assert {one.stack for one in record.sets.values()} == {"estimator"}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("boosted", marks=pytest.mark.slow),
        *(pytest.param(kind, marks=pytest.mark.release) for kind in ("forest", "leafwise", "histograms")),
    ],
)
def test_twins_vary_as_the_estimators_do(tmp_path: Path, kind: str) -> None:
    """As many of XGBoost's trees accept a record as of those that the estimator trains."""
    shares = []
    for source in ("retrained", "stand_in"):
        model = registered(tmp_path / source, (MODELS | IN_PIPELINES)[kind])
        rehearse(model, replace(FEW, source=source, search=19, held_back=19))  # too few to halve the records
        futures = load_futures(model)
        assert futures is not None
        rows_raw = model.load().reference.rows_raw
        shares.append((futures.search.shares(rows_raw), futures.held_back.shares(rows_raw)))
    (own, other), (twins, _) = shares
    assert ((own > 0.1) & (own < 0.9)).sum() > 10
    assert abs(float((twins - own).mean())) < 0.05
    # Hardly farther than two sets of the estimators are from each other.
    assert np.abs(twins - own).mean() < 1.5 * np.abs(other - own).mean()


@pytest.mark.parametrize("label", [True, False])
def test_a_graph_has_stand_ins(tmp_path: Path, label: bool) -> None:
    model = registered(tmp_path, "onnx", label=label)
    record = rehearse(model, FEW)
    assert record.source == "stand_in"
    assert record.labels == ("outcomes" if label else "own_decisions")
    assert record.tuned["agreement"] == max(record.tuned["tried"].values())
    futures = load_futures(model)
    assert futures is not None
    reference = model.load().reference
    assert ((futures.search.shares(reference.rows_raw) >= 0.5) == (reference.scores >= 0.0)).mean() > 0.85
    assert record.agreement > 0.75


def test_stand_ins_accept_as_many_as_the_model(tmp_path: Path) -> None:
    """A model that decides at another threshold than a calibrated one would."""
    model = registered(tmp_path, "onnx", threshold=0.75)
    rehearse(model, FEW)
    futures = load_futures(model)
    assert futures is not None
    reference = model.load().reference
    assert abs(futures.search.shares(reference.rows_raw).mean() - (reference.scores >= 0.0).mean()) < 0.08


def test_a_model_that_speaks_of_the_unfavourable_class(tmp_path: Path) -> None:
    def turned(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        xgboost = library("xgboost")
        booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, 1 - y), num_boost_round=5)
        directory.set_artifact(bytes(booster.save_raw("json")), format="xgboost")

    model = registered(tmp_path, turned, favourable=0)
    rehearse(model, FEW)
    futures = load_futures(model)
    assert futures is not None
    reference = model.load().reference
    assert ((futures.search.shares(reference.rows_raw) >= 0.5) == (reference.scores >= 0.0)).mean() > 0.75


def test_the_sets_share_no_bootstrap_and_no_seed(tmp_path: Path) -> None:
    from app.futures.records import reference_records

    records = reference_records(registered(tmp_path, "linear").load())
    drawn = [sample(records, "fresh", 0, i) for i in range(120)]
    assert len({one.chosen.tobytes() for one in drawn}) == 120
    assert len({one.seed for one in drawn}) == 120
    assert all(len(one.chosen) == 150 for one in drawn)
    assert len(sample(records, "same", 0, 0).chosen) == 300
    # The same index is the same bootstrap, whichever process draws it.
    assert (sample(records, "fresh", 0, 7).chosen == drawn[7].chosen).all()


def test_bootstraps_have_both_labels(tmp_path: Path) -> None:
    from app.futures.records import Records

    labels = np.zeros(400, dtype=bool)
    labels[:10] = True
    records = Records(rows_raw=np.zeros((400, 1)), favourable=labels, labels="outcomes", of_reference=True)
    counts = [int(labels[sample(records, "fresh", 0, i).chosen].sum()) for i in range(200)]
    assert min(counts) == 2


def test_models_no_better_than_chance_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = registered(tmp_path, "linear")
    monkeypatch.setattr(check, "area", _every_fourth_by_chance(check.area))
    record = rehearse(model, Choices(stress="none", search=8, held_back=8))
    assert (record.search.models, record.search.dropped) == (6, 2)
    assert (record.held_back.models, record.held_back.dropped) == (6, 2)
    assert status(model)["dropped"] == 4
    futures = load_futures(model)
    assert futures is not None
    assert futures.search.count == futures.search.scores_raw(model.load().reference.rows_raw).shape[1] == 6


def _every_fourth_by_chance(area: Any) -> Any:
    calls = iter(range(1_000))
    return lambda scores, labels: 0.5 if next(calls) % 4 == 3 else area(scores, labels)


def test_a_state_dict_of_pytorch_is_retrained(tmp_path: Path) -> None:
    """Its future models are written as safetensors, whatever the name of the file."""

    def saved(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        torch, buffer = library("torch"), io.BytesIO()
        torch.save(torch_network(X, y, 0, layers=LAYERS, epochs=60).state_dict(), buffer)
        architecture = {"type": "mlp", "layers": LAYERS, "activation": "relu"}
        directory.set_artifact(buffer.getvalue(), format="torch", path="model.pt", architecture=architecture)

    model = registered(tmp_path, saved)
    assert rehearse(model, FEW).source == "retrained"
    assert status(model)["status"] == "ready"
    assert load_futures(model) is not None


def test_labels_that_say_nothing_are_refused(tmp_path: Path) -> None:
    def noise(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        rng = np.random.default_rng(1)
        for record in directory.records:
            record["repaid"] = int(rng.integers(2))

    model = registered(tmp_path, noise)
    with pytest.raises(RehearsalFailed, match="no better than chance"):
        rehearse(model, Choices(stress="none", search=20, held_back=20, source="retrained"))
    found = status(model)
    assert found["status"] == "failed"
    assert "no better than chance" in found["detail"]
    assert load_futures(model) is None


def test_a_label_that_is_turned_around_is_refused(tmp_path: Path) -> None:
    def turned(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        for record in directory.records:
            record["repaid"] = 1 - record["repaid"]

    model = registered(tmp_path, turned)
    with pytest.raises(RehearsalFailed, match="1 for the favourable outcome"):
        rehearse(model, Choices(stress="none", search=6, held_back=6, source="retrained"))


def test_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    scores, labels = np.round(rng.normal(size=300), 1), rng.random(300) < 0.3
    expected = library("sklearn.metrics").roc_auc_score(labels, scores)
    assert area(scores, labels) == pytest.approx(expected, abs=1e-12)
    assert area(np.append(scores, np.nan), np.append(labels, True)) == 0.0
    assert area(scores, np.ones(300, dtype=bool)) == 0.5


def test_a_damaged_set_leaves_the_model_usable(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")
    record = rehearse(model, FEW)
    file = model.directory / "futures" / record.name / "held_back" / "linear.npz"
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    (model.directory / "futures" / "futures.json").touch()  # so that it is read again
    assert load_futures(model) is None
    model.load()
    file.write_bytes(b"")
    assert status(model)["status"] == "failed"
    (model.directory / "futures" / "futures.json").write_text("{")
    assert load_futures(model) is None
    assert status(model)["status"] == "failed"


def test_new_futures_replace_old_ones(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")
    first = rehearse(model, FEW)
    before = load_futures(model)
    assert load_futures(model) is before
    second = rehearse(model, Choices(stress="none", search=5, held_back=5, seed=1, records="same"))
    assert second.name != first.name
    after = load_futures(model)
    assert after is not None
    assert after.search.count == 5
    assert [path.name for path in (model.directory / "futures").iterdir() if path.is_dir()] == [second.name]
    assert rehearse(model, Choices(stress="none", search=5, held_back=5, seed=1, records="same")).name == second.name


def test_choices_come_from_the_manifest(tmp_path: Path) -> None:
    stated = {"source": "stand_in", "records": "same", "search": 5, "held_back": 7}
    model = registered(tmp_path, "linear", futures=stated)
    choices = choices_of(model, held_back=3)
    assert choices == Choices(source="stand_in", records="same", search=5, held_back=3)
    record = rehearse(model, choices)
    assert (record.source, record.search.models, record.held_back.models) == ("stand_in", 5, 3)


def test_none_are_made_where_the_manifest_wants_none(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear", futures={"source": "none"})
    with pytest.raises(RehearsalFailed, match="wants no future models"):
        rehearse(model, choices_of(model))


def test_retraining_needs_outcomes(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear", label=False)
    assert status(model)["status"] == "none"
    with pytest.raises(RehearsalFailed, match="label"):
        rehearse(model, Choices(stress="none", source="retrained"))
    assert rehearse(model, FEW).labels == "own_decisions"


def test_newer_records_can_be_trained_on(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")
    newer = tmp_path / "newer.csv"
    lines = (model.directory / "reference.csv").read_text().splitlines()
    newer.write_text("\n".join(lines[:200]) + "\n")
    record = rehearse(model, FEW, Material(data=newer))
    assert record.data_sha256 is not None
    assert record.agreement > 0.7
    newer.write_text("\n".join(line.rpartition(",")[0] for line in lines[:200]) + "\n")
    with pytest.raises(RehearsalFailed, match="cannot be used"):
        rehearse(model, FEW, Material(data=newer))
    # What was there before stays in use.
    assert status(model)["status"] == "ready"
    assert read_record(model.directory) == record


def test_one_rehearsal_at_a_time(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")

    def again(done: int, total: int) -> None:
        with pytest.raises(RehearsalRunning):
            rehearse(model, FEW)
        assert status(model)["status"] == "pending"

    rehearse(model, FEW, progress=again)
