"""The least value over the hull of points: as a conic solver has it, with a bound that holds."""

import cvxpy as cp
import numpy as np
import pytest

from app.recourse.search.simplicial import Point, minimise


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_conic_solver_finds_the_same_value(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    r, p, cost = rng.normal(0.0, 3.0, (3, 40))
    cost = np.abs(cost) * 0.3
    points = [Point(*numbers, np.array([i])) for i, numbers in enumerate(zip(r, p, cost, strict=True))]

    def respond(a: float, b: float) -> Point:
        return points[int((cost - a * r - b * p).argmin())]

    found = minimise(points[0], respond, share, tolerance=1e-10)
    weights = cp.Variable(40, nonneg=True)
    losses = share * cp.logistic(-(r @ weights)) + (1.0 - share) * cp.logistic(-(p @ weights))
    problem = cp.Problem(cp.Minimize(losses + cost @ weights), [cp.sum(weights) == 1])
    problem.solve(solver=cp.CLARABEL)
    assert found.value == pytest.approx(float(problem.value), abs=1e-6)
    assert found.bound <= found.value + 1e-12
    assert found.bound >= found.value - 1e-8
    assert len(found.points) <= 3
    assert sum(found.weights) == pytest.approx(1.0)
