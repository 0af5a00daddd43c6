"""PROBE (paper 3): the cheapest change that noise in carrying it out undoes no more often than the applicant accepts.

How the search judges rates is the estimator; how the answer is judged is always the same: noisy copies of the very
record, scored by the black box.

==============  =======================================================================================================
linear model    the rate is a margin (`linear_margin`): an exact search with that margin, nothing to improve
gradients       descent on the paper's objective from many starts, then exact searches on the linearisation at legal
                records; rates to first order
a single tree   the nearest legal records in its favourable boxes, at several depths; rates exact (theorem 2)
anything else   searches on the local linear model with growing margins; rates measured on the black box
==============  =======================================================================================================

A linear local model needs no annealed sigmoid around noisy copies: its rate under any noise is a margin, exactly.

Differences from the authors' code, which lowers the weight of the cost until it rewards distance, neither rounds nor
keeps limits, and averages over its successes: see ``docs/methods.md``.

References
----------
Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju, "Probabilistically Robust Recourse", ICLR 2023.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Interval
from jaxtyping import Float
from scipy.special import ndtri

from app.errors import DegenerateSurrogate, Fault
from app.recourse.blackbox import Meter
from app.recourse.box_search import rows_in_boxes
from app.recourse.boxes import Boxes
from app.recourse.descent import Relaxed, descend
from app.recourse.features import FeatureSpace
from app.recourse.linear import LinearModel
from app.recourse.method import HAIR, Candidates, Ground, Method, MethodParams, Need, Yields
from app.recourse.problem import RecourseProblem
from app.recourse.result import InvalidationReport
from app.recourse.robustness.noise import (
    NoiseLaw,
    clopper_pearson,
    invalidation_rate,
    invalidation_rate_linear,
    linear_margin,
    noise_cdf,
    noise_columns,
    noise_faults,
)
from app.recourse.search import Search
from app.recourse.surrogate.boundary import SamplerParams
from app.recourse.surrogate.local import local_linear
from app.recourse.surrogate.tree import distil

Estimator: TypeAlias = Literal["auto", "closed_form", "monte_carlo", "tree"]
Rates: TypeAlias = Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]

COST_WEIGHTS = np.array([0.02, 0.1, 0.3, 1.0])
"""Of the descent's objective, all at once: the paper sweeps one down until its target is met."""
STEPS, STEP = 60, 0.1
"""Of the descent; the size in encoded units."""
CURVATURE_STEP = 1e-3
"""Of the difference that tells how the gradient turns, encoded units."""
BEGINNINGS = 4
"""Records from which the search on linearisations begins."""
LINEARISATIONS = 4
"""Of the model, one after another, from each beginning."""
DEEPER = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])
"""By how many deviations proposals go beyond the target."""
ENOUGH = 1.0
"""Deviations beyond the target at which records in boxes are deep enough."""
SCREENED = 16
"""Records that are screened together."""
MOST_SCREENED = 64
"""Records that are screened in one verification."""
SCREENING_DRAWS = 400
"""Noisy copies that tell which records are worth the full number."""
DOUBT = 3.0
"""Standard errors by which a screened rate may miss the target."""
CLOSE = 2.0
"""Standard errors below the target within which a measured rate is measured once more with other draws."""
ROUNDING = 1e-6
"""By how much an exact rate may exceed the target: searches keep their margin up to a solver's tolerance."""
MOST_LUCK = 5.0
"""Standard errors by which a measured rate may exceed an exact one before the exact one is not believed."""
FIRST_ORDER_DOUBT = 0.15
"""By how much a first-order rate may miss the target."""
MOST_PROOFS = 6
"""Records whose rate is measured with the full number of draws, in one verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeParams(SamplerParams, MethodParams):
    """Parameters of probabilistically robust recourse."""

    target_invalidation_rate: Annotated[float, Interval(ge=0.001, le=0.999)] = 0.35
    """How often noise may undo the recourse, at most; smaller is more robust and costs more."""
    noise_std: Annotated[float, Interval(ge=0, le=10)] | Mapping[str, Annotated[float, Interval(ge=0, le=10)]] = 0.1
    """Standard deviation of inexact implementation, encoded units: one number for all numeric features that are not
    implemented exactly, or numbers by feature."""
    noise_law: NoiseLaw = "gaussian"
    """How the noise of each feature is distributed."""
    estimator: Estimator = "auto"
    """How the search judges rates. `closed_form`: score and slope of the model, or of the local model where it offers
    none; `tree`: exactly on a decision tree, the model's own or one distilled from it; `monte_carlo`: noisy copies;
    `auto`: what the model offers."""
    noise_samples: Annotated[int, Interval(ge=1000, le=100_000)] = 10_000
    """Noisy copies that the model itself is asked about before a record is returned; twice as many where the rate is
    close to the target."""


def generate(problem: RecourseProblem, params: ProbeParams, ground: Ground) -> Candidates:
    """Proposals whose estimated invalidation rate meets the target, and more beyond it."""
    return _Probe(problem, params, ground).candidates()


def promise(problem: RecourseProblem, params: ProbeParams, meter: Meter) -> Candidates:
    """No proposals; what others propose is measured as ever."""
    measured = _Measured(problem, params, meter, LinearModel(np.zeros(problem.action_set.space.d), 0.0))
    return Candidates(
        propose=lambda pushes: np.empty((0, measured.space.p)),  # noqa: ARG005
        meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
        rate=problem.action_set.cost,
        push_unit=1.0,
        shortfall=lambda rows_raw: measured.shortfall(rows_raw, measured.screened, None),
        report=lambda row_raw: measured.reports.get(row_raw.tobytes()),
    )


class _Measured:
    """How often noise undoes records, estimated and measured."""

    def __init__(self, problem: RecourseProblem, params: ProbeParams, meter: Meter, local: LinearModel) -> None:
        self.problem, self.params = problem, params
        self.black_box, self.meter = problem.black_box, meter
        self.actions, self.space = problem.action_set, problem.action_set.space
        self.target, self.law = params.target_invalidation_rate, params.noise_law
        self._needed = max(-float(ndtri(self.target)), 0.0)
        """Deviations of Gaussian noise between a record and the boundary at which the target is met."""
        self.std = noise_columns(self.space, params.noise_std)
        self.local = local
        self.reports: dict[bytes, InvalidationReport] = {}
        self.fidelity: float | None = None
        self.estimator = params.estimator if params.estimator != "auto" else self._offered()

    def _offered(self) -> Estimator:
        if self.black_box.gradient is not None:
            return "closed_form"
        return "monte_carlo" if self.black_box.boxes is None else "tree"

    @staticmethod
    def _depth(rates: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """How many deviations of Gaussian noise such a rate leaves room for."""
        return -ndtri(np.clip(rates, 1e-300, 1.0))

    def _first_order(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Rates by score and slope of the model, or of the local model; exact for a linear model."""
        return self._first_order_at(self.space.encode(rows_raw), self.law)

    def _first_order_at(self, X: Float[np.ndarray, "n d"], law: NoiseLaw) -> Float[np.ndarray, "n"]:
        if self.black_box.linear or self.black_box.gradient is None:
            scores, gradients = self.local.score(X), np.broadcast_to(self.local.w, X.shape)
        else:
            scores, gradients = self.meter.score(X), self.meter.gradient(X)
        return invalidation_rate_linear(scores, gradients, self.std, law)

    def screened(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Rates by a few noisy copies, other than those that the answer is judged by."""
        X = self.space.encode(rows_raw)
        return invalidation_rate(self.meter, X, self.std, SCREENING_DRAWS, self.problem.seed + 1, self.law)[0]

    def shortfall(
        self, rows_raw: Float[np.ndarray, "n p"], estimate: Rates, proven: Rates | None
    ) -> Float[np.ndarray, "n"]:
        """By how much the rate of each row misses the target; NaN behind the first that meets it."""
        misses = np.full(len(rows_raw), np.nan)
        if len(rows_raw) > MOST_SCREENED and estimate == self.screened:
            # Each takes hundreds of rows of the black box: half of them the best, half the most favourable.
            deep = self.local.score(self.space.encode(rows_raw)).argsort(kind="stable")[::-1]
            half = MOST_SCREENED // 2
            few = np.union1d(np.arange(half), deep[:half])
            misses[few] = self.shortfall(rows_raw[few], estimate, proven)
            return misses
        proofs = 0
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
                proofs += 1
                misses[k] = report.rate - self.target
                if proven and misses[k] <= MOST_LUCK * math.sqrt(self.target * (1.0 - self.target) / report.samples):
                    misses[k] = min(misses[k], 0.0)  # it is known exactly; what was measured above it is chance
                if misses[k] <= 0.0 or proofs == MOST_PROOFS:
                    return misses
        if not proofs and len(rows_raw):  # none was worth it, but the nearest one is told with its measured rate
            nearest = int(misses.argmin())
            miss = self._measure(rows_raw[nearest], exact=proven is not None).rate - self.target
            misses[nearest] = max(miss, 1e-12) if proven else miss
        return misses

    def _measure(self, row_raw: Float[np.ndarray, "p"], *, exact: bool = False) -> InvalidationReport:
        """The rate on the model itself; close to the target, where luck decides, twice the draws unless it is exact."""
        key = row_raw.tobytes()
        if key not in self.reports:
            X, draws = self.space.encode(row_raw[None]), self.params.noise_samples
            rate = self._share_refused(X, self.problem.seed)
            luck = CLOSE * math.sqrt(self.target * (1.0 - self.target) / draws)
            if not exact and self.target - luck < rate <= self.target:
                rate = 0.5 * (rate + self._share_refused(X, self.problem.seed + 2))
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
        return float(invalidation_rate(self.meter, X, self.std, self.params.noise_samples, seed, self.law)[0][0])


class _Probe(_Measured):
    """One question: which records to measure."""

    def __init__(self, problem: RecourseProblem, params: ProbeParams, ground: Ground) -> None:
        super().__init__(problem, params, ground.meter, local_linear(problem, ground.sample))
        self.ground = ground

    def candidates(self) -> Candidates:
        """What suits the estimator and the model."""
        if self.estimator == "tree":
            return self._by_boxes()
        if self.black_box.linear and self.black_box.fractional:
            return self._by_margin(estimate=self._first_order, exact=True)
        if self.estimator == "monte_carlo":
            return self._by_margin(estimate=self.screened, exact=False)
        if self.black_box.gradient is None:
            return self._by_margin(estimate=self._first_order, exact=False)
        return self._by_gradient()

    # --- proposals ---------------------------------------------------------------------------------------------------

    def _by_margin(self, *, estimate: Rates, exact: bool) -> Candidates:
        """Searches on the local linear model; for a linear black box that is the model itself and nothing is better."""
        search = Search(self.local, self.actions, deadline=self.problem.deadline)
        # Where the local model accepts the factual and the model does not, margins count from where the factual stands.
        start = 0.0 if exact else max(search.start_score, 0.0)
        margin = start + max(linear_margin(self.local.w, self.std, self.law, self.target), 0.0)
        unit = 0.5 * self.ground.sample.deviation

        def propose(pushes: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
            rows_raw = search.rows(margin + pushes, exact_up_to=margin + 2.0 * HAIR * unit)
            if len(rows_raw) or not len(pushes):
                return rows_raw
            # The target is out of reach; what comes near it is worth telling.
            return search.rows(np.linspace(start, margin, len(pushes), endpoint=False), exact_up_to=-math.inf)

        return self._candidates(
            propose,
            estimate=estimate,
            proven=self._first_order if exact else None,
            push_unit=unit,
            exact=exact,
            complete=True,
        )

    def _by_gradient(self) -> Candidates:
        return self._from_pool(self._linearised(self._beginnings()), self._first_order, proven=None)

    def _by_boxes(self) -> Candidates:
        boxes = self.black_box.boxes
        own = boxes is not None
        if boxes is None:
            boxes = self._distilled()
        pool = list(self._in_boxes(boxes))
        rows_raw = np.concatenate(pool) if pool else np.empty((0, self.space.p))
        exact_rates = self._rates_in(boxes)
        return self._from_pool(
            rows_raw, exact_rates, proven=exact_rates if own else None, estimate=None if own else self.screened
        )

    def _from_pool(
        self, pool: Float[np.ndarray, "n p"], rates: Rates, *, proven: Rates | None, estimate: Rates | None = None
    ) -> Candidates:
        """Proposals out of a pool: for each push the cheapest whose rate lies so many deviations beyond the target."""
        depth = self._depth(rates(pool))
        order = self.actions.cost(pool).argsort(kind="stable")

        def propose(pushes: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
            picks = [next((k for k in order if depth[k] >= self._needed + push - 1e-9), None) for push in pushes]
            found = [pick for pick in picks if pick is not None]
            if not found and len(pool) and len(pushes):  # the target is out of reach; what comes near is worth telling
                found = np.argsort(-depth, kind="stable")[: len(pushes)].tolist()
            return pool[found]

        # A pool holds what came up, not all that is legal.
        return self._candidates(
            propose, estimate=estimate or rates, proven=proven, push_unit=0.1, exact=False, complete=False
        )

    def _candidates(
        self,
        propose: Callable[[Float[np.ndarray, "k"]], Float[np.ndarray, "m p"]],
        *,
        estimate: Rates,
        proven: Rates | None,
        push_unit: float,
        exact: bool,
        complete: bool,
    ) -> Candidates:
        margin = max(linear_margin(self.local.w, self.std, self.law, self.target), 0.0)
        return Candidates(
            propose=propose,
            meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
            rate=lambda rows_raw: self.local.score(self.space.encode(rows_raw)),
            push_unit=push_unit,
            exact=exact,
            complete=complete,
            shortfall=lambda rows_raw: self.shortfall(rows_raw, estimate, proven),
            report=lambda row_raw: self.reports.get(row_raw.tobytes()),
            relax=lambda: Search(self.local, self.actions).relaxation(margin),
        )

    # --- with gradients ----------------------------------------------------------------------------------------------

    def _beginnings(self) -> list[Float[np.ndarray, "p"]]:
        """Legal records to begin from: the local model's answer, and where descent leads; shallow first."""
        search = Search(self.local, self.actions, deadline=self.problem.deadline)
        margins = max(search.start_score, 0.0) + 0.5 * self.ground.sample.deviation * DEEPER
        rows_raw = search.rows(margins, exact_up_to=-math.inf)
        found = [self._best(rows_raw)] if len(rows_raw) else []
        hull = Relaxed(self.actions)
        X = np.concatenate(
            [hull.x0[None], self.ground.neighbours[:2], self.space.encode(np.array(found).reshape(-1, self.space.p))]
        )
        starts = np.repeat(X, len(COST_WEIGHTS), axis=0)
        weights = np.tile(COST_WEIGHTS, len(X))[:, None]
        iterates = descend(
            lambda X: self._slope(X) + weights * hull.cost_slope(X), starts, hull, steps=STEPS, rate=STEP
        )
        # Of each beginning the cheapest iterate at every depth; the shallow ones are where linearisations begin.
        iterates = (
            iterates.reshape(STEPS, len(X), len(COST_WEIGHTS), -1).swapaxes(0, 1).reshape(len(X), -1, self.space.d)
        )
        flat = iterates.reshape(-1, self.space.d)
        depth = self._depth(self._first_order_at(flat, "gaussian")).reshape(iterates.shape[:2])
        cost = hull.cost(flat).reshape(depth.shape)
        deep_enough = depth >= self._needed + DEEPER[:, None, None]
        best = np.where(deep_enough, cost, np.inf).argmin(axis=2)
        points = iterates[np.arange(len(X)), best][deep_enough.any(axis=2)]
        rows_raw = self.actions.snap(self.space.decode(points))
        distinct = {row_raw.tobytes(): row_raw for row_raw in [*found, *rows_raw]}
        return list(distinct.values())

    def _slope(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Gradient of ``2 max(0, rate - target) + max(0, -f)^2``, the rate to first order and as if Gaussian.

        The paper's square pulls from both sides; here from the unfavourable side alone, because the cost pulls already.
        """
        f, g = self.meter.score(X), self.meter.gradient(X)
        v = self.std**2 * g
        spread = np.sqrt((g * v).sum(axis=1))
        noisy = spread > 0.0
        z = f / np.where(noisy, spread, 1.0)
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        rises = g - (z / np.where(noisy, spread, 1.0))[:, None] * self._turn(X, v)
        missed = noisy & (z < -ndtri(self.target))
        pull = np.where(missed, 2.0 * density / np.where(noisy, spread, 1.0), 0.0)
        return -pull[:, None] * rises - 2.0 * np.maximum(-f, 0.0)[:, None] * g

    def _turn(self, X: Float[np.ndarray, "n d"], v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Hessian of the score times `v`: how the gradient turns; nothing where the score is piecewise linear."""
        if self.black_box.piecewise_linear:
            return np.zeros_like(v)
        length = np.sqrt((v * v).sum(axis=1, keepdims=True))
        step = CURVATURE_STEP * v / np.where(length > 0.0, length, 1.0)
        ahead, behind = np.split(self.meter.gradient(np.concatenate([X + step, X - step])), 2)
        return (ahead - behind) * (length / (2.0 * CURVATURE_STEP))

    def _linearised(self, beginnings: list[Float[np.ndarray, "p"]]) -> Float[np.ndarray, "n p"]:
        """Legal records found by exact searches on the model's linearisation, again at the best of each search.

        Among them the beginnings themselves, and the neighbours, which lie deep where nothing else does.
        """
        pool, visited = [*beginnings, *self.space.decode(self.ground.neighbours)], set[bytes]()
        for begin in beginnings[:BEGINNINGS]:
            row_raw = begin
            for _ in range(LINEARISATIONS):
                if row_raw.tobytes() in visited:
                    break
                visited.add(row_raw.tobytes())
                rows_raw = self._search_at(row_raw)
                if not len(rows_raw):
                    break
                pool.extend(rows_raw)
                row_raw = self._best(rows_raw)
        rows_raw = np.unique(np.array(pool).reshape(-1, self.space.p), axis=0)
        return rows_raw[self.actions.contains(rows_raw) & (rows_raw != self.actions.factual_raw).any(axis=1)]

    def _search_at(self, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
        X = self.space.encode(row_raw[None])
        f, g = float(self.meter.score(X)[0]), self.meter.gradient(X)[0]
        try:
            model = LinearModel(g, f - float(X[0] @ g)).unit()
        except DegenerateSurrogate:
            return np.empty((0, self.space.p))
        margin = max(linear_margin(model.w, self.std, self.law, self.target), 0.0)
        deviation = float(np.linalg.norm(model.w * self.std))
        search = Search(model, self.actions, deadline=self.problem.deadline)
        return search.rows(margin + deviation * DEEPER, exact_up_to=-math.inf)

    def _best(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p"]:
        """The cheapest that meets the target to first order, or else the one with the lowest rate."""
        rates = self._first_order(rows_raw)
        met = np.flatnonzero(rates <= self.target)
        return rows_raw[met[self.actions.cost(rows_raw[met]).argmin()] if met.size else rates.argmin()]

    # --- in boxes ----------------------------------------------------------------------------------------------------

    def _distilled(self) -> Boxes:
        reference = self.problem.reference
        X = np.concatenate([self.ground.sample.X, reference.X])
        tree = distil(X, np.concatenate([self.ground.sample.favourable, reference.scores >= 0.0]))
        self.fidelity = tree.fidelity
        return tree.boxes

    def _rates_in(self, boxes: Boxes) -> Rates:
        return lambda rows_raw: boxes.rate(self.space.encode(rows_raw), self.std, noise_cdf(self.law))

    def _in_boxes(self, boxes: Boxes) -> Iterator[Float[np.ndarray, "n p"]]:
        """Records, cheapest first, until some lie well beyond the target."""
        rates = self._rates_in(boxes)
        needed = self._needed + ENOUGH
        for rows_raw in rows_in_boxes(boxes, self.actions, self.std):
            yield rows_raw
            if (self._depth(rates(rows_raw)) >= needed).any():
                return


def faults(space: FeatureSpace, params: ProbeParams) -> list[Fault]:
    """What is wrong with the parameters for this model, with pointers into the request."""
    return noise_faults(space, params.noise_std, pointer="/method/noise_std")


METHOD = Method(
    name="probe",
    params=ProbeParams,
    yields=Yields.COUNTERFACTUAL,
    needs=frozenset({Need.BOUNDARY_SAMPLE}),
    generate=generate,
    promise=promise,
    faults=faults,
    knobs={"target_invalidation_rate": -1, "noise_std": 1},
    summary=(
        "The cheapest change that noise in carrying it out undoes no more often than a chosen rate, measured on the "
        "model itself."
    ),
    reference="Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju: Probabilistically Robust Recourse, ICLR 2023",
)
