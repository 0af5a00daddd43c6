"""Counterfactuals that somebody brought are judged as they are."""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.errors import DeadlineExceeded
from app.recourse.actions.rules import LinearRule
from app.recourse.assess import assess
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import AssessedCounterfactual
from app.recourse.features import Change, FeatureSpace, MovesWithTime
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.validity import plan_bounds
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate.weight_moments import nominal, surrogate
from tests.recourse import oracle
from tests.recourse.certified import (
    FACTUAL,
    C,
    Clock,
    Points,
    W,
    curved,
    curved_gradient,
    curved_score,
    labels,
    linear,
    linear_score,
    rows,
    sample_of,
    space,
)
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

PARAMS = CertificateParams()
BROUGHT = np.array(
    [
        [4.0, -1.0, 0.0, 0.0],
        [-2.0, 3.0, 0.5, 1.0],  # refused
        [2.0, -1.0, 2.0, 1.0],
        [*FACTUAL],  # nothing changed
        [5.9, -1.25, 1.0, 0.0],
    ]
)
PLAN = BROUGHT[[0, 2, 4]]


# --- each record -----------------------------------------------------------------------------------------------------


def test_exactly_these_records_are_scored_in_their_order() -> None:
    problem, spy = linear(constraints={"immutable": ("income",), "max_changes": 1})
    found = assess(problem, BROUGHT, PARAMS)
    np.testing.assert_array_equal(spy.asked[0], BROUGHT)
    np.testing.assert_array_equal([one.row_raw for one in found.judged], BROUGHT)
    np.testing.assert_allclose([one.score for one in found.judged], linear_score(BROUGHT))
    for one in found.judged:
        assert one.score is not None
        assert one.probability == pytest.approx(1.0 / (1.0 + math.exp(-one.score)))
        assert one.cost == pytest.approx(oracle.cost(problem.action_set.space, problem.factual_raw, one.row_raw))
        assert one.changed == tuple(j for j in range(4) if one.row_raw[j] != FACTUAL[j])
        assert one.certificate is not None
    assert found.factual_score == pytest.approx(float(linear_score(np.array([FACTUAL]))[0]))
    assert found.warnings == ()


def test_what_this_person_may_not_change_does_not_matter() -> None:
    free, _ = linear()
    bound, _ = linear(seed=0, constraints={"max_changes": 1})
    one, other = assess(free, BROUGHT, PARAMS), assess(bound, BROUGHT, PARAMS)
    for a, b in zip(one.judged, other.judged, strict=True):
        assert (a.score, a.cost, a.changed) == (b.score, b.cost, b.changed)


def test_a_refused_record_is_said_to_be_refused() -> None:
    found = assess(linear()[0], BROUGHT, PARAMS)
    for i in (1, 3):
        one = found.judged[i]
        assert one.score is not None
        assert one.certificate is not None
        assert one.score < 0.0
        assert one.certificate.noise.closed_form > 0.5
        assert one.certificate.shift.gelbrich.lower == 0.0
        assert one.certificate.shift.linf_radius < 0.0
        assert one.certificate.joint.lower == pytest.approx(0.0, abs=0.01)


def test_the_answer_of_solve_is_judged_as_solve_judged_it() -> None:
    for toy in (linear, curved, labels):
        params = CertificateParams(noise_samples=500)
        (found,) = solve(toy()[0], METHODS["robust_mpm"], RobustMpmParams(), params).counterfactuals
        (judged,) = assess(toy()[0], found.row_raw[None], params).judged
        assert judged.certificate == found.certificate
        assert (judged.score, judged.probability, judged.cost, judged.changed) == (
            found.score, found.probability, found.cost, found.changed,
        )  # fmt: skip


def test_a_model_of_labels_has_no_probabilities() -> None:
    found = assess(labels()[0], BROUGHT, PARAMS)
    assert [one.score for one in found.judged] == [1.0, -1.0, 1.0, -1.0, 1.0]
    assert {one.probability for one in found.judged} == {None}
    assert found.factual_probability is None


def test_a_record_without_a_score_is_promised_nothing() -> None:
    problem, spy = curved()
    spy.predict = lambda X: np.where(X[:, 0] == 4.0, np.nan, curved_score(X))
    silent, *_ = assess(problem, BROUGHT, PARAMS).judged
    assert silent.score is silent.probability is None
    assert silent.certificate is not None
    assert silent.certificate.noise.closed_form == 1.0


def test_a_factual_without_a_score_leaves_no_number_undefined() -> None:
    problem, spy = curved()
    spy.predict = lambda X: np.where((X == FACTUAL).all(axis=1), np.nan, curved_score(X))
    found = assess(problem, PLAN, PARAMS)
    assert found.factual_score is found.factual_probability is None
    for one in found.judged:
        if one.certificate is not None:
            assert math.isfinite(one.certificate.noise.closed_form)


def test_a_gradient_that_is_not_a_number_promises_nothing() -> None:
    problem, _ = curved()
    gradient = problem.black_box.gradient
    assert gradient is not None
    broken = replace(problem.black_box, gradient=lambda X: np.where(X[:, :1] == 4.0, np.nan, curved_gradient(X)))
    first, _, third, *_ = assess(replace(problem, black_box=broken), BROUGHT, PARAMS).judged
    assert first.certificate is not None
    assert third.certificate is not None
    assert first.certificate.noise.closed_form == 1.0
    assert third.certificate.noise.closed_form < 0.5


# --- what the person, or nobody, can change ---------------------------------------------------------------------------


def aging(change: Change, **changes: Any) -> RecourseProblem:
    """A linear model in which age counts, but changes only like this."""
    features = [replace(feature, change=change) if feature.name == "age" else feature for feature in space().features]
    return ask(FeatureSpace(features), linear_score, FACTUAL, rows_raw=rows(), **changes)[0]


def test_a_change_of_what_cannot_change_is_certified_as_the_model_sees_it() -> None:
    refused, accepted = [4.0, -1.0, -5.0, 0.0], [-1.0, 0.5, 6.0, 0.0]  # but for age: accepted, and refused
    for constraints, change in (({}, Change.NONE), ({"immutable": ("age",)}, Change.ANY)):
        found = assess(aging(change, constraints=constraints), np.array([refused, accepted]), PARAMS)
        no, yes = (one.certificate for one in found.judged)
        assert no is not None
        assert no.shift.gelbrich.lower == 0.0
        assert no.shift.gelbrich.upper < 0.5
        assert (no.joint, no.noise.closed_form) == (None, None)
        assert yes is not None
        assert yes.shift.gelbrich.lower > 0.5
        assert yes.shift.gelbrich.upper == 1.0
        assert found.plan is not None
        assert found.plan.upper < 0.5


def test_what_nobody_can_change_is_sampled_only_where_it_was_changed() -> None:
    kept = PLAN * [1.0, 1.0, 0.0, 1.0]
    fixed, free = (assess(aging(change), kept, PARAMS).judged[0].certificate for change in (Change.NONE, Change.ANY))
    bound = assess(aging(Change.ANY, constraints={"immutable": ("age",)}), kept, PARAMS).judged[0].certificate
    assert fixed == bound != free
    changed = (assess(aging(change), PLAN, PARAMS) for change in (Change.NONE, Change.ANY))
    fixed, free = ([one.certificate for one in found.judged] for found in changed)
    assert fixed == free


def test_a_category_that_cannot_change_is_certified_as_the_model_sees_it() -> None:
    factual = (40.0, 48.0, 1500.0, 0.5, 0.0, 0.0, 0.0, 0.0)
    row_raw = np.array([[40.0, 12.0, 6000.0, 0.1, 2.0, 1.0, 1.0, 1.0]])
    for raw in (False, True):

        def score(X: Points, raw: bool = raw) -> Float[np.ndarray, "n"]:
            X = LOAN.encode(X) if raw else X
            return loan_score(X) - 8.0 * X[:, -1]

        problem, _ = ask(LOAN, score, factual, rows_raw=loan_rows(400), raw=raw)
        assert problem.black_box.score_raw(row_raw)[0] < 0.0
        found = assess(problem, row_raw, PARAMS)
        (one,) = found.judged
        assert one.certificate is not None
        if raw:  # resampled too seldom for its whole weight to be seen
            assert any("refuses what the local surrogate" in warning for warning in found.warnings)
        else:
            assert one.certificate.shift.gelbrich.lower == 0.0
            assert one.certificate.shift.gelbrich.upper < 1.0
        assert found.warnings[0] == "Counterfactual 1 cannot be carried out: origin cannot change in this model."


def test_advice_that_the_model_itself_forbids_is_said_to_be_so() -> None:
    rule = LinearRule("income <= 2 * debt + 8", (1.0, -2.0, 0.0, 0.0), 8.0)
    brought = np.array([[4.0, 2.0, -1.0, 0.0], [4.0, -3.0, 2.0, 1.0], [2.0, -1.0, -3.0, 1.0], [*FACTUAL]])
    assert assess(aging(Change.INCREASE, rules=(rule,)), brought, PARAMS).warnings[:2] == (
        "Counterfactuals 1, 3 cannot be carried out: age can only increase in this model.",
        "Counterfactual 2 cannot be carried out: the model's rule income <= 2 * debt + 8 does not hold.",
    )
    (warning, *_) = assess(aging(Change.NONE), brought[1:2], PARAMS).warnings
    assert warning == "Counterfactual 1 cannot be carried out: age cannot change in this model."


@pytest.mark.parametrize(
    ("per_year", "protected", "said"),
    [
        (1.0, False, "age can only increase, with time, in this model."),
        (-1.0, False, "age can only decrease, with time, in this model."),
        (1.0, True, "a protected attribute does not change so with time in this model."),
    ],
)
def test_a_value_that_time_moves_does_not_go_back(per_year: float, protected: bool, said: str) -> None:
    features = [
        replace(feature, moves_with_time=MovesWithTime(per_year=per_year), protected=protected)
        if feature.name == "age"
        else feature
        for feature in space().features
    ]
    problem, _ = ask(FeatureSpace(features), linear_score, FACTUAL, rows_raw=rows())
    back, forth = np.array(FACTUAL), np.array(FACTUAL)
    age = problem.action_set.space.names.index("age")
    back[age] -= 2.0 * per_year
    forth[age] += 2.0 * per_year
    found = assess(problem, np.array([forth, back]), PARAMS)
    assert f"Counterfactual 2 cannot be carried out: {said}" in found.warnings
    assert not any("does not agree" in warning for warning in found.warnings), "what is wrong is said once"
    assert [one.takes_months for one in found.judged] == [24.0, 0.0]


# --- all of them -----------------------------------------------------------------------------------------------------


def test_a_plan_is_no_better_than_its_weakest_member() -> None:
    found = assess(linear()[0], PLAN, CertificateParams(ambiguity_radius=0.05))
    bounds = [one.certificate.shift.gelbrich for one in found.judged if one.certificate]
    assert found.plan is not None
    assert (found.plan.exact, found.plan.status) == (True, "complete")
    weakest = min(bound.lower for bound in bounds)
    assert 1.0 - sum(1.0 - bound.lower for bound in bounds) <= found.plan.lower + 1e-9
    assert found.plan.lower <= weakest + 1e-6
    assert found.plan.upper == 1.0
    assert 0.0 < weakest < 1.0


def test_a_plan_with_a_refused_member_is_never_sure() -> None:
    found = assess(linear()[0], BROUGHT, PARAMS)
    assert found.plan is not None
    assert found.plan.lower == 0.0
    uppers = [one.certificate.shift.gelbrich.upper for one in found.judged if one.certificate]
    assert found.plan.upper <= min(uppers) + 1e-12
    assert found.plan.upper < 1.0


def test_the_plan_has_the_joint_bounds_of_the_model_itself() -> None:
    problem, _ = linear()
    found = assess(problem, PLAN, CertificateParams(ambiguity_radius=0.03))
    taken = sample_of(problem)
    spread = surrogate(taken, nominal(taken))
    moments = replace(spread, mean=np.append(W, C) / np.linalg.norm(np.append(W, C)))
    bounds = plan_bounds(np.column_stack([PLAN, np.ones(3)]), moments, 0.03)
    assert found.plan is not None
    assert (found.plan.lower, found.plan.upper) == pytest.approx((bounds.lower, bounds.upper), abs=1e-6)


def test_proximity_and_diversity_are_distances() -> None:
    found = assess(linear()[0], PLAN, PARAMS)
    assert found.plan is not None
    assert found.plan.proximity == pytest.approx(np.mean([math.dist(row, FACTUAL) for row in PLAN.tolist()]))
    a, b, c = (1.0 / (1.0 + math.dist(PLAN[i], PLAN[j])) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert found.plan.diversity == pytest.approx(1.0 + 2.0 * a * b * c - a * a - b * b - c * c)


def test_the_same_record_twice_is_no_choice() -> None:
    found = assess(linear()[0], np.repeat(PLAN[:1], 2, axis=0), PARAMS)
    one = found.judged[0].certificate
    assert found.plan is not None
    assert one is not None
    assert found.plan.diversity == pytest.approx(0.0, abs=1e-12)
    assert found.plan.lower == pytest.approx(one.shift.gelbrich.lower, abs=1e-4)


def test_a_plan_of_one_is_its_member() -> None:
    found = assess(linear()[0], PLAN[:1], PARAMS)
    one = found.judged[0].certificate
    assert found.plan is not None
    assert one is not None
    bound = one.shift.gelbrich
    assert (found.plan.lower, found.plan.upper) == pytest.approx((bound.lower, bound.upper), abs=1e-12)
    assert found.plan.diversity == pytest.approx(1.0)


# --- where there is no certificate, and what it takes ----------------------------------------------------------------


def test_who_is_accepted_already_has_nothing_to_protect() -> None:
    problem, _ = linear()
    accepted = replace(problem, action_set=replace(problem.action_set, factual_raw=np.array([5.0, 0.0, 0.0, 0.0])))
    found = assess(accepted, PLAN, PARAMS)
    assert found.factual_score == pytest.approx(3.0)
    _without_certificate(found.judged, linear_score(PLAN))
    assert found.plan is None
    (warning,) = found.warnings
    assert "accepts the factual record" in warning


def test_a_model_that_never_says_yes_has_no_boundary_to_certify() -> None:
    problem, _ = ask(plane(2), lambda X: np.full(len(X), -1.0), (0.0, 0.0))
    found = assess(problem, np.ones((2, 2)), PARAMS)
    _without_certificate(found.judged, np.full(2, -1.0))
    (warning,) = found.warnings
    assert warning.startswith("There is no certificate.")


def test_decisions_that_say_nothing_leave_none() -> None:
    rows_raw = np.random.default_rng(0).uniform(-5, 5, (50, 2))

    def spike(X: Points) -> Float[np.ndarray, "n"]:
        return np.where((np.abs(X - rows_raw[7]) < 1e-9).all(axis=1), 1.0, -1.0)

    problem, _ = ask(plane(2), spike, (0.0, 0.0), rows_raw=rows_raw)
    found = assess(problem, rows_raw[[7, 8]], PARAMS)
    _without_certificate(found.judged, np.array([1.0, -1.0]))
    (warning,) = found.warnings
    assert warning.startswith("There is no certificate.")


def _without_certificate(judged: tuple[AssessedCounterfactual, ...], scores: Float[np.ndarray, "n"]) -> None:
    assert [one.score for one in judged] == pytest.approx(scores.tolist())
    assert {one.certificate for one in judged} == {None}


def test_it_takes_four_calls_and_one_more_for_noisy_copies() -> None:
    problem, spy = linear()
    found = assess(problem, PLAN, PARAMS)
    assert found.diagnostics.model_calls == len(spy.asked) == 4
    assert found.diagnostics.model_rows == sum(len(X) for X in spy.asked)
    with_copies = assess(problem, PLAN, CertificateParams(noise_samples=100))
    assert with_copies.diagnostics.model_calls == 5
    assert with_copies.diagnostics.model_rows == found.diagnostics.model_rows + 300


def test_a_deadline_in_the_past_is_an_error_and_costs_no_call() -> None:
    problem, spy = linear(deadline=time.monotonic() - 1.0)
    with pytest.raises(DeadlineExceeded):
        assess(problem, PLAN, PARAMS)
    assert spy.asked == []


@pytest.mark.parametrize("calls_in_time", [1, 2, 3])
def test_what_was_scored_before_the_deadline_is_told(monkeypatch: pytest.MonkeyPatch, calls_in_time: int) -> None:
    problem, spy = Clock.installed(monkeypatch).limit(linear(), calls=calls_in_time)
    found = assess(problem, PLAN, PARAMS)
    assert len(spy.asked) == calls_in_time
    _without_certificate(found.judged, linear_score(PLAN))
    assert found.plan is None
    assert found.warnings
    assert (found.factual_score is None) == (calls_in_time == 1)


def test_a_plan_out_of_time_keeps_the_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    # The last call in time ends after the deadline.
    problem, _ = Clock.installed(monkeypatch).limit(linear(), calls=4)
    found = assess(problem, PLAN, PARAMS)
    lowers = [one.certificate.shift.gelbrich.lower for one in found.judged if one.certificate]
    assert len(lowers) == 3
    assert found.plan is not None
    assert (found.plan.exact, found.plan.status) == (False, "bracket")
    assert found.plan.lower == pytest.approx(max(0.0, 1.0 - sum(1.0 - lower for lower in lowers)))


def test_joint_bounds_that_take_longer_than_they_may_are_a_bracket() -> None:
    tight, hurried = (assess(linear()[0], PLAN, PARAMS, plan_s=plan_s).plan for plan_s in (math.inf, 1e-9))
    assert tight is not None
    assert hurried is not None
    assert (hurried.exact, hurried.status) == (False, "bracket")
    assert hurried.lower <= tight.lower
    assert tight.upper <= hurried.upper
    assert (hurried.proximity, hurried.diversity) == (tight.proximity, tight.diversity)


def test_the_same_question_has_the_same_answer() -> None:
    params = CertificateParams(noise_samples=300)
    one, again = (assess(curved(seed=3)[0], PLAN, params) for _ in range(2))
    assert [judged.certificate for judged in one.judged] == [judged.certificate for judged in again.judged]
    assert one.plan == again.plan
    other = assess(curved(seed=4)[0], PLAN, params)
    assert [judged.certificate for judged in one.judged] != [judged.certificate for judged in other.judged]
