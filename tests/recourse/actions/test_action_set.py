"""What one person can change."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.errors import ConstraintClash, InvalidRequest, RecourseError
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.constraints import Bounds, Constraints, Direction, check_constraints
from app.recourse.actions.relaxed import relaxed
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import Advice, Change, Feature, FeatureSpace, FeatureType, MaxChange, Takes
from tests.recourse import oracle
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, numbers, questions, without

pytestmark = CHECKED_AT_RANDOM

AGE = Feature(name="age", type=FeatureType.INTEGER, min=18, max=100, change=Change.INCREASE, center=40.0, scale=10.0)
MONTHS = Feature(name="months", type=FeatureType.INTEGER, min=4, max=72, step=6, center=0.0, scale=6.0)
INCOME = Feature(name="income", type=FeatureType.CONTINUOUS, min=0, decimals=1, center=0.0, scale=100.0)
AMOUNT = Feature(name="amount", type=FeatureType.CONTINUOUS, max=1000, center=0.0, scale=100.0, cost=2.0)
SAVINGS = Feature(name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"), center=0.0, scale=2.0)
GUARANTOR = Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0)
HOUSING = Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rents", "owns", "free"), cost=0.5)
ORIGIN = Feature(name="origin", type=FeatureType.CATEGORICAL, categories=("here", "there"), change=Change.NONE)
SPACE = FeatureSpace([AGE, MONTHS, INCOME, AMOUNT, SAVINGS, GUARANTOR, HOUSING, ORIGIN])
FACT: dict[str, float] = {
    "age": 30.0, "months": 24.0, "income": 200.25, "amount": 500.0, "savings": 1.0, "guarantor": 0.0, "housing": 0.0,
    "origin": 0.0,
}  # fmt: skip


def row(**changes: float) -> Float[np.ndarray, "p"]:
    return np.array(list((FACT | changes).values()))


def actions(rules: tuple[LinearRule, ...] = (), **constraints: object) -> ActionSet:
    return action_set(SPACE, row(), constraints=Constraints(**constraints), rules=rules)  # type: ignore[arg-type]


def allows(found: ActionSet, **changes: float) -> bool:
    return bool(found.contains(row(**changes)[None])[0])


# --- against the definitions -----------------------------------------------------------------------------------------


@st.composite
def questions_and_rows(draw: st.DrawFn) -> tuple[Question, Float[np.ndarray, "n p"]]:
    """An applicant, and rows that change some features to legal or illegal values."""
    question = draw(questions(with_rules=True))
    found = []
    for _ in range(5):
        row_raw = question.factual_raw.copy()
        for j, feature in enumerate(question.space.features):
            if draw(st.booleans()):
                row_raw[j] = draw(numbers(replace(feature, min=None, max=None)))
        found.append(row_raw)
    return question, np.array(found)


@settings(PROPERTY, max_examples=examples(300))
@given(questions_and_rows())
def test_a_row_is_legal_iff_the_definitions_say_so(drawn: tuple[Question, Float[np.ndarray, "n p"]]) -> None:
    question, rows_raw = drawn
    expected = [
        oracle.row_is_legal(
            question.space, question.factual_raw, row_raw, question.constraints, question.rules, question.timing
        )
        for row_raw in rows_raw
    ]
    assert question.action_set.contains(rows_raw).tolist() == expected


@PROPERTY
@given(questions_and_rows())
def test_cost_is_weighted_l1_with_categories_counting_once(drawn: tuple[Question, Float[np.ndarray, "n p"]]) -> None:
    question, rows_raw = drawn
    expected = [oracle.cost(question.space, question.factual_raw, row_raw) for row_raw in rows_raw]
    np.testing.assert_allclose(question.action_set.cost(rows_raw), expected, atol=1e-12)
    assert question.action_set.changed(rows_raw).tolist() == [
        sum(value != fact for value, fact in zip(row_raw, question.factual_raw, strict=True)) for row_raw in rows_raw
    ]


def without_cap(question: Question) -> ActionSet:
    return replace(question, constraints=replace(question.constraints, max_changes=None), rules=()).action_set


def test_a_derived_feature_is_refused_with_what_it_is_derived_from() -> None:
    space = FeatureSpace([INCOME, AMOUNT, Feature(name="share", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0,
                                                  derived="amount / (income + 1)")])  # fmt: skip
    with pytest.raises(InvalidRequest) as caught:
        check_constraints(space, Constraints(bounds={"share": Bounds(max=2)}, immutable=("none",)), {"share": 2.0})
    found = {fault.pointer: fault.detail for fault in caught.value.faults}
    expected = "is derived, from amount and income: name these instead"
    assert found["/constraints/bounds/share"] == found["/cost_weights/share"] == expected
    assert found["/constraints/immutable/0"].startswith("is not a feature of this model")


@pytest.mark.parametrize(
    ("limit", "texts"),
    [
        (1, ["Allowing more than 1 changed feature would help most.", "Taking longer than 1 month would help most."]),
        (2, ["Allowing more than 2 changed features would help most.", "Taking longer than 2 months would help most."]),
    ],
)
def test_one_is_not_in_the_plural_where_a_limit_is_to_be_relaxed(limit: int, texts: list[str]) -> None:
    space = FeatureSpace([replace(AMOUNT, takes=Takes(months=0.5))])
    constraints, timing = Constraints(max_changes=limit), Timing(horizon_months=limit)
    found = action_set(space, np.array([500.0]), constraints=constraints, timing=timing)
    assert [one.text for one in relaxed(found)] == texts


@settings(PROPERTY, max_examples=examples(200))
@given(questions_and_rows())
def test_snapped_rows_are_legal_and_legal_rows_are_not_moved(
    drawn: tuple[Question, Float[np.ndarray, "n p"]],
) -> None:
    question, rows_raw = drawn
    found = without_cap(question)
    if (found.lower_raw > found.upper_raw).any():
        return
    snapped = found.snap(rows_raw)
    assert found.contains(snapped).all()
    np.testing.assert_allclose(found.snap(snapped), snapped, atol=1e-9)
    legal = found.contains(rows_raw)
    np.testing.assert_allclose(snapped[legal], rows_raw[legal], atol=1e-9)


@settings(PROPERTY, max_examples=examples(200))
@given(drawn=questions_and_rows(), upward=st.booleans())
def test_rounding_lands_on_legal_numbers_of_the_wanted_side(
    drawn: tuple[Question, Float[np.ndarray, "n p"]], upward: bool
) -> None:
    question, rows_raw = drawn
    found = without_cap(question)
    if (found.lower_raw > found.upper_raw).any():
        return
    inside = np.clip(rows_raw, found.lower_raw, found.upper_raw)
    rounded = found.round(inside, toward_raw=np.full_like(inside, math.inf if upward else -math.inf))
    assert found.contains(rounded).all()
    moved = rounded - inside
    moved[:, question.space.groups] = 0.0  # without an order there is no side
    assert (moved >= -1e-9 if upward else moved <= 1e-9).all()
    # Never past the next lattice point, nor farther than a gap beside the factual.
    gap = np.maximum(found.above_raw - found.factual_raw, found.factual_raw - found.below_raw)
    whole = np.maximum(np.maximum(found.step_raw, gap), 1e-9)
    assert (np.abs(moved) <= whole)[:, [j not in found.restricted for j in range(found.space.p)]].all()


# --- one constraint at a time ----------------------------------------------------------------------------------------


def test_what_the_model_itself_allows() -> None:
    found = actions()
    assert allows(found, age=31)
    assert not allows(found, age=29)
    assert not allows(found, age=101)
    assert not allows(found, origin=1)
    assert allows(found, amount=-1e9)
    assert not allows(found, amount=1000.5)
    assert allows(found, savings=0, guarantor=1, housing=2)
    assert not allows(found, savings=3)
    assert not allows(found, housing=0.5)


def test_whole_numbers_move_along_steps_from_their_minimum_even_where_the_fact_lies_between() -> None:
    found = actions()
    assert allows(found, months=24)
    assert [months for months in range(4, 73) if allows(found, months=months) and months != 24] == list(range(4, 73, 6))
    assert not allows(found, months=22.5)


def test_decimals_are_a_lattice_that_the_fact_may_miss() -> None:
    found = actions()
    assert allows(found, income=200.3)
    assert not allows(found, income=200.35)
    assert allows(found)
    assert found.snap(row(income=300.04)[None])[0, 2] == 300.0
    assert found.round(row(income=300.04)[None], toward_raw=row(income=math.inf)[None])[0, 2] == 300.1


def test_lattice_points_are_written_as_a_person_would() -> None:
    found = actions()
    snapped = found.snap(np.array([row(income=k / 10 + 1e-12) for k in range(10_000)]))[:, 2]
    assert snapped.tolist() == [float(f"{k // 10}.{k % 10}") for k in range(10_000)]


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("decimals", [None, 0, 2])
def test_large_amounts_stay_as_a_person_writes_them(decimals: int | None, size: float) -> None:
    type_ = FeatureType.INTEGER if decimals is None else FeatureType.CONTINUOUS
    feature = Feature(name="x", type=type_, center=0.0, scale=size, decimals=decimals)
    rng = np.random.default_rng(0)
    written = np.array([[float(f"{x:.{decimals or 0}f}")] for x in rng.uniform(0.5 * size, size, 1000)])
    found = action_set(FeatureSpace([feature]), np.array([1.0]))
    assert found.contains(written).all()
    assert np.array_equal(found.snap(written), written)


@pytest.mark.parametrize("size", [1e6, 1e9, 1e10])
def test_a_large_amount_is_within_bounds_that_leave_nothing_else(size: float) -> None:
    space = FeatureSpace([replace(INCOME, min=None, decimals=2)])
    rng = np.random.default_rng(0)
    for amount in [2382494023.64, *(round(float(x), 2) for x in rng.uniform(0.1 * size, size, 300))]:
        fixed = action_set(
            space, np.array([1.0]), constraints=Constraints(bounds={"income": Bounds(min=amount, max=amount)})
        )
        assert fixed.upper_raw[0] == amount
        assert fixed.contains(np.array([[1.0], [amount], [amount - 0.01]])).tolist() == [True, True, False]


def test_a_bound_on_a_lattice_point_can_be_reached() -> None:
    for cents in range(20_030, 30_000, 130):
        end = float(f"{cents / 100:.1f}")
        assert actions(bounds={"income": Bounds(max=end)}).upper_raw[2] == end


def test_zero_has_no_sign() -> None:
    space = FeatureSpace([replace(INCOME, min=None)])
    (rounded,) = action_set(space, np.array([5.0])).snap(np.array([[-0.04]]))
    assert math.copysign(1.0, rounded[0]) == 1.0


def test_immutable_features_stay() -> None:
    found = actions(immutable=("months", "housing"))
    assert not allows(found, months=22)
    assert not allows(found, housing=1)
    assert allows(found, savings=2)
    assert found.movable.tolist() == [True, False, True, True, True, True, False, False]


def test_one_way_features_move_one_way() -> None:
    found = actions(direction={"savings": Direction.INCREASE, "income": Direction.DECREASE})
    assert allows(found, savings=2, income=200.2)
    assert not allows(found, savings=0)
    assert not allows(found, income=200.3)


def test_bounds_of_an_ordinal_are_categories() -> None:
    found = actions(bounds={"savings": Bounds(min="some"), "guarantor": Bounds(max=0)})
    assert allows(found, savings=2)
    assert not allows(found, savings=0)
    assert not allows(found, guarantor=1)


def test_bounds_that_exclude_the_fact_limit_proposals_and_force_nothing() -> None:
    found = actions(bounds={"months": Bounds(min=27, max=45)})
    assert [months for months in range(4, 73) if allows(found, months=months)] == [24, 28, 34, 40]
    assert [found.snap(row(months=months)[None])[0, 1] for months in (4, 25, 27, 50)] == [24, 24, 28, 40]


def test_bounds_between_two_lattice_points_leave_the_fact() -> None:
    found = actions(bounds={"months": Bounds(min=29, max=33)})
    assert [months for months in range(4, 73) if allows(found, months=months)] == [24]
    assert not found.movable[1]


def test_at_most_so_many_features_change() -> None:
    found = actions(max_changes=2)
    assert allows(found, savings=2, housing=1)
    assert not allows(found, savings=2, housing=1, guarantor=1)


@pytest.mark.parametrize(
    ("equality", "income", "expected"),
    [(False, 400, True), (False, 500.1, False), (True, 500, True), (True, 400, False)],
)
def test_rules_hold_between_numbers(equality: bool, income: float, expected: bool) -> None:
    coefficients = tuple(float(name == "income") - float(name == "amount") for name in SPACE.names)
    rule = LinearRule("income <= amount", coefficients, 0.0, equality=equality)
    assert allows(actions(rules=(rule,)), income=income) is expected


def test_a_rule_forgives_rounding_only() -> None:
    rule = LinearRule("a + b <= 0.3", (1.0, 1.0), 0.3)
    assert rule.holds(np.array([[0.1, 0.2], [0.1, 0.2 + 1e-6], [1e9, -1e9 + 0.3]])).tolist() == [True, False, True]


def test_cost_weights_multiply_the_schemas_own() -> None:
    found = action_set(SPACE, row(), cost_weights={"amount": 3.0, "housing": 4.0})
    costs = found.cost(np.array([row(), row(amount=400), row(housing=2), row(savings=2), row(age=35, housing=1)]))
    assert costs.tolist() == [0.0, 6.0, 2.0, 0.5, 2.5]


def test_a_box_has_no_lattice_rule_or_cap() -> None:
    plain = FeatureSpace([AMOUNT])
    fact = np.array([500.0])
    assert action_set(plain, fact).is_box
    assert not action_set(plain, fact, constraints=Constraints(max_changes=1)).is_box
    assert not action_set(plain, fact, rules=[LinearRule("", (1.0,), 0.0)]).is_box
    assert not actions().is_box


# --- which constraints could be relaxed ------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=examples(200))
@given(questions_and_rows())
def test_each_relaxation_is_the_set_without_one_constraint_of_the_request(
    drawn: tuple[Question, Float[np.ndarray, "n p"]],
) -> None:
    question, rows_raw = drawn
    found = question.action_set
    for one in relaxed(found):
        looser = without(question, one.constraint, one.feature).action_set
        assert one.actions.contains(rows_raw).tolist() == looser.contains(rows_raw).tolist()
        assert one.actions.contains(rows_raw)[found.contains(rows_raw)].all()
        feature = next((f for f in question.space.features if f.name == one.feature), None)
        assert feature is None or not feature.is_fixed


def test_what_the_lender_has_fixed_is_never_named() -> None:
    space = FeatureSpace(
        [
            replace(AGE, change=Change.INCREASE, advice=Advice(max=31), max_change=MaxChange(absolute=1)),
            replace(INCOME, protected=True, change=Change.ANY),
        ]
    )
    found = action_set(
        space, np.array([30.0, 200.25]), valid_months=1.0, constraints=Constraints(immutable=("income",))
    )
    assert list(relaxed(found)) == []


# --- faults ----------------------------------------------------------------------------------------------------------


def pointers(error: type[RecourseError], *, weights: dict[str, float] | None = None, **constraints: object) -> set[str]:
    with pytest.raises(error) as caught:
        action_set(SPACE, row(), constraints=Constraints(**constraints), cost_weights=weights)  # type: ignore[arg-type]
    assert type(caught.value) is error
    return {fault.pointer for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"immutable": ("age", "ago")}, {"/constraints/immutable/1"}),
        ({"direction": {"a/b": Direction.INCREASE}}, {"/constraints/direction/a~1b"}),
        ({"direction": {"housing": Direction.INCREASE}}, {"/constraints/direction/housing"}),
        ({"bounds": {"nobody": Bounds(min=1)}}, {"/constraints/bounds/nobody"}),
        ({"bounds": {"housing": Bounds(min="owns")}}, {"/constraints/bounds/housing"}),
        ({"bounds": {"age": Bounds(min="old")}}, {"/constraints/bounds/age/min"}),
        ({"bounds": {"income": Bounds(max=math.nan)}}, {"/constraints/bounds/income/max"}),
        ({"bounds": {"income": Bounds(max=math.inf)}}, {"/constraints/bounds/income/max"}),
        ({"bounds": {"savings": Bounds(max="plenty")}}, {"/constraints/bounds/savings/max"}),
        ({"bounds": {"savings": Bounds(min="much", max="none")}}, {"/constraints/bounds/savings"}),
        ({"bounds": {"age": Bounds(min=50, max=40)}}, {"/constraints/bounds/age"}),
    ],
)
def test_constraints_that_make_no_sense_are_invalid(constraints: dict[str, object], expected: set[str]) -> None:
    assert pointers(InvalidRequest, **constraints) == expected


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"direction": {"age": Direction.DECREASE}}, {"/constraints/direction/age"}),
        ({"bounds": {"age": Bounds(max=120)}}, {"/constraints/bounds/age/max"}),
        ({"bounds": {"age": Bounds(min=0, max=120)}}, {"/constraints/bounds/age/min", "/constraints/bounds/age/max"}),
    ],
)
def test_constraints_can_only_tighten(constraints: dict[str, object], expected: set[str]) -> None:
    assert pointers(ConstraintClash, **constraints) == expected


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf, 1e-308, 1e308])
def test_cost_weights_are_positive_and_comparable(weight: float) -> None:
    assert pointers(InvalidRequest, weights={"age": weight}) == {"/cost_weights/age"}


def test_cost_weights_name_features() -> None:
    assert pointers(InvalidRequest, weights={"ago": 1.0}) == {"/cost_weights/ago"}


def test_every_fault_is_told_at_once_those_of_form_before_clashes() -> None:
    faulty = {"immutable": ("x",), "bounds": {"age": Bounds(max=120), "income": Bounds(min="a")}}
    assert pointers(InvalidRequest, weights={"y": 1.0}, **faulty) == {
        "/constraints/immutable/0", "/constraints/bounds/income/min", "/cost_weights/y",
    }  # fmt: skip


def test_repeating_what_the_model_says_is_no_clash() -> None:
    found = actions(
        direction={"age": Direction.INCREASE}, immutable=("origin",), bounds={"age": Bounds(min=18, max=100)}
    )
    assert allows(found, age=31)
