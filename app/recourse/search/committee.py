"""The cheapest legal record that today's model and a share of the future models accept.

A *move* sets one feature to one value (or two, where a rule ties them). Each single move from a base record is
scored by every model. The search then assumes that the gains of moves of different features add up, model by model, so
that thousands of combinations are judged without asking any model. The most promising ones are scored for real, and the
search goes on from the best of them. So a few hundred rows suffice for any kind of model.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.action_set import ActionSet
from app.recourse.numerics.linalg import unique_rows
from app.recourse.search.levels import Levels
from app.recourse.search.local_moves import LEAST_GAIN, SingleMoves, further_instead, partly

ScoreRows = Callable[[np.ndarray], np.ndarray]
"""From raw rows ``(n, p)`` to scores ``(n, 1 + k)``: today's model, then k future models; NaN counts as no."""

ValueOf = Callable[[np.ndarray], np.ndarray]
"""From raw rows ``(n, p)`` to one number each; smaller is better."""

STRIDES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
"""Distances of a number from where it starts, as shares of its scale."""
FRACTIONS = np.array([0.25, 0.5, 0.7, 0.85, 0.93, 1.07, 1.15, 1.3, 1.6])
"""Where else a number that has moved is tried, as shares of its way."""
ROUNDS = 6
"""Base records at most."""
DEPTH, WIDTH = 6, 24
"""Moves of one combination at most, and combinations of the same number of moves that are followed."""
VERIFIED = 40
"""Combinations that are scored for real in each round."""
FURTHER = 16
"""Amounts by which a number goes further in place of another change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A record that all models have scored, with its value and with the shares of the future models that accept it."""

    row_raw: Float[np.ndarray, "p"]
    own_score: float
    """Of today's model."""
    share: float
    """Share of the future models that accept it."""
    value: float
    """What the search minimises, here."""
    level: float
    """The smaller of the own score and the largest score that the asked share of models reach; accepted iff >= 0."""
    stressed: float = 1.0
    """Mean share that accepts it over the stresses that are asked; 1 without any."""


class CommitteeSearch:
    """Searches one action set for the best record that today's model and a share of the future models accept.

    Parameters
    ----------
    score_rows : a function from raw rows to their scores, one column per model, today's model first; NaN counts as no
    levels : which scores suffice
    cost : a function from raw rows to costs that are sums over features; it guides the search. Where absent, the action
        set's cost
    value : a function from raw rows to numbers; the best record is the accepted one with the smallest number. Where
        absent, `cost`
    admits : a function that says of each legal raw row whether it may be the answer. Where absent, every one may
    tidy : a share, such as 0.1 for 10 %; an accepted record whose value exceeds the smallest value by at most this
        share wins if it has fewer changes
    at_most : a second limit on the value of a record that wins because it has fewer changes
    until : `time.monotonic()` after which no model is asked
    patience : rounds after which the search ends where it has accepted no record
    most : largest `cost` of an accepted record
    """

    def __init__(
        self,
        action_set: ActionSet,
        score_rows: ScoreRows,
        levels: Levels,
        *,
        cost: ValueOf | None = None,
        value: ValueOf | None = None,
        admits: Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, "n"]] | None = None,
        tidy: float = 0.0,
        at_most: float = math.inf,
        until: float = math.inf,
        patience: int = ROUNDS,
        most: float = math.inf,
    ) -> None:
        self._patience, self._most = patience, most
        self.actions = action_set
        self._ask, self._admits, self._until = score_rows, admits, until
        self._levels = levels
        self.cost = cost or action_set.cost
        self._value = value or self.cost
        self._tidy, self._at_most = tidy, at_most
        self._by_changes: dict[int, Reached] = {}
        """The accepted record of least value, by the number of changes."""
        self._single_moves = SingleMoves(action_set)
        self.best: Reached | None = None
        """The accepted record of least value."""
        self.accepted: list[Reached] = []
        """Accepted records, each of less value than those before it."""
        self.nearest: Reached | None = None
        """Where none is accepted: the record that today's model accepts with the largest share, or else the one of the
        largest level."""

    def run(
        self, starts_raw: Float[np.ndarray, "n p"], base_raw: Float[np.ndarray, "p"] | None = None
    ) -> Reached | None:
        """The best accepted record. If there is none, the result is None, and `nearest` is the record closest to it.

        Parameters
        ----------
        starts_raw : legal records that are scored first, so that the answer is no worse than the best of these
        base_raw : the record where the search begins; the factual where absent
        """
        A = self.actions
        starts = starts_raw[A.contains(starts_raw)] if len(starts_raw) else starts_raw
        with suppress(DeadlineExceeded, BudgetExceeded):
            if len(starts):
                self._score(starts)
            self._go_on(A.factual_raw if base_raw is None else base_raw)
            self._take_back()
        return self.tidiest()

    def tidiest(self) -> Reached | None:
        """The accepted record with the fewest changes whose value is near enough to the least."""
        if self.best is None:
            return None
        fewer = (one for _, one in sorted(self._by_changes.items()) if one.value <= self._enough(self.best))
        return next(fewer, self.best)

    def _enough(self, best: Reached) -> float:
        """The value up to which fewer changes are better."""
        return min(best.value + self._tidy * abs(best.value), max(best.value, self._at_most))

    def _take_back(self) -> None:
        """Score the tidiest record with one change taken back and another number moved further, while that helps."""
        one = self.tidiest() if self._tidy else None
        while one is not None and self.best is not None:
            undone, moves = further_instead(self.actions, one.row_raw, self._enough(self.best))
            rows = unique_rows(partly(self.actions, undone, moves, FURTHER))
            rows = rows[self.actions.contains(rows)] if len(rows) else rows
            if not len(rows):
                return
            self._score(rows)
            before, one = one, self.tidiest()
            if one is before:
                return

    def _go_on(self, base: Float[np.ndarray, "p"]) -> None:
        """Score every single move from a base record, then the best combinations of them; go on from the best."""
        for round_ in range(ROUNDS):
            scores = self._score(base[None])[0]
            if time.monotonic() >= self._until or (self.best is None and round_ >= self._patience):
                return
            moves = self._moves(base)
            if len(moves):
                combined = self._combined(base, scores, moves, self._score(moves) - scores)
                if len(combined):
                    self._score(combined)
            onwards = self.best or self.nearest
            if onwards is None or np.array_equal(base, onwards.row_raw):
                return
            base = onwards.row_raw

    def _score(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n m"]:
        """Scores of all models; the best of the accepted rows is kept."""
        rows_raw = self.actions.clock.settled(rows_raw)
        scores = self._answers(rows_raw)
        self._keep(rows_raw, scores)
        return scores

    def _answers(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n m"]:
        """Scores of all models, NaN as the lowest there is."""
        return np.nan_to_num(self._ask(rows_raw), nan=-1e6, posinf=1e6, neginf=-1e6)

    def _keep(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n m"]) -> None:
        A, levels, legal = self.actions, self._levels.of(scores), self._legal(rows_raw)
        good = self._good(rows_raw, legal & (levels >= 0.0))
        if good.any():
            rows = np.flatnonzero(good)
            values = self._value(rows_raw[rows])
            changes = A.changed(rows_raw[rows])
            for count in np.unique(changes).tolist():
                i = int(np.where(changes == count, values, np.inf).argmin())
                known = self._by_changes.get(count)
                if known is None or values[i] < known.value - LEAST_GAIN:
                    one = self._reached(rows_raw[rows[i]], scores[rows[i]], float(values[i]), levels[rows[i]])
                    self._by_changes[count] = one
                    if self.best is None or one.value < self.best.value - LEAST_GAIN:
                        self.best = one
                        self.accepted.append(one)
        if self.best is None and legal.any():
            rows = np.flatnonzero(legal)
            plain, stressed = self._levels.shares(scores[rows])
            margin = self._levels.own_margin
            shares = (plain + stressed) * (scores[rows, 0] >= margin)
            i = int(np.lexsort((-levels[rows], -shares))[0])
            one = self._reached(rows_raw[rows[i]], scores[rows[i]], math.nan, levels[rows[i]])
            if self.nearest is None or _rank(one, margin) > _rank(self.nearest, margin):
                self.nearest = one

    def _legal(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        A = self.actions
        return np.asarray(
            A.contains(rows_raw) & (rows_raw != A.factual_raw).any(axis=1) & (self.cost(rows_raw) <= self._most)
        )

    def _good(self, rows_raw: Float[np.ndarray, "n p"], good: Bool[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Of the good rows those that may be the answer."""
        if self._admits is not None and good.any():
            good[good] = self._admits(rows_raw[good])
        return good

    def accepts(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Which raw rows this search would accept."""
        return self._good(rows_raw, self._legal(rows_raw) & (self._levels.of(self._answers(rows_raw)) >= 0.0))

    def _reached(
        self, row_raw: Float[np.ndarray, "p"], scores: Float[np.ndarray, "m"], value: float, level: float
    ) -> Reached:
        share, stressed = map(float, self._levels.shares(scores))
        return Reached(
            row_raw=row_raw, own_score=float(scores[0]), share=share, value=value, level=float(level), stressed=stressed
        )

    def _moves(self, base: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
        """The base record with one feature set to another value, for every movable feature and value to try."""
        A, space = self.actions, self.actions.space
        start = A.factual_raw
        feature: list[int] = []
        value: list[float] = []
        for j, scale in zip(space.numeric.tolist(), space.scale_raw.tolist(), strict=True):
            if A.movable[j]:
                ways = [*(STRIDES * scale), *(-STRIDES * scale), *(FRACTIONS * (base[j] - start[j]))]
                ends = (A.lower_raw[j], A.below_raw[j], A.above_raw[j], A.upper_raw[j])
                values = [start[j], *(start[j] + way for way in ways), *ends]
                finite = [one for one in values if math.isfinite(one)]
                feature += [j] * len(finite)
                value += finite
        for j in space.groups[A.movable[space.groups]].tolist():
            levels = A.levels(j)
            feature += [j] * len(levels)
            value += levels
        if not feature:
            return np.empty((0, len(base)))
        chosen = np.array(feature)
        rows = np.tile(base, (len(chosen), 1))
        rows[np.arange(len(chosen)), chosen] = self._single_moves.snapped(np.array(value, dtype=float), chosen)
        rows = np.concatenate([rows, *self._single_moves.balanced(rows)]) if A.rules else rows
        rows = unique_rows(rows)
        return rows[(rows != base).any(axis=1) & A.keeps_rules(rows)]

    def _combined(
        self,
        base: Float[np.ndarray, "p"],
        scores: Float[np.ndarray, "m"],
        moves: Float[np.ndarray, "n p"],
        gains: Float[np.ndarray, "n m"],
    ) -> Float[np.ndarray, "c p"]:
        """Legal combinations of moves, cheapest first, whose scores would be enough if gains added up.

        Where none would be, the strongest combinations. A beam: of all combinations of so many moves those are
        followed whose cost, with what is still missing at the best rate of a single move, is least.
        """
        A = self.actions
        cost = float(self.cost(base[None])[0])
        extra = self.cost(moves) - cost
        useful = (extra < 0.0) | (gains.mean(axis=1) > 1e-9)
        moves, gains, extra = moves[useful], gains[useful], extra[useful]
        if not len(moves):
            return moves
        touched = moves != base
        changed = int(A.changed(base[None])[0])
        counted = A.changed(moves) - changed
        most = math.inf if A.max_changes is None else A.max_changes - changed
        limit = self._most
        if self.best is not None:
            limit = min(limit, float(self.cost(self.best.row_raw[None])[0]) - LEAST_GAIN)
        level = float(self._levels.of(scores))
        paid = extra > LEAST_GAIN
        rates = (self._levels.of(scores + gains[paid]) - level) / extra[paid]
        rate = max(float(rates.max(initial=0.0)), 1e-3)
        beam: list[tuple[int, ...]] = [()]
        combined, costs, counts = scores[None], np.array([cost]), np.zeros(1, dtype=int)
        found: list[tuple[float, tuple[int, ...]]] = []
        for depth in range(1, DEPTH + 1):
            # Each combination with every move of other features. Most of the time of a search goes into these numbers:
            # none are made for what is not allowed.
            used = np.stack([touched[list(parts)].any(axis=0) for parts in beam])
            tried, number = costs[:, None] + extra, counts[:, None] + counted
            allowed = (used.astype(float) @ touched.T.astype(float) == 0.0) & (tried < limit) & (number <= most)
            before, move = np.nonzero(allowed)
            combined, costs, counts = combined[before] + gains[move], tried[allowed], number[allowed]
            levels = self._levels.of(combined)
            enough = levels >= 0.0
            promise = np.where(enough, np.inf, costs + np.maximum(-levels, 0.0) / rate)
            good = np.flatnonzero(enough)[np.argsort(costs[enough], kind="stable")[:VERIFIED]].tolist()
            best = [at for at in promise.argsort(kind="stable")[: depth * WIDTH].tolist() if promise[at] < math.inf]
            parts_of = {at: tuple(sorted((*beam[before[at]], int(move[at])))) for at in (*good, *best)}
            found += [(float(costs[at]), parts_of[at]) for at in good]
            kept = {parts_of[at]: at for at in best[::-1]}  # each set of moves once
            beam = list(kept)[: -WIDTH - 1 : -1]
            if not beam:
                break
            places = [kept[parts] for parts in beam]
            combined, costs, counts = combined[places], costs[places], counts[places]
        if not found:
            found = list(zip(costs.tolist(), beam, strict=False))
        chosen = dict.fromkeys(parts for _, parts in sorted(found))
        rows = np.tile(base, (len(chosen), 1))
        for row, parts in zip(rows, chosen, strict=True):
            for i in parts:
                row[touched[i]] = moves[i][touched[i]]
        return rows[A.contains(rows)][:VERIFIED]


def _rank(one: Reached, own_margin: float) -> tuple[float, float]:
    return (one.share + one.stressed if one.own_score >= own_margin else 0.0, one.level)
