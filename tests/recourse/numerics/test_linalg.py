"""Two matrices made diagonal together, and equal rows beside `numpy.unique`."""

import cvxpy as cp
import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.numerics.linalg import (
    diagonalise_pair,
    first_of_equal,
    project,
    unique_rows,
    unique_rows_and_places,
)

Matrix = Float[np.ndarray, "d d"]


def covariance(rng: np.random.Generator, d: int, rank: int) -> Matrix:
    factor = rng.standard_normal((rank, d)) * rng.lognormal(size=d)
    return factor.T @ factor


@pytest.mark.parametrize("seed", range(30))
def test_both_matrices_are_diagonal_and_sum_to_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    S, T = covariance(rng, d, int(rng.integers(1, d + 1))), covariance(rng, d, int(rng.integers(1, d + 3)))
    a = (S + T) @ rng.standard_normal(d)
    V, s, t, outside = diagonalise_pair(S, T, a)
    assert outside is None
    assert V.shape == (d, np.linalg.matrix_rank(S + T))
    np.testing.assert_allclose(V.T @ S @ V, np.diag(s), atol=1e-6)
    np.testing.assert_allclose(V.T @ T @ V, np.diag(t), atol=1e-6)
    np.testing.assert_allclose(s + t, 1.0)
    assert ((s >= 0.0) & (t >= 0.0)).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_direction_in_which_neither_varies_is_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, T = np.zeros((5, 5)), np.zeros((5, 5))
    S[:3, :3], T[:3, :3] = covariance(rng, 3, 3), covariance(rng, 3, 2)
    a = np.array([1.0, 2.0, 3.0, 0.5, 0.0])
    *_, outside = diagonalise_pair(S, T, a)
    assert outside is not None
    np.testing.assert_allclose(outside, [0.0, 0.0, 0.0, 0.5, 0.0], atol=1e-9)
    V, _, _, outside = diagonalise_pair(S, T, np.array([1.0, 2.0, 3.0, 0.0, 0.0]))
    assert outside is None
    assert V.shape == (5, 3)


@pytest.mark.parametrize("seed", range(30))
def test_projection_onto_a_half_space_and_a_box_is_the_quadratic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = 4, int(rng.integers(1, 7))
    normal = rng.normal(size=k) * (rng.random(k) < 0.8)
    lower = np.where(rng.random((n, k)) < 0.3, -np.inf, rng.normal(size=(n, k)) - 1.0)
    upper = np.where(rng.random((n, k)) < 0.3, np.inf, np.maximum(lower, -2.0) + rng.exponential(2.0, (n, k)))
    X, need = 3.0 * rng.normal(size=(n, k)), 2.0 * rng.normal(size=n)
    found = project(X, normal, need, lower, upper)
    assert (found >= lower).all()
    assert (found <= upper).all()
    for x, b, low, high, ours in zip(X, need, lower, upper, found, strict=True):
        y = cp.Variable(k)
        box = [y[i] >= low[i] for i in range(k) if np.isfinite(low[i])]
        box += [y[i] <= high[i] for i in range(k) if np.isfinite(high[i])]
        program = cp.Problem(cp.Minimize(cp.sum_squares(y - x)), [*box, normal @ y >= b])
        program.solve(solver=cp.CLARABEL)
        if program.status == "optimal":
            np.testing.assert_allclose(ours, y.value, atol=2e-4)
            assert normal @ ours >= b - 1e-9
        else:  # then as near to the half-space as the box goes
            assert normal @ ours == pytest.approx(np.where(normal > 0, high, low)[normal != 0] @ normal[normal != 0])


def test_points_that_are_where_they_should_be_stay() -> None:
    X = np.array([[0.5, 0.5], [0.0, 1.0]])
    box = np.zeros((2, 2)), np.ones((2, 2))
    np.testing.assert_array_equal(project(X, np.ones(2), np.array([0.9, 1.0]), *box), X)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 4), (50, 1), (50, 3), (300, 5)])
@pytest.mark.parametrize("case", range(3))
def test_rows_are_those_of_numpy(shape: tuple[int, int], case: int) -> None:
    rng = np.random.default_rng(case)
    rows = rng.integers(-1, 2, shape) * rng.choice([0.5, 1.0, 1e-300], shape[1])
    expected, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(unique_rows(rows), expected)
    np.testing.assert_array_equal(first_of_equal(rows), np.sort(first))
    found, own = unique_rows_and_places(rows)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(own, places.reshape(-1))
