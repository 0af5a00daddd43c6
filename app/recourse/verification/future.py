"""Search for records that today's model and a share of the future models accept, in place of what was found."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from app.recourse.candidates import Candidates, PlanCandidates
from app.recourse.counterfactual import Counterfactual
from app.recourse.method import Method, MethodParams
from app.recourse.models.black_box import LAST_BITS
from app.recourse.models.committee import ROUNDING, Futures, StressedModels
from app.recourse.models.score import Output
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import AskedOnce
from app.recourse.search.committee import ROUNDS, CommitteeSearch, Reached
from app.recourse.search.levels import Levels
from app.recourse.verification.aim import Aim, aims
from app.recourse.verification.draft import Draft

PROMISE_ROUNDS = 8
"""Searches for a record that future models accept and that keeps a measured promise."""
DEARER = 40
"""Dearer records, the cheapest of those known, that models under stress are asked about to state a price."""
PATIENCE = 1
"""Rounds after which a search for what withstands all stress ends without a record; the next search asks less."""
CHANGE_COST = 0.1
"""Cost of one more change in the guidance of the search; the cost that is reported has no such part."""
TIDY = 0.1
"""Share of the cost that an answer with fewer changes may exceed the cheapest by."""
CLOSE_MARGIN = 0.1
"""Such searches end when the margin that is enough is this close to one that is not, relative."""


def verify_committee(
    draft: Draft,
    method: Method,
    params: MethodParams,
    futures: Futures,
    share: float,
    known: Sequence[Counterfactual] = (),
) -> None:
    """Replace the answer found so far by the best record that today's model and enough future models accept.

    The method's own objective decides which record is best. A promise that the method measures on the black box is kept
    as well. The method's own constraint is kept only where the request sets one of its knobs; otherwise `share` takes
    its place.

    Parameters
    ----------
    share : what is to be promised of the record; at least this share of the future models in the search set must accept
        it, or more if they promise too much
    known : records of earlier answers to this applicant, as further candidates
    """
    draft.aimed = True
    known_raw = [one.row_raw for one in (*draft.found, *known)]
    proposals = np.array(known_raw).reshape(-1, draft.actions.space.p)
    default = draft.default = draft.found
    draft.found, draft.fallback = [], False
    at_most = min((one.cost for one in known), default=math.inf)
    stage = _Committee(draft, method, params, futures, share, at_most, default)
    if isinstance(draft.candidates, PlanCandidates):
        stage.plan(draft.candidates, proposals)
    else:
        stage.one(proposals)


def _percent(share: float) -> str:
    """A share in per cent, rounded down to a tenth of one, so that only everything is 100."""
    return f"{math.floor(1e3 * share + ROUNDING) / 10.0:g}%"


def _columns(plain: int, stress: StressedModels, needed: Int[np.ndarray, "s"]) -> list[tuple[slice, int]]:
    """So many models of each stress, as `Levels` takes them; stressed models come after the plain ones."""
    models = int(stress.counted[-1])
    return [
        (slice(1 + plain + i * models, 1 + plain + (i + 1) * models), count)
        for i, count in enumerate(needed.tolist())
        if count
    ]


class _Committee:
    """The search for records that today's model and a share of the future models accept."""

    def __init__(
        self,
        draft: Draft,
        method: Method,
        params: MethodParams,
        futures: Futures,
        share: float,
        at_most: float,
        known: Sequence[Counterfactual],
    ) -> None:
        candidates = draft.candidates if isinstance(draft.candidates, Candidates) else None
        self.draft, self.futures, self.price = draft, futures.search, futures.stress_price
        self.asked = share
        self.objective = candidates.objective if candidates else None
        self.shortfall = candidates.shortfall if candidates else None
        defaults = type(params)()
        bound = any(getattr(params, knob) != getattr(defaults, knob) for knob in method.knobs)
        self.admits = candidates.meets if candidates and bound else None
        self.at_most = at_most
        self.own_least = -math.inf
        self.stress = futures.stressed_search if draft.problem.under_stress else None
        own = 0.0 if self.stress is None else self._keep_default(known)
        # Scores of labels have no bell.
        labels = draft.problem.black_box.output is Output.LABEL
        self.aims, self.bell = aims(futures, share, own, labels=labels)
        self.by_surrogate = draft.problem.black_box.remote is not None
        self.plain = AskedOnce(self._scores)
        if self.stress is not None:
            self.stressed = AskedOnce(self.stress.models.scores_raw)

    def _keep_default(self, default: Sequence[Counterfactual]) -> float:
        """Ask for no less than the method's own answer gives: today's score, and the share of every set.

        Returns the share of the plain models that accept that answer; 0 where it has not one record.
        """
        stress = self.stress
        assert stress is not None
        # Few models have one stress: rounded up, nearly every share would ask for all of them.
        models = int(stress.counted[-1])
        self.needed = np.full(len(stress.stresses), max(1, round(self.asked * models)))
        if len(default) != 1:
            return 0.0
        row_raw = default[0].row_raw[None]
        self.own_least = default[0].score
        self.needed = np.maximum(self.needed, stress.accepted(stress.models.scores_raw(row_raw))[0, :, -1])
        return float(self.futures.shares(row_raw)[0])

    def one(self, proposals: Float[np.ndarray, "n p"]) -> None:
        """Find the best record.

        Where it misses a promise, raise the score that today's model must give, until a record keeps the promise.
        """
        margin = enough = missed = LAST_BITS
        kept: Reached | None = None
        for _ in range(PROMISE_ROUNDS):
            search, reached = self._run(proposals, margin=margin)
            if reached is None and kept is None:
                self._remember(search.nearest)
                return
            if reached is not None and self._promise_kept(reached):
                kept, enough = reached, margin
            elif reached is not None:
                missed = max(margin, reached.own_score) if kept is None else margin
            else:
                missed = margin
            if kept is not None and (self.shortfall is None or enough - missed <= CLOSE_MARGIN * enough):
                break
            margin = 2.0 * missed if kept is None else 0.5 * (missed + enough)
        if kept is not None:
            self.draft.found = [self.draft.counterfactual(kept.row_raw, kept.own_score)]

    def plan(self, candidates: PlanCandidates, proposals: Float[np.ndarray, "n p"]) -> None:
        """Move each member as little as needed so that the models accept it, and choose the best plan of these."""
        draft = self.draft
        moved = [self._run(proposals[:0], row_raw)[1] for row_raw in proposals]
        found = [one for one in moved if one is not None]
        if not found:
            search, one = self._run(proposals)
            if one is None:
                self._remember(search.nearest)
                return
            found = [one]
        scores = {one.row_raw.tobytes(): one.own_score for one in found}
        rows_raw = unique_rows(np.array([one.row_raw for one in found]))
        rows_raw = rows_raw[candidates.choose(rows_raw)]
        draft.found = [draft.counterfactual(row_raw, scores[row_raw.tobytes()]) for row_raw in rows_raw]

    def _run(
        self,
        proposals: Float[np.ndarray, "n p"],
        base_raw: Float[np.ndarray, "p"] | None = None,
        *,
        margin: float = LAST_BITS,
    ) -> tuple[CommitteeSearch, Reached | None]:
        """Search; raises DeadlineExceeded where the time ran out before anything was found."""
        again = partial(self._searched, cost_from=base_raw, margin=margin)
        first, *lesser = self.aims
        search, aimed = again(first, proposals), first
        for one in lesser:
            if search.best is None:
                self.draft.meter.check()
                search, aimed = again(one, self.plain.rows_raw), one
        if search.best is None and self.stress is not None and base_raw is None:
            # Nothing keeps the margin of the method's own answer as well; without that, there may be an answer.
            self.own_least = -math.inf
            self.draft.meter.check()
            search, aimed = again(self.aims[-1], self.plain.rows_raw), self.aims[-1]
        accepted, reached = search.accepted, search.tidiest()
        if reached is None:
            self.draft.meter.check()
        elif self.stress is not None:
            stronger = self._stronger(self.stress, search, reached, partial(again, aimed))
            accepted, reached = [*accepted, *stronger.accepted], stronger.tidiest() or reached
            if base_raw is None and not self.by_surrogate and self.shortfall is None:
                self._note_dearer(self.stress, search, reached)
        if reached is not None and self.by_surrogate:
            reached = self._confirmed(accepted)
        return search, reached

    def _stronger(
        self, stress: StressedModels, search: CommitteeSearch, reached: Reached, again: Callable[..., CommitteeSearch]
    ) -> CommitteeSearch:
        """Search among records that cost little more for one that withstands stress.

        Sets that nobody can satisfy, or at a high price only, make no answer impossible or dear: where no record
        withstands what is asked, each stress counts as far as the record withstands it that withstands most.
        """
        most = search.cost(reached.row_raw[None]) + self.price * self.draft.actions.cost(reached.row_raw[None])
        again = partial(again, base_raw=reached.row_raw, most=float(most[0]))
        stronger = again(self._affordable(search, most), needed=self.needed, patience=PATIENCE)
        if stronger.best is None:
            rows_raw = np.concatenate([reached.row_raw[None], self._affordable(search, most)])
            accepted = np.minimum(stress.accepted(self.stressed.scores(rows_raw))[:, :, -1], self.needed)
            stronger = again(rows_raw, needed=accepted[accepted.sum(axis=1).argmax()])
        return stronger

    def _note_dearer(self, stress: StressedModels, search: CommitteeSearch, reached: Reached) -> None:
        """Keep the cheapest record, of those asked about, that withstands as much as is asked and more than this one.

        Models under stress that no search asks may refuse what those that searches ask accept: where these accept as
        much as is asked, all of them have to.
        """
        cost = self.draft.actions.cost
        rows_raw = self.plain.rows_raw
        rows_raw = rows_raw[cost(rows_raw) > cost(reached.row_raw[None])]
        if len(rows_raw):
            rows_raw = rows_raw[search.accepts(rows_raw)]
        if not len(rows_raw):
            return
        rows_raw = rows_raw[cost(rows_raw).argsort(kind="stable")[:DEARER]]
        accepted = stress.accepted(self.stressed.scores(np.concatenate([reached.row_raw[None], rows_raw])))[:, :, -1]
        wanted = stress.counted[-1] if (accepted[0] >= self.needed).all() else self.needed
        better = np.flatnonzero((accepted[1:] >= wanted).all(axis=1))
        if better.size:
            row_raw = rows_raw[better[0]]
            self.draft.dearer = self.draft.counterfactual(row_raw, self.plain.scores(row_raw[None])[0, 0])

    def _affordable(self, search: CommitteeSearch, most: Float[np.ndarray, "1"]) -> Float[np.ndarray, "n p"]:
        """The rows that were asked about, a search accepts and cost no more than this."""
        rows_raw = self.plain.rows_raw
        rows_raw = rows_raw[search.cost(rows_raw) <= most]
        return rows_raw[search.accepts(rows_raw)]

    def _searched(
        self,
        aimed: Aim,
        starts_raw: Float[np.ndarray, "n p"],
        *,
        cost_from: Float[np.ndarray, "p"] | None,
        margin: float,
        base_raw: Float[np.ndarray, "p"] | None = None,
        needed: Int[np.ndarray, "s"] | None = None,
        most: float = math.inf,
        patience: int = ROUNDS,
    ) -> CommitteeSearch:
        """Search with this target, from the given records and on from a base record, the factual where absent.

        Parameters
        ----------
        cost_from : the record from which the cost of changes counts; the factual where absent
        needed : how many models of each stress must accept; none where absent
        """
        draft = self.draft
        # Cost counts from the member of a plan, or all members would end at the same record.
        actions = draft.actions if cost_from is None else replace(draft.actions, factual_raw=cost_from)
        levels = Levels(
            aimed.share,
            own_margin=max(margin, self.own_least) if cost_from is None else margin,
            plain=self.futures.count,
            bell=self.bell,
            sure=aimed.sure,
            stressed=[] if self.stress is None or needed is None else _columns(self.futures.count, self.stress, needed),
        )
        search = CommitteeSearch(
            draft.actions,
            self.plain.scores if needed is None else self._all_scores,
            levels,
            cost=lambda rows_raw: actions.cost(rows_raw) + CHANGE_COST * actions.changed(rows_raw),
            value=self.objective or actions.cost,
            admits=self.admits,
            tidy=0.0 if self.objective else TIDY,
            at_most=self.at_most,
            until=draft.problem.deadline,
            patience=patience,
            most=most,
        )
        search.run(starts_raw, cost_from if base_raw is None else base_raw)
        return search

    def _scores(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n m"]:
        """Today's model, then the future ones; a remote model is paid per call, so its surrogate stands in for it."""
        if not self.by_surrogate:
            own = self.draft.meter.score_raw(rows_raw)
        elif isinstance(self.draft.candidates, Candidates):
            own = self.draft.candidates.rank(rows_raw)
        else:
            own = np.ones(len(rows_raw))
        return np.column_stack([own, self.futures.scores_raw(rows_raw)])

    def _all_scores(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n m"]:
        """The same, then the stressed models."""
        return np.column_stack([self.plain.scores(rows_raw), self.stressed.scores(rows_raw)])

    def _confirmed(self, accepted: list[Reached]) -> Reached | None:
        """The best of these records that today's model itself accepts, in one call."""
        scores = self.draft.score(np.array([one.row_raw for one in accepted]))
        for one, score in zip(reversed(accepted), scores[::-1].tolist(), strict=True):
            if self.draft.problem.black_box.accepts(np.array([score]))[0]:
                return replace(one, own_score=score)
        return None

    def _promise_kept(self, reached: Reached) -> bool:
        if self.shortfall is None:
            return True
        miss = float(self.shortfall(reached.row_raw[None])[0])
        if miss > 0.0:
            self.draft.remember_missed(miss, reached.row_raw, reached.own_score)
        return miss <= 0.0

    def _remember(self, nearest: Reached | None) -> None:
        """Keep what came nearest, and how far it got."""
        draft = self.draft
        if nearest is None:
            return
        draft.nearest = draft.counterfactual(nearest.row_raw, nearest.own_score)
        draft.sentence = (
            f"No record that was tried is accepted by {_percent(self.asked)} of the future models that the search "
            f"asks; the nearest is accepted by {_percent(nearest.share)} of them."
        )
