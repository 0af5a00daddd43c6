"""An answer in the making: what the black box was asked, what it accepted, and what came nearest."""

import math
from contextlib import suppress

import numpy as np
from jaxtyping import Float

from app.errors import BudgetExceeded
from app.recourse.actions.in_between import combined, rows_between
from app.recourse.candidates import Candidates, PlanCandidates
from app.recourse.counterfactual import Counterfactual
from app.recourse.fallback import FALLBACK_WARNING, NEAREST_WARNING, fallback_rows
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.verdict import Relaxation

MOST_BETWEEN = 200
"""Records between proposals and the applicant's own that are in a call of a remote model."""
FAR_CHEAPER = 0.5
"""Share of an answer's cost up to which another record is far cheaper."""
PRICE_WARNING = (
    "The model also accepts a record that costs {:.3g}, where this answer costs {:.3g}; it comes less near to the "
    "method's own constraint."
)


class Draft:
    """An answer in the making: what verification has asked, found and refused so far.

    Parameters
    ----------
    meter : counts model calls and rows; those counted before now are not this answer's
    """

    def __init__(self, problem: RecourseProblem, meter: Meter) -> None:
        self.problem, self.meter, self.actions = problem, meter, problem.action_set
        self.searched = self.actions
        """The part of it that is searched; of a wide schema not all."""
        self._calls_before, self._rows_before = meter.calls, meter.rows
        self.calls_left = 1
        """Calls that verification may still make; a method's own calls do not count."""
        self._asked = False
        """Whether the latest of them reached the model; without legal records it counts but is not made."""
        self.factual_score = math.nan
        self.sample: BoundarySample | None = None
        self.candidates: Candidates | PlanCandidates | None = None
        self.found: list[Counterfactual] = []
        """The best record that the black box has accepted, or the members of a plan."""
        self.default: list[Counterfactual] = []
        """What was found before future models were asked."""
        self.dearer: Counterfactual | None = None
        """A record that costs more than may be paid for it and withstands what is asked under stress."""
        self.fallback = False
        """Whether `found` may miss the method's own constraint."""
        self.fallback_warning = FALLBACK_WARNING
        """The warning where it may."""
        self.least_cost = math.inf
        """Of all records that the black box has accepted."""
        self.nearest: Counterfactual | None = None
        """The refused record with the highest score."""
        self.missed: tuple[float, Counterfactual] | None = None
        """The accepted record that misses the method's promise least, and by how much."""
        self.gave_up = False
        """Whether the method proposed nothing, without a proof that there is nothing."""
        self.all_changes: int | None = None
        """How many changed records the constraints allow, where all of them are tried."""
        self.enough: tuple[tuple[int, ...], ...] = ()
        """As in the result."""
        self.relax: Relaxation | None = None
        self.aimed = False
        """Whether future models took part in the search, as far as that was asked for."""
        self.sentence: str | None = None
        """In place of the sentence of the reason, where more is known."""
        self.warnings: list[str] = []

    @property
    def calls(self) -> int:
        """Number of model calls made for this answer."""
        return self.meter.calls - self._calls_before

    @property
    def rows(self) -> int:
        """Number of records that the model calls of this answer asked about."""
        return self.meter.rows - self._rows_before

    def scores(self, rows_raw: Float[np.ndarray, "n p"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """The black box's scores of legal records that differ from the applicant's own, from one model call.

        The score is NaN for other records, for a row that equals the row before it, and where the model gave none that
        is finite.

        Parameters
        ----------
        further : whether the rows count as part of the previous call; never with a remote model
        """
        if not further:
            self.calls_left -= 1
            self._asked = False
        legal = self.actions.contains(rows_raw)
        if not self.actions.begun:
            legal &= (rows_raw != self.problem.factual_raw).any(axis=1)
        legal[1:] &= (rows_raw[1:] != rows_raw[:-1]).any(axis=1)
        scores = np.full(len(rows_raw), np.nan)
        if legal.any():
            scores[legal] = self.score(rows_raw[legal], further=self._asked)
            self._asked = True
        return scores

    def score(self, rows_raw: Float[np.ndarray, "n p"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """The black box's scores of raw rows, from one model call; NaN where it gave none that is finite.

        In the same call, a remote model is asked about records between the cheapest rows and the applicant's own. Their
        scores give the order of an answer's changes (`app.recourse.steps`).

        Parameters
        ----------
        further : whether the rows count as part of the previous call

        Raises
        ------
        DeadlineExceeded, BudgetExceeded : time or budget do not allow the call
        """
        remote, actions = self.meter.black_box.remote, self.actions
        if remote is None:
            return self.meter.score_raw(rows_raw, further=further)
        asked = rows_raw
        for row_raw in rows_raw[actions.cost(rows_raw).argsort(kind="stable")]:
            between = rows_between(actions, row_raw, combined(actions, row_raw, actions.changes(row_raw)))
            more = np.concatenate([asked, between])
            if len(more) - len(rows_raw) > MOST_BETWEEN or remote.price(len(more))[0] > remote.price(len(rows_raw))[0]:
                break
            asked = more
        with suppress(BudgetExceeded):
            return self.meter.score_raw(asked)[: len(rows_raw)]
        return self.meter.score_raw(rows_raw)

    def remember_refused(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> None:
        """Keep the refused record with the highest score as `nearest`, unless an earlier one has a higher score."""
        finite = np.flatnonzero(scores < 0.0)
        if finite.size:
            pick = int(finite[scores[finite].argmax()])
            if self.nearest is None or scores[pick] > self.nearest.score:
                self.nearest = self.counterfactual(rows_raw[pick], scores[pick])

    def remember_missed(self, miss: float, row_raw: Float[np.ndarray, "p"], score: float) -> None:
        """Keep an accepted record as `missed`, unless an earlier one misses the method's promise by less.

        Parameters
        ----------
        miss : by how much the record misses the promise
        """
        if self.missed is None or miss < self.missed[0]:
            self.missed = (miss, self.counterfactual(row_raw, score))

    def counterfactual(self, row_raw: Float[np.ndarray, "p"], score: float) -> Counterfactual:
        """A scored raw row as a counterfactual: with its cost, its changes and the method's report."""
        score = float(score)
        return Counterfactual(
            row_raw=row_raw,
            score=score,
            probability=self.problem.black_box.probability_of(score),
            cost=float(self.actions.cost(row_raw[None])[0]),
            changed=self.actions.changes(row_raw),
            takes_months=float(self.actions.clock.total(row_raw[None])[0]),
            report=self.candidates.report(row_raw) if isinstance(self.candidates, Candidates) else None,
        )

    def fallback_rows(self) -> Float[np.ndarray, "n p"]:
        """Legal raw rows to verify where no proposal is accepted.

        First come rows that nearly meet the method's own constraint, then rows that no method proposed.
        """
        rank = self.actions.cost if self.candidates is None else self.candidates.rank
        measured = isinstance(self.candidates, Candidates) and self.candidates.shortfall is not None
        # Samples lie near the boundary: a promise that is measured at each record is not kept there.
        others, self.all_changes = fallback_rows(self.problem, rank, None if measured else self.sample)
        if not isinstance(self.candidates, Candidates) or self.candidates.nearest is None:
            return others
        return np.concatenate([self.candidates.nearest(), others])

    @property
    def misses(self) -> bool:
        """Whether one counterfactual was found that is known to miss the method's own constraint; false for a plan."""
        if not (self.found and self.fallback and isinstance(self.candidates, Candidates)):
            return False
        row_raw = self.found[0].row_raw
        return not self.candidates.meets(row_raw[None])[0] or self.candidates.how_far(row_raw) is not None

    @property
    def price_warnings(self) -> list[str]:
        """A list with at most one warning, about an answer that misses the method's own constraint.

        It says that the answer costs far more than the cheapest record that the model accepted.
        """
        if not (self.misses and self.least_cost <= FAR_CHEAPER * self.found[0].cost):
            return []
        return [PRICE_WARNING.format(self.least_cost, self.found[0].cost)]

    def note_how_far(self) -> None:
        """If the counterfactual found misses the method's own constraint, mark it so and warn how far it gets."""
        if self.found and isinstance(self.candidates, Candidates):
            sentence = self.candidates.how_far(self.found[0].row_raw)
            if sentence is not None:
                self.fallback, self.fallback_warning = True, f"{NEAREST_WARNING} {sentence}"
