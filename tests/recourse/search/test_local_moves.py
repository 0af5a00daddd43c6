"""Single moves: legal by the definitions, and enough to find what is best."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings

from app.recourse.actions.action_set import action_set
from app.recourse.actions.rules import LinearRule
from app.recourse.search.local_moves import CHUNK, SingleMoves
from tests.recourse import oracle
from tests.recourse.certified import Clock
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

pytestmark = CHECKED_AT_RANDOM


@settings(PROPERTY, max_examples=examples(200))
@given(questions(with_rules=True))
def test_every_neighbour_of_a_legal_row_is_legal_and_another_record(question: Question) -> None:
    actions = question.action_set
    row = actions.factual_raw
    if not actions.contains(row[None])[0]:
        return
    for _ in range(3):
        rows = SingleMoves(actions).of(row)
        for neighbour in rows:
            assert oracle.row_is_legal(
                question.space, question.factual_raw, neighbour, question.constraints, question.rules, question.timing
            )
            assert (neighbour != row).any()
            assert (neighbour != question.factual_raw).any()
        if not len(rows):
            return
        row = rows[-1]


def test_every_category_and_both_ends_of_a_range_are_one_move_away() -> None:
    actions = ask(LOAN, loan_score, loan_rows(1)[0].tolist(), rows_raw=loan_rows(50))[0].action_set
    rows = SingleMoves(actions).of(actions.factual_raw)
    for j, feature in enumerate(LOAN.features):
        if actions.movable[j] and not feature.is_number:
            assert set(rows[:, j]) == set(range(len(feature.levels)))
        elif actions.movable[j]:
            ends = {end for end in (actions.lower_raw[j], actions.upper_raw[j]) if math.isfinite(end)}
            assert ends <= set(rows[:, j])
    levels = SingleMoves(actions).of(actions.factual_raw, levels_only=True)
    assert {tuple(np.flatnonzero(row != actions.factual_raw)) for row in levels} == {(6,)}


def test_a_full_cap_gives_up_one_change_for_another() -> None:
    actions = ask(plane(3), lambda X: X[:, 0], [0.0, 0.0, 0.0], constraints={"max_changes": 1})[0].action_set
    goal = np.array([0.0, 0.0, 2.5])
    end = SingleMoves(actions).descend(
        np.array([2.0, 0.0, 0.0]), lambda rows: np.abs(rows - goal).sum(axis=1), steps=50, until=math.inf
    )
    np.testing.assert_allclose(end, goal, atol=2e-3)


def test_where_each_feature_counts_by_itself_single_moves_find_the_best_record() -> None:
    actions = action_set(LOAN, loan_rows(1, seed=3)[0])
    target = loan_rows(1, seed=8)[0]

    def value(rows: np.ndarray) -> np.ndarray:
        return np.abs((rows - target) / np.array([12, 12, 1500, 0.2, 1, 1, 1, 1])).sum(axis=1)

    end = SingleMoves(actions).descend(actions.factual_raw, value, steps=100, until=math.inf)
    lattices = [
        np.arange(max(18, actions.lower_raw[0]), 91), np.arange(6, 73, 6), np.arange(3), np.arange(2), np.arange(3),
    ]  # fmt: skip
    columns = [0, 1, 4, 5, 6]
    best = end.copy()
    for j, values in zip(columns, lattices, strict=True):
        best[j] = values[np.abs(values - target[j]).argmin()]
    assert value(end[None])[0] <= value(best[None])[0] + 0.01
    assert len(list(itertools.chain(end))) == LOAN.p


def test_no_move_is_tried_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = action_set(LOAN, loan_rows(1)[0])
    moves = SingleMoves(actions)
    monkeypatch.setattr(moves, "_neighbours", None)
    end = moves.descend(actions.factual_raw, lambda rows: 1 / 0, steps=10, until=time.monotonic() - 1.0)  # type: ignore[arg-type,return-value]
    assert (end == actions.factual_raw).all()


def test_many_neighbours_are_looked_at_a_few_at_a_time_and_no_longer_than_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, d = Clock.installed(monkeypatch), 60
    rule = LinearRule("sum <= 4", (1.0,) * d, 4.0)
    problem, _ = ask(plane(d), lambda X: X[:, 0], [0.0] * d, constraints={"max_changes": 4}, rules=[rule])
    row = np.zeros(d)
    row[:4] = 1.0
    looked_at: list[int] = []

    def value(rows: np.ndarray) -> np.ndarray:
        clock.now += 1.0
        looked_at.append(rows.size)
        return -rows[:, 5]

    moves = SingleMoves(problem.action_set)
    end = moves.descend(row, value, steps=1, until=math.inf)
    np.testing.assert_array_equal(end, moves.of(row)[moves.of(row)[:, 5].argmax()])
    assert max(looked_at) < 2 * CHUNK
    looked_at.clear()
    assert (moves.descend(row, value, steps=50, until=clock.now + 2.5) == row).all()
    assert len(looked_at) == 3
