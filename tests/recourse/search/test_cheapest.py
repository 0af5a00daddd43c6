"""The cheapest legal action against an independent mixed-integer program."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from scipy.optimize import linprog

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import Advice, Feature, FeatureSpace, FeatureType, Takes
from app.recourse.models.linear import LinearModel
from app.recourse.search.cheapest import Search
from app.recourse.verdict import Relaxation
from tests.recourse import oracle
from tests.recourse.questions import (
    CHECKED_AT_RANDOM,
    PROPERTY,
    Question,
    eighths,
    examples,
    questions,
    ruled_questions,
    without,
)

pytestmark = CHECKED_AT_RANDOM


def program(question: Question) -> oracle.Program:
    return oracle.Program(
        question.space, question.factual_raw, question.constraints, question.rules, question.model, question.timing
    )  # fmt: skip


def score(question: Question, row_raw: Float[np.ndarray, "p"]) -> float:
    return float(question.model.score(question.space.encode(row_raw[None]))[0])


def found_row(question: Question, margin: float) -> Float[np.ndarray, "p"] | None:
    rows = Search(question.model, question.action_set).rows(np.array([margin]))
    assert len(rows) <= 1
    return rows[0] if len(rows) else None


def check(question: Question, margin: float) -> None:
    """What is found is legal, meets the margin and costs what the program says; nothing is found iff nothing is."""
    row_raw, best = found_row(question, margin), program(question).cheapest(margin)
    assert (row_raw is None) == (best is None)
    if row_raw is None or best is None:
        return
    assert question.action_set.contains(row_raw[None])[0]
    assert score(question, row_raw) >= margin - 1e-7
    assert oracle.cost(question.space, question.factual_raw, row_raw) == pytest.approx(best, rel=3e-6, abs=3e-6)


# --- the program -----------------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=examples(400))
@given(question=questions(), margin=eighths(-2, 4))
def test_the_row_is_legal_meets_the_margin_and_is_the_cheapest(question: Question, margin: float) -> None:
    check(question, margin)


@settings(PROPERTY, max_examples=examples(200))
@given(question=questions(with_rules=True).filter(lambda q: bool(q.rules)), margin=eighths(-2, 4))
def test_rules_between_numbers_are_kept_at_least_cost(question: Question, margin: float) -> None:
    check(question, margin)


@settings(PROPERTY, max_examples=examples(300))
@given(question=ruled_questions(), margin=eighths(-2, 4))
def test_several_rules_that_bind_are_kept_at_least_cost(question: Question, margin: float) -> None:
    check(question, margin)


def test_a_rule_that_binds_moves_what_it_reads_together() -> None:
    space = numeric_space((0, 10), (0, 10), (0, 10))
    rule = LinearRule("f0 >= 2 f1", (-1.0, 2.0, 0.0), 0.0)
    question = Question(
        space,
        np.array([8.0, 4.0, 5.0]),
        Constraints(max_changes=2),
        (rule,),
        LinearModel(np.array([-2.0, 0.0, 1.0]), 4.0),
    )
    rows = Search(question.model, question.action_set).rows(np.array([-6.0, -3.0, 0.0]))
    np.testing.assert_allclose(rows, [[7.5, 3.75, 5.0], [6.0, 3.0, 5.0], [4.5, 2.25, 5.0]], rtol=1e-8)


def test_a_tie_counts_where_a_rule_forces_the_score_down() -> None:
    decimal = {"type": FeatureType.CONTINUOUS, "decimals": 2, "scale": 0.5}
    space = FeatureSpace(
        [
            Feature(name="f0", type=FeatureType.CATEGORICAL, categories=("a", "b", "c")),
            Feature(name="f1", type=FeatureType.INTEGER, min=-3, max=3, center=1.0, scale=10.0),
            Feature(name="f2", center=1.0, cost=2.0, **decimal),  # type: ignore[arg-type]
            Feature(name="f3", center=0.25, **decimal),  # type: ignore[arg-type]
        ]
    )
    question = Question(
        space,
        np.array([0.0, 0.0, 0.0, -3.875]),
        Constraints(bounds={"f2": Bounds(max=2)}),
        (LinearRule("f2 + f3 >= 0", (0.0, 0.0, -1.0, -1.0), 0.0),),
        LinearModel(np.array([-3.0, 0.0, 0.0, 2.5, -0.5, -3.0]), 0.0),
    )
    check(question, -0.75)


def test_a_row_under_rules_owes_nothing_to_the_tolerances_of_the_solver() -> None:
    space = FeatureSpace(
        [
            Feature(name="f0", type=FeatureType.CATEGORICAL, categories=("a", "b", "c")),
            Feature(name="f1", type=FeatureType.BINARY, center=1.5, scale=3.0, cost=2.0),
            Feature(name="f2", type=FeatureType.CONTINUOUS, max=9, center=1.5, scale=3.0, cost=2.0),
            Feature(name="f3", type=FeatureType.CONTINUOUS, decimals=2, center=2.375, scale=3.0, cost=2.0),
        ]
    )
    question = Question(
        space,
        np.array([0.0, 0.0, 0.0, -3.875]),
        Constraints(bounds={"f2": Bounds(max=2)}),
        (LinearRule("f2 + f3 >= 0", (0.0, 0.0, -1.0, -1.0), 0.0),),
        LinearModel(np.array([-3.0, 0.0, 0.0, 2.5, -0.5, -3.0]), 0.0),
    )
    check(question, -0.75)


@pytest.mark.parametrize("seed", range(25))
def test_larger_schemas_are_searched_exactly_too(seed: int) -> None:
    check(large_question(seed), margin=0.0)


def large_question(seed: int) -> Question:
    """Twenty features with lattices and categories, and a cap."""
    rng = np.random.default_rng(seed)
    features, factual_raw = [], []
    for j in range(20):
        kind = [FeatureType.INTEGER, FeatureType.CONTINUOUS, FeatureType.CATEGORICAL, FeatureType.ORDINAL][j % 4]
        scaled = {"center": 0.0, "scale": float(rng.uniform(1, 5))}
        if kind is FeatureType.INTEGER:
            features.append(Feature(name=f"f{j}", type=kind, min=0, max=60, step=rng.choice([1.0, 6.0]), **scaled))
        elif kind is FeatureType.CONTINUOUS:
            features.append(Feature(name=f"f{j}", type=kind, min=0, max=60, decimals=rng.choice([None, 1]), **scaled))
        else:
            scaled = {} if kind is FeatureType.CATEGORICAL else scaled
            features.append(Feature(name=f"f{j}", type=kind, categories=tuple("abcde"), **scaled))
        factual_raw.append(float(rng.integers(0, 61 if features[-1].is_number else 5)))
    space = FeatureSpace(features)
    w = rng.standard_normal(space.d)
    model = LinearModel(w / np.linalg.norm(w), 0.0)
    start = float(model.score(space.encode(np.array([factual_raw])))[0])
    cap = rng.choice([None, 2, 4])
    return Question(
        space=space,
        factual_raw=np.array(factual_raw),
        constraints=Constraints(immutable=("f3", "f10"), max_changes=None if cap is None else int(cap)),
        rules=(),
        model=LinearModel(model.w, -start - float(rng.uniform(0.5, 3))),
    )


# --- boxes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_box_is_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 8))
    low, high = np.sort(rng.normal(size=(2, d)), axis=0)
    x0, w, price = rng.uniform(low, high), rng.standard_normal(d), rng.lognormal(size=d)
    space = FeatureSpace(
        [
            Feature(
                name=f"f{j}", type=FeatureType.CONTINUOUS, min=low[j], max=high[j], cost=price[j], center=0.0, scale=1.0
            )
            for j in range(d)
        ]
    )
    margins = np.sort(rng.normal(size=12)) * 2
    model = LinearModel(w, 0.0)
    rows = Search(model, action_set(space, x0)).rows(margins)
    answers = [
        linprog(
            np.tile(price, 2),
            A_ub=-np.concatenate([w, -w])[None],
            b_ub=[w @ x0 - margin],
            bounds=[*((0.0, up) for up in high - x0), *((0.0, down) for down in x0 - low)],
        )
        for margin in margins
    ]
    expected = [answer.fun for answer in answers if answer.status == 0]
    np.testing.assert_allclose(np.abs(rows - x0) @ price, expected, rtol=1e-9, atol=1e-9)
    assert (model.score(rows) >= margins[: len(rows)] - 1e-9).all()


# --- many margins ----------------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=examples(100))
@given(question=questions(with_rules=True, bounded=True), data=st.data())
def test_rows_come_up_to_the_first_margin_that_nothing_reaches(question: Question, data: st.DataObject) -> None:
    margins = np.unique(data.draw(st.lists(eighths(-4, 8), min_size=1, max_size=5)))
    rows = Search(question.model, question.action_set).rows(margins)
    alone = [found_row(question, margin) for margin in margins.tolist()]
    reached = [row_raw for row_raw in alone if row_raw is not None]
    assert [row_raw is None for row_raw in alone] == [False] * len(reached) + [True] * (len(alone) - len(reached))
    costs = question.action_set.cost(rows)
    np.testing.assert_allclose(costs, [question.action_set.cost(row_raw[None])[0] for row_raw in reached], atol=1e-5)
    assert (np.diff(costs) >= -1e-5).all()


@pytest.mark.parametrize("seed", range(10))
def test_rows_beyond_the_exact_ones_are_legal_and_cost_little_more(seed: int) -> None:
    question = large_question(seed)
    search = Search(question.model, question.action_set)
    margins = np.array([0.0, 0.5, 1.0])
    exact, quick = search.rows(margins), search.rows(margins, exact_up_to=0.0)
    assert question.action_set.contains(quick).all()
    assert len(quick) == len(exact)
    assert (question.model.score(question.space.encode(quick)) >= margins[: len(quick)] - 1e-7).all()
    assert (question.action_set.cost(quick) <= 1.25 * question.action_set.cost(exact) + 1e-9).all()


# --- kinds -----------------------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=examples(200))
@given(question=questions(with_rules=False), margin=eighths(-2, 4))
def test_a_projection_is_rounded_onto_legal_rows_that_meet_the_margin(question: Question, margin: float) -> None:
    exact, free = (
        Search(question.model, question.action_set, kind=kind).rows(np.array([margin]))
        for kind in ("actionable", "projection")
    )
    assert len(free) == len(exact)
    if len(free):
        assert question.action_set.contains(free)[0]
        assert score(question, free[0]) >= margin - 1e-7
        assert question.action_set.cost(free)[0] >= question.action_set.cost(exact)[0] * (1 - 3e-6) - 3e-6


def test_under_a_rule_a_projection_does_not_round_it_away() -> None:
    space = numeric_space((0, 10), (0, 10), decimals=0)
    rule = LinearRule("2 f0 = 3 f1", (2.0, -3.0), 0.0, equality=True)
    model = LinearModel(np.array([1.0, 1.0]), -6.0)
    actions = action_set(space, np.array([3.0, 2.0]), rules=[rule])
    rows = Search(model, actions, kind="projection").rows(np.array([0.0]))
    assert rows.tolist() == [[6.0, 4.0]]


def numeric_space(*bounds: tuple[float, float], **common: object) -> FeatureSpace:
    return FeatureSpace(
        [
            Feature(name=f"f{j}", type=FeatureType.CONTINUOUS, min=a, max=b, center=0.0, scale=1.0, **common)  # type: ignore[arg-type]
            for j, (a, b) in enumerate(bounds)
        ]
    )


def test_a_rule_can_ask_for_a_move_that_the_score_does_not_notice() -> None:
    space = numeric_space((0, 10), (0, 10))
    rule = LinearRule("f0 <= f1", (1.0, -1.0), 0.0)
    question = Question(space, np.array([1.0, 2.0]), Constraints(), (rule,), LinearModel(np.array([1.0, 0.0]), -5.0))
    assert found_row(question, 0.0) == pytest.approx([5.0, 5.0])
    check(question, 0.0)


def test_a_rule_can_ask_for_a_move_against_the_score() -> None:
    space = numeric_space((0, 10), (0, 10))
    rule = LinearRule("f0 = f1", (1.0, -1.0), 0.0, equality=True)
    question = Question(space, np.array([2.0, 2.0]), Constraints(), (rule,), LinearModel(np.array([3.0, -1.0]), -8.0))
    assert found_row(question, 0.0) == pytest.approx([4.0, 4.0])
    check(question, 0.0)


def test_bounds_force_nothing_that_the_margin_does_not_need() -> None:
    space = numeric_space((0, 10), (0, 10), (0, 10))
    model = LinearModel(np.array([1.0, 1.0, 2.0]), -100.0)
    bounds = {"f0": Bounds(min=4), "f1": Bounds(max=1)}
    fact = np.array([2.0, 2.0, 2.0])
    for margin, expected in [(-92.0, [2.0, 2.0, 2.0]), (-90.0, [2.0, 2.0, 3.0]), (-74.0, [4.0, 2.0, 10.0])]:
        question = Question(space, fact, Constraints(bounds=bounds), (), model)
        assert found_row(question, margin) == pytest.approx(expected)
        check(question, margin)


def test_constraints_that_exclude_each_other_leave_the_fact() -> None:
    space = numeric_space((0, 10), (0, 10))
    constraints = Constraints(immutable=("f0",), bounds={"f0": Bounds(min=4)})
    question = Question(space, np.array([2.0, 2.0]), constraints, (), LinearModel(np.array([1.0, 0.0]), 0.0))
    assert found_row(question, 2.0) == pytest.approx([2.0, 2.0])
    assert found_row(question, 2.5) is None


@pytest.mark.parametrize(("margin", "expected"), [(0.1, [65.0, 0.1]), (6.0, [65.0, 6.0]), (10.0, [60.0, 5.0])])
def test_who_is_outside_the_range_of_advice_may_stay_there_or_come_into_it(
    margin: float, expected: list[float]
) -> None:
    hours, other = numeric_space((0, 99), (0, 6)).features
    space = FeatureSpace([replace(hours, advice=Advice(max=60), cost=2.0), other])
    question = Question(space, np.array([65.0, 0.0]), Constraints(), (), LinearModel(np.array([-1.0, 1.0]), 65.0))
    assert found_row(question, margin) == pytest.approx(expected)
    check(question, margin)
    assert not question.action_set.contains(np.array([[62.0, 0.0], [66.0, 0.0]])).any()


def test_changes_in_turn_share_the_time() -> None:
    takes = Takes(months_per_unit=1.0)
    space = FeatureSpace([replace(feature, takes=takes) for feature in numeric_space((0, 9), (0, 9)).features])
    model = LinearModel(np.array([1.0, 1.0]), -6.0)
    together = Question(space, np.zeros(2), Constraints(), (), model, Timing(horizon_months=4.0))
    assert found_row(together, 0.0) is not None
    in_turn = replace(together, timing=Timing(horizon_months=4.0, sequential=True))
    assert found_row(in_turn, 0.0) is None
    assert found_row(in_turn, -2.0) is not None
    assert relaxation(in_turn, 0.0) is not None


# --- relaxations -----------------------------------------------------------------------------------------------------


def single_constraints(question: Question) -> list[tuple[str, str | None]]:
    """Everything in the request that could be relaxed."""
    c = question.constraints
    found: list[tuple[str, str | None]] = [("immutable", name) for name in c.immutable]
    for constraint in ("direction", "bounds", "max_change", "least_change"):
        found += [(constraint, name) for name in getattr(c, constraint)]
    found += [("max_changes", None)] if c.max_changes is not None else []
    return found + ([("horizon_months", None)] if question.timing.horizon_months is not None else [])


def relaxation(question: Question, margin: float) -> Relaxation | None:
    return Search(question.model, question.action_set).relaxation(margin)


@settings(PROPERTY, max_examples=examples(120))
@given(questions(bounded=True, with_rules=True))
def test_the_relaxation_is_the_one_constraint_whose_removal_helps_most(question: Question) -> None:
    reach = program(question).highest()
    margin = max(reach, 0.0) + 0.5
    reaches = {one: program(without(question, *one)).highest() for one in single_constraints(question)}
    best = max(reaches.values(), default=-np.inf)
    named = relaxation(question, margin)
    assert (named is None) == (best <= reach + 1e-6)
    if named is not None:
        assert reaches[named.constraint, named.feature] == pytest.approx(best, abs=1e-5)
        assert named.sufficient == (best >= margin)


def test_what_a_rule_forbids_is_not_named_as_the_constraint_to_relax() -> None:
    """Without the limit on f0, its rule with f1 would stop it; f2 is free once it may change."""
    space = numeric_space((0, 10), (0, 1), (0, 3))
    model = LinearModel(np.array([2.0, 0.0, 1.0]), -2.5)
    rules = (LinearRule("f0 <= f1", (1.0, -1.0, 0.0), 0.0),)
    constraints = Constraints(immutable=("f2",), bounds={"f0": Bounds(max=0)})
    named = relaxation(Question(space, np.zeros(3), constraints, rules, model), 0.0)
    assert named is not None
    assert (named.constraint, named.feature, named.sufficient) == ("immutable", "f2", True)


def test_time_that_changes_share_counts_for_the_constraint_to_relax() -> None:
    """In turn, each unit takes a month: more of f1 beside f0 does not help, a longer time does."""
    takes = Takes(months_per_unit=1.0)
    space = FeatureSpace([replace(feature, takes=takes) for feature in numeric_space((0, 9), (0, 9)).features])
    constraints = Constraints(bounds={"f1": Bounds(max=1)})
    timing = Timing(horizon_months=4.0, sequential=True)
    question = Question(space, np.zeros(2), constraints, (), LinearModel(np.array([1.0, 1.0]), -6.0), timing)
    named = relaxation(question, 0.0)
    assert named is not None
    assert (named.constraint, named.feature, named.sufficient) == ("horizon_months", None, True)


def test_constraints_that_exclude_each_other_are_the_ones_to_relax() -> None:
    space = numeric_space((0, 10), (0, 10))
    model = LinearModel(np.array([1.0, 5.0]), -10.0)
    constraints = Constraints(immutable=("f0", "f1"), bounds={"f0": Bounds(min=4)})
    named = relaxation(Question(space, np.array([2.0, 2.0]), constraints, (), model), 0.0)
    assert named is not None
    assert (named.constraint, named.feature, named.sufficient) == ("immutable", "f1", True)


def test_nothing_is_named_where_a_rule_forbids_what_each_constraint_does() -> None:
    space = numeric_space((0, 10), (0, 10))
    rule = LinearRule("f0 <= f1", (1.0, -1.0), 0.0)
    constraints = Constraints(immutable=("f1",), bounds={"f0": Bounds(max=4)})
    question = Question(space, np.array([1.0, 4.0]), constraints, (rule,), LinearModel(np.array([1.0, 0.0]), -5.0))
    assert relaxation(question, 0.0) is None  # f0 and f1 would both have to be free
    named = relaxation(replace(question, constraints=Constraints(immutable=("f1",))), 0.0)
    assert named is not None
    assert (named.constraint, named.feature, named.sufficient) == ("immutable", "f1", True)


def test_the_range_of_the_model_is_not_a_constraint_to_relax() -> None:
    space = FeatureSpace(
        [
            Feature(name="income", type=FeatureType.CONTINUOUS, min=0, max=1, center=0.0, scale=1.0),
            Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0),
            Feature(name="savings", type=FeatureType.ORDINAL, categories=("a", "b"), center=0.0, scale=1.0),
            Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("a", "b")),
        ]
    )
    model = LinearModel(np.array([1.0, 1.0, 1.0, 0.0, 1.0]), -10.0)
    assert relaxation(Question(space, np.zeros(4), Constraints(), (), model), 0.0) is None
