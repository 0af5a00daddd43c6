"""Minimax probability machines against a conic solver, against their own definition, and against nature."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, get_args

import cvxpy as cp
import numpy as np
import pytest
from jaxtyping import Float
from scipy.optimize import minimize

from app.errors import DegenerateSurrogate
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.class_moments import RIDGE, Classes, Moments, class_moments
from app.recourse.surrogate.divergences import Divergence, largest_deviation
from app.recourse.surrogate.mpm import _minimise_singular, _minimise_two, fit, fit_sample

Matrix: TypeAlias = Float[np.ndarray, "d d"]
Vector: TypeAlias = Float[np.ndarray, "d"]

DIVERGENCES: tuple[Divergence, ...] = get_args(Divergence)
SCALED: tuple[Divergence, ...] = ("fisher_rao", "logdet")
ADDED: tuple[Divergence, ...] = ("quadratic", "bures")
RADII = (0.0, 0.01, 1.0, 10.0, 1000.0)


def logdet_factor(radius: float) -> float:
    """The root above 1 of ``c - log c = 1 + radius``, by bisection."""
    low, high = 1.0, 2.0 * radius + 10.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - math.log(middle) < 1.0 + radius else (low, middle)
    return high


@dataclass(frozen=True)
class Norms:
    """Largest deviation along ``w``: ``exp(log_scale) sqrt(w' covariance w) + norm |w|``."""

    covariance: Matrix
    log_scale: float = 0.0
    norm: float = 0.0


def norms(covariance: Matrix, divergence: Divergence, radius: float) -> Norms:
    """From the table of the paper, with the root that its code forgets for Bures."""
    if divergence == "quadratic":
        return Norms(covariance + math.sqrt(radius) * np.eye(len(covariance)))
    if divergence == "bures":
        return Norms(covariance, norm=math.sqrt(radius))
    if divergence == "fisher_rao":
        return Norms(covariance, log_scale=radius / 2)
    if divergence == "logdet":
        return Norms(covariance, log_scale=0.5 * math.log(logdet_factor(radius)))
    return Norms(covariance)


@dataclass(frozen=True)
class Problem:
    """Two classes and how far their covariances may be off."""

    plus: Moments
    minus: Moments
    divergence: Divergence
    radius_plus: float
    radius_minus: float

    @property
    def a(self) -> Vector:
        return self.plus.mean - self.minus.mean

    @property
    def norms(self) -> tuple[Norms, Norms]:
        return (
            norms(self.plus.covariance, self.divergence, self.radius_plus),
            norms(self.minus.covariance, self.divergence, self.radius_minus),
        )

    @property
    def parts(self) -> list[Matrix]:
        """``A_k`` of the minimised ``sum_k |A_k w|``, divided by the largest scale."""
        both = self.norms
        unit = max(part.log_scale for part in both)
        found = [math.exp(part.log_scale - unit) * root(part.covariance) for part in both]
        norm = math.exp(-unit) * sum(part.norm for part in both)
        return [*found, norm * np.eye(len(self.a))] if norm else found

    def value(self, w: Vector) -> float:
        """The minimised sum, divided by the largest scale."""
        return sum(float(np.linalg.norm(A @ w)) for A in self.parts)

    def machine(self) -> tuple[Vector, float, float]:
        """Weights with ``a.w = 1``, threshold, worst-case accuracy of the core."""
        found = fit(
            Classes(favourable=self.plus, unfavourable=self.minus),
            self.divergence,
            radius_favourable=self.radius_plus,
            radius_unfavourable=self.radius_minus,
        )
        assert np.linalg.norm(found.model.w) == pytest.approx(1.0)
        scale = float(self.a @ found.model.w)
        assert scale > 0.0
        return found.model.w / scale, -found.model.c / scale, found.worst_case_accuracy


def root(covariance: Matrix) -> Matrix:
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def random_covariance(rng: np.random.Generator, d: int, kind: str) -> Matrix:
    """Of full rank, of low rank, or with a column that does not vary."""
    rank = max(1, d // 2) if kind == "singular" else d + 2
    factor = rng.standard_normal((rank, d)) * rng.lognormal(sigma=1.0, size=d)
    if kind == "constant column":
        factor[:, rng.integers(d)] = 0.0
    return factor.T @ factor / rank


def random_problem(divergence: Divergence, seed: int, *, regular: bool = False) -> Problem:
    """Of up to eight dimensions; covariances may be singular unless it is to be regular."""
    rng = np.random.default_rng([seed, DIVERGENCES.index(divergence)])
    d = int(rng.integers(1, 9))
    kinds = ["full"] if regular else ["full", "full", "singular", "constant column"]
    plus, minus = (random_covariance(rng, d, rng.choice(kinds)) for _ in range(2))
    mean = rng.standard_normal(d) * rng.lognormal()
    radius_plus, radius_minus = (float(rng.choice(RADII)) for _ in range(2))
    return Problem(Moments(mean, plus), Moments(np.zeros(d), minus), divergence, radius_plus, radius_minus)


def conic_weights(problem: Problem) -> Vector:
    """Weights with ``a.w = 1`` by a second-order cone program whose columns and constraint are of the order of 1."""
    a, parts = problem.a, problem.parts
    width = np.sqrt(sum((A**2).sum(axis=0) for A in parts))
    width[width == 0.0] = 1.0
    v = cp.Variable(len(a))  # w = v / width
    program = cp.Problem(
        cp.Minimize(sum(cp.norm((A / width) @ v) for A in parts)), [a / width / np.linalg.norm(a / width) @ v == 1]
    )
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # inaccurate by less than we ask for
        program.solve(cp.CLARABEL)
    w = v.value / width
    return np.asarray(w / (a @ w))


# --- the optimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("block", range(4))
def test_the_optimum_is_that_of_the_conic_program(divergence: Divergence, block: int) -> None:
    for seed in range(12 * block, 12 * block + 12):
        problem = random_problem(divergence, seed)
        w, _, _ = problem.machine()
        size = problem.value(problem.a / (problem.a @ problem.a))
        assert problem.value(w) == pytest.approx(problem.value(conic_weights(problem)), rel=1e-6, abs=1e-7 * size)


@pytest.mark.parametrize("ratio", [1e-100, 1e-3, 1.0, 3.0, 148.0, 1e100])
def test_secants_find_the_weights_that_diagonal_coordinates_have(ratio: float) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 62))
        S, T = (np.cov(rng.normal(size=(500, d)) @ rng.normal(size=(d, d)), rowvar=False).reshape(d, d) for _ in "ST")
        S, T = S + 1e-3 * S.trace() * np.eye(d), T + 1e-3 * T.trace() * np.eye(d)
        a = rng.normal(size=d)
        one, other = _minimise_two(a, S, T, ratio), _minimise_singular(a, S, T, ratio)
        assert one / (a @ one) == pytest.approx(
            other / (a @ other), rel=1e-5, abs=1e-5 * float(np.abs(other / (a @ other)).max())
        )


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_no_direction_leads_down_from_the_optimum(divergence: Divergence) -> None:
    for seed in range(1000, 1150):
        problem = random_problem(divergence, seed)
        w, _, _ = problem.machine()
        value, a = problem.value(w), problem.a
        if any(np.linalg.norm(A @ w) <= 1e-6 * np.linalg.norm(A) * np.linalg.norm(w) for A in problem.parts):
            continue  # a corner of the sum, which the conic program judges
        gradient = sum(A.T @ A @ w / np.linalg.norm(A @ w) for A in problem.parts)
        # The condition of the optimum, in the units of each weight: the gradient is the value times a.
        residual = (gradient - value * a) * np.abs(w)
        assert np.abs(residual).max() <= 1e-4 * value


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_threshold_shares_the_gap_in_proportion_to_the_spreads(divergence: Divergence) -> None:
    for seed in range(40):
        problem = random_problem(divergence, seed, regular=True)
        w, b, accuracy = problem.machine()
        plus, minus = (
            math.exp(part.log_scale) * float(np.linalg.norm(root(part.covariance) @ w)) + part.norm * np.linalg.norm(w)
            for part in problem.norms
        )
        above, below = w @ problem.plus.mean - b, b - w @ problem.minus.mean
        assert above + below == pytest.approx(1.0)
        assert above == pytest.approx(plus / (plus + minus), abs=1e-9)
        kappa = 1.0 / float(plus + minus)
        assert accuracy == pytest.approx(kappa * kappa / (1.0 + kappa * kappa))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_radius_zero_is_the_nominal_machine(divergence: Divergence) -> None:
    for seed in range(20):
        nominal = random_problem("none", seed)
        robust = Problem(nominal.plus, nominal.minus, divergence, 0.0, 0.0)
        np.testing.assert_allclose(robust.machine()[0], nominal.machine()[0], rtol=1e-9)
        assert robust.machine()[1:] == pytest.approx(nominal.machine()[1:])


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_one_dimension_has_a_closed_form(divergence: Divergence) -> None:
    for radius in RADII:
        plus, minus = Moments(np.array([3.0]), np.array([[0.25]])), Moments(np.array([1.0]), np.array([[4.0]]))
        w, b, _ = Problem(plus, minus, divergence, 0.0, radius).machine()
        log_ratio = {
            "none": math.log(4.0),
            "quadratic": 0.5 * math.log((4.0 + math.sqrt(radius)) / 0.25),
            "bures": math.log((2.0 + math.sqrt(radius)) / 0.5),
            "fisher_rao": math.log(4.0) + radius / 2,
            "logdet": math.log(4.0) + 0.5 * math.log(logdet_factor(radius)),
        }[divergence]
        assert w.tolist() == pytest.approx([0.5])
        assert b / w[0] == pytest.approx(3.0 - 2.0 / (1.0 + math.exp(log_ratio)))


@pytest.mark.parametrize("divergence", DIVERGENCES[1:])
def test_a_larger_radius_of_the_unfavourable_class_promises_less(divergence: Divergence) -> None:
    for seed in range(20):
        base = random_problem(divergence, seed)
        accuracies = [
            Problem(base.plus, base.minus, divergence, 0.0, radius).machine()[2] for radius in (0.0, 0.1, 1.0, 10.0)
        ]
        assert all(0.0 <= b <= a + 1e-6 <= 1.0 + 1e-6 for a, b in pairwise(accuracies))


# --- asymptotes ------------------------------------------------------------------------------------------------------


def regular_problem(divergence: Divergence, seed: int, radius: float) -> Problem:
    rng = np.random.default_rng(seed)
    plus, minus = random_covariance(rng, 4, "full"), random_covariance(rng, 4, "full")
    return Problem(
        Moments(rng.standard_normal(4), plus), Moments(rng.standard_normal(4), minus), divergence, 0.0, radius
    )


@pytest.mark.parametrize("divergence", ADDED)
@pytest.mark.parametrize("seed", range(5))
def test_with_added_spread_the_weights_go_to_the_difference_of_the_means(divergence: Divergence, seed: int) -> None:
    problem = regular_problem(divergence, seed, 1e20)
    w, b, accuracy = problem.machine()
    np.testing.assert_allclose(w, problem.a / (problem.a @ problem.a), rtol=1e-3, atol=1e-4)
    assert b == pytest.approx(w @ problem.plus.mean, abs=1e-3)
    assert accuracy < 1e-3


@pytest.mark.parametrize("divergence", SCALED)
@pytest.mark.parametrize("seed", range(5))
def test_with_scaled_spread_the_weights_go_to_those_of_the_unfavourable_class(
    divergence: Divergence, seed: int
) -> None:
    problem = regular_problem(divergence, seed, {"fisher_rao": 40.0, "logdet": 1e14}[divergence])
    w, b, accuracy = problem.machine()
    expected = np.linalg.solve(problem.minus.covariance, problem.a)
    np.testing.assert_allclose(w, expected / (problem.a @ expected), rtol=1e-3, atol=1e-4)
    assert b == pytest.approx(w @ problem.plus.mean, abs=1e-3)
    assert accuracy < 1e-3


@pytest.mark.parametrize("radius", [0.0, 1e-6, 1e-3, 0.5, 3.0, 100.0, 699.0, 701.0, 1000.0])
def test_the_factor_of_logdet_solves_its_equation(radius: float) -> None:
    factor = largest_deviation(np.eye(1), "logdet", radius).scale ** 2
    assert factor >= 1.0
    assert factor - math.log(factor) - 1.0 == pytest.approx(radius, abs=1e-7)
    assert factor == pytest.approx(logdet_factor(radius), rel=1e-6)


# --- the ambiguity sets ----------------------------------------------------------------------------------------------


def of_eigenvalues(matrix: Matrix, function: Callable[[np.ndarray], np.ndarray]) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * function(np.maximum(values, 1e-300))) @ vectors.T)


def distance(S: Matrix, nominal: Matrix, divergence: Divergence) -> float:
    """The divergences as they are defined, so that ``distance <= radius`` is the ambiguity set."""
    half = of_eigenvalues(nominal, np.sqrt)
    inverse = of_eigenvalues(nominal, lambda values: 1.0 / np.sqrt(values))
    relative = inverse @ S @ inverse
    if divergence == "quadratic":
        return float(((S - nominal) ** 2).sum())
    if divergence == "bures":
        return float(np.trace(S + nominal - 2.0 * of_eigenvalues(half @ S @ half, np.sqrt)))
    if divergence == "fisher_rao":
        return float(np.linalg.norm(of_eigenvalues(relative, np.log)))
    return float(np.trace(relative) - np.log(np.linalg.eigvalsh(relative)).sum() - len(S))


def worst_covariance(w: Vector, nominal: Matrix, divergence: Divergence, radius: float) -> Matrix:
    """The covariance in the ambiguity set with the largest variance along `w`, by a general optimiser."""
    half = of_eigenvalues(nominal, np.sqrt)

    def covariance(entries: np.ndarray) -> Matrix:
        factor = np.array([[entries[0], 0.0], [entries[1], entries[2]]])
        return np.asarray(half @ factor @ factor.T @ half)

    best = nominal
    for start in ([1.0, 0.0, 1.0], [1.2, 0.3, 0.9], [0.9, -0.3, 1.2]):
        found = minimize(
            lambda entries: -w @ covariance(entries) @ w / (w @ nominal @ w),
            start,
            constraints={
                "type": "ineq", "fun": lambda entries: 1.0 - distance(covariance(entries), nominal, divergence) / radius
            },
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        )  # fmt: skip
        S = covariance(found.x)
        if distance(S, nominal, divergence) <= radius * (1 + 1e-6) and w @ S @ w > w @ best @ w:
            best = S
    return best


@pytest.mark.parametrize("divergence", DIVERGENCES[1:])
@pytest.mark.parametrize("seed", range(6))
def test_the_spread_is_the_largest_deviation_in_the_ambiguity_set(divergence: Divergence, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nominal, w, radius = random_covariance(rng, 2, "full"), rng.standard_normal(2), float(rng.choice([0.1, 0.5, 2.0]))
    worst = worst_covariance(w, nominal, divergence, radius)
    assert math.sqrt(w @ worst @ w) == pytest.approx(largest_deviation(nominal, divergence, radius)(w), rel=1e-4)


# --- the promise -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Discrete:
    """A distribution on finitely many points."""

    points: Float[np.ndarray, "n d"]
    chances: Float[np.ndarray, "n"]

    def moments(self) -> Moments:
        mean = self.chances @ self.points
        centred = self.points - mean
        return Moments(mean, (centred * self.chances[:, None]).T @ centred)


def random_discrete(rng: np.random.Generator, moments: Moments) -> Discrete:
    """Any distribution with exactly these moments: lopsided, heavy-tailed, on few points."""
    n = int(rng.integers(4, 12))
    points, chances = rng.standard_t(2, size=(n, len(moments.mean))), rng.dirichlet(np.full(n, rng.choice([0.3, 1, 5])))
    found = Discrete(points, chances).moments()
    whitened = (points - found.mean) @ of_eigenvalues(found.covariance, lambda values: 1.0 / np.sqrt(values))
    return Discrete(moments.mean + whitened @ of_eigenvalues(moments.covariance, np.sqrt), chances)


def worst_discrete(w: Vector, b: float, moments: Moments) -> Discrete:
    """Two points along `w`, one of them on the hyperplane, spread symmetrically across it (Marshall and Olkin)."""
    variance, gap = float(w @ moments.covariance @ w), float(w @ moments.mean - b)
    along = moments.covariance @ w / variance
    rest = moments.covariance - np.outer(along, along) * variance
    values, vectors = np.linalg.eigh(rest)
    sideways = np.sqrt(max(float(values[-1]), 0.0)) * vectors[:, -1]  # d = 2: what is left has rank one
    chance = variance / (variance + gap**2)
    ends = [(-gap, chance), (variance / gap, 1.0 - chance)]
    points = [moments.mean + along * z + sign * sideways for z, _ in ends for sign in (-1, 1)]
    return Discrete(np.array(points), np.array([share / 2 for _, share in ends for _ in range(2)]))


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("seed", range(3))
def test_no_distribution_in_the_ambiguity_sets_is_classified_worse_and_one_is_as_bad(
    divergence: Divergence, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    plus = Moments(rng.standard_normal(2), random_covariance(rng, 2, "full") / 4)
    minus = Moments(plus.mean - 2.0, random_covariance(rng, 2, "full") / 4)
    radius = 0.3
    w, b, accuracy = Problem(plus, minus, divergence, radius, radius).machine()
    for nominal, sign in ((plus, 1.0), (minus, -1.0)):
        worst = (
            nominal.covariance if divergence == "none" else worst_covariance(w, nominal.covariance, divergence, radius)
        )
        for covariance in (nominal.covariance, 0.9 * nominal.covariance + 0.1 * worst, worst):
            for _ in range(40):
                found = random_discrete(rng, Moments(nominal.mean, covariance))
                right = found.chances[sign * (found.points @ w - b) > 1e-9].sum()
                assert right >= accuracy - 1e-4
        extreme = worst_discrete(w, b, Moments(nominal.mean, worst))
        reached = extreme.moments()
        np.testing.assert_allclose(reached.mean, nominal.mean, atol=1e-9)
        np.testing.assert_allclose(reached.covariance, worst, atol=1e-9)
        assert extreme.chances[sign * (extreme.points @ w - b) > 1e-9].sum() == pytest.approx(accuracy, abs=1e-4)


# --- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_equal_means_determine_no_machine(divergence: Divergence) -> None:
    moments = Moments(np.ones(3), np.eye(3))
    with pytest.raises(DegenerateSurrogate, match="equals"):
        fit(Classes(favourable=moments, unfavourable=moments), divergence)


def test_classes_that_do_not_vary_where_they_differ_are_separated_for_certain() -> None:
    covariance = np.diag([1.0, 0.0])
    w, b, accuracy = Problem(
        Moments(np.array([5.0, 1.0]), covariance), Moments(np.array([0.0, 0.0]), covariance), "none", 0.0, 0.0
    ).machine()
    assert w.tolist() == pytest.approx([0.0, 1.0])
    assert b == pytest.approx(0.5)
    assert accuracy == 1.0


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_machine_does_not_depend_on_units(divergence: Divergence) -> None:
    if divergence in ADDED:
        return  # their radius has units
    for seed in range(10):
        problem = random_problem(divergence, seed)
        units = np.random.default_rng(seed).lognormal(sigma=2, size=len(problem.a))
        rescaled = Problem(
            Moments(problem.plus.mean * units, problem.plus.covariance * np.outer(units, units)),
            Moments(problem.minus.mean * units, problem.minus.covariance * np.outer(units, units)),
            divergence,
            problem.radius_plus,
            problem.radius_minus,
        )
        w, found = problem.machine()[0], rescaled.machine()[0] * units
        size = problem.value(problem.a / (problem.a @ problem.a))
        assert problem.value(found) == pytest.approx(problem.value(w), rel=1e-6, abs=1e-7 * size)


# --- samples ---------------------------------------------------------------------------------------------------------


def test_moments_of_samples_are_unbiased_with_a_small_ridge() -> None:
    rng = np.random.default_rng(0)
    X = 1e3 + rng.standard_normal((200, 3)) @ rng.standard_normal((3, 3))
    favourable = rng.random(200) < 0.3
    before = X.copy()
    found = class_moments(X, favourable)
    covariances = [np.cov(members.T) for members in (X[favourable], X[~favourable])]
    ridge = RIDGE * max(covariance.trace() for covariance in covariances) / 3
    for moments, members, covariance in zip(
        (found.favourable, found.unfavourable), (X[favourable], X[~favourable]), covariances, strict=True
    ):
        np.testing.assert_allclose(moments.mean, members.mean(axis=0))
        np.testing.assert_allclose(moments.covariance, covariance + ridge * np.eye(3), rtol=1e-6, atol=1e-9)
    assert np.array_equal(X, before)


@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_a_class_of_fewer_than_two_points_has_no_covariance(count: int) -> None:
    with pytest.raises(DegenerateSurrogate, match="same decision"):
        class_moments(np.random.default_rng(0).standard_normal((10, 2)), np.arange(10) < count)


def test_columns_that_cannot_change_get_no_weight() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    X[:, 1] = 7.0
    sample = BoundarySample(
        X=X, scores=X[:, 0] + X[:, 2], favourable=X[:, 0] + X[:, 2] > 0, free=np.array([0, 2, 3]), deviation=1.0
    )
    model = fit_sample(sample, "none", radius_favourable=0.0, radius_unfavourable=0.0).model
    assert model.w[1] == 0.0
    assert model.w[0] == pytest.approx(model.w[2], abs=0.1)
    assert ((model.score(X) > 0) == sample.favourable).mean() > 0.97


def test_two_single_points_are_separated_along_their_difference() -> None:
    one = np.random.default_rng(0).integers(2, size=200)
    machine = fit(class_moments(np.eye(2)[one], one == 1), "none")
    assert machine.model.w == pytest.approx(np.array([-1.0, 1.0]) / np.sqrt(2.0), rel=1e-4)
    assert machine.worst_case_accuracy == pytest.approx(1.0)
