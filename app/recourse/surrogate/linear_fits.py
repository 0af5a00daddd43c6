"""Ways to fit a linear model to a black box; maps the name of a kind to a model.

`mpm`   the nominal minimax machine of the boundary sample (paper 1)
`ridge` least squares with a penalty on the model's probabilities of the boundary sample (LIMELS)
`svm`   the widest margin on the decisions of the boundary sample
`lime`  least squares on the probabilities of points like the reference records, weighted by nearness to the factual
`clime` the same with points around the factual

References
----------
Ribeiro, Singh, Guestrin, "Why should I trust you?", KDD 2016 (LIME; sampling, kernel and penalty as in its code).
Agarwal et al., "Towards the Unification and Robustness of Perturbation and Gradient Based Explanations", ICML 2021.
Laugel et al., "Defining Locality for Surrogates in Post-hoc Interpretability", 2018 (LIMELS).
Chapelle, "Training a support vector machine in the primal", Neural Computation 2007.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DegenerateSurrogate
from app.recourse.models.black_box import BlackBox
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.score import sigmoid
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, ask
from app.recourse.surrogate.mpm import fit_sample

SurrogateKind: TypeAlias = Literal["mpm", "lime", "clime", "ridge", "svm"]

PENALTY = 1.0
"""Penalty of ridge regressions on the squared length of the weights; in `svm`, price of a margin violation."""
LIME_WIDTH = 0.75
"""Width of LIME's kernel for one column, in standard deviations of the records; times the root of their number."""
NEWTON_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SurrogateParams(SamplerParams):
    """Choice of the linear model that approximates the black box."""

    surrogate: SurrogateKind = "mpm"
    """Local model, unless the black box is linear: minimax machine (`mpm`), least squares (`ridge`), widest margin
    (`svm`); or weighted least squares on points like the reference (`lime`) or around the applicant (`clime`)."""


def direction(
    problem: RecourseProblem, sample: BoundarySample, meter: Meter, kind: SurrogateKind
) -> tuple[LinearModel, float | None]:
    """A linear model whose decisions are those of the surrogate, and the surrogate's worst-case accuracy.

    The scale of the model's scores has no meaning. The accuracy is None for every kind but `mpm`. Columns that the
    person cannot change have weight 0, except with `lime` and `clime`.

    Raises
    ------
    DegenerateSurrogate : the points determine no direction
    """
    if kind == "mpm":
        machine = fit_sample(sample, "none", radius_favourable=0.0, radius_unfavourable=0.0)
        return machine.model, machine.worst_case_accuracy
    if kind in ("lime", "clime"):
        X, scores, weights = _lime_points(problem, meter, len(sample.X), around=kind == "clime")
        model = ridge(X, *_probabilities(meter.black_box, scores), weights)
    else:
        X = sample.X_free
        if kind == "ridge":
            fitted = ridge(X, *_probabilities(meter.black_box, sample.scores), np.ones(len(X)))
        else:
            fitted = svm(X, sample.favourable)
        model = sample.in_all_columns(fitted)
    if not np.linalg.norm(model.w[sample.free]) > 1e-12:
        raise DegenerateSurrogate("The model's outputs around this record do not show which changes help.")
    return model, None


def _probabilities(black_box: BlackBox, scores: Float[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], float]:
    """Outputs between 0 and 1, and the one at which the decision flips; a label is 0 or 1."""
    probabilities = black_box.probability(scores)
    if probabilities is None:
        return (scores > 0.0).astype(float), 0.5
    return probabilities, float(sigmoid(np.array(black_box.offset)))


def _lime_points(
    problem: RecourseProblem, meter: Meter, n: int, *, around: bool
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The factual and points drawn as LIME does, their scores, and their weights; one model call."""
    reference, space, rng = problem.reference, problem.reference.space, np.random.default_rng(problem.seed)
    spread = np.maximum(reference.X.std(axis=0), 1e-9)
    centre = problem.x0 if around else reference.X.mean(axis=0)
    X = centre + spread * rng.standard_normal((n, space.d))
    X[0] = problem.x0
    for j in space.groups:  # categories as often as in the reference records
        X[1:, space.spans[j]] = reference.X[rng.integers(len(reference.X), size=n - 1), space.spans[j]]
    X, scores = ask(meter, X)
    known = np.isfinite(scores)
    X, scores = X[known], scores[known]
    squares = (((X - problem.x0) / spread) ** 2).sum(axis=1)
    weights = np.exp(-0.5 * squares / (LIME_WIDTH**2 * space.d))
    return X, scores, weights


def ridge(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n"], threshold: float, weights: Float[np.ndarray, "n"]
) -> LinearModel:
    """Weighted least squares with a penalty on the coefficients, not on the intercept.

    The score of the model is the fit minus `threshold`.

    Parameters
    ----------
    y : values to fit, one per point
    weights : weight of each point
    """
    total = float(weights.sum())
    if not total > 0.0:
        raise DegenerateSurrogate("No point is near enough to this record to determine a direction of change.")
    mean_x, mean_y = weights @ X / total, float(weights @ y) / total
    centred = X - mean_x
    gram = (centred * weights[:, None]).T @ centred
    gram[np.diag_indices_from(gram)] += PENALTY
    w = np.linalg.solve(gram, centred.T @ (weights * (y - mean_y)))
    return LinearModel(w, float(mean_y - mean_x @ w - threshold))


def svm(X: Float[np.ndarray, "n d"], accepted: Bool[np.ndarray, "n"]) -> LinearModel:
    """The linear support vector machine with squared hinge loss: widest margin, by finitely many Newton steps.

    It minimises ``|w|^2/2 + PENALTY sum max(0, 1 - y (w.x + c))^2``, with ``y = 1`` for accepted points and -1 for
    others.
    """
    y = np.where(accepted, 1.0, -1.0)
    Z = np.column_stack([X, np.ones(len(X))])
    penalty = np.append(np.ones(X.shape[1]), 0.0)

    def value(theta: Float[np.ndarray, "m"]) -> float:
        short = np.maximum(1.0 - y * (Z @ theta), 0.0)
        return float(0.5 * (penalty * theta) @ theta + PENALTY * (short @ short))

    theta, reached = np.zeros(Z.shape[1]), math.inf
    for _ in range(NEWTON_STEPS):
        inside = y * (Z @ theta) < 1.0
        active = Z[inside]
        system = np.diag(penalty + 1e-10) + 2.0 * PENALTY * active.T @ active
        step = np.linalg.solve(system, 2.0 * PENALTY * active.T @ y[inside]) - theta
        length = 1.0
        while value(theta + length * step) > reached and length > 1e-6:
            length *= 0.5
        theta = theta + length * step
        if value(theta) >= reached * (1.0 - 1e-12):
            break
        reached = value(theta)
    return LinearModel(theta[:-1], float(theta[-1]))
