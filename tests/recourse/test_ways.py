"""Several ways, and answers as the person wishes: against every legal record of small schemas."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.errors import InvalidRequest
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.wishes import ChangeTo, Exclude, Wishes
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import MISSING, Change, Feature, FeatureSpace, FeatureType, Missing
from app.recourse.frontier import frontier
from app.recourse.method import Yields
from app.recourse.methods import METHODS
from app.recourse.methods.probe import ProbeParams
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import solve
from app.recourse.steps import with_steps
from app.registry.rules import RuleParser
from tests.recourse import oracle
from tests.recourse.certified import Clock
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, rows
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import LOAN, Spy, ask, loan_rows, loan_score

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]
Scores = Float[np.ndarray, "n"]

SMALL = FeatureSpace(
    [
        Feature(name="debt", type=FeatureType.INTEGER, min=0, max=6, center=3.0, scale=2.0),
        Feature(
            name="loan", type=FeatureType.INTEGER, min=0, max=10, step=2, change=Change.DECREASE, center=5.0, scale=3.0
        ),
        Feature(name="savings", type=FeatureType.ORDINAL, categories=("a", "b", "c", "d"), center=1.0, scale=1.0),
        Feature(name="home", type=FeatureType.CATEGORICAL, categories=("x", "y", "z"), cost=1.25),
        Feature(name="job", type=FeatureType.CATEGORICAL, categories=("p", "q", "r", "s")),
        Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0),
    ]
)  # fmt: skip
"""Few enough records to look at each of them."""
EVERY = np.array(list(product(range(7), range(0, 11, 2), range(4), range(3), range(4), range(2))), dtype=float)
EXACT: dict[str, Any] = {"noise_std": 0.0}
"""Of `probe`: without noise it searches for the cheapest record that a linear model accepts."""


def small(seed: int, wishes: Wishes | None = None, count: int = 1, **constraints: Any) -> tuple[RecourseProblem, Spy]:
    """Somebody whom a linear model refuses, and to whom it says yes after two or three changes."""
    rng = np.random.default_rng(seed)
    w = rng.choice([-1.0, -0.5, 0.25, 0.75, 1.25], size=SMALL.d) + 1e-3 * rng.random(SMALL.d)
    factual_raw = EVERY[rng.integers(len(EVERY))]
    heights = SMALL.encode(EVERY[EVERY[:, 1] <= factual_raw[1]]) @ w  # the loan can only decrease
    height = float(SMALL.encode(factual_raw[None])[0] @ w)
    c = -height - rng.choice([0.25, 0.5, 0.7]) * max(float(heights.max()) - height, 0.1)
    model = LinearModel(w, c)
    accepted = EVERY[model.score(SMALL.encode(EVERY)) >= 0.0][::20]
    problem, spy = ask(
        SMALL, model.score, factual_raw.tolist(), constraints=constraints,
        rows_raw=np.concatenate([EVERY[rng.integers(len(EVERY), size=200)], accepted]),
    )  # fmt: skip
    actions = action_set(SMALL, factual_raw, constraints=Constraints(**constraints), wishes=wishes)
    gradient = lambda X: np.tile(w, (len(X), 1))  # noqa: E731
    black_box = replace(problem.black_box, linear=True, gradient=gradient)
    return replace(problem, black_box=black_box, action_set=actions, count=count), spy


def exactly(problem: RecourseProblem) -> RecourseResult:
    return solve(problem, METHODS["probe"], ProbeParams(**EXACT))


def legal_and_accepted(problem: RecourseProblem) -> list[tuple[float, frozenset[int]]]:
    """Cost and changes of every legal record that the model accepts, by the definitions; cheapest first."""
    fact, constraints = problem.factual_raw, problem.action_set.constraints
    accepted = EVERY[problem.black_box.score_raw(EVERY) >= 0.0]
    legal = [row for row in accepted if oracle.row_is_legal(SMALL, fact, row, constraints)]
    found = [(oracle.cost(SMALL, fact, row), row) for row in legal if as_wished(problem.action_set.wishes, fact, row)]
    return sorted(((cost, changed(fact, row)) for cost, row in found), key=lambda one: one[0])


def changed(fact: Float[np.ndarray, "p"], row_raw: Float[np.ndarray, "p"]) -> frozenset[int]:
    return frozenset(np.flatnonzero(fact != row_raw).tolist())


def as_wished(wishes: Wishes, fact: Float[np.ndarray, "p"], row_raw: Float[np.ndarray, "p"]) -> bool:
    """The wishes, by their definitions."""
    names = {SMALL.names[j] for j in changed(fact, row_raw)}
    if names & set(wishes.exclude.features) or any(set(some) <= names for some in wishes.exclude.sets):
        return False
    for one in wishes.exclude.changes:
        j = SMALL.names.index(one.feature)
        value, own, raw = SMALL.features[j].parse(one.to), fact[j], row_raw[j]
        beyond = raw == value if SMALL.features[j].is_group else (value - own) * (raw - value) >= 0.0
        if raw != own and value != own and beyond:
            return False
    for wanted in wishes.must_include:
        name, to = (wanted, None) if isinstance(wanted, str) else (wanted.feature, wanted.to)
        j = SMALL.names.index(name)
        if name not in names or (to is not None and row_raw[j] != SMALL.features[j].parse(to)):
            return False
    return True


def check_ways(problem: RecourseProblem, result: RecourseResult) -> None:
    """Each way is the cheapest record whose changes contain those of no earlier way, and none is left out.

    A further way has three changes at most, or as many as the first; any number where the request excludes sets.
    """
    every, earlier = legal_and_accepted(problem), list[frozenset[int]]()
    if result.counterfactuals and not problem.action_set.barred:
        most = max(3, len(result.counterfactuals[0].changed))
        first, *others = every
        every = [first, *((cost, made) for cost, made in others if len(made) <= most)]
    for one in result.counterfactuals:
        possible = [(cost, made) for cost, made in every if not any(before <= made for before in earlier)]
        cheapest = possible[0][0]
        least = max(oracle.counts_as(cost, len(made)) for cost, made in possible if cost == pytest.approx(cheapest))
        assert cheapest - 1e-9 <= one.cost, "nothing is cheaper"
        assert oracle.counts_as(one.cost, len(one.changed)) <= least + 1e-9, "the cheapest, or one with fewer changes"
        assert (one.cost, frozenset(one.changed)) in [(pytest.approx(cost), made) for cost, made in every]
        assert one.score >= 0.0
        assert problem.action_set.contains(one.row_raw[None])[0]
        assert not any(before <= frozenset(one.changed) for before in earlier)
        earlier.append(frozenset(one.changed))
    left = [cost for cost, made in every if not any(before <= made for before in earlier)]
    assert not left or len(earlier) == problem.count
    fewer = [warning for warning in result.warnings if "ways were asked for" in warning]
    assert len(fewer) == (0 < len(earlier) < problem.count)


@pytest.mark.parametrize("case", range(16))
def test_no_change_is_advised_that_a_little_more_of_another_replaces(case: int) -> None:
    """Every record in which one change is taken back and one number goes on in its direction."""
    problem, _ = small(case)
    (found,) = exactly(problem).counterfactuals
    fact, row, counted = problem.factual_raw, found.row_raw, oracle.counts_as(found.cost, len(found.changed))
    limits = problem.action_set.constraints
    for other in EVERY[problem.black_box.score_raw(EVERY) >= 0.0]:
        moved = np.flatnonzero(other != row)
        undone, further = (
            moved[other[moved] == fact[moved]],
            moved[np.abs(other - fact)[moved] > np.abs(row - fact)[moved]],
        )
        is_number = all(not SMALL.features[j].is_group for j in further.tolist())
        one_way = len(undone) == 1 and len(further) == len(moved) - 1 <= 1 and is_number
        if one_way and ((other - fact) * (row - fact) >= 0.0).all() and oracle.row_is_legal(SMALL, fact, other, limits):
            assert oracle.counts_as(oracle.cost(SMALL, fact, other), len(changed(fact, other))) >= counted - 1e-9


@pytest.mark.parametrize(("needed", "found"), [(3, 2), (4, 1)])
def test_a_further_way_of_more_than_three_changes_is_not_given(needed: int, found: int) -> None:
    space = FeatureSpace([Feature(name=f"f{j}", type=FeatureType.BINARY, center=0.0, scale=1.0) for j in range(5)])
    model = LinearModel(np.array([needed, 1.0, 1.0, 1.0, 1.0]), 0.25 - needed)
    every = np.array(list(product(range(2), repeat=5)), dtype=float)
    problem, _ = ask(space, model.score, [0.0] * 5, rows_raw=np.tile(every, (10, 1)))
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(model.w, (len(X), 1)))
    result = exactly(replace(problem, black_box=black_box, count=2))
    assert [len(one.changed) for one in result.counterfactuals] == [1, needed][:found]
    fewer = [one for one in result.warnings if "no more than 3 changes" in one]
    assert fewer == ([] if found == 2 else [
        "2 ways were asked for that differ in what they change and meet the same constraints as the first; only 1 was "
        "found, with no more than 3 changes each."
    ])  # fmt: skip


def test_a_limit_of_the_request_is_not_told_as_a_larger_one() -> None:
    """What a request allows is no news to it; three changes would be more than that."""
    told = 0
    for case in range(8):
        problem, _ = small(case, count=9, max_changes=2)
        fewer = [one for one in exactly(problem).warnings if "ways were asked for that differ" in one]
        told += len(fewer)
        assert not any("changes each" in one for one in fewer)
    assert told


@pytest.mark.parametrize("case", range(16))
def test_each_way_is_the_cheapest_that_differs_from_those_before(case: int) -> None:
    problem, spy = small(case, count=4)
    result = exactly(problem)
    assert result.diagnostics.model_rows == sum(len(rows) for rows in spy.asked)
    assert result.status is Status.FOUND
    check_ways(problem, result)
    (first,) = exactly(replace(problem, count=1)).counterfactuals
    assert np.array_equal(first.row_raw, result.counterfactuals[0].row_raw), "the only one is the first of several"


WISHES = {
    "no debt": Wishes(exclude=Exclude(features=("debt",))),
    "not these": Wishes(exclude=Exclude(sets=(("home", "job"), ("savings",)))),
    "not so far": Wishes(
        exclude=Exclude(
            changes=(
                ChangeTo(feature="savings", to="c"), ChangeTo(feature="debt", to=1), ChangeTo(feature="debt", to=5),
                ChangeTo(feature="job", to="q"), ChangeTo(feature="loan", to=4), ChangeTo(feature="guarantor", to=True),
            )
        )
    ),
    "this anyway": Wishes(must_include=("home",)),
    "a number anyway": Wishes(must_include=("debt",)),
    "a level anyway": Wishes(must_include=("savings",)),
    "to a value": Wishes(must_include=(ChangeTo(feature="home", to="z"), ChangeTo(feature="debt", to=3))),
    "some of all": Wishes(
        exclude=Exclude(features=("loan",), sets=(("debt", "job"),)), must_include=("guarantor", "savings")
    ),
}  # fmt: skip


def wished(case: int, name: str, **more: Any) -> RecourseProblem | None:
    """The question with these wishes; None where this person cannot make a change that they include."""
    try:
        return small(case, WISHES[name], **more)[0]
    except InvalidRequest:
        return None


@pytest.mark.parametrize("name", WISHES)
def test_every_way_is_as_wished_and_the_cheapest_of_these(name: str) -> None:
    asked = 0
    for case in range(5):
        problem = wished(case, name, count=3)
        if problem is None:
            continue
        asked += 1
        result = exactly(problem)
        check_ways(problem, result)
        assert (result.status is Status.FOUND) == bool(legal_and_accepted(problem))
    assert asked >= 2


@pytest.mark.parametrize("name", [name for name, wishes in WISHES.items() if wishes.must_include])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_included_counts_under_a_cap(name: str, most: int) -> None:
    for case in range(4):
        if len(WISHES[name].must_include) <= most and (problem := wished(case, name, max_changes=most)) is not None:
            result = exactly(problem)
            check_ways(problem, result)
            assert (result.status is Status.FOUND) == bool(legal_and_accepted(problem))


# --- whatever the question -------------------------------------------------------------------------------------------


@st.composite
def linear_cases(draw: st.DrawFn) -> tuple[Question, Points]:
    question = draw(questions(with_rules=True))
    rows_raw = np.array(draw(st.lists(rows(question.space), min_size=4, max_size=12)))
    heights = question.model.score(question.space.encode(rows_raw))
    height = float(question.model.score(question.space.encode(question.factual_raw[None]))[0])
    rise = draw(st.sampled_from([0.1, 0.4])) * max(float(heights.max()) - height, 0.125)
    return replace(question, model=LinearModel(question.model.w, question.model.c - height - rise)), rows_raw


@settings(PROPERTY, max_examples=examples(60))
@given(linear_cases())
def test_under_any_constraints_no_cheaper_way_differs(case: tuple[Question, Points]) -> None:
    """By a mixed-integer program in which one feature of each earlier way stays as it is."""
    question, rows_raw = case
    w = question.model.w
    problem, _ = ask(question.space, question.model.score, question.factual_raw.tolist(), rows_raw=rows_raw)
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(w, (len(X), 1)))
    problem = replace(problem, black_box=black_box, action_set=question.action_set, count=3)
    result = exactly(problem)
    if result.status is not Status.FOUND or result.fallback:
        return
    names, sets = question.space.names, list[tuple[int, ...]]()
    for one in result.counterfactuals:
        least, strictly = (cheapest_without(question, sets, names, margin) for margin in (-1e-9, 1e-5))
        assert least - 1e-6 <= one.cost
        assert oracle.counts_as(one.cost, len(one.changed)) <= oracle.counts_as(strictly, question.space.p) + 1e-6
        sets.append(one.changed)
    if len(sets) < 3 and () not in sets:
        assert np.isinf(cheapest_without(question, sets, names, 1e-5))


def cheapest_without(question: Question, sets: Sequence[tuple[int, ...]], names: Sequence[str], margin: float) -> float:
    """Least cost of a record that changes all features of none of these sets."""
    costs = []
    for still in {frozenset(chosen) for chosen in product(*sets)}:
        immutable = (*question.constraints.immutable, *(names[j] for j in still))
        program = oracle.Program(
            question.space, question.factual_raw, replace(question.constraints, immutable=immutable), question.rules,
            question.model, question.timing,
        )  # fmt: skip
        cost = program.cheapest(margin)
        costs.append(np.inf if cost is None else cost)
    return float(min(costs))


# --- every method ----------------------------------------------------------------------------------------------------


def refused_loans(people: int, wishes: Wishes | None = None, **more: Any) -> list[RecourseProblem]:
    rows_raw = loan_rows(200, seed=9)
    refused = rows_raw[(loan_score(LOAN.encode(rows_raw)) < -0.5) & (rows_raw[:, 4] < 2) & (rows_raw[:, 6] == 0)]
    found = []
    for row_raw in refused[:people]:
        problem, _ = ask(LOAN, loan_score, row_raw.tolist(), rows_raw=loan_rows(300))
        found.append(replace(problem, action_set=action_set(LOAN, row_raw, wishes=wishes), **more))
    return found


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_answers_as_wished(name: str) -> None:
    method = METHODS[name]
    wishes = Wishes(
        exclude=Exclude(
            features=("months",), changes=(ChangeTo(feature="savings", to="much"),), sets=(("guarantor", "income"),)
        ),
        must_include=("savings", ChangeTo(feature="housing", to="owns")),
    )
    found = 0
    for problem in refused_loans(2, wishes, count=2):
        result = solve(problem, method, method.params(), CertificateParams())
        for one in result.counterfactuals:
            names = {LOAN.names[j] for j in one.changed}
            assert names >= {"savings", "housing"}
            assert one.row_raw[6] == 1.0
            assert one.row_raw[4] == problem.factual_raw[4] + 1.0 or one.row_raw[4] < problem.factual_raw[4]
            assert "months" not in names
            assert not names >= {"guarantor", "income"}
            assert one.score >= 0.0
            assert one.certificate is not None
            assert one.cost == pytest.approx(oracle.cost(LOAN, problem.factual_raw, one.row_raw))
            found += 1
    assert found >= 2


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.yields is Yields.COUNTERFACTUAL])
def test_ways_of_every_method_differ_and_are_certified(name: str) -> None:
    method = METHODS[name]
    several = 0
    for problem in refused_loans(1, count=3):
        result = solve(problem, method, method.params(), CertificateParams())
        ways = [frozenset(one.changed) for one in result.counterfactuals]
        assert not any(ways[i] <= ways[k] for k in range(len(ways)) for i in range(k))
        assert all(one.certificate is not None and one.score >= 0.0 for one in result.counterfactuals)
        costs = [one.cost for one in result.counterfactuals]
        assert result.fallback or costs == sorted(costs)
        several += len(ways) > 1
    assert several


def enough(problem: RecourseProblem, result: RecourseResult, one: Counterfactual) -> list[frozenset[int]]:
    """Smaller sets of its changes that the model accepts by themselves, with two thirds of the rise of its score."""
    found, before = [], result.factual_score
    assert before is not None
    for size in range(1, len(one.changed)):
        for part in map(list, combinations(one.changed, size)):
            row_raw = problem.factual_raw.copy()
            row_raw[part] = one.row_raw[part]
            score = problem.black_box.score_raw(row_raw[None])[0]
            rises = score - before >= 2 / 3 * (one.score - before)
            if score >= 0.0 and rises and problem.action_set.contains(row_raw[None])[0]:
                found.append(frozenset(part))
    return found


def test_no_way_repeats_what_is_enough_of_an_earlier_one() -> None:
    """At its defaults the method asks for a margin; changes that only add to it make no other way."""
    method, with_margin = METHODS["robust_mpm"], 0
    for problem in refused_loans(8, count=3):
        earlier: list[frozenset[int]] = []
        result = solve(problem, method, method.params())
        for one in result.counterfactuals:
            assert not any(some <= frozenset(one.changed) for some in earlier)
            parts = enough(problem, result, one)
            with_margin += bool(parts)
            earlier += [frozenset(one.changed), *parts]
    assert with_margin


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.yields is Yields.PLAN])
def test_the_count_of_a_plan_is_the_number_of_its_members(name: str) -> None:
    (problem,) = refused_loans(1, count=3)
    assert len(solve(problem, METHODS[name], METHODS[name].params()).counterfactuals) == 3


def test_a_frontier_is_as_wished_too() -> None:
    (problem,) = refused_loans(1, Wishes(exclude=Exclude(features=("income",)), must_include=("savings",)))
    method = METHODS["robust_mpm"]
    points = frontier(problem, method, method.params(), "radius_unfavourable", [0.0, 1.0, 5.0]).points
    found = [one for point in points for one in point.result.counterfactuals]
    assert found
    assert all(4 in one.changed and 2 not in one.changed and one.steps is None for one in found)


# --- missing values --------------------------------------------------------------------------------------------------


def test_who_provides_a_value_has_ways_with_it_and_without() -> None:
    space = FeatureSpace(
        [
            Feature(
                name="bureau", type=FeatureType.INTEGER, min=0, max=10, center=5.0, scale=1.0,
                missing=Missing.INDICATOR, fill=0, provide=True, provide_cost=0.5,
            ),
            Feature(name="income", type=FeatureType.INTEGER, min=0, max=20, center=5.0, scale=1.0),
        ]
    )  # fmt: skip

    def predict(X: Points) -> Scores:
        return X @ np.array([1.0, 1.0, -5.0]) + 0.5

    rows_raw = np.random.default_rng(0).integers(0, 11, (100, 2)).astype(float)
    rows_raw[:20, 0] = MISSING

    def ways(wishes: Wishes | None = None) -> list[tuple[int, ...]]:
        problem, _ = ask(space, predict, [MISSING, 5.0], rows_raw=rows_raw)
        problem = replace(problem, action_set=action_set(space, problem.factual_raw, wishes=wishes), count=2)
        method = METHODS["robust_mpm"]
        return [one.changed for one in solve(problem, method, method.params()).counterfactuals]

    assert ways() == [(0,), (1,)]
    assert ways(Wishes(exclude=Exclude(features=("bureau",)))) == [(1,)]
    assert ways(Wishes(must_include=("bureau",))) == [(0,)]
    both = ways(Wishes(must_include=(ChangeTo(feature="bureau", to=2),)))
    assert both == [(0, 1)], "a poor record needs more income"


# --- steps -----------------------------------------------------------------------------------------------------------


def test_steps_begin_with_what_helps_most_and_end_at_the_answer() -> None:
    ordered = 0
    for case in range(12):
        problem, _ = small(case, count=3)
        result = exactly(problem)
        for one in result.counterfactuals:
            if len(one.changed) < 2:
                assert one.steps is None
                continue
            assert one.steps is not None
            ordered += 1
            assert sorted(step.feature for step in one.steps) == list(one.changed)
            assert np.array_equal(one.steps[-1].row_raw, one.row_raw)
            assert one.steps[-1].score == one.score
            made = problem.factual_raw.copy()
            for k, step in enumerate(one.steps):
                left = [each.feature for each in one.steps[k:]]
                tries = np.tile(made, (len(left), 1))
                tries[np.arange(len(left)), left] = one.row_raw[left]
                scores = problem.black_box.score_raw(tries)
                assert step.score == pytest.approx(float(scores.max()))
                made[step.feature] = one.row_raw[step.feature]
                assert np.array_equal(step.row_raw, made)
    assert ordered >= 6


def test_steps_take_one_call_for_all_ways_and_none_for_single_changes() -> None:
    problem, _ = small(0, count=3)
    result = exactly(problem)
    several = [replace(one, steps=None) for one in result.counterfactuals if len(one.changed) > 1]
    assert several
    meter = Meter(problem.black_box)
    with_steps(problem.action_set, meter, several)
    assert meter.calls == 1
    meter = Meter(problem.black_box)
    with_steps(problem.action_set, meter, [replace(several[0], changed=several[0].changed[:1])])
    assert meter.calls == 0


def test_steps_avoid_records_that_break_a_rule() -> None:
    rule = LinearRule("debt is at most loan", (1.0, -1.0, 0.0, 0.0, 0.0, 0.0), 0.0)
    problem, _ = small(1)
    fact = np.array([6.0, 6.0, 0.0, 0.0, 0.0, 0.0])
    actions = action_set(SMALL, fact, rules=(rule,))
    row_raw = np.array([2.0, 2.0, 0.0, 0.0, 0.0, 1.0])
    w = np.zeros(SMALL.d)
    w[SMALL.spans[1].start] = -5.0  # the loan helps most, but not before the debt
    model = LinearModel(w, 0.0)
    (problem, _) = ask(SMALL, model.score, fact.tolist(), rows_raw=EVERY[:200])
    one = Counterfactual(row_raw=row_raw, score=1.0, probability=None, cost=1.0, changed=(0, 1, 5))
    (found,) = with_steps(actions, Meter(problem.black_box), [one])
    assert found.steps is not None
    order = [step.feature for step in found.steps]
    assert order.index(0) < order.index(1)


def test_a_number_changes_after_the_level_that_a_rule_makes_it_depend_on() -> None:
    """People move before they pay less rent, however little the move helps by itself; both orders break the rule."""
    rule = RuleParser(SMALL.features).parse("home = x => debt >= 2")
    rules = (rule, RuleParser(SMALL.features).parse("home != x => debt = 0"))
    fact, row_raw = np.array([6.0, 6.0, 0.0, 0.0, 0.0, 0.0]), np.array([0.0, 6.0, 0.0, 1.0, 0.0, 1.0])
    w = np.zeros(SMALL.d)
    w[SMALL.spans[0].start] = -5.0
    problem, _ = ask(SMALL, LinearModel(w, 0.0).score, fact.tolist(), rows_raw=EVERY[:200])
    actions = action_set(SMALL, fact, rules=rules)
    one = Counterfactual(row_raw=row_raw, score=1.0, probability=None, cost=1.0, changed=(0, 3, 5))
    (found,) = with_steps(actions, Meter(problem.black_box), [one])
    assert found.steps is not None
    order = [step.feature for step in found.steps]
    assert order.index(3) < order.index(0)


# --- faults ----------------------------------------------------------------------------------------------------------

FAULTS: list[tuple[Wishes, dict[str, Any], dict[str, str]]] = [
    (Wishes(exclude=Exclude(features=("debt", "age"))), {}, {"/exclude/features/1": "is not a feature"}),
    (Wishes(exclude=Exclude(sets=(("debt", "age"), ()))), {},
     {"/exclude/sets/0/1": "is not a feature", "/exclude/sets/1": "must name at least one"}),
    (Wishes(exclude=Exclude(changes=(ChangeTo(feature="home", to="w"), ChangeTo(feature="age", to=1)))), {},
     {"/exclude/changes/0/to": 'must be one of "x"', "/exclude/changes/1/feature": "is not a feature"}),
    (Wishes(must_include=("age", "debt", "debt")), {}, {"/must_include/0": "is not a", "/must_include/2": "is there"}),
    (Wishes(exclude=Exclude(features=("home",)), must_include=("home",)), {}, {"/must_include/0": "is excluded"}),
    (Wishes(exclude=Exclude(sets=(("home",),)), must_include=("home",)), {}, {"/must_include": "exclude.sets[0]"}),
    (Wishes(must_include=("home",)), {"immutable": ("home",)}, {"/must_include/0": "is immutable as well"}),
    (Wishes(must_include=("home", "job")), {"max_changes": 1}, {"/must_include": "max_changes"}),
    (Wishes(must_include=(ChangeTo(feature="debt", to=1.5),)), {}, {"/must_include/0/to": "must be a whole number"}),
    (Wishes(must_include=(ChangeTo(feature="loan", to=10),)), {}, {"/must_include/0/to": 'be proposed of "loan" here'}),
    (Wishes(must_include=(ChangeTo(feature="debt", to=4),)), {}, {"/must_include/0/to": "the applicant's own"}),
]  # fmt: skip


@pytest.mark.parametrize(("wishes", "constraints", "expected"), FAULTS)
def test_wishes_that_cannot_be_met_are_refused_where_they_stand(
    wishes: Wishes, constraints: dict[str, Any], expected: dict[str, str]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        action_set(
            SMALL, np.array([4.0, 6.0, 1.0, 0.0, 0.0, 0.0]), constraints=Constraints(**constraints), wishes=wishes
        )
    found = {fault.pointer: fault.detail for fault in refused.value.faults}
    assert set(found) == set(expected)
    for pointer, text in expected.items():
        assert text in found[pointer]


# --- limits ----------------------------------------------------------------------------------------------------------


def test_ways_that_the_budget_pays_for_are_given() -> None:
    whole = exactly(small(0, count=4)[0])
    calls = whole.diagnostics.model_calls
    assert calls is not None
    for most in range(5, calls):
        problem, spy = small(0, count=4)
        far = replace(problem.black_box, remote=Far(spy, max_calls=most))
        result = exactly(replace(problem, black_box=far))
        assert result.status is Status.FOUND
        assert len(spy.asked) <= most
        ways = [one.changed for one in result.counterfactuals]
        assert ways == [one.changed for one in whole.counterfactuals][: len(ways)]
        if len(ways) < len(whole.counterfactuals):
            assert [warning for warning in result.warnings if "ended early" in warning]


def test_time_for_one_way_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, spy = small(0)
    (only,) = exactly(alone).counterfactuals
    calls = len(spy.asked) - (only.steps is not None)
    problem, _ = Clock.installed(monkeypatch).limit(small(0, count=4), calls=calls)
    result = exactly(problem)
    (found,) = result.counterfactuals
    assert np.array_equal(found.row_raw, only.row_raw)
    assert [warning for warning in result.warnings if "ended early" in warning]
