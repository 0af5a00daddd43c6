"""Validity under noise and shift together, and for the worst model of a box, against trying everything."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr

from app.recourse.models.linear import WeightMoments
from app.recourse.robustness.validity import joint_lower_bound, linf_radius, validity_bounds
from tests.recourse.robustness.questions import Plan, plan

DRAWS = 500


# --- the box ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_every_corner_of_the_box_accepts_and_the_worst_one_just_so(seed: int) -> None:
    question = plan(seed, members=3, d=1 + seed % 7)
    mean = question.moments.mean
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=len(mean))))
    for point, radius in zip(
        question.points, linf_radius(question.points, question.moments.mean).tolist(), strict=True
    ):
        assert radius > 0.0
        worst = ((mean + radius * corners) @ point).min()
        assert worst == pytest.approx(0.0, abs=1e-12)
        assert ((mean + 1.001 * radius * corners) @ point).min() < 0.0


@pytest.mark.parametrize("seed", range(15))
def test_the_radius_is_a_linear_program(seed: int) -> None:
    """The nearest model, weight by weight, that does not accept: ``min t, |theta - mean| <= t, theta.x <= 0``."""
    question = plan(seed, members=1, d=12)
    point, mean, m = question.points[0], question.moments.mean, 13
    step = np.hstack([np.eye(m), -np.ones((m, 1))])
    back = np.hstack([-np.eye(m), -np.ones((m, 1))])
    answer = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.vstack([step, back, np.append(point, 0.0)]),
        b_ub=np.concatenate([mean, -mean, [0.0]]),
        bounds=[(None, None)] * m + [(0.0, None)],
    )
    (found,) = linf_radius(question.points, question.moments.mean)
    assert found == pytest.approx(answer.fun, abs=1e-9)


def test_the_radius_of_what_the_mean_refuses_is_negative() -> None:
    question = plan(0, members=2, d=5, favourable=False)
    accepted, refused = linf_radius(question.points, question.moments.mean)
    assert refused < 0.0 < accepted


# --- noise and shift together ----------------------------------------------------------------------------------------


def joint(question: Plan, std: np.ndarray, *, seed: int = 0, draws: int = DRAWS) -> tuple[float, tuple[float, float]]:
    points = question.points[:1]
    moments = question.moments.around(points, np.flatnonzero(std))
    found = joint_lower_bound(points, std, moments, question.radius, draws, seed)
    value, low, high = (float(one[0]) for one in found)
    return value, (low, high)


def averaged(question: Plan, std: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The lower bound of each noisy copy, one by one."""
    copies = question.points[0] + np.column_stack([noise * std, np.zeros(len(noise))])
    found = [validity_bounds(copy[None], question.moments, question.radius)[0] for copy in copies]
    return np.concatenate(found)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_average_of_the_lower_bounds_of_noisy_copies(seed: int) -> None:
    question = plan(seed, members=1, d=4, spread=0.1)
    rng = np.random.default_rng(seed)
    std = 0.6 * rng.random(4) * (rng.random(4) < 0.7)
    value, (low, high) = joint(question, std, seed=seed)
    lower = averaged(question, std, rng.standard_normal((4000, 4)))
    assert value == pytest.approx(lower.mean(), abs=5.0 * lower.std() / math.sqrt(DRAWS) + 1e-9)
    assert low <= lower.mean() <= high
    assert 0.0 <= low <= value <= high <= 1.0
    assert value <= lower.max()


def test_its_interval_holds_the_average_as_often_as_it_says() -> None:
    question = plan(3, members=1, d=3, spread=0.1)
    std = np.full(3, 0.8)
    truth = averaged(question, std, np.random.default_rng(9).standard_normal((20_000, 3))).mean()
    found = [joint(question, std, seed=seed, draws=60) for seed in range(300)]
    assert np.mean([low <= truth <= high for _, (low, high) in found]) >= 0.95
    assert np.std([value for value, _ in found]) > 0.001


def test_without_noise_it_is_the_lower_bound() -> None:
    question = plan(1, members=1, d=4)
    value, (low, high) = joint(question, np.zeros(4))
    (lower,), _ = validity_bounds(question.points, question.moments, question.radius)
    assert value == pytest.approx(lower, abs=1e-12)
    assert low <= lower <= high


def test_more_noise_is_worse() -> None:
    question = plan(1, members=1, d=4)
    found = [joint(question, np.full(4, std))[0] for std in (0.0, 0.1, 0.3, 1.0, 3.0)]
    assert found == sorted(found, reverse=True)


def test_the_same_seed_gives_the_same() -> None:
    question, std = plan(1, members=1, d=4), np.full(4, 0.5)
    assert joint(question, std) == joint(question, std)
    assert joint(question, std) != joint(question, std, seed=1)


@pytest.mark.parametrize("seed", range(5))
def test_no_gaussian_distribution_of_models_under_noise_falls_below_its_promise(seed: int) -> None:
    """Models move by at most the radius in the mean square; chances are exact given the noise, which is shared."""
    rng = np.random.default_rng(seed)
    question = plan(seed, members=1, d=3, radius=0.1, spread=0.3)
    std = np.array([0.5, 0.0, 0.3])
    _, (promise, _) = joint(question, std)
    assert promise > 0.0
    point, mean, covariance = question.points[0], question.moments.mean, question.covariance
    copies = point + np.column_stack([rng.standard_normal((2000, 3)) * std, np.zeros(2000)])
    for _ in range(200):
        stretch = rng.standard_normal((4, 4)) * rng.lognormal()
        shift = rng.standard_normal(4) - rng.lognormal(sigma=2) * point
        moved = np.trace(stretch @ covariance @ stretch.T) + ((stretch @ mean + shift) ** 2).sum()
        size = question.radius / math.sqrt(moved)
        new_mean = mean + size * (stretch @ mean + shift)
        new_root = (np.eye(4) + size * stretch) @ question.moments.root
        chance = ndtr(copies @ new_mean / np.linalg.norm(copies @ new_root, axis=1)).mean()
        assert chance >= promise


def test_weights_that_noise_does_not_reach_count_too() -> None:
    """The variance of the score has a part that noise scales, a part that it does not, and what both share."""
    moments = WeightMoments(mean=np.array([0.6, 0.8]), factors=(np.array([[0.2, 0.1], [0.3, -0.2]]),), kind="test")
    question = Plan(points=np.array([[1.5, 1.0]]), moments=moments, radius=0.02)
    value, _ = joint(question, np.array([0.7]), draws=20_000)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    exact = weights @ averaged(question, np.array([0.7]), nodes[:, None]) / weights.sum()
    assert value == pytest.approx(exact, abs=0.01)
