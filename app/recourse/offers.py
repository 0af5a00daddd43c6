"""Counter-offers: the terms of a contract with which the model accepts an applicant as they are.

A *term* is a feature that the lender sets (`Feature.terms`), such as an amount or a number of months; every other value
of the record stays. Terms take the values that the schema allows the lender to offer (range, step, `advice`), within
the constraints of the request, and never more of what the applicant asked for than they asked for; what a person can
change (`change`, `max_change`, `least_change`) limits no offer. Terms are few, so the model is asked about all of them
in one call; where there are too many, about evenly spaced ones, and then between the best that it accepts and the next.

Which way a term is better is stated, by the manifest or by the request. An offer is listed if no other one is at least
as good in every term with a direction, better in one, and equal in all terms without. The best lies at the edge, so the
next model may refuse it: with `RecourseProblem.future_validity` future models of the search set accept it too.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.cost import amounts
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import Better
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, Status
from app.recourse.robustness.future_validity import future_certificates
from app.recourse.steps import with_lasting
from app.recourse.terms import Values, directions, terms_of, values_of
from app.recourse.verification.aim import surely_accepted

MOST_ROWS = 5_000
"""Combinations of terms in one call of the model."""

FEW_ROWS, LEADING = 100, 8
"""Where the best offer alone is asked for: combinations in the first call, but at least so many values of the leading
term with each of the others."""

MOST_OFFERS = 20
"""Offers of one answer."""


class NoOffer(StrEnum):
    """Why there is no offer."""

    ALL_REFUSED = "all_refused"
    REFUSED = "refused"
    UNSURE = "unsure"
    NONE_LEGAL = "none_legal"
    DEADLINE = "deadline"
    BUDGET = "budget"
    MODEL_OUTPUT_INVALID = "model_output_invalid"


NO_OFFER: Mapping[NoOffer, str] = {
    NoOffer.ALL_REFUSED: "As the applicant is, the model refuses every combination of terms that can be offered.",
    NoOffer.REFUSED: (
        "As the applicant is, the model refuses every combination of terms that was asked about; there are too many to "
        "ask about all."
    ),
    NoOffer.UNSURE: "As the applicant is, the model accepts some terms, but none that enough future models accept too.",
    NoOffer.NONE_LEGAL: "The rules of the model and the constraints of the request leave no other terms to offer.",
    NoOffer.DEADLINE: "The time limit was reached before the model was asked about all terms.",
    NoOffer.BUDGET: "The model's request budget was used up before it was asked about all terms.",
    NoOffer.MODEL_OUTPUT_INVALID: "The model gave no finite score for this record.",
}
"""The public sentence of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The offers for one applicant, or the reason why there are none; the model has accepted each."""

    status: Status
    factual_score: float | None
    """None where the model gave no finite score, or was not asked."""
    factual_probability: float | None
    offers: tuple[Counterfactual, ...] = ()
    """The best first: by the leading term, then the nearest to what was asked for."""
    more: int = 0
    """Further offers, which are not listed."""
    signs: Mapping[int, int]
    """As `directions`."""
    asked: int = 0
    """Combinations of terms that the model was asked about."""
    every: bool = False
    """Whether these are all that can be offered."""
    verdict: NoOffer | None = None
    """Present iff `status` is `not_found`."""
    diagnostics: Diagnostics


def best_offer(problem: RecourseProblem) -> tuple[Counterfactual | None, Diagnostics | None]:
    """The best offer for an applicant, and the diagnostics of the search for it.

    The offer is None where there is none. Both are None if the model is not asked: if it is remote, since each record
    is paid for; if no term has a direction; or if the request names features that must change.
    """
    actions, signs = problem.action_set, directions(problem.action_set.space, {})
    if not signs or actions.included or problem.black_box.remote is not None:
        return None, None
    # Of the models that the problem names, those under stress are not asked.
    problem = problem if problem.under == "same" else replace(problem, under="same")
    values = cache(partial(values_of, problem))
    # A little more money over a sixth of the time is no better offer, so other terms are asked about last.
    found = offers(problem, {}, most=1, as_asked=True, values=values)
    spent = found.diagnostics
    if found.status is Status.NOT_FOUND and len(signs) < len(terms_of(actions.space)):
        found = offers(problem, {}, most=1, values=values)
        spent = spent.plus(found.diagnostics.model_calls, found.diagnostics.model_rows)
    return next(iter(found.offers), None), spent


def offers(
    problem: RecourseProblem,
    better: Mapping[str, Better],
    *,
    most: int = MOST_OFFERS,
    as_asked: bool = False,
    values: Callable[[int, int], Values] | None = None,
) -> Offers:
    """The offers for one applicant: the best terms that the model accepts.

    Parameters
    ----------
    better : by name of a term, the direction that replaces the schema's; at least one term must have a direction
    most : largest number of offers in the list
    as_asked : whether each term without a direction keeps the requested value
    values : `values_of` the problem, where several searches share what it finds

    Raises
    ------
    ModelUnavailable : a remote model does not answer
    """
    began, meter = time.perf_counter(), Meter(problem.black_box, problem.deadline)
    signs = directions(problem.action_set.space, better)
    terms = tuple(signs) if as_asked else terms_of(problem.action_set.space)
    values = values or partial(values_of, problem)
    search = _Search(problem, meter, signs, {j: values(j, signs.get(j, 0)) for j in terms}, alone=most == 1)
    verdict: NoOffer | None = None
    try:
        search.ask_all()
    except DeadlineExceeded:
        verdict = NoOffer.DEADLINE
    except BudgetExceeded:
        verdict = NoOffer.BUDGET
    score = search.factual_score
    if math.isnan(score):
        verdict = verdict or NoOffer.MODEL_OUTPUT_INVALID
    every = search.every and verdict is None
    if verdict is None and search.refused and not len(search.rows_raw):
        verdict = search.why_none
    listed = () if verdict is not None or not search.refused else search.listed(most)
    return Offers(
        status=Status.NOT_FOUND if verdict else Status.FOUND if search.refused else Status.ALREADY_FAVOURABLE,
        factual_score=None if math.isnan(score) else score,
        factual_probability=problem.black_box.probability_of(score),
        offers=listed,
        more=0 if verdict else len(search.rows_raw) - len(listed),
        signs=signs,
        asked=search.asked,
        every=every,
        verdict=verdict,
        diagnostics=Diagnostics.since(began, meter.calls, meter.rows),
    )


class _Search:
    """The combinations of terms, and what the model says of them.

    Parameters
    ----------
    values : of each term, as `values_of` finds them
    alone : whether the best offer alone is asked for
    """

    def __init__(
        self,
        problem: RecourseProblem,
        meter: Meter,
        signs: Mapping[int, int],
        values: Mapping[int, Values],
        *,
        alone: bool,
    ) -> None:
        self._problem, self._meter, self._signs, self._alone = problem, meter, signs, alone
        actions = problem.action_set
        self._lead = next(iter(signs))
        self._terms = (self._lead, *(j for j in values if j != self._lead))
        self._leading = values[self._lead][0]
        remote = problem.black_box.remote
        self._most = MOST_ROWS if remote is None else max(1, min(MOST_ROWS, remote.max_rows - 1))
        self._few = min(FEW_ROWS if alone else MOST_ROWS, self._most)
        facts_raw = actions.factual_raw[list(self._terms)]
        whole = [values[j][0] for j in self._terms]
        places = _thinned(whole, self._most, self._few, facts_raw)
        self._places = places[0]
        """Of the values of the leading term that are asked about first, among all of them."""
        self._axes = [axis[kept] for axis, kept in zip(whole, places, strict=True)]
        thinned = any(len(kept) < len(axis) for axis, kept in zip(whole, places, strict=True))
        self.every = not thinned and all(complete for _, complete in values.values())
        """Whether every combination that can be offered is asked about."""
        self.factual_score = math.nan
        """NaN where the model gave no score of the applicant's own record, or was not asked."""
        self.asked = 0
        self._any = False
        self.rows_raw: Float[np.ndarray, "n p"] = np.empty((0, actions.space.p))
        """The accepted records that are listed, the best first."""
        self._scores: Float[np.ndarray, n] = np.empty(0)

    @property
    def refused(self) -> bool:
        """Whether the model refuses the applicant's own record."""
        return self.factual_score < 0.0

    @property
    def why_none(self) -> NoOffer:
        """Why there is no offer, after the model was asked about every combination of terms that the search tries."""
        if not self.asked:
            return NoOffer.NONE_LEGAL
        if self._any:
            return NoOffer.UNSURE
        return NoOffer.ALL_REFUSED if self.every else NoOffer.REFUSED

    def ask_all(self) -> None:
        """Ask about the applicant's own record and each combination of terms; keep the best accepted combinations."""
        fact, size = self._problem.factual_raw, math.prod(map(len, self._axes))
        rows_raw, inner = np.repeat(fact[None], size, axis=0), size
        for j, axis in zip(self._terms, self._axes, strict=True):
            inner //= len(axis)
            rows_raw[:, j].reshape(-1, len(axis), inner)[:] = axis[:, None]
        asked = np.flatnonzero(self._legal(rows_raw))
        found = self._meter.score_raw(np.concatenate([fact[None], rows_raw[asked]]))
        self.factual_score, self.asked = float(found[0]), len(asked)
        if not self.refused:
            return
        yes, scores = np.zeros(len(rows_raw), dtype=bool), np.zeros(len(rows_raw))
        yes[asked], scores[asked] = self._accepted(rows_raw[asked], found[1:]), found[1:]
        # The leading term varies by row, the best first; the others by column.
        table = yes.reshape(len(self._axes[0]), -1)
        others = np.flatnonzero(table.any(axis=0))
        places = table.argmax(axis=0)[others]
        best = places * table.shape[1] + others
        self.rows_raw, self._scores = rows_raw[best], scores[best]
        if len(self._axes[0]) < len(self._leading) and len(best):
            known = self._places
            with suppress(BudgetExceeded, DeadlineExceeded):  # what was found is accepted nevertheless
                self._refine(known[places], np.where(places, known[places - 1], -1))
        self._keep_best()

    def _accepted(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which records the model accepts, and the share of future models that is asked for; NaN is a refusal."""
        problem, yes = self._problem, np.asarray(self._problem.black_box.accepts(scores))
        self._any |= bool(yes.any())
        if problem.future_validity is not None and problem.futures is not None and yes.any():
            yes[yes] = surely_accepted(problem.futures, problem.future_validity, rows_raw[yes])
        return yes

    def _refine(self, place: Int[np.ndarray, "n"], best: Int[np.ndarray, "n"]) -> None:
        """Ask about leading terms between the best accepted one of each record and the next better that was refused.

        Parameters
        ----------
        place, best : places of these two among all values, of which the first is the best; -1 where none is better
        """
        while True:
            if self._alone:
                # Where no value between is better than another record's present one, the best offer is another.
                best = np.where(best + 1 > place.min(), place - 1, best)
            gap = place - best - 1
            if not gap.any():
                return
            stride = max(1, math.ceil(int(gap.sum()) / self._few))
            between = [np.arange(b + 1, p)[::-1][::stride] for b, p in zip(best.tolist(), place.tolist(), strict=True)]
            which = np.repeat(np.arange(len(place)), [len(one) for one in between])
            places = np.concatenate(between)
            rows_raw = self.rows_raw[which]
            rows_raw[:, self._lead] = self._leading[places]
            legal = self._legal(rows_raw)
            scores = np.full(len(rows_raw), np.nan)
            if legal.any():
                scores[legal] = self._meter.score_raw(rows_raw[legal])
                self.asked += int(legal.sum())
            yes, start = self._accepted(rows_raw, scores), 0
            for i, one in enumerate(between):
                # From the worst to the best: what follows the last accepted one is refused.
                accepted = np.flatnonzero(yes[start : start + len(one)])
                after = 0
                if accepted.size:
                    after = int(accepted[-1]) + 1
                    took = start + after - 1
                    self.rows_raw[i], self._scores[i], place[i] = rows_raw[took], scores[took], places[took]
                if after < len(one):
                    best[i] = max(best[i], one[after])
                start += len(one)

    def _keep_best(self) -> None:
        """Leave out what another offer is better than; the best first."""
        if len(self.rows_raw) < 2:
            return
        directed, free = list(self._signs), [j for j in self._terms if j not in self._signs]
        good = self.rows_raw[:, directed] * np.array(list(self._signs.values()), dtype=float)
        # Offers of the same leading term and others are rows of one group.
        at_least = (good[:, None] >= good[None]).all(axis=2)
        better = at_least & (good[:, None] > good[None]).any(axis=2)
        better &= (self.rows_raw[:, None, free] == self.rows_raw[None, :, free]).all(axis=2)
        left = np.flatnonzero(~better.any(axis=0))
        space, fact = self._problem.action_set.space, self._problem.factual_raw
        moved = amounts(space, np.abs(self.rows_raw[left] - fact)).sum(axis=1)
        changed = (self.rows_raw[left] != fact).sum(axis=1)
        order = left[np.lexsort((moved, changed, -good[left, 0]))]
        self.rows_raw, self._scores = self.rows_raw[order], self._scores[order]

    def listed(self, most: int) -> tuple[Counterfactual, ...]:
        """The first `most` offers, each with its certificate by future models."""
        problem, rows_raw = self._problem, self.rows_raw[:most]
        futures = future_certificates(problem, rows_raw)
        found = [
            Counterfactual(
                row_raw=row_raw,
                score=score,
                probability=problem.black_box.probability_of(score),
                cost=float(problem.action_set.cost(row_raw[None])[0]),
                changed=tuple(np.flatnonzero(row_raw != problem.factual_raw).tolist()),
                future=future,
            )
            for row_raw, score, future in zip(rows_raw, self._scores[:most].tolist(), futures, strict=True)
        ]
        return tuple(with_lasting(problem.action_set, self._meter, found))

    def _legal(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Which other records keep the rules, derive only legal values, and change no more than the request allows."""
        actions = self._problem.action_set
        changed = rows_raw != actions.factual_raw
        legal = np.logical_or.reduce([changed[:, j] for j in self._terms])
        if actions.rules:
            legal &= actions.keeps_rules(rows_raw)
        if actions.space.derived is not None:
            legal &= actions.space.derives_legally(rows_raw)
        if actions.max_changes is not None:
            legal &= changed.sum(axis=1) <= actions.max_changes
        for together in actions.barred:
            legal &= ~changed[:, list(together)].all(axis=1)
        return np.asarray(legal)


def _thinned(
    axes: Sequence[Float[np.ndarray, "_"]], most: int, few: int, fact_raw: Float[np.ndarray, "t"]
) -> list[Int[np.ndarray, "_"]]:
    """Places of the values that stay of each axis, so that there are at most `most` combinations, or `few`.

    Every second value is left out, again and again: of the first axis, of which `LEADING` values stay, then of the
    longest, as `_refine` asks between the values of the leading term. The best value of each axis stays, the last one,
    and what was asked for. For `few`, no other axis is thinned: a record may be accepted with the shortest time alone.
    """
    # Without the last place, every second one is a view: an axis may have a million values.
    heads = [np.arange(len(axis) - 1) for axis in axes]
    own = [_place(axis, fact) for axis, fact in zip(axes, fact_raw.tolist(), strict=True)]
    while (size := math.prod(len(head) + 1 for head in heads)) > most or (size > few and len(heads[0]) + 1 > LEADING):
        k = 0 if len(heads[0]) + 1 > LEADING else max(range(len(heads)), key=lambda k: len(heads[k]))
        before, at = heads[k], int(heads[k].searchsorted(own[k]))
        heads[k] = before[::2]
        if at % 2 and at < len(before) and before[at] == own[k]:
            heads[k] = np.insert(heads[k], (at + 1) // 2, own[k])
        if len(heads[k]) == len(before):
            break
    return [np.append(head, len(axis) - 1) for head, axis in zip(heads, axes, strict=True)]


def _place(axis: Float[np.ndarray, "_"], fact: float) -> int:
    """Where a term has the value that was asked for: mostly first; -1 where it has not."""
    return 0 if axis[0] == fact else int(np.append(np.flatnonzero(axis == fact), -1)[0])
