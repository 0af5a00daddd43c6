"""How retraining may shift the model around one applicant: what the certificate says of shift rests on it."""

from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from app.errors import Fault
from app.recourse.certificate_params import CertificateParams, check_moments, invalid
from app.recourse.models.committee import FutureModels
from app.recourse.models.linear import LinearModel, WeightMoments
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.future_validity import future_bounds, future_moments, future_plan_moments
from app.recourse.robustness.validity import validity_bounds
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.local import read_off
from app.recourse.surrogate.weight_moments import (
    FEWEST_SIBLINGS,
    about,
    ensemble,
    fitted,
    future,
    isotropic,
    nominal,
    surrogate,
)

EXACT_MEANS = ("surrogate", "isotropic", "future")
"""Kinds of moments around the black box's own weights where it is linear."""


class Shift:
    """How the model may change around one applicant: moments of its weights after retraining, computed when needed."""

    measured = False
    """Whether bounds also count what future models were seen to do, rather than a model of today's weights alone."""

    def __init__(self, problem: RecourseProblem, sample: BoundarySample, params: CertificateParams, kind: str) -> None:
        self._problem, self._sample = problem, sample
        self.params, self.kind = params, kind

    @cached_property
    def moments(self) -> WeightMoments:
        """Mean and covariance of the weights of retrained models.

        Raises InvalidRequest, DegenerateSurrogate.
        """
        return local_model(self._problem, self._sample, self.params)[1]

    @property
    def centre(self) -> Float[np.ndarray, "m"]:
        """The mean weights of retrained models, intercept last, scaled to length 1."""
        return self.moments.mean

    @property
    def estimated(self) -> bool:
        """Whether `centre` is an estimate, and not the black box's own weights."""
        return not (self._problem.black_box.knows_weights and self.kind in EXACT_MEANS)

    def bounds(
        self,
        rows_raw: Float[np.ndarray, "n p"],  # noqa: ARG002
        points: Float[np.ndarray, "n m"],
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Lower and upper validity of each raw row, in [0, 1], and a mask of rows for which both are tight.

        `points` are the rows as homogeneous points: encoded, with 1 in a last column.
        """
        return *validity_bounds(points, self.moments, self.params.ambiguity_radius), np.ones(len(points), dtype=bool)

    def moments_at(
        self,
        rows_raw: Float[np.ndarray, "n p"],  # noqa: ARG002
        points: Float[np.ndarray, "n m"],
        std: Float[np.ndarray, "d"],
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
        """Mean and covariance of the score of each raw row and, after it, of its slopes along the columns with noise.

        `points` are the rows as homogeneous points; `std` is the noise of each encoded column.
        """
        return self.moments.around(points, np.flatnonzero(std))

    def plan_moments(self, rows_raw: Float[np.ndarray, "n p"]) -> WeightMoments:  # noqa: ARG002
        """Moments of model weights that describe the scores of several raw rows together."""
        return self.moments


class _FutureShift(Shift):
    """The same under moments `future`: records are certified from the held-back models' own scores of them.

    Weights of future models, which take hundreds of scores of each, are estimated for plans of smooth models and for
    searches.
    """

    measured = True

    @cached_property
    def _today(self) -> LinearModel:
        """The black box where it is linear, else the linear fit of its scores; on the scale of its score."""
        black_box, sample = self._problem.black_box, self._sample
        return read_off(black_box, sample.X, sample.scores) if black_box.knows_weights else fitted(sample)

    @cached_property
    def _scale(self) -> float:
        """Length of today's weights."""
        return float(np.linalg.norm(self._today.theta))

    @property
    def centre(self) -> Float[np.ndarray, "m"]:
        """Today's weights of the model, intercept last, scaled to length 1."""
        return self._today.theta / self._scale

    def bounds(
        self, rows_raw: Float[np.ndarray, "n p"], points: Float[np.ndarray, "n m"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Lower and upper validity of each raw row by the held-back models' scores, and a mask of tight bounds."""
        return future_bounds(self._problem, rows_raw, points, self._scale, self.params.ambiguity_radius)

    def moments_at(
        self, rows_raw: Float[np.ndarray, "n p"], points: Float[np.ndarray, "n m"], std: Float[np.ndarray, "d"]
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
        """The same from the held-back models' scores of each raw row, and their slopes there."""
        return future_moments(self._problem, rows_raw, points, std, self._scale)

    def plan_moments(self, rows_raw: Float[np.ndarray, "n p"]) -> WeightMoments:
        """Moments of the held-back models' weights that describe the scores of several raw rows together.

        For a smooth model, they are moments of linear fits to the held-back models. Such fits are regular, so their
        joint bound is several times as high as one from scores of the rows alone. For a model in steps, such as trees,
        only scores of the rows are used.
        """
        if self._problem.black_box.gradient is not None:
            return self._held_back
        return future_plan_moments(self._problem, rows_raw, self._scale)

    @cached_property
    def _held_back(self) -> WeightMoments:
        assert self._problem.futures is not None
        return _fits(self._problem, self._sample, self._problem.futures.held_back)


def shift_of(problem: RecourseProblem, sample: BoundarySample, params: CertificateParams) -> Shift:
    """Build the `Shift` with the moments that `params` names. Raises `InvalidRequest` where the model lacks them."""
    kind = _kind(problem, params)
    return (_FutureShift if kind == "future" else Shift)(problem, sample, params, kind)


def _kind(problem: RecourseProblem, params: CertificateParams) -> str:
    """Where the moments come from. Raises `InvalidRequest` where there are none of the kind that is asked for."""
    if params.moments == "auto":
        return "surrogate" if problem.futures is None else "future"
    registered = problem.reference.weight_moments is not None
    if faults := check_moments(params, registered=registered, futures=problem.futures is not None):
        raise invalid(faults)
    return params.moments


def local_model(
    problem: RecourseProblem, sample: BoundarySample, params: CertificateParams
) -> tuple[LinearModel, WeightMoments]:
    """The local linear model of the decision, and the moments of its weights after retraining; for a search.

    Moments `future` come from the future models that a search may ask, not from those held back. A linear black box is
    its own local model, with all of its weights; for any other black box, it is the nominal surrogate, whose radius is
    0 for both classes.

    Raises
    ------
    InvalidRequest : the model lacks what the moments in `params` need
    DegenerateSurrogate : a version of the model gives nearly all samples the same decision
    """
    black_box, futures = problem.black_box, problem.futures
    known, kind = black_box.knows_weights, _kind(problem, params)
    model = read_off(black_box, sample.X, sample.scores) if known else nominal(sample)
    if futures is not None and kind == "future":
        return model, _fits(problem, sample, futures.search)
    if kind == "isotropic":
        return model, isotropic(model, params.isotropic_variance)
    if (registered := problem.reference.weight_moments) is not None and kind == "registered":
        return model, registered
    if kind == "ensemble":
        if len(problem.siblings) < FEWEST_SIBLINGS:
            needed = f"needs at least {FEWEST_SIBLINGS} other active versions of this model with the same columns"
            raise invalid([Fault("/moments", f"{needed}; there are {len(problem.siblings)}")])
        return model, ensemble(sample, problem.black_box.space, problem.siblings)
    if known:
        return model, about(model, surrogate(sample, nominal(sample)), sample)
    return model, surrogate(sample, model)


def _fits(problem: RecourseProblem, sample: BoundarySample, models: FutureModels) -> WeightMoments:
    """Mean and covariance of future models; of linear ones with the columns that the person cannot change."""
    return future(sample, models, problem.reference.X if problem.black_box.linear else None)
