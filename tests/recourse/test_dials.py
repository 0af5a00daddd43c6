"""Asking for more is never answered with less: every knob of every method, on its own scale.

The scale is the method's: a constraint of its own, and how near a record comes to it; or else its objective. An answer
that meets the constraint meets what was asked; one that misses it says so, and no less demanding answer comes nearer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.actions.constraints import Bounds
from app.recourse.candidates import Candidates
from app.recourse.fallback import NEAREST_WARNING
from app.recourse.frontier import frontier
from app.recourse.method import Method
from app.recourse.methods.learning_augmented import ShiftPrediction
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import METHODS, solve
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

Toy = Callable[[dict[str, Any]], list[RecourseProblem]]

VALUES: dict[tuple[str, str], list[float]] = {
    ("robust_mpm", "radius_unfavourable"): [0.0, 1.0, 10.0, 100.0],
    ("robust_mpm", "margin"): [0.0, 0.3, 1.0, 2.5, 6.0],
    ("robust_projection", "weight_radius"): [0.0, 0.1, 0.3, 0.8],
    ("roar", "weight_radius"): [0.0, 0.1, 0.3, 1.0],
    ("roar", "cost_weight"): [1.0, 0.1, 0.01],
    ("wachter", "cost_weight"): [1.0, 0.1, 0.01],
    ("learning_augmented", "weight_radius"): [0.0, 0.1, 0.3, 1.0],
    ("learning_augmented", "cost_weight"): [1.0, 0.1, 0.01],
    ("learning_augmented", "robustness_weight"): [0.0, 0.5, 1.0],
    ("robust_bayesian", "radius_unfavourable"): [0.0, 1.0, 4.0],
    ("robust_bayesian", "extra_cost"): [0.0, 1.0, 4.0],
    ("probe", "target_invalidation_rate"): [0.45, 0.2, 0.05],
    ("probe", "noise_std"): [0.05, 0.2, 0.5],
}
"""From the least robust value on."""

FIXED: dict[tuple[str, str], dict[str, Any]] = {
    ("learning_augmented", "robustness_weight"): {"prediction": ShiftPrediction(threshold_shift=-1.0)},
}

BY_DESCENT = {"robust_bayesian"}
"""Methods whose objective is lowered by a local descent that is rounded to legal records; only their constraint can be
compared between values of a knob."""


def linear_toy(constraints: dict[str, Any]) -> list[RecourseProblem]:
    w = np.array([1.0, -0.5, 0.8, 0.3])
    problem, _ = ask(plane(4), lambda X: X @ w - 2.0, (-1.0, 0.5, 0.0, 0.0), constraints=constraints)
    return [
        replace(problem, black_box=replace(problem.black_box, linear=True, gradient=lambda X: np.tile(w, (len(X), 1))))
    ]


def loans(constraints: dict[str, Any]) -> list[RecourseProblem]:
    people = loan_rows(300)
    refused = people[loan_score(LOAN.encode(people)) < -0.5][:3]
    return [ask(LOAN, loan_score, row.tolist(), rows_raw=people, constraints=constraints)[0] for row in refused]


def steps(constraints: dict[str, Any]) -> list[RecourseProblem]:
    """A model of raw records that decides in steps and, here and there, refuses what lies further."""

    def score(rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        smooth = loan_score(LOAN.encode(rows_raw))
        return np.floor(2.0 * smooth) / 2.0 + np.where(np.mod(rows_raw[:, 2], 900.0) < 200.0, -0.7, 0.3)

    people = loan_rows(300)
    refused = people[score(people) < -0.5][:3]
    return [ask(LOAN, score, row.tolist(), rows_raw=people, constraints=constraints, raw=True)[0] for row in refused]


@dataclass
class Answered:
    result: RecourseResult
    candidates: Candidates | None


def answered(problem: RecourseProblem, method: Method, params: Any) -> Answered:
    seen: list[Candidates] = []

    def generate(*args: Any) -> Any:
        seen.append(method.generate(*args))
        return seen[0]

    result = solve(problem, replace(method, generate=generate), params)
    return Answered(result, seen[0] if seen else None)


def check_no_less(name: str, less: Answered, more: Answered) -> None:
    """The answer to the greater demand, on the scale of that demand, against the answer to the smaller one."""
    if more.result.status is not Status.FOUND:
        assert more.result.verdict is not None
        return
    (one,), known = more.result.counterfactuals, more.candidates
    if known is None:  # the decisions nearby determine no local model, and the answer says so
        assert more.result.fallback
        assert more.result.warnings
        return
    if known.shortfall is not None:
        assert one.report is not None
        assert one.report.interval[0] <= one.report.target
        return
    if not less.result.counterfactuals:
        return
    rows = np.array([one.row_raw, less.result.counterfactuals[0].row_raw])
    here, before = known.meets(rows)
    if here and before:
        objective = known.objective(rows) if known.objective else np.zeros(2)
        if name not in BY_DESCENT:
            assert objective[0] <= objective[1] + 1e-6 or more.result.fallback
    elif not here:
        assert more.result.fallback
        assert more.result.warnings[0].startswith(NEAREST_WARNING)
        nearness = (known.nearness or known.rank)(rows)
        assert not before
        assert nearness[0] >= nearness[1] - 1e-6


def test_every_knob_is_checked() -> None:
    assert set(VALUES) == {(name, knob) for name, method in METHODS.items() for knob in method.knobs}
    for (name, knob), values in VALUES.items():
        assert (np.diff(values) * METHODS[name].knobs[knob] > 0).all()


SLOW = {
    ("robust_projection", "weight_radius", loans, False),
    ("robust_projection", "weight_radius", loans, True),
    ("robust_projection", "weight_radius", steps, False),
    ("robust_projection", "weight_radius", steps, True),
}
"""Cases that take seconds each: method, knob, toy, and whether the number of changes is limited."""

CASES = [
    pytest.param(
        name, knob, toy, {"max_changes": 2} if limited else {}, id=f"{name}-{knob}-{toy.__name__}-{limited}",
        marks=[pytest.mark.release] if (name, knob, toy, limited) in SLOW else [],
    )
    for (name, knob), toy, limited in product(VALUES, (linear_toy, loans, steps), (False, True))
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "knob", "toy", "constraints"), CASES)
def test_more_asked_is_never_less_given(name: str, knob: str, toy: Toy, constraints: dict[str, Any]) -> None:
    method = METHODS[name]
    fixed = FIXED.get((name, knob), {})
    for problem in toy(constraints):
        answers = [answered(problem, method, method.params(**fixed, **{knob: value})) for value in VALUES[name, knob]]
        for k, more in enumerate(answers):
            for less in answers[:k]:
                check_no_less(name, less, more)


# --- constraints out of reach ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toy", "bounds"), [(linear_toy, {}), (loans, {"income": Bounds(max=9000.0)})], ids=["linear", "loans"]
)
def test_a_margin_out_of_reach_is_answered_with_the_farthest_record(toy: Toy, bounds: dict[str, Bounds]) -> None:
    for problem in toy({"max_changes": 1, "bounds": bounds}):
        results = [
            solve(problem, METHODS["robust_mpm"], RobustMpmParams(radius_unfavourable=0.0, margin=margin))
            for margin in (0.0, 0.5, 1.0, 5.0, 50.0)
        ]
        scores = [one.counterfactuals[0].score for one in results]
        assert all(more >= less - 1e-9 for less, more in pairwise(scores))
        assert results[-1].fallback
        (warning, *_) = results[-1].warnings
        assert warning.startswith(NEAREST_WARNING)
        assert "at least 50 is asked for" in warning
        assert scores[-1] > scores[0] or results[0].fallback


def test_the_farthest_record_is_the_end_of_the_range() -> None:
    """With one change, the most that a number of weight 1 can do is to go to its limit."""
    (problem,) = linear_toy({"max_changes": 1})
    result = solve(problem, METHODS["robust_mpm"], RobustMpmParams(radius_unfavourable=0.0, margin=50.0))
    np.testing.assert_allclose(result.counterfactuals[0].row_raw, [5.0, 0.5, 0.0, 0.0])


@pytest.mark.parametrize("constraints", [{}, {"max_changes": 1}])
def test_a_weight_radius_out_of_reach_is_lowered_to_what_is_valid(constraints: dict[str, Any]) -> None:
    """`auto` asks for a record that every model accepts: beyond the largest such radius the answer stays the same."""
    method = METHODS["learning_augmented"]
    (problem,) = linear_toy(constraints)
    w, c = np.array([1.0, -0.5, 0.8, 0.3]), -2.0
    radii = [0.05, 0.2, 0.6, 3.0]
    results = [solve(problem, method, method.params(cost_weight="auto", weight_radius=radius)) for radius in radii]
    rows = np.array([one.counterfactuals[0].row_raw for one in results])
    valid = (rows @ w + c) / (np.abs(rows).sum(axis=1) + 1.0)
    assert (np.diff(valid) >= -1e-3).all()
    assert [one.fallback for one in results] == [bool(v < r - 1e-6) for v, r in zip(valid, radii, strict=True)]
    assert results[-1].fallback
    assert "weight_radius is 3, but no legal record is valid" in results[-1].warnings[0]


def test_a_frontier_ends_where_the_margin_is_out_of_reach() -> None:
    (problem,) = linear_toy({"max_changes": 1})
    curve = frontier(problem, METHODS["robust_mpm"], RobustMpmParams(), "margin", [0.0, 50.0])
    assert [point.result.status for point in curve.points] == [Status.FOUND, Status.NOT_FOUND]
    verdict = curve.points[1].result.verdict
    assert verdict is not None
    assert verdict.nearest is not None
    assert verdict.nearest.score >= curve.points[0].result.counterfactuals[0].score


# --- on data ---------------------------------------------------------------------------------------------------------


@pytest.mark.release
def test_no_applicant_of_german_credit_is_given_less_for_a_larger_margin() -> None:
    tasks = pytest.importorskip("benchmarks.tasks")
    from app.recourse.actions.action_set import action_set
    from app.recourse.actions.constraints import Constraints

    if not tasks.GERMAN.exists():
        pytest.skip(f"no {tasks.GERMAN}; RECOURSE_DATA names the folder of the data sets")
    task = tasks.german_linear()
    for row_raw in task.applicants_raw[:12]:
        actions = action_set(task.space, row_raw, constraints=Constraints(max_changes=2))
        problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions)
        results = [solve(problem, METHODS["robust_mpm"], RobustMpmParams(margin=margin)) for margin in (0.0, 0.5, 1.0)]
        found = [one for one in results if one.counterfactuals]
        scores = [one.counterfactuals[0].score for one in found]
        assert all(more >= less - 1e-9 for less, more in pairwise(scores))
