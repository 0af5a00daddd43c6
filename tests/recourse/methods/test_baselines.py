"""The papers' baselines: every answer is verified like any other, and optima are optima."""

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.features import FeatureSpace, FeatureType
from app.recourse.frontier import frontier
from app.recourse.methods.robust_bayesian import Odds, RobustBayesianParams
from app.recourse.methods.robust_projection import RobustProjectionParams, project, worst_score
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Status
from app.recourse.search.mixed_integer import ActionProgram
from app.recourse.solve import MAX_CALLS, METHODS, solve
from app.recourse.surrogate.boundary import sample_boundary, survey
from tests.recourse.certified import Clock
from tests.recourse.test_solve import TOYS, check_record, decision
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

BASELINES = ("roar", "robust_projection", "robust_bayesian", "wachter", "growing_spheres")


@pytest.mark.parametrize("person", range(2))
@pytest.mark.parametrize("toy_name", TOYS)
@pytest.mark.parametrize("name", BASELINES)
def test_every_answer_is_legal_and_accepted(name: str, toy_name: str, person: int) -> None:
    toy, method = TOYS[toy_name], METHODS[name]
    problem, spy = ask(
        toy.space, toy.predict, toy.people()[person].tolist(), rows_raw=toy.rows_raw, seed=person, **toy.options
    )
    result = solve(problem, method, method.params())
    assert result.status is Status.FOUND
    for found in result.counterfactuals:
        check_record(problem, spy, found)
        assert decision(problem, spy, found.row_raw)
    again = solve(problem, method, method.params())
    assert [one.row_raw.tolist() for one in again.counterfactuals] == [
        one.row_raw.tolist() for one in result.counterfactuals
    ]


@pytest.mark.parametrize("name", ["roar", "robust_projection", "wachter"])
def test_a_linear_model_is_not_asked_more_often(name: str) -> None:
    toy = TOYS["linear"]
    problem, _ = ask(toy.space, toy.predict, toy.people()[0].tolist(), **toy.options)
    w = np.array([0.8, -0.5, 0.3])
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.broadcast_to(w, X.shape))
    result = solve(replace(problem, black_box=black_box), METHODS[name], METHODS[name].params())
    assert result.diagnostics.model_calls <= MAX_CALLS
    assert result.surrogate is not None
    assert result.surrogate.kind == "model"


def actions_of(seed: int, *, box: bool) -> tuple[ActionSet, LinearModel]:
    rng = np.random.default_rng(seed)
    if box:
        return action_set(plane(5), rng.normal(size=5)), LinearModel(rng.normal(size=5), -1.0).unit()
    return action_set(LOAN, loan_rows(20, seed)[0]), LinearModel(rng.normal(size=LOAN.d), -2.0).unit()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("radius", [0.0, 0.1, 0.4])
def test_the_robust_projection_is_the_cone_programs(seed: int, radius: float) -> None:
    actions, model = actions_of(seed, box=True)
    x0 = actions.factual_raw
    x = cp.Variable(5)
    robust = model.w @ x + model.c >= radius * cp.norm2(cp.hstack([x, 1.0]))
    problem = cp.Problem(cp.Minimize(cp.norm1(x - x0)), [robust, x >= -5.0, x <= 5.0])
    problem.solve(solver=cp.CLARABEL)
    found = project(ActionProgram(actions), model, radius, math.inf)
    if problem.status == cp.INFEASIBLE:
        assert found is None
        return
    assert found is not None
    assert actions.cost(found[None])[0] == pytest.approx(float(problem.value), abs=1e-5)
    assert worst_score(model, radius, found[None])[0] >= -1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_an_answer_keeps_the_cone_and_is_its_optimum_whatever_the_currency(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    space = FeatureSpace([replace(f, min=-4.0 * scale, max=4.0 * scale, scale=scale) for f in plane(4).features])
    w = rng.normal(size=4)
    rows = rng.normal(size=(200, 4)).clip(-4.0, 4.0)
    c = -float(np.quantile(rows @ w, 0.7))
    fact = rows[np.argmin(rows @ w)]
    problem, _ = ask(space, lambda X: X @ w + c, (fact * scale).tolist(), rows_raw=rows * scale)
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(w, (len(X), 1)))
    result = solve(replace(problem, black_box=black_box), METHODS["robust_projection"], RobustProjectionParams())
    x, unit = cp.Variable(4), LinearModel(w, c).unit()
    robust = unit.w @ x + unit.c >= 0.1 * cp.norm2(cp.hstack([x, 1.0]))
    best = cp.Problem(cp.Minimize(cp.norm1(x - fact)), [robust, x >= -4.0, x <= 4.0])
    best.solve(solver=cp.CLARABEL)
    (found,) = result.counterfactuals
    assert result.warnings == ()
    assert found.cost == pytest.approx(float(best.value), abs=1e-4)
    assert worst_score(unit, 0.1, space.encode(found.row_raw[None]))[0] >= -1e-6
    changed = list(found.changed)
    assert (np.abs(found.row_raw - problem.factual_raw)[changed] >= 1e-6 * scale).all()


@pytest.mark.parametrize("seed", range(6))
def test_over_lattices_the_robust_projection_is_legal_and_nothing_random_is_cheaper(seed: int) -> None:
    actions, model = actions_of(seed, box=False)
    found = project(ActionProgram(actions), model, 0.1, math.inf)
    rows = actions.snap(loan_rows(3000, seed + 50))
    mixed = np.where(np.random.default_rng(seed).random(rows.shape) < 0.4, rows, actions.factual_raw)
    rows = np.concatenate([rows, actions.snap(mixed)])
    robust = rows[worst_score(model, 0.1, LOAN.encode(rows)) >= 0.0]
    if found is None:
        assert not len(robust)
        return
    assert actions.contains(found[None])[0]
    assert worst_score(model, 0.1, LOAN.encode(found[None]))[0] >= -1e-6
    assert actions.cost(found[None])[0] <= actions.cost(robust).min(initial=np.inf) + 1e-6


def test_where_every_number_is_whole_nothing_is_left_for_the_cone_program() -> None:
    whole = replace(plane(1).features[0], type=FeatureType.INTEGER, min=-9, max=9)
    actions = action_set(FeatureSpace([replace(whole, name="a"), replace(whole, name="b")]), np.array([-1.0, 0.0]))
    model = LinearModel(np.array([0.6, 0.8]), -1.0)
    found = project(ActionProgram(actions), model, 0.2, math.inf)
    assert found is not None
    rows = np.array([[a, b] for a in range(-9, 10) for b in range(-9, 10)], dtype=float)
    robust = rows[worst_score(model, 0.2, rows) >= 0.0]
    assert actions.cost(found[None])[0] == pytest.approx(actions.cost(robust).min())


def test_bayesian_odds_fall_along_their_gradient_and_bound_the_nominal_ones() -> None:
    rng = np.random.default_rng(0)
    favourable, unfavourable = rng.normal(2.0, 1.0, (30, 3)), rng.normal(-2.0, 1.0, (40, 3))
    params = RobustBayesianParams()
    odds = Odds(favourable, unfavourable, params)
    X = rng.normal(0.0, 1.5, (20, 3))
    values, slopes = odds(X)
    for i in range(3):
        step = np.eye(3)[i] * 1e-6
        np.testing.assert_allclose((odds(X + step)[0] - odds(X - step)[0]) / 2e-6, slopes[:, i], rtol=1e-3, atol=1e-4)
    nominal = Odds(favourable, unfavourable, RobustBayesianParams(radius_unfavourable=0.0, radius_favourable=0.0))(X)[0]
    assert (values >= nominal - 1e-9).all()


def test_more_budget_buys_better_odds_and_a_curve_over_it_is_the_answers_alone() -> None:
    R = np.random.default_rng(1).uniform(-5.0, 5.0, (400, 4))
    values, params = [0.0, 1.0, 5.0], RobustBayesianParams(radius_fraction=0.2)
    found = frontier(steep(R), METHODS["robust_bayesian"], params, "extra_cost", values)
    costs = []
    for point in found.points:
        asked = replace(params, extra_cost=point.value)
        (alone,) = solve(steep(R), METHODS["robust_bayesian"], asked).counterfactuals
        (one,) = point.result.counterfactuals
        assert one.cost == pytest.approx(alone.cost)
        costs.append(one.cost)
    assert costs[0] + 0.5 < costs[1] < costs[2] - 0.5
    assert not any(point.dominated for point in found.points)


@pytest.mark.parametrize("extra", [0.0, 1.0, 3.0])
def test_the_bayesian_budget_is_in_the_cost_of_the_action_set(extra: float) -> None:
    rows_raw = loan_rows(300)
    refused = rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][:6]
    for row_raw in refused:
        problem, _ = ask(LOAN, loan_score, row_raw.tolist(), rows_raw=rows_raw)
        weights = {"income": 5.0, "housing": 3.0, "guarantor": 0.5}
        problem = replace(problem, action_set=action_set(LOAN, row_raw, cost_weights=weights))
        meter, sampler = Meter(problem.black_box), RobustBayesianParams()
        sample = sample_boundary(problem, meter, sampler, survey(problem, meter, sampler))
        accepted = sample.X[sample.favourable]
        price = np.array([1.0, 1.0, 5.0, 1.0, 1.0, 0.5, 1.5, 1.5, 1.5, 0.5, 0.5])  # a change of category moves two
        budget = (np.abs(accepted - problem.x0) @ price).min() + extra
        found = solve(problem, METHODS["robust_bayesian"], RobustBayesianParams(extra_cost=extra))
        (one,) = found.counterfactuals
        assert found.fallback or one.cost <= budget + 1e-9


def test_the_bayesian_descent_ends_in_time_for_its_rows_to_be_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, inner = Clock.installed(monkeypatch), Odds.__call__

    def slow(self: Odds, X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
        clock.now += 1.0
        return inner(self, X)

    monkeypatch.setattr(Odds, "__call__", slow)
    problem = replace(steep(np.random.default_rng(1).uniform(-5.0, 5.0, (400, 4))), deadline=clock.now + 80.0)
    assert solve(problem, METHODS["robust_bayesian"], RobustBayesianParams()).status is Status.FOUND


def steep(rows_raw: Float[np.ndarray, "n p"]) -> RecourseProblem:
    w = np.array([1.0, -0.5, 0.7, 0.2])
    return ask(plane(4), lambda X: X @ w - 1.0, (-2.0, 1.0, 0.0, 0.0), rows_raw=rows_raw)[0]


@pytest.mark.parametrize("seed", [1, 14, 23])
def test_no_sphere_keeps_a_change_that_the_model_does_not_need(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=10) * rng.choice([0.1, 1.0, 3.0], size=10)
    problem, _ = ask(plane(10), lambda X: np.floor(X) @ w - 8.0, (-np.sign(w) * rng.random(10)).tolist())
    method = METHODS["growing_spheres"]
    (found,) = solve(problem, method, method.params()).counterfactuals
    changed = list(found.changed)
    assert len(changed) > 1
    undone = np.tile(found.row_raw, (len(changed), 1))
    undone[np.arange(len(changed)), changed] = problem.factual_raw[changed]
    assert not problem.black_box.accepts(problem.black_box.score_raw(undone)).any()
