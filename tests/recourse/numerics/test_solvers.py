"""Mixed-integer programs with a known answer."""

import math
import subprocess
import sys
import time
from typing import Any

import highspy
import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.numerics import solvers
from app.recourse.numerics.solvers import mixed_integer_program


def program(
    cost: list[float], row: list[float], low: float, *, integer: bool, limit: float = 10.0, high: float = math.inf
) -> list[float] | None:
    n = len(cost)
    found = mixed_integer_program(
        np.array(cost),
        np.array([row]).reshape(1, n),
        np.array([low]),
        np.array([high]),
        limit=np.full(n, limit),
        integer=np.full(n, integer),
    )
    return None if found is None else found.tolist()


def test_whole_numbers_are_whole_and_others_need_not_be() -> None:
    assert program([1.0, 1.1], [2.0, 3.0], 7.0, integer=False) == pytest.approx([0.0, 7.0 / 3.0])
    assert program([1.0, 1.1], [2.0, 3.0], 7.0, integer=True) in ([2.0, 1.0], [0.0, 3.0])
    assert program([1.0, 1.6], [2.0, 3.0], 7.0, integer=True) == [2.0, 1.0]


def test_what_nothing_satisfies_has_no_answer() -> None:
    assert program([1.0], [1.0], 11.0, integer=False) is None
    assert program([1.0], [2.0], 3.0, high=3.0, integer=True) is None


def test_a_program_without_variables_is_its_constraints() -> None:
    assert program([], [], -1.0, integer=True) == []
    assert program([], [], 1.0, integer=True) is None
    assert program([], [], -2.0, high=-1.0, integer=True) is None


def test_a_solver_that_runs_out_of_time_says_so() -> None:
    rng = np.random.default_rng(0)
    n = 60
    A = rng.integers(1, 1000, (20, n)).astype(float)
    half = np.floor(A.sum(axis=1) / 2)
    with pytest.raises(DeadlineExceeded):
        mixed_integer_program(
            np.ones(n), A, half, half, limit=np.ones(n), integer=np.ones(n, dtype=bool), deadline=time.monotonic()
        )


@pytest.mark.parametrize("seed", range(60))
def test_small_programs_are_solved_as_by_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 14)), int(rng.integers(1, 7))
    A = rng.integers(-9, 10, (m, n)) / 10.0 ** rng.integers(0, 4, (1, n))
    cost, lower, integer = rng.uniform(0.0, 1.0, n), rng.uniform(-3.0, 5.0, m), rng.random(n) < 0.6
    upper = np.where(rng.random(m) < 0.3, lower + rng.uniform(0.0, 1.0, m), np.inf)
    limit = rng.choice([1.0, 5.0, 30.0, 1000.0], n)
    other = milp(
        cost, constraints=LinearConstraint(A, lower, upper), bounds=Bounds(0.0, limit), integrality=integer.astype(int)
    )
    found = mixed_integer_program(cost, A, lower, upper, limit=limit, integer=integer)
    if found is None or other.x is None:
        assert found is other.x
        return
    assert (found[integer] == np.rint(found[integer])).all()
    assert ((found >= 0.0) & (found <= limit)).all()
    assert ((A @ found >= lower - 1e-6) & (A @ found <= upper + 1e-6)).all()
    assert cost @ found == pytest.approx(other.fun, rel=1e-5, abs=1e-5)


def test_what_cuts_say_is_a_constraint() -> None:
    """A sphere by its tangents: the whole number beside it, not the nearest point."""
    center = np.array([3.3, 3.3])

    def tangents(x: np.ndarray) -> list[tuple[np.ndarray, float]]:
        way = (x - center) / np.linalg.norm(x - center)
        return [(-way, float(-way @ center - 2.0))] if np.linalg.norm(x - center) > 2.0 + 1e-7 else []

    found = mixed_integer_program(
        np.array([1.0, 1.1]), np.zeros((0, 2)), np.zeros(0), np.zeros(0), limit=np.full(2, 9.0),
        integer=np.array([True, False]), cuts=tangents,
    )  # fmt: skip
    assert found == pytest.approx([2.0, 3.3 - np.sqrt(4.0 - 1.3**2)], abs=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_a_solution_that_breaks_cuts_to_the_last_is_none(whole: bool) -> None:
    def further(x: np.ndarray) -> list[tuple[np.ndarray, float]]:
        return [(np.ones(2), float(x.sum()) + 1.0)]

    with pytest.raises(SolverFailed, match="cuts"):
        mixed_integer_program(
            np.array([1.0, 1.1]), np.zeros((0, 2)), np.zeros(0), np.zeros(0), limit=np.full(2, 1e3),
            integer=np.array([whole, False]), cuts=further,
        )  # fmt: skip


def test_a_program_of_many_nodes_is_left_to_the_solvers_own_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "MOST_PROGRAMS", 1)
    assert program([1.0, 1.6], [2.0, 3.0], 7.0, integer=True) == [2.0, 1.0]
    assert program([1.0, 1.0], [2.0, 2.0], 3.0, high=3.0, integer=True) is None


def test_a_solver_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda _: highspy.HighsModelStatus.kSolveError)
    with pytest.raises(SolverFailed, match="kSolveError"):
        program([1.0, 1.6], [2.0, 3.0], 7.0, integer=True)


REPAIRED = """
import numpy as np
from app.recourse.numerics.solvers import largest_cover, mixed_integer_program

rng = np.random.default_rng(92)
A = rng.integers(-9, 10, (6, 10)) / 10.0 ** rng.integers(0, 4, (1, 10))
cost, lower, integer = rng.uniform(0.0, 1.0, 10), rng.uniform(0.0, 5.0, 6), rng.random(10) < 0.5
limits = {"limit": np.full(10, 1000.0), "integer": integer}
assert mixed_integer_program(cost, A, lower, np.full(6, np.inf), **limits) is not None
assert largest_cover(rng.random((50, 20)) < 0.2, np.ones(50, dtype=int), 3)[1] > 0
"""


def test_the_solver_prints_nothing() -> None:
    """In a process of its own, since the tests have threads."""
    ran = subprocess.run([sys.executable, "-c", REPAIRED], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_nodes_end_a_program_as_the_same_on_every_machine() -> None:
    """Whether two rows of numbers can be halved: neither a node nor a moment says it."""
    A = np.random.default_rng(0).integers(0, 1_000_000, (2, 40)).astype(float)
    half = A.sum(axis=1) // 2
    program: dict[str, Any] = {"limit": np.ones(40), "integer": np.ones(40, dtype=bool)}
    with pytest.raises(SolverFailed, match="too many"):
        mixed_integer_program(np.zeros(40), A, half, half, **program, nodes=1)
    with pytest.raises(DeadlineExceeded):
        mixed_integer_program(np.zeros(40), A, half, half, **program, deadline=time.monotonic())
