"""The linear model that approximates the black box around one applicant."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from app.errors import DegenerateSurrogate
from app.recourse.models.black_box import BlackBox, Wrapped, input_of_points
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.score import LOGIT_LIMIT, Output, favourable
from app.recourse.problem import RecourseProblem
from app.recourse.reports import SurrogateReport
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.linear_fits import SurrogateKind, direction
from app.recourse.surrogate.weight_moments import nominal


@dataclass(frozen=True, slots=True)
class LogitModel:
    """A linear model whose scores are logits, as the scores of the black box are."""

    model: LinearModel
    report: SurrogateReport
    extra_margin_unit: float
    """Logits that half a standard deviation of the samples makes."""


def local_linear(problem: RecourseProblem, sample: BoundarySample) -> LinearModel:
    """The black box itself if it is linear, else the nominal minimax machine of the sample; the weights have norm 1.

    Raises
    ------
    DegenerateSurrogate : the model decides the same everywhere, or nearly all samples have the same decision
    """
    return own_linear(problem).unit() if problem.black_box.linear else nominal(sample)


def acting_linear(problem: RecourseProblem, local: LinearModel) -> LinearModel:
    """The black box itself if it is linear, else `local`; the weights have norm 1."""
    return own_linear(problem).unit() if problem.black_box.linear else local


def own_linear(problem: RecourseProblem) -> LinearModel:
    """Weights and intercept of a linear black box, on the scale of its score."""
    return read_off(problem.black_box, problem.reference.X, problem.reference.scores)


def logit_model(problem: RecourseProblem, sample: BoundarySample, meter: Meter, kind: SurrogateKind) -> LogitModel:
    """The black box itself if it is linear, else a surrogate of kind `kind`, scaled to the black box's logits.

    Raises
    ------
    DegenerateSurrogate : the samples determine no direction, or the surrogate opposes the model's score
    """
    if problem.black_box.linear:
        name, accuracy, model = "model", None, own_linear(problem)
    else:
        name = kind
        model, accuracy = direction(problem, sample, meter, kind)
        model = _scaled(model, sample, problem.black_box.output)
    agree = np.count_nonzero(favourable(model.score(sample.X)) == sample.favourable)
    return LogitModel(
        model,
        SurrogateReport(kind=name, worst_case_accuracy=accuracy, fidelity=agree / len(sample.X), samples=len(sample.X)),
        0.5 * sample.deviation * float(np.linalg.norm(model.w)),
    )


def other_logit_model(
    problem: RecourseProblem, sample: BoundarySample, other: BlackBox, deadline: float, kind: SurrogateKind
) -> LinearModel:
    """The model `other` as a linear model on its own logit scale, in the encoded space of `problem`.

    The model `other` has the same columns as the problem's model. If `other` is linear, its weights are read off
    exactly; else a surrogate of kind `kind` is fitted to the points of `sample`.

    Raises
    ------
    DegenerateSurrogate : the samples determine no direction, or the surrogate opposes the model's score
    DeadlineExceeded : at `deadline`, a `time.monotonic()`
    """
    black_box = in_space(other, problem)
    meter = Meter(black_box, deadline)
    scores = meter.score(sample.X)
    known = np.isfinite(scores)
    X, scores = sample.X[known], scores[known]
    if black_box.linear:
        return read_off(black_box, X, scores)
    seen = replace(sample, X=X, scores=scores, favourable=favourable(scores))
    return logit_model(replace(problem, black_box=black_box), seen, meter, kind).model


def in_space(other: BlackBox, problem: RecourseProblem) -> BlackBox:
    """The model `other` with inputs in the encoded space of `problem`; both models have the same columns."""
    space = problem.black_box.space
    if not other.fractional:  # it takes raw rows, which are the same in both
        return replace(other, space=space)
    ratio = np.ones(space.d)
    ratio[space.numeric_columns] = space.scale_raw / other.space.scale_raw
    gradient, remote = other.gradient, other.remote

    def recoded(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return other.space.recode(X, space)

    def model_input(X: Float[np.ndarray, "n d"]) -> np.ndarray:
        return input_of_points(other, recoded(X))

    return replace(
        other,
        space=space,
        columns=None,
        predict=lambda X: other.predict(model_input(X)),
        remote=None if remote is None else _Recoded(remote, model_input),
        gradient=None if gradient is None else lambda X: gradient(recoded(X)) * ratio,
        boxes=None,
    )


@dataclass(frozen=True)
class _Recoded(Wrapped):
    """A remote model that is given points of another space."""

    model_input: Callable[[np.ndarray], np.ndarray]

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        return self.remote.predict_by(self.model_input(rows), deadline)


def read_off(black_box: BlackBox, X: Float[np.ndarray, "n d"], scores: Float[np.ndarray, "n"]) -> LinearModel:
    """Weights and intercept of a linear black box, read at the point with the score nearest to 0.

    Scores far from 0 are clipped, so they would give a wrong intercept.
    """
    assert black_box.linear
    assert black_box.gradient is not None
    near = int(np.abs(scores).argmin())
    w = black_box.gradient(X[near : near + 1])[0]
    return LinearModel(w, float(scores[near] - X[near] @ w))


def _scaled(model: LinearModel, sample: BoundarySample, output: Output) -> LinearModel:
    """The model times the factor with which it fits the scores of the samples best.

    Least squares; a logistic fit for a black box that gives labels only.
    """
    f = model.score(sample.X)
    if output is Output.LABEL:
        signed = np.where(sample.favourable, f, -f)
        most = LOGIT_LIMIT / max(float(np.abs(f).max()), 1e-12)
        factor = float(
            minimize_scalar(lambda k: np.logaddexp(0.0, -k * signed).sum(), bounds=(0.0, most), method="bounded").x
        )
    else:
        factor = float(f @ sample.scores) / max(float(f @ f), 1e-300)
    if not factor > 1e-9:
        raise DegenerateSurrogate("The local surrogate does not increase with the model's own score.")
    return LinearModel(factor * model.w, factor * model.c)
