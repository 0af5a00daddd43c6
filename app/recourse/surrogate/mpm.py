"""Minimax probability machines that are robust to errors in class covariances: the local surrogate of paper 1.

A linear classifier ``w.x >= b`` that maximises the worst-case accuracy over all distributions whose class means are
the sample means and whose class covariances lie within a radius of the sample covariances. With ``a = mean+ - mean-``::

    minimise tau+(w) + tau-(w)  subject to  a.w = 1,    b = w.mean+ - kappa tau+(w),    kappa = 1 / (tau+ + tau-)

where ``tau(w)`` is the largest standard deviation along ``w`` in the ambiguity set (`divergences.largest_deviation`).

================  ==========================================================
symbol            name
================  ==========================================================
``mu+-, Sigma+-`` ``mean``, ``covariance`` of `Moments`, one per class
``rho``           ``radius``
``alpha``         ``worst_case_accuracy``, ``kappa^2 / (1 + kappa^2)``
================  ==========================================================

Two norms have the exact solution of `_minimise_two`; Bures has a third norm, ``|w|``, and takes `_minimise_three`. Both
are tested against the conic program. We differ from the authors' code in Bures, which adds ``rho |w|``: by their own
definition of the ambiguity set it is ``sqrt(rho) |w|``.

References
----------
Bui, Nguyen, Yue, Nguyen, "Coverage-Validity-Aware Algorithmic Recourse", 2023.
Lanckriet et al., "A Robust Minimax Approach to Classification", JMLR 2002.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

from app.errors import DegenerateSurrogate
from app.recourse.models.linear import LinearModel
from app.recourse.numerics.linalg import diagonalise_pair
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.class_moments import Classes
from app.recourse.surrogate.divergences import Deviation, Divergence, largest_deviation

TINY = 1e-30
"""Replaces zero in logarithms; far below rounding errors."""
EXTREME = 1e100
"""Ratio of two scales beyond which the machine does not change any more."""
SINGULAR = 1e-9
"""Share of the largest variance of a column below which what the others leave of one's variance counts as nothing."""
MAX_SECANTS = 50
SECANT_TOLERANCE = 1e-10
FARTHEST_SECANT = 10.0
"""How far a secant may lead, in steps that never lead too far."""
GRID = np.linspace(0.0, 1.0, 97)
MAX_DESCENT_STEPS = 10_000
DESCENT_TOLERANCE = 1e-14


@dataclass(frozen=True, slots=True)
class MinimaxMachine:
    """A fitted minimax probability machine: a linear model, and its worst-case accuracy."""

    model: LinearModel
    """Unit-norm weights; favourable iff the score is >= 0."""
    worst_case_accuracy: float
    """Least accuracy on any distribution in the ambiguity sets, in [0, 1]."""


def fit(
    classes: Classes,
    divergence: Divergence,
    *,
    radius_favourable: float = 0.0,
    radius_unfavourable: float = 0.0,
) -> MinimaxMachine:
    """The covariance-robust minimax probability machine that separates two classes.

    A covariance may be singular. If the means differ along a direction in which neither class varies, the machine
    separates the classes with certainty.

    Raises
    ------
    DegenerateSurrogate : the class means coincide
    """
    favourable, unfavourable, a = classes.favourable, classes.unfavourable, classes.between
    if not np.linalg.norm(a) > 0.0:
        raise DegenerateSurrogate("The mean of the favourable samples equals the mean of the unfavourable ones.")
    plus = largest_deviation(favourable.covariance, divergence, radius_favourable)
    minus = largest_deviation(unfavourable.covariance, divergence, radius_unfavourable)
    w = minimise_spread(a, plus, minus)
    tau_plus, tau_minus = plus(w), minus(w)
    total = tau_plus + tau_minus
    share = tau_plus / total if total > 0.0 else 0.5
    b = float(w @ favourable.mean) - share
    kappa_squared = (1.0 / total) ** 2 if total > 1e-100 else math.inf
    accuracy = 1.0 if math.isinf(kappa_squared) else kappa_squared / (1.0 + kappa_squared)
    return MinimaxMachine(LinearModel(w, -b).unit(), accuracy)


def minimise_spread(a: Float[np.ndarray, "d"], plus: Deviation, minus: Deviation) -> Float[np.ndarray, "d"]:
    """The vector ``w`` with ``a.w = 1`` that minimises ``plus(w) + minus(w)``, exactly.

    Parameters
    ----------
    plus, minus : deviation of the favourable and of the unfavourable class
    """
    if plus.norm + minus.norm > 0.0:
        w = _minimise_three(a, plus, minus)
    else:
        ratio = min(max(minus.scale / plus.scale, 1.0 / EXTREME), EXTREME)
        w = _minimise_two(a, plus.covariance, minus.covariance, ratio)
    return w / (a @ w)


def _minimise_two(
    a: Float[np.ndarray, "d"], S: Float[np.ndarray, "d d"], T: Float[np.ndarray, "d d"], ratio: float
) -> Float[np.ndarray, "d"]:
    """A positive multiple of ``argmin sqrt(w'Sw) + ratio sqrt(w'Tw)`` subject to ``a.w = 1``.

    ``(|Aw| + |Bw|)^2 = min_t |Aw|^2/t + |Bw|^2/(1-t)``, so the minimum is reached at
    ``w ~ (S/t + ratio^2 T/(1-t))^-1 a`` for the one ``t`` where the two deviations are in proportion to ``t`` and
    ``1 - t``; that is where ``u = log(ratio t / (1 - t))`` is the logarithm of ``sqrt(w'Sw / w'Tw)``. Mostly four
    solutions of the linear system find it by secants; singular covariances take `_minimise_singular`.
    """
    u, low, high, before = 0.0, -math.inf, math.inf, None
    for _ in range(MAX_SECANTS):
        whole = S + ratio * math.exp(u) * T
        factor, w, failed = lapack.dposv(whole, a)
        if failed or factor.diagonal().min() ** 2 < SINGULAR * whole.diagonal().max():
            break
        s, t = float(w @ S @ w), float(w @ T @ w)
        if not (s > 0.0 and t > 0.0):
            break
        miss = 0.5 * (math.log(s) - math.log(t)) - u
        if abs(miss) < SECANT_TOLERANCE:
            return np.asarray(w)
        low, high = (u, high) if miss > 0.0 else (low, u)
        after = u + miss  # never increases the sum that is minimised
        if before is not None and miss != before[1]:
            secant = u - miss * (u - before[0]) / (miss - before[1])
            after = secant if low < secant < high and abs(secant - u) < FARTHEST_SECANT * abs(miss) else after
        u, before = after, (u, miss)
    return _minimise_singular(a, S, T, ratio)


def _minimise_singular(
    a: Float[np.ndarray, "d"], S: Float[np.ndarray, "d d"], T: Float[np.ndarray, "d d"], ratio: float
) -> Float[np.ndarray, "d"]:
    """As `_minimise_two`, in coordinates where S and T are diagonal.

    There the condition on `u` is the root of a decreasing function.
    """
    V, s, t, outside = diagonalise_pair(S, T, a)
    if outside is not None:
        return outside
    squares = (V.T @ a) ** 2
    e = _root(squares, s, t, ratio)
    return np.asarray(V @ ((V.T @ a) / (s + ratio * e * t)))


def _root(squares: Float[np.ndarray, "k"], s: Float[np.ndarray, "k"], t: Float[np.ndarray, "k"], ratio: float) -> float:
    """The ``e = exp(u) = ratio t/(1-t)`` at which ``sum squares (s - e^2 t) / (s + ratio e t)^2`` changes sign.

    The sum falls in ``e``, and its sign is known outside the range of ``sqrt(s / t)``. A grid on the logarithm,
    refined: the minimised function is flat at its minimum, so 1e-6 in ``u`` is about 1e-12 in the value.
    """
    limits = 0.5 * np.log(np.maximum(s, TINY) / np.maximum(t, TINY))
    low, high = float(limits.min()), float(limits.max())
    s_squares, t_squares, rt = s * squares, t * squares, ratio * t
    while (width := (high - low) / (len(GRID) - 1)) > 0.0:
        e = np.exp(low + (high - low) * GRID)[:, None]
        falling = ((s_squares - e * e * t_squares) / (s + e * rt) ** 2).sum(axis=1)
        below = int(np.count_nonzero(falling > 0.0))  # checked first
        if not 0 < below < len(GRID):
            return math.exp(low if below == 0 else high)
        low, high = low + (below - 1) * width, low + below * width
        if width < 1e-3:
            # Straight between the two ends: the rest of the error is of the order of the width squared.
            left, right = float(falling[below - 1]), float(falling[below])
            return math.exp(low + width * left / (left - right))
    return math.exp(low)


def _minimise_three(a: Float[np.ndarray, "d"], plus: Deviation, minus: Deviation) -> Float[np.ndarray, "d"]:
    """A positive multiple of the minimiser when a Euclidean norm is among the spreads (Bures).

    Each norm is replaced by its tight quadratic bound ``|.|^2 / t``, ``t`` in proportion to the norms; solving for `w`
    and updating `t` in turn never increases the sum, and the sum is convex in ``w``.
    """
    d = len(a)
    squares = (plus.scale**2 * plus.covariance, minus.scale**2 * minus.covariance)
    norm = plus.norm + minus.norm
    w = a / (a @ a)
    best = math.inf
    for _ in range(MAX_DESCENT_STEPS):
        length = float(np.linalg.norm(w))
        deviations = [math.sqrt(max(w @ S @ w, 0.0)) for S in squares]
        value = sum(deviations) + norm * length
        if value >= best * (1.0 - DESCENT_TOLERANCE):
            break
        best = value
        quadratic = np.eye(d) * (norm / length)
        for S, deviation in zip(squares, deviations, strict=True):
            # A deviation of zero would pin w to the null space of S; the floor keeps the step defined.
            quadratic += S / max(deviation, 1e-12 * value)
        direction = np.linalg.solve(quadratic, a)
        w = direction / (a @ direction)
    return w


def fit_sample(
    sample: BoundarySample, divergence: Divergence, *, radius_favourable: float, radius_unfavourable: float
) -> MinimaxMachine:
    """The minimax machine of a boundary sample; columns that the person cannot change get weight 0.

    The sample keeps the result, so that a second call with the same arguments costs nothing.
    """
    key = (divergence, radius_favourable, radius_unfavourable)
    known = sample.machines.get(key)
    if isinstance(known, MinimaxMachine):
        return known
    machine = fit(
        sample.classes, divergence, radius_favourable=radius_favourable, radius_unfavourable=radius_unfavourable
    )
    found = MinimaxMachine(sample.in_all_columns(machine.model), machine.worst_case_accuracy)
    sample.machines[key] = found
    return found
