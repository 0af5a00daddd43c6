"""The objective of a plan, and the search for one."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.certificate_params import CertificateParams
from app.recourse.methods.copa import Margin
from app.recourse.methods.dice import Hinge
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.plans.objective import HalfSpaces, Objective, PlanObjective, SmoothValidity
from app.recourse.plans.search import PlanSearch
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import METHODS, WEIGHTS_WARNING, solve
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, rows
from tests.recourse.test_solve import TOYS, Points, Scores, bytes_of, check, linear
from tests.recourse.toys import ask, plane

pytestmark = CHECKED_AT_RANDOM

NAMES = ["copa", "dice"]
OBJECTIVES: list[Objective] = ["people", "paper"]


def plan(
    name: str,
    toy: str = "loans, encoded",
    person: int = 0,
    seed: int = 0,
    objective: Objective = "paper",
    **params: object,
) -> RecourseResult:
    """A plan for an applicant whom a toy model refuses, with everything that every answer promises."""
    it = TOYS[toy]
    problem, spy = ask(
        it.space, it.predict, it.people()[person].tolist(), rows_raw=it.rows_raw, seed=seed, **it.options
    )
    method = METHODS[name]
    found = solve(problem, method, method.params(objective=objective, **params), CertificateParams())
    check(problem, spy, found)
    check_plan(found)
    return found


def check_plan(found: RecourseResult) -> None:
    """Members differ, the nearest comes first, and the plan's own figures are those of its members."""
    if found.status is not Status.FOUND:
        return
    members = np.array([one.row_raw for one in found.counterfactuals])
    assert len(np.unique(members, axis=0)) == len(members)
    if found.plan is None:  # a record that no method proposed, and decisions that determine no local model
        assert [one.certificate for one in found.counterfactuals] == [None]
        return
    lowers = [one.certificate.shift.gelbrich.lower for one in found.counterfactuals if one.certificate]
    assert max(0.0, 1.0 - sum(1.0 - lower for lower in lowers)) - 1e-9 <= found.plan.lower <= min(lowers) + 1e-6


def value_of(objective: PlanObjective, X: Points) -> float:
    return float(objective.value(X[None])[0])


@pytest.mark.parametrize(("cap", "free"), [(None, [True, True, True]), (2, [True, False, True])])
def test_under_a_cap_only_numbers_that_have_changed_move(cap: int | None, free: list[bool]) -> None:
    problem, _ = ask(plane(3, low=-5.0, high=5.0), lambda X: X.sum(axis=1) - 2.0, [0.0, 0.0, 0.0])
    actions = action_set(plane(3, low=-5.0, high=5.0), np.zeros(3), constraints=Constraints(max_changes=cap))
    objective = PlanObjective(
        x0=np.zeros(3), validity=hinge(np.random.default_rng(0), 3), proximity_weight=1.0, diversity_weight=1.0,
        sides=HalfSpaces(np.array([[1.0, 1.0, 1.0, 0.0]]), np.array([2.0])),
    )  # fmt: skip
    search = PlanSearch(replace(problem, action_set=actions), objective, 1)
    start = np.array([0.4, 0.0, 1.0])
    (moved,) = search._moved_numbers(np.array([[start]]), np.array([2.0, 0.5, 0.0]))
    assert (moved[0] != start).tolist() == free


# --- the objective ---------------------------------------------------------------------------------------------------


def margin(rng: np.random.Generator, d: int) -> Margin:
    mean = rng.normal(size=d + 1)
    moments = WeightMoments(mean=mean / np.linalg.norm(mean), factors=(0.1 * rng.normal(size=(d + 1, d)),), kind="test")
    return Margin.under(moments, 0.7)


def hinge(rng: np.random.Generator, d: int) -> Hinge:
    return Hinge(rng.normal(size=d + 1))


@pytest.mark.parametrize("validity", [margin, hinge])
@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_those_of_finite_differences(
    validity: Callable[[np.random.Generator, int], SmoothValidity], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    d, plans, members = 4, 3, 5
    objective = PlanObjective(
        x0=rng.normal(size=d), validity=validity(rng, d), proximity_weight=0.8, diversity_weight=3.0,
        sides=HalfSpaces(np.zeros((1, d + 1)), np.array([-1.0])),
    )  # fmt: skip
    X = rng.normal(size=(plans, members, d))
    _, gradient = objective.value_and_gradient(X)
    step = 1e-6
    for place in np.ndindex(members, d):
        there, back = X.copy(), X.copy()
        there[(slice(None), *place)] += step
        back[(slice(None), *place)] -= step
        slope = (objective.value(there) - objective.value(back)) / (2.0 * step)
        np.testing.assert_allclose(gradient[(slice(None), *place)], slope, atol=1e-6)


@pytest.mark.parametrize("members", [1, 2, 5])
def test_the_value_of_a_plan_is_the_formula_and_the_same_member_by_member(members: int) -> None:
    rng = np.random.default_rng(members)
    d = 3
    validity = margin(rng, d)
    sides = HalfSpaces(np.append(np.ones(d), 0.0)[None], np.array([0.5]))
    objective = PlanObjective(
        x0=rng.normal(size=d), validity=validity, proximity_weight=1.0, diversity_weight=2.0, sides=sides
    )
    X, more = rng.normal(size=(members, d)), rng.normal(size=(6, d))
    K = np.array([[1.0 / (1.0 + math.dist(a, b)) for b in X] for a in X])
    points = homogeneous(X)
    ratios = [float(p @ validity.mean) / math.sqrt(p @ validity.covariance @ p) for p in points]
    expected = np.mean([math.dist(x, objective.x0) for x in X]) - 0.7 * min(ratios) - 2.0 * np.linalg.det(K)
    missed = sum(max(0.5 - x.sum() - 1e-9, 0.0) for x in X)
    assert value_of(objective, X) == pytest.approx(expected + 1e6 * missed)
    values = objective.joined(X[:-1])(more)
    for row, value in zip(more, values, strict=True):
        assert value == pytest.approx(value_of(objective, np.vstack([X[:-1], row])))


def test_equal_members_are_the_worst_of_plans() -> None:
    rng = np.random.default_rng(0)
    objective = PlanObjective(
        x0=np.zeros(2), validity=hinge(rng, 2), proximity_weight=1.0, diversity_weight=0.0,
        sides=HalfSpaces(np.ones((1, 3)), np.array([1.0])),
    )  # fmt: skip
    twins, far = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[-50.0, -50.0], [-60.0, -50.0]])
    assert value_of(objective, twins) > value_of(objective, far)
    assert objective.joined(twins[:1])(twins[1:])[0] == pytest.approx(value_of(objective, twins))


# --- the search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("toy", TOYS)
def test_every_toy_model_gets_plans_of_different_accepted_records(name: str, toy: str, objective: Objective) -> None:
    found = plan(name, toy, person=1, objective=objective, count=4)
    assert found.status is Status.FOUND
    # Few features have few ways that differ in what they change, and one feature has one.
    fewest = 4 if objective == "paper" else 1 if toy == "one feature" else 2
    assert fewest <= len(found.counterfactuals) <= 4


@st.composite
def cases(draw: st.DrawFn) -> tuple[Question, Points, bool, str, Objective, int]:
    question = draw(questions(with_rules=True))
    rows_raw = np.array(draw(st.lists(rows(question.space), min_size=2, max_size=12)))
    name, objective = draw(st.sampled_from(NAMES)), draw(st.sampled_from(OBJECTIVES))
    return question, rows_raw, draw(st.booleans()), name, objective, draw(st.integers(1, 4))


@settings(PROPERTY, max_examples=examples(25))
@given(cases())
def test_members_are_legal_accepted_and_different_whatever_the_question(
    case: tuple[Question, Points, bool, str, Objective, int],
) -> None:
    question, rows_raw, raw, name, objective, count = case

    def predict(X: Points) -> Scores:
        return question.model.score(question.space.encode(X) if raw else X)

    problem, spy = ask(
        question.space,
        predict,
        question.factual_raw.tolist(),
        rows_raw=rows_raw,
        constraints=question.constraints,
        timing=question.timing,
        rules=question.rules,
        raw=raw,
    )
    method = METHODS[name]
    found = solve(problem, method, method.params(objective=objective, count=count), CertificateParams())
    check(problem, spy, found)
    check_plan(found)
    assert len(found.counterfactuals) <= count


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_question_has_the_same_plan_to_the_last_bit(name: str, objective: Objective) -> None:
    answers = [bytes_of(plan(name, "smooth", seed=seed, objective=objective)) for seed in (0, 1, 0, 1)]
    assert answers[:2] == answers[2:]
    assert answers[0] != answers[1]


def test_single_moves_find_what_an_exhaustive_search_finds() -> None:
    """Two members on a lattice of 5 x 5 points."""
    space = plane(2, low=0.0, high=4.0)
    features = [replace(feature, decimals=0) for feature in space.features]
    space = type(space)(features)
    reference = np.random.default_rng(0).uniform(0, 4, (50, 2)).round()
    problem, _ = ask(space, lambda X: X.sum(axis=1) - 3.0, [0.0, 0.0], rows_raw=reference)
    rng = np.random.default_rng(1)
    mean = np.array([0.6, 0.5, -0.6])
    moments = WeightMoments(mean=mean / np.linalg.norm(mean), factors=(0.1 * rng.normal(size=(3, 3)),), kind="test")
    objective = PlanObjective(
        x0=problem.x0, validity=Margin.under(moments, 0.5), proximity_weight=1.0, diversity_weight=5.0,
        sides=HalfSpaces(moments.mean[None], np.array([0.1])),
    )  # fmt: skip
    grid = np.array([[a, b] for a in range(5) for b in range(5)], dtype=float)
    best = min(value_of(objective, np.array([a, b])) for a in grid for b in grid)
    found = PlanSearch(problem, objective, 2).best(np.array([[4.0, 4.0]]))
    assert value_of(objective, space.encode(found)) == pytest.approx(best)


def test_out_of_time_a_plan_is_what_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = ask(plane(3), lambda X: X.sum(axis=1) - 1.0, [-1.0, 0.0, 0.0], deadline=time.monotonic() - 1.0)
    sides = HalfSpaces(np.array([[1.0, 1.0, 1.0, -1.0]]), np.zeros(1))
    objective = PlanObjective(
        x0=problem.x0, validity=hinge(np.random.default_rng(0), 3), proximity_weight=1.0, diversity_weight=1.0,
        sides=sides,
    )  # fmt: skip
    search = PlanSearch(problem, objective, 4)
    monkeypatch.setattr(search, "moves", None)
    monkeypatch.setattr(search, "_moved_numbers", None)
    best = search.best(np.array([[3.0, 0.0, 0.0]]))
    assert problem.action_set.contains(best).all()
    assert len(best) == 4
    assert len(search.further(best, np.ones(3))) == 0


def test_decoded_plans_are_as_good_as_continuous_ones() -> None:
    """Rounding to whole numbers costs no more than moving all members by half a step could."""
    fine = plane(3)
    coarse = type(fine)([replace(feature, decimals=1) for feature in fine.features])
    values = []
    for space in (fine, coarse):
        problem, _ = ask(space, linear, [-1.0, 1.0, 0.0])
        mean = np.array([0.8, -0.5, 0.3, -1.0])
        moments = WeightMoments(mean=mean / np.linalg.norm(mean), factors=(0.05 * np.eye(4),), kind="test")
        objective = PlanObjective(
            x0=problem.x0, validity=Margin.under(moments, 0.5), proximity_weight=1.0, diversity_weight=5.0,
            sides=HalfSpaces(moments.mean[None], np.array([0.1])),
        )  # fmt: skip
        search = PlanSearch(problem, objective, 5)
        values.append(value_of(objective, space.encode(search.best(np.array([[5.0, -5.0, 5.0]])))))
    assert values[1] <= values[0] + 0.1


def test_raising_the_validity_weight_raises_validity() -> None:
    lowers = []
    for weight in (0.0, 0.05, 1.0):
        found = [
            plan("copa", "smooth", person=person, validity_weight=weight, diversity_weight=1.0).plan
            for person in range(3)
        ]
        lowers.append(np.mean([one.lower for one in found if one]))
    assert lowers[0] < lowers[1] < lowers[2]


def test_copa_withstands_more_than_dice() -> None:
    for person in range(3):
        robust, plain = plan("copa", person=person).plan, plan("dice", person=person).plan
        assert robust is not None
        assert plain is not None
        assert robust.lower > plain.lower


@pytest.mark.parametrize("kind", ["requirement", "mahalanobis"])
def test_a_plan_can_be_corrected_before_it_is_verified(kind: str) -> None:
    plain = plan("copa", validity_weight=0.0, diversity_weight=1.0, margin=0.2).plan
    fixed = plan("copa", validity_weight=0.0, diversity_weight=1.0, margin=0.2, correction=kind).plan
    assert plain is not None
    assert fixed is not None
    assert fixed.lower >= plain.lower
    if kind == "mahalanobis":
        assert fixed.lower > plain.lower


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_of_one_is_a_counterfactual(name: str, objective: Objective) -> None:
    found = plan(name, objective=objective, count=1)
    assert len(found.counterfactuals) == 1
    assert found.plan is not None
    assert found.plan.diversity == pytest.approx(1.0)


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_do_not_steer_a_plan_are_said_not_to(name: str) -> None:
    def warned(method: str, weights: dict[str, float], **params: object) -> bool:
        problem, _ = ask(plane(3), lambda X: X.sum(axis=1) - 1.0, [-1.0, 0.0, 0.0])
        actions = action_set(problem.action_set.space, problem.factual_raw, cost_weights=weights)
        found = solve(replace(problem, action_set=actions), METHODS[method], METHODS[method].params(**params))
        assert found.status is Status.FOUND
        return WEIGHTS_WARNING in found.warnings

    assert warned(name, {"f0": 100.0}, objective="paper")
    assert not warned(name, {"f0": 100.0})
    assert not warned(name, {}, objective="paper")
    assert not warned(name, {"f0": 1.0}, objective="paper")
    assert not warned("robust_mpm", {"f0": 100.0})


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
def test_fewer_records_than_asked_for_are_given_with_a_warning(name: str, objective: Objective) -> None:
    space = plane(2, low=0.0, high=1.0)
    space = type(space)([replace(feature, decimals=0) for feature in space.features])
    reference = np.random.default_rng(0).integers(2, size=(50, 2)).astype(float)
    problem, spy = ask(space, lambda X: X.sum(axis=1) - 0.5, [0.0, 0.0], rows_raw=reference)
    method = METHODS[name]
    found = solve(problem, method, method.params(objective=objective), CertificateParams())
    check(problem, spy, found)
    # For people the change of both is no way of its own: each alone is enough.
    different = [(0.0, 1.0), (1.0, 0.0)] if objective == "people" else [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    assert sorted(tuple(one.row_raw) for one in found.counterfactuals) == different
    sentence = f"Only {len(different)} of the 5 counterfactuals that were requested could be found"
    assert any(warning.startswith(sentence) for warning in found.warnings)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NAMES)
def test_members_that_the_model_refuses_are_replaced_in_the_same_call(name: str, objective: Objective) -> None:
    """A model whose boundary bends away from where samples see it."""

    def bent(X: Points) -> Scores:
        return X[:, 0] + 0.4 * np.sin(2.0 * X[:, 1]) - 1.5

    fact = [-2.0, 0.5, 0.0]
    problem, spy = ask(plane(3), bent, fact)
    method = METHODS[name]
    count = 5 if objective == "paper" else 1  # for people the other features make no way of their own
    found = solve(problem, method, method.params(objective=objective, count=count), CertificateParams())
    check(problem, spy, found)
    assert len(found.counterfactuals) == count
    several = any(len(one.changed) > 1 for one in found.counterfactuals)  # the order of changes takes a call
    assert found.diagnostics.model_calls == 4 + several


@pytest.mark.parametrize("name", NAMES)
def test_what_no_legal_record_reaches_is_a_verdict_with_the_constraint_to_blame(name: str) -> None:
    problem, spy = ask(
        plane(3), lambda X: X[:, 0] + 0.4 * X[:, 1] - 3.0, [0.0, 1.0, 0.0],
        constraints={"immutable": ("f0", "f2")},
    )  # fmt: skip
    method = METHODS[name]
    found = solve(problem, method, method.params(), CertificateParams())
    check(problem, spy, found)
    assert found.verdict is not None
    assert found.verdict.reason.value == "infeasible_constraints"
    assert found.verdict.relax is not None
    assert found.verdict.relax.feature == "f0"
