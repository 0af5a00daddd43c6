"""Mixed-integer programs with a known answer."""

import math

import numpy as np
import pytest

from app.errors import SolverFailed
from app.recourse.convex import mixed_integer_program


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
    with pytest.raises(SolverFailed, match="without an answer"):
        mixed_integer_program(
            np.ones(n), A, half, half, limit=np.ones(n), integer=np.ones(n, dtype=bool), time_limit_s=0.0
        )
