"""The cheapest legal action that a linear surrogate accepts.

``min sum_j cost_j |x_j - x0_j|  subject to  w.x + c >= margin,  x in the action set``. Each number only ever moves in
the direction that helps, and a change of category costs the same whichever level it goes to, so only the level with
the largest weight matters. What remains is a covering knapsack with one constraint:

* a box of continuous features is the fractional knapsack: fill in decreasing gain per cost, exact in one pass;
* lattices, categories and a cap on the number of changes: depth-first branch and bound on the same order, with the
  fractional knapsack as the bound; exact to `OPTIMALITY_GAP`;
* linear rules between features do not fit that and go to the general mixed-integer solver.

Papers that move single one-hot columns (paper 1's projection) get half categories; here a group is one item.
"""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.actionability import ActionSet, Limit
from app.recourse.convex import mixed_integer_program
from app.recourse.linear import LinearModel
from app.recourse.result import Relaxation

OPTIMALITY_GAP = 1e-6
"""Relative to the cost: a cheaper action closer than this is not looked for."""
MAX_NODES = 20_000
"""Branches tried before the general solver takes over."""
SLACK = 1e-9
"""Surrogate scores are met up to this share of their size, so that rounding does not cost a whole step."""


SearchKind: TypeAlias = Literal["auto", "projection", "actionable"]


@dataclass(frozen=True, slots=True)
class Item:
    """One feature that can bring the score up, and at what price."""

    feature: int
    gain: float
    """Score per raw unit; of the whole change for a category."""
    cost: float
    """Cost per raw unit; of the whole change for a category."""
    first: float
    """Smallest move, raw units: to the next lattice point; 0 for a continuous feature."""
    step: float
    """Lattice step, raw units; 0 for a continuous feature."""
    limit: float
    """Largest move, raw units."""
    sign: float
    """Direction of the move; 0 for a category."""
    level: int
    """Category to change to; -1 for numbers."""
    uses: int
    """1 if a move counts as a changed feature, 0 if constraints force this feature to change anyway."""

    def floor(self, amount: float) -> float:
        """The largest legal move not above `amount`."""
        if self.step == 0.0:
            return min(amount, self.limit)
        if amount < self.first * (1.0 - SLACK):
            return 0.0
        ticks = math.floor((amount - self.first) / self.step + SLACK)
        return min(self.first + ticks * self.step, self.limit)

    def ceil(self, amount: float) -> float:
        """The smallest legal move not below `amount`; above `limit` there is none and `limit` is returned."""
        if self.step == 0.0:
            return min(amount, self.limit)
        if amount <= 0.0:
            return 0.0
        ticks = math.ceil((amount - self.first) / self.step - SLACK)
        return min(self.first + max(ticks, 0) * self.step, self.limit)


class Search:
    """Searches one action set under one surrogate, for as many margins as are asked.

    Parameters
    ----------
    model : with unit-norm weights, so that margins are distances in encoded units
    kind : `actionable` respects lattices while searching, `projection` moves numbers freely and rounds them away from
        the boundary afterwards; `auto` is `actionable` where there are lattices or categories
    deadline : `time.monotonic()` at which the general solver has to stop
    """

    def __init__(
        self, model: LinearModel, action_set: ActionSet, *, kind: SearchKind = "auto", deadline: float | None = None
    ) -> None:
        self.model = model
        self.action_set = action_set
        self.deadline = deadline
        self.whole = kind == "actionable" or (kind == "auto" and not action_set.is_box)
        self.start_raw = action_set.start_raw
        self.start_score = float(self._score(self.start_raw))
        self.forced = int(action_set.changed(self.start_raw[None])[0])
        items = [item for j in np.flatnonzero(action_set.movable) if (item := self._item(int(j))) is not None]
        self.items = sorted(items, key=lambda item: item.cost / item.gain)

    def _score(self, row_raw: Float[np.ndarray, "p"]) -> float:
        return float(self.model.score(self.action_set.space.encode(row_raw[None]))[0])

    def _item(self, j: int, limit: Limit | None = None) -> Item | None:
        """What feature `j` can contribute; `limit` replaces its range by a relaxed one."""
        A = self.action_set
        feature = A.space.features[j]
        weights = self.model.w[A.space.spans[j]]
        uses = int(self.start_raw[j] == A.factual_raw[j])
        if feature.is_group:
            best = int(weights.argmax())
            gain = float(weights[best] - weights[int(self.start_raw[j])])
            if not gain > 0.0:
                return None
            return Item(j, gain, float(A.weights[j]), 1.0, 1.0, 1.0, 0.0, best, uses)
        weight, scale = float(weights[0]), float(feature.scale or 1.0)
        if weight == 0.0:
            return None
        sign = math.copysign(1.0, weight)
        lower, upper = (float(A.lower_raw[j]), float(A.upper_raw[j])) if limit is None else (limit.lower_raw, limit.upper_raw)
        start = float(self.start_raw[j])
        room = upper - start if sign > 0 else start - lower
        if not room > 0.0:
            return None
        step = float(A.step_raw[j]) if self.whole else 0.0
        first = 0.0
        if step > 0.0:
            ticks = (start - float(A.anchor_raw[j])) / step
            behind = (ticks - math.floor(ticks + 1e-6)) * step
            first = step - behind if sign > 0 or behind < 1e-6 * step else behind
        return Item(j, abs(weight) / scale, float(A.weights[j]) / scale, first, step, room, sign, -1, uses)

    @cached_property
    def reach(self) -> float:
        """The highest surrogate score in the action set (rules aside), infinite where a number has no limit."""
        return self.start_score + _most_gain(self.items, self._uses_left)

    @property
    def _uses_left(self) -> int:
        cap = self.action_set.max_changes
        return len(self.items) if cap is None else cap - self.forced

    def row(self, margin: float) -> Float[np.ndarray, "p"] | None:
        """The cheapest legal raw row with a surrogate score of at least `margin`; None where there is none.

        Raises
        ------
        SolverFailed : the general solver ran out of time
        """
        if self._uses_left < 0 or (self.action_set.lower_raw > self.action_set.upper_raw).any():
            return None
        need = margin - self.start_score
        if self.action_set.rules:
            return self._row_by_program(need)
        if self.reach - self.start_score < need * (1.0 - SLACK):
            return None
        moves = cover(self.items, need, self._uses_left)
        return self._row_by_program(need) if moves is None else self._apply(moves)

    def _apply(self, moves: list[float]) -> Float[np.ndarray, "p"]:
        row_raw = self.start_raw.copy()
        for item, amount in zip(self.items, moves, strict=True):
            if amount > 0.0 and item.level >= 0:
                row_raw[item.feature] = item.level
            elif amount > 0.0:
                row_raw[item.feature] += item.sign * amount
        away = np.where(row_raw > self.start_raw, np.inf, -np.inf)
        return self.action_set.round(row_raw[None], toward_raw=np.where(row_raw == self.start_raw, row_raw, away)[None])[0]

    # --- rules -------------------------------------------------------------------------------------------------------

    def _row_by_program(self, need: float) -> Float[np.ndarray, "p"] | None:
        """The same search as a mixed-integer program, which also knows rules between numbers."""
        A = self.action_set
        moves = self._both_ways()
        # Per move: whether it is used, and its ticks (lattice) or amount (continuous) beyond the first.
        n = len(moves)
        first = np.array([m.first for m in moves])
        per = np.array([m.step if m.step > 0.0 else 1.0 for m in moves])
        ticks = np.array([math.floor((m.limit - m.first) / m.step + 1e-6) if m.step > 0.0 else m.limit for m in moves])
        gain, cost = np.array([m.gain for m in moves]), np.array([m.cost for m in moves])
        rows, lower, upper = [np.concatenate([gain * first, gain * per])], [need], [math.inf]
        bound = np.where(np.isfinite(ticks), ticks, 1e9)
        for i in range(n):
            use = np.zeros(2 * n)
            use[i], use[n + i] = -bound[i], 1.0
            rows.append(use)
            lower.append(-math.inf)
            upper.append(0.0)
        by_feature: dict[int, list[int]] = {}
        for i, move in enumerate(moves):
            by_feature.setdefault(move.feature, []).append(i)
        for both in by_feature.values():
            rows.append(np.bincount(both, minlength=2 * n).astype(float))
            lower.append(0.0)
            upper.append(1.0)
        if A.max_changes is not None:
            rows.append(np.concatenate([[float(m.uses) for m in moves], np.zeros(n)]))
            lower.append(0.0)
            upper.append(float(self._uses_left))
        for rule in A.rules:
            a = np.array([rule.coefficients_raw[m.feature] * m.sign for m in moves])
            rest = rule.limit - float(np.dot(rule.coefficients_raw, self.start_raw))
            rows.append(np.concatenate([a * first, a * per]))
            lower.append(rest if rule.equality else -math.inf)
            upper.append(rest)
        x = mixed_integer_program(
            np.concatenate([cost * first, cost * per]),
            np.array(rows), np.array(lower), np.array(upper),
            limit=np.concatenate([np.ones(n), bound]),
            integer=np.concatenate([np.ones(n), np.array([m.step > 0.0 for m in moves])]).astype(bool),
            time_limit_s=None if self.deadline is None else self.deadline - time.monotonic(),
        )  # fmt: skip
        if x is None:
            return None
        row_raw = self.start_raw.copy()
        for i, move in enumerate(moves):
            amount = (first[i] + x[n + i] * per[i]) * x[i]
            row_raw[move.feature] = move.level if move.level >= 0 and amount > 0.0 else row_raw[move.feature] + move.sign * amount
        return A.round(row_raw[None], toward_raw=row_raw[None])[0]

    def _both_ways(self) -> list[Item]:
        """Every move in either direction: a rule may ask for one that the score alone would not."""
        backwards = Search(LinearModel(-self.model.w, -self.model.c), self.action_set, kind="actionable" if self.whole else "projection")
        against = [replace(item, gain=-item.gain) for item in backwards.items if item.level < 0]
        idle = [
            item
            for sign in (1.0, -1.0)
            for item in self._unweighted(sign)
        ]  # fmt: skip
        return [*self.items, *against, *idle]

    def _unweighted(self, sign: float) -> list[Item]:
        """Numbers that the surrogate gives no weight to, but a rule might move."""
        ruled = {j for rule in self.action_set.rules for j, a in enumerate(rule.coefficients_raw) if a != 0.0}
        spans = self.action_set.space.spans
        still = [j for j in ruled if self.action_set.movable[j] and self.model.w[spans[j].start] == 0.0]
        if not still:
            return []
        w = self.model.w.copy()
        w[[spans[j].start for j in still]] = sign
        probe = Search(LinearModel(w, self.model.c), self.action_set, kind="actionable" if self.whole else "projection")
        return [replace(item, gain=0.0) for item in probe.items if item.feature in still]

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def relaxation(self, margin: float) -> Relaxation | None:
        """The single constraint whose removal brings the reachable score up most; None where none helps."""
        A = self.action_set
        best: tuple[float, Limit | None] | None = None
        for limit in A.limits:
            j = A.space.index(limit.feature)
            assert j is not None
            relaxed = self._item(j, limit)
            others = [item for item in self.items if item.feature != j]
            reach = self.start_score + _most_gain(others + ([relaxed] if relaxed else []), self._uses_left)
            if reach > self.reach * (1 + SLACK) + SLACK and (best is None or reach > best[0]):
                best = (reach, limit)
        if A.max_changes is not None:
            reach = self.start_score + _most_gain(self.items, len(self.items))
            if reach > self.reach and (best is None or reach > best[0]):
                best = (reach, None)
        if best is None:
            return None
        reach, binding = best
        if binding is None:
            text = f"Allowing more than {A.max_changes} changed features would help most."
            return Relaxation(constraint="max_changes", feature=None, sufficient=reach >= margin, text=text)
        feature = A.space.features[A.space.index(binding.feature) or 0]
        text = f"Relaxing the {binding.constraint} constraint on {feature.title} would help most."
        return Relaxation(constraint=binding.constraint, feature=feature.name, sufficient=reach >= margin, text=text)


def _most_gain(items: list[Item], uses: int) -> float:
    gains = sorted((item.gain * item.limit for item in items if item.uses), reverse=True)
    return sum(gains[: max(uses, 0)]) + sum(item.gain * item.limit for item in items if not item.uses)


def cover(items: list[Item], need: float, uses: int) -> list[float] | None:
    """Moves of least cost whose gains sum to at least `need`, using at most `uses` features.

    Depth first over the items in order of cost per gain; amounts of continuous items are settled last, by filling in
    the same order, which is exact once it is known which of them may be used.

    Parameters
    ----------
    items : sorted by cost per gain

    Returns
    -------
    one raw amount per item; None where they cannot reach `need` or `MAX_NODES` branches did not settle it
    """
    n = len(items)
    need *= 1.0 - SLACK
    if need <= 0.0:
        return [0.0] * n
    capped = uses < sum(item.uses for item in items)
    full = [item.gain * item.limit for item in items]
    most = [[_most_gain(items[i:], u) for u in range(uses + 1)] if capped else [sum(full[i:])] for i in range(n + 1)]
    amounts, best = [0.0] * n, list[float]()
    usable: list[int] = []  # continuous items that may be filled, in order
    best_cost, nodes = math.inf, 0

    def fill(i: int, rest: float, amounts: list[float] | None = None) -> float:
        """Least cost of covering `rest` with the usable items and, as if they were continuous, items i.. on."""
        cost = 0.0
        for k in (*usable, *range(i, n)):
            if rest <= 0.0:
                return cost
            share = min(rest / items[k].gain, items[k].limit)
            cost += share * items[k].cost
            rest -= full[k] if share == items[k].limit else rest
            if amounts is not None:
                amounts[k] = share
        return cost if rest <= 0.0 else math.inf

    def try_amounts(i: int, rest: float, cost: float, left: int, amount: float, stride: float) -> None:
        """Branch on amounts of lattice item `i` from `amount` on, `stride` apart."""
        item = items[i]
        while 0.0 < amount <= item.limit * (1.0 + SLACK):
            after, price = rest - amount * item.gain, cost + amount * item.cost
            if price + fill(i + 1, after) >= best_cost * (1.0 - OPTIMALITY_GAP):
                return
            amounts[i] = amount
            branch(i + 1, after, price, left - item.uses)
            if stride > 0.0 and after <= 0.0:
                return
            amount = amount + stride if stride > 0.0 else item.floor(amount + stride)

    def branch(i: int, rest: float, cost: float, left: int) -> None:
        """Try everything that items i.. can do, given that those before cost `cost` and leave `rest` to gain."""
        nonlocal best, best_cost, nodes
        nodes += 1
        if nodes > MAX_NODES or cost + fill(i, rest) >= best_cost * (1.0 - OPTIMALITY_GAP):
            return
        if i == n or rest <= 0.0:
            best = amounts.copy()
            best_cost = cost + fill(n, rest, best)
            return
        if most[i][left if capped else 0] + sum(full[k] for k in usable) < rest:
            return
        item = items[i]
        if item.step == 0.0:
            if left >= item.uses:
                usable.append(i)
                branch(i + 1, rest, cost, left - item.uses)
                usable.pop()
            if capped and item.uses:
                branch(i + 1, rest, cost, left)
            return
        if left >= item.uses:
            # The bound is convex in the amount, least where this item takes over from the usable ones, so each way
            # out from there ends at the first amount that cannot win.
            takeover = (rest - sum(full[k] for k in usable)) / item.gain
            above = item.ceil(takeover) or item.first
            try_amounts(i, rest, cost, left, above, item.step)
            try_amounts(i, rest, cost, left, item.floor(above - item.step), -item.step)
        amounts[i] = 0.0
        branch(i + 1, rest, cost, left)

    branch(0, need, 0.0, uses)
    return None if nodes > MAX_NODES or math.isinf(best_cost) else best
