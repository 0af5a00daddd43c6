"""A verified result as the plain data that clients get; `app.api.schemas.recourse` describes its fields."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.actionability import ActionSet
from app.recourse.assess import Assessment
from app.recourse.changes import FeatureChange, changes
from app.recourse.correct import Correction
from app.recourse.frontier import Frontier, FrontierPoint
from app.recourse.result import (
    OUTCOMES,
    SENTENCES,
    Counterfactual,
    Judged,
    MemberOutcome,
    PlanCertificate,
    Reason,
    RecourseResult,
    Status,
    Verdict,
)
from app.registry.registered import RegisteredModel

Json = dict[str, Any]


def identity(model: RegisteredModel) -> Json:
    """How answers name a model."""
    return {"id": model.id, "version": model.version, "sha256": model.sha256}


def answer(action_set: ActionSet, result: RecourseResult) -> Json:
    """The answer to one question, apart from what the caller knows better: ids, names and times."""
    return {
        "status": result.status.value,
        "factual": decision(result.factual_score, result.factual_probability),
        "counterfactuals": [
            _counterfactual(action_set, rank, found) for rank, found in enumerate(result.counterfactuals, start=1)
        ],
        **_verdict(action_set, result.verdict),
        "plan": result.plan and _plan(result.plan),
        "surrogate": result.surrogate and asdict(result.surrogate),
        "diagnostics": asdict(result.diagnostics),
        "warnings": list(result.warnings),
    }


def out_of_time(elapsed_ms: float) -> Json:
    """The answer where the computation had to be stopped from outside, so that nothing is known."""
    return {
        "status": Status.NOT_FOUND.value,
        "factual": None,
        "counterfactuals": [],
        "reason": Reason.DEADLINE.value,
        "detail": SENTENCES[Reason.DEADLINE],
        "nearest": None,
        "relax": None,
        "plan": None,
        "surrogate": None,
        "diagnostics": {"model_calls": None, "model_rows": None, "elapsed_ms": elapsed_ms},
        "warnings": ["The computation did not end at its deadline by itself and was stopped."],
    }


def framed(frame: Json, found: Json) -> Json:
    """The whole answer: what the caller knows (ids, names, times) around what was found."""
    found = dict(found)
    head = {"id": frame["id"], "status": found.pop("status")}
    middle = {key: frame[key] for key in ("reference", "model", "method")}
    tail = {key: frame[key] for key in ("seed", "stored", "created_at", "expires_at")}
    return {**head, **middle, **found, **tail}


def encoded(answer: Json) -> bytes:
    """An answer as it is sent, byte for byte."""
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def judged(frame: Json, found: Json) -> Json:
    """The whole assessment: which model and seed, around what was found."""
    return {"model": frame["model"], **found, "seed": frame["seed"]}


def amended(frame: Json, found: Json) -> Json:
    """The whole correction: ids, model and times around what was found."""
    return {"id": frame["id"], "status": found["status"], **judged(frame, found), "created_at": frame["created_at"]}


def curve(action_set: ActionSet, found: Frontier) -> Json:
    """The cost-robustness curve of one applicant."""
    first = found.points[0].result
    return {
        "factual": decision(first.factual_score, first.factual_probability),
        "points": [_point(action_set, point) for point in found.points],
        "diagnostics": asdict(found.diagnostics),
        "warnings": list(dict.fromkeys(warning for point in found.points for warning in point.result.warnings)),
    }


def _point(action_set: ActionSet, point: FrontierPoint) -> Json:
    result = point.result
    best = _counterfactual(action_set, 1, result.counterfactuals[0]) if result.counterfactuals else None
    return {
        "value": point.value,
        "status": result.status.value,
        "cost": best and best["cost"]["total"],
        "dominated": point.dominated,
        "counterfactual": best,
        "reason": result.verdict and result.verdict.reason.value,
        "detail": result.verdict and result.verdict.sentence,
    }


def swept(frame: Json, found: Json) -> Json:
    """The whole curve: what was asked, around what was found."""
    head = {key: frame[key] for key in ("reference", "model", "method", "parameter")}
    return {**head, **found, "seed": frame["seed"]}


def decision(score: float | None, probability: float | None) -> Json:
    """What a model says about one record; a score of None is no decision, hence not favourable."""
    return {"probability": probability, "score": score, "favourable": score is not None and score >= 0.0}


def _counterfactual(action_set: ActionSet, rank: int, found: Counterfactual | Judged) -> Json:
    return {
        "rank": rank,
        "applicant": action_set.space.record(found.row_raw),
        "changes": _changes(action_set, found.row_raw),
        "cost": {"total": found.cost, "norm": "l1", "changed_features": len(found.changed)},
        "validity": _validity(found),
        "report": found.report and asdict(found.report),
    }


def _validity(found: Counterfactual | Judged) -> Json:
    certificate = found.certificate
    parts = {"noise": None, "shift": None, "joint": None} if certificate is None else asdict(certificate)
    return {"current": decision(found.score, found.probability), **parts}


def assessment(action_set: ActionSet, found: Assessment) -> Json:
    """The assessment of records that the caller brought."""
    return {
        "factual": decision(found.factual_score, found.factual_probability),
        "counterfactuals": [_counterfactual(action_set, rank, one) for rank, one in enumerate(found.judged, start=1)],
        "plan": found.plan and _plan(found.plan),
        "diagnostics": asdict(found.diagnostics),
        "warnings": list(found.warnings),
    }


def correction(action_set: ActionSet, found: Correction) -> Json:
    """A plan that the caller brought, corrected as far as that helps; how each member came off."""
    detail = None
    if found.reason is not None:
        # What the model of the decision does not allow within the limits of a correction, it may allow beyond them.
        outcome = BY_OUTCOME.get(found.reason)
        detail = SENTENCES[found.reason] if outcome is None else OUTCOMES[outcome]
    members = zip(found.members, found.outcomes, strict=True)
    return {
        "status": found.status.value,
        "reason": found.reason and found.reason.value,
        "detail": detail,
        "relax": found.relax and asdict(found.relax),
        "factual": decision(found.factual_score, found.factual_probability),
        "counterfactuals": [
            {
                **_counterfactual(action_set, rank, one),
                "correction": {
                    "changed": outcome is MemberOutcome.CORRECTED,
                    "outcome": outcome.value,
                    "detail": OUTCOMES[outcome],
                },
            }
            for rank, (one, outcome) in enumerate(members, start=1)
        ],
        "plan": found.plan and {"before": found.before and _plan(found.before), **_plan(found.plan)},
        "diagnostics": asdict(found.diagnostics),
        "warnings": list(found.warnings),
    }


BY_OUTCOME = {
    Reason.INFEASIBLE_CONSTRAINTS: MemberOutcome.INFEASIBLE,
    Reason.TARGET_NOT_REACHED: MemberOutcome.REFUSED,
}
"""Reasons that are what became of a member."""


def _plan(plan: PlanCertificate) -> Json:
    return {
        "validity": {"lower": plan.lower, "upper": plan.upper, "exact": plan.exact, "status": plan.status, "job": None},
        "proximity": plan.proximity,
        "diversity": plan.diversity,
    }


def _verdict(action_set: ActionSet, verdict: Verdict | None) -> Json:
    if verdict is None:
        return {"reason": None, "detail": None, "nearest": None, "relax": None}
    nearest = verdict.nearest
    return {
        "reason": verdict.reason.value,
        "detail": verdict.sentence,
        "nearest": nearest
        and {
            "applicant": action_set.space.record(nearest.row_raw),
            "changes": _changes(action_set, nearest.row_raw),
            **decision(nearest.score, nearest.probability),
            "report": nearest.report and asdict(nearest.report),
        },
        "relax": verdict.relax and asdict(verdict.relax),
    }


def _changes(action_set: ActionSet, row_raw: Float[np.ndarray, "p"]) -> list[Json]:
    return [_change(change) for change in changes(action_set.space.features, action_set.factual_raw, row_raw)]


def _change(change: FeatureChange) -> Json:
    return {
        "feature": change.feature,
        "from": change.before,
        "to": change.after,
        "delta": change.delta,
        "unit": change.unit,
        "text": change.text,
    }
