"""The validity certificate: what every counterfactual of every method promises, and how that is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.errors import Fault, InvalidRequest
from app.recourse.blackbox import Meter, favourable
from app.recourse.features import FeatureSpace, escape
from app.recourse.linear import LinearModel, WeightMoments, homogeneous
from app.recourse.problem import RecourseProblem
from app.recourse.result import (
    Certificate,
    GelbrichCertificate,
    JointCertificate,
    NoiseCertificate,
    ShiftCertificate,
)
from app.recourse.robustness.gelbrich import validity_bounds
from app.recourse.robustness.noise import (
    invalidation_bound,
    invalidation_rate,
    invalidation_rate_linear,
    noise_columns,
)
from app.recourse.robustness.worst_case import joint_lower_bound, linf_radius
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.moments import FEWEST_SIBLINGS, MomentsKind, ensemble, isotropic, surrogate

JOINT_DRAWS = 500
"""Draws behind the joint bound; its interval says how well that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateParams:
    """What the certificate is to say, and how precisely."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}

    ambiguity_radius: Annotated[float, Interval(ge=0, le=10)] = 0.01
    """How far mean and covariance of the retrained model's weights may be from their estimate (Gelbrich distance)."""
    moments: MomentsKind = "surrogate"
    """Where mean and covariance come from. `surrogate`: uncertainty of the local model of the decision; `ensemble`: the
    other active versions of the model; `isotropic`: one variance in every direction."""
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
    if not isinstance(params.noise_std, Mapping):
        return []
    numeric = [space.names[j] for j in space.numeric.tolist()]
    return [
        Fault(f"/certificate/noise_std/{escape(name)}", f"is not a numeric feature of this model: {', '.join(numeric)}")
        for name in params.noise_std
        if name not in numeric
    ]


def certify(
    problem: RecourseProblem,
    meter: Meter,
    local: tuple[LinearModel, WeightMoments],
    factual_score: float,
    rows_raw: Float[np.ndarray, "n p"],
    scores: Float[np.ndarray, "n"],
    params: CertificateParams,
) -> tuple[Certificate, ...]:
    """The certificate of each raw row, valid or not.

    Parameters
    ----------
    meter : asked once, about noisy copies, if `noise_samples` is not 0
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
    noise = _noise(problem, meter, model, X, std, factual_score, scores, params)
    points = homogeneous(X)
    lower, upper = validity_bounds(points, moments, params.ambiguity_radius)
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
    return tuple(certificates)


def local_model(
    problem: RecourseProblem, sample: BoundarySample, params: CertificateParams
) -> tuple[LinearModel, WeightMoments]:
    """The nominal surrogate, which does not lean to either side, and how uncertain it is.

    Raises
    ------
    InvalidRequest : these moments need something that the model does not have
    DegenerateSurrogate : a version of the model decides alike about nearly all samples
    """
    model, moments = surrogate(sample)
    if params.moments == "isotropic":
        moments = isotropic(model, params.isotropic_variance)
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
) -> list[NoiseCertificate]:
    black_box, x0 = problem.black_box, problem.x0
    if black_box.gradient is not None:
        gradients, factual_gradient = black_box.gradient(X), black_box.gradient(x0[None])[0]
        start, of = factual_score, "model"
    else:
        scores, start, of = model.score(X), float(model.score(x0[None])[0]), "surrogate"
        gradients, factual_gradient = np.broadcast_to(model.w, X.shape), model.w
    closed = invalidation_rate_linear(scores, gradients, std)
    bounds = invalidation_bound(start, factual_gradient, gradients, X - x0, std)
    rates, intervals = None, None
    if params.noise_samples:
        rates, intervals = invalidation_rate(meter, X, std, params.noise_samples, problem.seed)
    return [
        NoiseCertificate(
            std=params.noise_std,
            closed_form=float(closed[i]),
            upper_bound=float(bounds[i]),
            exact=black_box.linear,
            of=of,
            monte_carlo=None if rates is None else float(rates[i]),
            interval=None if intervals is None else (float(intervals[i, 0]), float(intervals[i, 1])),
        )
        for i in range(len(X))
    ]
