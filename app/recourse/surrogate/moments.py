"""Where the mean and covariance of the linear models come from.

`surrogate`: how uncertain the local surrogate itself is. The bootstrap of the boundary sample, to first order: the
covariance that resampling would give is the sum over samples of the squared influence of each on the fitted weights
(the infinitesimal jackknife). One linear system instead of hundreds of refits; a test compares it with real refits.

`ensemble`: the model and its other registered versions, each one's nominal machine at the same samples.

`registered`: how much retraining moves the model, computed once at registration (`refits.py`).

`isotropic`: unit-norm weights with the same variance in every direction (paper 4's setting for nonlinear models).

References
----------
Efron, "Nonparametric estimates of standard error: the jackknife, the bootstrap and other methods", Biometrika 1981.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.blackbox import BlackBox, favourable
from app.recourse.features import FeatureSpace
from app.recourse.linear import LinearModel, WeightMoments
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.classes import Classes, class_moments
from app.recourse.surrogate.mpm import fit

MomentsKind: TypeAlias = Literal["surrogate", "registered", "ensemble", "isotropic"]

FEWEST_SIBLINGS = 2
"""Other versions without which `ensemble` says nothing."""
POINTS = 1e-9
"""Mean variance of a column within the classes, as a share of their squared distance, below which they are points: what
is left may be rounding."""


def isotropic(model: LinearModel, variance: float) -> WeightMoments:
    """Unit-norm weights, intercept included, with `variance` in every direction."""
    theta = np.append(model.w, model.c)
    theta /= np.linalg.norm(theta)
    return WeightMoments(mean=theta, root=math.sqrt(variance) * np.eye(len(theta)), kind="isotropic")


def surrogate(sample: BoundarySample) -> tuple[LinearModel, WeightMoments]:
    """The nominal minimax machine of a boundary sample, and the moments that resampling the sample would give.

    Columns that the person cannot change have weight and variance 0.
    """
    machine = fit(sample.classes, "none")
    theta = np.append(machine.model.w, machine.model.c)
    length = float(np.linalg.norm(theta))
    d = sample.X.shape[1]
    where = np.append(sample.free, d)
    mean, root, w = np.zeros(d + 1), np.zeros((d + 1, len(sample.X))), np.zeros(d)
    mean[where] = theta / length
    root[where] = _influence(sample, machine.model)
    w[sample.free] = machine.model.w
    return LinearModel(w, machine.model.c), WeightMoments(mean=mean, root=root, kind="surrogate")


def ensemble(sample: BoundarySample, space: FeatureSpace, siblings: Sequence[BlackBox]) -> WeightMoments:
    """Mean and covariance over the nominal machines of the model and its siblings, all fitted to the same samples.

    Raises
    ------
    DegenerateSurrogate : a sibling decides alike about nearly all samples
    """
    thetas = [_theta(sample, sample.classes)]
    for sibling in siblings:
        decisions = favourable(sibling.score(sibling.space.recode(sample.X, space)))
        thetas.append(_theta(sample, class_moments(sample.X_free, decisions)))
    mean = np.mean(thetas, axis=0)
    length = float(np.linalg.norm(mean))
    root = (np.array(thetas) - mean).T / (length * math.sqrt(len(thetas) - 1))
    return WeightMoments(mean=mean / length, root=root, kind="ensemble")


def _theta(sample: BoundarySample, classes: Classes) -> Float[np.ndarray, "m"]:
    machine = fit(classes, "none")
    theta = np.zeros(sample.X.shape[1] + 1)
    theta[np.append(sample.free, sample.X.shape[1])] = np.append(machine.model.w, machine.model.c)
    return theta / np.linalg.norm(theta)


def _influence(sample: BoundarySample, model: LinearModel) -> Float[np.ndarray, "m n"]:
    """Derivative of ``theta = (w, c) / |(w, c)|`` in the free columns by the weight of each sample.

    From the conditions of the optimum in the scale ``a.w = 1``: ``S+ w/tau+ + S- w/tau- = total a``. A sample of class
    k moves its mean by ``u/n_k``, ``u = x - mean_k``, and its covariance by ``(u u' - S_k)/n_k``; the system for what
    that does to ``w`` and ``total = tau+ + tau-`` is the same for all samples. So is all that follows, the intercept
    and the length of 1, and as all of it is linear it is put together first, into `onto`; the samples themselves are
    touched once. Where each class is a single point, none of them moves anything.
    """
    X, a = sample.X_free, sample.classes.between
    plus, minus = sample.classes.favourable, sample.classes.unfavourable
    n, k = X.shape
    if max(float(moments.covariance.trace()) for moments in (plus, minus)) < POINTS * k * float(a @ a):
        return np.zeros((k + 1, n))
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
    theta = np.append(model.w, model.c)
    length = float(np.linalg.norm(theta))
    theta /= length
    across = (np.eye(k + 1) - np.outer(theta, theta)) * (scale / length)
    onto = across @ by_solution @ np.linalg.inv(system)
    # The right side of the system for a sample x of a class is ``along_x x + along_mean mean + along_Sw Sw``, and last
    # the change of a.w; zero where the sample is of the other class.
    projected = X @ w
    along_x, last, intercept = np.empty(n), np.empty(n), np.zeros(n)
    along_mean, along_Sw = np.zeros((2, n)), np.zeros((2, n))
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
    few = np.vstack([along_mean, along_Sw, last, intercept])
    onto_few = np.column_stack([onto[:, :k] @ np.array([plus.mean, minus.mean, *Sw]).T, onto[:, k], across[:, k]])
    return np.asarray(onto[:, :k] @ (X * along_x[:, None]).T + onto_few @ few)
