"""Records in the favourable boxes of a tree, against trying every legal record."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.tree_boxes import Boxes
from app.recourse.robustness.invalidation import noise_columns
from app.recourse.search.tree_leaves import rows_in_boxes
from tests.recourse import oracle
from tests.recourse.questions import (
    CHECKED_AT_RANDOM,
    PROPERTY,
    Question,
    constraints,
    examples,
    questions,
    rows,
    spaces,
)
from tests.recourse.toys import LOAN, loan_rows, loan_score

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]


@st.composite
def trees(draw: st.DrawFn, space: FeatureSpace) -> Boxes:
    """A random tree of up to three levels that splits where records differ: between numbers and inside categories."""
    feature, threshold, left, right, score = [], [], [], [], []

    def node(depth: int) -> int:
        k = len(feature)
        column = draw(st.integers(0, space.d - 1))
        j = int(space.feature_of_column[column])
        if space.features[j].is_group:
            edge = draw(st.sampled_from([0.5, 0.0, 0.25]))
        else:
            raw = draw(st.integers(-40, 40)) / 4.0
            edge = (raw - space.features[j].center) / space.features[j].scale
        inner = depth < 3 and draw(st.sampled_from([True, True, depth == 0]))
        feature.append(column)
        threshold.append(edge)
        score.append(draw(st.sampled_from([-1.0, 1.0])))
        left.append(-1)
        right.append(-1)
        if inner:
            left[k] = node(depth + 1)
            right[k] = node(depth + 1)
        return k

    node(0)
    arrays = np.array(feature), np.array(threshold), np.array(left), np.array(right)

    def walk(X: Points) -> Float[np.ndarray, "n"]:
        found = []
        for x in X:
            at = 0
            while left[at] >= 0:
                at = left[at] if x[feature[at]] <= threshold[at] else right[at]
            found.append(score[at])
        return np.array(found)

    return Boxes.of_tree(*arrays, columns=space.d, score=walk)


def everything(boxes: Boxes, actions: ActionSet, std: Float[np.ndarray, "d"]) -> Points:
    return np.concatenate([np.empty((0, actions.space.p)), *rows_in_boxes(boxes, actions, std)])


@st.composite
def cases(draw: st.DrawFn, *, with_rules: bool) -> tuple[Question, Boxes, float]:
    question = draw(questions(with_rules=with_rules))
    return question, draw(trees(question.space)), draw(st.sampled_from([0.0, 0.1, 1.0]))


@settings(PROPERTY, max_examples=examples(150))
@given(cases(with_rules=True))
def test_every_record_is_legal_favourable_and_new(case: tuple[Question, Boxes, float]) -> None:
    question, boxes, noise = case
    A, space = question.action_set, question.space
    rows_raw = everything(boxes, A, noise_columns(space, noise))
    for row_raw in rows_raw:
        assert oracle.row_is_legal(
            space, question.factual_raw, row_raw, question.constraints, question.rules, question.timing
        )
        assert (row_raw != question.factual_raw).any()
    assert (boxes.score(space.encode(rows_raw)) >= 0.0).all()
    assert (np.diff(A.cost(rows_raw)) >= 0.0).all()
    assert len(np.unique(rows_raw, axis=0)) == len(rows_raw)


def legal_values(feature: Feature, fact: float, question: Question, edges: Float[np.ndarray, "k"]) -> Iterator[float]:
    """Of whole numbers all; of others the lattice, or what lies on the edges of boxes and just beyond."""
    if not feature.is_number:
        values = np.arange(len(feature.levels), dtype=float)
    elif feature.type is FeatureType.INTEGER or feature.decimals is not None:
        grid = oracle.lattice(feature)
        assert grid is not None
        ticks = np.arange(np.floor(-24.0 / float(grid[1])), np.ceil(24.0 / float(grid[1])) + 1.0)
        values = np.unique(np.round([float(grid[0]) + float(grid[1]) * tick for tick in ticks], 6))
    else:
        values = np.concatenate([edges, np.array(edges) + 1e-9])
        low, high = oracle.interval(feature, fact, question.constraints)
        least = oracle.least(feature, question.constraints)
        ends = (low, high, fact - least, fact + least)
        values = np.append(values, [end for end in ends if np.isfinite(end)])
    for value in np.append(values, fact).tolist():
        if oracle.value_is_legal(feature, fact, value, question.constraints):
            yield value


@st.composite
def small_cases(draw: st.DrawFn) -> tuple[Question, Boxes, float]:
    """Without caps and rules, and few enough records to try them all."""
    space = draw(spaces(max_size=3))
    limits = replace(draw(constraints(space)), max_changes=None)
    question = Question(space, draw(rows(space)), limits, (), None)  # type: ignore[arg-type]
    return question, draw(trees(space)), draw(st.sampled_from([0.0, 0.5]))


@settings(PROPERTY, max_examples=examples(300))
@given(small_cases())
def test_the_cheapest_record_that_the_tree_accepts_is_among_them(case: tuple[Question, Boxes, float]) -> None:
    question, boxes, noise = case
    A, space, values = question.action_set, question.space, []
    for j, feature in enumerate(space.features):
        column, edges = space.spans[j].start, np.empty(0)
        if not feature.is_group:
            edges = np.unique(np.concatenate([boxes.lower[:, column], boxes.upper[:, column]]))
            edges = edges[np.isfinite(edges)] * feature.scale + feature.center
        values.append(sorted(set(legal_values(feature, question.factual_raw[j], question, edges))))
    if np.prod([len(one) for one in values]) > 60_000:
        return
    tried = np.array(list(product(*values))).reshape(-1, space.p)
    tried = tried[(tried != question.factual_raw).any(axis=1)]
    accepted = tried[boxes.score(space.encode(tried)) >= 0.0] if len(tried) else tried
    found = everything(boxes, A, noise_columns(space, noise))
    # Where the factual is accepted, a box may hold nothing nearer than the factual itself, which is no answer.
    if boxes.score(space.encode(question.factual_raw[None]))[0] >= 0.0:
        return
    assert (len(found) > 0) == (len(accepted) > 0)
    if len(found):
        cheapest = min(oracle.cost(space, question.factual_raw, row_raw) for row_raw in accepted)
        assert A.cost(found).min() == pytest.approx(cheapest, abs=1e-7)


@pytest.mark.parametrize("center", [0.0, 0.3, 37.1, -2500.0])
@pytest.mark.parametrize("scale", [1.0, 3.0, 0.07, 1234.5])
@pytest.mark.parametrize("up", [True, False])
def test_a_number_that_is_implemented_exactly_goes_just_beyond_the_edge(center: float, scale: float, up: bool) -> None:
    """Rounding between encoded and raw numbers must not leave it on the edge itself, which is refused."""
    feature = Feature(name="x", type=FeatureType.CONTINUOUS, center=center, scale=scale, noise=False)
    space = FeatureSpace([feature])
    for edge in np.linspace(-1.7, 1.9, 25):
        boxes = Boxes(
            np.array([[-np.inf], [edge]]), np.array([[edge], [np.inf]]), np.array([-1.0, 1.0]) * (1.0 if up else -1.0)
        )
        person = np.array([center + scale * (edge - 1.0 if up else edge + 1.0)])
        rows_raw = everything(boxes, action_set(space, person), np.zeros(1))
        assert len(rows_raw) > 0
        assert abs(space.encode(rows_raw)[0, 0] - edge) < 1e-9 * (1.0 + abs(center) / scale)


def test_deeper_records_have_lower_rates_and_cost_more() -> None:
    """One split on income: each depth is a margin, so rates fall as costs rise."""
    column = LOAN.columns.index("income")
    edge = np.array([0.5, 0.0, 0.0])
    boxes = Boxes.of_tree(
        np.full(3, column), edge, np.array([1, -1, -1]), np.array([2, -1, -1]), columns=LOAN.d,
        score=lambda X: np.where(X[:, column] > 0.5, 1.0, -1.0),
    )  # fmt: skip
    person = loan_rows(50)[loan_rows(50)[:, 2] < 2000][0]
    std = noise_columns(LOAN, 0.2)
    rows_raw = everything(boxes, action_set(LOAN, person), std)
    rates = boxes.rate(LOAN.encode(rows_raw), std)
    assert len(rows_raw) > 5
    assert (np.diff(rates) < 0.0).all()
    assert 0.35 < rates[0] < 0.5  # the factual rounds to a cheaper dollar than the next one beyond the edge
    assert rates[-1] < 0.002


def test_caps_are_kept_by_leaving_records_out() -> None:
    from app.recourse.actions.constraints import Constraints
    from app.recourse.surrogate.tree import distil

    rows_raw = loan_rows(800, seed=1)
    boxes = distil(LOAN.encode(rows_raw), loan_score(LOAN.encode(rows_raw)) >= 0.0).boxes
    person = loan_rows(100)[loan_score(LOAN.encode(loan_rows(100))) < -1.0][0]
    free, capped = (
        everything(boxes, action_set(LOAN, person, constraints=Constraints(max_changes=cap)), noise_columns(LOAN, 0.1))
        for cap in (None, 1)
    )
    assert 0 < len(capped) < len(free)
    assert ((capped != person).sum(axis=1) == 1).all()
