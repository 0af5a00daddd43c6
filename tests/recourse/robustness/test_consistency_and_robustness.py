"""The robust recourse of a linear model: as good as a conic solver's, where the printed algorithm is not."""

import math
from collections.abc import Callable
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.actions.action_set import action_set
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.trade_off import TradeOff
from tests.recourse.algorithm_1 import optimum_in_box

PROBLEMS = 1000


def problems(count: int, seed: int = 0) -> list[tuple[Float[np.ndarray, "d"], LossAndCost]]:
    """Random ones: up to 12 dimensions, zeros among the coordinates, radii up to 1.5."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        d = int(rng.integers(1, 13))
        x0 = np.round(rng.normal(size=d), 2) * (rng.random(d) > 0.3)
        model = LinearModel(rng.normal(size=d), float(rng.normal() - 1.0))
        radius, weight = float(rng.uniform(0.0, 1.5)), float(rng.choice([0.02, 0.05, 0.1, 0.3]))
        found.append((x0, LossAndCost(model=model, radius=radius, cost_weight=weight)))
    return found


def reached(x: Float[np.ndarray, "d"], x0: Float[np.ndarray, "d"], objective: LossAndCost) -> float:
    """The objective at a point, with the worst model built from its definition."""
    w = objective.model.w - objective.radius * np.sign(x)
    score = float(w @ x) + objective.model.c - objective.radius
    return float(np.logaddexp(0.0, -score)) + objective.cost_weight * float(np.abs(x - x0).sum())


def optimum(x0: Float[np.ndarray, "d"], objective: LossAndCost) -> Float[np.ndarray, "d"]:
    return optimum_in_box(x0[None], objective.model, objective.radius, objective.cost_weight)[0]


def conic(x0: Float[np.ndarray, "d"], objective: LossAndCost) -> float:
    x = cp.Variable(len(x0))
    score = objective.model.w @ x + objective.model.c - objective.radius * (cp.norm1(x) + 1.0)
    problem = cp.Problem(cp.Minimize(cp.logistic(-score) + objective.cost_weight * cp.norm1(x - x0)))
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def printed(
    x0: Float[np.ndarray, "d"], objective: LossAndCost, sgn: Callable[[float], float]
) -> Float[np.ndarray, "d"]:
    """Algorithm 1 as the paper prints it, line by line."""
    w, radius = objective.model.w, objective.radius
    theta, x, active = np.zeros(len(x0)), x0.copy(), set(range(len(x0)))
    for i in range(len(x0)):
        if x0[i] != 0.0:
            theta[i] = w[i] - radius * sgn(x0[i])
        elif abs(w[i]) > radius:
            theta[i] = w[i] - radius * sgn(w[i])
        else:
            active.discard(i)
    while active:
        i = max(active, key=lambda j: abs(theta[j]))
        if abs(theta[i]) <= objective.cost_weight:
            break
        score = float(theta @ x) + objective.model.c - radius
        step = (math.log(abs(theta[i]) / objective.cost_weight - 1.0) - score) / abs(theta[i])
        if step <= 0.0:
            break
        delta = step * np.sign(theta[i])
        if x[i] == 0.0 or sgn(x[i] + delta) == sgn(x[i]):
            x[i] += delta
            break
        x[i] = 0.0
        if sgn(w[i]) == sgn(w[i] + radius * sgn(x0[i])):
            theta[i] = w[i] + radius * sgn(x0[i])
        else:
            active.discard(i)
    return x


@pytest.mark.release
def test_a_conic_solver_finds_nothing_better_in_a_thousand_problems() -> None:
    for x0, objective in problems(PROBLEMS):
        assert reached(optimum(x0, objective), x0, objective) == pytest.approx(conic(x0, objective), abs=1e-6)


def test_the_search_of_action_sets_finds_what_algorithm_1_finds() -> None:
    for x0, objective in problems(100, seed=4):
        names = [f"f{j}" for j in range(len(x0))]
        number = Feature(name="", type=FeatureType.CONTINUOUS, min=-50, max=50, center=0.0, scale=1.0)
        A = action_set(FeatureSpace([replace(number, name=name) for name in names]), x0)
        found = TradeOff(A, objective).best()
        assert found is not None
        assert found.proven
        best = reached(optimum(x0, objective), x0, objective)
        assert reached(found.row_raw, x0, objective) == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("sgn", [lambda s: float(np.sign(s)), lambda s: 1.0 if s >= 0.0 else -1.0])
def test_the_algorithm_as_printed_is_worse_on_many_of_them(sgn: Callable[[float], float]) -> None:
    worse = [
        reached(printed(x0, objective, sgn), x0, objective) - reached(optimum(x0, objective), x0, objective)
        for x0, objective in problems(PROBLEMS)
    ]
    assert min(worse) > -1e-9
    assert 0.15 <= np.mean(np.array(worse) > 1e-6) <= 0.55


def test_applicants_are_solved_together_as_they_are_alone() -> None:
    rng = np.random.default_rng(1)
    X0, model = rng.normal(size=(50, 8)), LinearModel(rng.normal(size=8), -1.0)
    weights = rng.uniform(0.02, 0.5, 50)
    together = optimum_in_box(X0, model, 0.2, weights)
    for x0, weight, x in zip(X0, weights, together, strict=True):
        np.testing.assert_allclose(optimum_in_box(x0[None], model, 0.2, weight)[0], x, atol=1e-12)


def test_a_coordinate_keeps_its_limits_and_pays_its_price() -> None:
    rng = np.random.default_rng(2)
    for x0, objective in problems(60, seed=3):
        d = len(x0)
        lower, upper = x0 - rng.uniform(0.0, 2.0, d), x0 + rng.uniform(0.0, 2.0, d)
        price = np.where(rng.random(d) < 0.2, np.inf, rng.uniform(0.5, 2.0, d))
        x = optimum_in_box(
            x0[None], objective.model, objective.radius, objective.cost_weight, price=price, lower=lower, upper=upper
        )[0]
        assert ((x >= lower) & (x <= upper)).all()
        still = np.isinf(price)
        assert (x[still] == x0[still]).all()
        y = cp.Variable(d)
        score = objective.model.w @ y + objective.model.c - objective.radius * (cp.norm1(y) + 1.0)
        cost = cp.sum(cp.multiply(np.where(still, 0.0, price), cp.abs(y - x0)))
        limits = [y >= np.where(still, x0, lower), y <= np.where(still, x0, upper)]
        problem = cp.Problem(cp.Minimize(cp.logistic(-score) + objective.cost_weight * cost), limits)
        problem.solve(solver=cp.CLARABEL)
        w = objective.model.w - objective.radius * np.sign(x)
        worst = float(w @ x) + objective.model.c - objective.radius
        paid = float((np.where(still, 0.0, price) * np.abs(x - x0)).sum())
        value = float(np.logaddexp(0.0, -worst)) + objective.cost_weight * paid
        assert value == pytest.approx(float(problem.value), abs=1e-6)
