"""Descent inside the hull of what a person can reach, against a conic solver and by trying what is legal."""

import math
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from scipy.optimize import minimize

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.search.gradient import Hull, descend, nearest_on_simplex
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, rows
from tests.recourse.toys import LOAN, loan_rows

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]


def hull_of(A: ActionSet, z: cp.Variable) -> list[cp.Constraint]:
    """The hull, from what each feature may do."""
    limits: list[cp.Constraint] = []
    for j, (feature, span) in enumerate(zip(A.space.features, A.space.spans, strict=True)):
        if not feature.is_group:
            low, high = ((end - feature.center) / feature.scale for end in (A.lower_raw[j], A.upper_raw[j]))
            limits += [z[span] >= low] * math.isfinite(low) + [z[span] <= high] * math.isfinite(high)
        elif A.movable[j]:
            limits += [cp.sum(z[span]) == 1, z[span] >= 0]
        else:
            limits += [z[span] == np.eye(span.stop - span.start)[int(A.factual_raw[j])]]
    return limits


def least(objective: cp.Expression, limits: list[cp.Constraint]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(cp.Problem(cp.Minimize(objective), limits).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("levels", [1, 2, 3, 7])
def test_the_nearest_point_of_a_simplex_is_the_one_that_a_solver_finds(levels: int) -> None:
    rng = np.random.default_rng(levels)
    X = 2.0 * rng.standard_normal((4, 3, levels))
    found = nearest_on_simplex(X)
    np.testing.assert_allclose(found.sum(axis=2), 1.0, atol=1e-12)
    assert (found >= 0.0).all()
    for point, nearest in zip(X.reshape(-1, levels), found.reshape(-1, levels), strict=True):
        solved = minimize(
            lambda z, point=point: ((z - point) ** 2).sum(),
            np.full(levels, 1.0 / levels),
            jac=lambda z, point=point: 2.0 * (z - point),
            bounds=[(0.0, None)] * levels,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1.0, "jac": lambda z: np.ones(len(z))},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(nearest, solved.x, atol=1e-6)


@settings(PROPERTY, max_examples=examples(60))
@given(questions(), st.integers(0, 1000))
def test_projection_is_the_nearest_point_of_the_hull(question: Question, seed: int) -> None:
    if (question.action_set.lower_raw > question.action_set.upper_raw).any():
        return
    X = 3.0 * np.random.default_rng(seed).standard_normal((2, question.space.d))
    found = Hull(question.action_set).project(X.copy())
    for x, nearest in zip(X, found, strict=True):
        z = cp.Variable(question.space.d)
        least(cp.sum_squares(z - x), hull_of(question.action_set, z))
        np.testing.assert_allclose(nearest, z.value, atol=1e-5)
    np.testing.assert_allclose(Hull(question.action_set).project(found.copy()), found, atol=1e-12)


@settings(PROPERTY, max_examples=examples(100))
@given(st.data())
def test_the_cost_of_records_is_the_cost_of_the_action_set(data: st.DataObject) -> None:
    question = data.draw(questions())
    rows_raw = np.array(data.draw(st.lists(rows(question.space), min_size=1, max_size=5)))
    found = Hull(question.action_set).cost(question.space.encode(rows_raw))
    np.testing.assert_allclose(found, question.action_set.cost(rows_raw), atol=1e-9)


def test_records_that_are_legal_stay_where_they_are() -> None:
    rows_raw = loan_rows(40)
    A = action_set(LOAN, rows_raw[0])
    X = LOAN.encode(A.snap(rows_raw))
    np.testing.assert_allclose(Hull(A).project(X.copy()), X, atol=1e-12)


def test_the_slope_of_the_cost_is_that_of_the_cost() -> None:
    rows_raw = loan_rows(30, seed=2)
    hull = Hull(action_set(LOAN, rows_raw[0], cost_weights={"income": 3.0, "housing": 0.5}))
    X, step = LOAN.encode(rows_raw) + 1e-3, 1e-6
    for j in range(LOAN.d):
        forward = hull.cost(X + step * np.eye(LOAN.d)[j]) - hull.cost(X - step * np.eye(LOAN.d)[j])
        np.testing.assert_allclose(hull.cost_slope(X)[:, j], forward / (2.0 * step), atol=1e-6)


@pytest.mark.parametrize("weight", [0.05, 0.5])
def test_descent_reaches_the_optimum_of_a_convex_problem_from_everywhere(weight: float) -> None:
    """Distance to a point outside the hull and the cost, against the conic solution."""
    rows_raw = loan_rows(30, seed=4)
    constraints = Constraints(
        immutable=("months",),
        direction={"income": Direction.INCREASE},
        bounds={"savings": Bounds(max="some")},
    )
    A = action_set(LOAN, rows_raw[3], constraints=constraints)
    hull, aim = Hull(A), LOAN.encode(rows_raw[3:4])[0] + np.linspace(-1.5, 1.5, LOAN.d)

    def objective(X: Points) -> Float[np.ndarray, "n"]:
        return ((X - aim) ** 2).sum(axis=1) + weight * hull.cost(X)

    iterates = descend(
        lambda X: 2.0 * (X - aim) + weight * hull.cost_slope(X), LOAN.encode(rows_raw), hull, steps=800, rate=0.02
    )
    best = objective(iterates.reshape(-1, LOAN.d)).reshape(iterates.shape[:2]).min(axis=0)
    z, cost = cp.Variable(LOAN.d), cp.Constant(0.0)
    for j, (feature, span) in enumerate(zip(LOAN.features, LOAN.spans, strict=True)):
        x0 = hull.x0[span]
        cost += A.weights[j] * (1.0 - x0 @ z[span] if feature.is_group else cp.sum(cp.abs(z[span] - x0)))
    optimum = least(cp.sum_squares(z - aim) + weight * cost, hull_of(A, z))
    np.testing.assert_allclose(best, optimum, atol=2e-3)
    for X in iterates[[0, 400, 799]]:
        np.testing.assert_allclose(hull.project(X.copy()), X, atol=1e-9)
