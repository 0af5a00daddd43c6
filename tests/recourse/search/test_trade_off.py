"""The trade-off over whole action sets: legal, and as good as anything that other routes find."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.branching import QUICK
from app.recourse.search.trade_off import TradeOff
from tests.recourse import oracle
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, ruled_questions

pytestmark = CHECKED_AT_RANDOM


@st.composite
def objectives(draw: st.DrawFn, question: Question) -> LossAndCost:
    """An objective around the question's own model, with a prediction or without."""
    d = question.space.d
    weights = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0])
    predicted = LinearModel(np.array([draw(weights) for _ in range(d)]), draw(st.sampled_from([-3.0, 0.0, 1.0])))
    return LossAndCost(
        model=question.model,
        radius=draw(st.sampled_from([0.0, 0.1, 0.5, 1.5])),
        cost_weight=draw(st.sampled_from([0.02, 0.1, 0.5])),
        predicted=predicted if draw(st.booleans()) else None,
        share=draw(st.sampled_from([0.0, 0.3, 0.9, 1.0])),
    )


def by_definition(objective: LossAndCost, space: FeatureSpace, row_raw: np.ndarray, factual_raw: np.ndarray) -> float:
    """The objective of one row, from the formula; the worst model is built, not derived."""
    x = space.encode(row_raw[None])[0]
    cost = objective.cost_weight * oracle.cost(space, factual_raw, row_raw)
    w, c = objective.model.w - objective.radius * np.sign(x), objective.model.c - objective.radius
    worst = np.log1p(np.exp(-(w @ x + c))) + cost
    if objective.predicted is None:
        return float(worst)
    hopeful = np.log1p(np.exp(-(objective.predicted.w @ x + objective.predicted.c))) + cost
    return float(objective.share * worst + (1.0 - objective.share) * hopeful)


def values(feature: Feature, fact: float, constraints: Constraints, timing: Timing) -> list[float]:
    """Every legal value of one feature, a grid of them where it is continuous."""
    low, high = 0.0, len(feature.levels) - 1.0
    if not feature.is_group:
        low, high = oracle.interval(feature, fact, constraints, timing)
    grid = oracle.lattice(feature) if not feature.is_group else None
    if grid is not None and grid[1] >= 1:
        ticks = [float(grid[0] + k * grid[1]) for k in range(-60, 61)]
    elif feature.is_group or not feature.is_number:
        ticks = [float(k) for k in range(len(feature.levels))]
    else:
        ticks = [round(float(t), 2) for t in np.linspace(low, high, 5)] if low <= high else []
        ticks += [fact + way * oracle.least(feature, constraints) for way in (-1, 1)]
    legal = {t for t in [*ticks, fact] if oracle.value_is_legal(feature, fact, t, constraints, timing)}
    return sorted(legal)


@given(data=st.data())
@PROPERTY
def test_the_best_row_is_legal_and_nothing_legal_is_better(data: st.DataObject) -> None:
    question = data.draw(questions(bounded=True))
    objective = data.draw(objectives(question))
    problem = TradeOff(question.action_set, objective)
    best = problem.best()
    options = [
        values(feature, float(fact), question.constraints, question.timing)
        for feature, fact in zip(question.space.features, question.factual_raw, strict=True)
    ]
    rows = [
        np.array(row)
        for row in itertools.islice(itertools.product(*options), 500)
        if oracle.row_is_legal(
            question.space, question.factual_raw, np.array(row), question.constraints, timing=question.timing
        )
    ]
    assert best is not None
    assert best.proven or question.action_set.is_coupled
    assert oracle.row_is_legal(
        question.space, question.factual_raw, best.row_raw, question.constraints, timing=question.timing
    )
    value = by_definition(objective, question.space, best.row_raw, question.factual_raw)
    assert best.value == pytest.approx(value, rel=1e-9, abs=1e-9)
    others = [by_definition(objective, question.space, row, question.factual_raw) for row in rows]
    slack = 1e-4 if question.action_set.is_coupled else 1e-6
    assert value <= min(others, default=np.inf) * (1.0 + slack) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_between_whole_numbers_the_best_row_is_that_of_all_rows(seed: int) -> None:
    """Steps as wide as these leave the relaxation far from every row, so the optimum is only found by branching."""
    rng = np.random.default_rng(seed)
    number = Feature(name="f0", type=FeatureType.INTEGER, min=0, max=3, center=0.0, scale=1.0)
    space = FeatureSpace([replace(number, name=f"f{k}", cost=float(rng.uniform(0.5, 2.0))) for k in range(5)])
    worst, hopeful = rng.uniform(0.5, 3.0, (2, 5))
    objective = LossAndCost(
        model=LinearModel(worst, -6.0), radius=0.3, cost_weight=0.3, predicted=LinearModel(hopeful, -6.0), share=0.5
    )
    fact = np.zeros(5)
    best = TradeOff(action_set(space, fact), objective).best()
    assert best is not None
    assert best.proven
    every = [
        by_definition(objective, space, np.array(row, dtype=float), fact)
        for row in itertools.product(range(4), repeat=5)
    ]
    assert best.value == pytest.approx(min(every), rel=1e-6)


def test_a_row_that_the_rules_allow_is_not_the_best_for_that_reason() -> None:
    # The price of one rule leaves a single row, which keeps the others; the applicant's own has the same score.
    number = Feature(name="f0", type=FeatureType.CONTINUOUS, min=0.0, max=0.25, center=0.0, scale=0.5, cost=0.5)
    space = FeatureSpace([number, replace(number, name="f1", max=0.125)])
    fact = np.array([0.125, 0.0])
    rules = (
        LinearRule("f0 is at least 0.125", (-1.0, 0.0), -0.125, equality=False),
        LinearRule("f1 is less by 0.125", (-1.0, 1.0), -0.125, equality=True),
    )
    objective = LossAndCost(model=LinearModel(np.array([-0.25, 0.25]), 0.0), radius=0.0, cost_weight=0.02, share=0.0)
    best = TradeOff(action_set(space, fact, rules=rules), objective).best()
    assert best is not None
    assert best.row_raw.tolist() == fact.tolist()


@given(data=st.data())
@settings(PROPERTY, max_examples=examples(40))
def test_the_general_solver_finds_nothing_better(data: st.DataObject) -> None:
    question = data.draw(questions(bounded=data.draw(st.booleans())))
    objective = data.draw(objectives(question))
    problem = TradeOff(question.action_set, objective)
    best = problem.best()
    other = problem._by_program(objective.cost_weight)
    assert (best is None) == (other is None)
    if best is not None and other is not None:
        assert best.value <= other.value * (1.0 + 1e-5) + 1e-7
        if question.action_set.contains(other.row_raw[None])[0]:
            assert other.value <= best.value * (1.0 + 1e-4) + 1e-5


@given(data=st.data())
@settings(PROPERTY, max_examples=examples(200))
def test_under_rules_that_bind_nothing_legal_is_better(data: st.DataObject) -> None:
    question = data.draw(ruled_questions(bounded=True))
    objective = data.draw(objectives(question))
    problem = TradeOff(question.action_set, objective)
    best, quick = problem.best(), problem.best(effort=QUICK)
    options = [
        values(feature, float(fact), question.constraints, question.timing)
        for feature, fact in zip(question.space.features, question.factual_raw, strict=True)
    ]
    rows = np.array(list(itertools.islice(itertools.product(*options), 5000)))
    rows = rows[question.action_set.contains(rows)]
    if best is None or quick is None or not question.action_set.contains(best.row_raw[None])[0]:
        assert not len(rows)
        return
    assert oracle.row_is_legal(
        question.space, question.factual_raw, best.row_raw, question.constraints, question.rules
    )  # fmt: skip
    value = by_definition(objective, question.space, best.row_raw, question.factual_raw)
    assert best.value == pytest.approx(value, rel=1e-9, abs=1e-9)
    others = problem.value(rows) if len(rows) else np.array([np.inf])
    assert value <= others.min() * (1.0 + 1e-5) + 1e-7
    assert question.action_set.contains(quick.row_raw[None])[0]
    assert quick.value <= value * 1.25 + 1e-9


@given(data=st.data())
@settings(PROPERTY, max_examples=examples(40))
def test_rules_are_kept(data: st.DataObject) -> None:
    question = data.draw(questions(with_rules=True, bounded=True))
    best = TradeOff(question.action_set, data.draw(objectives(question))).best()
    if best is not None:
        assert oracle.row_is_legal(
            question.space, question.factual_raw, best.row_raw, question.constraints, question.rules, question.timing
        )
