"""The cheapest legal action that a linear surrogate accepts.

``min sum_j cost_j |x_j - x0_j|  subject to  w.x + c >= margin,  x in the action set``. Each number only moves in the
direction that helps, and a change of category costs the same for every level, so only the level with the largest
weight matters. What remains is a covering knapsack with one constraint (`app.recourse.search.knapsack`).

Rules between features, time that changes share and ordinals with levels that are not proposed do not fit that. The
search leaves them out first: its optimum is the optimum wherever they allow it. Where they do not, the general
mixed-integer solver knows all of them.

Papers that move single one-hot columns (paper 1's projection) get half categories; here a group is one item.
"""

import math
from operator import mul
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.relaxed import relaxed, without_inclusion
from app.recourse.models.linear import LinearModel
from app.recourse.search.knapsack import GAP, QUICK, SLACK, THOROUGH, Item, Knapsack
from app.recourse.search.mixed_integer import FAR, ActionProgram
from app.recourse.search.rule_branching import solve_program
from app.recourse.verdict import Relaxation

QUICK_GAP = 3e-3
"""Relative: savings that are not searched for where good moves suffice."""

SearchKind: TypeAlias = Literal["auto", "projection", "actionable"]


class Move(NamedTuple):
    """How one feature can raise the score."""

    feature: int
    item: Item
    """Amounts are in raw units for a number; a category makes one change, which counts 1."""
    sign: float
    """Direction of the raw number; 0 for a category."""
    level: int
    """Category to change to; -1 for a number."""


class Search:
    """Searches one action set for the cheapest rows whose score, under a linear surrogate, reaches a margin.

    One search serves any number of margins.

    Parameters
    ----------
    model : the surrogate; its weights have norm 1, so that a margin is a distance in encoded units
    kind : `actionable` keeps to lattices and least changes during the search. `projection` moves numbers freely and
        rounds them away from the factual afterwards. `auto` is `actionable` unless every feature is a number that may
        take any value in one range
    deadline : `time.monotonic()` at which a search has to stop
    """

    def __init__(
        self, model: LinearModel, action_set: ActionSet, *, kind: SearchKind = "auto", deadline: float = math.inf
    ) -> None:
        self.model, self.action_set, self.kind, self.deadline = model, action_set, kind, deadline
        self.whole = kind == "actionable" or action_set.is_coupled or (kind == "auto" and not action_set.is_box)
        self.start_score = float(model.score(action_set.x0[None])[0])
        self.moves = self._moves(model.w.tolist())
        cap = action_set.max_changes
        self.knapsack = Knapsack([move.item for move in self.moves], len(self.moves) if cap is None else cap)
        self.reach = self.start_score + self.knapsack.most
        """The highest surrogate score in the action set; infinite if a feature that raises it has no limit.

        It ignores rules and limits on the time that several changes take together, so it may be too high.
        """

    def _moves(self, w: list[float]) -> list[Move]:
        """What each feature can do for the score."""
        A, space = self.action_set, self.action_set.space
        fact, cost, step, movable = (one.tolist() for one in (A.factual_raw, A.weights, A.step_raw, A.movable))
        ends = tuple(end.tolist() for end in (A.lower_raw, A.below_raw, A.above_raw, A.upper_raw))
        found: list[Move] = []
        for j, column, scale in zip(
            space.numeric.tolist(), space.numeric_columns.tolist(), space.scale_raw.tolist(), strict=True
        ):
            lower, below, above, upper = (end[j] for end in ends)
            weight, up = w[column], w[column] > 0.0
            room, first = (upper - fact[j], above - fact[j]) if up else (fact[j] - lower, fact[j] - below)
            if movable[j] and weight != 0.0 and room > 0.0:
                first, tick = (first, step[j]) if self.whole else (0.0, 0.0)
                item = Item(abs(weight) / scale, cost[j] / scale, first, tick, room)
                found.append(Move(j, item, 1.0 if up else -1.0, -1))
        for g in space.groups.tolist():
            own = w[space.spans[g]]
            best = max(A.levels(g), key=own.__getitem__)
            gain = own[best] - own[int(fact[g])]
            if movable[g] and gain > 0.0:
                found.append(Move(g, Item(gain, cost[g], 1.0, 1.0, 1.0), 0.0, best))
        return found

    def rows(self, margins: Float[np.ndarray, "k"], *, exact_up_to: float = math.inf) -> Float[np.ndarray, "m p"]:
        """The cheapest legal raw row for each margin, up to the first margin that no legal row reaches.

        Parameters
        ----------
        margins : the surrogate scores to reach, in increasing order
        exact_up_to : a margin above this may get a row that is cheap but not the cheapest, to save time

        Raises
        ------
        DeadlineExceeded : the mixed-integer solver knew no row at the deadline
        SolverFailed : the mixed-integer solver ended without an answer, and no row is known
        """
        needs = margins - self.start_score
        needs = needs[needs * (1.0 - SLACK) <= self.reach - self.start_score]
        exact = margins[: len(needs)] <= exact_up_to
        amounts, unsure = self._uncoupled(needs, exact)
        rows = self._apply(amounts)
        if self.action_set.is_coupled:
            unsure |= ~self.action_set.contains(self.action_set.clock.settled(rows))
        if not unsure.any():
            return rows
        places = np.flatnonzero(unsure)
        # As long as no row is known, a failure of the solver is the answer.
        try:
            solved = self._rows_by_program(needs[places], exact[places])
        except SolverFailed:
            if not places[0]:
                raise
            solved = rows[:0]
        rows[places[: len(solved)]] = solved
        return rows[: places[len(solved)]] if len(solved) < len(places) else rows

    def _uncoupled(
        self, needs: Float[np.ndarray, "k"], exact: Bool[np.ndarray, "k"]
    ) -> tuple[list[list[float]], Bool[np.ndarray, "m"]]:
        """The search without what ties several features: amounts of the moves, and where the general solver has to say.

        That cuts better where there are too many branches, and raises at the deadline.
        """
        found: list[list[float]] = []
        unsure: list[bool] = []
        gained = -math.inf
        for need, thorough in zip(needs.tolist(), exact.tolist(), strict=True):
            if gained >= need:  # the cheapest moves for less that reach as far
                found.append(found[-1])
                unsure.append(False)
                continue
            amounts, proven = self.knapsack.cover(need, THOROUGH if thorough else QUICK, deadline=self.deadline)
            if amounts is None and proven:
                break
            unsure.append(not proven and (thorough or amounts is None))
            found.append(amounts or [0.0] * len(self.moves))
            gained = -math.inf if unsure[-1] else sum(map(mul, self.knapsack.gains, found[-1]))
        return found, np.array(unsure, dtype=bool)

    def _apply(self, found: list[list[float]]) -> Float[np.ndarray, "k p"]:
        """Raw rows of moves; numbers that `projection` left off the lattice are rounded away from the factual."""
        A, fact = self.action_set, self.action_set.factual_raw
        rows = np.tile(fact, (len(found), 1))
        for row, amounts in zip(rows, found, strict=True):
            for move, amount in zip(self.moves, amounts, strict=True):
                if amount > 0.0:
                    row[move.feature] = row[move.feature] + move.sign * amount if move.level < 0 else move.level
        rows = np.minimum(np.maximum(rows, A.lower_raw), A.upper_raw)
        return A.round(rows, toward_raw=np.where(rows > fact, np.inf, np.where(rows < fact, -np.inf, rows)))

    # --- what ties several features ----------------------------------------------------------------------------------

    def _rows_by_program(self, needs: Float[np.ndarray, "k"], exact: Bool[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        """The same search as a mixed-integer program, which also knows what ties several features."""
        A, w = self.action_set, self.model.w
        # How far a number without limit may go; too large a limit becomes a coefficient below tolerances.
        far = FAR + 4.0 * float(np.abs(needs).max(initial=0.0)) / max(float(np.abs(w).max()), 1e-6)
        program = ActionProgram(A, reach=far * float(A.weights.max()))
        gain = (w @ program.effect)[None]
        rows: list[np.ndarray] = []
        for need, thorough in zip(needs, exact, strict=True):
            lower, gap = np.array([need - SLACK * abs(need)]), GAP if thorough else QUICK_GAP
            try:
                solved = solve_program(program, program.cost, gain, lower, deadline=self.deadline, gap=gap)
            except SolverFailed:
                if not rows:
                    raise
                break
            if solved is None:
                break
            rows.append(solved.row_raw)
        return np.array(rows).reshape(-1, A.space.p)

    def _legal_reach(self) -> float:
        """`reach`, with rules and time that changes share; -inf where no row is legal.

        Without them where the solver fails, or runs out of time.
        """
        if not self.action_set.is_coupled:
            return self.reach
        program = ActionProgram(self.action_set, reach=FAR * float(self.action_set.weights.max()))
        gain = self.model.w @ program.effect
        try:
            solved = solve_program(program, -gain, np.empty((0, program.size)), np.empty(0), deadline=self.deadline)
        except (SolverFailed, DeadlineExceeded):
            return self.reach
        if solved is None:
            return -math.inf
        return float(self.model.score(self.action_set.space.encode(solved.row_raw[None]))[0])

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def relaxation(self, margin: float) -> Relaxation | None:
        """The one constraint of the request whose removal raises `reach` most; None if no single removal helps.

        Parameters
        ----------
        margin : the surrogate score to reach; the result says whether the removal suffices for it
        """
        looser = [*relaxed(self.action_set), *without_inclusion(self.action_set)]
        searches = [(Search(self.model, one.actions, deadline=self.deadline), one) for one in looser]
        # What ties several features takes a program for each, so those that could not help without it are left out.
        wider = [(search, one) for search, one in searches if self.action_set.is_coupled or search.reach > self.reach]
        now = self._legal_reach() if wider else self.reach
        reached = [(search._legal_reach(), one) for search, one in wider if search.reach > now]  # noqa: SLF001 - of this class
        reach, best = max(reached, key=lambda option: option[0], default=(now, None))
        if best is None or reach <= now or math.isclose(reach, now, rel_tol=SLACK, abs_tol=SLACK):
            return None
        return Relaxation(
            constraint=best.constraint, feature=best.feature, sufficient=bool(reach >= margin), text=best.text
        )
