"""Validity bounds against the paper's programs in full dimension, and against distributions of models themselves."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from jaxtyping import Bool, Float
from scipy.optimize import linprog
from scipy.special import ndtr

from app.recourse.models.linear import WeightMoments
from app.recourse.robustness.validity import (
    BoundStatus,
    PlanBounds,
    bounds_of,
    plan_bounds,
    plan_bracket,
    validity_bounds,
)
from tests.recourse.robustness.questions import Plan, lower_in_full, plan, upper_in_full

ROUNDING = 1e-9


def bounds(question: Plan) -> PlanBounds:
    found = plan_bounds(question.points, question.moments, question.radius)
    assert 0.0 <= found.lower <= found.upper <= 1.0
    assert found.exact == (found.status is BoundStatus.COMPLETE)
    return found


def single_bounds(question: Plan) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    return validity_bounds(question.points, question.moments, question.radius)


# --- the programs of the paper ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("favourable", [True, False])
def test_one_counterfactual_is_the_papers_program_in_full_dimension(seed: int, favourable: bool) -> None:
    radius = [0.005, 0.01, 0.05, 0.2][seed % 4]
    question = plan(seed, members=1, d=2 + seed % 5, radius=radius, spread=0.2, favourable=favourable)
    (lower,), (upper,) = single_bounds(question)
    assert lower == pytest.approx(lower_in_full(question), abs=1e-4)
    assert upper == pytest.approx(upper_in_full(question), abs=1e-4)


@pytest.mark.parametrize(("members", "d"), [(2, 3), (2, 8), (3, 5), (3, 8), (4, 6), (4, 8)])
@pytest.mark.parametrize("favourable", [True, False])
def test_a_plan_is_the_papers_program_in_full_dimension(members: int, d: int, favourable: bool) -> None:
    question = plan(10 * members + d, members=members, d=d, favourable=favourable)
    found = bounds(question)
    assert found.status is BoundStatus.COMPLETE
    if favourable:
        assert found.lower == pytest.approx(max(lower_in_full(question), 0.0), abs=1e-4)
        assert 0.05 < found.lower < 0.999  # nothing was proven about a bound that says nothing
    else:
        assert found.upper == pytest.approx(upper_in_full(question), abs=1e-4)
        assert found.upper < 0.999


@pytest.mark.parametrize("favourable", [True, False])
def test_more_members_than_dimensions_are_the_papers_program_too(favourable: bool) -> None:
    question = plan(3, members=5, d=2, radius=0.02, favourable=favourable)
    full = lower_in_full(question) if favourable else upper_in_full(question)
    found = bounds(question)
    assert (found.lower if favourable else found.upper) == pytest.approx(full, abs=1e-4)


# --- distributions of models -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "favourable"), [(0, True), (1, True), (2, False), (3, False), (4, True)])
def test_no_gaussian_distribution_of_models_leaves_the_bounds(seed: int, favourable: bool) -> None:
    """``theta -> theta + t ((A - I) theta + b)`` moves a Gaussian by the root mean square of its displacement."""
    rng = np.random.default_rng(seed)
    question = plan(seed, members=1, d=3, radius=0.15, spread=0.5, favourable=favourable)
    point, mean, covariance = question.points[0], question.moments.mean, question.covariance
    count, m = 20_000, 4
    stretch = rng.standard_normal((count, m, m)) * rng.lognormal(size=(count, 1, 1))
    shift = rng.standard_normal((count, m)) * rng.lognormal(sigma=2, size=(count, 1))
    shift += 2.0 * rng.standard_normal((count, 1)) * point  # where it hurts
    moved = np.einsum("nij,jk,nik->n", stretch, covariance, stretch) + ((stretch @ mean + shift) ** 2).sum(axis=1)
    size = (question.radius / np.sqrt(moved))[:, None]
    new_mean = mean + size * (stretch @ mean + shift)
    direction = point + size * np.einsum("nij,i->nj", stretch, point)  # theta'.x = direction.theta + constant
    spread = np.sqrt(np.einsum("ni,ij,nj->n", direction, covariance, direction))
    chance = ndtr(new_mean @ point / spread)
    (lower,), (upper,) = single_bounds(question)
    assert lower <= chance.min()
    assert chance.max() <= upper
    assert np.ptp(chance) > 0.05


def most_lost_of_bells(mean: float) -> float:
    """The greatest probability below 0 at deviation 1, by a linear program.

    A symmetric distribution with one peak is a mixture of uniform ones around its mean (Khinchine), so that its
    variance and its share below 0 are linear in the weights of the mixture.
    """
    half = np.concatenate([np.linspace(0.0, 12.0, 4801), np.logspace(1.1, 2.5, 40)])
    below = np.clip((half - mean) / np.where(half > 0.0, 2.0 * half, 1.0), 0.0, 0.5)
    found = linprog(-below, A_eq=np.vstack([np.ones_like(half), half**2 / 3.0]), b_eq=[1.0, 1.0], bounds=(0.0, None))
    return float(-found.fun)


@pytest.mark.parametrize("mean", [0.05, 0.3, 0.8, 1.1, 1.2, 1.4, 2.5, 6.0])
def test_bounds_of_bells_are_those_of_the_worst_mixture_of_uniforms(mean: float) -> None:
    worst = most_lost_of_bells(mean)
    lower, _ = bounds_of(np.array([mean]), np.array([1.0]), 0.0, bell=True)
    _, upper = bounds_of(np.array([-mean]), np.array([1.0]), 0.0, bell=True)
    assert 1.0 - lower[0] == pytest.approx(worst, abs=1e-4)
    assert upper[0] == pytest.approx(worst, abs=1e-4)
    assert 1.0 - lower[0] >= worst - 1e-9  # a program on a grid finds no more than there is


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.3])
def test_the_radius_turns_the_moments_of_bells_as_of_others(radius: float) -> None:
    """The worst moments are the same, since both bounds depend on mean / deviation alone."""
    rng = np.random.default_rng(3)
    mean, deviation = rng.normal(size=200), rng.uniform(0.05, 1.0, 200)
    lower, upper = bounds_of(mean, deviation, radius, bell=True)
    direction = rng.normal(size=(2, 400))
    moved = radius * direction / np.linalg.norm(direction, axis=0)
    moved_mean, moved_deviation = mean[:, None] + moved[0], np.abs(deviation[:, None] + moved[1])
    for moments in (moved_mean, moved_deviation), (mean[:, None], deviation[:, None]):
        inner_lower, inner_upper = bounds_of(*moments, 0.0, bell=True)
        assert (lower <= inner_lower.min(axis=1) + ROUNDING).all()
        assert (upper >= inner_upper.max(axis=1) - ROUNDING).all()
    wide_lower, wide_upper = bounds_of(mean, deviation, radius)
    assert (wide_lower <= lower).all()
    assert (wide_upper >= upper).all()


def discrete(rng: np.random.Generator, moments: WeightMoments, atoms: int) -> tuple[np.ndarray, np.ndarray]:
    """Weighted models with exactly these moments, from a mixture of clusters with heavy tails."""
    m = len(moments.mean)
    centres = rng.standard_normal((3, m)) * rng.lognormal(size=(3, 1))
    raw = centres[rng.integers(3, size=atoms)] + rng.standard_t(3, size=(atoms, m))
    weight = rng.dirichlet(np.full(atoms, rng.choice([0.3, 1.0, 5.0])))
    raw -= weight @ raw
    values, vectors = np.linalg.eigh((raw * weight[:, None]).T @ raw)
    white = raw @ (vectors / np.sqrt(values))
    left, sizes, _ = np.linalg.svd(moments.root, full_matrices=False)
    return moments.mean + white[:, : len(sizes)] @ (left * sizes).T, weight


def losing_move(
    thetas: Float[np.ndarray, "k m"], weight: Float[np.ndarray, "k"], points: Float[np.ndarray, "n m"], radius: float
) -> Bool[np.ndarray, "k"]:
    """Which models still accept all points after an adversary has moved as many as the radius allows across one."""
    unit = points / np.linalg.norm(points, axis=1)[:, None]
    margins = (thetas @ unit.T).min(axis=1)
    price = weight * np.maximum(margins, 0.0) ** 2
    order = np.argsort(np.maximum(margins, 0.0))
    bought = order[np.cumsum(price[order]) <= radius**2]
    yes = margins > 0.0
    yes[bought] = False  # to the boundary; an infimum does not count it
    return yes


@pytest.mark.parametrize("members", [1, 2, 4])
def test_no_discrete_distribution_of_models_moved_by_an_adversary_falls_below_the_lower_bound(members: int) -> None:
    rng = np.random.default_rng(members)
    nearest = math.inf
    for seed in range(4):
        question = plan(seed, members=members, d=3, radius=0.05)
        lower = bounds(question).lower
        assert lower > 0.0
        for _ in range(500):
            thetas, weight = discrete(rng, question.moments, atoms=int(rng.integers(12, 60)))
            yes = losing_move(thetas, weight, question.points, question.radius)
            chance = float(weight[yes].sum())
            assert lower <= chance + ROUNDING
            nearest = min(nearest, chance - lower)
    assert nearest < 0.35


@pytest.mark.parametrize("members", [1, 2, 4])
def test_no_discrete_distribution_of_models_moved_by_a_friend_rises_above_the_upper_bound(members: int) -> None:
    rng = np.random.default_rng(members)
    for seed in range(4):
        question = plan(seed, members=members, d=3, radius=0.05, favourable=False)
        upper = bounds(question).upper
        assert upper < 1.0
        refused = question.points[-1] / np.linalg.norm(question.points[-1])
        for _ in range(500):
            thetas, weight = discrete(rng, question.moments, atoms=int(rng.integers(12, 60)))
            distance = np.maximum(-(thetas @ refused), 0.0)
            order = np.argsort(distance)
            afford = order[np.cumsum((weight * distance**2)[order]) <= question.radius**2]
            thetas[afford] += np.outer(distance[afford] + 1e-12, refused)
            yes = (thetas @ question.points.T >= 0.0).all(axis=1)
            assert weight[yes].sum() <= upper + ROUNDING


@pytest.mark.parametrize("radius", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("favourable", [True, False])
def test_one_distribution_of_models_attains_the_bound(radius: float, favourable: bool) -> None:
    """Two classes of models, spread out evenly off the line that matters, then moved by exactly the radius."""
    question = plan(5, members=1, d=4, radius=radius, spread=0.3, favourable=favourable)
    point, mean, covariance = question.points[0], question.moments.mean, question.covariance
    u = point / np.linalg.norm(point)
    m, s = float(mean @ u), math.sqrt(u @ covariance @ u)
    turn = math.asin(radius / math.hypot(m, s)) * (1.0 if favourable else -1.0)
    length = math.sqrt(m * m + s * s - radius**2)
    angle = math.atan2(s, m) + turn
    new_m, new_s = length * math.cos(angle), length * math.sin(angle)
    # Chebyshev's own distribution with these two moments: one class at the boundary, one on the side of the mean.
    at_boundary = new_s**2 / (new_m**2 + new_s**2)
    share = np.array([at_boundary, 1.0 - at_boundary])
    along = (np.array([0.0, (new_m**2 + new_s**2) / new_m]) - new_m) / new_s
    # Off the line: the rest of the covariance, as symmetric pairs.
    slope = covariance @ u / s
    values, vectors = np.linalg.eigh(covariance - np.outer(slope, slope))
    sizes = np.sqrt(np.where(values > 1e-12, values, 0.0) * len(values))
    rest = np.concatenate([sign * (vectors * sizes).T for sign in (1.0, -1.0)])
    thetas = np.concatenate([mean + value * slope + rest for value in along])
    weight = np.repeat(share / len(rest), len(rest))
    np.testing.assert_allclose(weight @ thetas, mean, atol=1e-12)
    np.testing.assert_allclose(((thetas - mean) * weight[:, None]).T @ (thetas - mean), covariance, atol=1e-12)
    # Only the score changes, by an affine map: that is the optimal coupling.
    shift = np.repeat(new_m + along * new_s - (m + along * s), len(rest))
    assert math.sqrt(weight @ shift**2) == pytest.approx(radius, abs=1e-9)
    scores = (thetas + np.outer(shift, u)) @ u
    (lower,), (upper,) = single_bounds(question)
    if favourable:
        assert weight[scores > 1e-9].sum() == pytest.approx(lower, abs=1e-6)
    else:
        assert weight[scores >= -1e-9].sum() == pytest.approx(upper, abs=1e-6)


# --- what bounds must obey -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("favourable", [True, False])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_a_larger_radius_promises_less(members: int, favourable: bool) -> None:
    question = plan(1, members=members, d=6, favourable=favourable)
    found = [bounds(question.at(radius)) for radius in (0.0, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)]
    for narrow, wide in pairwise(found):
        assert wide.lower <= narrow.lower + 1e-6
        assert wide.upper >= narrow.upper - 1e-6
    strict = [one.lower if favourable else one.upper for one in found]
    assert abs(strict[0] - strict[4]) > 0.01


@pytest.mark.parametrize("seed", range(10))
def test_either_the_upper_bound_says_nothing_or_the_lower_one(seed: int) -> None:
    """Proposition 2.4: who is favourable on average may be so for certain; who is not, may never be."""
    accepted = bounds(plan(seed, members=3, d=5))
    assert accepted.upper == 1.0
    refused = bounds(plan(seed, members=3, d=5, favourable=False))
    assert refused.lower == 0.0
    assert refused.upper < 1.0


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("favourable", [True, False])
def test_a_huge_radius_promises_nothing(members: int, favourable: bool) -> None:
    found = bounds(plan(0, members=members, d=4, radius=10.0, favourable=favourable))
    assert found.lower <= 1e-9
    assert found.upper >= 1.0 - 1e-6


def test_without_radius_one_counterfactual_has_chebyshevs_bound() -> None:
    question = plan(2, members=1, d=5, radius=0.0, spread=0.3)
    mean = float(question.points[0] @ question.moments.mean)
    variance = float(question.points[0] @ question.covariance @ question.points[0])
    (lower,), _ = single_bounds(question)
    assert lower == pytest.approx(mean**2 / (mean**2 + variance), abs=1e-9)


@pytest.mark.parametrize("favourable", [True, False])
def test_a_model_that_is_certain_stays_as_it_is_until_the_radius_reaches_the_boundary(favourable: bool) -> None:
    question = plan(2, members=2, d=5, favourable=favourable)
    question = replace(question, moments=replace(question.moments, factors=(np.zeros((6, 3)),)))
    found = bounds(question.at(0.0))
    # A radius of the root of the smallest variance is what is left of a covariance that has been made regular.
    assert found.lower == pytest.approx(float(favourable), abs=1e-4)
    assert found.upper == pytest.approx(float(favourable), abs=1e-4)
    for i, point in enumerate(question.points):
        distance = abs(float(point @ question.moments.mean)) / float(np.linalg.norm(point))
        yes = float(point @ question.moments.mean > 0.0)
        for radius, settled in ((0.5 * distance, False), (1.001 * distance, True)):
            lower, upper = (one[i] for one in single_bounds(question.at(radius)))
            assert (lower == 0.0 and upper == 1.0) == settled
            chance = 1.0 - radius**2 / distance**2
            if not settled:
                assert (lower if yes else 1.0 - upper) == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("radius", [0.0, 0.05])
@pytest.mark.parametrize("favourable", [True, False])
def test_singular_covariances_keep_the_promise_and_come_near_the_paper(
    rank: int, radius: float, favourable: bool
) -> None:
    question = plan(rank, members=3, d=5, radius=radius, rank=rank, favourable=favourable)
    found = bounds(question)
    thetas, weight = discrete(np.random.default_rng(0), question.moments, atoms=40)
    yes = (thetas @ question.points.T > 0.0).all(axis=1)
    assert found.lower <= weight[yes].sum() <= found.upper
    if radius:  # the paper's programs need some of both to have an interior
        root = np.concatenate([question.moments.root, 1e-4 * np.eye(6)], axis=1)
        regular = replace(question, moments=replace(question.moments, factors=(root,)))
        full = lower_in_full(regular) if favourable else upper_in_full(regular)
        assert (found.lower if favourable else found.upper) == pytest.approx(full, abs=3e-4)


@pytest.mark.parametrize("favourable", [True, False])
def test_the_scale_of_points_says_nothing(favourable: bool) -> None:
    question = plan(4, members=3, d=5, favourable=favourable)
    factors = np.array([[1e-3], [1.0], [1e4]])
    scaled = replace(question, points=question.points * factors)
    one, other = bounds(question), bounds(scaled)
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-6)
    np.testing.assert_allclose(single_bounds(question), single_bounds(scaled), atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("favourable", [True, False])
def test_the_bracket_contains_the_bounds_and_is_what_a_solver_without_time_leaves(seed: int, favourable: bool) -> None:
    question = plan(seed, members=2 + seed % 4, d=6, favourable=favourable)
    bracket = plan_bracket(question.points, question.moments, question.radius)
    found = bounds(question)
    lower, upper = single_bounds(question)
    assert bracket.lower <= found.lower <= lower.min() + 1e-5
    assert found.upper <= bracket.upper == upper.min()
    assert bracket.lower == pytest.approx(max(0.0, 1.0 - (1.0 - lower).sum()))
    assert (bracket.exact, bracket.status) == (False, BoundStatus.BRACKET)
    assert plan_bounds(question.points, question.moments, question.radius, deadline=0.0) == bracket


def test_a_plan_of_one_is_the_closed_form() -> None:
    question = plan(0, members=1, d=6)
    (lower,), (upper,) = single_bounds(question)
    found = bounds(question)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=1e-12)
    assert found.exact


def test_a_member_twice_changes_nothing() -> None:
    question = plan(6, members=1, d=6, radius=0.1)
    twice = replace(question, points=np.repeat(question.points, 2, axis=0))
    (lower,), _ = single_bounds(question)
    assert bounds(twice).lower == pytest.approx(lower, abs=1e-5)
    assert bounds(twice).lower <= lower


def test_the_order_of_a_plan_says_nothing() -> None:
    question = plan(7, members=4, d=6)
    turned = replace(question, points=question.points[::-1].copy())
    assert bounds(turned).lower == pytest.approx(bounds(question).lower, abs=1e-6)


# --- the dimension says nothing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [60, 250])
@pytest.mark.parametrize("favourable", [True, False])
def test_a_plan_turned_into_many_dimensions_keeps_its_bounds(d: int, favourable: bool) -> None:
    """What models do outside the span of the plan is nobody's business."""
    small = plan(11, members=5, d=5, favourable=favourable)
    rng = np.random.default_rng(d)
    turn = np.linalg.qr(rng.standard_normal((d + 1, d + 1)))[0]
    inside, outside = turn[:, :6], turn[:, 6:]
    loud = outside @ rng.standard_normal((d - 5, 40))
    large = Plan(
        points=small.points @ inside.T,
        moments=WeightMoments(
            mean=inside @ small.moments.mean + outside @ rng.standard_normal(d - 5),
            factors=(np.concatenate([inside @ small.moments.root, loud], axis=1),),
            kind="test",
        ),
        radius=small.radius,
    )
    one, other = bounds(small), bounds(large)
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-5)
    assert one.lower > 0.05 if favourable else one.upper < 0.95
    np.testing.assert_allclose(single_bounds(small), single_bounds(large), atol=1e-9)
