"""What more certainty costs: the curve is made of true answers, and it rises."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.recourse.certificate_params import CertificateParams
from app.recourse.frontier import Frontier, frontier
from app.recourse.methods import METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.result import Status
from app.recourse.solve import solve
from tests.recourse import oracle
from tests.recourse.toys import LOAN, Spy, ask, loan_rows, loan_score, plane

SWEEPS: dict[str, tuple[str, list[float]]] = {
    "robust_mpm": ("radius_unfavourable", [0.0, 5.0, 1.0, 20.0]),
    "probe": ("target_invalidation_rate", [0.35, 0.05, 0.2, 0.01]),
}


def refused_loans(count: int) -> list[tuple[RecourseProblem, Spy]]:
    rows_raw = loan_rows(200, seed=9)
    refused = rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][:count]
    return [ask(LOAN, loan_score, row_raw.tolist(), rows_raw=loan_rows(300)) for row_raw in refused]


def curve(problem: RecourseProblem, name: str, **params: Any) -> Frontier:
    parameter, values = SWEEPS[name]
    return frontier(problem, METHODS[name], METHODS[name].params(**params), parameter, values, CertificateParams())


@pytest.mark.parametrize("name", SWEEPS)
def test_points_that_are_not_dominated_cost_more_the_more_robust_they_are(name: str) -> None:
    parameter, values = SWEEPS[name]
    sign = METHODS[name].knobs[parameter]
    rising = 0
    for problem, _ in refused_loans(8):
        found = curve(problem, name)
        assert [point.value for point in found.points] == values
        by_robustness = sorted(found.points, key=lambda point: sign * point.value)
        costs = [point.result.counterfactuals[0].cost for point in by_robustness if point.result.counterfactuals]
        assert (np.diff(costs) >= 0.0).all()
        kept = [
            point.result.counterfactuals[0].cost
            for point in by_robustness
            if point.result.counterfactuals and not point.dominated
        ]
        assert (np.diff(kept) > 0.0).all()
        rising += len(kept) > 1
    assert rising >= 4


@pytest.mark.parametrize("name", SWEEPS)
def test_every_point_is_a_legal_record_that_the_model_accepts_with_a_certificate(name: str) -> None:
    for problem, _ in refused_loans(3):
        actions = problem.action_set
        for point in curve(problem, name).points:
            assert point.result.status is Status.FOUND
            one = point.result.counterfactuals[0]
            assert one.certificate is not None
            assert loan_score(LOAN.encode(one.row_raw[None]))[0] >= 0.0
            assert oracle.row_is_legal(LOAN, actions.factual_raw, one.row_raw, actions.constraints, actions.rules)


@pytest.mark.parametrize("name", SWEEPS)
def test_a_point_is_never_dearer_than_the_answer_to_its_own_question(name: str) -> None:
    parameter, _ = SWEEPS[name]
    for problem, _ in refused_loans(4):
        for point in curve(problem, name).points:
            params = replace(METHODS[name].params(), **{parameter: point.value})
            alone = solve(problem, METHODS[name], params)
            assert point.result.counterfactuals[0].cost <= alone.counterfactuals[0].cost


def test_points_share_the_survey_and_the_sample() -> None:
    problem, spy = refused_loans(1)[0]
    found = curve(problem, "robust_mpm")
    assert found.diagnostics.model_calls == len(spy.asked)
    assert found.diagnostics.model_rows == sum(len(X) for X in spy.asked)
    large = [len(X) for X in spy.asked if len(X) >= 1000]
    assert large == [1000]


def test_a_swept_parameter_of_the_sampler_is_sampled_for_each_value() -> None:
    problem, spy = refused_loans(1)[0]
    method = replace(METHODS["robust_mpm"], knobs={"radius_fraction": 1})
    found = frontier(problem, method, method.params(), "radius_fraction", [0.1, 0.5])
    assert [len(X) for X in spy.asked].count(1000) == 2
    assert all(point.result.status is Status.FOUND for point in found.points)


def test_values_beyond_reach_are_points_too() -> None:
    space = plane(2)
    problem, _ = ask(space, lambda X: X[:, 0] - 1.0, [0.0, 0.0], constraints={"immutable": ("f1",)})
    found = frontier(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), "margin", [0.0, 50.0])
    near, far = (point.result for point in found.points)
    assert near.status is Status.FOUND
    assert far.status is Status.NOT_FOUND
    assert far.verdict is not None
    assert far.verdict.nearest is not None
    assert not any(point.dominated for point in found.points)


def test_a_person_whom_the_model_accepts_needs_no_curve() -> None:
    problem, _ = ask(plane(2), lambda X: X[:, 0] + 10.0, [0.0, 0.0])
    found = curve(problem, "robust_mpm")
    assert {point.result.status for point in found.points} == {Status.ALREADY_FAVOURABLE}
    assert not any(point.dominated for point in found.points)
