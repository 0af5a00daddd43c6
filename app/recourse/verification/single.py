"""Verification of one counterfactual: a ladder of proposals, then repair and polish; or fallback records."""

import math
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.candidates import HAIR, Candidates
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.score import Output
from app.recourse.numerics.linalg import unique_rows, unique_rows_and_places
from app.recourse.search.local_moves import SingleMoves, further_instead, partly
from app.recourse.verdict import Reason
from app.recourse.verification.draft import Draft

LADDER = np.array([0.0, HAIR, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
"""Extra margins of the proposals, in the method's own unit."""
FIRST_RUNGS = 3
"""Of these, how many are proposed and verified first: mostly the model accepts one, and the rest is not needed."""
BETWEEN = 7
"""Proposals between a refused and an accepted rung."""
CHANGE_SHARE = 0.05
"""What each change adds to the cost where answers are compared, as a share of it: one change less is worth up to 5 %.
The cost that is reported has no such part. Where only an estimate of the model asks for a change, it has to bring more
than this share of the rise of the model's own score."""
ENOUGH_SHARE = 2 / 3
"""Share of the rise of the model's score that some of the changes bring, from which on they are what is needed."""
FURTHER, FEWEST_FURTHER = 40, 8
"""Amounts by which a number goes further in place of another change: most, and fewest of many changes and features."""
MOST_NUMBERS = 200_000
"""Numbers, about, in the records of these, above the fewest."""
FIRST_MOVES = 12
"""Cheaper records one move from the accepted one, of which the neighbours are tried as well."""
MOST_CHEAPER = 250
"""Cheaper records one move away, and as many two moves away, that are tried where the method asks for nothing but
acceptance."""
MOST_COMBINED = 7
"""Changes up to which every combination of them is tried without; else each change alone."""
LEFT_OUT_WARNING = (
    "Left out: {} that the method's constraint asks for, though the model's score is hardly lower without. "
    "To have the constraint met, ask for another degree of the method's robustness."
)


def verify_one(draft: Draft, candidates: Candidates, known: list[Counterfactual]) -> Reason:
    """Verify a method's proposals for one counterfactual.

    Parameters
    ----------
    known : records that the black box accepted in earlier answers; a better one replaces the record found

    Returns
    -------
    The reason to give if no proposal is accepted.
    """
    best = _Best(draft)
    reason = _climb(draft, candidates, best)
    if known:
        rows_raw = np.array([one.row_raw for one in known])
        meets = candidates.meets(rows_raw)
        best.keep(rows_raw[meets], np.array([one.score for one in known])[meets])
    _finish(draft)
    return reason


def verify_fallback(draft: Draft) -> None:
    """Verify fallback records, which may miss the method's own constraint, then cheaper records nearby that meet it."""
    best = _Best(draft)
    best.verify(np.empty((0, draft.actions.space.p)), fallback=draft.fallback_rows())
    if draft.found and draft.all_changes is None and best.shortfall is None and draft.meter.black_box.remote is None:
        row_raw = draft.found[0].row_raw
        rows_raw = np.concatenate([_undone(draft.actions, row_raw), _cheaper(draft.searched, row_raw)])
        best.verify(rows_raw if best.candidates is None else rows_raw[best.candidates.meets(rows_raw)], further=True)
    _finish(draft)


def verify_offered(draft: Draft, rows_raw: Float[np.ndarray, "n p"]) -> None:
    """Verify records that the caller expects the model to accept; the cheapest accepted one becomes the answer.

    Its changes are then undone or made smaller, as long as the model accepts the result. The answer may miss the
    method's own constraint, but not a promise that the method measures.
    """
    candidates = draft.candidates if isinstance(draft.candidates, Candidates) else None
    row_raw: Float[np.ndarray, p] | None = None
    score, further = math.nan, False
    while len(rows_raw):
        scores = draft.scores(rows_raw, further=further)
        accepted = np.flatnonzero(draft.problem.black_box.accepts(scores))
        if not accepted.size:
            break
        best = int(accepted[_value(draft.actions, rows_raw[accepted]).argmin()])
        row_raw, score, further = rows_raw[best], float(scores[best]), True
        nearer = draft.actions.clock.settled(_undone(draft.actions, row_raw))
        # Rounded, half of a step is the whole one: the same record, whose cost among others may differ in its last bit.
        nearer = nearer[(nearer != row_raw).any(axis=1)]
        rows_raw = nearer[_value(draft.actions, nearer) < _value(draft.actions, row_raw[None])]
    if row_raw is None:
        return
    if candidates is not None and candidates.shortfall is not None:
        miss = float(candidates.shortfall(row_raw[None])[0])
        if miss > 0.0:
            draft.remember_missed(miss, row_raw, score)
            return
    draft.found, draft.fallback = [draft.counterfactual(row_raw, score)], True


def _climb(draft: Draft, candidates: Candidates, best: "_Best") -> Reason:
    """Verify a ladder of proposals in one call, then proposals between the last refused and the first accepted one.

    Where the first proposal that the model accepts is the best, the call has two parts, and the second is made only if
    all of the first part are refused. A remote model is paid per call and gets the whole ladder at once.
    """
    begun = np.empty((0, draft.actions.space.p))
    if draft.actions.begun:  # what the person does anyway may be enough
        begun = draft.actions.factual_raw[None]
        begun = begun[candidates.meets(begun)]
    ladder = LADDER * candidates.extra_margin_unit
    extra_margins = np.append(np.zeros(len(begun)), ladder)
    in_parts = draft.meter.black_box.remote is None and candidates.is_optimal and candidates.shortfall is None
    rungs = np.concatenate([begun, candidates.propose(ladder[:FIRST_RUNGS] if in_parts else ladder)])
    if not len(rungs):
        draft.relax = candidates.relax()
        draft.gave_up = not candidates.proves_infeasible
        return Reason.INFEASIBLE_CONSTRAINTS if candidates.proves_infeasible else Reason.TARGET_NOT_REACHED
    last_call = draft.calls_left <= 1
    accepted = best.verify(rungs, fallback=draft.fallback_rows() if last_call and not in_parts else None)
    if in_parts and not accepted.any():
        others = candidates.propose(ladder)[len(rungs) - len(begun) :]
        more = best.verify(others, fallback=draft.fallback_rows() if last_call else None, further=True)
        rungs, accepted = np.concatenate([rungs, others]), np.concatenate([accepted, more])
    first = int(accepted.argmax())
    if not accepted[first]:
        draft.relax = candidates.relax()
    elif not last_call:
        polished = [_fewer(draft.actions, candidates, draft.found[0].row_raw)]
        while len(polished[-1]):
            fewest = polished[-1][_value(draft.actions, polished[-1]).argmin()]
            polished.append(_fewer(draft.actions, candidates, fewest))
        if first > 0 or not candidates.is_optimal:
            undone = _undone(draft.actions, rungs[first])
            polished.append(undone[candidates.meets(undone)])
        if first > 0:
            between = np.linspace(extra_margins[first - 1], extra_margins[first], BETWEEN + 2)[1:-1]
            polished.append(candidates.propose(between))
        if first > 0 and candidates.alternatives is not None:
            polished.append(candidates.alternatives())
        if candidates.takes_any:
            polished.append(_cheaper(draft.searched, rungs[first]))
        proposals = np.concatenate(polished)
        if len(proposals):
            best.verify(proposals)
        if candidates.takes_any and draft.meter.black_box.remote is None:
            _undo_needless(draft, best)
    return Reason.TARGET_NOT_REACHED


def _undone(actions: ActionSet, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
    """A record with one of its changes taken back, or a number moved only half as far."""
    fact, changed = actions.factual_raw, _changed(actions, row_raw)
    undone = np.tile(row_raw, (len(changed), 1))
    undone[np.arange(len(changed)), changed] = fact[changed]
    numbers = changed[~np.isin(changed, actions.space.groups)]
    halved = np.tile(row_raw, (len(numbers), 1))
    halved[np.arange(len(numbers)), numbers] = 0.5 * (row_raw + fact)[numbers]
    return np.concatenate([undone, actions.round(halved, toward_raw=np.broadcast_to(row_raw, halved.shape))])


def _changed(actions: ActionSet, row_raw: Float[np.ndarray, "p"]) -> Int[np.ndarray, "k"]:
    """The features that the person changes, not those that time does."""
    return np.flatnonzero((row_raw != actions.factual_raw) & ~actions.clock.passive)


def _undo_needless(draft: Draft, best: "_Best") -> None:
    """Take changes of the best record back, as long as the model still accepts one with a change less.

    As a further part of the latest call, which looked at a sample of all cheaper records only.
    """
    kept: Counterfactual | None = None
    while kept is not draft.found[0]:
        kept = draft.found[0]
        best.verify(_undone(draft.actions, kept.row_raw), further=True)


def _finish(draft: Draft) -> None:
    """Leave out what the model does not reward, and say what the record that was found misses."""
    left_out = _leave_out(draft)
    if not left_out or draft.fallback:
        draft.note_how_far()
    else:
        draft.warnings.append(LEFT_OUT_WARNING.format("a change" if left_out == 1 else f"{left_out} changes"))


def _leave_out(draft: Draft) -> int:
    """Take back changes that hardly raise the model's own score, and note what of the others is enough; how many.

    An estimate of the model may ask for them, most of all where it is rough or the changes that count are limited. As
    a further part of the latest call. Not where the request is about the method's own constraint, not of answers that
    future models choose, and not where all scores are alike, as those of labels are.
    """
    candidates, problem = draft.candidates, draft.problem
    if (
        not draft.found
        or not isinstance(candidates, Candidates)
        or not candidates.yields_to_model
        or problem.on_curve
        or problem.future_validity is not None
        or problem.black_box.remote is not None
        or problem.black_box.output is Output.LABEL
    ):
        return 0
    one, changed = draft.found[0], _changed(draft.actions, draft.found[0].row_raw)
    if len(changed) < 2:
        return 0
    if len(changed) <= MOST_COMBINED:
        undone = (np.arange(1, 2 ** len(changed) - 1)[:, None] >> np.arange(len(changed))) % 2 == 1
    else:
        undone = np.eye(len(changed), dtype=bool)
    rows_raw = np.repeat(one.row_raw[None], len(undone), axis=0)
    rows_raw[:, changed] = np.where(undone, problem.factual_raw[changed], one.row_raw[changed])
    rows_raw = draft.actions.clock.settled(rows_raw)
    scores = draft.scores(rows_raw, further=True)
    accepted, left_out = problem.black_box.accepts(scores), np.zeros(len(changed), dtype=bool)
    # Scores are compared by how far they rise from the applicant's own.
    rise, rises = one.score - draft.factual_score, scores - draft.factual_score
    needless = np.flatnonzero(accepted & (rises >= rise * (1.0 - CHANGE_SHARE * undone.sum(axis=1))))
    if needless.size:
        best = int(needless[_value(draft.actions, rows_raw[needless]).argmin()])
        draft.found, left_out = [draft.counterfactual(rows_raw[best], scores[best])], undone[best]
        rise = rises[best]
    smaller = (undone >= left_out).all(axis=1) & (undone != left_out).any(axis=1)
    enough = undone[accepted & smaller & (rises >= rise * ENOUGH_SHARE)]
    draft.enough = tuple(tuple(changed[~without].tolist()) for without in enough)
    return int(left_out.sum())


def _fewer(actions: ActionSet, candidates: Candidates, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
    """A record with one change taken back and one number moved further, where that counts as better.

    No rows where the method has an objective of its own, which is not traded away.
    """
    none = row_raw[None][:0]
    if candidates.objective is not None:
        return none
    value, changes = _value(actions, row_raw[None])[0], actions.changed(row_raw[None])[0]
    undone, moves = further_instead(actions, row_raw, value / (1.0 + CHANGE_SHARE * (changes - 1)))
    if not len(undone):
        return none
    # Mostly none goes far enough, and rounding takes longer than this look.
    enough = candidates.meets(np.clip(undone + moves, actions.lower_raw, actions.upper_raw))
    if not enough.any():
        return none
    amounts = max(min(FURTHER, MOST_NUMBERS // (int(enough.sum()) * len(row_raw))), FEWEST_FURTHER)
    rows = partly(actions, undone[enough], moves[enough], amounts)
    return rows[(_value(actions, rows) < value) & candidates.meets(rows)]


def _value(actions: ActionSet, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
    """What answers of a method without an objective of its own are chosen by: the cost, more with each change."""
    return actions.cost(rows_raw) * (1.0 + CHANGE_SHARE * actions.changed(rows_raw))


def _cheaper(actions: ActionSet, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
    """Legal records that cost less, one or two moves away, of all costs alike; other changes may replace its own."""
    most = actions.cost(row_raw[None])[0]

    def some(rows_raw: Float[np.ndarray, "n p"], count: int) -> Float[np.ndarray, "m p"]:
        costs = actions.cost(rows_raw)
        order = costs.argsort(kind="stable")[: np.count_nonzero(costs < most)]
        return unique_rows(rows_raw[order[np.linspace(0, len(order) - 1, min(count, len(order)), dtype=int)]])

    once = some(SingleMoves(actions, swaps=True).of(row_raw), MOST_CHEAPER)
    moves = SingleMoves(actions)
    twice = [moves.of(row) for row in some(once, FIRST_MOVES)]
    return np.concatenate([once, some(np.concatenate([once[:0], *twice]), MOST_CHEAPER)])


class _Best:
    """The best record that the black box accepts, by the method's objective, among those that keep its promise.

    Records that miss the method's own constraint come after those that meet it, nearest to it first, so that asking
    for more never gives less.
    """

    def __init__(self, draft: Draft) -> None:
        candidates = draft.candidates if isinstance(draft.candidates, Candidates) else None
        self.draft = draft
        self.candidates = candidates
        own = candidates.objective if candidates else None
        self.objective = own or partial(_value, draft.actions)
        self.shortfall = candidates.shortfall if candidates else None
        self.misses, self.value = True, math.inf
        """Of the best record: whether it misses the method's own constraint; the objective, or else how far it is."""

    def verify(
        self,
        proposals: Float[np.ndarray, "n p"],
        *,
        fallback: Float[np.ndarray, "m p"] | None = None,
        further: bool = False,
    ) -> Bool[np.ndarray, "n"]:
        """Ask the black box about `proposals` and `fallback` in one call, and keep the best answer.

        Parameters
        ----------
        fallback : records that may be the answer where no proposal is a good one
        further : whether the rows count as part of the previous call; never with a remote model

        Returns
        -------
        Mask of the proposals that are good answers: accepted, and keeping a promise that the method measures.
        """
        draft, n = self.draft, len(proposals)
        proposals = draft.actions.clock.settled(proposals)
        finished, which = self._finished(proposals)
        parts = [proposals, finished, *([] if fallback is None else [fallback])]
        known = draft.scores(np.concatenate(parts), further=further)
        scores, others, scores_fallback = known[:n], known[n : n + len(finished)], known[n + len(finished) :]
        if len(finished):
            better = (which >= 0) & np.append(draft.problem.black_box.accepts(others), False)[which]
            proposals, scores = proposals.copy(), scores.copy()
            proposals[better], scores[better] = finished[which[better]], others[which[better]]
        good = self.keep(proposals, scores)
        if fallback is not None and not draft.found:
            good_fallback = self.keep(fallback, scores_fallback, proposed=False)
            if good_fallback.any() and self.shortfall is None:  # a measured promise covers fallback records too
                draft.fallback = True
        return good

    def _finished(self, proposals: Float[np.ndarray, "n p"]) -> tuple[Float[np.ndarray, "m p"], Int[np.ndarray, "n"]]:
        """Proposals whose changes stop just before an end, with these changes made in full, each once.

        And which of them belongs to each proposal, -1 for none. None at all where the method has an objective of its
        own, which is not traded away.
        """
        which = np.full(len(proposals), -1)
        if self.candidates is None or self.candidates.objective is not None:
            return proposals[:0], which
        finished = self.draft.actions.finished(proposals)
        if finished is proposals:
            return proposals[:0], which
        finished = self.draft.actions.clock.settled(finished)
        short = (finished != proposals).any(axis=1)
        rows, which[short] = unique_rows_and_places(finished[short])
        return rows, which

    def keep(
        self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"], *, proposed: bool = True
    ) -> Bool[np.ndarray, "n"]:
        """Keep the best row that is accepted and has the promised validity; remember the best of the other rows.

        Parameters
        ----------
        proposed : whether the method proposed the rows; such rows meet its own constraint

        Returns
        -------
        Mask of the rows that are accepted and have the validity that the method promises, if it measures one.
        """
        draft = self.draft
        good = draft.problem.black_box.accepts(scores)
        accepted = np.flatnonzero(good)
        if not accepted.size:
            draft.remember_refused(rows_raw, scores)
            return good
        taken, misses = rows_raw[accepted], np.zeros(accepted.size, dtype=bool)
        draft.least_cost = min(draft.least_cost, float(draft.actions.cost(taken).min()))
        value = self.objective(taken)
        if self.candidates is not None and not proposed:
            misses = ~self.candidates.meets(taken)
            nearness = self.candidates.nearness or self.candidates.rank
            value[misses] = -nearness(rows_raw[accepted[misses]])
        order = np.lexsort((-scores[accepted], value, misses)) if accepted.size > 1 else np.zeros(1, dtype=int)
        better = order[(misses[order] < self.misses) | ((misses[order] == self.misses) & (value[order] <= self.value))]
        picks = accepted[better]
        if self.shortfall is not None and picks.size:
            short = self.shortfall(rows_raw[picks])
            good[:] = False
            good[picks[short <= 0.0]] = True
            for pick, miss in zip(picks[short > 0.0].tolist(), short[short > 0.0].tolist(), strict=True):
                draft.remember_missed(miss, rows_raw[pick], scores[pick])
            better = better[short <= 0.0]
        if better.size:
            best = int(better[0])
            one = draft.counterfactual(taken[best], scores[accepted[best]])
            key, kept = (misses[best], value[best], -one.score), (self.misses, self.value)
            if not draft.found or key < (*kept, -draft.found[0].score):
                draft.found, self.misses, self.value = [one], bool(misses[best]), float(value[best])
        return good
