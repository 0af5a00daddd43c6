"""The ladder of proposals: of a local model the first rungs come alone, of a remote one all of them at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.recourse.candidates import Candidates
from app.recourse.features import Change, FeatureSpace, MovesWithTime, Takes
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem
from app.recourse.verification import Draft, verify_fallback, verify_one
from app.recourse.verification.single import FIRST_RUNGS, LADDER, LEFT_OUT_WARNING
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import Spy, ask, plane

MOST_CALLS = 2
"""Of a verification: the ladder, and repair and polish."""


def question(accepted_from: float, *, begun: bool = False) -> tuple[RecourseProblem, Spy]:
    """One number that starts at 0, and a model that accepts it from some value on."""
    problem, spy = ask(plane(1, low=0.0, high=50.0), lambda X: X[:, 0] - accepted_from, [0.0])
    if begun:
        problem = replace(problem, action_set=replace(problem.action_set, begun={0: 1.0}))
    return problem, spy


def candidates(
    proposed: list[int],
    *,
    is_optimal: bool = True,
    reach: float = 50.0,
    shortfall: Callable[..., np.ndarray] | None = None,
) -> Candidates:
    """The number is proposed as 1, and more by each extra margin; `proposed` has the length of each proposal."""

    def propose(extra_margins: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m 1"]:
        rows_raw = 1.0 + extra_margins[extra_margins + 1.0 <= reach][:, None]
        proposed.append(len(rows_raw))
        return rows_raw

    return Candidates(
        propose=propose,
        meets=lambda rows_raw: rows_raw[:, 0] >= 1.0,
        rank=lambda rows_raw: rows_raw[:, 0],
        extra_margin_unit=1.0,
        is_optimal=is_optimal,
        shortfall=shortfall,
    )


def verified(problem: RecourseProblem, proposals: Candidates, calls: int = MOST_CALLS) -> Draft:
    draft = Draft(problem, Meter(problem.black_box))
    draft.candidates, draft.calls_left = proposals, calls
    draft.factual_score = -0.5
    verify_one(draft, proposals, [])
    return draft


def far(problem: RecourseProblem, spy: Spy) -> RecourseProblem:
    return replace(problem, black_box=replace(problem.black_box, remote=Far(spy)))


def test_the_rest_of_the_ladder_is_not_even_proposed_where_the_model_accepts_one_of_the_first() -> None:
    problem, spy = question(accepted_from=1.0)
    proposed: list[int] = []
    draft = verified(problem, candidates(proposed))
    assert draft.found[0].row_raw.tolist() == [1.0]
    assert proposed == [FIRST_RUNGS]
    assert len(spy.asked[0]) == FIRST_RUNGS


@pytest.mark.parametrize("accepted_from", [1.2, 1.6, 3.0, 4.5, 20.0, 32.9, 45.0])
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("begun", [False, True])
def test_a_refused_beginning_continues_in_the_same_call_to_the_same_end(
    accepted_from: float, calls: int, begun: bool
) -> None:
    """The last rung is 33; beyond it, fallback records are what remains."""
    local, spy = question(accepted_from, begun=begun)
    in_parts = verified(local, candidates([]), calls)
    asked = len(spy.asked)
    at_once = verified(far(local, spy), candidates([]), calls)
    assert [one.row_raw.tolist() for one in in_parts.found] == [one.row_raw.tolist() for one in at_once.found]
    assert in_parts.fallback == at_once.fallback
    assert in_parts.calls_left == at_once.calls_left
    assert in_parts.calls == at_once.calls == len(spy.asked) - asked <= calls
    assert asked <= in_parts.calls + (accepted_from > 1.5)


def test_a_remote_model_is_asked_about_the_whole_ladder_at_once() -> None:
    problem, spy = question(accepted_from=1.0)
    proposed: list[int] = []
    verified(far(problem, spy), candidates(proposed))
    assert proposed == [len(LADDER)]
    assert len(spy.asked[0]) == len(LADDER)


def test_a_ladder_whose_first_rung_need_not_be_the_best_is_verified_whole() -> None:
    for proposals in ({"is_optimal": False}, {"shortfall": lambda rows_raw: np.zeros(len(rows_raw))}):
        problem, spy = question(accepted_from=1.0)
        verified(problem, candidates([], **proposals))
        assert len(spy.asked[0]) == len(LADDER)


def test_a_ladder_that_ends_among_the_first_rungs_has_no_rest() -> None:
    problem, spy = question(accepted_from=3.0)
    draft = verified(problem, candidates([], reach=1.2), calls=MOST_CALLS)
    assert not draft.found
    assert (draft.calls, len(spy.asked)) == (1, 1)


def test_a_call_is_counted_once_whichever_part_of_it_asks_something() -> None:
    """Illegal rungs are not asked about, so that the second part may be the first that asks."""
    problem, spy = question(accepted_from=3.0)
    least = replace(problem.action_set, above_raw=np.array([2.0]))
    draft = verified(replace(problem, action_set=least), candidates([]))
    assert draft.found
    assert (draft.calls, len(spy.asked)) == (2, 2)
    assert all(len(X) > 0 for X in spy.asked)


@pytest.mark.parametrize(("accepted_from", "cheaper"), [(2.0, True), (40.0, False)])
def test_an_answer_that_misses_its_constraint_says_what_others_cost(accepted_from: float, cheaper: bool) -> None:
    """The nearest to the constraint is the end of the range; the model accepts much less."""
    problem, _ = question(accepted_from)
    never = replace(
        candidates([]), propose=lambda extra_margins: np.empty((0, 1)), meets=lambda rows: rows[:, 0] > 99.0
    )
    draft = Draft(problem, Meter(problem.black_box))
    draft.candidates, draft.calls_left = never, MOST_CALLS
    verify_one(draft, never, [])
    verify_fallback(draft)
    assert draft.found[0].row_raw.tolist() == [50.0]
    assert draft.misses
    assert bool(draft.price_warnings) == cheaper
    if cheaper:
        assert f"costs {draft.least_cost:.3g}, where this answer costs 50;" in draft.price_warnings[0]
        assert accepted_from <= draft.least_cost <= 25.0


@pytest.mark.parametrize("seed", range(5))
def test_a_record_that_only_has_to_be_accepted_is_made_cheaper(seed: int) -> None:
    """Where the decisions around a person determine no surrogate, records of others reach further than needed."""
    reference = np.random.default_rng(seed).uniform(-5.0, 5.0, (400, 4))
    problem, _ = ask(
        plane(4), lambda X: np.where((X[:, :2] >= 1.0).all(axis=1), 1.0, -1.0), [-1.0] * 4, rows_raw=reference
    )
    draft = Draft(problem, Meter(problem.black_box))
    draft.calls_left = MOST_CALLS
    verify_fallback(draft)
    (found,) = draft.found
    assert set(found.changed) == {0, 1}
    assert found.cost <= 1.2 * 4.0


def crooked(**changes: Any) -> tuple[RecourseProblem, Candidates]:
    """A method that asks for both of two numbers to rise, of a model that is better off without the second."""
    problem, _ = ask(plane(2, low=0.0, high=50.0), lambda X: X[:, 0] - 0.5 * X[:, 1] - 0.5, [0.0, 0.0])
    proposals = Candidates(
        propose=lambda extra_margins: 2.0 + np.stack([extra_margins, extra_margins], axis=1),
        meets=lambda rows_raw: rows_raw.min(axis=1) >= 2.0,
        rank=lambda rows_raw: rows_raw.min(axis=1),
        extra_margin_unit=1.0,
        yields_to_model=True,
    )
    return problem, replace(proposals, **changes)


def test_a_change_that_lowers_the_score_of_the_model_is_left_out_and_the_answer_says_so() -> None:
    draft = verified(*crooked())
    assert [one.row_raw.tolist() for one in draft.found] == [[2.0, 0.0]]
    assert not draft.fallback
    assert draft.warnings == [LEFT_OUT_WARNING.format("a change")]


@pytest.mark.parametrize(("worth", "kept"), [(0.06, True), (0.04, False)])
def test_a_change_that_hardly_raises_the_score_is_left_out(worth: float, kept: bool) -> None:
    """One change less is worth a twentieth of the rise of the score."""
    _, proposals = crooked()
    problem, _ = ask(plane(2, low=0.0, high=50.0), lambda X: X @ np.array([1.0 - worth, worth]) - 0.5, [0.0, 0.0])
    (found,) = verified(problem, proposals).found
    assert found.row_raw.tolist() == [2.0, 2.0 if kept else 0.0]


def test_nothing_is_left_out_where_the_constraint_is_asked_for_or_scores_cannot_tell() -> None:
    problem, proposals = crooked()
    labels, _ = ask(
        plane(2, low=0.0, high=50.0), lambda X: X[:, 0] - 0.5 * X[:, 1] >= 0.5, [0.0, 0.0], output=Output.LABEL
    )
    remote, spy = ask(plane(2, low=0.0, high=50.0), lambda X: X[:, 0] - 0.5 * X[:, 1] - 0.5, [0.0, 0.0])
    for kept in (
        (problem, replace(proposals, yields_to_model=False)),
        (replace(problem, on_curve=True), proposals),
        (replace(problem, future_validity=0.9), proposals),
        (labels, proposals),
        (far(remote, spy), proposals),
    ):
        draft = verified(*kept)
        assert draft.found[0].row_raw.tolist() == [2.0, 2.0]
        assert not draft.warnings


def test_nobody_waits_for_a_change_that_is_left_out() -> None:
    """The change takes a year, in which a third number moves by itself."""
    first, second, third = plane(3, low=0.0, high=50.0).features
    slow = replace(second, takes=Takes(months=12.0))
    space = FeatureSpace([first, slow, replace(third, change=Change.NONE, moves_with_time=MovesWithTime(per_year=1.0))])
    problem, _ = ask(space, lambda X: X[:, 0] - 0.5 * X[:, 1] - 0.5, [0.0, 0.0, 5.0])
    _, proposals = crooked()
    proposals = replace(
        proposals, propose=lambda extra: np.stack([2.0 + extra, 2.0 + extra, np.full(len(extra), 6.0)], axis=1),
        meets=lambda rows_raw: rows_raw[:, :2].min(axis=1) >= 2.0, rank=lambda rows_raw: rows_raw[:, :2].min(axis=1),
    )  # fmt: skip
    (found,) = verified(problem, proposals).found
    assert found.row_raw.tolist() == [2.0, 0.0, 5.0]
    assert found.takes_months == 0.0
