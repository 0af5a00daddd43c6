"""Robustness and consistency: what each end of the trade-off promises, and the frontier between."""

from dataclasses import replace

import numpy as np
import pytest

from app.recourse.actions.action_set import action_set
from app.recourse.methods.learning_augmented import (
    METHOD,
    LearningAugmentedParams,
    ModelPrediction,
    ShiftPrediction,
    WeightsPrediction,
    faults,
)
from app.recourse.models.linear import LinearModel
from app.recourse.reports import TradeOffReport
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.trade_off import TradeOff
from app.recourse.solve import solve
from tests.recourse.test_solve import TOYS, check
from tests.recourse.toys import LOAN, ask, loan_rows, plane

SHARES = np.linspace(0.0, 1.0, 21)


def report_of(name: str, person: int, **params: object) -> TradeOffReport | None:
    toy = TOYS[name]
    problem, spy = ask(
        toy.space, toy.predict, toy.people()[person].tolist(), rows_raw=toy.rows_raw, seed=person, **toy.options
    )
    result = solve(problem, METHOD, LearningAugmentedParams(**params))  # type: ignore[arg-type]
    check(problem, spy, result)
    assert result.counterfactuals
    report = result.counterfactuals[0].report
    assert isinstance(report, TradeOffReport)
    return report


@pytest.mark.parametrize("person", range(3))
@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"cost_weight": "auto"},
        {"cost_weight": "paper", "surrogate": "svm"},
        {"prediction": ShiftPrediction(threshold_shift=1.0), "robustness_weight": 0.4},
        {"surrogate": "ridge", "weight_radius": 0.02},
    ],
)
def test_answers_are_true_and_reports_add_up(name: str, person: int, params: dict[str, object]) -> None:
    report = report_of(name, person, **params)
    assert report is not None
    share = params.get("robustness_weight", 1.0)
    assert isinstance(share, float)
    hopeful = 0.0 if report.predicted is None else report.predicted
    assert report.objective == pytest.approx(share * report.worst + (1.0 - share) * hopeful)
    assert report.objective >= report.optimum * (1.0 - 1e-6)
    assert report.robustness >= 0.0
    assert report.theta_scale > 0.0


def random_trade_off(seed: int) -> TradeOff:
    rng = np.random.default_rng(seed)
    rows = loan_rows(20, seed)
    model = LinearModel(rng.normal(size=LOAN.d), -1.0)
    predicted = LinearModel(model.w + 0.6 * rng.normal(size=LOAN.d), -1.5)
    space = LOAN if seed % 2 else plane(6)
    if space is not LOAN:
        model, predicted = (LinearModel(one.w[:6], one.c) for one in (model, predicted))
    actions = action_set(space, rows[seed % 20] if space is LOAN else rng.normal(size=6))
    objective = LossAndCost(model=model, radius=0.2, cost_weight=0.1, predicted=predicted)
    return TradeOff(actions, objective)


@pytest.mark.parametrize("seed", range(8))
def test_the_frontier_is_monotone_and_convex(seed: int) -> None:
    problem = random_trade_off(seed)
    X, cost = [], []
    for share in SHARES:
        best = TradeOff(problem.action_set, replace(problem.objective, share=float(share))).best()
        assert best is not None
        X.append(problem.space.encode(best.row_raw[None])[0])
        cost.append(problem.action_set.cost(best.row_raw[None])[0])
    worst = problem.objective.worst(np.array(X), np.array(cost))
    hopeful = problem.objective.as_predicted(np.array(X), np.array(cost))
    robustness, consistency = worst - worst[-1], hopeful - hopeful[0]
    assert robustness.min() > -1e-6
    assert consistency.min() > -1e-6
    assert (np.diff(robustness) < 1e-6).all()
    assert (np.diff(consistency) > -1e-6).all()
    # Each point lies on the side of every other's tangent, of slope -share/(1-share), on which a convex curve lies.
    for share, r, c in zip(SHARES[1:-1], robustness[1:-1], consistency[1:-1], strict=True):
        assert (share * (robustness - r) + (1.0 - share) * (consistency - c) > -1e-6).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_automatic_cost_weight_gives_the_cheapest_action_that_the_worst_model_accepts(seed: int) -> None:
    problem = random_trade_off(2 * seed)
    x0 = problem.space.encode(problem.action_set.factual_raw[None])
    model = problem.objective.model
    model = LinearModel(model.w, model.c - 2.0 - problem.objective.worst_score(x0)[0])  # which refuses the factual
    robust = TradeOff(problem.action_set, replace(problem.objective, model=model, predicted=None))
    weight = robust.weight_for(0.0)
    assert weight is not None
    best = robust.best(weight * (1.0 - 1e-6))
    assert best is not None
    x = problem.space.encode(best.row_raw[None])
    assert 0.0 <= robust.objective.worst_score(x)[0] < 1e-4


def test_predictions_are_checked_and_named() -> None:
    unknown = LearningAugmentedParams(prediction=WeightsPrediction(weights={"age": 1.0, "height": 2.0}))
    (fault,) = faults(LOAN, unknown)
    assert fault.pointer == "/prediction/weights/height"
    assert not faults(LOAN, LearningAugmentedParams())
    named = LearningAugmentedParams(prediction=ModelPrediction(model="loan@2"))
    assert named.other_models() == {"/prediction/model": "loan@2"}


@pytest.mark.parametrize("raw", [False, True])
def test_another_version_is_seen_in_the_scales_of_this_one(raw: bool) -> None:
    toy = TOYS["loans, raw" if raw else "loans, encoded"]
    problem, _ = ask(toy.space, toy.predict, toy.people()[0].tolist(), rows_raw=toy.rows_raw, **toy.options)
    problem = replace(problem, others={"loan@2": problem.black_box})
    params = LearningAugmentedParams(
        prediction=ModelPrediction(model="loan@2"), robustness_weight=0.0, weight_radius=0.0
    )
    (found,) = solve(problem, METHOD, params).counterfactuals
    assert isinstance(found.report, TradeOffReport)
    assert found.report.predicted == pytest.approx(found.report.worst)
