"""What children compute, called in this process."""

import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from app import kept
from app.errors import ModelUnusable, UnknownModel
from app.jobs import kinds
from app.models import tasks
from app.questions.answers import ModelVersion, encoded, plain
from app.questions.encoded_answer import sent, shown, written_answer
from app.questions.frame import Frame
from app.questions.question import Question, job_payload
from app.questions.use_cases import answer
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.certificate_params import CertificateParams
from app.recourse.problem import Robustness
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel, RegisteredModel
from tests.api.asking import APPLICANT, CARRIED

METHOD = METHODS["robust_mpm"]


@pytest.fixture
def store(models_store: Path) -> Store:
    return Store(root=str(models_store), trust=Trust(pickle=True))


@pytest.fixture
def loan(store: Store) -> ModelRef:
    return ModelRef.of(store, store.open().find("loan"))


def question(ref: ModelRef) -> Question:
    space = ref.store.open().find(ref.name).space
    return Question(
        factual_raw=space.read(APPLICANT), constraints=Constraints(), cost_weights={}, method=METHOD.name,
        params=METHOD.params(), certificate=CertificateParams(), seed=0,
    )  # fmt: skip


FRAME = Frame(
    id="rec_1", reference=None, model=ModelVersion(id="loan", version="1", sha256=""), method={}, seed=0, stored=True
)


def test_preparing_loads_every_active_model_and_asks_it_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_kept", kept.Kept(100 << 20))
    for need in tasks.needs(store):
        need.function(*need.args)

    def read_again(_model: RegisteredModel) -> LoadedModel:
        raise AssertionError

    monkeypatch.setattr(RegisteredModel, "load", read_again)
    monkeypatch.setattr(tasks, "solve", read_again)
    for model in store.open().list():
        tasks.ready(ModelRef.of(store, model))


def test_models_are_kept_by_their_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models = sorted((tasks._size(model.load()), model.name, model) for model in store.open().list())
    first, second, third = (ModelRef.of(store, model) for *_, model in models[2::-1])
    assert models[0][0] > tasks.OWN_BYTES
    monkeypatch.setattr(kept, "_kept", kept.Kept(models[2][0] + models[1][0]))
    assert tasks.ready(first) == tasks.ready(second) == tasks.ready(first) == []
    assert tasks.ready(third) == [second.name]  # asked about least recently
    model = tasks.load(third)
    assert tasks.load(third) is model
    # One that is larger than the room has all of it.
    monkeypatch.setattr(kept, "_kept", kept.Kept(1000))
    model = tasks.load(first)
    assert tasks.load(first) is model
    assert tasks.ready(second) == [first.name]


def test_a_model_is_loaded_once_per_registration(loan: ModelRef) -> None:
    assert tasks.load(loan) is tasks.load(replace(loan))
    assert tasks.load(replace(loan, registered_at="later")) is not tasks.load(loan)


def test_a_model_that_is_gone_is_unknown(loan: ModelRef) -> None:
    with pytest.raises(UnknownModel):
        tasks.predict(replace(loan, name="gone@1"), np.zeros((1, 6)), deadline_s=1.0)


@pytest.mark.parametrize("detail", ["short", "full"])
def test_a_written_answer_has_the_bytes_of_the_answer_and_of_its_request(loan: ModelRef, detail: str) -> None:
    asked = question(loan)
    written = written_answer(loan, "recourse", asked, FRAME, math.inf, detail, 1234, deadline_s=math.inf)
    whole = json.loads(written.texts["full"])
    assert written.texts["full"] == encoded(whole)
    again = answer(loan, "recourse", asked, FRAME, math.inf, deadline_s=math.inf)
    for found in (whole, again):
        del found["diagnostics"]["elapsed_ms"]
    assert whole == again
    assert sent(written) == encoded(shown("recourse", json.loads(written.texts["full"]), detail))
    assert (len(sent(written)) < len(written.texts["full"])) == (detail == "short")
    assert json.loads(written.texts["request"]) == {
        "applicant": APPLICANT, "question": asked.to_json(), "deadline_ms": 1234
    }  # fmt: skip


def test_the_answer_is_found_in_time_or_not_at_all(loan: ModelRef) -> None:
    assert answer(loan, "recourse", question(loan), FRAME, math.inf, deadline_s=math.inf)["status"] == "found"
    late = answer(loan, "recourse", question(loan), FRAME, math.inf, deadline_s=0.0)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Question):
    """A question with one part more."""

    extension: Robustness
    points: tuple[int, ...]


def test_a_part_that_is_added_to_questions_survives_too(loan: ModelRef) -> None:
    known = {f.name: getattr(question(loan), f.name) for f in fields(Question)}
    asked = Extended(**known, extension=Robustness(future_validity=0.5), points=(1, 2))
    again = Extended.from_json(json.loads(json.dumps(asked.to_json())))
    assert (again.extension, again.points) == (asked.extension, asked.points)


def test_a_job_computes_the_answer_and_puts_it_into_its_frame(store: Store, loan: ModelRef) -> None:
    payload = json.loads(json.dumps(job_payload(loan, question(loan), plain(FRAME))))
    assert str(store.root) not in json.dumps(payload)
    found = kinds.JOB_KINDS["recourse"](store, payload, deadline_s=math.inf, progress=lambda _done, _total: None)
    directly = answer(loan, "recourse", question(loan), FRAME, math.inf, deadline_s=math.inf)
    assert found["counterfactuals"] == directly["counterfactuals"]
    assert (found["id"], found["status"]) == ("rec_1", "found")


def test_a_job_is_not_computed_with_another_model(store: Store, loan: ModelRef) -> None:
    payload = job_payload(replace(loan, sha256="0" * 64), question(loan), plain(FRAME))
    with pytest.raises(ModelUnusable):
        kinds.JOB_KINDS["recourse"](store, payload, deadline_s=math.inf, progress=lambda _done, _total: None)


def test_decisions_are_the_models_own(loan: ModelRef) -> None:
    model = loan.store.open().find("loan").load()
    rows_raw = model.reference.rows_raw[:5]
    told = tasks.predict(loan, rows_raw, deadline_s=1.0)
    assert [d["score"] for d in told] == pytest.approx(model.reference.scores[:5].tolist(), rel=CARRIED)
    assert [d["favourable"] for d in told] == (model.reference.scores[:5] >= 0).tolist()


def test_the_samples_are_refused_and_differ_and_the_first_is_ordinary(loan: ModelRef) -> None:
    registered = Registry(Path(loan.store.root)).find("loan")
    samples = tasks.samples(loan, deadline_s=1.0)
    assert len({str(sample) for sample in samples}) == len(samples) == tasks.MOST_SAMPLES
    scores = registered.load().reference.scores
    rows_raw = np.array([registered.space.read(sample) for sample in samples])
    told = [one["score"] for one in tasks.predict(loan, rows_raw, deadline_s=1.0)]
    assert told[0] == pytest.approx(np.median(scores[scores < 0]), abs=0.1)
    assert max(told) < 0
    assert sorted(told) == told[3:] + told[:3]
