"""The only caller of optimisation solvers."""

import ctypes
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from app.errors import DeadlineExceeded, SolverFailed

MOST_NODES = 2_000
"""Of a cover or a proof; not a time, so that the same question has the same answer."""

_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2


def mixed_integer_program(
    cost: Float[np.ndarray, "n"],
    A: Float[np.ndarray, "m n"],
    lower: Float[np.ndarray, "m"],
    upper: Float[np.ndarray, "m"],
    *,
    limit: Float[np.ndarray, "n"],
    integer: Bool[np.ndarray, "n"],
    deadline: float = math.inf,
    nodes: int | None = None,
) -> Float[np.ndarray, "n"] | None:
    """``argmin cost.x`` subject to ``lower <= A x <= upper`` and ``0 <= x <= limit``, by the solver HiGHS.

    Parameters
    ----------
    integer : for each variable, whether it is a whole number
    deadline : `time.monotonic()` at which the solver stops
    nodes : nodes after which it stops; None for no limit

    Returns
    -------
    (n,), the optimum, or the best known ``x`` at the deadline; None if the constraints are infeasible

    Raises
    ------
    DeadlineExceeded : no ``x`` was known at the deadline
    SolverFailed : the solver ended without an answer, or after so many nodes
    """
    if not len(cost):  # the solver refuses a program without variables
        return cost if ((lower <= 1e-9) & (upper >= -1e-9)).all() else None
    constraints = LinearConstraint(A, lower, upper)
    # The HiGHS of scipy prints a line of its own debugging where it repairs a solution, whatever its options say
    # (https://github.com/ERGO-Code/HiGHS/issues/2783).
    # HiGHS sometimes fails after its own presolve, but solves the program without it.
    for presolve in (True, False):
        options = {"mip_rel_gap": 1e-6, "presolve": presolve, "time_limit": max(deadline - time.monotonic(), 1e-3)}
        options |= {} if nodes is None else {"node_limit": nodes}
        with silent():
            answer = milp(
                cost, constraints=constraints, bounds=Bounds(0.0, limit), integrality=integer.astype(int),
                options=options,
            )  # fmt: skip
        if answer.status in (_OPTIMAL, _LIMIT, _INFEASIBLE):
            break
    else:
        raise SolverFailed(f"The mixed-integer solver ended without an answer: {answer.message}")
    if answer.status == _INFEASIBLE:
        return None
    if answer.x is None:
        raise DeadlineExceeded("The mixed-integer solver found no answer within its time limit.")
    x = np.asarray(answer.x, dtype=float)
    x[integer] = np.rint(x[integer])
    # Whole numbers are whole up to a tolerance that the continuous ones may exploit, so solve for these again.
    fixed = Bounds(np.where(integer, x, 0.0), np.where(integer, x, limit))
    settled = milp(cost, constraints=constraints, bounds=fixed)
    return x if settled.x is None else np.where(integer, x, settled.x)


def largest_cover(
    covers: Bool[np.ndarray, "n m"], weights: Int[np.ndarray, "n"], most: int
) -> tuple[Int[np.ndarray, "k"], int]:
    """The columns, at most `most`, that together cover rows of the largest total weight; by the solver HiGHS.

    Parameters
    ----------
    covers : whether each column covers each row
    weights : weight of each row

    Returns
    -------
    columns : indices of the columns found; the optimum, or the best known after `MOST_NODES` nodes
    bound : upper bound on the total weight; equals the weight that is covered if the optimum is proven

    Raises
    ------
    SolverFailed : the solver ended without an answer
    """
    n, m = covers.shape
    covered = sparse.hstack([sparse.csr_array(-covers.astype(float)), sparse.eye_array(n)])
    counted = sparse.csr_array(np.concatenate([np.ones(m), np.zeros(n)])[None])
    limits = LinearConstraint(sparse.vstack([covered, counted]).tocsr(), -np.inf, [*np.zeros(n), most])
    with silent():
        answer = milp(
            np.concatenate([np.zeros(m), -weights.astype(float)]), constraints=limits, bounds=Bounds(0.0, 1.0),
            integrality=np.repeat([1, 0], [m, n]), options={"node_limit": MOST_NODES},
        )  # fmt: skip
    if answer.x is None:
        raise SolverFailed(f"The mixed-integer solver ended without an answer: {answer.message}")
    return np.flatnonzero(answer.x[:m] > 0.5), math.floor(1e-6 - answer.mip_dual_bound)


@contextmanager
def silent() -> Iterator[None]:
    """Drop what compiled code writes to standard output while the context is open; for code without a quiet option.

    Text in Python's own buffers is written later. If other threads run, nothing is dropped, since it may be their
    output.
    """
    if threading.active_count() > 1:
        yield
        return
    try:
        usual = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush()
        os.dup2(usual, 1)
        os.close(usual)


def _flush() -> None:
    """Have C's own buffers written to where they led when they were filled."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracketed:
    """The solution of a minimisation that the solver found, with proven bounds on the optimal value."""

    lower: float
    """From the dual side, lowered by its residuals."""
    upper: float
    """From the primal side, raised by its residuals."""
    x: Float[np.ndarray, "n"]
    """The solver's optimum; feasible up to its accuracy."""


def cone_program(
    cost: Float[np.ndarray, "n"],
    entries: tuple[Float[np.ndarray, "k"], tuple[Int[np.ndarray, "k"], Int[np.ndarray, "k"]]],
    offset: Float[np.ndarray, "m"],
    cones: list[tuple[str, int]],
    *,
    deadline: float,
) -> Bracketed | None:
    """Minimise ``cost.x`` such that ``offset - A x`` lies in the product of `cones`, by the solver Clarabel.

    Parameters
    ----------
    entries : the values of A, and their rows and columns
    cones : kind and size of each cone, in the order of the rows: ("zero", rows); ("nonnegative", rows);
        ("second_order", rows), in which the first row is at least the L2 norm of the others; or ("semidefinite", n), in
        which the rows are the upper triangle of a matrix, column by column, with off-diagonal entries times sqrt(2)
    deadline : `time.monotonic()` at which the solver stops

    Returns
    -------
    Bounds on the optimal value, and the optimum; None if the constraints are infeasible

    Raises
    ------
    DeadlineExceeded : the solver did not converge in time
    SolverFailed : the solver ended without an answer
    """
    import clarabel

    kinds = {
        "zero": clarabel.ZeroConeT,
        "nonnegative": clarabel.NonnegativeConeT,
        "second_order": clarabel.SecondOrderConeT,
        "semidefinite": clarabel.PSDTriangleConeT,
    }
    A = sparse.csc_matrix(entries, shape=(len(offset), len(cost)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = max(deadline - time.monotonic(), 1e-9)
    settings.max_threads = 1
    nothing = sparse.csc_matrix((len(cost), len(cost)))
    answer = clarabel.DefaultSolver(
        nothing, cost, A, offset, [kinds[kind](size) for kind, size in cones], settings
    ).solve()
    if str(answer.status) in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
        return None
    if str(answer.status) == "MaxTime":
        raise DeadlineExceeded("The cone solver found no answer within its time limit.")
    if str(answer.status) not in ("Solved", "AlmostSolved"):
        raise SolverFailed(f"The cone solver ended without an answer: {answer.status}")
    x, z, s = (np.asarray(vector) for vector in (answer.x, answer.z, answer.s))
    # For every feasible x': cost.x' >= -offset.z + (cost + A'z).x', and the solver's own x bounds the size of x'.
    stationarity = float(np.abs(cost + A.T @ z).max())
    feasibility = float(np.abs(A @ x + s - offset).max())
    return Bracketed(
        lower=-float(offset @ z) - 2.0 * stationarity * (1.0 + float(np.abs(x).sum())),
        upper=float(cost @ x) + 2.0 * feasibility * (1.0 + float(np.abs(z).sum())),
        x=x,
    )
