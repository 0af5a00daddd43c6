"""What children compute, called in this process."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelUnusable, UnknownModel
from app.jobs import kinds, task
from app.jobs.asked import ModelRef, Question, Store, job_payload
from app.recourse.actionability import Bounds, Constraints, Direction
from app.recourse.certificate import CertificateParams
from app.recourse.solve import METHODS
from app.registry.registered import LoadedModel, RegisteredModel
from app.registry.registry import Registry
from tests.api.asking import APPLICANT

METHOD = METHODS["robust_mpm"]


@pytest.fixture
def store(models_store: Path) -> Store:
    return Store(root=str(models_store), trust_pickle=True)


@pytest.fixture
def loan(store: Store) -> ModelRef:
    return ModelRef.of(store, store.open().find("loan"))


def question(ref: ModelRef) -> Question:
    space = ref.store.open().find(ref.name).space
    return Question(
        factual_raw=space.read(APPLICANT), constraints=Constraints(), cost_weights={}, method=METHOD.name,
        params=METHOD.params(), certificate=CertificateParams(), seed=0,
    )  # fmt: skip


def test_preparing_loads_every_active_model_and_asks_it_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for cache in (task.load, task._ask_once):
        cache.cache_clear()
    assert task.prepare(store) == {}

    def read_again(_model: RegisteredModel) -> LoadedModel:
        raise AssertionError

    monkeypatch.setattr(RegisteredModel, "load", read_again)
    monkeypatch.setattr(task, "recourse", read_again)
    for model in store.open().list():
        task.ready(ModelRef.of(store, model))


def test_preparing_survives_a_model_that_cannot_be_loaded(models_store: Path) -> None:
    untrusting = Store(root=str(models_store), trust_pickle=False)
    amiss = task.prepare(untrusting)
    assert list(amiss) == ["odd@1"]
    assert "RECOURSE_TRUST_PICKLE=true" in amiss["odd@1"]


def test_a_model_is_loaded_once_per_registration(loan: ModelRef) -> None:
    assert task.load(loan) is task.load(replace(loan))
    assert task.load(replace(loan, registered_at="later")) is not task.load(loan)


def test_a_model_that_is_gone_is_unknown(loan: ModelRef) -> None:
    with pytest.raises(UnknownModel):
        task.predict(replace(loan, name="gone@1"), np.zeros((1, 6)), deadline_s=1.0)


def test_the_answer_is_found_in_time_or_not_at_all(loan: ModelRef) -> None:
    assert task.recourse(loan, question(loan), deadline_s=math.inf)["status"] == "found"
    late = task.recourse(loan, question(loan), deadline_s=0.0)
    assert (late["status"], late["reason"]) == ("not_found", "deadline")


def test_a_question_survives_being_stored(loan: ModelRef) -> None:
    asked = replace(
        question(loan),
        factual_raw=np.array([30.0, 0.1 + 0.2, 1e300, 0.0, 0.0, 1.0]),
        constraints=Constraints(
            immutable=("age",),
            direction={"income": Direction.INCREASE},
            bounds={"savings": Bounds(max="some"), "amount": Bounds(min=0.1)},
            max_changes=2,
        ),
        cost_weights={"income": 0.1},
        certificate=CertificateParams(moments="isotropic", noise_std={"age": 0.1}, ensemble=True),
        seed=2**53 - 1,
    )
    stored = json.loads(json.dumps(asked.to_json(), allow_nan=False))
    again = Question.from_json(stored)
    assert again.factual_raw.tolist() == asked.factual_raw.tolist()
    assert replace(again, factual_raw=asked.factual_raw) == asked


FRAME = {
    "id": "rec_1", "reference": None, "model": {}, "method": {}, "seed": 0, "stored": True,
    "created_at": "", "expires_at": "",
}  # fmt: skip


def test_a_job_computes_the_answer_and_puts_it_into_its_frame(store: Store, loan: ModelRef) -> None:
    payload = json.loads(json.dumps(job_payload(loan, question(loan), FRAME)))
    assert str(store.root) not in json.dumps(payload)
    found = kinds.recourse_job(store, payload, deadline_s=math.inf, progress=lambda _done, _total: None)
    directly = task.recourse(loan, question(loan), deadline_s=math.inf)
    assert found["counterfactuals"] == directly["counterfactuals"]
    assert (found["id"], found["status"]) == ("rec_1", "found")


def test_a_job_is_not_computed_with_another_model(store: Store, loan: ModelRef) -> None:
    payload = job_payload(replace(loan, sha256="0" * 64), question(loan), FRAME)
    with pytest.raises(ModelUnusable):
        kinds.recourse_job(store, payload, deadline_s=math.inf, progress=lambda _done, _total: None)


def test_decisions_are_the_models_own(loan: ModelRef) -> None:
    model = loan.store.open().find("loan").load()
    rows_raw = model.reference.rows_raw[:5]
    told = task.predict(loan, rows_raw, deadline_s=1.0)
    assert [d["score"] for d in told] == pytest.approx(model.reference.scores[:5].tolist())
    assert [d["favourable"] for d in told] == (model.reference.scores[:5] >= 0).tolist()


def test_the_sample_is_refused_and_ordinary(loan: ModelRef) -> None:
    registered = Registry(Path(loan.store.root)).find("loan")
    sample = task.sample(loan, deadline_s=1.0)
    assert sample is not None
    scores = registered.load().reference.scores
    (decision,) = task.predict(loan, registered.space.read(sample)[None], deadline_s=1.0)
    assert decision["score"] == pytest.approx(np.median(scores[scores < 0]), abs=0.1)
