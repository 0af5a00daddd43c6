"""The calibration of a model, from a ledger whose promises and later versions are known."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from app.calibration import report as computing
from app.calibration.file import read_calibration, write_calibration
from app.calibration.report import calibration
from app.errors import LedgerUnavailable
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.store import load_futures
from app.ledger.entries import entry_of
from app.ledger.ledger import Ledger
from app.ledger.replay import replay
from app.models import tasks
from app.questions.frame import Frame, identity
from app.questions.question import Question, request_of
from app.questions.use_cases import answer as answer_of
from app.recourse.certificate_params import CertificateParams
from app.recourse.models.calibration import Calibration
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.version import RegisteredModel
from app.store.engine import open_engine
from app.store.migrate import upgrade
from tests.api.asking import CARRIED
from tests.ledger.records import new_record
from tests.registry.loan import loan_records, make_linear

numbers = count()


def labelled(folder: Path, version: str, **manifest: Any) -> Path:
    directory = make_linear(folder / f"source-{version}").label()
    directory.manifest.pop("refits")
    return directory.write(version=version, **manifest)


@dataclass(frozen=True)
class Ledgered:
    """A registry and a ledger."""

    folder: Path
    ledger: Ledger

    @property
    def registry(self) -> Registry:
        return Registry(self.folder / "store")

    @property
    def store(self) -> Store:
        return Store(root=str(self.folder / "store"), ledger=f"sqlite:///{self.folder / 'ledger'}")

    def register(self, version: str, *, active: bool = True, **manifest: Any) -> RegisteredModel:
        return self.registry.register(labelled(self.folder, version, **manifest), active=active)

    def give(self, version: str, *promises: tuple[float | None, dict[str, object]], method: str = "probe") -> str:
        """Record an answer with a counterfactual for each promise."""
        parts = [
            {"applicant": record, "validity": {"future": None if told is None else {"probability": told}}}
            for told, record in promises
        ]
        answer = json.dumps({"method": {"name": method}, "counterfactuals": parts}).encode()
        record = new_record(next(numbers), version=version, answer=answer)
        self.ledger.append([record])
        return record.id

    def calibration(self, model: str = "loan") -> dict[str, Any]:
        return calibration(self.store, model, deadline_s=60.0)

    def records(self, version: str, accepted: bool) -> list[dict[str, object]]:
        """Reference records that a version accepts or refuses."""
        reference = self.registry.find(f"loan@{version}", include_inactive=True).load().reference
        return [reference.space.record(row) for row in reference.rows_raw[(reference.scores >= 0) == accepted]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Ledgered]:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger'}")
    upgrade(engine)
    yield Ledgered(tmp_path, Ledger(engine))
    engine.dispose()


def interval(hits: int, trials: int) -> list[float]:
    """Clopper-Pearson by the quantiles of the beta law."""
    low = 0.0 if hits == 0 else beta.ppf(0.025, hits, trials - hits + 1)
    high = 1.0 if hits == trials else beta.ppf(0.975, hits + 1, trials - hits)
    return [low, high]


def test_an_empty_ledger_has_no_bins(world: Ledgered) -> None:
    world.register("1")
    found = world.calibration()
    assert (found["model"], found["bins"], found["methods"], found["versions"]) == ("loan", [], [], [])
    assert (found["promises"], found["mean_told"], found["kept"], found["interval"]) == (0, None, None, None)
    assert (found["pending"], found["unchecked"], found["left_out"], found["correction"]) == (0, 0, 0, None)


def test_what_was_asked_under_stress_is_counted_by_itself(world: Ledgered) -> None:
    world.register("1")
    world.register("2", active=False, threshold=0.6)
    yes, no = world.records("2", True), world.records("2", False)

    def give(under: Any, record: Any, stressed: Any) -> None:
        future = {"probability": 0.9, "under": under, "stressed": stressed}
        parts = [{"applicant": record, "validity": {"future": future}}]
        answer = json.dumps({"method": {"name": "probe"}, "counterfactuals": parts}).encode()
        world.ledger.append([new_record(next(numbers), version="1", answer=answer)])

    give("stress", yes[0], {"lowest": 0.8})
    give("stress", yes[1], {"lowest": 0.6})
    give("same", no[0], {"lowest": 0.2})
    give(None, no[1], None)
    world.give("1", (0.9, yes[2]))  # of an earlier release: a plain promise
    give(None, yes[3], {"probability": 0.7})  # of an earlier release: a single stress
    found = [(one["under"], one["promises"], one["kept"], one["mean_lowest"]) for one in world.calibration()["under"]]
    assert found == [
        ("stress", 2, 1.0, pytest.approx(0.7)),
        ("same", 1, 0.0, pytest.approx(0.2)),
        (None, 3, pytest.approx(2 / 3, rel=CARRIED), None),
    ]


def test_the_backtest_of_the_version_that_answers_is_told(world: Ledgered) -> None:
    directory = make_linear(world.folder / "dated").label()
    directory.manifest.pop("refits")
    for i, record in enumerate(directory.records):
        record["day"] = (date(2025, 1, 1) + timedelta(days=i)).isoformat()
    directory.columns.append("day")
    model = world.registry.register(directory.write(version="1", time={"column": "day"}))
    assert (world.calibration()["backtest"], world.calibration()["backtest_detail"]) == ([], None)
    rehearse(model, Choices(stress="none", search=2, held_back=2))
    assert world.calibration()["backtest_detail"] == "The records span 6.7 months; a backtest needs 8."
    directory.records = loan_records(400)
    directory.columns.remove("repaid")
    directory.label()
    for i, record in enumerate(directory.records):
        record["day"] = (date(2025, 1, 1) + timedelta(days=i)).isoformat()
    second = world.registry.register(directory.write(version="2", refits=None))
    record = rehearse(second, Choices(stress="none", search=2, held_back=2))
    found = world.calibration()["backtest"]
    assert [(one["asked"], one["months"]) for one in found] == [(one.asked, one.months) for one in record.backtest]
    assert found[0]["kept"] == pytest.approx(record.backtest[0].kept, rel=CARRIED)


def test_each_bin_says_what_the_next_version_keeps(world: Ledgered) -> None:
    world.register("1")
    world.register("2", active=False, threshold=0.6)
    yes, no = world.records("2", True), world.records("2", False)
    for record in [*yes[:6], *no[:2]]:
        world.give("1", (0.85, record))
    world.give("1", (0.8, yes[6]), (0.9, no[3]), (1.0, yes[7]), (0.3, no[4]), method="copa")
    world.give("2", (0.9, yes[0]))
    world.give("1", (None, yes[0]))

    found = world.calibration()
    assert [one["told"] for one in found["bins"]] == [[0.3, 0.4], [0.8, 0.9], [0.9, 1.0]]
    assert [one["promises"] for one in found["bins"]] == [1, 9, 2]
    assert [one["kept"] for one in found["bins"]] == pytest.approx([0.0, 7 / 9, 0.5], rel=CARRIED)
    assert [one["mean_told"] for one in found["bins"]] == pytest.approx([0.3, (8 * 0.85 + 0.8) / 9, 0.95], rel=CARRIED)
    for one, (hits, trials) in zip(found["bins"], [(0, 1), (7, 9), (1, 2)], strict=True):
        assert one["interval"] == pytest.approx(interval(hits, trials), rel=CARRIED)
    assert (found["promises"], found["pending"]) == (12, 1)
    assert found["kept"] == pytest.approx(8 / 12, rel=CARRIED)
    assert found["interval"] == pytest.approx(interval(8, 12), rel=CARRIED)
    assert [(one["method"], one["promises"], one["kept"]) for one in found["methods"]] == [
        ("copa", 4, 0.5),
        ("probe", 8, 0.75),
    ]
    assert sum(len(one["bins"]) for one in found["methods"]) == 4
    first, second = found["versions"]
    assert (first["version"], first["next"], first["promises"], first["pending"]) == ("1", "2", 12, 0)
    assert (second["version"], second["next"], second["promises"], second["pending"]) == ("2", None, 0, 1)


def test_the_next_version_is_the_next_registered_one_with_the_same_columns(world: Ledgered) -> None:
    world.register("1")
    more = make_linear(world.folder / "more").label()
    (housing,) = [feature for feature in more.manifest["features"] if feature["name"] == "housing"]
    housing["categories"] = [*housing["categories"], "boat"]
    content = json.loads(more.artifact)
    content["weights"]["housing=boat"] = 0.0
    more.set_artifact(json.dumps(content).encode())
    world.registry.register(more.write(version="2"))
    world.register("3", active=False, threshold=0.95)
    world.register("4", threshold=0.05)
    accepted = world.records("4", True)
    record = next(record for record in world.records("3", False) if record in accepted)
    world.give("1", (0.5, record))
    world.give("2", (0.5, record))
    found = world.calibration()
    assert [(one["version"], one["next"]) for one in found["versions"]] == [("1", "3"), ("2", None)]
    assert (found["promises"], found["kept"], found["pending"]) == (1, 0.0, 1)


def test_a_record_that_no_longer_fits_is_not_kept(world: Ledgered) -> None:
    world.register("1")
    young = make_linear(world.folder / "young").label()
    young.manifest["features"][0]["max"] = 39
    young.records = [record for record in young.records if record["age"] <= 39]
    world.registry.register(young.write(version="2"))
    old = next(record for record in world.records("1", True) if float(str(record["age"])) > 39)
    world.give("1", (0.9, old))
    assert world.calibration()["kept"] == 0.0


def test_erased_promises_and_those_of_unknown_versions_are_not_checked(world: Ledgered) -> None:
    world.register("1")
    world.register("2")
    (record, *_) = world.records("2", True)
    erased = world.give("1", (0.9, record))
    world.give("1", (0.9, record))
    world.give("0", (0.9, record))
    world.ledger.erase([erased], "request", datetime.now(UTC))
    found = world.calibration()
    assert (found["promises"], found["unchecked"], found["pending"]) == (1, 1, 0)


def test_the_newest_answers_are_read_and_the_others_counted(world: Ledgered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "MOST_ANSWERS", 3)
    world.register("1")
    world.register("2")
    yes, no = world.records("2", True)[0], world.records("2", False)[0]
    for record in (no, no, yes, yes, yes):
        world.give("1", (0.9, record))
    found = world.calibration()
    assert (found["promises"], found["kept"], found["left_out"]) == (3, 1.0, 2)


def test_where_the_time_is_over_promises_are_unchecked_and_no_correction_is_stored(world: Ledgered) -> None:
    world.register("1")
    second = world.register("2")
    write_calibration(second.directory, Calibration(told=(0.9,), by=(0.1,), promises=60, retrainings=1))
    world.give("1", (0.9, world.records("2", True)[0]))
    found = calibration(world.store, "loan", deadline_s=0.0)
    assert (found["promises"], found["unchecked"]) == (0, 1)
    assert read_calibration(second.directory) is not None
    world.calibration()
    assert read_calibration(second.directory) is None


def test_no_version_is_loaded_twice(world: Ledgered, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1", "2", "3"):
        world.register(version)
    yes = world.records("2", True)
    for version in ("1", "2", "1", "2"):
        world.give(version, (0.9, yes[0]), (0.8, yes[1]))
    loaded = []
    load = tasks.load_sibling.__wrapped__
    monkeypatch.setattr(tasks, "load_sibling", lambda ref: loaded.append(ref.name) or load(ref))
    assert world.calibration()["promises"] == 8
    assert sorted(loaded) == ["loan@2", "loan@3"]


def test_nothing_of_a_record_is_in_the_answer(world: Ledgered) -> None:
    world.register("1")
    world.register("2")
    record = {**world.records("2", True)[0], "income": 4242.0, "amount": 13131.0}
    identifier = world.give("1", (0.9, record))
    found = json.dumps(world.calibration())
    for secret in ("4242", "13131", "income", identifier, "case "):
        assert secret not in found


def test_a_ledger_that_cannot_be_read_is_an_error(world: Ledgered) -> None:
    world.register("1")
    with pytest.raises(LedgerUnavailable):
        calibration(replace(world.store, ledger=f"sqlite:///{world.folder / 'none' / 'ledger'}"), "loan", deadline_s=9)


# --- the correction --------------------------------------------------------------------------------------------------

SETS = Choices(stress="none", search=4, held_back=40)
PEOPLE = 60


def promised(world: Ledgered, version: str) -> list[dict[str, Any]]:
    """Real answers of a version to people that it refuses, recorded."""
    ref = ModelRef.of(world.store, world.store.open().find(f"loan@{version}"))
    model = tasks.load(ref)
    refused = model.reference.rows_raw[model.reference.scores < 0.0][:PEOPLE]
    answers = []
    for i, row_raw in enumerate(refused):
        frame = Frame(
            id=f"rec_{version}_{i}", model=identity(model.registered), method={"name": "robust_mpm"}, seed=0,
            stored=True, created_at="2030-01-01T00:00:00.000Z", expires_at="2030-04-01T00:00:00.000Z",
        )  # fmt: skip
        question = Question(
            factual_raw=row_raw, method="robust_mpm", params=METHODS["robust_mpm"].params(),
            certificate=CertificateParams(), seed=0,
        )  # fmt: skip
        answers.append(answer_of(ref, "recourse", question, frame, 1.0, deadline_s=60.0))
        world.ledger.append([entry_of(answers[-1], request_of(model.black_box.space, question, 60_000))])
    return [answer for answer in answers if answer["status"] == "found"]


def futures_of(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["validity"]["future"] for answer in answers for one in answer["counterfactuals"]]


def test_where_retraining_broke_more_than_was_told_what_is_told_is_lowered(world: Ledgered) -> None:
    rehearse(world.register("1"), SETS)
    before = futures_of(promised(world, "1"))
    assert len(before) >= 50
    assert {one["measured"] for one in before} == {None}
    second = world.register("2", threshold=0.85)
    rehearse(second, SETS)
    found = world.calibration()
    told, kept = found["mean_told"], found["kept"]
    assert told == pytest.approx(np.mean([one["probability"] for one in before]), rel=CARRIED)
    assert kept < told - 0.2
    (first,) = found["versions"]
    assert first["rank"] == pytest.approx(1 / 41, rel=CARRIED)
    correction = found["correction"]
    assert (correction["model"], correction["promises"], correction["retrainings"]) == ("loan@2", len(before), 1)

    # The newest version answers with the correction; what was measured stays.
    futures = load_futures(second)
    assert futures is not None
    for one in futures_of(promised(world, "2")):
        by = float(np.interp(one["probability"], correction["told"], correction["by"]))
        assert one["measured"]["share"] == pytest.approx(max(0.0, one["probability"] - by), rel=CARRIED)
        assert (one["measured"]["promises"], one["measured"]["retrainings"]) == (len(before), 1)
        assert one["probability"] * 40 == pytest.approx(round(one["probability"] * 40))
    # The older one has none before it, and none is stored for it.
    assert {one["measured"] for one in futures_of([answer_again(world, "1")])} == {None}

    # A recorded answer is the same when it is computed again, whatever is corrected by then.
    record = world.ledger.find("rec_2_0")
    write_calibration(second.directory, None)
    assert replay(world.store, record, math.inf) == []


def answer_again(world: Ledgered, version: str) -> dict[str, Any]:
    ref = ModelRef.of(world.store, world.store.open().find(f"loan@{version}"))
    record = json.loads(world.ledger.find(f"rec_{version}_0").personal_data.request)  # type: ignore[union-attr]
    question = Question.from_json(record["question"])
    frame = Frame(id="rec_again", model=identity(tasks.load(ref).registered), method={}, seed=0)
    return answer_of(ref, "recourse", question, frame, 1.0, deadline_s=60.0)


def test_a_model_that_keeps_its_promises_is_not_corrected(world: Ledgered) -> None:
    rehearse(world.register("1"), SETS)
    before = futures_of(promised(world, "1"))
    second = world.register("2")
    rehearse(second, SETS)
    found = world.calibration()
    assert (found["promises"], found["kept"], found["correction"]) == (len(before), 1.0, None)
    assert json.loads((second.directory / "calibration.json").read_text()) == {"schema_version": 1, "correction": None}
    futures = load_futures(second)
    assert futures is not None
    assert futures.calibration is None
    assert {one["measured"] for one in futures_of(promised(world, "2")[:3])} == {None}


def test_the_file_is_written_only_where_it_differs_and_damage_corrects_nothing(world: Ledgered) -> None:
    directory = world.register("1").directory
    found = Calibration(told=(0.5, 0.9), by=(0.1, 0.25), promises=70, retrainings=2)
    write_calibration(directory, found)
    path = directory / "calibration.json"
    stamp = path.stat()
    write_calibration(directory, found)
    assert path.stat().st_ino == stamp.st_ino
    assert read_calibration(directory) == found
    for damage in ("{", '{"correction": {"told": [0.9, 0.5], "by": [0, 0], "promises": 1, "retrainings": 1}}'):
        path.write_text(damage)
        assert read_calibration(directory) is None
    path.unlink()
    assert read_calibration(directory) is None
