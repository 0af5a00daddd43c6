"""Mean and covariance of the linear models that retraining may give, by source.

`surrogate`: how uncertain the local surrogate itself is. The bootstrap of the boundary sample, to first order: the
covariance that resampling would give is the sum over samples of the squared influence of each on the fitted weights
(the infinitesimal jackknife). One linear system instead of hundreds of refits; a test compares it with real refits.

`ensemble`: the model and its other registered versions, each one's nominal machine at the same samples.

`registered`: the effect of retraining on the model, computed once at registration (`refits.py`).

`future`: future models, each one's local linear fit at the same samples, for searches. Records that are found are
bounded by the models' own scores of them (`app.recourse.robustness.future_validity`).

`isotropic`: unit-norm weights with the same variance in every direction (paper 4's setting for nonlinear models).

A linear black box needs no estimate: its own weights, intercept included, are the mean of `surrogate` and `isotropic`.

References
----------
Efron, "Nonparametric estimates of standard error: the jackknife, the bootstrap and other methods", Biometrika 1981.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from app.errors import DegenerateSurrogate
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import FutureModels
from app.recourse.models.linear import LinearModel, WeightMoments
from app.recourse.models.score import favourable
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.class_moments import class_moments
from app.recourse.surrogate.mpm import fit, fit_sample

MomentsKind: TypeAlias = Literal["auto", "future", "surrogate", "registered", "ensemble", "isotropic"]

FEWEST_SIBLINGS = 2
"""Least number of other versions for `ensemble`."""
FUTURE_SAMPLES = 300
"""Number of samples to which future models are fitted, approximately."""
RIDGE = 1e-6
"""Ridge penalty of these fits, as a share of the mean variance of a column; settles collinear columns."""
POINTS = 1e-9
"""Mean variance of a column within the classes, as a share of their squared distance, below which they count as
points, because the rest may be rounding."""


def isotropic(model: LinearModel, variance: float) -> WeightMoments:
    """Moments with the given variance in every direction; the mean is the model's ``(w, c)``, scaled to length 1."""
    theta = model.theta / np.linalg.norm(model.theta)
    return WeightMoments(mean=theta, factors=(math.sqrt(variance) * np.eye(len(theta)),), kind="isotropic")


def future(
    sample: BoundarySample, models: FutureModels, X_reference: Float[np.ndarray, "n d"] | None = None
) -> WeightMoments:
    """Mean and covariance of linear models, each fitted to one future model's scores at the samples.

    All fits use the same samples. Columns that the person cannot change are constant in the samples, so they have
    weight 0. A missing score counts as 0.

    Parameters
    ----------
    models : at least two
    X_reference : encoded records from which the samples take the values of columns that the person cannot change, so
        that these columns get weights too; for models that are linear everywhere

    Raises
    ------
    DegenerateSurrogate : a future model gives all samples a score of 0
    """
    X, columns = sample.X[:: max(1, len(sample.X) // FUTURE_SAMPLES)], sample.free
    if X_reference is not None:
        columns = np.arange(X.shape[1])
        fixed = np.setdiff1d(columns, sample.free)
        X = X.copy()
        X[:, fixed] = X_reference[np.arange(len(X)) % len(X_reference)][:, fixed]
    thetas = _fits(X, columns, np.nan_to_num(models.scores(X)))
    if not thetas.any(axis=1).all():
        raise DegenerateSurrogate
    return _moments_of(thetas, "future")


def fitted(sample: BoundarySample) -> LinearModel:
    """The linear fit of the black box's scores at the boundary sample.

    Columns that the person cannot change have weight 0.

    Raises
    ------
    DegenerateSurrogate : no column has a weight
    """
    classes, level = sample.classes, float(sample.scores.mean())
    n, k = len(sample.X), int(np.count_nonzero(sample.favourable))
    plus, minus, between = classes.favourable, classes.unfavourable, classes.between
    # The scatter of all samples is that within the classes and that between them; their ridge is the ridge of the fit.
    scatter = (k - 1.0) * plus.covariance + (n - k - 1.0) * minus.covariance
    scatter += k * (n - k) / n * np.outer(between, between)
    w = np.linalg.solve(scatter, (sample.scores - level) @ sample.X_free)
    if not w.any():
        raise DegenerateSurrogate
    return sample.in_all_columns(LinearModel(w, level - float(w @ (minus.mean + k / n * between))))


def _fits(
    X: Float[np.ndarray, "n d"], columns: Int[np.ndarray, "j"], scores: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "k m"]:
    """Ridge regressions of the scores of k models on some columns, with one factorisation for all of them."""
    centre, level = X[:, columns].mean(axis=0), scores.mean(axis=0)
    centred = X[:, columns] - centre
    gram = centred.T @ centred
    gram[np.diag_indices(len(gram))] += RIDGE * max(float(np.trace(gram)) / len(gram), np.finfo(float).tiny)
    w = np.linalg.solve(gram, centred.T @ (scores - level)).T
    thetas = np.zeros((len(w), X.shape[1] + 1))
    thetas[:, columns], thetas[:, -1] = w, level - w @ centre
    return thetas


def nominal(sample: BoundarySample) -> LinearModel:
    """The minimax machine of a boundary sample, without robustness, as a linear model.

    Columns that the person cannot change have weight 0.
    """
    return fit_sample(sample, "none", radius_favourable=0.0, radius_unfavourable=0.0).model


def surrogate(sample: BoundarySample, model: LinearModel) -> WeightMoments:
    """The moments of the local surrogate: mean `model`, scaled to length 1, and the covariance under resampling.

    The covariance is that of machines fitted to resampled samples, to first order. Columns that the person cannot
    change have variance 0.

    Parameters
    ----------
    model : the nominal machine of the sample
    """
    theta = model.theta
    onto_free, by_sample = _influence(sample, LinearModel(model.w[sample.free], model.c))
    onto = np.zeros((len(theta), onto_free.shape[1]))
    onto[np.append(sample.free, len(model.w))] = onto_free
    return WeightMoments(mean=theta / np.linalg.norm(theta), factors=(onto, by_sample), kind="surrogate")


def ensemble(sample: BoundarySample, space: FeatureSpace, siblings: Sequence[BlackBox]) -> WeightMoments:
    """Mean and covariance over the nominal machines of today's model and of its siblings, fitted to the same samples.

    Parameters
    ----------
    siblings : the model's other registered versions

    Raises
    ------
    DegenerateSurrogate : a sibling gives nearly all samples the same decision
    """
    machines = [nominal(sample)]
    for sibling in siblings:
        decisions = favourable(sibling.score(sibling.space.recode(sample.X, space)))
        sibling_machine = fit(class_moments(sample.X_free, decisions), "none").model
        machines.append(sample.in_all_columns(sibling_machine))
    return _moments_of(np.array([machine.theta for machine in machines]), "ensemble")


def about(model: LinearModel, moments: WeightMoments, sample: BoundarySample) -> WeightMoments:
    """The moments of a surrogate with their mean replaced by the linear black box's own weights, scaled to length 1.

    The surrogate has weights in the free columns only, and its intercept contains what the other columns contribute. So
    the spread is multiplied by the length of the free weights and that intercept, divided by the length of all weights.

    Parameters
    ----------
    model : the linear black box
    moments : of the surrogate
    """
    theta = model.theta
    fixed = np.setdiff1d(np.arange(len(model.w)), sample.free)
    intercept = model.c + float(sample.X[0, fixed] @ model.w[fixed])
    share = math.hypot(float(np.linalg.norm(model.w[sample.free])), intercept) / float(np.linalg.norm(theta))
    onto, *others = moments.factors
    return WeightMoments(mean=theta / np.linalg.norm(theta), factors=(share * onto, *others), kind=moments.kind)


def _moments_of(thetas: Float[np.ndarray, "k m"], kind: str) -> WeightMoments:
    """Of models whose weights are scaled to length 1 first; the mean has length 1, too."""
    units = thetas / np.linalg.norm(thetas, axis=1, keepdims=True)
    return WeightMoments.of(units / np.linalg.norm(units.mean(axis=0)), kind)


def _influence(sample: BoundarySample, model: LinearModel) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, "r n"]]:
    """Derivative of ``theta = (w, c) / |(w, c)|`` in the free columns by the weight of each sample, as a product.

    From the conditions of the optimum in the scale ``a.w = 1``: ``S+ w/tau+ + S- w/tau- = total a``. A sample of class
    k moves its mean by ``u/n_k``, ``u = x - mean_k``, and its covariance by ``(u u' - S_k)/n_k``; the system for what
    that does to ``w`` and ``total = tau+ + tau-`` is the same for all samples. So is all that follows, the intercept
    and the length of 1; as all of it is linear, it is the first factor, and the second has a column for each sample.
    Where each class is a single point, none of them moves anything.
    """
    X, a = sample.X_free, sample.classes.between
    plus, minus = sample.classes.favourable, sample.classes.unfavourable
    n, k = X.shape
    if max(float(moments.covariance.trace()) for moments in (plus, minus)) < POINTS * k * float(a @ a):
        return np.zeros((k + 1, 1)), np.zeros((1, n))
    scale = float(a @ model.w)
    w = model.w / scale
    Sw = [moments.covariance @ w for moments in (plus, minus)]
    taus = [math.sqrt(w @ one) for one in Sw]
    total = sum(taus)
    system = np.zeros((k + 1, k + 1))
    system[:k, k], system[k, :k] = -a, a
    for moments, one, tau in zip((plus, minus), Sw, taus, strict=True):
        system[:k, :k] += moments.covariance / tau - np.outer(one, one) / tau**3
    # c = tau+/total - w.mean+, by w and total; what a sample does to tau+ and mean+ by itself is added below.
    by_solution = np.eye(k + 1)
    by_solution[k, :k] = Sw[0] / (taus[0] * total) - plus.mean
    by_solution[k, k] = -taus[0] / total**2
    theta = model.theta
    length = float(np.linalg.norm(theta))
    theta /= length
    across = (np.eye(k + 1) - np.outer(theta, theta)) * (scale / length)
    onto = across @ by_solution @ np.linalg.inv(system)
    # The right side of the system for a sample x of a class is ``along_x x + along_mean mean + along_Sw Sw``, and last
    # the change of a.w; zero where the sample is of the other class.
    projected = X @ w
    along_x, by_sample = np.empty(n), np.zeros((k + 6, n))
    along_mean, along_Sw, (last, intercept) = by_sample[k : k + 2], by_sample[k + 2 : k + 4], by_sample[k + 4 :]
    for i, (moments, tau, sign, members) in enumerate(
        ((plus, taus[0], 1.0, sample.favourable), (minus, taus[1], -1.0, ~sample.favourable))
    ):
        size = int(np.count_nonzero(members))
        along = projected[members] - float(moments.mean @ w)
        excess = along**2 - tau**2
        along_x[members] = (sign * total - along / tau) / size
        along_mean[i, members] = -along_x[members]
        along_Sw[i, members] = (1.0 / tau + excess / (2.0 * tau**3)) / size
        last[members] = -sign * along / size
        if sign > 0.0:
            intercept[members] = (excess / (2.0 * tau * total) - along) / size
    np.multiply(X.T, along_x, out=by_sample[:k])
    few = onto[:, :k] @ np.array([plus.mean, minus.mean, *Sw]).T
    return np.column_stack([onto[:, :k], few, onto[:, k], across[:, k]]), by_sample
