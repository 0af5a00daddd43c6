"""Models, their schemas, their decisions."""

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.models.schema import Models, ModelSchema, ModelSummary, Predictions
from app.registry.registry import Registry
from app.settings import Settings
from tests.api.asking import APPLICANT, document, faults, problem, question
from tests.api.odd_model import GIVES_NAN, LOOPS
from tests.conftest import NO_TLS, run
from tests.registry.loan import make_linear


def get(client: httpx.Client, path: str) -> Any:
    return document(client.get(path))


def test_all_models_are_listed(client: httpx.Client) -> None:
    listed = get(client, "/models")
    Models.model_validate(listed)
    assert [(model["id"], model["version"], model["active"]) for model in listed["models"]] == [
        ("loan", "1", True), ("odd", "1", True), ("open", "1", True),
    ]  # fmt: skip


def test_one_model_is_described(client: httpx.Client) -> None:
    model = get(client, "/models/loan")
    ModelSummary.model_validate(model)
    assert model == get(client, "/models/loan@1")
    assert (model["title"], model["features"], model["output"], model["threshold"]) == (
        "Personal loan", 6, "probability", 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["nobody", "loan@9", "loan@..", "%2e%2e%2fetc", "loan%00", "l%C3%B6an", "x" * 3000])
def test_unknown_models_are_not_found(client: httpx.Client, name: str) -> None:
    response = client.get(f"/models/{name}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.content) < 5_000


def test_the_schema_tells_all_that_a_record_needs(client: httpx.Client) -> None:
    schema = get(client, "/models/loan/schema")
    ModelSchema.model_validate(schema)
    features = {feature["name"]: feature for feature in schema["features"]}
    assert list(features) == list(APPLICANT)
    assert features["age"]["min"] == 18
    assert features["age"]["change"] == "increase"
    assert features["savings"]["categories"] == ["none", "some", "much"]
    assert features["guarantor"]["categories"] == [False, True]
    assert features["income"]["categories"] is None


def test_the_sample_is_a_refused_record_that_can_be_sent_as_it_is(client: httpx.Client) -> None:
    sample = get(client, "/models/loan/schema")["sample"]
    assert sample == get(client, "/models/loan/schema")["sample"]
    answer = client.post("/recourse", json=question(applicant=sample)).json()
    assert answer["factual"]["favourable"] is False
    assert answer["status"] == "found"


def test_decisions_come_in_the_order_of_the_records(client: httpx.Client) -> None:
    records = [{**APPLICANT, "income": income} for income in (1_000, 19_000, 1_000)]
    response = client.post("/models/loan/predict", json={"records": records})
    Predictions.model_validate(response.json())
    decisions = response.json()["predictions"]
    assert [decision["favourable"] for decision in decisions] == [False, True, False]
    assert decisions[0] == decisions[2]
    assert decisions[0]["score"] < 0 < decisions[1]["score"]


@pytest.mark.parametrize("body", [{}, {"records": []}, {"records": {}}, {"records": [APPLICANT] * 1001}])
def test_one_to_a_thousand_records(client: httpx.Client, body: dict[str, Any]) -> None:
    assert set(faults(client.post("/models/loan/predict", json=body))) == {"/records"}


def test_a_thousand_records_are_answered(client: httpx.Client) -> None:
    response = client.post("/models/loan/predict", json={"records": [APPLICANT] * 1000})
    assert len(response.json()["predictions"]) == 1000


def predict(client: httpx.Client, age: int) -> httpx.Response:
    return client.post("/models/odd/predict", json={"records": [{**APPLICANT, "age": age}]})


def test_a_model_without_an_opinion_gives_no_number(client: httpx.Client) -> None:
    (decision,) = predict(client, GIVES_NAN).json()["predictions"]
    assert decision == {"probability": None, "score": None, "points": None, "favourable": False}


@pytest.fixture
def store(tmp_path: Path, models_store: Path) -> Path:
    """A store of this test's own."""
    shutil.copytree(models_store, tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def loans(tmp_path: Path, loan_store: Path) -> Path:
    """A store of this test's own without the model that misbehaves."""
    shutil.copytree(loan_store, tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.slow
def test_a_model_that_never_answers_is_stopped_at_the_default_deadline(store: Path) -> None:
    settings = Settings(models_store=store, trust_pickle=True, lanes_sync=1, default_deadline_ms=400)
    for running in run(settings):
        running.until_loaded()
        with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
            problem(predict(client, LOOPS), 504, "lane-timeout")


@pytest.mark.slow
def test_what_happens_in_the_store_is_seen_at_once(loans: Path, tmp_path: Path) -> None:
    for running in run(Settings(models_store=loans, lanes_sync=1)):
        registry = Registry(loans)
        with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
            before = client.post("/recourse", json=question()).json()
            assert before["model"]["version"] == "1"
            newer = make_linear(tmp_path / "newer")
            newer.set_artifact(newer.artifact.replace(b"-0.5", b"-0.4"))
            registry.register(newer.write(version="2"))
            after = client.post("/recourse", json=question()).json()
            assert after["model"]["version"] == "2"
            assert after["factual"]["score"] == pytest.approx(before["factual"]["score"] + 0.1)
            registry.retire("loan@2")
            assert client.post("/recourse", json=question()).json()["model"]["version"] == "1"
            assert get(client, "/models/loan@2")["active"] is False
            problem(client.post("/models/loan@2/predict", json={"records": [APPLICANT]}), 404, "unknown-model")


def test_a_model_whose_files_changed_is_unusable_and_not_answered_with(loans: Path) -> None:
    (loans / "loan" / "1" / "model.yaml").write_text("id: loan")
    for running in run(Settings(models_store=loans, lanes_sync=1)):
        with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
            problem(client.post("/recourse", json=question()), 503, "model-unusable")
            (warning,) = get(client, "/health/ready")["warnings"]
            assert "loan@1" in warning


@pytest.mark.slow
def test_models_that_workers_cannot_load_are_warned_of(store: Path) -> None:
    artifact = store / "loan" / "1" / Registry(store).find("loan").manifest.file.path
    artifact.write_bytes(artifact.read_bytes().replace(b"-0.5", b"-0.4"))
    for running in run(Settings(models_store=store, lanes_sync=1)):
        with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
            changed, distrusted = get(client, "/health/ready")["warnings"]
            assert "loan@1 cannot be loaded any more; /artifact/sha256: is not the digest of the file" in changed
            assert "odd@1" in distrusted
            assert "RECOURSE_TRUST_PICKLE=true" in distrusted
            told = problem(predict(client, 30), 503, "model-unusable")
            assert told["detail"] == distrusted
