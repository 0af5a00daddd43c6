"""Best-first branch and bound over the relaxation of a trade-off: `simplicial` bounds, few branches settle the rest."""

import heapq
import math
import time
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float

from app.recourse.search.responses import Node, Responses, legal
from app.recourse.search.simplicial import Mixture, Point, minimise, value


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a branch-and-bound search."""

    gap: float
    """Relative: smaller improvements are not searched for."""
    nodes: int
    """Branches after which the search stops."""


EXACT = Effort(gap=1e-7, nodes=2000)
QUICK = Effort(gap=1e-2, nodes=8)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best legal row that a search has found, and the objective at this row."""

    row_raw: Float[np.ndarray, "p"]
    value: float
    proven: bool
    """Whether no action is better by more than the gap."""


class Branching:
    """Best-first branch and bound for the legal row with the smallest objective."""

    def __init__(self, responses: Responses, weight: float, effort: Effort, deadline: float) -> None:
        self.responses, self.weight, self.effort, self.deadline = responses, weight, effort, deadline
        self.actions = responses.action_set
        self.every = np.arange(responses.space.p)
        self.best_row: Float[np.ndarray, p] | None = None
        self.best_value = math.inf
        self._newest = count()
        self._open: list[tuple[float, int, Node, tuple[float, float]]] = []
        """Nodes that may have better rows, by their bound and age, with the slopes of their parent's optimum."""
        self.lost = False
        """Whether a node was given up, so that nothing is proven."""

    def result(self) -> Optimum | None:
        """Search, and return the best legal row found; None if no legal row was found.

        The search ends when no open node can hold a better row, or when the effort or the time is spent.
        """
        share = self.responses.share
        self._add(self.responses.root(self.weight), -math.inf, (0.5 * share, 0.5 * (1.0 - share)))
        nodes = 0
        while self._open and self._open[0][0] < self._cutoff() and nodes < self.effort.nodes and not self._late():
            _, _, node, slopes = heapq.heappop(self._open)
            nodes += 1
            self._settle(node, slopes)
        if self.best_row is None:
            return None
        proven = not self.lost and (not self._open or self._open[0][0] >= self._cutoff())
        return Optimum(self.best_row, self.best_value, proven)

    def _cutoff(self) -> float:
        return self.best_value * (1.0 - self.effort.gap)

    def _late(self) -> bool:
        return self.best_row is not None and time.monotonic() >= self.deadline

    def _add(self, node: Node, bound: float, slopes: tuple[float, float]) -> None:
        """Open a node, unless it has no legal row."""
        cap, must = self.responses.cap, int(np.isinf(node.cost[:, 0]).sum())
        if np.isfinite(node.cost).any(axis=1).all() and (cap is None or must <= cap):
            heapq.heappush(self._open, (bound, next(self._newest), node, slopes))

    def _settle(self, node: Node, slopes: tuple[float, float]) -> None:
        """Solve the relaxation of a node, and branch where that is no legal row."""
        mixture = self._relaxation(node, slopes)
        if mixture is None or mixture.bound >= self._cutoff():
            return
        rows_raw, branch = self._rows(node, mixture)
        self._note(rows_raw)
        if mixture.bound >= self._cutoff():
            return
        if branch is not None:
            for child in self._children(node, mixture, branch):
                self._add(child, mixture.bound, mixture.slopes)
        else:
            # What ties features forbids the row, or another one that it allows may be better.
            self.lost = True

    def _relaxation(self, node: Node, slopes: tuple[float, float]) -> Mixture | None:
        """The optimum of the relaxation of a node, or a bound that is as good; None where nothing is legal."""
        share = self.responses.share

        def respond(a: float, b: float) -> Point:
            point = self.responses.respond(node, self.weight, a, b)
            if (reached := value(share, point)) < self.best_value:
                self.best_row, self.best_value = node.values_raw[self.every, point.choice], reached
            return point

        first = respond(*slopes)
        tolerance = 0.1 * self.effort.gap * self.best_value
        return minimise(first, respond, share, tolerance=tolerance, cutoff=self._cutoff())

    def _note(self, rows_raw: Float[np.ndarray, "n p"]) -> None:
        """Remember the best legal row of some that is better than all before."""
        values = self.responses.weighted(rows_raw, self.weight)
        better = np.flatnonzero(values < self.best_value)
        better = better[self.actions.contains(rows_raw[better])] if len(better) else better
        if len(better):
            k = better[values[better].argmin()]
            self.best_row, self.best_value = rows_raw[k], float(values[k])

    def _rows(self, node: Node, mixture: Mixture) -> tuple[Float[np.ndarray, "n p"], int | None]:
        """Rows at and around a mixture, and the feature to branch on where the mixture itself is none."""
        space = self.responses.space
        weights = np.array(mixture.weights)
        choices = np.array([point.choice for point in mixture.points])
        values = node.values_raw[self.every, choices]
        mixed = values[weights.argmax()].copy()
        numeric = space.numeric[~(values == values[0]).all(axis=0)[space.numeric]]
        mixed[numeric] = weights @ values[:, numeric]
        options: dict[int, tuple[float, float]] = {}
        for j in np.flatnonzero((choices != choices[0]).any(axis=0)).tolist():
            if j in space.groups:
                options[j] = tuple(values[weights.argsort()[::-1], j][:2])
            else:
                below, above = self._around(node, j, float(mixed[j]))
                if below != above:
                    options[j] = (below, above)
                else:
                    mixed[j] = below
        rows = mixed[None]
        for j, pair in list(options.items())[:4]:
            rows = np.repeat(rows, 2, axis=0)
            rows[:, j] = np.tile(pair, len(rows) // 2)
        if options:
            spread = {
                j: 1.0 - max(weights[values[:, j] == v].sum() for v in set(values[:, j].tolist())) for j in options
            }
            return rows, max(spread, key=lambda j: spread[j])
        if self.responses.cap is not None:
            moved = (choices > 0) | node.moved
            if (moved.any(axis=0)).sum() > self.responses.cap:
                undecided = np.flatnonzero((moved != moved[0]).any(axis=0))
                part = np.abs(weights @ moved[:, undecided] - 0.5)
                return rows, int(undecided[part.argmin()])
        return rows, None

    def _around(self, node: Node, j: int, mixed: float) -> tuple[float, float]:
        """The legal values below and above, equal where it is legal itself."""
        A, fact, step = self.actions, float(self.actions.factual_raw[j]), float(self.actions.step_raw[j])
        if abs(mixed - fact) <= 1e-9 * step:
            return fact, fact
        near_below, near_above = float(A.below_raw[j]), float(A.above_raw[j])
        if near_below < mixed < near_above:
            still = math.isfinite(node.cost[j, 0])
            below = fact if still and mixed >= fact else near_below
            above = fact if still and mixed < fact else near_above
        else:
            below, above = legal(A, j, mixed, math.floor), legal(A, j, mixed, math.ceil)
        return max(below, float(node.low_raw[j])), min(above, float(node.high_raw[j]))

    def _children(self, node: Node, mixture: Mixture, j: int) -> list[Node]:
        space, responses = self.responses.space, self.responses
        one, other = (Node(*(getattr(node, name).copy() for name in Node.__dataclass_fields__)) for _ in range(2))
        choices = np.array([point.choice for point in mixture.points])
        values, weights = node.values_raw[self.every, choices], np.array(mixture.weights)
        if j in space.groups:
            levels = node.values_raw[j, np.isfinite(node.cost[j])].astype(int).tolist()
            heaviest = int(values[weights.argmax(), j])
            responses.write_group(one, j, [heaviest])
            responses.write_group(other, j, [level for level in levels if level != heaviest])
            return [one, other]
        still = math.isfinite(node.cost[j, 0])
        move = bool(np.isfinite(node.cost[j, 1:]).any())
        below, above = self._around(node, j, float(weights @ values[:, j]))
        if below != above:
            one.high_raw[j], other.low_raw[j] = below, above
            for child in (one, other):
                responses.write(child, j, still=still, move=move)
            return [one, other]
        responses.write(one, j, still=True, move=False)
        other.moved[j] = True
        responses.write(other, j, still=False)
        return [one, other]
