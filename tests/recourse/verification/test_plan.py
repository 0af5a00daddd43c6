"""Verification of a plan: of a local model the plan comes alone, of a remote one with what may replace its members."""

from dataclasses import replace

import numpy as np
import pytest

from app.recourse.candidates import PlanCandidates
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.verification import Draft, verify_plan
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import Spy, ask, plane

PLAN = np.array([[1.0], [2.0]])
OTHERS = np.array([[3.0], [4.0], [5.0]])


def verified(problem: RecourseProblem, *, different: int = 2) -> tuple[Draft, int]:
    """The answer, and how often the method was asked for replacements; of what it chooses, so many are different."""
    asked = 0

    def replacements() -> np.ndarray:
        nonlocal asked
        asked += 1
        return OTHERS

    draft = Draft(problem, Meter(problem.black_box))
    draft.candidates = PlanCandidates(
        count=2, plan_raw=PLAN, replacements=replacements, choose=lambda rows_raw: np.arange(len(rows_raw))[:different],
        rank=lambda rows_raw: rows_raw[:, 0], relax=lambda: None,
    )  # fmt: skip
    draft.calls_left = 2
    verify_plan(draft, draft.candidates)
    return draft, asked


def question(accepted_from: float) -> tuple[RecourseProblem, Spy]:
    return ask(plane(1, low=0.0, high=50.0), lambda X: X[:, 0] - accepted_from, [0.0])


@pytest.mark.parametrize("different", [1, 2])
def test_where_the_model_accepts_the_plan_nothing_is_searched_in_its_place(different: int) -> None:
    """Not for members that are left out for being alike, either: the plan has the first place among all rows."""
    problem, spy = question(accepted_from=1.0)
    draft, asked = verified(problem, different=different)
    assert [one.row_raw.tolist() for one in draft.found] == PLAN[:different].tolist()
    assert (asked, draft.calls, [len(X) for X in spy.asked]) == (0, 1, [2])


@pytest.mark.parametrize("accepted_from", [1.5, 2.5, 3.5])
def test_refused_members_are_replaced_in_the_same_call_to_the_same_end(accepted_from: float) -> None:
    local, spy = question(accepted_from)
    draft, asked = verified(local)
    assert (asked, draft.calls, [len(X) for X in spy.asked]) == (1, 1, [2, 3])
    spy.asked.clear()
    at_once, asked = verified(replace(local, black_box=replace(local.black_box, remote=Far(spy))))
    assert (asked, at_once.calls, [len(X) for X in spy.asked]) == (1, 1, [5])
    expected = [row for row in [*PLAN.tolist(), *OTHERS.tolist()] if row[0] >= accepted_from][:2]
    for one in (draft, at_once):
        assert [found.row_raw.tolist() for found in one.found] == expected
        assert one.warnings == at_once.warnings
        assert "refused" in one.warnings[0]


@pytest.mark.parametrize(("accepted_from", "own"), [(3.5, 2), (4.5, 1), (20.0, 0)])
def test_a_plan_that_records_of_no_method_fill_up_says_so(accepted_from: float, own: int) -> None:
    problem, _ = question(accepted_from)
    draft, _ = verified(problem)
    rows = [one.row_raw.tolist() for one in draft.found]
    proposed = [row for row in rows if row in [*PLAN.tolist(), *OTHERS.tolist()]]
    assert len(proposed) == own
    assert all(row[0] >= accepted_from for row in rows)
    assert draft.fallback == (len(rows) > own) == (own < 2)
