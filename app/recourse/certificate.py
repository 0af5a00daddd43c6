"""The validity certificate: what every counterfactual of every method promises, and how that is known."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded, Fault, InvalidRequest
from app.recourse.blackbox import Meter, favourable
from app.recourse.features import FeatureSpace
from app.recourse.linalg import diversity, proximity
from app.recourse.linear import LinearModel, WeightMoments, homogeneous
from app.recourse.problem import RecourseProblem
from app.recourse.result import (
    Certificate,
    GelbrichCertificate,
    JointCertificate,
    Judged,
    NoiseCertificate,
    PlanCertificate,
    ShiftCertificate,
)
from app.recourse.robustness.gelbrich import PlanBounds, plan_bounds, validity_bounds
from app.recourse.robustness.noise import (
    invalidation_bound,
    invalidation_rate,
    invalidation_rate_linear,
    noise_columns,
    noise_faults,
)
from app.recourse.robustness.worst_case import joint_lower_bound, linf_radius
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.moments import FEWEST_SIBLINGS, MomentsKind, ensemble, isotropic, surrogate

JOINT_DRAWS = 500
"""Draws behind the joint bound; its interval says how well that is known."""

SURROGATE_NOISE_WARNING = (
    "How likely noise undoes this is told from a local linear model, as the model itself offers no slope; where it "
    "decides in steps, that can be far off. certificate.noise_samples measures it on the model."
)

MISTAKEN_WARNING = (
    "The model refuses what the local linear model behind the certificate accepts (counterfactual {}): what is said "
    "there about retraining does not hold."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateParams:
    """What the certificate is to say, and how precisely."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}

    ambiguity_radius: Annotated[float, Interval(ge=0, le=10)] = 0.01
    """How far mean and covariance of the retrained model's weights may be from their estimate (Gelbrich distance)."""
    moments: MomentsKind = "surrogate"
    """Where mean and covariance come from. `surrogate`: uncertainty of the local model of the decision; `registered`:
    the model retrained on random halves of its reference records; `ensemble`: the other active versions of the model;
    `isotropic`: one variance in every direction."""
    isotropic_variance: Annotated[float, Interval(gt=0, le=100)] = 0.05
    """Variance of each weight, for `isotropic`."""
    noise_std: Annotated[float, Interval(ge=0, le=10)] | Mapping[str, Annotated[float, Interval(ge=0, le=10)]] = 0.1
    """Standard deviation of inexact implementation, encoded units: one number for all numeric features that are not
    implemented exactly, or numbers by feature."""
    ensemble: bool = False
    """Whether to ask the other active versions of the model too, one call each."""
    noise_samples: Annotated[int, Interval(ge=0, le=100_000)] = 0
    """Noisy copies that the model itself is asked about, in one further call; 0 for the closed form alone."""


def check_noise(space: FeatureSpace, params: CertificateParams) -> list[Fault]:
    """Faults of noise given by feature, with pointers into the request."""
    return noise_faults(space, params.noise_std, pointer="/certificate/noise_std")


def check_moments(params: CertificateParams, *, registered: bool) -> list[Fault]:
    """Faults of the chosen moments, for a model that was `registered` with moments of its own or not."""
    if params.moments != "registered" or registered:
        return []
    detail = (
        "is registered, but the model was registered without true outcomes: register a version whose manifest has a "
        "label, which takes a linear model, or ask for surrogate"
    )
    return [Fault("/certificate/moments", detail)]


def certify(
    problem: RecourseProblem,
    meter: Meter,
    local: tuple[LinearModel, WeightMoments],
    factual_score: float,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    params: CertificateParams,
) -> tuple[tuple[Certificate, ...], list[str]]:
    """The certificate of each raw row, valid or not, and what to warn of.

    Parameters
    ----------
    meter : asked once, about noisy copies, if `noise_samples` is not 0; what it refuses is missing, with a warning
    local : from `local_model`
    factual_score, scores : of the black box

    Raises
    ------
    InvalidRequest : noise is given for something that is not a numeric feature
    """
    space = problem.action_set.space
    if faults := check_noise(space, params):
        raise InvalidRequest(faults=faults)
    model, moments = local
    X = space.encode(rows_raw)
    std = noise_columns(space, params.noise_std)
    noise, warnings = _noise(problem, meter, model, X, std, factual_score, scores, params)
    points = homogeneous(X)
    lower, upper = validity_bounds(points, moments, params.ambiguity_radius)
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
        value, interval = joint_lower_bound(point, std, moments, params.ambiguity_radius, JOINT_DRAWS, problem.seed)
        certificates.append(
            Certificate(
                noise=noise[i],
                shift=ShiftCertificate(
                    gelbrich=gelbrich,
                    linf_radius=float(radii[i]),
                    ensemble=None if shares is None else float(shares[i]),
                ),
                joint=JointCertificate(lower=value, interval=interval),
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
    plan_s : time for the joint bounds; a bracket takes their place where they need longer
    """
    points = homogeneous(problem.action_set.space.encode(rows_raw))
    left_s = math.inf if problem.deadline is None else problem.deadline - time.monotonic()
    bounds = plan_bounds(points, moments, params.ambiguity_radius, time_limit_s=min(left_s, plan_s))
    return plan_certificate(problem, rows_raw, bounds)


def plan_certificate(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"], bounds: PlanBounds
) -> PlanCertificate:
    """Proximity and diversity of raw rows, beside bounds that are known."""
    X = problem.action_set.space.encode(rows_raw)
    return PlanCertificate(
        lower=bounds.lower,
        upper=bounds.upper,
        exact=bounds.exact,
        status=bounds.status.value,
        proximity=proximity(X, problem.x0),
        diversity=diversity(X),
    )


def judged(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    certificates: Sequence[Certificate | None],
) -> tuple[Judged, ...]:
    """Raw rows that somebody brought, with what the black box said and what their certificates say."""
    costs = problem.action_set.cost(rows_raw)
    return tuple(
        Judged(
            row_raw=row_raw,
            score=None if math.isnan(score) else score,
            probability=problem.black_box.probability_of(score),
            cost=float(cost),
            changed=tuple(np.flatnonzero(row_raw != problem.factual_raw).tolist()),
            certificate=one,
        )
        for row_raw, score, cost, one in zip(rows_raw, scores.tolist(), costs, certificates, strict=True)
    )


def local_model(
    problem: RecourseProblem, sample: BoundarySample, params: CertificateParams
) -> tuple[LinearModel, WeightMoments]:
    """The nominal surrogate, which does not lean to either side, and how uncertain it or the model is.

    Raises
    ------
    InvalidRequest : these moments need something that the model does not have
    DegenerateSurrogate : a version of the model decides alike about nearly all samples
    """
    model, moments = surrogate(sample)
    if params.moments == "isotropic":
        moments = isotropic(model, params.isotropic_variance)
    elif params.moments == "registered":
        registered = problem.reference.weight_moments
        if registered is None:
            raise InvalidRequest(faults=check_moments(params, registered=False))
        moments = registered
    elif params.moments == "ensemble":
        if len(problem.siblings) < FEWEST_SIBLINGS:
            needed = f"needs at least {FEWEST_SIBLINGS} other active versions of this model with the same columns"
            raise InvalidRequest(faults=[Fault("/certificate/moments", f"{needed}; there are {len(problem.siblings)}")])
        moments = ensemble(sample, problem.black_box.space, problem.siblings)
    return model, moments


def _siblings_share(problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"] | None:
    """Share of the other versions that accept each row; None where there are none."""
    if not problem.siblings:
        return None
    return np.mean([favourable(sibling.score_raw(rows_raw)) for sibling in problem.siblings], axis=0)


def _noise(
    problem: RecourseProblem,
    meter: Meter,
    model: LinearModel,
    X: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "d"],
    factual_score: float,
    scores: Float[np.ndarray, "n"],
    params: CertificateParams,
) -> tuple[list[NoiseCertificate], list[str]]:
    black_box, x0 = problem.black_box, problem.x0
    if black_box.gradient is not None:
        gradients, factual_gradient = black_box.gradient(X), black_box.gradient(x0[None])[0]
        start, of = factual_score, "model"
    else:
        scores, start, of = model.score(X), float(model.score(x0[None])[0]), "surrogate"
        gradients, factual_gradient = np.broadcast_to(model.w, X.shape), model.w
    exact = black_box.linear and of == "model"
    closed = invalidation_rate_linear(scores, gradients, std)
    # Its proof follows the slope all the way from the factual: of a curved model it bounds nothing.
    bounds = invalidation_bound(start, factual_gradient, gradients, X - x0, std) if exact else None
    rates, intervals = None, None
    warnings = []
    if params.noise_samples:
        try:
            rates, intervals = invalidation_rate(meter, X, std, params.noise_samples, problem.seed)
        except (BudgetExceeded, DeadlineExceeded) as error:
            warnings.append(f"The model was not asked about noisy copies. {error.detail}")
    elif of == "surrogate":
        warnings.append(SURROGATE_NOISE_WARNING)
    certificates = [
        NoiseCertificate(
            std=params.noise_std,
            closed_form=float(closed[i]),
            upper_bound=None if bounds is None else float(bounds[i]),
            exact=exact,
            of=of,
            monte_carlo=None if rates is None else float(rates[i]),
            interval=None if intervals is None else (float(intervals[i, 0]), float(intervals[i, 1])),
        )
        for i in range(len(X))
    ]
    return certificates, warnings
