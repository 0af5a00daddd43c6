"""Whether records stay below an invalidation rate: noisy copies of each record, scored by the black box.

Estimates or a few copies select the records that are measured with the full number of copies.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.reports import InvalidationReport
from app.recourse.robustness.invalidation import (
    NoiseLaw,
    clopper_pearson,
    invalidation_rate,
    invalidation_rate_linear,
    noise_columns,
)

Estimator: TypeAlias = Literal["auto", "closed_form", "monte_carlo", "tree"]
Rates: TypeAlias = Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]

SCREENED = 16
"""Records that are screened together."""
MOST_SCREENED = 64
"""Records that are screened in one verification."""
SCREENING_DRAWS = 400
"""Noisy copies that select the records for the full number."""
DOUBT = 3.0
"""Standard errors by which a screened rate may miss the target."""
CLOSE = 2.0
"""Standard errors below the target within which a rate is measured again with other draws."""
ROUNDING = 1e-6
"""Excess of an exact rate over the target that is allowed: a solver keeps its margin up to a tolerance."""
MOST_LUCK = 5.0
"""Standard errors by which a measured rate may exceed an exact one before the exact one is rejected."""
FIRST_ORDER_DOUBT = 0.15
"""Distance from the target within which a first-order rate decides nothing."""
MOST_PROOFS = 6
"""Records whose rate is measured with the full number of draws, in one verification."""


class MeasuredInvalidation:
    """Invalidation rates of records: estimated first, then screened with few noisy copies, then measured with many.

    Parameters
    ----------
    local : linear model that gives score and slope if the black box offers no gradient
    target : largest invalidation rate, in (0, 1)
    noise_std : standard deviation, encoded units: one number for all numeric features not implemented exactly,
        or one per feature name
    samples : number of noisy copies behind a measured rate; twice as many if the rate is close to the target
    """

    def __init__(
        self,
        problem: RecourseProblem,
        meter: Meter,
        local: LinearModel,
        *,
        target: float,
        noise_std: float | Mapping[str, float],
        law: NoiseLaw,
        estimator: Estimator,
        samples: int,
    ) -> None:
        self.problem, self.samples = problem, samples
        self.black_box, self.meter = problem.black_box, meter
        self.actions, self.space = problem.action_set, problem.action_set.space
        self.target, self.law = target, law
        self.needed = max(-float(ndtri(self.target)), 0.0)
        """Deviations of Gaussian noise between a record and the boundary at which the target is met."""
        self.std = noise_columns(self.space, noise_std, problem.factual_raw)
        self.local = local
        self.reports: dict[bytes, InvalidationReport] = {}
        self.fidelity: float | None = None
        self.estimator = estimator if estimator != "auto" else self._offered()

    def _offered(self) -> Estimator:
        if self.black_box.gradient is not None:
            return "closed_form"
        return "monte_carlo" if self.black_box.boxes is None else "tree"

    @staticmethod
    def depth(rates: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """For each invalidation rate, how far from the boundary a record with this rate is.

        The unit is the standard deviation of Gaussian noise.
        """
        return -ndtri(np.clip(rates, 1e-300, 1.0))

    def first_order(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Invalidation rates computed from score and slope of the model, or of `local`; exact for a linear model."""
        return self.first_order_at(self.space.encode(rows_raw), self.law)

    def first_order_at(self, X: Float[np.ndarray, "n d"], law: NoiseLaw) -> Float[np.ndarray, "n"]:
        """Invalidation rates of encoded points, computed from score and slope, for any law of noise."""
        if self.black_box.linear or self.black_box.gradient is None:
            scores, gradients = self.local.score(X), np.broadcast_to(self.local.w, X.shape)
        else:
            scores, gradients = self.meter.score(X), self.meter.gradient(X)
        return invalidation_rate_linear(scores, gradients, self.std, law)

    def screened(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Invalidation rates measured with a few noisy copies, which are independent of those that judge the answer."""
        X = self.space.encode(rows_raw)
        return invalidation_rate(self.meter, X, self.std, SCREENING_DRAWS, self.problem.noise_seed + 1, self.law)[0]

    def shortfall(
        self, rows_raw: Float[np.ndarray, "n p"], estimate: Rates, proven: Rates | None
    ) -> Float[np.ndarray, "n"]:
        """The invalidation rate of each row minus the target; <= 0 if the row meets it, NaN if it was not examined.

        Rows are examined in order, until one meets the target or `MOST_PROOFS` rows are measured. A row whose
        `estimate` is clearly above the target keeps its estimated rate; any other row is measured. If `proven` is
        given, estimates are exact, and a measured rate slightly above the target counts as chance.
        """
        misses = np.full(len(rows_raw), np.nan)
        if len(rows_raw) > MOST_SCREENED and estimate == self.screened:
            # Each needs hundreds of rows of the black box, so only the best and the most favourable are screened.
            deep = self.local.score(self.space.encode(rows_raw)).argsort(kind="stable")[::-1]
            half = MOST_SCREENED // 2
            few = np.union1d(np.arange(half), deep[:half])
            misses[few] = self.shortfall(rows_raw[few], estimate, proven)
            return misses
        measured: set[bytes] = set()
        doubt = (
            DOUBT * math.sqrt(self.target * (1.0 - self.target) / SCREENING_DRAWS)
            if estimate == self.screened
            else FIRST_ORDER_DOUBT
        )
        for start in range(0, len(rows_raw), SCREENED):
            estimated = estimate(rows_raw[start : start + SCREENED])
            for k, rate in enumerate(estimated.tolist(), start=start):
                if rate > self.target + (ROUNDING if proven else doubt):
                    misses[k] = rate - self.target
                    continue
                report = self._measure(rows_raw[k], exact=proven is not None)
                measured.add(rows_raw[k].tobytes())
                misses[k] = report.rate - self.target
                if proven and misses[k] <= MOST_LUCK * math.sqrt(self.target * (1.0 - self.target) / report.samples):
                    misses[k] = min(misses[k], 0.0)  # known exactly; a larger measured rate is sampling error
                if misses[k] <= 0.0 or len(measured) == MOST_PROOFS:
                    return misses
        if not measured and len(rows_raw):  # none was promising; report the nearest one with its measured rate
            nearest = int(misses.argmin())
            miss = self._measure(rows_raw[nearest], exact=proven is not None).rate - self.target
            misses[nearest] = max(miss, 1e-12) if proven else miss
        return misses

    def _measure(self, row_raw: Float[np.ndarray, "p"], *, exact: bool) -> InvalidationReport:
        """The rate on the model itself; twice the draws close to the target, unless it is known exactly."""
        key = row_raw.tobytes()
        if key not in self.reports:
            X, draws = self.space.encode(row_raw[None]), self.samples
            rate = self._share_refused(X, self.problem.noise_seed)
            luck = CLOSE * math.sqrt(self.target * (1.0 - self.target) / draws)
            if not exact and self.target - luck < rate <= self.target:
                rate = 0.5 * (rate + self._share_refused(X, self.problem.noise_seed + 2))
                draws *= 2
            self.reports[key] = InvalidationReport(
                estimator=self.estimator,
                target=self.target,
                rate=rate,
                interval=clopper_pearson(round(rate * draws), draws),
                samples=draws,
                fidelity=self.fidelity,
            )
        return self.reports[key]

    def _share_refused(self, X: Float[np.ndarray, "1 d"], seed: int) -> float:
        return float(invalidation_rate(self.meter, X, self.std, self.samples, seed, self.law)[0][0])
