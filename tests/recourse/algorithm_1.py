"""Algorithm 1 of Kayastha, Gkatzelis, Jabbari, "Learning-Augmented Robust Algorithmic Recourse", 2024, corrected.

An independent route to what `app.recourse.search.trade_off` finds where numbers have no lattice.
"""

import numpy as np
from jaxtyping import Float

from app.recourse.models.linear import LinearModel


def optimum_in_box(
    X0: Float[np.ndarray, "n d"],
    model: LinearModel,
    radius: float,
    cost_weight: Float[np.ndarray, "n"] | float,
    *,
    price: Float[np.ndarray, "d"] | None = None,
    lower: Float[np.ndarray, "d"] | None = None,
    upper: Float[np.ndarray, "d"] | None = None,
) -> Float[np.ndarray, "n d"]:
    """``argmin max J`` of each point, coordinates moving independently: algorithm 1, corrected, all steps at once.

    A coordinate moves the way that raises the worst score, at the rate ``|theta0 - radius sign(x)|`` until it is 0, and
    beyond, if at all, at the lower rate ``|theta0| - radius``. The best point makes these moves in order of rate per
    price until the next costs more than it gains: along a move of rate ``g`` that is where the score reaches
    ``log(g/(cost_weight price) - 1)``.

    Parameters
    ----------
    price : cost per unit of each coordinate, > 0; infinite for one that cannot move; 1 where not given
    lower, upper : limits, with each point inside
    """
    n, d = X0.shape
    w = model.w
    price = np.ones(d) if price is None else price
    movable = np.isfinite(price)
    rate = np.where(X0 == 0.0, np.abs(w) - radius, np.abs(w - radius * np.sign(X0)))
    way = np.where(X0 == 0.0, np.sign(w), np.sign(w - radius * np.sign(X0)))
    room = np.where(way > 0.0, np.inf if upper is None else upper - X0, np.inf if lower is None else X0 - lower)
    to_zero = np.where(way * X0 < 0.0, np.abs(X0), np.inf)
    # Each coordinate has two moves: towards 0, and beyond it. One that starts away from 0 has the first alone.
    rates = np.concatenate([rate, np.where(np.isfinite(to_zero), np.abs(w) - radius, 0.0)], axis=1)
    beyond = np.subtract(room, to_zero, out=np.zeros((n, d)), where=np.isfinite(to_zero))
    lengths = np.concatenate([np.minimum(room, to_zero), beyond], axis=1)
    lengths = np.where((rates > 0.0) & np.tile(movable, 2), np.maximum(lengths, 0.0), 0.0)
    value = np.maximum(rates, 0.0) / np.tile(price, 2)
    order = np.argsort(-value, axis=1, kind="stable")
    rates, lengths, value = (np.take_along_axis(array, order, axis=1) for array in (rates, lengths, value))
    gain = np.where(lengths > 0.0, rates, 0.0) * np.where(lengths > 0.0, lengths, 0.0)
    start = model.score(X0) - radius * (np.abs(X0).sum(axis=1) + 1.0)
    before = start[:, None] + np.concatenate([np.zeros((n, 1)), np.cumsum(gain, axis=1)[:, :-1]], axis=1)
    worth = value / np.broadcast_to(np.asarray(cost_weight, dtype=float), (n,))[:, None] - 1.0
    target = np.log(worth, out=np.full_like(worth, -np.inf), where=worth > 0.0)
    taken = np.zeros_like(rates)
    np.divide(target - before, rates, out=taken, where=(lengths > 0.0) & (target > before))
    taken = np.minimum(taken, lengths)
    moved = np.zeros_like(taken)
    np.put_along_axis(moved, order, taken, axis=1)
    X = X0 + way * (moved[:, :d] + moved[:, d:])
    # A coordinate that has reached 0 is exactly 0, without rounding residue.
    return np.where((moved[:, :d] >= to_zero) & (moved[:, d:] == 0.0), 0.0, X)
