"""Better legal records by single moves: one feature at a time, judged by any function of whole records.

Numbers go up or down by strides from a whole scale to a thousandth of it, by one lattice step, back to where they
started and to the ends of their ranges; categories go to every level that may be proposed. Where a cap on changes is
reached, one change is replaced by another; where a move breaks a rule, another feature of the rule balances it.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import Lattices

STRIDES = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001])
"""Moves of a number, as shares of its scale."""
FAR_STRIDES = np.array([3.0, 2.0])
"""Further ones where one change may be replaced by another."""
LEAST_GAIN = 1e-9
"""Smaller improvements are rounding."""
CHUNK = 500_000
"""Numbers, about, in a chunk of neighbours; the clock is checked between chunks."""


def further_instead(
    actions: ActionSet, row_raw: Float[np.ndarray, "p"], most: float
) -> tuple[Float[np.ndarray, "k p"], Float[np.ndarray, "k p"]]:
    """Copies of a record with one change taken back, and for each copy a move by which another number goes further.

    Every pair of a change and another changed number gives one copy and one move, both as rows of an array. A move goes
    so far that the copy, once moved, costs `most`. The arrays are empty if fewer than two features have changed.
    """
    fact, space = actions.factual_raw, actions.space
    unit = np.zeros(space.p)  # of a number: how far it goes for a cost of 1
    unit[space.numeric] = space.scale_raw / actions.weights[space.numeric]
    changed = np.flatnonzero((row_raw != fact) & ~actions.clock.passive)
    pairs = [(j, i) for i in changed[unit[changed] > 0.0].tolist() for j in changed.tolist() if j != i]
    if not pairs:
        return np.empty((0, space.p)), np.empty((0, space.p))
    taken, further = np.array(pairs).T
    undone = np.repeat(row_raw[None], len(pairs), axis=0)
    undone[np.arange(len(pairs)), taken] = fact[taken]
    moves = np.zeros(undone.shape)
    room = np.maximum(most - actions.cost(undone), 0.0)
    moves[np.arange(len(pairs)), further] = np.sign(row_raw - fact)[further] * unit[further] * room
    return undone, moves


def partly(
    actions: ActionSet, rows_raw: Float[np.ndarray, "k p"], moves: Float[np.ndarray, "k p"], amounts: int
) -> Float[np.ndarray, "n p"]:
    """Every row moved by `amounts` different shares of its move, from 0 to 1; the shares lie closer together near 1.

    Each result is rounded towards the row from which it comes. The results are ordered by share, then by row.
    """
    shares = 1.0 - np.linspace(1.0, 0.0, amounts) ** 2
    moved = (rows_raw + shares[:, None, None] * moves).reshape(-1, rows_raw.shape[1])
    moved = np.clip(moved, actions.lower_raw, actions.upper_raw)
    return actions.round(moved, toward_raw=np.tile(rows_raw, (amounts, 1)))


class SingleMoves:
    """The legal neighbours of raw rows in one action set.

    Parameters
    ----------
    swaps : whether a neighbour may always exchange one change for another; if not, only where the row has as many
        changes as the cap allows
    """

    def __init__(self, action_set: ActionSet, *, swaps: bool = False) -> None:
        self.actions = A = action_set
        self.swaps = swaps
        space = A.space
        shares = np.concatenate([FAR_STRIDES, STRIDES]) if swaps else STRIDES
        feature: list[int] = []
        target: list[float] = []
        delta: list[float] = []
        for j, scale in zip(space.numeric.tolist(), space.scale_raw.tolist(), strict=True):
            if A.movable[j]:
                strides = np.append(shares * scale, A.step_raw[j]) if A.step_raw[j] > 0.0 else shares * scale
                strides = np.unique(np.maximum(strides, A.step_raw[j]))
                ends = {A.lower_raw[j], A.below_raw[j], A.factual_raw[j], A.above_raw[j], A.upper_raw[j]}
                finite = sorted(end for end in ends if np.isfinite(end))
                feature += [j] * (2 * len(strides) + len(finite))
                delta += [*strides, *-strides, *(0.0 for _ in finite)]
                target += [*(np.nan for _ in range(2 * len(strides))), *finite]
        numbers = len(feature)
        for j in space.groups[A.movable[space.groups]].tolist():
            levels = A.levels(j)
            feature += [j] * len(levels)
            delta += [0.0] * len(levels)
            target += levels
        self.feature, self.target, self.delta = np.array(feature, dtype=int), np.array(target), np.array(delta)
        self.is_level = np.arange(len(feature)) >= numbers

    def of(self, row_raw: Float[np.ndarray, "p"], *, levels_only: bool = False) -> Float[np.ndarray, "n p"]:
        """Legal rows that are one move away from a legal row; the row itself and the factual are left out.

        Parameters
        ----------
        levels_only : whether only features with levels move
        """
        return np.concatenate(list(self.chunks(row_raw, levels_only)))

    def chunks(self, row_raw: Float[np.ndarray, "p"], levels_only: bool = False) -> Iterator[Float[np.ndarray, "n p"]]:
        """Legal rows that are one move away from a legal row, as one array or several.

        Several arrays limit the memory, because with many features, rules and a cap there may be very many rows.

        Parameters
        ----------
        levels_only : whether only features with levels move
        """
        waiting: list[Float[np.ndarray, "n p"]] = [np.empty((0, len(row_raw)))]
        for rows in self._neighbours(row_raw, levels_only):
            waiting.append(rows)
            if sum(one.size for one in waiting) >= CHUNK:
                yield self._legal(row_raw, np.concatenate(waiting))
                waiting = [rows[:0]]
        yield self._legal(row_raw, np.concatenate(waiting))

    def _legal(self, row_raw: Float[np.ndarray, "p"], rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "m p"]:
        A = self.actions
        rows = A.clock.settled(rows)
        new = (rows != row_raw).any(axis=1) & (rows != A.factual_raw).any(axis=1)
        # A move of one feature can only break constraints on several features.
        shared = A.is_coupled or A.max_changes is not None or A.space.derived is not None
        return rows[new & A.contains(rows)] if shared else rows[new]

    def _neighbours(self, row_raw: Float[np.ndarray, "p"], levels_only: bool) -> Iterator[Float[np.ndarray, "n p"]]:
        """Rows one move away, not all of them legal, each followed by rows that balance a broken rule."""
        A = self.actions
        bases = row_raw[None]
        changed = np.flatnonzero((row_raw != A.factual_raw) & ~A.clock.passive)
        if self.swaps or (A.max_changes is not None and len(changed) >= A.max_changes):
            undone = np.arange(len(row_raw)) == changed[:, None]
            bases = np.concatenate([bases, np.where(undone, A.factual_raw, row_raw)])
        together = max(CHUNK // max(len(self.feature) * len(row_raw), 1), 1)
        for start in range(0, len(bases), together):
            rows = self._moved(bases[start : start + together], levels_only)
            yield rows
            yield from self.balanced(rows)

    def _moved(self, bases_raw: Float[np.ndarray, "b p"], levels_only: bool) -> Float[np.ndarray, "n p"]:
        """Each base after each move that changes it, most of them once."""
        chosen = np.flatnonzero(self.is_level) if levels_only else np.arange(len(self.feature))
        feature, target = self.feature[chosen], self.target[chosen]
        before = bases_raw[:, feature]
        after = self.snapped(np.where(np.isnan(target), before + self.delta[chosen], target), feature)
        new = after != before
        # Strides that end at the same point of the lattice, or of the range, come one after another.
        new[:, 1:] &= (after[:, 1:] != after[:, :-1]) | (feature[1:] != feature[:-1])
        base, move = np.nonzero(new)
        rows = bases_raw[base]
        rows[np.arange(len(rows)), feature[move]] = after[base, move]
        return rows

    def snapped(
        self, values_raw: Float[np.ndarray, "*b n"], feature: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "*b n"]:
        """Each number replaced by the nearest value that its feature can have; the factual's own values stay.

        Parameters
        ----------
        feature : for each column of `values_raw`, the index of its feature
        """
        A = self.actions
        lattices, fact = Lattices.of(A.step_raw[feature], A.anchor_raw[feature]), A.factual_raw[feature]
        points = lattices.points(np.rint(lattices.ticks(values_raw)))
        snapped = np.where(lattices.exist & (values_raw != fact), points, values_raw)
        snapped = np.clip(snapped, A.lower_raw[feature], A.upper_raw[feature])
        # Out of a gap to its nearer side.
        up, down = A.above_raw[feature], A.below_raw[feature]
        side = np.where(snapped > fact, up, down)
        near = np.where(np.abs(snapped - fact) < np.abs(side - snapped), fact, side)
        return np.where((snapped > down) & (snapped < up), np.where(snapped == fact, fact, near), snapped)

    def balanced(self, rows_raw: Float[np.ndarray, "n p"]) -> Iterator[Float[np.ndarray, "n p"]]:
        """Copies of the rows that break a rule, each with one feature changed to mend the rule or a part of it."""
        A = self.actions
        for rule in A.rules:
            for rows, onward in rule.repaired(rows_raw, A.movable):
                rows = np.clip(rows, A.lower_raw, A.upper_raw)
                yield A.round(rows, toward_raw=rows + onward)

    def descend(
        self,
        row_raw: Float[np.ndarray, "p"],
        value: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]],
        *,
        steps: int,
        until: float,
        levels_only: bool = False,
    ) -> Float[np.ndarray, "p"]:
        """Make the best single move again and again until no move improves the value; returns the last row.

        Parameters
        ----------
        row_raw : the legal row to start from
        value : a function from raw rows to one number each; smaller is better
        steps : largest number of moves
        until : `time.monotonic()` after which no move is tried
        levels_only : whether only features with levels move
        """
        if time.monotonic() >= until:
            return row_raw
        best = float(value(row_raw[None])[0])
        for _ in range(steps):
            here, least = row_raw, best - LEAST_GAIN * (1.0 + abs(best))
            for rows in self.chunks(here, levels_only):
                if time.monotonic() >= until:
                    return here
                if not len(rows):
                    continue
                values = value(rows)
                pick = int(values.argmin())
                if values[pick] < least:
                    row_raw, best, least = rows[pick], float(values[pick]), float(values[pick])
            if row_raw is here:
                break
        return row_raw
