"""The cheapest legal action that a linear surrogate accepts.

``min sum_j cost_j |x_j - x0_j|  subject to  w.x + c >= margin,  x in the action set``. Each number only moves in the
direction that helps, and a change of category costs the same for every level, so only the level with the largest
weight matters. What remains is a covering knapsack with one constraint:

* a box of continuous features is the fractional knapsack: fill in order of cost per gain, for all margins at once;
* lattices, categories and a cap on the number of changes: branch and bound (`app.recourse.search.knapsack`);
* linear rules between features do not fit that and go to the general mixed-integer solver.

Papers that move single one-hot columns (paper 1's projection) get half categories; here a group is one item.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import SolverFailed
from app.recourse.actions.action_set import ActionSet, tick_slack
from app.recourse.models.linear import LinearModel
from app.recourse.result import Relaxation
from app.recourse.search.knapsack import QUICK, THOROUGH, Knapsack
from app.recourse.search.knapsack_amounts import SLACK, Item
from app.recourse.search.mixed_integer import FAR, ActionProgram

SearchKind: TypeAlias = Literal["auto", "projection", "actionable"]


@dataclass(frozen=True, slots=True)
class Moves:
    """What each feature can do, one entry per feature and direction; raw units for numbers, 1 for a category."""

    feature: Int[np.ndarray, "n"]
    gain: Float[np.ndarray, "n"]
    """Score per unit."""
    cost: Float[np.ndarray, "n"]
    first: Float[np.ndarray, "n"]
    """Smallest move; to the next lattice point, 0 for a continuous feature."""
    step: Float[np.ndarray, "n"]
    """Distance between moves; 0 for a continuous feature."""
    limit: Float[np.ndarray, "n"]
    sign: Float[np.ndarray, "n"]
    """Direction of the raw number; 0 for a category."""
    level: Int[np.ndarray, "n"]
    """Category to change to; -1 for a number."""

    def take(self, chosen: Int[np.ndarray, "m"]) -> "Moves":
        """The chosen entries."""
        return Moves(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @staticmethod
    def concatenate(parts: "Sequence[Moves]") -> "Moves":
        """All entries of all parts."""
        return Moves(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Moves)))


class Search:
    """Searches one action set under one surrogate, for any number of margins.

    Parameters
    ----------
    model : with unit-norm weights, so that margins are distances in encoded units
    kind : `actionable` respects lattices while searching, `projection` moves numbers freely and rounds them away from
        the boundary afterwards; `auto` is `actionable` where there are lattices or categories
    deadline : `time.monotonic()` at which a search has to stop
    """

    def __init__(
        self, model: LinearModel, action_set: ActionSet, *, kind: SearchKind = "auto", deadline: float | None = None
    ) -> None:
        self.model, self.action_set, self.deadline = model, action_set, deadline
        self.whole = kind == "actionable" or bool(action_set.rules) or (kind == "auto" and not action_set.is_box)
        self.start_raw = action_set.start_raw
        self.start_score = float(model.score(action_set.space.encode(self.start_raw[None]))[0])
        self.forced = self.start_raw != action_set.factual_raw
        self.moves = self._moves(model.w)

    def _moves(self, w: Float[np.ndarray, "d"]) -> "Moves":
        """What each feature can do for the score, best value first."""
        A, space = self.action_set, self.action_set.space
        j = space.numeric
        weight = w[space.numeric_columns]
        up = weight > 0.0
        room = np.where(up, A.upper_raw[j] - self.start_raw[j], self.start_raw[j] - A.lower_raw[j])
        useful = A.movable[j] & (weight != 0.0) & (room > 0.0)
        j, weight, room, up, scale = j[useful], weight[useful], room[useful], up[useful], space.scale_raw[useful]
        step = A.step_raw[j] if self.whole else np.zeros(len(j))
        groups = [
            (g, best, gain)
            for g in space.groups[A.movable[space.groups]].tolist()
            if (
                gain := float(
                    (levels := w[space.spans[g]])[best := int(levels.argmax())] - levels[int(self.start_raw[g])]
                )
            )
            > 0.0
        ]
        moves = Moves(
            feature=j,
            gain=np.abs(weight) / scale,
            cost=A.weights[j] / scale,
            first=_first_step(self.start_raw[j], A.anchor_raw[j], step, up) if step.any() else step,
            step=step,
            limit=room,
            sign=np.where(up, 1.0, -1.0),
            level=np.full(len(j), -1),
        )
        if groups:
            g, level, gains = (np.array(column) for column in zip(*groups, strict=True))
            ones = np.ones(len(g))
            changes = Moves(g, gains, A.weights[g], first=ones, step=ones, limit=ones, sign=0.0 * ones, level=level)
            moves = Moves.concatenate([moves, changes])
        return moves.take((moves.cost / moves.gain).argsort(kind="stable"))

    @cached_property
    def knapsack(self) -> Knapsack:
        """The moves as items; raw units for numbers, 1 for a change of category."""
        m = self.moves
        uses = 1 - self.forced[m.feature].astype(int)
        columns = (m.gain, m.cost, m.first, m.step, m.limit, uses)
        items = [Item(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        return Knapsack(items, self.uses)

    @cached_property
    def uses(self) -> int:
        """How many features may still change; negative where the constraints force more changes than they allow."""
        cap = self.action_set.max_changes
        return len(self.moves.feature) if cap is None else cap - int(self.forced.sum())

    @cached_property
    def empty(self) -> bool:
        """Whether constraints exclude each other, rules aside."""
        return self.uses < 0 or bool((self.action_set.lower_raw > self.action_set.upper_raw).any())

    @cached_property
    def reach(self) -> float:
        """The highest surrogate score in the action set, rules aside; infinite where a number has no limit."""
        if self.empty:
            return -math.inf
        return self.start_score + self._most(self.moves.gain * self.moves.limit, self.uses)

    def _most(self, full: Float[np.ndarray, "n"], uses: int) -> float:
        if uses >= len(full):
            return float(full.sum())
        free = self.forced[self.moves.feature]
        return float(full[free].sum() + np.sort(full[~free])[::-1][: max(uses, 0)].sum())

    def rows(self, margins: Float[np.ndarray, "k"], *, exact_up_to: float = math.inf) -> Float[np.ndarray, "m p"]:
        """The cheapest legal raw row for each margin, up to the first margin that no legal row reaches.

        Parameters
        ----------
        margins : increasing
        exact_up_to : for larger margins good rows suffice where the cheapest are hard to find

        Raises
        ------
        DeadlineExceeded : as `mixed_integer_program`
        SolverFailed : as there, with no row known
        """
        nothing = np.empty((0, self.action_set.space.p))
        if self.empty:
            return nothing
        needs = margins - self.start_score
        if self.action_set.rules:
            return self._rows_by_program(needs)
        needs = needs[needs * (1.0 - SLACK) <= self.reach - self.start_score]
        if not len(needs):
            return nothing
        if self.uses >= len(self.moves.feature) and not self.moves.step.any():
            return self._apply(self._fill(needs))
        amounts: list[list[float]] = []
        programmed: dict[int, np.ndarray] = {}
        for i, (need, exact) in enumerate(zip(needs.tolist(), (margins <= exact_up_to).tolist(), strict=False)):
            moves, settled = self.knapsack.cover(need, THOROUGH if exact else QUICK, deadline=self.deadline)
            if not settled and (exact or moves is None):
                # Too many branches, or out of time: the general solver cuts better, and raises at the deadline.
                solved = self._rows_by_program(needs[i : i + 1])
                if not len(solved):
                    break
                programmed[i] = solved[0]
            elif moves is None:
                break
            amounts.append(moves or [0.0] * len(self.moves.feature))
        rows = self._apply(np.array(amounts).reshape(len(amounts), len(self.moves.feature)))
        for i, row_raw in programmed.items():
            rows[i] = row_raw
        return rows

    def _fill(self, needs: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k n"]:
        """Amounts of the fractional knapsack for each need."""
        full = self.moves.gain * self.moves.limit
        before = np.concatenate([[0.0], np.cumsum(full)[:-1]])
        return np.clip((needs[:, None] - before) / self.moves.gain, 0.0, self.moves.limit)

    def _apply(self, amounts: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k p"]:
        """Raw rows of moves; numbers that `projection` left off the lattice are rounded away from the factual."""
        m = self.moves
        rows = np.tile(self.start_raw, (len(amounts), 1))
        rows[:, m.feature] = np.where(
            m.level >= 0,
            np.where(amounts > 0.0, m.level, self.start_raw[m.feature]),
            rows[:, m.feature] + m.sign * amounts,
        )
        rows = np.clip(rows, self.action_set.lower_raw, self.action_set.upper_raw)
        return self.action_set.round(
            rows, toward_raw=np.where(rows > self.start_raw, np.inf, np.where(rows < self.start_raw, -np.inf, rows))
        )

    # --- rules -------------------------------------------------------------------------------------------------------

    def _rows_by_program(self, needs: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        """The same search as a mixed-integer program, which also knows rules between numbers."""
        A, w = self.action_set, self.model.w
        # Too large a limit becomes a coefficient below the solver's tolerances.
        far = FAR + 4.0 * float(np.abs(needs).max(initial=0.0)) / max(float(np.abs(w).max()), 1e-6)
        program = ActionProgram(A, reach=far * float(A.weights.max()))
        gain = (w @ program.effect)[None]
        rows: list[np.ndarray] = []
        for need in needs:
            time_limit_s = None if self.deadline is None else self.deadline - time.monotonic()
            lower = np.array([need - SLACK * abs(need)])
            try:
                solved = program.solve(program.cost, gain, lower, time_limit_s=time_limit_s)
            except SolverFailed:
                if not rows:
                    raise
                break
            if solved is None:
                break
            rows.append(solved.row_raw)
        return np.array(rows).reshape(-1, A.space.p)

    # --- verdicts ----------------------------------------------------------------------------------------------------

    def relaxation(self, margin: float) -> Relaxation | None:
        """The single constraint whose removal raises the reachable score most; None where none helps.

        Ignores rules.
        """
        A = self.action_set
        options: list[tuple[float, str, str | None, str]] = []
        for limit in A.limits():
            feature = next(f for f in A.space.features if f.name == limit.feature)
            text = f"Relaxing the {limit.constraint} constraint on {feature.title} would help most."
            options.append((Search(self.model, A.without(limit)).reach, limit.constraint, limit.feature, text))
        if A.max_changes is not None:
            uncapped = replace(A, constraints=replace(A.constraints, max_changes=None))
            text = f"Allowing more than {A.max_changes} changed features would help most."
            options.append((Search(self.model, uncapped).reach, "max_changes", None, text))
        options = [option for option in options if option[0] > self.reach and not _close(option[0], self.reach)]
        if not options:
            return None
        reach, constraint, name, text = max(options, key=lambda option: option[0])
        return Relaxation(constraint=constraint, feature=name, sufficient=bool(reach >= margin), text=text)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SLACK, abs_tol=SLACK)


def _first_step(
    start_raw: Float[np.ndarray, "n"],
    anchor_raw: Float[np.ndarray, "n"],
    step: Float[np.ndarray, "n"],
    up: Bool[np.ndarray, "n"],
) -> Float[np.ndarray, "n"]:
    """Distance to the next lattice point in the direction of the move; 0 without a lattice."""
    unit = np.where(step > 0.0, step, 1.0)
    ticks = (start_raw - anchor_raw) / unit
    slack = tick_slack(ticks)
    behind = (ticks - np.floor(ticks + slack)) * unit
    on_lattice = behind < slack * unit
    return np.where(step > 0.0, np.where(up | on_lattice, unit - np.where(on_lattice, 0.0, behind), behind), 0.0)
