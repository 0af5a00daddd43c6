"""The use cases without HTTP: what is checked before a child is asked, and what is made of its answer."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.errors import (
    ConstraintClash,
    InvalidRecord,
    InvalidRequest,
    LaneTimeout,
    ModelUnusable,
    Overloaded,
    RecourseError,
    UnknownModel,
)
from app.jobs.ids import new_id
from app.ledger import recorder, sure_clock
from app.ledger.ledger import NewRecord
from app.pool.child import Need
from app.pool.pool import Pool
from app.questions import questions
from app.questions.answers import plain
from app.questions.encoded_answer import written
from app.questions.frame import Frame
from app.questions.question import Question, Terms
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.methods.probe import ProbeParams
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef
from app.service import Service
from app.settings import Settings
from app.store.timestamps import timestamp
from tests.api.asking import APPLICANT
from tests.clock_ahead import ClockAhead
from tests.ledger.records import new_record

METHOD = METHODS["robust_mpm"]


def ask(service: Service, **changes: Any) -> Any:
    """The answer to a valid question with changes, of its terms or else of the question."""
    # What is stored is asked of real servers, in `tests.ledger.test_servers`.
    given = {"model": "loan", "applicant": APPLICANT, "method": METHOD.name, "params": METHOD.params()} | changes
    terms = Terms(**{name: given.pop(name) for name in ("model", "reference", "deadline_ms") if name in given})
    applicant = given.pop("applicant")
    return json.loads(asyncio.run(service.questions.ask("recourse", Question(**given), applicant, terms)))


@pytest.fixture
def service(models_store: Path) -> Service:
    return Service(Settings(models_store=models_store, default_deadline_ms=1234, valid_days=30))


def test_a_store_that_is_away_makes_no_model_unknown(tmp_path: Path) -> None:
    """A client takes a model that is not registered as final, and a store that is not mounted comes back."""
    models = Service(Settings(models_store=tmp_path / "away")).models
    for look in (lambda: models.find("loan", pointer="/model"), lambda: models.require_known("loan"), models.summaries):
        with pytest.raises(ModelUnusable, match="RECOURSE_MODELS_STORE"):
            look()
    (tmp_path / "away").mkdir()
    with pytest.raises(UnknownModel):
        models.find("loan")
    assert models.summaries() == []


class Asked:
    """Stands in for the child: remembers what it was asked and answers as it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.timeouts: list[float] = []
        self.reply: Any = {"status": "not_found", "counterfactuals": [], "plan": None}

        async def run(_lane: Pool, function: Callable[..., Any], *args: Any, timeout_s: float, need: Need) -> Any:
            assert need.args == args[:1], "the model that is asked is loaded before"
            self.calls.append((function.__name__, *args))
            self.timeouts.append(timeout_s)
            if isinstance(self.reply, Exception):
                raise self.reply
            (frame,) = [arg for arg in args if isinstance(arg, Frame)]
            return written("recourse", plain(frame) | self.reply, "full")

        monkeypatch.setattr(Pool, "run", run)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_a_child_is_asked_about_exactly_this_registration(service: Service, child: Asked) -> None:
    ask(service, seed=5, constraints=Constraints(immutable=("age",)), cost_weights={"age": 2.0})
    ((function, ref, name, question, _frame, plan_s, detail, deadline_ms),) = child.calls
    assert (plan_s, detail, deadline_ms) == (0.5, "full", 1234)
    assert (function, name) == ("written_answer", "recourse")
    assert isinstance(ref, ModelRef)
    assert isinstance(question, Question)
    assert ref.name == "loan@1"
    assert len(ref.sha256) == 64
    assert question.factual_raw.tolist() == [30, 1500, 20000, 0, 0, 0]
    assert (question.seed, question.method, question.cost_weights) == (5, "robust_mpm", {"age": 2.0})


def test_the_deadline_is_the_callers_or_the_operators(service: Service, child: Asked) -> None:
    ask(service, deadline_ms=77)
    ask(service)
    assert child.timeouts == [0.077, 1.234]


def test_an_answer_says_who_asked_what_and_how_long_it_holds(service: Service, child: Asked) -> None:
    answer = ask(service, reference="case 7", seed=3)
    assert (answer["reference"], answer["seed"], answer["status"]) == ("case 7", 3, "not_found")
    created, expires = (datetime.fromisoformat(answer[key]) for key in ("created_at", "expires_at"))
    assert expires - created == timedelta(days=30)
    assert answer["created_at"].endswith("Z")


def test_a_computation_that_was_killed_is_an_answer(service: Service, child: Asked) -> None:
    child.reply = LaneTimeout()
    answer = ask(service)
    assert (answer["status"], answer["reason"], answer["factual"]) == ("not_found", "deadline", None)
    assert answer["method"] == {"name": "robust_mpm", **asdict(METHOD.params())}
    assert answer["warnings"]


def test_other_failures_are_the_callers_business(service: Service, child: Asked) -> None:
    child.reply = Overloaded()
    with pytest.raises(Overloaded):
        ask(service)


@pytest.mark.parametrize(
    ("changes", "error", "pointers"),
    [
        ({"applicant": {**APPLICANT, "age": 5}}, InvalidRecord, {"/applicant/age"}),
        (
            {"constraints": Constraints(direction={"age": Direction.DECREASE})},
            ConstraintClash,
            {"/constraints/direction/age"},
        ),
        ({"cost_weights": {"hat": 1.0}}, InvalidRequest, {"/cost/weights/hat"}),
        (
            {
                "applicant": {**APPLICANT, "age": 5},
                "constraints": Constraints(bounds={"income": Bounds(max="much")}),
                "cost_weights": {"hat": 1.0},
            },
            InvalidRequest,
            {"/applicant/age", "/constraints/bounds/income/max", "/cost/weights/hat"},
        ),
        (
            {
                "method": "probe",
                "params": ProbeParams(noise_std={"age": 0.1, "hat": 0.1}),
                "cost_weights": {"hat": 1.0},
            },
            InvalidRequest,
            {"/method/noise_std/hat", "/cost/weights/hat"},
        ),
        ({"model": "nobody"}, UnknownModel, {"/model"}),
    ],
)
def test_every_fault_is_told_before_a_child_is_asked(
    service: Service, child: Asked, changes: dict[str, Any], error: type[RecourseError], pointers: set[str]
) -> None:
    with pytest.raises(error) as caught:
        ask(service, **changes)
    assert type(caught.value) is error
    assert {fault.pointer for fault in caught.value.faults} == pointers
    assert child.calls == []


def test_ids_are_new_and_sort_by_time() -> None:
    before = new_id("rec")
    while (after := new_id("rec"))[:14] == before[:14]:
        pass
    assert before < after
    assert len(before) == len("rec_") + 26
    assert len({new_id("rec") for _ in range(1000)}) == 1000


def test_while_the_clock_is_far_ahead_an_answer_expires_by_the_expected_time(
    models_store: Path, child: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(models_store=models_store, state_dir=tmp_path, run_jobs=False, valid_days=30)
    given = datetime.now(UTC)
    times = {"at": timestamp(given), "expires_at": timestamp(given + timedelta(days=30))}

    async def answered(*known: NewRecord) -> dict[str, Any]:
        service = Service(settings)
        service.start(answers=False)
        await service.ledger._opened.wait()
        for one in known:
            await service.ledger.record(one)
        terms, question = Terms(model="loan"), Question(method=METHOD.name, params=METHOD.params())
        answer = json.loads(await service.questions.ask("recourse", question, APPLICANT, terms))
        by = service.questions.bounded(service.questions.batch_payload(question, terms))["frame"]["expires_by"]
        await service.close()
        return {**answer, "expires_by": by}

    before = asyncio.run(answered(new_record(1, **times)))
    for module in (sure_clock, recorder, questions):
        monkeypatch.setattr(module, "datetime", ClockAhead)
    under = asyncio.run(answered())
    assert under["created_at"] > f"{given.year + 9}"
    for name in ("expires_at", "expires_by"):
        assert datetime.fromisoformat(under[name]) - datetime.fromisoformat(before[name]) < timedelta(minutes=5)
