"""Plans for people: what they minimise, and that members cost little, change little, and differ in what they change."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.futures.store import load_futures
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.cost import usual_change
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import MaxChange
from app.recourse.methods.copa import Guarantee
from app.recourse.methods.dice import Hinge
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.plans.objective import (
    CHANGE_PRICE,
    HalfSpaces,
    PeopleObjective,
)
from app.recourse.plans.overlap import MOST_OVERLAP, moved, overlaps
from app.recourse.plans.people import PeopleSearch
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.robustness.validity import validity_bounds
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry
from tests.recourse.test_solve import TOYS, Points
from tests.recourse.toys import ask, plane

NAMES = ["copa", "dice"]
ROOT = Path(__file__).parents[3]
MONTHS = 3.0


def loans(person: int, **options: Any) -> RecourseProblem:
    """The question of an applicant of the toy lender, with options of the action set."""
    it = TOYS["loans, encoded"]
    problem, _ = ask(it.space, it.predict, it.people()[person].tolist(), rows_raw=it.rows_raw, **it.options)
    return replace(problem, action_set=action_set(it.space, problem.factual_raw, **options))


def answered(problem: RecourseProblem, name: str = "copa", count: int = 3, **params: object) -> RecourseResult:
    """A plan with its certificate."""
    found = solve(problem, METHODS[name], METHODS[name].params(count=count, **params), CertificateParams())
    assert found.status is Status.FOUND
    return found


def rows_of(found: RecourseResult) -> Points:
    return np.array([one.row_raw for one in found.counterfactuals])


# --- the objective ---------------------------------------------------------------------------------------------------


def test_overlap_is_the_part_of_the_smaller_way_that_the_larger_one_does_too() -> None:
    actions = loans(0).action_set
    space, fact = actions.space, actions.factual_raw
    number, scale, group = int(space.numeric[2]), space.scale_raw[2], int(space.groups[0])
    one, further, other, apart, both = (fact.copy() for _ in range(5))
    one[number] += 2.0 * scale
    further[number] += 5.0 * scale
    other[number] += 0.5 * scale
    both[number] += 4.0 * scale
    for row in (other, apart, both):
        row[group] = (fact[group] + 1.0) % 2.0  # a change of category counts 1
    members = moved(actions, np.array([one, further, other, apart, both, fact]))
    expected = np.eye(6)
    expected[0, 1] = expected[2, 3] = expected[0, 4] = expected[3, 4] = 1.0
    expected[0, 2] = expected[1, 2] = 0.5 / 1.5
    expected[1, 4] = 4.0 / 5.0
    expected[2, 4] = 1.0  # the same features
    expected[5, 5] = 0.0
    np.testing.assert_allclose(overlaps(members, members), np.maximum(expected, expected.T), atol=1e-9)


@pytest.mark.parametrize("members", [1, 2, 4])
def test_the_value_of_a_plan_is_the_formula_and_the_same_whichever_member_is_last(members: int) -> None:
    actions = loans(0).action_set
    rng = np.random.default_rng(members)
    it = TOYS["loans, encoded"]
    rows = actions.snap(it.rows_raw[rng.permutation(len(it.rows_raw))])
    rows = np.unique(rows[actions.changed(rows) > 1], axis=0)[:40]
    plan = next(
        rows[list(some)]
        for some in combinations(range(len(rows)), members)
        if np.triu(_overlap(actions, rows[list(some)]), 1).max() <= MOST_OVERLAP
    )
    theta = rng.normal(size=actions.space.d + 1)
    objective = _objective(actions, Hinge(theta), 0.7, 3.0, HalfSpaces(theta[None], np.array([0.5])))
    points = homogeneous(actions.space.encode(plan))
    effort = actions.cost(plan) / objective.unit + CHANGE_PRICE * (plan != actions.factual_raw).sum(axis=1)
    among = _overlap(actions, plan) - np.eye(members)
    expected = (
        0.7 * effort.mean()
        + np.maximum(1.0 - points @ theta, 0.0).mean()
        - 3.0 * (1.0 - among.max(axis=1)).mean()
        + 1e6 * np.maximum(0.5 - points @ theta - 1e-9, 0.0).sum()
    )
    for k in range(members):
        turned = np.roll(plan, k, axis=0)
        assert objective.value(turned) == pytest.approx(expected)


def _overlap(actions: ActionSet, plan: Points) -> Points:
    def overlap(a: Points, b: Points) -> float:
        same = np.array_equal(np.flatnonzero(a), np.flatnonzero(b))
        return 1.0 if same else float(np.minimum(a, b).sum() / min(a.sum(), b.sum()))

    amounts = moved(actions, plan).amounts
    return np.array([[overlap(a, b) for b in amounts] for a in amounts])


def _objective(
    actions: ActionSet, validity: Any, proximity: float, diversity: float, sides: HalfSpaces
) -> PeopleObjective:
    return PeopleObjective(
        actions=actions,
        unit=usual_change(actions.space),
        validity=validity,
        proximity_weight=proximity,
        diversity_weight=diversity,
        sides=sides,
    )


def test_the_same_way_twice_is_the_worst_of_plans() -> None:
    problem, _ = ask(plane(2), lambda X: X.sum(axis=1) - 1.0, [0.0, 0.0])
    objective = _objective(problem.action_set, Hinge(np.zeros(3)), 1.0, 0.0, HalfSpaces(np.zeros((1, 3)), np.zeros(1)))
    twins, far = np.array([[1.0, 0.0], [1.1, 0.0]]), np.array([[5.0, 0.0], [0.0, 5.0]])
    assert objective.value(twins) > 1e9 > objective.value(far)


def test_the_unit_of_cost_is_the_median_of_the_schema_and_not_of_the_request() -> None:
    features = [replace(f, cost=cost) for f, cost in zip(plane(3).features, (1.0, 4.0, 9.0), strict=True)]
    space = type(plane(3))(features)
    assert usual_change(space) == 4.0
    problem, _ = ask(space, lambda X: X.sum(axis=1) - 1.0, [0.0, 0.0, 0.0])
    actions = action_set(space, problem.factual_raw, cost_weights={"f1": 2.0})
    objective = _objective(actions, Hinge(np.zeros(4)), 1.0, 0.0, HalfSpaces(np.zeros((1, 4)), np.zeros(1)))
    rows = np.array([[0.0, 1.0, 0.0]])
    assert objective.effort(rows, actions.amounts(rows))[0] == pytest.approx(2.0 + CHANGE_PRICE)


def test_the_guarantee_of_a_member_is_its_lower_bound() -> None:
    rng = np.random.default_rng(0)
    moments = WeightMoments(mean=np.array([0.8, 0.6, -0.1]), factors=(0.1 * rng.normal(size=(3, 7)),), kind="test")
    points = homogeneous(rng.normal(size=(6, 2)))
    guarantee = Guarantee.under(moments, 0.01, 2.0)
    np.testing.assert_allclose(guarantee.of(points), validity_bounds(points, moments, 0.01)[0], rtol=1e-9)
    np.testing.assert_allclose(guarantee.loss(np.array([[0.2, 0.6], [1.0, 1.0]])), [-0.8, -2.0])


# --- the search ------------------------------------------------------------------------------------------------------


GRID = np.array([[a, b, c] for a in range(5) for b in range(4) for c in range(3)], dtype=float)


def on_a_lattice(seed: int, weights: dict[str, float]) -> tuple[RecourseProblem, PeopleObjective]:
    """Two members on a lattice of 5 x 4 x 3 points."""
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0.5, 2.0, 3).tolist()
    features = [
        replace(f, decimals=0, min=0.0, max=high, cost=cost)
        for f, high, cost in zip(plane(3).features, (4.0, 3.0, 2.0), costs, strict=True)
    ]
    space = type(plane(3))(features)
    problem, _ = ask(space, lambda X: X.sum(axis=1) - 3.0, [0.0, 0.0, 0.0], rows_raw=GRID)
    problem = replace(problem, action_set=action_set(space, problem.factual_raw, cost_weights=weights))
    mean = np.append(rng.uniform(0.2, 1.0, 3), -1.0)
    moments = WeightMoments(mean=mean / np.linalg.norm(mean), factors=(0.1 * rng.normal(size=(4, 3)),), kind="test")
    sides = HalfSpaces(moments.mean[None], np.array([0.1]))
    return problem, _objective(problem.action_set, Guarantee(moments, 0.01, 4.0), 1.0, 2.0, sides)


def best_of(problem: RecourseProblem, objective: PeopleObjective) -> Points:
    return PeopleSearch(problem, objective, 2, np.array([0.0, 0.5, 1.0])).best(GRID[-1:])


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_what_an_exhaustive_search_finds(seed: int) -> None:
    problem, objective = on_a_lattice(seed, {})
    best = min(objective.joined(GRID[[a]])(GRID[a + 1 :]).min() for a in range(1, len(GRID) - 1))
    assert objective.value(best_of(problem, objective)) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(3))
def test_a_dearer_feature_is_never_used_more(seed: int) -> None:
    plain = best_of(*on_a_lattice(seed, {}))
    for j in range(3):
        for factor in (2.0, 4.0):
            dearer = best_of(*on_a_lattice(seed, {f"f{j}": factor}))
            assert dearer[:, j].sum() <= plain[:, j].sum()


@pytest.mark.parametrize("name", NAMES)
def test_cost_weights_steer_a_plan(name: str) -> None:
    fact, features = loans(0).factual_raw, loans(0).action_set.space.features
    plain = rows_of(answered(loans(0), name))
    j = int((plain != fact).sum(axis=0).argmax())
    dearer = rows_of(answered(loans(0, cost_weights={features[j].name: 2.0}), name))
    before, after = (np.abs(rows[:, j] - fact[j]).sum() for rows in (plain, dearer))
    assert after <= before * (1.0 + 1e-3)
    assert not np.array_equal(plain, dearer)


@pytest.mark.parametrize("name", NAMES)
def test_a_feature_of_prohibitive_weight_is_left_alone(name: str) -> None:
    problem, _ = ask(plane(3), lambda X: X.sum(axis=1) - 1.0, [-1.0, 0.0, 0.0])
    assert (rows_of(answered(problem, name, count=3))[:, 0] != -1.0).any()
    actions = action_set(problem.action_set.space, problem.factual_raw, cost_weights={"f0": 100.0})
    assert (rows_of(answered(replace(problem, action_set=actions), name, count=2))[:, 0] == -1.0).all()


@pytest.mark.parametrize("name", NAMES)
def test_caps_of_the_request_hold(name: str) -> None:
    problem, _ = ask(plane(4), lambda X: X.sum(axis=1) - 2.0, [0.0, 0.0, 0.0, 0.0])
    space = problem.action_set.space
    limits = Constraints(max_changes=2, max_change={"f0": MaxChange(absolute=0.7)})
    actions = action_set(space, problem.factual_raw, constraints=limits)
    rows = rows_of(answered(replace(problem, action_set=actions), name))
    assert len(rows) == 3
    assert actions.contains(rows).all()
    assert ((rows != 0.0).sum(axis=1) <= 2).all()
    assert (np.abs(rows[:, 0]) <= 0.7).all()


def test_a_factual_that_the_local_model_accepts_gets_different_ways_as_well() -> None:
    """The model refuses the factual, so its local model is too hopeful there: members reach beyond the factual."""
    problem, _ = ask(plane(3), lambda X: X.sum(axis=1) - 1.0, [0.3, 0.3, 0.2])
    theta = np.array([1.0, 1.0, 1.0, 0.0]) / np.sqrt(3.0)
    sides = HalfSpaces(theta[None], np.zeros(1)).beyond(np.append(problem.x0, 1.0))
    assert sides.needs[0] == pytest.approx(0.8 / np.sqrt(3.0))
    objective = _objective(problem.action_set, Hinge(theta), 0.5, 1.0, sides)
    plan = PeopleSearch(problem, objective, 3, np.array([0.0, 0.5])).best(problem.factual_raw[None])
    assert (_overlap(problem.action_set, plan) <= 0.5 + 0.5 * np.eye(3)).all()


# --- the demo model --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> list[RecourseProblem]:
    """Six applicants whom the demo model refuses, asked as the service does."""
    registered = Registry(ROOT / "models_store").find("consumer-loan")
    loaded = registered.load()
    refused = loaded.reference.rows_raw[loaded.reference.scores < 0.0]
    return [
        RecourseProblem(
            black_box=loaded.black_box,
            reference=loaded.reference,
            futures=load_futures(registered),
            action_set=action_set(
                loaded.black_box.space, row, rules=loaded.rules, valid_months=MONTHS, least_share=LEAST_SHARE
            ),
        )
        for row in refused[:: len(refused) // 6][:6]
    ]


@pytest.fixture(scope="module")
def singles(demo: list[RecourseProblem]) -> list[Counterfactual]:
    """The answer of `robust_mpm` to each of them."""
    method = METHODS["robust_mpm"]
    return [solve(problem, method, method.params(), CertificateParams()).counterfactuals[0] for problem in demo]


@pytest.fixture(scope="module")
def plans(demo: list[RecourseProblem]) -> dict[str, list[RecourseResult]]:
    return {name: [answered(problem, name) for problem in demo] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_person_can_follow_a_plan(
    name: str, demo: list[RecourseProblem], plans: dict[str, list[RecourseResult]], singles: list[Counterfactual]
) -> None:
    cost = np.mean([np.mean([one.cost for one in plan.counterfactuals]) for plan in plans[name]])
    assert cost <= 1.5 * np.mean([one.cost for one in singles])
    assert np.median([len(one.changed) for plan in plans[name] for one in plan.counterfactuals]) <= 3
    for problem, plan in zip(demo, plans[name], strict=True):
        rows, actions = rows_of(plan), problem.action_set
        age = [feature.name for feature in actions.space.features].index("age")
        assert (rows[:, age] == actions.factual_raw[age]).all()
        assert len(rows) == 3
        np.testing.assert_array_equal(actions.finished(rows), rows)  # nothing stops just before an end
        assert (np.triu(_overlap(actions, rows), 1) <= MOST_OVERLAP).all()


def test_a_plan_of_copa_withstands_retraining_as_a_single_answer_does(
    plans: dict[str, list[RecourseResult]], singles: list[Counterfactual]
) -> None:
    members = [one for plan in plans["copa"] for one in plan.counterfactuals]
    share = [np.mean([one.future.probability for one in ones if one.future]) for ones in (members, singles)]
    assert share[0] >= share[1] - 0.02
