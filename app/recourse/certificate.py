"""The validity certificate of a counterfactual under noise and retraining, the same for every method."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded, Fault, InvalidRequest
from app.recourse.counterfactual import (
    AssessedCounterfactual,
    Certificate,
    GelbrichCertificate,
    JointCertificate,
    NoiseCertificate,
    ShiftCertificate,
)
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.models.linear import LinearModel, WeightMoments, homogeneous
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.numerics.diversity_and_proximity import diversity, proximity
from app.recourse.problem import RecourseProblem
from app.recourse.result import PlanCertificate
from app.recourse.robustness.future_validity import future_bounds, future_certificates, plan_future
from app.recourse.robustness.invalidation import (
    invalidation_bound,
    invalidation_rate,
    invalidation_rate_linear,
    noise_columns,
    noise_faults,
)
from app.recourse.robustness.validity import PlanBounds, joint_lower_bound, linf_radius, plan_bounds, validity_bounds
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.local import read_off
from app.recourse.surrogate.weight_moments import (
    FEWEST_SIBLINGS,
    MomentsKind,
    about,
    ensemble,
    future,
    isotropic,
    surrogate,
)

JOINT_DRAWS = 500
"""Draws behind the joint bound; its interval covers their sampling error."""

EXACT_MEANS = ("surrogate", "isotropic")
"""Kinds of moments whose mean is the black box's own weights where it is linear."""

MISTAKEN_WARNING = (
    "The model refuses what the local surrogate of the certificate accepts (counterfactual {}); the certificate's "
    "statements about retraining do not hold there."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateParams:
    """Contents and precision of the certificate."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}

    ambiguity_radius: Annotated[float, Interval(ge=0, le=10)] = 0.01
    """How far mean and covariance of the retrained model's weights may be from their estimate (Gelbrich distance)."""
    moments: MomentsKind = "auto"
    """Where mean and covariance come from. `future`: the model's future models; `surrogate`: uncertainty of the local
    model of the decision, which says nothing about retraining; `registered`: the model retrained on random halves of
    its reference records; `ensemble`: its other active versions; `isotropic`: one variance in every direction;
    `auto`: `future` where the model has future models, else `surrogate`."""
    isotropic_variance: Annotated[float, Interval(gt=0, le=100)] = 0.05
    """Variance of each weight, for `isotropic`."""
    noise_std: Annotated[float, Interval(ge=0, le=10)] | Mapping[str, Annotated[float, Interval(ge=0, le=10)]] = 0.1
    """Standard deviation of inexact implementation, encoded units: one number for all numeric features that are not
    implemented exactly, or numbers by feature."""
    ensemble: bool = False
    """Whether to ask the other active versions of the model too, one call each."""
    noise_samples: Annotated[int, Interval(ge=0, le=100_000)] = 0
    """Noisy copies of each counterfactual that the model itself scores, in one further call; 0 for none."""


def check_noise(space: FeatureSpace, params: CertificateParams) -> list[Fault]:
    """Faults of noise given by feature; pointers into `params`."""
    return [fault.under("/noise_std") for fault in noise_faults(space, params.noise_std)]


def check_moments(params: CertificateParams, *, registered: bool, futures: bool) -> list[Fault]:
    """Faults of the chosen moments; pointers into `params`.

    Parameters
    ----------
    registered : whether the model was registered with moments of its own
    futures : whether it has future models
    """
    if params.moments == "future" and not futures:
        return [Fault("/moments", "is future, but the model has no future models: rehearse its retraining first")]
    if params.moments != "registered" or registered:
        return []
    detail = (
        "is registered, but the model was registered without true outcomes: register a linear model whose manifest "
        "names a label, or use surrogate"
    )
    return [Fault("/moments", detail)]


def _invalid(faults: Sequence[Fault]) -> InvalidRequest:
    """The error of `solve`, `assess` and `correct`: pointers start with the name of their argument."""
    return InvalidRequest(faults=[fault.under("/certificate") for fault in faults])


def certify(
    problem: RecourseProblem,
    meter: Meter,
    local: tuple[LinearModel, WeightMoments],
    factual_score: float,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    params: CertificateParams,
) -> tuple[tuple[Certificate, ...], list[str]]:
    """The certificate of each raw row, valid or not, and warnings.

    Parameters
    ----------
    meter : scores noisy copies in one call if `noise_samples` is not 0; where time or budget forbid, a warning says so
    local : from `local_model`
    factual_score, scores : of the black box

    Raises
    ------
    InvalidRequest : noise is given for something that is not a numeric feature
    """
    black_box, space = problem.black_box, problem.action_set.space
    if faults := check_noise(space, params):
        raise _invalid(faults)
    _, moments = local
    X = space.encode(rows_raw)
    std = noise_columns(space, params.noise_std, problem.factual_raw)
    noise, warnings = _noise(problem, meter, X, std, factual_score, scores, params)
    points = homogeneous(X)
    lower, upper = (
        future_bounds(problem, rows_raw, points, moments, params.ambiguity_radius)
        if moments.kind == "future"
        else validity_bounds(points, moments, params.ambiguity_radius)
    )
    if (mistaken := ~favourable(scores) & (lower > 0.0)).any():
        warnings.append(MISTAKEN_WARNING.format(", ".join(str(i + 1) for i in np.flatnonzero(mistaken).tolist())))
    radii = linf_radius(points, moments)
    shares = _siblings_share(problem, rows_raw) if params.ensemble or params.moments == "ensemble" else None
    certificates = []
    for i, point in enumerate(points):
        gelbrich = GelbrichCertificate(
            lower=float(lower[i]),
            upper=float(upper[i]),
            radius=params.ambiguity_radius,
            moments=moments.kind,
            exact=True,
        )
        joint: JointCertificate | None = None
        if black_box.gradient is not None:
            value, interval = joint_lower_bound(point, std, moments, params.ambiguity_radius, JOINT_DRAWS, problem.seed)
            joint = JointCertificate(lower=value, interval=interval)
        certificates.append(
            Certificate(
                noise=noise[i],
                shift=ShiftCertificate(
                    gelbrich=gelbrich,
                    linf_radius=float(radii[i]),
                    estimated=not (_knows_weights(black_box) and moments.kind in EXACT_MEANS),
                    ensemble=None if shares is None else float(shares[i]),
                ),
                joint=joint,
            )
        )
    return tuple(certificates), warnings


def certify_plan(
    problem: RecourseProblem,
    moments: WeightMoments,
    rows_raw: Float[np.ndarray, "n p"],
    params: CertificateParams,
    plan_s: float,
) -> PlanCertificate:
    """Joint bounds, proximity and diversity of raw rows.

    Parameters
    ----------
    plan_s : seconds for the joint bounds; where they take longer, a bracket is returned
    """
    points = homogeneous(problem.action_set.space.encode(rows_raw))
    left_s = math.inf if problem.deadline is None else problem.deadline - time.monotonic()
    bounds = plan_bounds(points, moments, params.ambiguity_radius, time_limit_s=min(left_s, plan_s))
    return plan_certificate(problem, rows_raw, bounds)


def plan_certificate(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"], bounds: PlanBounds
) -> PlanCertificate:
    """The certificate of a plan with known bounds; adds proximity and diversity."""
    X = problem.action_set.space.encode(rows_raw)
    return PlanCertificate(
        lower=bounds.lower,
        upper=bounds.upper,
        exact=bounds.exact,
        status=bounds.status.value,
        proximity=proximity(X, problem.x0),
        diversity=diversity(X),
        future=plan_future(problem, rows_raw),
    )


def judged(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    certificates: Sequence[Certificate | None],
) -> tuple[AssessedCounterfactual, ...]:
    """Given raw rows with their scores, costs and certificates."""
    costs, takes = problem.action_set.cost(rows_raw), problem.action_set.clock.total(rows_raw)
    return tuple(
        AssessedCounterfactual(
            row_raw=row_raw,
            score=None if math.isnan(score) else score,
            probability=problem.black_box.probability_of(score),
            cost=float(cost),
            changed=problem.action_set.changes(row_raw),
            takes_months=float(months),
            certificate=one,
            future=future,
        )
        for row_raw, score, cost, months, one, future in zip(
            rows_raw, scores.tolist(), costs, takes, certificates, future_certificates(problem, rows_raw), strict=True
        )
    )


def local_model(
    problem: RecourseProblem, sample: BoundarySample, params: CertificateParams, *, searching: bool = False
) -> tuple[LinearModel, WeightMoments]:
    """The local linear model of the decision, and the moments of the models after retraining.

    A linear black box is its own local model, with all of its weights; otherwise it is the nominal surrogate (radius 0
    for both classes).

    Parameters
    ----------
    searching : whether a search uses the moments; if so, `future` takes the search set, else the held-back set

    Raises
    ------
    InvalidRequest : the model lacks what these moments need
    DegenerateSurrogate : a version of the model gives nearly all samples the same decision
    """
    black_box, futures = problem.black_box, problem.futures
    kind = params.moments if params.moments != "auto" else "surrogate" if futures is None else "future"
    model, moments = surrogate(sample)
    if _knows_weights(black_box):
        model = read_off(black_box, sample.X, sample.scores)
        moments = about(model, moments, sample)
    if kind == "future":
        if futures is None:
            raise _invalid(check_moments(params, registered=False, futures=False))
        models = futures.search if searching else futures.held_back
        moments = future(sample, models, problem.reference.X if black_box.linear else None)
    elif kind == "isotropic":
        moments = isotropic(model, params.isotropic_variance)
    elif kind == "registered":
        registered = problem.reference.weight_moments
        if registered is None:
            raise _invalid(check_moments(params, registered=False, futures=False))
        moments = registered
    elif kind == "ensemble":
        if len(problem.siblings) < FEWEST_SIBLINGS:
            needed = f"needs at least {FEWEST_SIBLINGS} other active versions of this model with the same columns"
            raise _invalid([Fault("/moments", f"{needed}; there are {len(problem.siblings)}")])
        moments = ensemble(sample, problem.black_box.space, problem.siblings)
    return model, moments


def _knows_weights(black_box: BlackBox) -> bool:
    """Whether the weights of the black box itself are known."""
    return black_box.linear and black_box.gradient is not None


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
        gradients = black_box.gradient(X)
        closed = invalidation_rate_linear(scores, gradients, std)
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
            exact=_knows_weights(black_box),
            monte_carlo=None if rates is None else float(rates[i]),
            interval=None if intervals is None else (float(intervals[i, 0]), float(intervals[i, 1])),
        )
        for i in range(len(X))
    ]
    return certificates, warnings
