"""Whether a ReLU network can reach a score over an action set, and how cheaply: a mixed-integer program.

A unit ``h = max(a, 0)`` whose input ``a`` lies in ``[low, high]`` is linear unless ``low < 0 < high``. Otherwise a
whole number ``s`` says whether it is on: ``h >= a``, ``h >= 0``, ``h <= a - low (1 - s)``, ``h <= high s`` (Tjeng,
Xiao and Tedrake, "Evaluating robustness of neural networks with mixed integer programming", 2019). The bounds of
inputs are those over each feature alone, then of the layers in turn.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.recourse.models.relu_network import ReluNetwork
from app.recourse.search.mixed_integer import ActionProgram, Solved

WHOLE = 1e-6
"""How far from a whole number, and beyond a constraint, the solver may be."""


@dataclass(frozen=True, slots=True)
class _Affine:
    """Numbers that are affine in the variables of the program: ``constant + slope @ v``."""

    constant: Float[np.ndarray, "u"]
    slope: Float[np.ndarray, "u v"]

    def then(self, weights: Float[np.ndarray, "u o"], bias: Float[np.ndarray, "o"]) -> "_Affine":
        return _Affine(self.constant @ weights + bias, weights.T @ self.slope)


class NetworkProgram:
    """The scores of a network over an action set, as a mixed-integer program.

    All rules of the action set have to be constraints of the program.

    Parameters
    ----------
    offset : the logit minus the score
    """

    def __init__(self, program: ActionProgram, network: ReluNetwork, offset: float) -> None:
        assert not program.logic, "rules of this kind are no constraints of the program"
        self.program = program
        self._rows: list[Float[np.ndarray, v]] = []
        self._lower: list[float] = []
        self._whole: list[bool] = []
        """Of the variables beyond those of the actions, which are whole numbers."""
        (weights, bias), *inner = network.layers
        numbers = _Affine(program.start, program.effect).then(weights, bias)
        low, high = self._first_bounds(numbers)
        error = WHOLE * (1.0 + np.abs(numbers.slope) @ program.limit)
        for weights, bias in inner:
            error = (error + WHOLE * (1.0 + np.maximum(high, -low))) @ np.abs(weights)
            numbers, low, high = self._through(numbers, low, high, network.leak)
            numbers = numbers.then(weights, bias)
            rising, falling = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
            low, high = low @ rising + high @ falling + bias, high @ rising + low @ falling + bias
        self.score = _Affine(numbers.constant - offset, numbers.slope)
        self.most = float(high[0]) - offset
        """Upper bound on the score."""
        self.error = float(error[0])
        """How much the score may be off, as the solver takes numbers for whole, and constraints for met, that nearly
        are."""

    def _first_bounds(self, numbers: _Affine) -> tuple[Float[np.ndarray, "u"], Float[np.ndarray, "u"]]:
        """Bounds over the moves: each feature makes one at most, and no more features change than may."""
        program, n = self.program, self.program.size // 2
        made, further = numbers.slope[:, :n], numbers.slope[:, n:] * program.limit[n:]
        up, down = made + np.maximum(further, 0.0), made + np.minimum(further, 0.0)
        features = np.unique(program.feature)
        most, least = np.zeros((len(features), len(made))), np.zeros((len(features), len(made)))
        for k, j in enumerate(features):
            moves = program.feature == j
            most[k] = np.maximum(up[:, moves].max(axis=1), 0.0)
            least[k] = np.minimum(down[:, moves].min(axis=1), 0.0)
        if program.action_set.max_changes is not None:
            most = -np.sort(-most, axis=0)[: program.action_set.max_changes]
            least = np.sort(least, axis=0)[: program.action_set.max_changes]
        return numbers.constant + least.sum(axis=0), numbers.constant + most.sum(axis=0)

    def _through(
        self, numbers: _Affine, low: Float[np.ndarray, "u"], high: Float[np.ndarray, "u"], leak: float
    ) -> tuple[_Affine, Float[np.ndarray, "u"], Float[np.ndarray, "u"]]:
        """The units of a layer: their outputs and bounds; those that may be on or off have two variables more."""
        open_ = np.flatnonzero((low < 0.0) & (high > 0.0))
        before, m = numbers.slope.shape[1], len(open_)
        self._rows = [np.append(row, np.zeros(2 * m)) for row in self._rows]
        self._whole += [False] * m + [True] * m
        slope = np.hstack([numbers.slope, np.zeros((len(low), 2 * m))])
        constant, out, eye = numbers.constant.copy(), slope.copy(), np.eye(2 * m)
        for k, u in enumerate(open_.tolist()):
            on, is_on = np.append(np.zeros(before), eye[k]), np.append(np.zeros(before), eye[m + k])
            self._require(on - slope[u], constant[u])  # on >= a
            self._require(slope[u] - on + low[u] * is_on, low[u] - constant[u])  # on <= a - low (1 - is_on)
            self._require(high[u] * is_on - on, 0.0)
            self._require(-is_on, -1.0)
            out[u] = leak * slope[u] + (1.0 - leak) * on
            constant[u] *= leak
        off = high <= 0.0
        out[off] *= leak
        constant[off] *= leak
        low, high = np.where(low > 0.0, low, leak * low), np.where(high > 0.0, high, leak * high)
        return _Affine(constant, out), low, high

    def _require(self, row: Float[np.ndarray, "v"], lower: float) -> None:
        self._rows.append(row)
        self._lower.append(lower)

    def cheapest(
        self, least: float, *, cost: Float[np.ndarray, "n"] | None = None, deadline: float = math.inf
    ) -> Solved | None:
        """The cheapest actions with a score of at least `least`; None if no legal actions have such a score.

        Parameters
        ----------
        cost : cost per unit of each variable of the action program, in place of that program's own costs

        Raises
        ------
        DeadlineExceeded : no answer was known at the deadline, a `time.monotonic()`
        SolverFailed : the solver ended without an answer
        """
        if self.most < least:
            return None
        program = self.program
        rows = np.array([*self._rows, self.score.slope[0]])
        lower = np.array([*self._lower, least - self.score.constant[0]])
        own, whole = program.cost if cost is None else cost, np.array(self._whole, dtype=bool)
        costs = np.append(own, np.zeros(len(whole)))
        return program.relaxed(costs, rows, lower, limit=program.limit, deadline=deadline, whole=whole)
