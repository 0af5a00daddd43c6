"""What the cone programs prove about values that are known otherwise."""

import math
from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.models.linear import WeightMoments
from app.recourse.numerics.solvers import Bracketed
from app.recourse.robustness.gelbrich_programs import CONSTANT, Linear, Lmi, lower_program, upper_program
from app.recourse.robustness.validity import plan_bounds

RADII = [(0.003, 1e-3), (0.03, 1e-4), (0.1, 1e-4)]
"""Radii and how much may be left open; a ball without an interior leaves the solver little to stand on."""
ROUNDING = 1e-12


def contains(found: Bracketed, value: float, width: float = 1e-4) -> None:
    assert found.lower - ROUNDING <= value <= found.upper + ROUNDING
    assert found.upper - found.lower < width


def question(seed: int, r: int, sign: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A unit point, and the moments of models that accept it on average, or not."""
    rng = np.random.default_rng(seed)
    point, mean = rng.standard_normal((2, r))
    point /= np.linalg.norm(point)
    mean *= sign * np.sign(point @ mean) / np.linalg.norm(mean)
    root = 0.4 * rng.standard_normal((r, r + 1)) / math.sqrt(r)
    return point, mean, root @ root.T


def angle(point: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the score as a point in the half-plane: its angle and its distance."""
    m, s = float(point @ mean), math.sqrt(float(point @ covariance @ point))
    return math.atan2(s, m), math.hypot(m, s)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("radius", "width"), RADII)
def test_the_lower_program_brackets_what_one_counterfactual_is_worth(seed: int, radius: float, width: float) -> None:
    point, mean, covariance = question(seed, 1 + seed % 4, 1.0)
    turned, distance = angle(point, mean, covariance)
    turned += math.asin(min(radius / distance, 1.0))
    expected = math.cos(turned) ** 2 if turned < math.pi / 2 else 0.0
    contains(lower_program(point[None], mean, covariance, radius, math.inf)[0], expected, width)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("radius", "width"), RADII)
def test_the_upper_program_brackets_what_one_counterfactual_is_worth(seed: int, radius: float, width: float) -> None:
    point, mean, covariance = question(seed, 1 + seed % 4, -1.0)
    turned, distance = angle(point, mean, covariance)
    turned -= math.asin(min(radius / distance, 1.0))
    expected = math.sin(turned) ** 2 if turned > math.pi / 2 else 1.0
    contains(upper_program(point[None], mean, covariance, radius, math.inf), expected, width)


def test_the_upper_program_is_nearly_tight_where_the_moments_are_known() -> None:
    """The largest probability under known moments (Vandenberghe, Boyd & Comanor 2007), by a modelling layer."""
    points = np.array([[-0.05, -0.88, -1.0], [1.14, 0.78, -1.0], [-0.09, 1.55, -1.0]])
    mean, root = np.array([0.13, -0.35, 0.93]), np.array([[0.47, -1.32], [0.02, -0.79], [0.54, 0.08]])
    covariance = root @ root.T
    whole, price = cp.Variable((4, 4), PSD=True), cp.Variable(3, nonneg=True)
    tilted = cp.reshape(price @ points / 2.0, (3, 1), order="F")
    corner = cp.bmat([[np.zeros((3, 3)), tilted], [tilted.T, np.ones((1, 1))]])
    moments = np.block([[covariance + np.outer(mean, mean), mean[:, None]], [mean[None], np.ones((1, 1))]])
    known = float(cp.Problem(cp.Minimize(cp.trace(whole @ moments)), [whole - corner >> 0]).solve(solver=cp.CLARABEL))
    found = plan_bounds(points, WeightMoments(mean=mean, factors=(root,), kind="test"), 0.0).upper
    assert known - 1e-4 < found < known + 0.02


@pytest.mark.parametrize("radius", [0.01, 0.1])
def test_opposite_counterfactuals_are_never_accepted_together(radius: float) -> None:
    point, mean, covariance = question(0, 3, 1.0)
    contains(lower_program(np.array([point, -point]), mean, covariance, radius, math.inf)[0], 0.0)


def test_members_of_which_models_decide_independently_share_one_bound() -> None:
    """Chebyshev in two directions at once: losing either member costs its own share of the models."""
    covariance = np.diag([0.04, 0.04])
    found, shares = lower_program(np.eye(2), np.ones(2), covariance, 1e-4, math.inf)
    lost = 0.04 / 1.04
    assert 1.0 - 2.0 * lost - 1e-3 <= found.lower <= found.upper <= 1.0 - lost
    np.testing.assert_allclose(shares, 0.5 * (1.0 - found.lower), atol=1e-4)


@pytest.mark.parametrize("program", [lower_program, upper_program])
def test_a_tiny_time_limit_is_a_named_error(program: Callable[..., object]) -> None:
    point, mean, covariance = question(0, 4, 1.0)
    with pytest.raises(DeadlineExceeded):
        program(point[None], mean, covariance, 0.1, 1e-9)


# --- the modelling layer ---------------------------------------------------------------------------------------------


def shifted(C: np.ndarray, t: int) -> list[list[Linear]]:
    """``t I - C``."""
    n = len(C)
    return [[{CONSTANT: -float(C[i, j])} | ({t: 1.0} if i == j else {}) for j in range(n)] for i in range(n)]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_the_largest_eigenvalue_is_a_semidefinite_program(n: int) -> None:
    C = np.random.default_rng(n).standard_normal((n, n))
    C += C.T
    program = Lmi()
    (t,) = program.vector(1)
    program.semidefinite(shifted(C, t))
    contains(program.minimise({t: 1.0, CONSTANT: 3.0}, math.inf), float(np.linalg.eigvalsh(C)[-1]) + 3.0)


def test_the_nuclear_norm_is_a_semidefinite_program() -> None:
    """``min (tr X + tr Y) / 2`` such that ``[X A; A' Y]`` is positive semidefinite: every entry is read once."""
    A = np.random.default_rng(0).standard_normal((3, 4))
    program = Lmi()
    X, Y = program.symmetric(3), program.symmetric(4)
    matrix: list[list[Linear]] = [[{} for _ in range(7)] for _ in range(7)]
    for i in range(7):
        for j in range(i, 7):
            if j < 3:
                matrix[i][j] = {X[i][j]: 1.0}
            elif i >= 3:
                matrix[i][j] = {Y[i - 3][j - 3]: 1.0}
            else:
                matrix[i][j] = {CONSTANT: float(A[i, j - 3])}
    program.semidefinite(matrix)
    halves = {X[i][i]: 0.5 for i in range(3)} | {Y[i][i]: 0.5 for i in range(4)}
    contains(program.minimise(halves, math.inf), float(np.linalg.svd(A, compute_uv=False).sum()))


def test_what_no_matrix_satisfies_is_a_named_error() -> None:
    program = Lmi()
    (t,) = program.vector(1)
    program.nonnegative({t: 1.0, CONSTANT: -2.0})
    program.nonnegative({t: -1.0, CONSTANT: 1.0})
    with pytest.raises(SolverFailed, match="Infeasible"):
        program.minimise({t: 1.0}, math.inf)
