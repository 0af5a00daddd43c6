"""The action set of one person as items that are tied: by linear rules, a cap, or time that changes share."""

import math

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LinearRule
from app.recourse.search.tied_items import TiedItem
from app.recourse.search.tied_knapsack import TiedKnapsack


class TiedMoves:
    """The possible moves in one action set, as items of a knapsack in which rules, a cap or shared time tie items.

    An item says what its moves add to a linear score, and how much of each rule, of the cap and of the time its moves
    use. Rules that are not linear are left out.

    Parameters
    ----------
    w : (d,), weights of the score
    reach : largest cost of a move of a number without limit

    Raises
    ------
    NotCovered : several rules tie the same continuous items, or a budget depends on how far a continuous item moves
    """

    def __init__(self, action_set: ActionSet, w: Float[np.ndarray, "d"], *, reach: float) -> None:
        A, space = action_set, action_set.space
        self.actions, self.feature, self.sign, self.level = A, list[int](), list[float](), list[int]()
        uses, slack = linear_rules(A)
        once, per, budgets = _budgets(A)
        items: list[TiedItem] = []

        def add(j: int, sign: float, level: int, item: TiedItem) -> None:
            self.feature.append(j)
            self.sign.append(sign)
            self.level.append(level)
            items.append(item)

        for k, j in enumerate(space.numeric.tolist()):
            if not A.movable[j]:
                continue
            weight, scale = float(w[space.numeric_columns[k]]), float(space.scale_raw[k])
            sign = -1.0 if weight < 0.0 else 1.0
            is_tied = bool(uses[:, j].any())
            low, below, above, high, points = _range(A, j, sign, reach * scale / float(A.weights[j]))
            if not is_tied:
                low, below, points = 0.0, 0.0, tuple(point for point in points if point >= 0.0)
            if low < high and (weight or is_tied):
                add(j, sign, -1, TiedItem(
                    gain=abs(weight) / scale, cost=float(A.weights[j]) / scale, low=low, high=high, below=below,
                    above=above, step=float(A.step_raw[j]), uses=tuple((sign * uses[:, j]).tolist()),
                    once=tuple(once[:, j].tolist()), per=tuple(per[:, j].tolist()), points=points,
                ))  # fmt: skip
        for g in space.groups[A.movable[space.groups]].tolist():
            own, levels = w[space.spans[g]], np.array(A.levels(g))
            best = int(levels[own[levels].argmax()])
            gain = float(own[best] - own[int(A.factual_raw[g])])
            if gain > 0.0:
                add(g, 0.0, best, TiedItem(
                    gain=gain, cost=float(A.weights[g]), low=0.0, high=1.0, below=0.0, above=1.0, step=1.0,
                    uses=(0.0,) * len(slack), once=tuple(once[:, g].tolist()), per=tuple(per[:, g].tolist()),
                ))  # fmt: skip
        self.knapsack = TiedKnapsack(items, slack, budgets)

    def row(self, amounts: list[float]) -> Float[np.ndarray, "p"]:
        """The raw row that results when each item moves by its amount."""
        A = self.actions
        row_raw = A.factual_raw.copy()
        for j, sign, level, amount in zip(self.feature, self.sign, self.level, amounts, strict=True):
            if amount != 0.0:
                row_raw[j] = level if level >= 0 else row_raw[j] + sign * amount
        row_raw = np.clip(row_raw, A.lower_raw, A.upper_raw)
        return A.round(row_raw[None], toward_raw=row_raw[None])[0]


def linear_rules(action_set: ActionSet) -> tuple[Float[np.ndarray, "r p"], list[float]]:
    """How much of each linear rule a raw unit of each feature uses up, and how much slack the factual leaves.

    The use has one row per rule and one column per feature; the slack has one number per rule. Rules that no legal
    values can break are left out; an equation counts as two rules. Use and slack are divided by the size of the rule's
    terms, because rounding errors are relative to that size.
    """
    A, rows, slack = action_set, list[np.ndarray](), list[float]()
    for rule in A.rules:
        if not isinstance(rule, LinearRule):
            continue
        own = np.array(rule.coefficients_raw)
        size = 1.0 + abs(rule.limit) + float(np.abs(own) @ np.abs(A.factual_raw))
        reads = np.flatnonzero(own)
        for way in (1.0, -1.0) if rule.equality else (1.0,):
            ends = way * own[reads] * np.array([A.lower_raw[reads], A.upper_raw[reads]])
            if float(ends.max(axis=0).sum()) > way * rule.limit:
                rows.append(np.where(A.movable, way * own, 0.0) / size)
                slack.append(way * (rule.limit - float(own @ A.factual_raw)) / size)
    return np.array(rows).reshape(len(rows), A.space.p), slack


def _budgets(A: ActionSet) -> tuple[Float[np.ndarray, "b p"], Float[np.ndarray, "b p"], list[float]]:
    """What a change uses of the cap and of shared time, per raw unit as well, and how much of these there is."""
    once, per, budgets = list[np.ndarray](), list[np.ndarray](), list[float]()
    if A.max_changes is not None:
        once.append((~np.isin(np.arange(A.space.p), list(A.begun))).astype(float))
        per.append(np.zeros(A.space.p))
        budgets.append(float(A.max_changes - len(A.begun)))
    if A.clock.is_shared:
        once.append(A.clock.months_once / A.clock.months)
        per.append(A.clock.months_per_unit / A.clock.months)
        budgets.append(1.0 - float(A.clock.changes(A.factual_raw[None])[0]) / A.clock.months)
    shape = (len(budgets), A.space.p)
    return np.array(once).reshape(shape), np.array(per).reshape(shape), budgets


def _range(A: ActionSet, j: int, sign: float, limit: float) -> tuple[float, float, float, float, tuple[float, ...]]:
    """`low`, `below`, `above`, `high` and `points` of the item of a number, whose upwards is in the direction `sign`.

    Parameters
    ----------
    limit : of a number that has none
    """
    fact, step = float(A.factual_raw[j]), float(A.step_raw[j])
    ends = [(A.upper_raw, A.above_raw), (A.lower_raw, A.below_raw)]
    if sign < 0.0:
        ends.reverse()
    (high, above), (low, below) = ((abs(float(far[j]) - fact), abs(float(near[j]) - fact)) for far, near in ends)
    high, low = (
        far if far <= limit else near + (math.floor((limit - near) / step) * step if step else limit - near)
        for far, near in ((high, max(above, 0.0)), (low, max(below, 0.0)))
    )
    points = tuple(sorted(sign * (level - fact) for level in A.levels(j))) if j in A.restricted else ()
    return -low, below, above, high, points
