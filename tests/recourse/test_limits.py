"""What advice may propose, time, and limits that people think in: no answer of any method breaks them."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.actions.action_set import action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE, least_worth
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.actions.timing import Timing
from app.recourse.features import (
    Advice,
    Change,
    Feature,
    FeatureSpace,
    FeatureType,
    MaxChange,
    Missing,
    MovesWithTime,
    Takes,
)
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import METHODS, solve
from tests.recourse import oracle
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score

OPTIONS: dict[str, dict[str, Any]] = {
    "age": {"moves_with_time": MovesWithTime(per_year=1), "change": Change.ANY},
    "months": {"advice": Advice(max=48), "takes": Takes(months=1)},
    "income": {"max_change": MaxChange(relative=0.5), "takes": Takes(months_per_unit=0.004), "least_change": 100},
    "rate": {"advice": Advice(min=0.1, max=0.8), "least_change": 0.05},
    "savings": {"takes": Takes(months=2, months_per_level=3), "advice": Advice(categories=("none", "much"))},
    "guarantor": {"takes": Takes(months=0.5)},
    "housing": {"advice": Advice(categories=("owns",)), "takes": Takes(months=6)},
    "origin": {"change": Change.ANY, "protected": True},
}
LIMITED = FeatureSpace([replace(feature, **OPTIONS[feature.name]) for feature in LOAN.features])
ROWS = loan_rows(400, seed=1)


def people(count: int) -> Float[np.ndarray, "n p"]:
    """Refused applicants, the first of them outside several ranges of advice."""
    rows = loan_rows(400, seed=3)
    rows = rows[loan_score(LOAN.encode(rows)) < -0.2]
    rows[0, 1], rows[0, 3], rows[0, 6] = 60.0, 0.95, 2.0
    return rows[:count]


def question(space: FeatureSpace, row_raw: Float[np.ndarray, "p"], **known: Any) -> RecourseProblem:
    return ask(space, loan_score, row_raw.tolist(), rows_raw=ROWS, **known)[0]


def check(problem: RecourseProblem, result: RecourseResult) -> None:
    """Every limit, from the definitions."""
    A = problem.action_set
    horizon = A.timing.horizon_months or math.inf
    for one in result.counterfactuals:
        row, fact = one.row_raw, problem.factual_raw
        passed = math.floor(one.takes_months / 12 + 1e-9)
        assert row[0] == min(fact[0] + passed, max(90, fact[0]))
        still = np.concatenate([[fact[0]], row[1:]])
        assert oracle.row_is_legal(A.space, fact, still, A.constraints, A.rules, A.timing)
        assert 0 not in one.changed
        assert row[7] == fact[7]
        months = [oracle.months(*pair) for pair in zip(A.space.features, fact.tolist(), row.tolist(), strict=True)]
        assert one.takes_months == pytest.approx(sum(months) if A.timing.sequential else max(months))
        assert one.takes_months <= horizon * (1 + 1e-9)
        assert one.cost == pytest.approx(oracle.cost(A.space, fact, still))


FOREVER, SOON, ONE_AFTER_THE_OTHER = TIMINGS = [
    Timing(), Timing(horizon_months=5), Timing(horizon_months=15, sequential=True),
]  # fmt: skip
SLOW = {
    ("roar", FOREVER), ("wachter", FOREVER), ("wachter", ONE_AFTER_THE_OTHER),
    ("learning_augmented", FOREVER), ("learning_augmented", ONE_AFTER_THE_OTHER),
    ("roar", TIMINGS[-1]), ("copa", FOREVER), ("copa", TIMINGS[-1]), ("dice", FOREVER), ("dice", TIMINGS[-1]),
}  # fmt: skip
"""Hundreds of programs each; the programs of these methods are those of `loss_and_cost`."""

LIMITS = [
    pytest.param(name, timing, id=f"{name}-{k}", marks=[pytest.mark.release] if (name, timing) in SLOW else [])
    for name, (k, timing) in product(METHODS, enumerate(TIMINGS))
]


@pytest.mark.parametrize(("name", "timing"), LIMITS)
def test_no_answer_breaks_a_limit(name: str, timing: Timing) -> None:
    method, found = METHODS[name], 0
    constraints = Constraints(bounds={"months": Bounds(max=36)}, max_change={"rate": MaxChange(absolute=0.4)})
    for row_raw in people(4):
        problem = question(LIMITED, row_raw, constraints=constraints, timing=timing)
        result = solve(problem, method, method.params())
        check(problem, result)
        found += result.status is Status.FOUND
    assert found >= 2


def test_what_takes_too_long_is_not_proposed() -> None:
    def levels(months: float | None) -> list[int]:
        actions = question(LIMITED, people(1)[0], timing=Timing(horizon_months=months)).action_set
        return [len(actions.levels(j)) if actions.movable[j] else 0 for j in (5, 6)]

    assert levels(None) == levels(6) == [2, 2]
    assert levels(5.9) == [2, 0]
    assert levels(0.4) == [0, 0]


@pytest.mark.parametrize(("hours", "legal"), [(65, True), (60, True), (59, True), (62, False), (66, False)])
def test_a_record_outside_the_range_of_advice_may_stay(hours: float, legal: bool) -> None:
    feature = Feature(
        name="hours", type=FeatureType.INTEGER, min=1, max=99, center=0.0, scale=1.0, advice=Advice(max=60)
    )
    actions = action_set(FeatureSpace([feature]), np.array([65.0]))
    assert actions.contains(np.array([[float(hours)]])).tolist() == [legal]


def test_codes_are_states_that_nobody_enters_or_leaves() -> None:
    codes = {-9.0: "no record", 100.0: "not applicable"}
    number = Feature(name="x", type=FeatureType.INTEGER, special=codes, center=0.0, scale=1.0)
    space = FeatureSpace([number, replace(number, name="y", type=FeatureType.CONTINUOUS)])
    actions = action_set(space, np.array([50.0, -9.0]))
    assert actions.movable.tolist() == [True, False]
    assert (actions.lower_raw[0], actions.upper_raw[0]) == (-8, 99)
    # A neighbour in a state says nothing about a value.
    far = np.array([[-20.0, 5.0], [500.0, 100.0], [-9.0, -9.0]])
    assert actions.snap(far).tolist() == [[-8.0, -9.0], [99.0, -9.0], [50.0, -9.0]]


def test_a_missing_category_is_never_proposed() -> None:
    space = FeatureSpace(
        [Feature(name="home", type=FeatureType.CATEGORICAL, categories=("a", "b"), missing=Missing.NAN)]
    )
    assert action_set(space, np.array([0.0])).levels(0) == (0, 1)
    assert not action_set(space, np.array([2.0])).movable.any()


@pytest.mark.parametrize(
    ("fact", "spread", "least"),
    [(1850.0, 1500.0, 37.0), (0.0, 1500.0, 30.0), (50_000.0, 1000.0, 250.0), (2005.0, 10.0, 2.5), (0.4, 0.2, 0.008)],
)
def test_the_least_change_worth_advising(fact: float, spread: float, least: float) -> None:
    """2 % of one's own value or of the spread, whichever is more, but never more than a quarter of the spread."""
    feature = Feature(name="x", type=FeatureType.CONTINUOUS, center=0.0, scale=spread)
    assert least_worth(feature, fact, LEAST_SHARE) == pytest.approx(least)
    actions = action_set(FeatureSpace([feature]), np.array([fact]), least_share=LEAST_SHARE)
    assert actions.contains(fact + least * np.array([[-1.0], [-0.9], [0.0], [0.9], [1.0]])).tolist() == [
        True, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("least", [10.0, 100.0])
def test_who_says_what_is_worth_advising_is_heard(least: float) -> None:
    feature = Feature(name="x", type=FeatureType.CONTINUOUS, center=0.0, scale=1500.0)
    for known in (replace(feature, least_change=least), feature):
        constraints = Constraints(least_change={} if known.least_change else {"x": least})
        actions = action_set(
            FeatureSpace([known]), np.array([1850.0]), constraints=constraints, least_share=LEAST_SHARE
        )
        assert actions.above_raw[0] == 1850.0 + least
    both = action_set(
        FeatureSpace([replace(feature, least_change=50.0)]),
        np.array([0.0]),
        constraints=Constraints(least_change={"x": least}),
    )
    assert both.above_raw[0] == max(50.0, least)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_advises_a_change_that_is_not_worth_it(name: str) -> None:
    numbers = 0
    for row_raw in people(3):
        problem = question(LOAN, row_raw)
        problem = replace(problem, action_set=action_set(LOAN, row_raw, least_share=LEAST_SHARE))
        for one in solve(problem, METHODS[name], METHODS[name].params()).counterfactuals:
            for j in one.changed:
                if LOAN.features[j].is_number:
                    numbers += 1
                    least = least_worth(LOAN.features[j], row_raw[j], LEAST_SHARE)
                    assert abs(one.row_raw[j] - row_raw[j]) >= least * (1.0 - 1e-12)
    assert numbers > 0


# --- time ------------------------------------------------------------------------------------------------------------


def worker(*, per_year: float = 1.0, decimals: int | None = 1) -> FeatureSpace:
    return FeatureSpace(
        [
            Feature(
                name="job", type=FeatureType.CONTINUOUS, min=0, max=50, decimals=decimals, center=0.0, scale=1.0,
                moves_with_time=MovesWithTime(per_year=per_year),
            ),
            Feature(
                name="age", type=FeatureType.INTEGER, min=18, max=99, center=0.0, scale=1.0,
                moves_with_time=MovesWithTime(per_year=1),
            ),
            Feature(
                name="school", type=FeatureType.ORDINAL, categories=("low", "middle", "high"), center=0.0, scale=1.0,
                takes=Takes(months_per_level=18),
            ),
        ]
    )  # fmt: skip


def test_time_passes_everywhere_at_once_and_costs_nothing() -> None:
    actions = action_set(worker(), np.array([2.0, 30.0, 0.0]))
    rows = np.array([[2.0, 30.0, 1.0], [3.5, 31.0, 1.0], [3.5, 30.0, 1.0], [5.0, 33.0, 2.0], [3.5, 31.0, 2.0]])
    assert actions.contains(rows).tolist() == [True, True, False, True, False]
    assert actions.clock.settled(rows[:1]).tolist() == [[3.5, 31.0, 1.0]]
    assert actions.cost(rows).tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
    assert actions.changed(rows).tolist() == [1] * 5
    assert actions.clock.total(rows[[1, 3]]).tolist() == [18.0, 36.0]


def test_nobody_is_asked_for_more_time_than_there_is() -> None:
    fact = np.array([2.0, 30.0, 0.0])
    actions = action_set(worker(), fact, timing=Timing(horizon_months=20))
    assert actions.upper_raw.tolist() == [2.0, 30.0, 1.0]
    waits = actions.clock.waiting()
    assert (waits[:, 2] == 0.0).all()
    assert waits[-1].tolist() == [3.6, 31.0, 0.0]
    assert actions.contains(waits).all()
    assert not actions.contains(np.array([[4.0, 32.0, 0.0]])).any()


def test_an_answer_is_about_the_record_as_it_will_be_then() -> None:
    """School takes 18 months; by then the job is long enough to make up for what school does not."""
    rows = np.column_stack([np.linspace(0, 20, 200), np.linspace(18, 60, 200), np.arange(200) % 3])
    problem, _ = ask(worker(), lambda X: X[:, 0] + X[:, 2] - 4.0, [2.0, 30.0, 0.0], rows_raw=rows)
    method = METHODS["robust_mpm"]
    (found,) = solve(problem, method, method.params()).counterfactuals
    assert found.row_raw.tolist() in ([3.5, 31.0, 1.0], [5.0, 33.0, 2.0])
    assert found.takes_months in (18.0, 36.0)
    assert found.changed == (2,)


def test_where_nothing_else_helps_time_alone_is_an_answer_and_no_advice() -> None:
    rows = np.column_stack([np.linspace(0, 20, 200), np.linspace(18, 60, 200), np.arange(200) % 3])
    known: dict[str, Any] = {"rows_raw": rows, "timing": Timing(horizon_months=12)}
    method = METHODS["robust_mpm"]
    problem, _ = ask(worker(), lambda X: X[:, 0] - 2.5, [2.0, 30.0, 0.0], **known)
    (found,) = solve(problem, method, method.params()).counterfactuals
    assert (found.cost, found.changed) == (0.0, ())
    assert found.takes_months <= 12.0
    assert 2.5 <= found.row_raw[0] <= 3.0
    problem, _ = ask(worker(), lambda X: X[:, 0] - 9.0, [2.0, 30.0, 0.0], **known)
    assert solve(problem, method, method.params()).status is Status.NOT_FOUND


@pytest.mark.parametrize("per_year", [1.0, -0.5])
@pytest.mark.parametrize("decimals", [None, 0, 1])
def test_records_in_time_are_settled_once(per_year: float, decimals: int | None) -> None:
    space = worker(per_year=per_year, decimals=decimals)
    actions = action_set(space, np.array([2.0, 98.0, 0.0]), timing=Timing(horizon_months=60, sequential=True))
    rows = actions.clock.settled(np.array([[2.0, 98.0, float(level)] for level in range(3)]))
    assert actions.contains(rows).all()
    np.testing.assert_array_equal(actions.clock.settled(rows), rows)
    assert (rows[:, 1] <= 99.0).all()
    assert ((rows[:, 0] - 2.0) * per_year >= 0.0).all()


# --- verdicts and warnings -------------------------------------------------------------------------------------------


def test_a_verdict_names_what_the_request_asks_and_never_what_the_lender_fixed() -> None:
    row_raw = people(2)[1]
    fixed = tuple(name for name in LOAN.names if name not in ("income", "origin"))
    method = METHODS["robust_mpm"]
    lenders = FeatureSpace([replace(LIMITED.features[2], max_change=MaxChange(absolute=1)), *LOAN.features[3:]])
    lenders = FeatureSpace([*LIMITED.features[:2], *lenders.features])
    problem = question(lenders, row_raw, constraints=Constraints(immutable=fixed))
    result = solve(problem, method, method.params())
    assert result.verdict is not None
    assert result.verdict.relax is not None
    assert result.verdict.relax.feature in fixed
    assert result.verdict.relax.feature not in ("age", "origin")
    alone = FeatureSpace([replace(feature, change=Change.NONE) for feature in LOAN.features])
    result = solve(question(alone, row_raw), method, method.params())
    assert result.verdict is not None
    assert result.verdict.relax is None


def test_a_short_horizon_is_what_the_person_can_relax() -> None:
    space = FeatureSpace([replace(feature, takes=Takes(months=9)) for feature in LOAN.features])
    method = METHODS["robust_mpm"]
    problem = question(space, people(2)[1], timing=Timing(horizon_months=2))
    verdict = solve(problem, method, method.params()).verdict
    assert verdict is not None
    assert verdict.relax is not None
    assert (verdict.relax.constraint, verdict.relax.feature) == ("horizon_months", None)
    assert (verdict.relax.sufficient, verdict.relax.takes_months) == (True, 9.0)
    assert verdict.relax.text == (
        "Taking longer than 2 months would help most: an answer that takes 9 months was found."
    )


def test_who_says_nothing_of_time_is_told_how_long_an_answer_takes() -> None:
    """Answers take no longer than they are valid, which the person has not asked for."""
    space = FeatureSpace([replace(feature, takes=Takes(months=9)) for feature in LOAN.features])
    method = METHODS["robust_mpm"]
    row_raw = people(2)[1]
    problem = replace(question(space, row_raw), action_set=action_set(space, row_raw, valid_months=3.0))
    result = solve(problem, method, method.params())
    assert result.verdict is not None
    assert result.verdict.relax is not None
    assert result.verdict.relax.text == (
        "Taking longer than the 3 months for which an answer is valid would help most: an answer that takes 9 months "
        "was found."
    )
    asked = solve(question(space, row_raw, timing=Timing(horizon_months=9)), method, method.params())
    assert asked.counterfactuals


def test_more_time_is_no_advice_that_is_enough_where_no_answer_is_found_with_it() -> None:
    slow = [replace(feature, change=Change.NONE) for feature in LOAN.features]
    slow[2] = replace(LOAN.features[2], takes=Takes(months=9), max_change=MaxChange(absolute=1))
    method = METHODS["robust_mpm"]
    row_raw = people(2)[1]
    problem = question(FeatureSpace(slow), row_raw)
    problem = replace(problem, action_set=action_set(FeatureSpace(slow), row_raw, valid_months=3.0))
    result = solve(problem, method, method.params())
    assert result.verdict is not None
    assert result.verdict.relax is not None
    assert result.verdict.relax.constraint == "horizon_months"
    assert not result.verdict.relax.sufficient
    assert result.verdict.relax.text.endswith("would help most.")


def test_values_beyond_the_reference_are_answered_with_a_warning_that_names_nothing_protected() -> None:
    row_raw = people(2)[1].copy()
    row_raw[0], row_raw[2] = 17.0, 50_000.0
    space = FeatureSpace([replace(LOAN.features[0], min=0, protected=True), *LOAN.features[1:]])
    method = METHODS["robust_mpm"]
    result = solve(question(space, row_raw), method, method.params())
    warnings = [text for text in result.warnings if "reference records" in text]
    low, high = ROWS[:, 2].min(), ROWS[:, 2].max()
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"The value of the income lies outside what the reference records show: {low:,.0f} to {high:,.0f}."
    )


@pytest.mark.parametrize("value", [100.0, 99.95, 101.0, 0.1])
def test_rounding_does_not_put_a_value_beyond_the_reference_inside_it(value: float) -> None:
    """The records go from 0.2 to 99.9."""
    feature = Feature(name="utilisation", type=FeatureType.CONTINUOUS, unit="%", decimals=0)
    rows_raw = np.linspace(0.2, 99.9, 50)[:, None]
    problem, _ = ask(FeatureSpace([replace(feature, center=0.0, scale=1.0, spread=1.0)]), lambda X: X[:, 0], [50.0],
                     rows_raw=rows_raw)  # fmt: skip
    assert problem.reference.unseen(np.array([value])) == [
        "The value of the utilisation lies outside what the reference records show: 0.2% to 99.9%."
    ]
