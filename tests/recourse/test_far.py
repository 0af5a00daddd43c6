"""A remote model without gradient: how often an answer calls it, and that shared calls change no answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.futures.store import load_futures
from app.recourse.actions.action_set import action_set
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry

STORE = Path(__file__).parents[2] / "models_store"
PEOPLE = 30
HARD = (6, 14, 28)
"""Of them those whose ways take the most calls."""


@dataclass
class Counted:
    """A model behind a network that counts what it is sent."""

    predict: Callable[[np.ndarray], np.ndarray]
    max_calls: int = 1_000
    max_rows: int = 10_000_000
    calls: int = 0

    def price(self, rows: int) -> tuple[int, int]:
        return 1, rows

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        self.calls += 1
        return self.predict(rows)


@cache
def refused() -> tuple[RecourseProblem, ...]:
    """Of the demo's refused people."""
    (model,) = Registry(STORE).list()
    loaded = model.load()
    reference = loaded.reference
    black_box = replace(loaded.black_box, gradient=None, network=None, piecewise_linear=False)
    return tuple(
        RecourseProblem(
            black_box=black_box,
            reference=reference,
            action_set=action_set(model.space, row_raw, rules=loaded.rules),
            futures=load_futures(model),
        )
        for row_raw in reference.rows_raw[~favourable(reference.scores)][:PEOPLE]
    )


def asked(person: int, name: str, **wishes: Any) -> tuple[RecourseResult, int]:
    """The answer, and the calls that the model got."""
    problem, method = refused()[person], METHODS[name]
    far = Counted(problem.black_box.predict)
    problem = replace(problem, black_box=replace(problem.black_box, remote=far), **wishes)
    return solve(problem, method, method.params()), far.calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wishes", "people", "most"),
    [
        ("robust_mpm", {}, range(PEOPLE), 5),
        ("wachter", {}, range(0, PEOPLE, 3), 5),
        ("robust_mpm", {"count": 3}, range(PEOPLE), 10),
        ("probe", {}, range(0, PEOPLE, 5), 15),
        ("robust_mpm", {"future_validity": 0.8}, range(0, PEOPLE, 3), 6),
        ("robust_mpm", {"count": 3, "future_validity": 0.8}, HARD, 15),
        pytest.param("probe", {}, range(PEOPLE), 15, marks=pytest.mark.release),
        pytest.param("robust_mpm", {"count": 3, "future_validity": 0.8}, range(PEOPLE), 15, marks=pytest.mark.release),
    ],
)
def test_an_answer_takes_few_calls(name: str, wishes: dict[str, Any], people: Sequence[int], most: int) -> None:
    found = 0
    for person in people:
        answer, calls = asked(person, name, **wishes)
        assert answer.diagnostics.model_calls == calls <= most
        found += len(answer.counterfactuals)
    assert found >= 0.9 * len(people) * wishes.get("count", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wishes", [pytest.param({"count": 3}, marks=pytest.mark.release), {"count": 2, "future_validity": 0.8}]
)
def test_questions_in_step_have_the_answers_of_one_after_another(
    monkeypatch: pytest.MonkeyPatch, wishes: dict[str, Any]
) -> None:
    in_step = [asked(person, "robust_mpm", **wishes) for person in HARD]
    monkeypatch.setattr(Meter, "together", lambda _, works: [work() for work in works])
    for (together, calls), person in zip(in_step, HARD, strict=True):
        alone, more = asked(person, "robust_mpm", **wishes)
        assert calls < more
        assert together.warnings == alone.warnings
        for one, other in zip(together.counterfactuals, alone.counterfactuals, strict=True):
            np.testing.assert_array_equal(one.row_raw, other.row_raw)
            assert one.score == pytest.approx(other.score, abs=1e-5), "a network adds in another order"
            assert one.changed == other.changed
