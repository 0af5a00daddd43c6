"""Whether a ReLU network can reach a score over an action set: branch and bound over boxes of records.

A box is a range of values of each feature. Over it the output of each unit lies between two linear functions of the
record, and so does the score, whose bound is the maximum of the upper one (Zhang et al., "Efficient neural network
robustness certification with general activation functions", 2018). In this maximum a category has one level, and no
more features change than may. A box is divided until its bound is too low or its best record has the score.
"""

import math
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LinearRule
from app.recourse.models.relu_network import ReluNetwork

MOST_WORK = 1e8
"""Numbers, roughly, that are computed before a search is open: about a second. No time, so that the same question has
the same answer."""

TOGETHER, ENTRIES = 256, 1e6
"""Boxes that are bounded at once, and about how many numbers a matrix for all of them has at most."""

POINT = 1e-9
"""Width in encoded units up to which a range of numbers is not divided."""

ENOUGH = 0.999
"""Part of the cost of a record that is known below which cheaper ones are sought."""

PER_BOX, PER_MULTIPLICATION = 1e3, 5e-3
"""Work of a box beside its numbers, and of a multiplication in a product of matrices."""

ROUNDING = 1e-6
"""Part of its terms by which a linear rule must be broken all over a box for the box to be left out."""


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Ranges of raw values; of a category from one level to another."""

    low_raw: Float[np.ndarray, "b p"]
    high_raw: Float[np.ndarray, "b p"]
    bound: Float[np.ndarray, "b"]
    """Upper bound on the score."""
    best_raw: Float[np.ndarray, "b p"]
    """Records at which the linear function above the score is largest."""
    cost: Float[np.ndarray, "b"]
    """Lower bound on the cost."""

    def at(self, places: Int[np.ndarray, "_"] | Bool[np.ndarray, "b"]) -> "_Boxes":
        return _Boxes(*(getattr(self, name)[places] for name in self.__dataclass_fields__))

    def and_(self, other: "_Boxes") -> "_Boxes":
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return _Boxes(*map(np.concatenate, pairs))


_Lines: TypeAlias = tuple[Float[np.ndarray, "b _"], Float[np.ndarray, "b _"], Float[np.ndarray, "b _"]]
"""Around outputs of a layer's units: slope of the line above, its value at 0, slope of the line below, through 0."""


class NetworkBranching:
    """Searches one action set for a legal record with a high score.

    Parameters
    ----------
    offset : the network's logit minus the score
    actions : the action set; time alone changes none of its features, no number is in a state such as missing, and no
        range is infinite
    """

    def __init__(self, network: ReluNetwork, offset: float, actions: ActionSet) -> None:
        A, space = actions, actions.space
        self.actions, self.offset, self.leak = A, offset, network.leak
        self.numbers, self.groups = (every[A.movable[every]] for every in (space.numeric, space.groups))
        self.features = np.concatenate([self.numbers, self.groups])
        spans = [np.arange(space.spans[j].start, space.spans[j].stop) for j in self.features]
        columns = np.concatenate([*(span[: 1 if k < len(self.numbers) else None] for k, span in enumerate(spans)), []])
        self._columns = columns.astype(np.intp)
        sizes = [len(span) for span in spans[len(self.numbers) :]]
        ends = len(self.numbers) + np.cumsum([0, *sizes])
        self.spans = [slice(end - size, end) for end, size in zip(ends[1:].tolist(), sizes, strict=True)]
        self._proposed = [
            np.isin(np.arange(size), A.levels(j)) for j, size in zip(self.groups.tolist(), sizes, strict=True)
        ]
        # What stays as it is joins the bias of the first layer.
        stays = A.x0.copy()
        stays[self._columns] = 0.0
        (weights, bias), *inner = network.layers
        self.layers = ((weights[self._columns], bias + stays @ weights), *inner)
        self.own = A.x0[self._columns]
        self.cap = None if A.begun or (A.max_changes or math.inf) >= len(self.features) else A.max_changes
        reach = np.abs(self.layers[0][0]).sum(axis=1)
        self._reach = np.concatenate(
            [reach[: len(self.numbers)] / space.spread_raw[self.numbers], [2.0 * reach[s].max() for s in self.spans]]
        )
        widths = [len(self._columns), *(len(bias) for _, bias in self.layers)]
        self._work = PER_BOX + 2 * sum(
            u * sum(v * (1.0 + PER_MULTIPLICATION * w) for v, w in pairwise(widths[: k + 1]))
            for k, u in enumerate(widths)
        )
        """For one box."""
        self._together = int(np.clip(ENTRIES / max(widths) ** 2, 1, TOGETHER))

    def accepted(
        self, least: float, *, cheapest: bool = False, deadline: float = math.inf
    ) -> Float[np.ndarray, "p"] | None:
        """A legal record with a score of at least `least`; None if there is no such record.

        Parameters
        ----------
        cheapest : whether the cheapest is sought; where the effort ends before, a dearer one is returned

        Raises
        ------
        DeadlineExceeded : no record is known at `deadline`, a `time.monotonic()`
        SolverFailed : no record is known after `MOST_WORK`, or where ranges cannot be divided further
        """
        A = self.actions
        ends = np.array([A.lower_raw, A.upper_raw])
        ends[:, self.numbers] = A.round(ends.copy(), toward_raw=A.factual_raw[None])[:, self.numbers]
        open_ = self._bounded(ends[:1], ends[1:])
        found: Float[np.ndarray, p] | None = None
        paid, work, undivided = math.inf, 0.0, False
        while len((open_ := open_.at((open_.bound >= least) & (open_.cost < ENOUGH * paid))).bound):
            late = time.monotonic() > deadline
            if late or work > MOST_WORK:
                if found is not None:
                    break
                raise DeadlineExceeded if late else SolverFailed("The network has too many combinations of units.")
            order = np.argsort(-open_.bound if found is None else open_.cost, kind="stable")
            now, later = open_.at(order[: self._together]), open_.at(order[self._together :])
            rows_raw = np.concatenate([now.best_raw, np.clip(A.factual_raw, now.low_raw, now.high_raw)])
            scores = ReluNetwork(self.layers, self.leak).logit(self.points(rows_raw)) - self.offset
            rows_raw = rows_raw[(scores >= least) & A.contains(rows_raw)]
            if len(rows_raw):
                costs = A.cost(rows_raw)
                if costs.min() < paid:
                    found, paid = rows_raw[costs.argmin()], float(costs.min())
                if not cheapest:
                    return found
            widths = self._widths(now)
            is_wide = widths.max(axis=1, initial=0.0) > 0.0
            # A single record is settled; of a narrow range of numbers some may have the score.
            undivided |= bool((now.low_raw != now.high_raw)[~is_wide].any())
            halves = self._halves(now.at(is_wide), widths[is_wide].argmax(axis=1))
            work += self._work * len(halves.bound)
            open_ = later.and_(halves)
        if found is None and undivided:
            raise SolverFailed("Some ranges of numbers cannot be divided further.")
        return found

    def points(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n v"]:
        """Encoded points of raw rows, only the columns that may change."""
        return self.actions.space.encode(rows_raw)[:, self._columns]

    def _widths(self, boxes: _Boxes) -> Float[np.ndarray, "b f"]:
        """How much each feature can move the inputs of the first layer; 0 where it is not divided."""
        widths = (boxes.high_raw - boxes.low_raw)[:, self.features]
        n = len(self.numbers)
        widths[:, :n][widths[:, :n] <= POINT * self.actions.space.spread_raw[self.numbers]] = 0.0
        widths[:, n:] = widths[:, n:] > 0.0
        return widths * self._reach

    def _halves(self, boxes: _Boxes, k: Int[np.ndarray, "b"]) -> _Boxes:
        """The boxes, each divided in the middle of its feature of this position; without those that are excluded."""
        A, every, j = self.actions, np.arange(len(k)), self.features[k]
        below, above = boxes.high_raw.copy(), boxes.low_raw.copy()
        middle = 0.5 * (boxes.low_raw + boxes.high_raw)[every, j]
        below[every, j] = above[every, j] = middle
        down = A.round(below.copy(), toward_raw=boxes.low_raw)[every, j]
        up = A.round(above.copy(), toward_raw=boxes.high_raw)[every, j]
        is_number = k < len(self.numbers)
        below[every, j] = np.where(is_number, down, np.floor(middle))
        above[every, j] = np.where(is_number, up, np.floor(middle) + 1.0)
        low, high = np.concatenate([boxes.low_raw, above]), np.concatenate([below, boxes.high_raw])
        possible = self._possible(low, high)
        return self._bounded(low[possible], high[possible])

    def _possible(self, low: Float[np.ndarray, "b p"], high: Float[np.ndarray, "b p"]) -> Bool[np.ndarray, "b"]:
        """Which boxes may hold a legal record, by levels, the number of changes, their time and linear rules."""
        A = self.actions
        nearest = np.clip(A.factual_raw, low, high)
        keep = np.ones(len(low), dtype=bool)
        for levels in self.levels(low, high):
            keep &= levels.any(axis=1)
        if A.max_changes is not None:
            keep &= A.changed(nearest) <= A.max_changes
        if A.clock.is_shared:
            keep &= A.clock.holds(nearest)
        for rule in A.rules:
            if not isinstance(rule, LinearRule):
                continue
            terms = np.sort(np.stack([low, high]) * rule.coefficients_raw, axis=0)
            slack = ROUNDING * (1.0 + abs(rule.limit) + np.abs(terms).sum(axis=(0, 2)))
            least, most = terms.sum(axis=2)
            keep &= (least <= rule.limit + slack) & ((most >= rule.limit - slack) | (not rule.equality))
        return keep

    def levels(self, low: Float[np.ndarray, "b p"], high: Float[np.ndarray, "b p"]) -> list[Bool[np.ndarray, "b _"]]:
        """Of each category the levels of each box that may be proposed."""
        places = [
            (j, proposed, np.arange(len(proposed))) for j, proposed in zip(self.groups, self._proposed, strict=True)
        ]
        return [proposed & (at >= low[:, j, None]) & (at <= high[:, j, None]) for j, proposed, at in places]

    def _bounded(self, low: Float[np.ndarray, "b p"], high: Float[np.ndarray, "b p"]) -> _Boxes:
        """Boxes with their bounds."""
        size = self._together
        parts = [self._part(low[i : i + size], high[i : i + size]) for i in range(0, max(len(low), 1), size)]
        bound, best_raw = (np.concatenate(part) for part in zip(*parts, strict=True))
        return _Boxes(low, high, bound, best_raw, self.actions.cost(np.clip(self.actions.factual_raw, low, high)))

    def _part(
        self, low: Float[np.ndarray, "b p"], high: Float[np.ndarray, "b p"]
    ) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "b p"]]:
        box = _Maxima(self, low, high)
        layers: list[_Lines] = []
        for weights, bias in self.layers[:-1]:
            (most, _), (least, _) = (self._through(box, sign * weights.T, sign * bias, layers) for sign in (1.0, -1.0))
            layers.append(_relaxed(-least, most, self.leak))
        weights, bias = self.layers[-1]
        most, slope = self._through(box, weights.T, bias, layers)
        return most[:, 0] - self.offset, box.best(slope)

    def _through(
        self, box: "_Maxima", weights: Float[np.ndarray, "u w"], bias: Float[np.ndarray, "u"], layers: list[_Lines]
    ) -> tuple[Float[np.ndarray, "b u"], Float[np.ndarray, "b u v"]]:
        """Upper bounds on numbers that are linear in what the last of `layers` returns, and their slopes."""
        slope = np.broadcast_to(weights, (box.count, *weights.shape))
        constant = np.broadcast_to(bias, slope.shape[:2])
        for (above, lift, below), (inner, inner_bias) in zip(
            layers[::-1], self.layers[len(layers) - 1 :: -1], strict=False
        ):
            rises = slope > 0.0
            constant = constant + (np.where(rises, slope, 0.0) @ lift[..., None])[..., 0]
            slope = slope * np.where(rises, above[:, None], below[:, None])
            constant = constant + slope @ inner_bias
            slope = slope @ inner.T
        return constant + box.most(slope), slope


def _relaxed(low: Float[np.ndarray, "b u"], high: Float[np.ndarray, "b u"], leak: float) -> _Lines:
    """The closest lines around the output of units whose inputs lie between `low` and `high`."""
    bends = (low < 0.0) & (high > 0.0)
    width = np.where(bends, high - low, 1.0)
    above = np.where(bends, (high - leak * low) / width, np.where(low >= 0.0, 1.0, leak))
    return (
        above,
        np.where(bends, high * (1.0 - above), 0.0),
        np.where(bends & (high < -low), leak, np.where(bends, 1.0, above)),
    )


class _Maxima:
    """Largest values of linear functions over several boxes."""

    def __init__(self, search: NetworkBranching, low: Float[np.ndarray, "b p"], high: Float[np.ndarray, "b p"]) -> None:
        facts = search.actions.factual_raw[search.features]
        self.count, self._search, self._low_raw, self._high_raw = len(low), search, low, high
        self._low, self._high = (search.points(end)[:, None, : len(search.numbers)] for end in (low, high))
        self._levels = search.levels(low, high)
        self._may_stay = ((low[:, search.features] <= facts) & (facts <= high[:, search.features]))[:, None]

    def most(self, slope: Float[np.ndarray, "b u v"]) -> Float[np.ndarray, "b u"]:
        """The largest value of each function, without its constant."""
        changed, moved, own = self._moves(slope)
        return np.where(changed, moved, own).sum(axis=2)

    def best(self, slope: Float[np.ndarray, "b 1 v"]) -> Float[np.ndarray, "b p"]:
        """For each box the raw record at which its function is largest."""
        search, n = self._search, len(self._search.numbers)
        rows_raw = self._low_raw.copy()
        upwards = slope[:, 0, :n] > 0.0
        rows_raw[:, search.numbers] = np.where(
            upwards, *(end[:, search.numbers] for end in (self._high_raw, self._low_raw))
        )
        for j, span, levels in zip(search.groups, search.spans, self._levels, strict=True):
            rows_raw[:, j] = np.where(levels, slope[:, 0, span], -np.inf).argmax(axis=1)
        changed, _, _ = self._moves(slope)
        rows_raw[:, search.features] = np.where(
            changed[:, 0], rows_raw[:, search.features], search.actions.factual_raw[search.features]
        )
        return rows_raw

    def _moves(
        self, slope: Float[np.ndarray, "b u v"]
    ) -> tuple[Bool[np.ndarray, "b u f"], Float[np.ndarray, "b u f"], Float[np.ndarray, "b u f"]]:
        """Which features change where a function is largest, and what each adds if it changes and if it does not."""
        search = self._search
        numbers, groups = slope[..., : len(search.numbers)], [slope[..., span] for span in search.spans]
        best = [
            np.where(levels[:, None], one, -np.inf).max(axis=2)
            for one, levels in zip(groups, self._levels, strict=True)
        ]
        moved = np.dstack([np.maximum(numbers * self._low, numbers * self._high), *best])
        if search.cap is None:
            return np.ones_like(moved, dtype=bool), moved, moved
        kept = [one @ search.own[span] for one, span in zip(groups, search.spans, strict=True)]
        own = np.dstack([numbers * search.own[: len(search.numbers)], *kept])
        gains = np.where(self._may_stay, moved - own, np.inf)
        least = np.partition(gains, -search.cap, axis=2)[..., -search.cap, None]
        return gains >= least, moved, own
