"""The only caller of optimisation solvers."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import highspy
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from app.errors import DeadlineExceeded, SolverFailed

MOST_NODES = 2_000
"""Of a cover or a proof; not a time, so that the same question has the same answer."""
MOST_PROGRAMS = 400
"""Linear programs after which HiGHS' own branch and bound goes on, which cuts better."""
MOST_CUTS, FEW_CUTS = 50, 4
"""Rounds of cuts after which a solution is given up, and after which one that is not whole is bound enough."""
WHOLE = 1e-6
"""Numbers this close to a whole one are whole."""
MOST_ROUNDED = 4
"""Numbers that are not whole up to which all roundings of a point are tried."""
ROUNDING = 1e-9
"""Excess over a bound that is rounding."""

Row: TypeAlias = tuple[Float[np.ndarray, "n"], float]
"""Coefficients, and the least value of their sum with the variables."""

Cuts: TypeAlias = Callable[[Float[np.ndarray, "n"]], Sequence[Row]]
"""From a point to linear rows that no solution breaks, but the point does."""


def no_cuts(x: Float[np.ndarray, "n"]) -> Sequence[Row]:  # noqa: ARG001
    """No rows: the program states all constraints."""
    return ()


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
    gap: float = 1e-6,
    cuts: Cuts = no_cuts,
) -> Float[np.ndarray, "n"] | None:
    """``argmin cost.x`` subject to ``lower <= A x <= upper`` and ``0 <= x <= limit``, by the solver HiGHS.

    Programs of one applicant are small. So a branch and bound over linear programs, each begun at the solution of the
    one before, takes a fifth of the time of HiGHS' own, which prepares itself for large ones.

    Parameters
    ----------
    integer : for each variable, whether it is a whole number
    deadline : `time.monotonic()` at which the solver stops
    nodes : nodes after which it stops; None for no limit
    gap : relative to the optimum; smaller savings are not searched for
    cuts : further constraints, which are stated where a point breaks them

    Returns
    -------
    (n,), the optimum, or the best known ``x`` at the deadline; None if the constraints are infeasible

    Raises
    ------
    DeadlineExceeded : no ``x`` was known at the deadline
    SolverFailed : the solver ended without an answer, or knew no ``x`` after so many nodes or rounds of cuts
    """
    if not len(cost):  # the solver refuses a program without variables
        return cost if ((lower <= ROUNDING) & (upper >= -ROUNDING)).all() else None
    at, columns = np.nonzero(A)
    tree = _Tree(
        _highs(cost, (A[at, columns], (at, columns)), lower, upper, limit),
        cost,
        limit,
        np.flatnonzero(integer),
        cuts,
        (A, lower, upper),
    )
    return tree.best(gap, deadline, nodes)


def _highs(
    cost: Float[np.ndarray, "n"],
    entries: tuple[Float[np.ndarray, "k"], tuple[Int[np.ndarray, "k"], Int[np.ndarray, "k"]]],
    lower: Float[np.ndarray, "m"],
    upper: Float[np.ndarray, "m"],
    limit: Float[np.ndarray, "n"],
) -> highspy.Highs:
    """A solver of ``min cost.x`` subject to ``lower <= A x <= upper`` and ``0 <= x <= limit``.

    Parameters
    ----------
    entries : the values of A, and their rows, in increasing order, and columns
    """
    solver, program = highspy.Highs(), highspy.HighsLp()  # type: ignore[no-untyped-call]
    values, (rows, columns) = entries
    # One thread: others would not live in a forked child.
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("presolve", "off")
    program.num_row_, program.num_col_ = len(lower), len(cost)
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, np.zeros(len(cost)), limit
    program.row_lower_, program.row_upper_ = lower, upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(lower) + 1))
    program.a_matrix_.index_, program.a_matrix_.value_ = columns, values
    solver.passModel(program)
    return solver


class _Tree:
    """Branch and bound, depth first, over the linear programs of one mixed-integer program."""

    def __init__(
        self,
        solver: highspy.Highs,
        cost: Float[np.ndarray, "n"],
        limit: Float[np.ndarray, "n"],
        whole: Int[np.ndarray, "k"],
        cuts: Cuts,
        rows: tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m"], Float[np.ndarray, "m"]],
    ) -> None:
        self._A, self._lower, self._upper = rows
        self._solver, self._cost, self._limit, self._whole, self._cuts = solver, cost, limit, whole, cuts
        self._best: Float[np.ndarray, n] | None = None
        self._least = math.inf
        self._lost = False
        """Whether a solution was given up that cuts did not end, so that nothing is proven without a best one."""

    def best(self, gap: float, deadline: float, nodes: int | None) -> Float[np.ndarray, "n"] | None:
        """The optimum; see `mixed_integer_program`."""
        open_ = [(-math.inf, np.zeros(len(self._cost)), self._limit)]
        count = 0
        while open_:
            bound, low, high = open_.pop()
            if bound >= self._cutoff(gap):
                continue
            if time.monotonic() >= deadline:
                if self._best is None:
                    raise DeadlineExceeded("The mixed-integer solver found no answer within its time limit.")
                break
            if count == (MOST_PROGRAMS if nodes is None else nodes):
                return self._by_highs(deadline) if nodes is None else self._known()
            count += 1
            x = self._relaxed(low, high)
            if x is None:
                continue
            away = self._away(x)
            if away.max(initial=0.0) <= WHOLE:
                self._settle(x)
                continue
            bound = float(self._cost @ x)
            if bound >= self._cutoff(gap):
                continue
            self._round(x, away)
            at, far = x[self._whole], int(away.argmax())
            k, below = int(self._whole[far]), math.floor(at[far])
            down, up = high.copy(), low.copy()
            down[k], up[k] = below, below + 1.0
            halves = [(bound, low, down), (bound, up, high)]
            open_ += halves if at[far] > below + 0.5 else halves[::-1]
        return self._known() if self._lost else self._best

    def _cutoff(self, gap: float) -> float:
        """The value above which a solution is no better than the best one, but for the gap."""
        return self._least - gap * (1.0 + abs(self._least))

    def _known(self) -> Float[np.ndarray, "n"]:
        if self._best is None:
            raise SolverFailed("The mixed-integer solver found no answer among too many combinations or cuts.")
        return self._best

    def _relaxed(self, low: Float[np.ndarray, "n"], high: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"] | None:
        """The optimum between these limits if no number has to be whole; None if infeasible, or if cuts do not end."""
        solver, status = self._solver, highspy.HighsModelStatus
        solver.changeColsBounds(len(low), np.arange(len(low)), low, high)
        x = np.full(len(low), math.nan)
        for count in range(MOST_CUTS):
            solver.run()
            ended = solver.getModelStatus()
            if ended not in (status.kOptimal, status.kInfeasible):  # again, from the beginning
                solver.clearSolver()
                solver.run()
                ended = solver.getModelStatus()
            if ended == status.kInfeasible:
                return None
            if ended != status.kOptimal:
                raise SolverFailed(f"The mixed-integer solver ended without an answer: {ended.name}")
            before, x = x, np.array(solver.getSolution().col_value)
            rows = self._cuts(x)
            # A point that stays the same keeps its cuts up to the solver's tolerance.
            if not rows or np.array_equal(x, before):
                return x
            if count >= FEW_CUTS and self._away(x).max(initial=0.0) > WHOLE:
                return x
            for row, least in rows:
                used = np.flatnonzero(row)
                solver.addRow(least, math.inf, len(used), used, row[used])
        self._lost = True
        return None

    def _away(self, x: Float[np.ndarray, "n"]) -> Float[np.ndarray, "k"]:
        """How far numbers that have to be whole are from that."""
        return np.abs(x[self._whole] - np.rint(x[self._whole]))

    def _round(self, x: Float[np.ndarray, "n"], away: Float[np.ndarray, "k"]) -> None:
        """Remember the cheapest solution among the roundings of a point of which few numbers are not whole."""
        open_ = self._whole[away > WHOLE]
        if len(open_) > MOST_ROUNDED or self._cuts is not no_cuts:
            return
        points = np.repeat(x[None], 2 ** len(open_), axis=0)
        points[:, self._whole] = np.rint(points[:, self._whole])
        points[:, open_] = np.floor(x[open_]) + (np.arange(len(points))[:, None] >> np.arange(len(open_)) & 1)
        sums = points @ self._A.T
        kept = ((sums >= self._lower - ROUNDING) & (sums <= self._upper + ROUNDING)).all(axis=1)
        costs = np.where(kept & (points <= self._limit).all(axis=1), points @ self._cost, math.inf)
        if (least := float(costs.min())) < self._least:
            self._best, self._least = points[costs.argmin()], least

    def _settle(self, x: Float[np.ndarray, "n"]) -> None:
        """Remember a solution: its whole numbers are whole up to a tolerance, which the others may exploit."""
        rounded = np.rint(x[self._whole])
        low, high = np.zeros(len(x)), self._limit.copy()
        low[self._whole] = high[self._whole] = rounded
        settled = self._relaxed(low, high) if len(rounded) < len(x) else None
        x = x if settled is None else settled
        x[self._whole] = rounded
        if settled is None and self._cuts(x):
            self._lost = True
        elif float(self._cost @ x) < self._least:
            self._best, self._least = x, float(self._cost @ x)

    def _by_highs(self, deadline: float) -> Float[np.ndarray, "n"] | None:
        """The optimum by HiGHS' own branch and bound, or the best known; None if infeasible."""
        solver, n = self._solver, len(self._limit)
        solver.changeColsBounds(n, np.arange(n), np.zeros(n), self._limit)
        try:
            _search(solver, self._whole, time_limit=max(deadline - time.monotonic(), 1e-3))
        except SolverFailed:
            return self._known()
        if math.isfinite(solver.getInfo().objective_function_value):
            x = np.array(solver.getSolution().col_value)
            solver.changeColsIntegrality(n, np.arange(n), np.zeros(n, dtype=np.uint8))
            solver.setOptionValue("time_limit", math.inf)
            if float(self._cost @ x) < self._least:
                self._settle(x)
        elif self._best is None and solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
            raise DeadlineExceeded("The mixed-integer solver found no answer within its time limit.")
        return self._best


def _search(solver: highspy.Highs, whole: Int[np.ndarray, "k"], **limits: float) -> None:
    """Have HiGHS' own branch and bound look for the optimum in which these columns are whole.

    Raises `SolverFailed` if it ends without an answer.
    """
    status = highspy.HighsModelStatus
    solver.changeColsIntegrality(len(whole), whole, np.ones(len(whole), dtype=np.uint8))
    solver.setOptionValue("presolve", "on")
    for option, value in {"mip_rel_gap": 1e-6, **limits}.items():
        solver.setOptionValue(option, value)
    solver.run()
    ended = solver.getModelStatus()
    if ended not in (status.kOptimal, status.kInfeasible, status.kTimeLimit, status.kSolutionLimit):
        raise SolverFailed(f"The mixed-integer solver ended without an answer: {ended.name}")


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
    program = sparse.vstack([covered, counted]).tocsr().tocoo()
    solver = _highs(
        np.concatenate([np.zeros(m), -weights.astype(float)]), (program.data, (program.row, program.col)),
        np.full(n + 1, -np.inf), np.array([*np.zeros(n), most], dtype=float), np.ones(m + n),
    )  # fmt: skip
    _search(solver, np.arange(m), mip_max_nodes=MOST_NODES)
    info = solver.getInfo()
    if not math.isfinite(info.objective_function_value):
        raise SolverFailed("The mixed-integer solver ended without an answer.")
    chosen = np.array(solver.getSolution().col_value)[:m]
    return np.flatnonzero(chosen > 0.5), math.floor(1e-6 - info.mip_dual_bound)


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
