"""Plans and uncertain models at random, and the two programs of paper 4 in full dimension, as the paper states them."""

from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from jaxtyping import Float

from app.recourse.models.linear import WeightMoments, homogeneous


@dataclass(frozen=True)
class Plan:
    """Counterfactuals, and what is known of the models that will judge them."""

    points: Float[np.ndarray, "n m"]
    """Homogeneous."""
    moments: WeightMoments
    radius: float

    def at(self, radius: float) -> "Plan":
        return replace(self, radius=radius)

    @property
    def covariance(self) -> Float[np.ndarray, "m m"]:
        return self.moments.root @ self.moments.root.T


def plan(
    seed: int,
    *,
    members: int,
    d: int,
    radius: float = 0.04,
    spread: float = 0.05,
    favourable: bool = True,
    rank: int | None = None,
) -> Plan:
    """A random plan whose members the mean model accepts, or all but the last."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(d + 1)
    mean /= np.linalg.norm(mean)
    columns = rank or 2 * d
    root = spread * rng.standard_normal((d + 1, columns)) / np.sqrt(columns)
    X = 0.7 * rng.standard_normal((members, d))
    wanted = rng.uniform(0.7, 1.5, members)
    if not favourable:
        wanted[-1] *= -1.0
    w = mean[:d]
    X += np.outer(wanted - (X @ w + mean[d]), w) / (w @ w)
    return Plan(homogeneous(X), WeightMoments(mean=mean, factors=(root,), kind="test"), radius)


def _block(matrix: cp.Expression, side: cp.Expression, corner: cp.Expression) -> cp.Expression:
    column = cp.reshape(side, (side.size, 1), order="F")
    return cp.bmat([[matrix, column], [column.T, cp.reshape(corner, (1, 1), order="F")]])


def lower_in_full(question: Plan) -> float:
    """Theorem 2.2, in as many dimensions as the model has weights."""
    points, mean, covariance = question.points, question.moments.mean, question.covariance
    n, m = points.shape
    mu, C = cp.Variable(m), cp.Variable((m, m))
    Sigma, M = cp.Variable((m, m), PSD=True), cp.Variable((m, m), symmetric=True)
    lost = [cp.Variable((m + 1, m + 1), PSD=True) for _ in range(n)]
    constraints = [
        _block(M, mu, cp.Constant(1.0)) - sum(lost) >> 0,
        _block(M - Sigma, mu, cp.Constant(1.0)) >> 0,
        cp.bmat([[Sigma, C], [C.T, covariance]]) >> 0,
        mean @ mean - 2 * mean @ mu + cp.trace(M) + np.trace(covariance) - 2 * cp.trace(C) <= question.radius**2,
        *(point @ part[:m, m] <= 0 for point, part in zip(points, lost, strict=True)),
    ]
    program = cp.Problem(cp.Minimize(1 - sum(part[m, m] for part in lost)), constraints)
    return float(program.solve(solver=cp.CLARABEL))


def upper_in_full(question: Plan) -> float:
    """Theorem 2.3, in as many dimensions as the model has weights."""
    points, mean, covariance = question.points, question.moments.mean, question.covariance
    n, m = points.shape
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    gamma, q = cp.Variable(nonneg=True), cp.Variable(nonneg=True)
    Z, Q = cp.Variable((m, m), PSD=True), cp.Variable((m, m), PSD=True)
    z, z0, prices = cp.Variable(m), cp.Variable(), cp.Variable(n, nonneg=True)
    rest = gamma * np.eye(m) - Z
    constraints = [
        cp.bmat([[rest, gamma * root], [gamma * root, Q]]) >> 0,
        _block(rest, gamma * mean + z, q) >> 0,
        _block(Z, z, z0) >> 0,
        _block(Z, z - 0.5 * points.T @ prices, z0 - 1) >> 0,
    ]
    room = question.radius**2 - mean @ mean - np.trace(covariance)
    program = cp.Problem(cp.Minimize(z0 + gamma * room + q + cp.trace(Q)), constraints)
    return float(program.solve(solver=cp.CLARABEL))
