"""Corrections of a given plan, so that it stays valid together when the model is retrained (paper 4).

*Requirement*: every member is moved to the nearest legal record that the mean of the retrained models accepts with a
margin, ``x <- x - min(0, mu.x~ - eps) mu_w / |mu_w|^2`` where nothing else limits it; features only, never the bias.

*Mahalanobis*: of the members that a worst distribution of models is most likely to lose (the largest ``lambda_j`` of
the program for the joint lower bound), each is moved within a ball so that the mean is as many standard deviations
away from refusing it as can be: ``max mu.x~ / |Sigma^1/2 x~|``, as a cone program in ``v = t x~``, ``mu.v = 1``
(theorem 3.1), with ranges and linear rules of the action set in the same homogeneous form.

Both optima are points; the answer is a legal record, rounded away from the boundary and then moved by single features
(`app.recourse.search.local_moves`) while that helps. `keep_better` drops corrections that do not raise the joint lower
bound, because a member that is better by itself can make the plan worse.

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022, section 3.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LinearRule
from app.recourse.input_part import InputPart
from app.recourse.models.linear import LinearModel, WeightMoments, homogeneous
from app.recourse.numerics.linalg import project
from app.recourse.numerics.solvers import cone_program
from app.recourse.robustness.validity import PlanBounds, plan_bounds, validity_lower
from app.recourse.search.cheapest import Search
from app.recourse.search.legal_rows import nearest_legal
from app.recourse.search.local_moves import SingleMoves
from app.recourse.verdict import Relaxation

CorrectionKind: TypeAlias = Literal["requirement", "mahalanobis"]

STEPS = 100
"""Largest number of single moves of a corrected member."""
PENALTY = 1e6
"""Penalty of a unit beyond a limit."""
SLACK = 1e-9
"""Tolerance of a limit, for rounding."""
GAIN = 1e-7
"""Improvements of the joint lower bound below this are the solver's accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionParams(InputPart):
    """Aim and limits of a correction."""

    kind: CorrectionKind = "mahalanobis"
    """`requirement`: the mean of the retrained models accepts every member with the margin. `mahalanobis`: the members
    most at risk are moved a little, to where most retrained models accept them."""
    margin: Annotated[float, Interval(ge=0, le=100)] = 0.1
    """For `requirement`: least score of each member under the mean of the retrained models, whose weights have length
    1."""
    count: Annotated[int, Interval(ge=1, le=20)] = 3
    """For `mahalanobis`: how many members may change, those most at risk first."""
    max_shift: Annotated[float, Interval(gt=0, le=100)] = 0.1
    """For `mahalanobis`: how far a member may be moved, L2 distance in encoded units."""

    @property
    def gain(self) -> float:
        """A correction is made only if it raises the joint lower bound by at least this much."""
        return GAIN if self.kind == "mahalanobis" else 0.0


class MemberOutcome(StrEnum):
    """Outcome of the correction of one member of a plan."""

    CORRECTED = "corrected"
    MET = "met"
    NOT_SELECTED = "not_selected"
    INFEASIBLE = "infeasible"
    REFUSED = "refused"
    NO_GAIN = "no_gain"
    UNDECIDED = "undecided"


OUTCOMES: dict[MemberOutcome, str] = {
    MemberOutcome.CORRECTED: "The record was corrected.",
    MemberOutcome.MET: "The record already meets the requirement.",
    MemberOutcome.NOT_SELECTED: "Other members are more at risk; this record was not changed.",
    MemberOutcome.INFEASIBLE: "No legal record within the limits of the correction meets its aim.",
    MemberOutcome.REFUSED: "The model refuses every corrected record that was tried; this record was not changed.",
    MemberOutcome.NO_GAIN: "The correction would not raise the validity of the plan; this record was not changed.",
    MemberOutcome.UNDECIDED: "There was not enough time to show that a correction helps; this record was not changed.",
}
"""The public sentence of each outcome."""


class Corrector:
    """Corrects members of plans for one applicant, so that retrained models with given moments accept them.

    Raises
    ------
    DegenerateSurrogate : the mean of the retrained models gives all points the same decision
    """

    def __init__(
        self, action_set: ActionSet, moments: WeightMoments, params: CorrectionParams, *, until: float = math.inf
    ) -> None:
        self.actions, self.moments, self.params, self.until = action_set, moments, params, until
        self.moves = SingleMoves(action_set)
        mean = moments.mean
        self.length = float(np.linalg.norm(mean[:-1]))
        self.search = Search(LinearModel(mean[:-1], float(mean[-1])).unit(), action_set, deadline=until)
        self.covariance = moments.covariance

    def outcomes(self, rows_raw: Float[np.ndarray, "n p"], before: PlanBounds) -> list[MemberOutcome | None]:
        """For each member, the outcome if it stays as it is, or None if it is to be corrected."""
        scores = self._scores(rows_raw)
        if self.params.kind == "requirement":
            return [MemberOutcome.MET if score >= self.params.margin - SLACK else None for score in scores]
        # Where the mean refuses a member there is no worst distribution to ask: the weakest members are most at risk.
        risk = -self._certainty(rows_raw) if before.lost is None else np.array(before.lost)
        chosen = (-risk).argsort(kind="stable")[: self.params.count]
        return [None if j in chosen else MemberOutcome.NOT_SELECTED for j in range(len(rows_raw))]

    def candidates(
        self, row_raw: Float[np.ndarray, "p"], extra_margins: Float[np.ndarray, "k"]
    ) -> Float[np.ndarray, "m p"]:
        """Legal corrected records for one member, best first; no rows if no legal record meets the aim.

        Parameters
        ----------
        extra_margins : (k,), >= 0; with `requirement`, each one is added to the margin and gives one record. The
            records with larger margins serve if the model refuses the one with the smallest
        """
        if self.params.kind == "requirement":
            rows = [self.requirement(row_raw, self.params.margin + extra) for extra in extra_margins.tolist()]
        else:
            rows = [self.mahalanobis(row_raw, self.params.max_shift * share) for share in (1.0, 0.5)]
        return np.array([row for row in rows if row is not None]).reshape(-1, len(row_raw))

    def relaxation(self) -> Relaxation | None:
        """The constraint whose removal most raises the score that legal rows can reach.

        The score is that of the mean of the retrained models. The result is None if no single removal helps, and for
        the kind `mahalanobis`.
        """
        if self.params.kind != "requirement":
            return None
        return self.search.relaxation(self.params.margin / self.length)

    def requirement(self, row_raw: Float[np.ndarray, "p"], margin: float) -> Float[np.ndarray, "p"] | None:
        """Of the legal rows with a mean score of at least `margin`, the one nearest to a member; None if there is none.

        The mean score is the score under the mean of the retrained models. Numbers are projected exactly and rounded
        away from the boundary; categories change only by single moves.
        """
        space, mean = self.actions.space, self.moments.mean
        x = space.encode(row_raw[None])[0]
        columns, lower, upper = self._box(row_raw)
        fixed = x.copy()
        fixed[columns] = 0.0
        need = margin - float(fixed @ mean[:-1] + mean[-1])
        moved = x.copy()
        moved[columns] = project(x[columns][None], mean[columns], np.array([need]), lower[None], upper[None])[0]
        starts = [self._rounded(row_raw, moved, columns), *self.search.rows(np.array([margin / self.length]))]
        return self._by_single_moves(
            starts,
            worth=lambda rows: -np.sqrt(((space.encode(rows) - x) ** 2).sum(axis=1)),
            miss=lambda rows: margin - self._scores(rows),
        )

    def mahalanobis(self, row_raw: Float[np.ndarray, "p"], shift: float) -> Float[np.ndarray, "p"] | None:
        """Among legal rows within `shift` of a member, the one with the largest mean score in standard deviations.

        Mean and standard deviation are taken over the retrained models. The result is None if their mean accepts no row
        within `shift`, an L2 distance in encoded units.

        Raises
        ------
        DeadlineExceeded, SolverFailed : the solver did not end in time, or ended without an answer
        """
        A, space = self.actions, self.actions.space
        x = space.encode(row_raw[None])[0]
        columns = self._box(row_raw)[0]
        point = self.mahalanobis_point(row_raw, shift)
        starts = [row_raw, A.snap(row_raw[None])[0]]
        if point is not None:
            # Rounded away from the boundary, or else as little as possible.
            starts += [self._rounded(row_raw, point, columns), self._rounded(row_raw, point, columns, away=False)]
        return self._by_single_moves(
            starts,
            worth=self._certainty,
            miss=lambda rows: np.maximum(
                np.sqrt(((space.encode(rows) - x) ** 2).sum(axis=1)) - shift, -self._scores(rows)
            ),
        )

    def mahalanobis_point(self, row_raw: Float[np.ndarray, "p"], shift: float) -> Float[np.ndarray, "d"] | None:
        """The encoded optimum of theorem 3.1 of Bui, Nguyen, Nguyen (2022), with ranges and rules; None if infeasible.

        Categories stay fixed. The program has the unknowns ``(v, t, s)``, with ``v = t x`` in the columns that can move
        and ``s >= |Sigma^1/2 x~| t``.
        """
        A, space = self.actions, self.actions.space
        x = space.encode(row_raw[None])[0]
        columns, lower, upper = self._box(row_raw)
        k = len(columns)
        embed = np.zeros((len(x) + 1, k + 1))  # (v, t) -> t x~
        embed[columns, np.arange(k)] = 1.0
        embed[:, k] = np.append(x, 1.0)
        embed[columns, k] = 0.0
        root = np.linalg.qr(self.moments.along(embed.T).T, mode="r")
        nothing = np.zeros((len(root), 1))
        blocks: list[tuple[str, Float[np.ndarray, "r c"], float]] = [
            ("zero", np.append(self.moments.mean @ embed, 0.0)[None], -1.0),
            ("second_order", np.vstack([np.eye(k + 2)[k + 1], np.hstack([root, nothing])]), 0.0),
        ]
        ball = np.zeros((k + 1, k + 2))
        ball[0, k] = shift
        ball[1:, :k], ball[1:, k] = np.eye(k), -x[columns]
        blocks.append(("second_order", ball, 0.0))
        above, below = np.isfinite(lower), np.isfinite(upper)
        ranges = np.zeros((2 * k, k + 2))
        ranges[:k, :k], ranges[:k, k] = np.eye(k), -np.where(above, lower, 0.0)
        ranges[k:, :k], ranges[k:, k] = -np.eye(k), np.where(below, upper, 0.0)
        blocks.append(("nonnegative", np.vstack([ranges[np.concatenate([above, below])], np.eye(k + 2)[k]]), 0.0))
        numeric = np.searchsorted(space.numeric_columns, columns)
        for rule in A.rules:
            if not isinstance(rule, LinearRule):
                continue  # `_by_single_moves` starts from the nearest record that keeps it
            slope = np.array(rule.coefficients_raw)
            moving = space.numeric[numeric]
            rest = rule.limit - slope @ row_raw + slope[moving] @ (row_raw[moving] - space.center_raw[numeric])
            room = np.concatenate([-slope[moving] * space.scale_raw[numeric], [rest, 0.0]])
            blocks.append(("zero" if rule.equality else "nonnegative", room[None], 0.0))
        rows = np.vstack([block for _, block, _ in blocks])
        offset = np.concatenate([np.full(len(block), at) for _, block, at in blocks])
        where = (np.nonzero(rows)[0], np.nonzero(rows)[1])
        answer = cone_program(
            np.eye(k + 2)[k + 1],
            (-rows[where], where),
            offset,
            [(kind, len(block)) for kind, block, _ in blocks],
            deadline=self.until,
        )
        if answer is None or answer.x[k] <= 0.0:
            return None
        point = x.copy()
        point[columns] = answer.x[:k] / answer.x[k]
        return point

    # --- inside ------------------------------------------------------------------------------------------------------

    def _scores(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        return homogeneous(self.actions.space.encode(rows_raw)) @ self.moments.mean

    def _certainty(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """The angle whose tangent is ``mu.x~ / |Sigma^1/2 x~|``: it grows with that, and a penalty outweighs it."""
        points = homogeneous(self.actions.space.encode(rows_raw))
        variance = ((points @ self.covariance) * points).sum(axis=1)
        return np.arctan2(points @ self.moments.mean, np.sqrt(np.maximum(variance, 0.0)))

    def _box(
        self, row_raw: Float[np.ndarray, "p"]
    ) -> tuple[Int[np.ndarray, "k"], Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
        """Columns of the numbers that can move, and their ranges; under a cap, of those that have moved already."""
        A, space = self.actions, self.actions.space
        free = A.movable[space.numeric]
        if A.max_changes is not None:
            free = free & (row_raw != A.factual_raw)[space.numeric]
        j, center, scale = space.numeric[free], space.center_raw[free], space.scale_raw[free]
        return space.numeric_columns[free], (A.lower_raw[j] - center) / scale, (A.upper_raw[j] - center) / scale

    def _rounded(
        self,
        row_raw: Float[np.ndarray, "p"],
        x: Float[np.ndarray, "d"],
        columns: Int[np.ndarray, "k"],
        *,
        away: bool = True,
    ) -> Float[np.ndarray, "p"]:
        """The member with the numbers of a point, on their lattices: away from the boundary, or the nearest."""
        A, space = self.actions, self.actions.space
        numeric = np.searchsorted(space.numeric_columns, columns)
        j = space.numeric[numeric]
        moved = row_raw.copy()
        moved[j] = x[columns] * space.scale_raw[numeric] + space.center_raw[numeric]
        still = np.abs(moved - row_raw) <= SLACK * (1.0 + np.abs(row_raw))
        moved = np.clip(np.where(still, row_raw, moved), A.lower_raw, A.upper_raw)
        toward = moved.copy()
        if away:
            slope = self.moments.mean[columns]
            toward[j] = np.where(slope > 0.0, np.inf, np.where(slope < 0.0, -np.inf, moved[j]))
        return A.round(moved[None], toward_raw=toward[None])[0]

    def _by_single_moves(
        self,
        starts: Sequence[Float[np.ndarray, "p"]],
        *,
        worth: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]],
        miss: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]],
    ) -> Float[np.ndarray, "p"] | None:
        """The best result of single moves from each legal start; None where all miss their limit."""

        def value(rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
            return PENALTY * np.maximum(miss(rows) - SLACK, 0.0) - worth(rows)

        rows_raw = np.array(starts)
        legal = rows_raw[self.actions.contains(rows_raw)]
        if not len(legal) and self.actions.rules:
            legal = nearest_legal(self.actions, rows_raw, deadline=self.until)
        ends = [self.moves.descend(row, value, steps=STEPS, until=self.until) for row in legal]
        kept = np.array([row for row in ends if miss(row[None])[0] <= SLACK])
        return kept[worth(kept).argmax()] if len(kept) else None


MomentsOf: TypeAlias = Callable[[np.ndarray], WeightMoments]
"""From raw rows to moments that describe their scores."""


def keep_better(
    action_set: ActionSet,
    rows_raw: Float[np.ndarray, "n p"],
    proposed: Sequence[Float[np.ndarray, "p"] | None],
    moments_of: MomentsOf,
    radius: float,
    before: PlanBounds,
    *,
    gain: float,
    until: float,
) -> tuple[Bool[np.ndarray, "n"], PlanBounds]:
    """Select proposed changes of a plan so that its joint lower bound rises by at least `gain`.

    All changes are selected if that raises the bound enough. Otherwise the function drops changes one by one, first the
    change that helps its own member least. A change that would make two members equal is never selected. If the old
    bound is not tight, the new bound must exceed the highest value that the old bound can have.

    Parameters
    ----------
    proposed : for each member its new row, or None for no change
    moments_of : a function from the rows of a plan to the moments that describe their scores
    before : bounds of the plan without changes
    until : `time.monotonic()` at which all programs together have to end

    Returns
    -------
    made : for each member, whether its change is selected
    bounds : bounds of the plan with the selected changes
    """

    def described(plan: Float[np.ndarray, "n p"]) -> tuple[Float[np.ndarray, "n m"], WeightMoments]:
        return homogeneous(action_set.space.encode(plan)), moments_of(plan)

    own = validity_lower(*described(rows_raw), radius)
    least = (before.lower if before.exact else float(own.min())) + gain
    made = np.zeros(len(rows_raw), dtype=bool)
    plan = rows_raw.copy()
    for k, row in enumerate(proposed):
        if row is not None and not (plan == row).all(axis=1).any():
            plan[k], made[k] = row, True
    rise = validity_lower(*described(plan), radius) - own
    for k in rise.argsort(kind="stable"):
        if made[k]:
            after = plan_bounds(*described(plan), radius, deadline=until)
            if after.lower >= least:
                return made, after
            plan[k], made[k] = rows_raw[k], False
    return made, before


def corrected(
    action_set: ActionSet,
    rows_raw: Float[np.ndarray, "n p"],
    moments: WeightMoments,
    radius: float,
    params: CorrectionParams,
    *,
    until: float,
) -> Float[np.ndarray, "n p"]:
    """The plan with the corrections that raise its joint lower bound; the model has not seen the new rows yet.

    Parameters
    ----------
    until : `time.monotonic()` at which the programs end; the plan may then stay as it is
    """
    corrector = Corrector(action_set, moments, params, until=until)
    points = homogeneous(action_set.space.encode(rows_raw))
    before = plan_bounds(points, moments, radius, deadline=until)
    try:
        options = [
            corrector.candidates(row, np.zeros(1)) if outcome is None else rows_raw[:0]
            for row, outcome in zip(rows_raw, corrector.outcomes(rows_raw, before), strict=True)
        ]
    except (DeadlineExceeded, SolverFailed):  # the plan needs no correction
        return rows_raw
    proposed = [rows[0] if len(rows) else None for rows in options]
    made, _ = keep_better(
        action_set,
        rows_raw,
        proposed,
        lambda _rows_raw: moments,
        radius,
        before,
        gain=params.gain,
        until=until,
    )
    return np.array([new if change else old for old, new, change in zip(rows_raw, proposed, made, strict=True)])
