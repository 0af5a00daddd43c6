"""Certificates of linear models rest on the model's own weights: each number computed by hand, for every question."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.errors import InvalidRequest
from app.recourse.assess import assess
from app.recourse.certificate_params import CertificateParams
from app.recourse.correct import correct
from app.recourse.counterfactual import Certificate
from app.recourse.models.committee import FutureModels, Futures
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.plans.corrector import CorrectionParams
from app.recourse.problem import RecourseProblem
from app.recourse.result import PlanCertificate
from app.recourse.robustness.future_validity import future_moments, future_plan_moments
from app.recourse.robustness.invalidation import clopper_pearson
from app.recourse.robustness.validity import plan_bounds
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate.weight_moments import future, nominal, surrogate
from tests.recourse.certified import curved, gelbrich, labels, normal_tail, sample_of
from tests.recourse.toys import ask, plane

W, C = np.array([-1.902, -0.109, -0.804, 1.08, -0.289]), -1.295
THETA = np.append(W, C) / math.sqrt(float(W @ W) + C * C)
"""Of length 1 with all columns and the intercept, whatever the person can change."""
RECORD = (-0.659, -0.229, -0.656, 0.373, 0.976)
FACTUAL = (-0.659, -0.229, 1.0, -1.0, 1.0)
"""Agrees with the record in the first two columns."""
PLAN = np.array([RECORD, (-0.659, -0.229, -0.2, 0.9, 0.976)])
ROOT = np.random.default_rng(4).standard_normal((6, 9)) / 20.0
REGISTERED = WeightMoments(mean=THETA, factors=(ROOT,), kind="registered")
FROZEN = {"immutable": ("f0", "f1")}


def question(constraints: Any = None, **changes: Any) -> RecourseProblem:
    problem, _ = ask(plane(5), lambda X: X @ W + C, FACTUAL, constraints=constraints)
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(W, (len(X), 1)))
    reference = replace(problem.reference, weight_moments=REGISTERED)
    return replace(problem, black_box=black_box, reference=reference, **changes)


@dataclass
class Told:
    """What an answer says of its records."""

    rows_raw: Float[np.ndarray, "n p"]
    certificates: list[Certificate]
    plan: PlanCertificate | None


def answers(problem: RecourseProblem, params: CertificateParams) -> Iterator[Told]:
    """The same certificate by every way to ask for one."""
    for name in ("robust_mpm", "copa"):
        result = solve(problem, METHODS[name], METHODS[name].params(), params)
        yield _told(result.counterfactuals, result.plan)
    assessed = assess(problem, PLAN, params)
    yield _told(assessed.judged, assessed.plan)
    corrected = correct(problem, PLAN, CorrectionParams(), params)
    yield _told(corrected.members, corrected.plan)


def _told(found: Any, plan: PlanCertificate | None) -> Told:
    assert found
    return Told(np.array([one.row_raw for one in found]), [one.certificate for one in found], plan)


# --- shift -----------------------------------------------------------------------------------------------------------


def test_the_bound_of_a_record_with_frozen_columns_is_that_of_all_weights() -> None:
    params = CertificateParams(moments="isotropic", isotropic_variance=0.05, ambiguity_radius=0.01)
    for constraints in (None, FROZEN):
        (one,) = assess(question(constraints), PLAN[:1], params).judged
        assert one.certificate is not None
        assert one.certificate.shift.gelbrich.lower == pytest.approx(0.236, abs=5e-4)
        assert one.certificate.shift.linf_radius == pytest.approx(0.060449, abs=5e-7)
        assert not one.certificate.shift.estimated


@pytest.mark.parametrize("constraints", [None, FROZEN])
@pytest.mark.parametrize("moments", ["isotropic", "registered"])
@pytest.mark.parametrize("radius", [0.0, 0.01, 0.1])
def test_every_answer_bounds_shift_about_the_own_weights(constraints: Any, moments: Any, radius: float) -> None:
    params = CertificateParams(moments=moments, isotropic_variance=0.02, ambiguity_radius=radius)
    covariance = 0.02 * np.eye(6) if moments == "isotropic" else ROOT @ ROOT.T
    root = math.sqrt(0.02) * np.eye(6) if moments == "isotropic" else ROOT
    for told in answers(question(constraints), params):
        points = np.column_stack([told.rows_raw, np.ones(len(told.rows_raw))])
        for point, certificate in zip(points, told.certificates, strict=True):
            length = float(np.linalg.norm(point))
            expected = gelbrich(float(point @ THETA) / length, math.sqrt(point @ covariance @ point) / length, radius)
            found = certificate.shift.gelbrich
            assert (found.lower, found.upper) == pytest.approx(expected, abs=1e-8)
            assert certificate.shift.linf_radius == pytest.approx(float(point @ THETA) / float(np.abs(point).sum()))
            assert certificate.shift.estimated == (moments == "registered")
        if told.plan is not None:
            bounds = plan_bounds(points, WeightMoments(mean=THETA, factors=(root,), kind="by hand"), radius)
            assert (told.plan.lower, told.plan.upper) == pytest.approx((bounds.lower, bounds.upper), abs=1e-6)
            assert told.plan.lower <= min(one.shift.gelbrich.lower for one in told.certificates) + 1e-6


@pytest.mark.parametrize("constraints", [None, FROZEN])
def test_the_uncertainty_of_a_surrogate_is_about_the_own_weights_too(constraints: Any) -> None:
    """The surrogate's covariance has the length of its own weights: the free ones, and an intercept with the rest."""
    problem = question(constraints)
    taken = sample_of(problem)
    moments = surrogate(taken, nominal(taken))
    frozen = [] if constraints is None else [0, 1]
    free = [j for j in range(5) if j not in frozen]
    inner = math.hypot(float(np.linalg.norm(W[free])), C + float(W[frozen] @ np.array(FACTUAL)[frozen]))
    root = moments.root * inner / math.sqrt(float(W @ W) + C * C)
    result = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), CertificateParams())
    (found,) = result.counterfactuals
    point = np.append(found.row_raw, 1.0) / math.sqrt(float(found.row_raw @ found.row_raw) + 1.0)
    assert found.certificate is not None
    bound = found.certificate.shift.gelbrich
    expected = gelbrich(float(point @ THETA), float(np.linalg.norm(point @ root)), 0.01)
    assert (bound.lower, bound.upper) == pytest.approx(expected, abs=1e-8)
    assert (bound.moments, found.certificate.shift.estimated) == ("surrogate", False)


def test_only_a_linear_model_that_gives_its_weights_is_not_estimated() -> None:
    for toy in (curved, labels):
        (found,) = solve(
            toy()[0], METHODS["robust_mpm"], METHODS["robust_mpm"].params(), CertificateParams()
        ).counterfactuals
        assert found.certificate is not None
        assert found.certificate.shift.estimated


# --- noise, and both -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraints", [None, FROZEN])
def test_noise_and_the_joint_bound_agree_with_the_own_weights(constraints: Any) -> None:
    """The joint bound is the mean bound of noisy copies, by their own draws and a fine search on the circle."""
    params = CertificateParams(moments="isotropic", isotropic_variance=0.02, noise_std=0.3, noise_samples=20_000)
    rng = np.random.default_rng(11)
    for told in answers(question(constraints), params):
        for row_raw, certificate in zip(told.rows_raw, told.certificates, strict=True):
            tail = normal_tail(float(row_raw @ W + C) / (0.3 * float(np.linalg.norm(W))))
            assert certificate.noise.exact
            assert certificate.noise.closed_form == pytest.approx(tail)
            assert certificate.noise.monte_carlo == pytest.approx(tail, abs=5 * math.sqrt(0.25 / 20_000))
            copies = np.column_stack([row_raw + 0.3 * rng.standard_normal((4000, 5)), np.ones(4000)])
            means = copies @ THETA / np.linalg.norm(copies, axis=1)
            bounds = _least_share(means, math.sqrt(0.02), 0.01)
            assert certificate.joint is not None
            assert certificate.joint.interval[0] <= float(bounds.mean()) <= certificate.joint.interval[1]


def _least_share(means: Float[np.ndarray, "n"], deviation: float, radius: float) -> Float[np.ndarray, "n"]:
    """Least ``m^2 / (m^2 + s^2)`` within the radius of each mean, on a grid of angles; 0 where m can be negative."""
    turns = np.linspace(0.0, 2.0 * math.pi, 721)
    m = means[:, None] + radius * np.cos(turns)
    s = deviation + radius * np.sin(turns)
    return np.where(m > 0.0, m**2 / (m**2 + s**2), 0.0).min(axis=1)


# --- moments of future models ----------------------------------------------------------------------------------------

MODELS = 200


def _futures(held_back_seed: int = 2, spread: float = 0.3) -> tuple[Futures, Float[np.ndarray, "k m"]]:
    """Linear future models, and the weights of the held-back ones, each of length 1."""

    def drawn(seed: int) -> Float[np.ndarray, "k m"]:
        return np.append(W, C) + spread * np.random.default_rng(seed).standard_normal((MODELS, 6))

    def models(thetas: Float[np.ndarray, "k m"]) -> FutureModels:
        return FutureModels(space=plane(5), count=MODELS, score_all=lambda X: X @ thetas[:, :-1].T + thetas[:, -1])

    held_back = drawn(held_back_seed)
    futures = Futures(search=models(drawn(1)), held_back=models(held_back), source="retrained")
    return futures, held_back / np.linalg.norm(held_back, axis=1, keepdims=True)


@pytest.mark.parametrize("constraints", [None, FROZEN])
def test_moments_of_linear_futures_are_those_of_their_weights(constraints: Any) -> None:
    futures, thetas = _futures()
    problem = question(constraints)
    moments = future(sample_of(problem), futures.held_back, problem.reference.X)
    length = float(np.linalg.norm(thetas.mean(axis=0)))
    np.testing.assert_allclose(moments.mean, thetas.mean(axis=0) / length, atol=1e-4)
    np.testing.assert_allclose(moments.root @ moments.root.T, np.cov(thetas.T) / length**2, atol=1e-4)
    assert moments.kind == "future"


def test_moments_of_a_local_model_leave_out_what_cannot_change() -> None:
    """The others' contribution is in the intercept, so scores of legal records are the same up to each one's length."""
    futures, thetas = _futures()
    problem = question(FROZEN)
    moments = future(sample_of(problem), futures.held_back)
    fixed = np.array(FACTUAL)[:2]
    local = np.column_stack([np.zeros((MODELS, 2)), thetas[:, 2:5], thetas[:, 5] + thetas[:, :2] @ fixed])
    local /= np.linalg.norm(local, axis=1, keepdims=True)
    length = float(np.linalg.norm(local.mean(axis=0)))
    np.testing.assert_allclose(moments.mean, local.mean(axis=0) / length, atol=1e-4)
    np.testing.assert_allclose(moments.root @ moments.root.T, np.cov(local.T) / length**2, atol=1e-4)


@pytest.mark.parametrize("asked", ["auto", "future"])
def test_the_bound_of_futures_is_by_hand_from_their_scores(asked: Any) -> None:
    futures, _ = _futures()
    for told in answers(question(FROZEN, futures=futures), CertificateParams(moments=asked)):
        for row_raw, certificate in zip(told.rows_raw, told.certificates, strict=True):
            length = math.sqrt(float(W @ W) + C * C) * math.sqrt(float(row_raw @ row_raw) + 1.0)
            scores = futures.held_back.scores(row_raw[None])[0] / length
            found = certificate.shift.gelbrich
            expected = gelbrich(float(scores.mean()), float(scores.std(ddof=1)), 0.01, bell=True)
            low, high = clopper_pearson(int((scores >= 0.0).sum()), MODELS)
            assert found.lower == pytest.approx(min(expected[0], low), abs=1e-6)
            assert found.upper == pytest.approx(max(expected[1], high), abs=1e-6)
            assert (found.moments, certificate.shift.estimated) == ("future", False)


def test_moments_at_a_record_are_those_of_the_scores_of_its_noisy_copies() -> None:
    """Of linear models, whatever the columns that are not noisy."""
    futures, _ = _futures()
    problem, rng = question(futures=futures), np.random.default_rng(4)
    row_raw, std, unit = rng.normal(size=5), np.array([0.1, 0.0, 0.3, 0.2, 0.0]), 2.5
    (mean,), (covariance,) = future_moments(problem, row_raw[None], homogeneous(row_raw)[None], std, unit)
    noise = rng.standard_normal((50, 5)) * std
    scores = futures.held_back.scores(row_raw + noise) / unit
    moved = np.column_stack([np.ones(50), noise[:, np.flatnonzero(std)]])
    np.testing.assert_allclose(moved @ mean, scores.mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(np.sqrt((moved @ covariance * moved).sum(axis=1)), scores.std(axis=1, ddof=1), atol=1e-9)


def test_the_joint_bounds_of_a_plan_are_those_of_the_futures_weights() -> None:
    """Each of length 1; never above the interval of the share that accepts all members."""
    futures, thetas = _futures()
    length = float(np.linalg.norm(thetas.mean(axis=0)))
    root = (thetas - thetas.mean(axis=0)).T / (length * math.sqrt(MODELS - 1))
    moments = WeightMoments(mean=thetas.mean(axis=0) / length, factors=(root,), kind="by hand")
    told = assess(question(futures=futures), PLAN, CertificateParams())
    expected = plan_bounds(homogeneous(PLAN), moments, 0.01)
    assert told.plan is not None
    assert told.plan.future is not None
    assert told.plan.lower == pytest.approx(min(expected.lower, told.plan.future.all_interval[0]), abs=1e-3)
    assert told.plan.upper == pytest.approx(max(expected.upper, told.plan.future.all_interval[1]), abs=1e-3)
    assert 0.05 < told.plan.lower < 0.999


def test_moments_of_a_plan_are_those_of_the_scores_of_its_members() -> None:
    futures, _ = _futures()
    points, unit = homogeneous(PLAN), 2.5
    moments = future_plan_moments(question(futures=futures), PLAN, unit)
    scores = futures.held_back.scores(PLAN) / unit
    mean, deviation = moments.project(points)
    np.testing.assert_allclose(mean, scores.mean(axis=1), atol=1e-9)
    np.testing.assert_allclose(deviation, scores.std(axis=1, ddof=1), atol=1e-9)
    np.testing.assert_allclose(points @ moments.root @ moments.root.T @ points.T, np.cov(scores), atol=1e-9)


def test_the_bound_of_futures_is_below_the_share_that_accepts() -> None:
    """Of the very models whose mean and deviation are taken, with no radius; their scores are normal."""
    futures, thetas = _futures(spread=0.8)
    rows_raw = np.random.default_rng(0).uniform(-3, 3, (60, 5))
    judged = assess(question(futures=futures), rows_raw, CertificateParams(ambiguity_radius=0.0)).judged
    shares = (np.column_stack([rows_raw, np.ones(60)]) @ thetas.T >= 0.0).mean(axis=1)
    for share, one in zip(shares.tolist(), judged, strict=True):
        assert one.certificate is not None
        assert one.certificate.shift.gelbrich.lower <= share + 0.01
        assert one.certificate.shift.gelbrich.upper >= share - 0.01


def test_only_held_back_futures_take_part() -> None:
    futures, _ = _futures()

    def refused(X: Any) -> Any:
        raise AssertionError(X)

    search = replace(futures.search, score_all=refused)
    (one,) = assess(question(futures=replace(futures, search=search)), PLAN[:1], CertificateParams()).judged
    assert one.certificate is not None
    assert one.certificate.shift.gelbrich.moments == "future"


def test_a_plan_is_searched_with_the_search_set_alone() -> None:
    futures, _ = _futures()
    held_back = replace(futures.held_back, score_all=lambda X: futures.held_back.score_all(X) - 50.0)
    plans = []
    for models in (futures.held_back, held_back):
        problem = question(futures=replace(futures, held_back=models))
        found = solve(problem, METHODS["copa"], METHODS["copa"].params()).counterfactuals
        plans.append(np.array([one.row_raw for one in found]))
    np.testing.assert_array_equal(*plans)


def test_without_futures_auto_is_the_surrogate_and_future_is_an_error() -> None:
    (one,) = assess(question(), PLAN[:1], CertificateParams()).judged
    assert one.certificate is not None
    assert one.certificate.shift.gelbrich.moments == "surrogate"
    for ask_for in (
        lambda params: solve(question(), METHODS["robust_mpm"], METHODS["robust_mpm"].params(), params),
        lambda params: solve(question(), METHODS["copa"], METHODS["copa"].params(), params),
        lambda params: assess(question(), PLAN, params),
        lambda params: correct(question(), PLAN, CorrectionParams(), params),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask_for(CertificateParams(moments="future"))
        assert [fault.pointer for fault in refused.value.faults] == ["/certificate/moments"]
