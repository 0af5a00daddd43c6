"""Two matrices made diagonal together."""

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.linalg import diagonalise_pair

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
