"""Trials of promises: one half of the records promises, the other half keeps or breaks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.futures.records import PEOPLE_SHARE, Records, halves
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.store import load_futures
from app.futures.trials import MODELS, TRIALS
from app.recourse.models.calibration import Calibration, Retraining
from app.recourse.models.committee import Futures
from tests.futures.models import ModelDirectory, library, registered

ENOUGH = Choices(search=MODELS, held_back=MODELS)


def test_halves_and_people_share_no_record() -> None:
    records = Records(
        rows_raw=np.zeros((501, 1)), favourable=np.ones(501, dtype=bool), labels="outcomes", of_reference=True
    )
    seen = set()
    for index in range(TRIALS):
        own, other, people = halves(records, 0, index)
        assert len({*own, *other, *people}) == len(own) + len(other) + len(people)
        assert len(people) == int(PEOPLE_SHARE * 501)
        assert len(own) == len(other) == 225
        seen.add(own.tobytes())
        if index % 2:
            assert (halves(records, 0, index - 1)[0] == other).all()
    assert len(seen) == TRIALS


def overfitted(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    """Deep trees that learn by heart, outcomes that are chance for one record in four."""
    xgboost = library("xgboost")
    options = {"objective": "binary:logistic", "eta": 0.5, "max_depth": 8, "min_child_weight": 0, "nthread": 1}
    booster = xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=20)
    directory.set_artifact(bytes(booster.save_raw("json")), format="xgboost")


@pytest.mark.release
def test_a_model_that_learns_by_heart_promises_less(tmp_path: Path) -> None:
    model = registered(tmp_path, overfitted, records=600)
    record = rehearse(model, ENOUGH)
    assert record.trials is not None
    assert record.trials.retrainings == TRIALS
    futures = load_futures(model)
    assert futures is not None
    assert futures.trials == record.trials
    assert futures.trials.corrected(0.8) < 0.75
    assert futures.asked_of_models(0.7) > 0.7


@pytest.mark.slow
def test_a_linear_model_keeps_what_it_promises(tmp_path: Path) -> None:
    """Up to what six trials show by chance."""
    steps: list[tuple[int, int]] = []
    record = rehearse(
        registered(tmp_path, "linear", records=600), ENOUGH, progress=lambda done, total: steps.append((done, total))
    )
    assert record.trials is None or record.trials.corrected(0.8) > 0.75
    assert steps[-1] == (2 * MODELS + TRIALS, 2 * MODELS + TRIALS)


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["torch", "lightgbm"])
def test_every_recipe_can_be_tried(tmp_path: Path, fit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(retrainings: Sequence[Retraining], models: int) -> None:
        tried.extend(len(one.told) for one in retrainings)

    monkeypatch.setattr("app.futures.trials.PEOPLE", 2)
    monkeypatch.setattr("app.futures.rehearsal.calibrate_trials", counted)
    rehearse(registered(tmp_path, fit, records=600), ENOUGH)
    assert len(tried) == TRIALS
    assert min(tried) >= 3


@pytest.mark.parametrize(
    ("records", "choices"),
    [(300, ENOUGH), (600, Choices(search=4, held_back=4)), (600, Choices(records="same", search=20, held_back=20))],
)
def test_without_enough_records_or_models_nothing_is_tried(tmp_path: Path, records: int, choices: Choices) -> None:
    steps: list[int] = []
    record = rehearse(
        registered(tmp_path, "linear", records=records), choices, progress=lambda _, total: steps.append(total)
    )
    assert record.trials is None
    assert set(steps) == {choices.search + choices.held_back}


def test_a_share_is_asked_of_more_models_where_trials_broke_promises() -> None:
    trials = Calibration(told=(0.0, 0.5, 1.0), by=(0.0, 0.2, 0.1), promises=216, retrainings=6)
    nothing: Any = None
    futures = Futures(search=nothing, held_back=nothing, source="retrained", trials=trials)
    # From 0.5 to 1 what is left rises from 0.3 to 0.9: 0.7 is left of 0.5 + 0.5 * (0.7 - 0.3) / 0.6.
    assert futures.asked_of_models(0.7) == pytest.approx(0.5 + 0.5 * 0.4 / 0.6, abs=1e-3)
    assert futures.most == pytest.approx(0.9)
    assert futures.asked_of_models(0.95) == 1.0
    assert Futures(search=nothing, held_back=nothing, source="retrained").asked_of_models(0.95) == 0.95
