"""The validity certificate of a counterfactual under noise and retraining, the same for every method."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.providing import providing
from app.recourse.certificate_params import CertificateParams, check_noise, invalid
from app.recourse.counterfactual import (
    AssessedCounterfactual,
    Certificate,
    GelbrichCertificate,
    JointCertificate,
    NoiseCertificate,
    ShiftCertificate,
)
from app.recourse.models.in_step import joined
from app.recourse.models.linear import homogeneous
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.numerics.linalg import diversity, proximity
from app.recourse.problem import RecourseProblem
from app.recourse.result import PlanCertificate
from app.recourse.robustness.future_validity import future_certificates, plan_future
from app.recourse.robustness.invalidation import (
    invalidation_bound,
    invalidation_rate,
    invalidation_rate_linear,
    noise_columns,
)
from app.recourse.robustness.validity import PlanBounds, joint_lower_bound, linf_radius, plan_bounds
from app.recourse.shift import Shift

JOINT_DRAWS = 500
"""Draws behind the joint bound; its interval covers their sampling error."""

MISTAKEN_WARNING = (
    "The model refuses what the local surrogate of the certificate accepts (counterfactual {}); the certificate's "
    "statements about retraining do not hold there."
)


def certify(
    problem: RecourseProblem,
    meter: Meter,
    shift: Shift,
    factual_score: float,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
) -> tuple[tuple[Certificate, ...], list[str]]:
    """The certificate of each raw row, and warnings; a row that the model refuses has a certificate, too.

    Parameters
    ----------
    meter : scores noisy copies in one call if `noise_samples` is not 0; where time or budget do not allow this call, a
        warning says so
    factual_score : the black box's score of the factual
    scores : the black box's score of each raw row

    Raises
    ------
    InvalidRequest : noise is given for something that is not a numeric feature
    """
    black_box, space, params = problem.black_box, problem.action_set.space, shift.params
    if faults := check_noise(space, params):
        raise invalid(faults)
    X = space.encode(rows_raw)
    std = noise_columns(space, params.noise_std, problem.factual_raw)
    noise, warnings = _noise(problem, meter, X, std, factual_score, scores, params)
    points = homogeneous(X)
    lower, upper, exact = shift.bounds(rows_raw, points)
    radii = linf_radius(points, shift.centre)
    shares = _siblings_share(problem, rows_raw) if params.asks_siblings else None
    joint: list[JointCertificate] | list[None] = [None] * len(points)
    if black_box.gradient is not None:
        joint = _joint(shift, rows_raw, points, std, lower, problem.seed)
    certificates = [
        Certificate(
            noise=noise[i],
            shift=ShiftCertificate(
                gelbrich=GelbrichCertificate(
                    lower=float(lower[i]),
                    upper=float(upper[i]),
                    radius=params.ambiguity_radius,
                    moments=shift.kind,
                    exact=bool(exact[i]),
                ),
                linf_radius=float(radii[i]),
                estimated=shift.estimated,
                ensemble=None if shares is None else float(shares[i]),
            ),
            joint=joint[i],
        )
        for i in range(len(points))
    ]
    return tuple(certificates), warnings


def _joint(
    shift: Shift,
    rows_raw: Float[np.ndarray, "n p"],
    points: Float[np.ndarray, "n m"],
    std: Float[np.ndarray, "d"],
    lower: Float[np.ndarray, "n"],
    seed: int,
) -> list[JointCertificate]:
    """Bounds under noise and shift together; `lower` are those without noise."""
    moments, radius = shift.moments_at(rows_raw, points, std), shift.params.ambiguity_radius
    found = joint_lower_bound(points, std, moments, radius, JOINT_DRAWS, seed, bell=shift.measured)
    if shift.measured:
        # The bound without noise also counts the measured share, and noise adds nothing to it.
        value, low, high = (np.minimum(one, lower) for one in found)
    else:
        value, low, high = found
    ends = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return [JointCertificate(lower=own, interval=(least, most)) for own, least, most in ends]


def mistaken(scores: Float[np.ndarray, "n"], certificates: Sequence[Certificate | None]) -> list[str]:
    """At most one warning: which records the model refuses although their certificates say that it may accept them.

    It names each record by its place in the list, from 1. Certificates with moments `future` do not count, because
    future models may accept what today's model refuses.
    """
    wrong = [
        str(i + 1)
        for i, (accepted, one) in enumerate(zip(favourable(scores).tolist(), certificates, strict=True))
        if one and not accepted and one.shift.gelbrich.lower > 0.0 and one.shift.gelbrich.moments != "future"
    ]
    return [MISTAKEN_WARNING.format(", ".join(wrong))] if wrong else []


def certify_plan(
    problem: RecourseProblem, shift: Shift, rows_raw: Float[np.ndarray, "n p"], plan_s: float
) -> PlanCertificate:
    """The certificate of raw rows as members of one plan: joint bounds, proximity and diversity.

    Parameters
    ----------
    plan_s : seconds for the joint bounds; where they take longer, wider bounds are returned
    """
    points = homogeneous(problem.action_set.space.encode(rows_raw))
    moments, radius = shift.plan_moments(rows_raw), shift.params.ambiguity_radius
    bounds = plan_bounds(points, moments, radius, deadline=min(problem.deadline, time.monotonic() + plan_s))
    return plan_certificate(problem, shift, rows_raw, bounds)


def plan_certificate(
    problem: RecourseProblem, shift: Shift, rows_raw: Float[np.ndarray, "n p"], bounds: PlanBounds
) -> PlanCertificate:
    """The certificate of a plan from its joint bounds; adds proximity and diversity.

    With moments `future`, two limits hold. The bounds contain the interval of the share of future models that accept
    all members, and the lower bound is at most that of each member. A plan of one member has the bounds of this member.
    """
    X = problem.action_set.space.encode(rows_raw)
    future = plan_future(problem, rows_raw)
    if future is not None and shift.measured:
        lower, upper, exact = shift.bounds(rows_raw, homogeneous(X))
        alone = len(rows_raw) == 1
        (low, high), own = future.all_interval, float(lower.min())
        bounds = replace(
            bounds,
            lower=own if alone else min(bounds.lower, low, own),
            upper=float(upper[0]) if alone else max(bounds.upper, high),
            exact=bool(exact[0]) if alone else bounds.exact and bounds.lower <= min(low, own) and bounds.upper >= high,
        )
    return PlanCertificate(
        lower=bounds.lower,
        upper=bounds.upper,
        exact=bounds.exact,
        status=bounds.status.value,
        proximity=proximity(X, problem.x0),
        diversity=diversity(X),
        future=future,
    )


def judged(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    certificates: Sequence[Certificate | None],
) -> tuple[AssessedCounterfactual, ...]:
    """The raw rows as assessed counterfactuals: with scores, costs and certificates.

    Where a row has a value that is missing in the factual, the person counts as having provided it.
    """
    own = [providing(problem.action_set, row_raw[None]) for row_raw in rows_raw]
    return tuple(
        AssessedCounterfactual(
            row_raw=row_raw,
            score=None if math.isnan(score) else score,
            probability=problem.black_box.probability_of(score),
            cost=float(actions.cost(row_raw[None])[0]),
            changed=actions.changes(row_raw),
            takes_months=float(actions.clock.total(row_raw[None])[0]),
            certificate=one,
            future=future,
        )
        for row_raw, score, actions, one, future in zip(
            rows_raw, scores.tolist(), own, certificates, future_certificates(problem, rows_raw), strict=True
        )
    )


def _siblings_share(problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"] | None:
    """Share of the other versions that accept each row; None where there are none."""
    if not problem.siblings:
        return None
    return np.mean([favourable(sibling.score_raw(rows_raw)) for sibling in problem.siblings], axis=0)


def _noise(
    problem: RecourseProblem,
    meter: Meter,
    X: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "d"],
    factual_score: float,
    scores: Float[np.ndarray, "n"],
    params: CertificateParams,
) -> tuple[list[NoiseCertificate], list[str]]:
    black_box, x0 = problem.black_box, problem.x0
    closed, bounds, rates, intervals = None, None, None, None
    if black_box.gradient is not None:
        gradients = joined(black_box.gradient, X, dear=True)
        closed = joined(invalidation_rate_linear, scores, gradients, np.broadcast_to(std, gradients.shape))
        if black_box.linear:  # the proof follows the slope from the factual: for a curved model it bounds nothing
            factual_gradient = black_box.gradient(x0[None])[0]
            bounds = invalidation_bound(factual_score, factual_gradient, gradients, X - x0, std)
    warnings = []
    if params.noise_samples:
        try:
            rates, intervals = invalidation_rate(meter, X, std, params.noise_samples, problem.noise_seed)
        except (BudgetExceeded, DeadlineExceeded) as error:
            warnings.append(f"Noisy copies were not measured on the model. {error.detail}")
    certificates = [
        NoiseCertificate(
            std=params.noise_std,
            closed_form=None if closed is None else float(closed[i]),
            upper_bound=None if bounds is None else float(bounds[i]),
            exact=black_box.knows_weights,
            monte_carlo=None if rates is None else float(rates[i]),
            interval=None if intervals is None else (float(intervals[i, 0]), float(intervals[i, 1])),
        )
        for i in range(len(X))
    ]
    return certificates, warnings
