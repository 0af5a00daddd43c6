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
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.relaxed import relaxed, without_inclusion
from app.recourse.models.linear import LinearModel
from app.recourse.search.knapsack import GAP, QUICK, SLACK, THOROUGH, Item, Knapsack
from app.recourse.search.mixed_integer import FAR, ActionProgram
from app.recourse.search.rule_branching import solve_program
from app.recourse.verdict import Relaxation

QUICK_GAP = 1e-2
"""Relative: savings that are not searched for where good moves suffice."""

SearchKind: TypeAlias = Literal["auto", "projection", "actionable"]


@dataclass(frozen=True, slots=True)
class Moves:
    """One move for each feature that can raise the score; each array has one entry per move.

    A move of a number is measured in raw units. A move of a category is one change to another level and counts 1.
    """

    feature: Int[np.ndarray, "n"]
    gain: Float[np.ndarray, "n"]
    """Score per unit."""
    cost: Float[np.ndarray, "n"]
    first: Float[np.ndarray, "n"]
    """Smallest move; 0 for a continuous feature that may move by any amount."""
    step: Float[np.ndarray, "n"]
    """Distance between moves; 0 for a continuous feature."""
    limit: Float[np.ndarray, "n"]
    sign: Float[np.ndarray, "n"]
    """Direction of the raw number; 0 for a category."""
    level: Int[np.ndarray, "n"]
    """Category to change to; -1 for a number."""

    def without(self, features: Collection[int]) -> "Moves":
        """The moves without those of the given features, in the same order."""
        kept = ~np.isin(self.feature, list(features))
        return Moves(*(getattr(self, field.name)[kept] for field in fields(self)))


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
    moves : the moves to search; where None, all that the action set and `kind` allow
    """

    def __init__(
        self,
        model: LinearModel,
        action_set: ActionSet,
        *,
        kind: SearchKind = "auto",
        deadline: float = math.inf,
        moves: Moves | None = None,
    ) -> None:
        self.model, self.action_set, self.kind, self.deadline = model, action_set, kind, deadline
        self.whole = kind == "actionable" or action_set.is_coupled or (kind == "auto" and not action_set.is_box)
        self.start_score = float(model.score(action_set.x0[None])[0])
        self.moves = self._moves(model.w) if moves is None else moves

    def without(self, features: Collection[int]) -> "Search":
        """The same search, but for rows that leave the given features unchanged."""
        if self.action_set.is_coupled:  # what ties features is about those that stay, too
            return Search(self.model, self.action_set.frozen(features), kind=self.kind, deadline=self.deadline)
        moves = self.moves.without(features)
        return Search(self.model, self.action_set, kind=self.kind, deadline=self.deadline, moves=moves)

    def _moves(self, w: Float[np.ndarray, "d"]) -> "Moves":
        """What each feature can do for the score, best value first."""
        A, space, every = self.action_set, self.action_set.space, w.tolist()
        fact, cost, step = A.factual_raw.tolist(), A.weights.tolist(), A.step_raw.tolist()
        ends = tuple(end.tolist() for end in (A.lower_raw, A.below_raw, A.above_raw, A.upper_raw))
        found: list[tuple[float, ...]] = []  # the fields of `Moves`
        movable = A.movable.tolist()
        for j, column, scale in zip(
            space.numeric.tolist(), space.numeric_columns.tolist(), space.scale_raw.tolist(), strict=True
        ):
            lower, below, above, upper = (end[j] for end in ends)
            weight, up = every[column], every[column] > 0.0
            room, first = (upper - fact[j], above - fact[j]) if up else (fact[j] - lower, fact[j] - below)
            if movable[j] and weight != 0.0 and room > 0.0:
                lattice = (first, step[j]) if self.whole else (0.0, 0.0)
                found.append((j, abs(weight) / scale, cost[j] / scale, *lattice, room, 1.0 if up else -1.0, -1))
        for g in space.groups.tolist():
            own = every[space.spans[g]]
            best = max(A.levels(g), key=own.__getitem__)
            gain = own[best] - own[int(fact[g])]
            if movable[g] and gain > 0.0:
                found.append((g, gain, cost[g], 1.0, 1.0, 1.0, 0.0, best))
        found.sort(key=lambda move: move[2] / move[1])
        m = np.array(found, dtype=float).reshape(-1, 8).T
        return Moves(m[0].astype(int), m[1], m[2], m[3], m[4], m[5], m[6], m[7].astype(int))

    @cached_property
    def knapsack(self) -> Knapsack:
        """A knapsack with one item per move; amounts are in raw units for a number, 1 for a change of category."""
        m = self.moves
        columns = (m.gain, m.cost, m.first, m.step, m.limit)
        items = [Item(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        return Knapsack(items, self.uses)

    @cached_property
    def uses(self) -> int:
        """The largest number of features that may change."""
        cap = self.action_set.max_changes
        return len(self.moves.feature) if cap is None else min(cap, len(self.moves.feature))

    @cached_property
    def reach(self) -> float:
        """The highest surrogate score in the action set; infinite if a feature that raises it has no limit.

        The figure ignores rules and limits on the time that several changes take together, so it may be too high.
        """
        full = np.sort(self.moves.gain * self.moves.limit)[::-1]
        return self.start_score + float(full[: self.uses].sum())

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
        rows = self._uncoupled(needs, exact)
        if not self.action_set.is_coupled:
            return rows
        illegal = np.flatnonzero(~self.action_set.contains(self.action_set.clock.settled(rows)))
        if not len(illegal):
            return rows
        # As long as no row is known, a failure of the solver is the answer.
        try:
            solved = self._rows_by_program(needs[illegal], exact[illegal])
        except SolverFailed:
            if not illegal[0]:
                raise
            solved = rows[:0]
        rows[illegal[: len(solved)]] = solved
        return rows[: illegal[len(solved)]] if len(solved) < len(illegal) else rows

    def _uncoupled(self, needs: Float[np.ndarray, "k"], exact: Bool[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        """The search without what ties several features."""
        if not len(needs):
            return np.empty((0, self.action_set.space.p))
        amounts: list[list[float]] = []
        programmed: dict[int, np.ndarray] = {}
        gains, gained = self.moves.gain.tolist(), -math.inf
        for i, (need, thorough) in enumerate(zip(needs.tolist(), exact.tolist(), strict=True)):
            if gained >= need:  # the cheapest moves for less that reach as far
                amounts.append(amounts[-1])
                continue
            moves, proven = self.knapsack.cover(need, THOROUGH if thorough else QUICK, deadline=self.deadline)
            if not proven and (thorough or moves is None):
                # Too many branches, or out of time: the general solver cuts better, and raises at the deadline.
                solved = self._rows_by_program(needs[i : i + 1], exact[i : i + 1])
                if not len(solved):
                    break
                programmed[i] = solved[0]
            elif moves is None:
                break
            else:
                gained = sum(gain * amount for gain, amount in zip(gains, moves, strict=True))
            amounts.append(moves or [0.0] * len(self.moves.feature))
        rows = self._apply(np.array(amounts).reshape(len(amounts), len(self.moves.feature)))
        for i, row_raw in programmed.items():
            rows[i] = row_raw
        return rows

    def _apply(self, amounts: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k p"]:
        """Raw rows of moves; numbers that `projection` left off the lattice are rounded away from the factual."""
        A, m, fact = self.action_set, self.moves, self.action_set.factual_raw
        rows = np.repeat(fact[None], len(amounts), axis=0)
        rows[:, m.feature] = np.where(
            m.level >= 0,
            np.where(amounts > 0.0, m.level, fact[m.feature]),
            rows[:, m.feature] + m.sign * amounts,
        )
        rows = np.minimum(np.maximum(rows, A.lower_raw), A.upper_raw)
        return A.round(rows, toward_raw=np.where(rows > fact, np.inf, np.where(rows < fact, -np.inf, rows)))

    # --- what ties several features ----------------------------------------------------------------------------------

    def _far(self, needs: Float[np.ndarray, "k"]) -> float:
        """How far a number without limit may go; too large a limit becomes a coefficient below tolerances."""
        far = FAR + 4.0 * float(np.abs(needs).max(initial=0.0)) / max(float(np.abs(self.model.w).max()), 1e-6)
        return far * float(self.action_set.weights.max())

    def _rows_by_program(self, needs: Float[np.ndarray, "k"], exact: Bool[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        """The same search as a mixed-integer program, which also knows what ties several features."""
        A, w = self.action_set, self.model.w
        program = ActionProgram(A, reach=self._far(needs))
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
        options = [(search._legal_reach(), one) for search, one in wider if search.reach > now]  # noqa: SLF001 - of this class
        options = [option for option in options if option[0] > now and not _close(option[0], now)]
        if not options:
            return None
        reach, best = max(options, key=lambda option: option[0])
        return Relaxation(
            constraint=best.constraint, feature=best.feature, sufficient=bool(reach >= margin), text=best.text
        )


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SLACK, abs_tol=SLACK)
