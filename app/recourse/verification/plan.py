"""Verification of a plan: proposals in one call, then the best plan among the accepted ones."""

import numpy as np
from jaxtyping import Float, Int

from app.recourse.candidates import PlanCandidates
from app.recourse.numerics.linalg import first_of_equal
from app.recourse.verdict import Reason
from app.recourse.verification.draft import Draft


def verify_plan(draft: Draft, candidates: PlanCandidates) -> Reason:
    """Verify a plan and replacements of its members, and choose the best plan of accepted records.

    A local model is asked about the members first, and about replacements only if it refuses a member. A remote model
    is paid per call, so one call asks about all. Fallback records fill up a plan that lacks members; if only one call
    is left, it asks about them, too.

    Returns
    -------
    The reason to give if no record is accepted.
    """
    rows_raw, members = candidates.plan_raw, len(candidates.plan_raw)
    if not members:
        draft.relax = candidates.relax()
        return Reason.INFEASIBLE_CONSTRAINTS
    in_parts, last_call = draft.meter.black_box.remote is None, draft.calls_left <= 1
    scores, more = np.empty(0), rows_raw[:0]
    if in_parts:
        scores = draft.scores(rows_raw)
        _choose(draft, candidates, rows_raw, scores)
    if not _accepts_plan(draft, candidates, scores):
        rows_raw = np.concatenate([rows_raw, candidates.replacements()])
        more = draft.fallback_rows() if last_call else more
        asked = np.concatenate([rows_raw[len(scores) :], more])
        scores = np.concatenate([scores, draft.scores(asked, further=in_parts)])
        _choose(draft, candidates, rows_raw, scores[: len(rows_raw)])
    refused = int((scores[:members] < 0.0).sum())
    if refused and draft.found:
        draft.warnings.append(
            f"The model refused {refused} of the {candidates.count} members that the method proposed; accepted members "
            "with a larger margin replace them where there are any."
        )
    missing = len(draft.found) < candidates.count and not _accepts_plan(draft, candidates, scores)
    if missing and (last_call or draft.calls_left > 0):
        if not last_call:
            more = draft.fallback_rows()
            scores = np.concatenate([scores, draft.scores(more)])
        proposed, rows_raw = len(rows_raw), np.concatenate([rows_raw, more])
        if _choose(draft, candidates, rows_raw, scores).max(initial=-1) >= proposed:
            draft.fallback = True
    if 0 < len(draft.found) < candidates.count:
        draft.warnings.append(
            f"Only {len(draft.found)} of the {candidates.count} counterfactuals that were requested could be found: "
            "different ones that the model accepts."
        )
    if not draft.found:
        draft.remember_refused(rows_raw, scores[: len(rows_raw)])
        draft.relax = candidates.relax()
    return Reason.TARGET_NOT_REACHED


def _accepts_plan(draft: Draft, candidates: PlanCandidates, scores: Float[np.ndarray, "n"]) -> bool:
    """Whether the model accepts all members that were asked for; others are not chosen then, however alike they are."""
    accepted = draft.problem.black_box.accepts(scores[: len(candidates.plan_raw)])
    return int(accepted.sum()) == candidates.count


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
