"""Verification of a plan: all proposals in one call, then the best plan among the accepted ones."""

import numpy as np
from jaxtyping import Float, Int

from app.recourse.candidates import PlanCandidates
from app.recourse.numerics.equal_rows import first_of_equal
from app.recourse.verdict import Reason
from app.recourse.verification.draft import Draft


def verify_plan(draft: Draft, candidates: PlanCandidates) -> Reason:
    """Verify all proposals together, choose the best plan among the accepted, and fill it up with fallback records.

    Where one call is left, it asks about these as well.

    Returns the reason to give if none is accepted.
    """
    if not len(candidates.rows_raw):
        draft.relax = candidates.relax()
        return Reason.INFEASIBLE_CONSTRAINTS
    proposed = len(candidates.rows_raw)
    more = draft.fallback_rows() if draft.calls_left <= 1 else candidates.rows_raw[:0]
    all_scores = draft.scores(np.concatenate([candidates.rows_raw, more]))
    rows_raw, scores = candidates.rows_raw, all_scores[:proposed]
    _choose(draft, candidates, rows_raw, scores)
    refused = int((scores[: candidates.count] < 0.0).sum())
    if refused and draft.found:
        draft.warnings.append(
            f"The model refused {refused} of the {candidates.count} members that the method proposed; accepted members "
            "with a larger margin replace them where there are any."
        )
    if len(draft.found) < candidates.count and (len(more) or draft.calls_left > 0):
        if not len(more):
            more = draft.fallback_rows()
            all_scores = np.concatenate([scores, draft.scores(more)])
        rows_raw, scores = np.concatenate([rows_raw, more]), all_scores
        if _choose(draft, candidates, rows_raw, scores).max(initial=-1) >= proposed:
            draft.fallback = True
    if 0 < len(draft.found) < candidates.count:
        draft.warnings.append(
            f"Only {len(draft.found)} of the {candidates.count} counterfactuals that were requested could be found: "
            "different ones that the model accepts."
        )
    if not draft.found:
        draft.remember_refused(rows_raw, scores)
        draft.relax = candidates.relax()
    return Reason.TARGET_NOT_REACHED


def _choose(
    draft: Draft,
    candidates: PlanCandidates,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
) -> Int[np.ndarray, "k"]:
    """Keep the best plan among the different accepted rows; which rows those are."""
    accepted = np.flatnonzero(draft.problem.black_box.accepts(scores))
    if accepted.size:
        accepted = accepted[first_of_equal(rows_raw[accepted])]
        accepted = accepted[candidates.choose(rows_raw[accepted])]
        draft.found = [draft.counterfactual(rows_raw[k], scores[k]) for k in accepted]
    return accepted
