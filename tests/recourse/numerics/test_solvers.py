"""Mixed-integer programs with a known answer."""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

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


def test_what_presolve_spoils_is_solved_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS 1.12.0 ends some feasible programs with "Solve error" (status 4), for which its presolve is to blame."""
    _spoiled(monkeypatch, lambda options: options.get("presolve", True))
    assert program([1.0, 1.6], [2.0, 3.0], 7.0, integer=True) == [2.0, 1.0]


def test_a_solver_that_fails_either_way_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _spoiled(monkeypatch, lambda _: True)
    with pytest.raises(SolverFailed, match="Solve error"):
        program([1.0, 1.6], [2.0, 3.0], 7.0, integer=True)


def _spoiled(monkeypatch: pytest.MonkeyPatch, when: Callable[[dict[str, Any]], bool]) -> None:
    real = solvers.milp

    def milp(*args: Any, options: dict[str, Any] | None = None, **others: Any) -> OptimizeResult:
        if options is not None and when(options):
            return OptimizeResult(x=None, status=4, message="(HiGHS Status 4: Solve error)")
        return real(*args, options=options, **others)

    monkeypatch.setattr(solvers, "milp", milp)


REPAIRED = """
import numpy as np
from app.recourse.numerics.solvers import mixed_integer_program

rng = np.random.default_rng(92)
A = rng.integers(-9, 10, (6, 10)) / 10.0 ** rng.integers(0, 4, (1, 10))
cost, lower, integer = rng.uniform(0.0, 1.0, 10), rng.uniform(0.0, 5.0, 6), rng.random(10) < 0.5
limits = {"limit": np.full(10, 1000.0), "integer": integer}
assert mixed_integer_program(cost, A, lower, np.full(6, np.inf), **limits) is not None
"""


def test_a_program_whose_solution_the_solver_repairs_prints_nothing() -> None:
    """In a process of its own, since the tests have threads."""
    ran = subprocess.run([sys.executable, "-c", REPAIRED], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


PROGRAM = """
import os, threading
from app.recourse.numerics.solvers import silent

{threads}
with silent():
    os.write(1, b"meanwhile\\n")
os.write(1, b"afterwards\\n")
"""


def written(threads: str) -> str:
    """What a program of its own writes; the tests have threads."""
    program = PROGRAM.format(threads=dedent(threads))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_nothing_is_written_meanwhile_and_all_of_it_afterwards() -> None:
    assert written("") == "afterwards\n"


def test_what_another_thread_may_write_is_not_lost() -> None:
    threads = """
        ready = threading.Event()
        threading.Thread(target=ready.wait, daemon=True).start()
    """
    assert written(threads) == "meanwhile\nafterwards\n"


def test_a_process_without_standard_output_goes_on() -> None:
    assert written("os.close(1); os.write = lambda *_: 0") == ""


def test_nodes_end_a_program_as_the_same_on_every_machine() -> None:
    """Whether two rows of numbers can be halved: neither a node nor a moment says it."""
    A = np.random.default_rng(0).integers(0, 1_000_000, (2, 40)).astype(float)
    half = A.sum(axis=1) // 2
    program: dict[str, Any] = {"limit": np.ones(40), "integer": np.ones(40, dtype=bool)}
    with pytest.raises(SolverFailed, match="without an answer"):
        mixed_integer_program(np.zeros(40), A, half, half, **program, nodes=1)
    with pytest.raises(DeadlineExceeded):
        mixed_integer_program(np.zeros(40), A, half, half, **program, deadline=time.monotonic())
