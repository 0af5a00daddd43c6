"""Where the mean and covariance of the linear models come from.

`surrogate`: how uncertain the local surrogate itself is. The bootstrap of the boundary sample, to first order: the
covariance that resampling would give is the sum over samples of the squared influence of each on the fitted weights
(the infinitesimal jackknife). One linear system instead of hundreds of refits; a test compares it with real refits.

`ensemble`: the model and its other registered versions, each one's nominal machine at the same samples.

`isotropic`: unit-norm weights with the same variance in every direction (paper 4's setting for nonlinear models).

References
----------
Efron, "Nonparametric estimates of standard error: the jackknife, the bootstrap and other methods", Biometrika 1981.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.blackbox import BlackBox, favourable
from app.recourse.features import FeatureSpace
from app.recourse.linear import LinearModel, WeightMoments
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.mpm import Moments, class_moments, fit

MomentsKind: TypeAlias = Literal["surrogate", "isotropic", "ensemble"]

FEWEST_SIBLINGS = 2
"""Other versions without which `ensemble` says nothing."""


def isotropic(model: LinearModel, variance: float) -> WeightMoments:
    """Unit-norm weights, intercept included, with `variance` in every direction."""
    theta = np.append(model.w, model.c)
    theta /= np.linalg.norm(theta)
    return WeightMoments(mean=theta, root=math.sqrt(variance) * np.eye(len(theta)), kind="isotropic")


def surrogate(sample: BoundarySample) -> tuple[LinearModel, WeightMoments]:
    """The nominal minimax machine of a boundary sample, and the moments that resampling the sample would give.

    Columns that the person cannot change have weight and variance 0.
    """
    X = sample.X.take(sample.free, axis=1)
    plus, minus = class_moments(X, sample.favourable)
    machine = fit(plus, minus, "none")
    influence = _influence(X, sample, plus, minus, machine.model)
    theta = np.append(machine.model.w, machine.model.c)
    length = float(np.linalg.norm(theta))
    theta /= length
    influence = (influence - np.outer(influence @ theta, theta)) / length
    d = sample.X.shape[1]
    where = np.append(sample.free, d)
    mean, root = np.zeros(d + 1), np.zeros((d + 1, len(X)))
    mean[where] = theta
    root[where] = influence.T
    w = np.zeros(d)
    w[sample.free] = machine.model.w
    return LinearModel(w, machine.model.c), WeightMoments(mean=mean, root=root, kind="surrogate")


def ensemble(sample: BoundarySample, space: FeatureSpace, siblings: Sequence[BlackBox]) -> WeightMoments:
    """Mean and covariance over the nominal machines of the model and its siblings, all fitted to the same samples.

    Raises
    ------
    DegenerateSurrogate : a sibling decides alike about nearly all samples
    """
    thetas = [_theta(sample, sample.favourable)]
    for sibling in siblings:
        decisions = favourable(sibling.score(sibling.space.recode(sample.X, space)))
        thetas.append(_theta(sample, decisions))
    mean = np.mean(thetas, axis=0)
    length = float(np.linalg.norm(mean))
    root = (np.array(thetas) - mean).T / (length * math.sqrt(len(thetas) - 1))
    return WeightMoments(mean=mean / length, root=root, kind="ensemble")


def _theta(sample: BoundarySample, decisions: Bool[np.ndarray, "n"]) -> Float[np.ndarray, "m"]:
    machine = fit(*class_moments(sample.X.take(sample.free, axis=1), decisions), "none")
    theta = np.zeros(sample.X.shape[1] + 1)
    theta[np.append(sample.free, sample.X.shape[1])] = np.append(machine.model.w, machine.model.c)
    return theta / np.linalg.norm(theta)


def _influence(
    X: Float[np.ndarray, "n k"], sample: BoundarySample, plus: Moments, minus: Moments, model: LinearModel
) -> Float[np.ndarray, "n m"]:
    """Derivative of ``(w, c)``, ``|w| = 1``, by the weight of each sample.

    From the conditions of the optimum in the scale ``a.w = 1``: ``S+ w/tau+ + S- w/tau- = total a``. A sample of class
    k moves its mean by ``u/n_k``, ``u = x - mean_k``, and its covariance by ``(u u' - S_k)/n_k``; the system for what
    that does to ``w`` and ``total = tau+ + tau-`` is the same for all samples.
    """
    a = plus.mean - minus.mean
    scale = float(a @ model.w)
    w = model.w / scale
    taus = [float(np.sqrt(w @ moments.covariance @ w)) for moments in (plus, minus)]
    total = sum(taus)
    k = len(w)
    system = np.zeros((k + 1, k + 1))
    system[:k, k], system[k, :k] = -a, a
    for moments, tau in zip((plus, minus), taus, strict=True):
        Sw = moments.covariance @ w
        system[:k, :k] += moments.covariance / tau - np.outer(Sw, Sw) / tau**3
    right = np.empty((len(X), k + 1))
    mean_shift = np.zeros(len(X))
    tau_shift = np.zeros(len(X))
    for moments, tau, sign, members in (
        (plus, taus[0], 1.0, sample.favourable),
        (minus, taus[1], -1.0, ~sample.favourable),
    ):
        n = int(np.count_nonzero(members))
        U, Sw = X[members] - moments.mean, moments.covariance @ w
        along = U @ w
        excess = along**2 - tau**2
        change = (U * along[:, None] - Sw) / tau - np.outer(excess, Sw) / (2.0 * tau**3)
        right[members, :k] = (sign * total * U - change) / n
        right[members, k] = -sign * along / n
        if sign > 0.0:
            mean_shift[members], tau_shift[members] = along / n, excess / (2.0 * tau * n)
    solved = right @ np.linalg.inv(system).T
    dw, dtotal = solved[:, :k], solved[:, k]
    dtau = tau_shift + dw @ (plus.covariance @ w) / taus[0]
    # c = tau+/total - w.mean+
    dc = dtau / total - taus[0] * dtotal / total**2 - dw @ plus.mean - mean_shift
    return np.column_stack([dw, dc]) * scale
