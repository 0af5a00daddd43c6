"""The two semidefinite programs of paper 4, in the few dimensions that matter, as cone programs.

`Lmi` collects linear matrix inequalities over a vector of unknowns, independent of their meaning.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.errors import SolverFailed
from app.recourse.numerics.solvers import Bracketed, cone_program

Linear = Mapping[int, float]
"""A linear expression: unknown -> coefficient; the unknown `CONSTANT` stands for 1."""
CONSTANT = -1
LONGEST_S = 30.0
"""Longest time for one program."""


class Lmi:
    """A cone program under construction: unknowns, and affine expressions of them that have to lie in cones."""

    def __init__(self) -> None:
        self.size = 0
        self.entries: list[tuple[int, int, float]] = []
        self.offsets: list[float] = []
        self.cones: list[tuple[str, int]] = []

    def vector(self, n: int) -> list[int]:
        """Add `n` unknowns; returns their indices."""
        self.size += n
        return list(range(self.size - n, self.size))

    def symmetric(self, n: int) -> list[list[int]]:
        """Add a symmetric matrix of unknowns; returns the indices of its entries, row by row."""
        upper = {(i, j): self.vector(1)[0] for j in range(n) for i in range(j + 1)}
        return [[upper[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]

    def nonnegative(self, expression: Linear) -> None:
        """Require that an expression is >= 0."""
        self._row(expression, 1.0)
        self.cones.append(("nonnegative", 1))

    def semidefinite(self, matrix: list[list[Linear]]) -> None:
        """Require that a symmetric matrix of expressions is positive semidefinite; only its upper triangle is read."""
        n = len(matrix)
        for j in range(n):
            for i in range(j + 1):
                self._row(matrix[i][j], 1.0 if i == j else math.sqrt(2.0))
        self.cones.append(("semidefinite", n))

    def _row(self, expression: Linear, scale: float) -> None:
        row = len(self.offsets)
        self.offsets.append(scale * expression.get(CONSTANT, 0.0))
        self.entries += [(row, k, -scale * value) for k, value in expression.items() if k != CONSTANT and value != 0.0]

    def minimise(self, objective: Linear, deadline: float) -> Bracketed:
        """The smallest value of the objective.

        Raises
        ------
        DeadlineExceeded : the solver did not converge in time
        SolverFailed : the solver ended without an answer, or no values of the unknowns meet the requirements
        """
        cost = np.zeros(self.size)
        for k, value in objective.items():
            if k != CONSTANT:
                cost[k] += value
        rows, columns, values = zip(*self.entries, strict=True)
        answer = cone_program(
            cost,
            (np.array(values), (np.array(rows), np.array(columns))),
            np.array(self.offsets),
            self.cones,
            deadline=min(deadline, time.monotonic() + LONGEST_S),
        )
        if answer is None:
            raise SolverFailed("The cone solver ended without an answer: Infeasible")
        constant = objective.get(CONSTANT, 0.0)
        return replace(answer, lower=answer.lower + constant, upper=answer.upper + constant)


def _plus(*terms: Linear) -> Linear:
    total: dict[int, float] = {}
    for term in terms:
        for k, value in term.items():
            total[k] = total.get(k, 0.0) + value
    return total


def _times(factor: float, expression: Linear) -> Linear:
    return {k: factor * value for k, value in expression.items()}


def _block(
    corner: Sequence[Sequence[Linear]], side: Sequence[Sequence[Linear]], opposite: Sequence[Sequence[Linear]]
) -> list[list[Linear]]:
    """``[[corner, side], [side', opposite]]``, the upper triangle of it."""
    top = [[*row, *right] for row, right in zip(corner, side, strict=True)]
    below: list[list[Linear]] = [[*({} for _ in corner), *row] for row in opposite]
    return top + below


def _of(matrix: list[list[int]]) -> list[list[Linear]]:
    return [[{k: 1.0} for k in row] for row in matrix]


def _column(unknowns: list[int]) -> list[list[Linear]]:
    return [[{k: 1.0}] for k in unknowns]


def _constant(matrix: Float[np.ndarray, "n m"]) -> list[list[Linear]]:
    return [[{CONSTANT: float(value)} for value in row] for row in matrix]


ONE: list[list[Linear]] = [[{CONSTANT: 1.0}]]


def lower_program(
    points: Float[np.ndarray, "n r"],
    mean: Float[np.ndarray, "r"],
    covariance: Float[np.ndarray, "r r"],
    radius: float,
    deadline: float,
) -> tuple[Bracketed, Float[np.ndarray, "n"]]:
    """The lower bound on joint validity, ``inf Q(theta.x_j > 0 for all j)`` (Bui, Nguyen, Nguyen 2022, theorem 2.2).

    ``Q`` is a distribution of models ``theta``. For each member ``x_j``, the unknown matrix ``[Z_j z_j; z_j'
    lambda_j]`` holds the moments of the part of ``Q`` that refuses the member.

    Returns
    -------
    bounds : on the optimal value, proven
    lambda : the probability with which the worst distribution refuses each member
    """
    r = len(mean)
    program = Lmi()
    mu, Sigma, M = program.vector(r), program.symmetric(r), program.symmetric(r)
    C = [program.vector(r) for _ in range(r)]
    moments = _block(_of(M), _column(mu), ONE)
    shares: list[int] = []
    for point in points:
        Z, z, share = program.symmetric(r), program.vector(r), program.vector(1)[0]
        part = _block(_of(Z), _column(z), [[{share: 1.0}]])
        program.semidefinite(part)
        program.nonnegative({k: -float(value) for k, value in zip(z, point, strict=True)})
        moments = [
            [_plus(a, _times(-1.0, b)) for a, b in zip(*rows, strict=True)] for rows in zip(moments, part, strict=True)
        ]
        shares.append(share)
    program.semidefinite(moments)
    spread = [[{M[i][j]: 1.0, Sigma[i][j]: -1.0} for j in range(r)] for i in range(r)]
    program.semidefinite(_block(spread, _column(mu), ONE))
    program.semidefinite(_block(_of(Sigma), _of(C), _constant(covariance)))
    room = radius**2 - float(mean @ mean) - float(covariance.trace())
    program.nonnegative(
        _plus(
            {CONSTANT: room},
            {k: 2.0 * float(value) for k, value in zip(mu, mean, strict=True)},
            *({M[i][i]: -1.0, C[i][i]: 2.0} for i in range(r)),
        )
    )
    bounds = program.minimise({CONSTANT: 1.0} | dict.fromkeys(shares, -1.0), deadline)
    return bounds, bounds.x[shares]


def upper_program(
    points: Float[np.ndarray, "n r"],
    mean: Float[np.ndarray, "r"],
    covariance: Float[np.ndarray, "r r"],
    radius: float,
    deadline: float,
) -> Bracketed:
    """The upper bound on joint validity, ``sup Q(theta.x_j >= 0 for all j)``, computed from the dual program.

    This is theorem 2.3 of Bui, Nguyen, Nguyen (2022), with two variables shifted. The paper's variables ``q`` and ``Q``
    nearly cancel a term that grows without bound as the radius falls to 0. So the variables `q` and `Q` of this
    function are the paper's variables minus that term:

    * ``q - (gamma |mean|^2 + 2 mean.z + mean'Z mean)``
    * ``Q - (gamma covariance + root Z root)``
    """
    r = len(mean)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    second = covariance + np.outer(mean, mean)
    program = Lmi()
    gamma, q, z0 = program.vector(3)
    z, Z, Q, prices = program.vector(r), program.symmetric(r), program.symmetric(r), program.vector(len(points))
    for k in (gamma, q, *prices):
        program.nonnegative({k: 1.0})
    rest = [[_plus({gamma: float(i == j)}, {Z[i][j]: -1.0}) for j in range(r)] for i in range(r)]
    Z_root = [[{Z[i][k]: float(root[k, j]) for k in range(r)} for j in range(r)] for i in range(r)]
    program.semidefinite(_block(rest, Z_root, _of(Q)))
    Z_mean = [[{z[i]: 1.0} | {Z[i][k]: float(mean[k]) for k in range(r)}] for i in range(r)]
    program.semidefinite(_block(rest, Z_mean, [[{q: 1.0}]]))
    program.semidefinite(_block(_of(Z), _column(z), [[{z0: 1.0}]]))
    shifted = [
        [_plus({z[i]: 1.0}, {price: -0.5 * float(point[i]) for price, point in zip(prices, points, strict=True)})]
        for i in range(r)
    ]
    program.semidefinite(_block(_of(Z), shifted, [[{z0: 1.0, CONSTANT: -1.0}]]))
    known = [{z[i]: 2.0 * float(mean[i])} for i in range(r)]
    known += [{Z[i][j]: float(second[i, j])} for i in range(r) for j in range(r)]
    spread = [{Q[i][i]: 1.0} for i in range(r)]
    return program.minimise(_plus({z0: 1.0, gamma: radius**2, q: 1.0}, *known, *spread), deadline)
