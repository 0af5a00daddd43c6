"""The only caller of optimisation solvers."""

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import Bounds, LinearConstraint, milp

from app.errors import SolverFailed

_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2


def mixed_integer_program(
    cost: Float[np.ndarray, "n"],
    A: Float[np.ndarray, "m n"],
    lower: Float[np.ndarray, "m"],
    upper: Float[np.ndarray, "m"],
    *,
    limit: Float[np.ndarray, "n"],
    integer: Bool[np.ndarray, "n"],
    time_limit_s: float | None = None,
) -> Float[np.ndarray, "n"] | None:
    """``argmin cost.x`` subject to ``lower <= A x <= upper``, ``0 <= x <= limit``, chosen entries whole; by HiGHS.

    Returns
    -------
    (n,), optimal, or the best known at the time limit; None where the constraints are infeasible

    Raises
    ------
    SolverFailed : the solver ended without an answer, for example at the time limit
    """
    if not len(cost):  # nothing to choose, which the solver refuses
        return cost if ((lower <= 1e-9) & (upper >= -1e-9)).all() else None
    options = {"mip_rel_gap": 1e-6} | ({} if time_limit_s is None else {"time_limit": max(time_limit_s, 1e-3)})
    answer = milp(
        cost,
        constraints=LinearConstraint(A, lower, upper),
        bounds=Bounds(np.zeros(len(cost)), limit),
        integrality=integer.astype(int),
        options=options,
    )
    if answer.status == _INFEASIBLE:
        return None
    if answer.x is None or answer.status not in (_OPTIMAL, _LIMIT):
        raise SolverFailed(f"The mixed-integer solver ended without an answer: {answer.message}")
    x = np.asarray(answer.x, dtype=float)
    x[integer] = np.rint(x[integer])
    return x
