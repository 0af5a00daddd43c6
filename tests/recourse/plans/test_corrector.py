"""Corrections by themselves, against formulas and a modelling layer; and whole plans, which they never make worse."""

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.certificate_params import CertificateParams
from app.recourse.correct import Correction, CorrectionStatus, correct
from app.recourse.features import Change, FeatureSpace
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.plans.corrector import CorrectionParams, Corrector, MemberOutcome, corrected, keep_better
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.validity import plan_bounds
from app.recourse.verdict import Reason
from tests.recourse import oracle
from tests.recourse.certified import FACTUAL, W, curved, linear, linear_score, rows, space
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, examples, questions
from tests.recourse.toys import ask, plane

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]


def moments(seed: int, d: int, spread: float = 0.1) -> WeightMoments:
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=d + 1)
    return WeightMoments(
        mean=mean / np.linalg.norm(mean), factors=(spread * rng.normal(size=(d + 1, 2 * d)),), kind="test"
    )


def corrector(
    d: int, known: WeightMoments, low: float | None = None, high: float | None = None, **params: object
) -> Corrector:
    actions = action_set(plane(d, low=low, high=high), np.zeros(d))
    return Corrector(actions, known, CorrectionParams(**params))  # type: ignore[arg-type]


# --- optima ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_without_limits_the_requirement_is_the_closed_form(seed: int) -> None:
    """``x - min(0, mu.x~ - eps) mu_w / |mu_w|^2``: features only, not the bias."""
    d = 4
    known, x = moments(seed, d), np.random.default_rng(seed).normal(size=d)
    w = known.mean[:-1]
    expected = x - min(0.0, float(known.mean @ np.append(x, 1.0)) - 0.5) * w / (w @ w)
    found = corrector(d, known).requirement(x, 0.5)
    assert found is not None
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_within_limits_the_requirement_is_the_quadratic_program(seed: int) -> None:
    d = 4
    known, x = moments(seed, d), np.clip(np.random.default_rng(seed).normal(size=d), -1.0, 1.0)
    y = cp.Variable(d)
    program = cp.Problem(
        cp.Minimize(cp.norm(y - x)), [y >= -1.0, y <= 1.0, known.mean[:-1] @ y + known.mean[-1] >= 0.3]
    )
    program.solve(solver=cp.CLARABEL)
    found = corrector(d, known, -1.0, 1.0).requirement(x, 0.3)
    if program.status == "optimal":
        assert found is not None
        assert np.linalg.norm(found - x) == pytest.approx(float(program.value), abs=1e-5)
        assert known.mean @ np.append(found, 1.0) >= 0.3 - 1e-8
    else:
        assert found is None


def ratio(x: Float[np.ndarray, "d"], known: WeightMoments) -> float:
    point = np.append(x, 1.0)
    return float(point @ known.mean / np.linalg.norm(known.root.T @ point))


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_mahalanobis_optimum_is_that_of_the_modelling_layer(seed: int, bounded: bool) -> None:
    d, shift = 4, 0.7
    known = moments(seed, d)
    x = np.clip(np.random.default_rng(seed + 100).normal(size=d), -1.0, 1.0)
    v, t = cp.Variable(d), cp.Variable(nonneg=True)
    tilde = cp.hstack([v, t])
    constraints = [cp.norm(v - t * x) <= shift * t, known.mean @ tilde == 1.0]
    if bounded:
        constraints += [v >= -t, v <= t]
    program = cp.Problem(cp.Minimize(cp.norm(known.root.T @ tilde)), constraints)
    program.solve(solver=cp.CLARABEL)
    limits = (-1.0, 1.0) if bounded else (None, None)
    point = corrector(d, known, *limits).mahalanobis_point(x, shift)
    if program.status != "optimal":
        assert point is None
        return
    assert point is not None
    assert ratio(point, known) == pytest.approx(1.0 / float(program.value), rel=1e-5)
    assert np.linalg.norm(point - x) <= shift + 1e-6
    for _ in range(300):  # nothing near it is better
        other = point + 0.05 * np.random.default_rng(_).normal(size=d)
        if np.linalg.norm(other - x) <= shift and not (bounded and np.abs(other).max() > 1.0):
            assert ratio(other, known) <= ratio(point, known) + 1e-6


def test_rules_hold_in_the_homogeneous_form_too() -> None:
    space = plane(3, low=-5.0, high=5.0)
    rule = LinearRule("f0 + f1 <= 0.2", (1.0, 1.0, 0.0), 0.2)
    actions = action_set(space, np.zeros(3), rules=(rule,))
    mean = np.array([0.6, 0.6, 0.1, 0.1])
    known = WeightMoments(mean=mean / np.linalg.norm(mean), factors=(0.2 * np.eye(4),), kind="test")
    it = Corrector(actions, known, CorrectionParams())
    point = it.mahalanobis_point(np.array([0.1, 0.0, 0.0]), 1.0)
    assert point is not None
    assert point[0] + point[1] == pytest.approx(0.2, abs=1e-6)
    row = it.mahalanobis(np.array([0.1, 0.0, 0.0]), 1.0)
    assert row is not None
    assert actions.contains(row[None])[0]
    assert ratio(row, known) == pytest.approx(ratio(point, known), rel=1e-2)


def test_the_best_of_several_starts_is_taken_wherever_it_stands() -> None:
    it, low, high = corrector(2, moments(0, 2), -9.0, 9.0), np.zeros(2), np.full(2, 7.77)

    def worth(rows: Points) -> Float[np.ndarray, "n"]:
        """1 at one start, 2 at the other, and nothing beside both."""
        at_low, at_high = (rows == low).all(axis=1), (rows == high).all(axis=1)
        return 1.0 * at_low + 2.0 * at_high

    for starts in ([low, high], [high, low]):
        found = it._by_single_moves(starts, worth=worth, miss=lambda rows: np.zeros(len(rows)))
        assert found is not None
        np.testing.assert_array_equal(found, high)


def test_where_rules_forbid_every_start_the_nearest_legal_record_is_one() -> None:
    rule = LinearRule("f0 + f1 <= 0.2", (1.0, 1.0, 0.0), 0.2)
    actions = action_set(plane(3, low=-5.0, high=5.0), np.zeros(3), rules=(rule,))
    it = Corrector(actions, moments(0, 3), CorrectionParams())
    start = np.array([1.0, 0.0, 0.0])
    found = it._by_single_moves(
        [start], worth=lambda rows: -np.abs(rows - start).sum(axis=1), miss=lambda rows: np.zeros(len(rows))
    )
    assert found is not None
    assert actions.contains(found[None])[0]
    assert np.abs(found - start).sum() == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_models_that_do_not_vary_leave_a_member_within_its_limit(seed: int) -> None:
    """The ratio has no bound there, and must not outweigh the limit."""
    known = replace(moments(seed, 4), factors=(np.zeros((5, 1)),))
    x = np.random.default_rng(seed).normal(size=4)
    accepted = x + max(0.0, 0.1 - float(known.mean @ np.append(x, 1.0))) * known.mean[:-1] / np.sum(
        known.mean[:-1] ** 2
    )
    found = corrector(4, known, -5.0, 5.0).mahalanobis(accepted, 0.3)
    assert found is not None
    assert np.linalg.norm(found - accepted) <= 0.3 + 1e-6
    assert known.mean @ np.append(found, 1.0) >= -1e-9


def test_what_the_mean_refuses_everywhere_near_cannot_be_corrected() -> None:
    known = moments(0, 3)
    x = -10.0 * known.mean[:-1]
    it = corrector(3, known)
    assert it.mahalanobis_point(x, 0.1) is None
    assert it.mahalanobis(x, 0.1) is None
    assert corrector(3, known, -0.01, 0.01).requirement(np.zeros(3), 5.0) is None


@settings(PROPERTY, max_examples=examples(60))
@given(questions(with_rules=True), st.integers(0, 10**6))
def test_corrected_members_are_legal_and_within_their_limits(question, seed: int) -> None:  # type: ignore[no-untyped-def]
    actions = question.action_set
    row = actions.factual_raw
    if not actions.contains(row[None])[0]:
        return
    known = moments(seed, question.space.d)
    x = question.space.encode(row[None])[0]
    near = Corrector(actions, known, CorrectionParams()).mahalanobis(row, 0.5)
    there = Corrector(actions, known, CorrectionParams()).requirement(row, 0.2)
    for found in (near, there):
        if found is not None:
            assert oracle.row_is_legal(
                question.space, question.factual_raw, found, question.constraints, question.rules, question.timing
            )
    if near is not None:
        assert np.linalg.norm(question.space.encode(near[None])[0] - x) <= 0.5 + 1e-6
    if there is not None:
        point = homogeneous(question.space.encode(there[None]))[0]
        assert point @ known.mean >= 0.2 - 1e-6


# --- plans -----------------------------------------------------------------------------------------------------------


def random_plan(seed: int, members: int, d: int) -> tuple[Points, WeightMoments]:
    """A plan most of whose members the mean accepts."""
    rng = np.random.default_rng(seed)
    known = moments(seed, d, spread=0.05)
    w = known.mean[:-1]
    X = rng.normal(size=(members, d))
    wanted = rng.uniform(-0.1, 0.8, members) if seed % 3 == 0 else rng.uniform(0.1, 0.8, members)
    return X + np.outer(wanted - (X @ w + known.mean[-1]), w) / (w @ w), known


@pytest.mark.parametrize("kind", ["requirement", "mahalanobis"])
@pytest.mark.parametrize("seed", range(12))
def test_a_correction_never_lowers_the_joint_bound(seed: int, kind: str) -> None:
    X, known = random_plan(seed, 4, 5)
    actions = action_set(plane(5, low=-10.0, high=10.0), np.full(5, -3.0))
    before = plan_bounds(homogeneous(X), known, 0.02).lower
    params = CorrectionParams(kind=kind, margin=0.4, max_shift=0.3)  # type: ignore[arg-type]
    after = plan_bounds(homogeneous(corrected(actions, X, known, 0.02, params, until=math.inf)), known, 0.02).lower
    assert after >= before


def test_a_change_that_makes_the_plan_worse_is_not_made() -> None:
    """A better member by itself, but the others lose more where it goes."""
    X, known = random_plan(1, 3, 4)
    actions = action_set(plane(4, low=None, high=None), np.full(4, -3.0))
    before = plan_bounds(homogeneous(X), known, 0.02)
    worse: list[np.ndarray | None] = [-10.0 * known.mean[:-1], None, None]
    made, after = keep_better(actions, X, worse, lambda *_: known, 0.02, before, gain=0.0, until=math.inf)
    assert not made.any()
    assert after is before
    twin: list[np.ndarray | None] = [X[1], None, None]
    assert not keep_better(actions, X, twin, lambda *_: known, 0.02, before, gain=0.0, until=math.inf)[0].any()


def test_without_tight_bounds_before_only_what_is_better_for_certain_is_changed() -> None:
    X, known = random_plan(1, 3, 4)
    actions = action_set(plane(4, low=None, high=None), np.full(4, -3.0))
    before = replace(plan_bounds(homogeneous(X), known, 0.02), exact=False)
    nudge: list[np.ndarray | None] = [X[0] + 1e-3 * known.mean[:-1], None, None]
    assert not keep_better(actions, X, nudge, lambda *_: known, 0.02, before, gain=0.0, until=math.inf)[0].any()


# --- asked of the black box ------------------------------------------------------------------------------------------

BROUGHT = np.array([[3.4, -1.0, 0.5, 0.0], [1.9, 0.0, 0.0, 1.0], [2.0, -2.0, 0.1, 0.0]])
ASKED = CertificateParams(moments="isotropic", isotropic_variance=0.002, ambiguity_radius=0.01)


def check(problem: RecourseProblem, before: Points, found: Correction) -> None:
    """What every correction promises."""
    actions = problem.action_set
    for row, one, outcome in zip(before, found.members, found.outcomes, strict=True):
        changed = outcome is MemberOutcome.CORRECTED
        assert changed == bool((one.row_raw != row).any())
        if changed:
            assert one.score is not None
            assert one.score >= 0.0
            assert oracle.row_is_legal(
                actions.space, actions.factual_raw, one.row_raw, actions.constraints, actions.rules
            )
    if found.before is not None:
        assert found.plan is not None
        assert found.plan.lower >= found.before.lower
    assert (found.status is CorrectionStatus.CORRECTED) == (MemberOutcome.CORRECTED in found.outcomes)
    assert (found.status is CorrectionStatus.NOT_FOUND) == (found.reason is not None)
    assert found.diagnostics.model_calls <= 5


@pytest.mark.parametrize("model", [linear, curved])
def test_mahalanobis_raises_the_bound_and_hardly_moves_the_plan(model) -> None:  # type: ignore[no-untyped-def]
    problem, _ = model()
    found = correct(problem, BROUGHT, CorrectionParams(count=2, max_shift=0.4), ASKED)
    check(problem, BROUGHT, found)
    assert found.status is CorrectionStatus.CORRECTED
    assert found.before is not None
    assert found.plan is not None
    assert found.plan.lower > found.before.lower + 0.01
    assert found.plan.proximity == pytest.approx(found.before.proximity, rel=0.1)
    assert found.outcomes.count(MemberOutcome.NOT_SELECTED) == 1
    for row, one in zip(BROUGHT, found.members, strict=True):
        assert np.linalg.norm(one.row_raw - row) <= 0.4 + 1e-6


def test_a_requirement_is_met_by_every_member_or_said_not_to_be() -> None:
    problem, _ = linear()
    found = correct(problem, BROUGHT, CorrectionParams(kind="requirement", margin=0.5), ASKED)
    check(problem, BROUGHT, found)
    mean = np.append(W, -2.0) / np.linalg.norm(np.append(W, -2.0))
    for one in found.members:
        assert homogeneous(one.row_raw[None])[0] @ mean >= 0.5 - 0.1  # the local machine is not the model to the digit
    assert set(found.outcomes) <= {MemberOutcome.CORRECTED, MemberOutcome.MET}
    again = correct(
        problem,
        np.array([one.row_raw for one in found.members]),
        CorrectionParams(kind="requirement", margin=0.5),
        ASKED,
    )
    assert again.status is CorrectionStatus.UNCHANGED


def test_a_requirement_beyond_the_constraints_is_a_verdict() -> None:
    limits = {"immutable": ("age", "debt", "guarantor"), "bounds": {"income": Bounds(max=0.5)}}
    problem, _ = linear(constraints=limits)
    near = np.array([[*FACTUAL]])
    near[0, 0] = 0.25
    found = correct(problem, near, CorrectionParams(kind="requirement", margin=3.0), ASKED)
    check(problem, near, found)
    assert found.status is CorrectionStatus.NOT_FOUND
    assert found.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert found.outcomes == (MemberOutcome.INFEASIBLE,)
    assert found.relax is not None
    assert (found.relax.constraint, found.relax.feature) == ("bounds", "income")


def test_who_is_accepted_already_needs_no_correction() -> None:
    problem, _ = ask(plane(2), lambda X: X.sum(axis=1) - 1.0, [4.0, 4.0])
    found = correct(problem, np.array([[4.5, 4.0]]), CorrectionParams(), ASKED)
    assert found.status is CorrectionStatus.UNCHANGED
    assert found.plan is None


def test_without_a_boundary_there_is_nothing_to_go_by() -> None:
    problem, _ = ask(plane(2), lambda X: np.full(len(X), -1.0), [0.0, 0.0])
    found = correct(problem, np.array([[1.0, 1.0]]), CorrectionParams(), ASKED)
    check(problem, np.array([[1.0, 1.0]]), found)
    assert found.reason is Reason.BOUNDARY_NOT_FOUND


def test_a_model_that_refuses_every_correction_keeps_the_plan() -> None:
    """It knows the records that were brought, and no others on that side."""
    problem, spy = linear()
    inner = spy.predict

    def suspicious(X: Points) -> Float[np.ndarray, "n"]:
        seen = (np.abs(X[:, None] - BROUGHT[None]) < 1e-12).all(axis=2).any(axis=1)
        sampled = len(X) > 100
        return np.where(seen | sampled, np.asarray(inner(X)), -1.0)

    spy.predict = suspicious
    found = correct(problem, BROUGHT, CorrectionParams(count=3, max_shift=0.4), ASKED)
    check(problem, BROUGHT, found)
    assert found.status is CorrectionStatus.NOT_FOUND
    assert found.reason is Reason.TARGET_NOT_REACHED
    assert set(found.outcomes) == {MemberOutcome.REFUSED}


def test_no_time_for_the_bounds_leaves_the_plan_as_it_was() -> None:
    problem, _ = linear()
    uncertain = replace(ASKED, isotropic_variance=0.02)
    found = correct(problem, BROUGHT, CorrectionParams(max_shift=0.1), uncertain, plan_s=1e-9)
    check(problem, BROUGHT, found)
    assert found.status is CorrectionStatus.UNCHANGED
    assert MemberOutcome.UNDECIDED in found.outcomes
    assert any("not enough time" in warning for warning in found.warnings)


@settings(PROPERTY, max_examples=examples(25))
@given(questions(with_rules=True, bounded=True), st.integers(0, 10**6), st.sampled_from(["requirement", "mahalanobis"]))
def test_whatever_is_brought_is_not_made_worse(question, seed: int, kind: str) -> None:  # type: ignore[no-untyped-def]
    space = question.space
    rng = np.random.default_rng(seed)
    low, high = space.limits_raw
    brought = rng.uniform(low, high, (3, space.p))
    brought[:, space.whole] = np.rint(brought[:, space.whole])
    brought = np.clip(brought, low, high)
    problem, _ = ask(
        space, question.model.score, question.factual_raw.tolist(),
        rows_raw=np.concatenate([brought, brought[::-1]]) if seed % 2 else brought,
        constraints=question.constraints, timing=question.timing, rules=question.rules,
    )  # fmt: skip
    params = CorrectionParams(kind=kind, max_shift=1.0)  # type: ignore[arg-type]
    check(problem, brought, correct(problem, brought, params, ASKED))


def test_a_member_that_changes_what_cannot_change_counts_as_the_model_sees_it() -> None:
    features = [replace(one, change=Change.NONE) if one.name == "age" else one for one in space().features]
    problem, _ = ask(FeatureSpace(features), linear_score, FACTUAL, rows_raw=rows())
    brought = np.array([[4.0, -1.0, -5.0, 0.0], [4.0, -1.0, 0.0, 0.0]])  # the first is refused because of its age
    found = correct(problem, brought, CorrectionParams(count=1), ASKED)
    assert found.before is not None
    assert found.before.lower == 0.0
    first = found.members[0].certificate
    assert first is not None
    assert first.shift.gelbrich.lower == 0.0
    assert "Counterfactual 1 cannot be carried out: age cannot change in this model." in found.warnings


def test_constraints_of_a_request_bind_corrections() -> None:
    problem, _ = linear()
    bound = replace(
        problem,
        action_set=action_set(
            problem.action_set.space, np.array(FACTUAL), constraints=Constraints(immutable=("income",))
        ),
    )
    brought = rows(3)
    brought[:, 0] = FACTUAL[0]
    found = correct(bound, brought, CorrectionParams(max_shift=1.0), ASKED)
    check(bound, brought, found)
    assert all(one.row_raw[0] == FACTUAL[0] for one in found.members)
