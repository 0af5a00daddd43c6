"""Other methods that ours are compared with: what is missing is named, and what is written here does as its paper."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox, Output
from benchmarks import peers
from benchmarks.nice import Nice
from benchmarks.tasks import consumer_loan


def test_a_peer_that_is_not_installed_is_left_out_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    found = peers.peers(consumer_loan())
    assert set(peers.OURS) < set(found)
    assert not any("DiCE" in name for name in found)
    assert "`pip install --group peers`" in capsys.readouterr().out


def test_without_data_there_is_a_message_in_place_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "GERMAN", tmp_path / "present.csv")
    peers.table()
    written = capsys.readouterr().out
    assert "RECOURSE_DATA" in written
    assert "|" not in written


@pytest.mark.parametrize(("reward", "answer"), [("sparsity", [8.0, 0.0, 0.0]), ("proximity", [8.0, 2.0, 0.0])])
def test_nice_copies_values_of_the_nearest_accepted_record(
    reward: Literal["sparsity", "proximity"], answer: list[float]
) -> None:
    # The first number gains most, and is enough; per distance the second one gains more, but is not enough.
    numbers = [Feature(name=f"f{j}", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0) for j in range(2)]
    space = FeatureSpace([*numbers, Feature(name="f2", type=FeatureType.CATEGORICAL, categories=("a", "b"))])

    def predict(X: np.ndarray) -> np.ndarray:
        return np.asarray(X @ np.array([0.5, 1.0, 0.0, 1.6]) - 3.5)

    black_box = BlackBox(space=space, predict=predict, output=Output.LOGIT, threshold=0.0)
    records_raw = np.array([[8.0, 2.0, 1.0], [10.0, 20.0, 1.0], [0.0, 0.0, 0.0]])
    found = Nice(black_box=black_box, records_raw=records_raw, reward=reward).explain(np.zeros(3))
    assert found is not None
    assert found.tolist() == answer


@pytest.mark.parametrize("reward", ["sparsity", "proximity"])
def test_nice_ends_where_the_model_accepts_and_not_before(reward: Literal["sparsity", "proximity"]) -> None:
    task = consumer_loan()
    nice = Nice(black_box=task.black_box, records_raw=task.reference.rows_raw, reward=reward)
    for applicant in task.applicants_raw[:20]:
        found = nice.explain(applicant)
        assert found is not None
        assert task.black_box.score_raw(found[None])[0] >= 0.0
        differ = found != applicant
        donors = (task.reference.rows_raw[:, differ] == found[differ]).all(axis=1) & (task.reference.scores >= 0.0)
        assert donors.any()


def test_nice_finds_nothing_where_no_record_is_accepted() -> None:
    task = consumer_loan()
    nice = Nice(black_box=task.black_box, records_raw=task.applicants_raw, reward="sparsity")
    assert nice.explain(task.applicants_raw[0]) is None
