"""Validity under retraining, measured: the share of the held-back future models that accept a record."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.recourse.models.calibration import Calibration
from app.recourse.problem import RecourseProblem
from app.recourse.result import CorrectedFuture, Counterfactual, FutureCertificate, PlanFutureCertificate
from app.recourse.robustness.invalidation import clopper_pearson


def future_certificates(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]
) -> list[FutureCertificate] | list[None]:
    """What the held-back future models say about each raw row; None where there are no future models."""
    if problem.futures is None or not len(rows_raw):
        return [None] * len(rows_raw)
    held_back = problem.futures.held_back
    accepted = problem.held_back.about(rows_raw).sum(axis=1)
    return [
        FutureCertificate(
            probability=count / held_back.count,
            interval=clopper_pearson(count, held_back.count),
            models=held_back.count,
            source=problem.futures.source,
            asked=problem.future_validity,
            corrected=_corrected(problem.futures.calibration, count / held_back.count),
        )
        for count in accepted.tolist()
    ]


def _corrected(calibration: Calibration | None, probability: float) -> CorrectedFuture | None:
    if calibration is None or (corrected := calibration.corrected(probability)) >= probability:
        return None
    return CorrectedFuture(
        probability=corrected,
        by=probability - corrected,
        promises=calibration.promises,
        retrainings=calibration.retrainings,
    )


def certify_future(problem: RecourseProblem, found: Sequence[Counterfactual]) -> list[Counterfactual]:
    """The same counterfactuals with what the held-back future models say about each."""
    rows_raw = np.array([one.row_raw for one in found]).reshape(-1, problem.action_set.space.p)
    return [replace(one, future=f) for one, f in zip(found, future_certificates(problem, rows_raw), strict=True)]


def plan_future(problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]) -> PlanFutureCertificate | None:
    """What the held-back future models say about all raw rows together; None where there are no future models."""
    if problem.futures is None:
        return None
    held_back = problem.futures.held_back
    accepted = problem.held_back.about(rows_raw)
    together = int(accepted.all(axis=0).sum())
    return PlanFutureCertificate(
        all=together / held_back.count,
        all_interval=clopper_pearson(together, held_back.count),
        any=float(accepted.any(axis=0).mean()),
        models=held_back.count,
        source=problem.futures.source,
        asked=problem.future_validity,
    )


def as_wide_as_measured(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    lower: Float[np.ndarray, "n"],
    upper: Float[np.ndarray, "n"],
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Bounds from linear fits of the future models, widened to the interval of the share that accepts each row.

    The fits miss what is curved: on networks they alone exceed the true share for up to 1 in 8 people, on boosted trees
    for up to half; the smaller of the two lower ends does so for 1 in 20.
    """
    shares = future_certificates(problem, rows_raw)
    intervals = np.array([one.interval for one in shares if one is not None]).reshape(-1, 2)
    assert len(intervals) == len(rows_raw)
    return np.minimum(lower, intervals[:, 0]), np.maximum(upper, intervals[:, 1])
