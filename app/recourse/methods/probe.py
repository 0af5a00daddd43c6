"""PROBE (paper 3): the cheapest change whose invalidation rate under noise stays below a target.

The estimator says how the search judges rates. The answer is always judged by noisy copies of the returned record,
scored by the black box.

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
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from jaxtyping import Float
from scipy.special import ndtri

from app.errors import DegenerateSurrogate, Fault
from app.recourse.candidates import HAIR, Candidates
from app.recourse.features import FeatureSpace
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.tree_boxes import Boxes
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.invalidation import NOISE_LAWS, NoiseLaw, linear_margin, noise_faults
from app.recourse.robustness.measured_invalidation import Estimator, MeasuredInvalidation, Rates
from app.recourse.search.cheapest import Search
from app.recourse.search.gradient import Hull, descend
from app.recourse.search.tree_leaves import rows_in_boxes
from app.recourse.surrogate.boundary import SamplerParams
from app.recourse.surrogate.local import local_linear
from app.recourse.surrogate.tree import distil

COST_WEIGHTS = np.array([0.02, 0.1, 0.3, 1.0])
"""Of the descent's objective, all at once: the paper sweeps one down until its target is met."""
STEPS, STEP = 20, 0.2
"""Of the descent; the size in encoded units."""
CURVATURE_STEP = 1e-3
"""Of the finite difference of the gradient, encoded units."""
BEGINNINGS = 4
"""Records from which the search on linearisations begins."""
LINEARISATIONS = 4
"""Of the model, one after another, from each beginning."""
DEEPER = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])
"""By how many deviations proposals go beyond the target."""
SAME = 1e-5
"""Largest difference between the weights, of length 1, of two linearisations that count as one."""
ENOUGH = 1.0
"""Deviations beyond the target at which records in boxes are deep enough."""


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
    """Noisy copies that the model itself scores before a record is returned; twice as many where the rate is close to
    the target."""


def generate(problem: RecourseProblem, params: ProbeParams, context: MethodContext) -> Candidates:
    """Propose rows whose estimated invalidation rate is at most the target, and rows with still lower rates."""
    return _Probe(problem, params, context).candidates()


def promise(problem: RecourseProblem, params: ProbeParams, meter: Meter) -> Candidates:
    """Candidates that propose no record, but measure the invalidation rate of records that other methods propose."""
    local = LinearModel(np.zeros(problem.action_set.space.d), 0.0)
    measured = MeasuredInvalidation(problem, meter, local, **_measured_by(params))
    return Candidates(
        propose=lambda extra_margins: np.empty((0, measured.space.p)),  # noqa: ARG005
        meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
        rank=problem.action_set.cost,
        extra_margin_unit=1.0,
        shortfall=lambda rows_raw: measured.shortfall(rows_raw, measured.screened, None),
        report=lambda row_raw: measured.reports.get(row_raw.tobytes()),
    )


def _measured_by(params: ProbeParams) -> dict[str, Any]:
    return {
        "target": params.target_invalidation_rate,
        "noise_std": params.noise_std,
        "law": params.noise_law,
        "estimator": params.estimator,
        "samples": params.noise_samples,
    }


class _Probe(MeasuredInvalidation):
    """One question: which records to measure."""

    def __init__(self, problem: RecourseProblem, params: ProbeParams, context: MethodContext) -> None:
        super().__init__(problem, context.meter, local_linear(problem, context.sample), **_measured_by(params))
        self.context = context

    def candidates(self) -> Candidates:
        """The proposals, found by the search that suits the estimator and the model."""
        if self.estimator == "tree":
            return self._by_boxes()
        if self.black_box.linear and self.black_box.fractional:
            return self._by_margin(estimate=self.first_order, exact=True)
        if self.estimator == "monte_carlo":
            return self._by_margin(estimate=self.screened, exact=False)
        if self.black_box.gradient is None:
            return self._by_margin(estimate=self.first_order, exact=False)
        return self._by_gradient()

    # --- proposals ---------------------------------------------------------------------------------------------------

    def _by_margin(self, *, estimate: Rates, exact: bool) -> Candidates:
        """Searches on the local linear model; optimal for a linear black box, where both are the same."""
        search = Search(self.local, self.actions, deadline=self.problem.deadline)
        # Where the local model accepts the factual and the model does not, margins count from the factual's score.
        start = 0.0 if exact else max(search.start_score, 0.0)
        margin = start + max(linear_margin(self.local.w, self.std, self.law, self.target), 0.0)
        unit = 0.5 * self.context.sample.deviation

        def propose(extra_margins: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
            rows_raw = search.rows(margin + extra_margins, exact_up_to=margin + 2.0 * HAIR * unit)
            if len(rows_raw) or not len(extra_margins):
                return rows_raw
            # The target is out of reach; propose what comes nearest.
            return search.rows(np.linspace(start, margin, len(extra_margins), endpoint=False), exact_up_to=-math.inf)

        return self._candidates(
            propose,
            estimate=estimate,
            proven=self.first_order if exact else None,
            extra_margin_unit=unit,
            is_optimal=exact,
            proves_infeasible=True,
        )

    def _by_gradient(self) -> Candidates:
        return self._from_pool(self._linearised(self._beginnings()), self.first_order, proven=None)

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
        """Proposals out of a pool: for each extra margin, in deviations, the cheapest that exceeds the target by it."""
        depth = self.depth(rates(pool))
        order = self.actions.cost(pool).argsort(kind="stable")

        def propose(extra_margins: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
            least = self.needed + extra_margins - 1e-9
            picks = [next((k for k in order if depth[k] >= one), None) for one in least]
            found = [pick for pick in picks if pick is not None]
            if not found and len(pool) and len(extra_margins):  # the target is out of reach; propose what comes nearest
                found = np.argsort(-depth, kind="stable")[: len(extra_margins)].tolist()
            return pool[found]

        # A pool holds the records that searches found, not every legal record.
        return self._candidates(
            propose,
            estimate=estimate or rates,
            proven=proven,
            extra_margin_unit=0.1,
            is_optimal=False,
            proves_infeasible=False,
        )

    def _candidates(
        self,
        propose: Callable[[Float[np.ndarray, "k"]], Float[np.ndarray, "m p"]],
        *,
        estimate: Rates,
        proven: Rates | None,
        extra_margin_unit: float,
        is_optimal: bool,
        proves_infeasible: bool,
    ) -> Candidates:
        margin = max(linear_margin(self.local.w, self.std, self.law, self.target), 0.0)
        return Candidates(
            propose=propose,
            meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
            rank=lambda rows_raw: self.local.score(self.space.encode(rows_raw)),
            extra_margin_unit=extra_margin_unit,
            is_optimal=is_optimal,
            proves_infeasible=proves_infeasible,
            shortfall=lambda rows_raw: self.shortfall(rows_raw, estimate, proven),
            report=lambda row_raw: self.reports.get(row_raw.tobytes()),
            relax=lambda: Search(self.local, self.actions).relaxation(margin),
        )

    # --- with gradients ----------------------------------------------------------------------------------------------

    def _beginnings(self) -> list[Float[np.ndarray, "p"]]:
        """Legal records to start from: the local model's answer, and the results of the descent; shallow first."""
        search = Search(self.local, self.actions, deadline=self.problem.deadline)
        margins = max(search.start_score, 0.0) + 0.5 * self.context.sample.deviation * DEEPER
        rows_raw = search.rows(margins, exact_up_to=-math.inf)
        found = list(self._best_of_each([rows_raw])) if len(rows_raw) else []
        hull = Hull(self.actions)
        X = np.concatenate(
            [hull.x0[None], self.context.neighbours[:2], self.space.encode(np.array(found).reshape(-1, self.space.p))]
        )
        starts = np.repeat(X, len(COST_WEIGHTS), axis=0)
        weights = np.tile(COST_WEIGHTS, len(X))[:, None]
        iterates = descend(
            lambda X: self._slope(X) + weights * hull.cost_slope(X), starts, hull, steps=STEPS, rate=STEP
        )
        # For each start the cheapest iterate at every depth; linearisations start at the shallow ones.
        iterates = (
            iterates.reshape(STEPS, len(X), len(COST_WEIGHTS), -1).swapaxes(0, 1).reshape(len(X), -1, self.space.d)
        )
        flat = iterates.reshape(-1, self.space.d)
        depth = self.depth(self.first_order_at(flat, "gaussian")).reshape(iterates.shape[:2])
        cost = hull.cost(flat).reshape(depth.shape)
        deep_enough = depth >= self.needed + DEEPER[:, None, None]
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
        spread = np.where(noisy, spread, 1.0)
        z = f / spread
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        rises = g if self.black_box.piecewise_linear else g - (z / spread)[:, None] * self._turn(X, v)
        missed = noisy & (z < -ndtri(self.target))
        pull = np.where(missed, 2.0 * density / spread, 0.0)
        return -pull[:, None] * rises - 2.0 * np.maximum(-f, 0.0)[:, None] * g

    def _turn(self, X: Float[np.ndarray, "n d"], v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Hessian of the score times `v`."""
        length = np.sqrt((v * v).sum(axis=1, keepdims=True))
        step = CURVATURE_STEP * v / np.where(length > 0.0, length, 1.0)
        ahead, behind = np.split(self.meter.gradient(np.concatenate([X + step, X - step])), 2)
        return (ahead - behind) * (length / (2.0 * CURVATURE_STEP))

    def _linearised(self, beginnings: list[Float[np.ndarray, "p"]]) -> Float[np.ndarray, "n p"]:
        """Legal records found by exact searches on the model's linearisation, again at the best of each search.

        Includes the starts themselves and the neighbours, which are deep where no other record is.
        """
        at = np.array(beginnings).reshape(-1, self.space.p)
        pool, known = [at, self.space.decode(self.context.neighbours)], list[Float[np.ndarray, "m"]]()
        at = at[:BEGINNINGS]
        for _ in range(LINEARISATIONS if len(at) else 0):
            found = [rows_raw for rows_raw in self._searches_at(at, known) if len(rows_raw)]
            if not found:
                break
            pool += found
            at = self._best_of_each(found)
        rows_raw = unique_rows(np.concatenate(pool))
        return rows_raw[self.actions.contains(rows_raw) & (rows_raw != self.actions.factual_raw).any(axis=1)]

    def _searches_at(
        self, rows_raw: Float[np.ndarray, "k p"], known: list[Float[np.ndarray, "m"]]
    ) -> Iterator[Float[np.ndarray, "n p"]]:
        """For each record the cheapest ones, by margin, on the linearisation there, if that is a new one.

        A network of pieces has the same linearisation all over a piece.

        Parameters
        ----------
        known : weights of linearisations, intercept last, of which there are searches; new ones are added
        """
        X = self.space.encode(rows_raw)
        for x, f, g in zip(X, self.meter.score(X).tolist(), self.meter.gradient(X), strict=True):
            try:
                model = LinearModel(g, f - float(x @ g)).unit()
            except DegenerateSurrogate:
                continue
            if any(np.abs(model.theta - theta).max() <= SAME for theta in known):
                continue
            known.append(model.theta)
            margin = max(linear_margin(model.w, self.std, self.law, self.target), 0.0)
            deviation = float(np.linalg.norm(model.w * self.std))
            search = Search(model, self.actions, deadline=self.problem.deadline)
            yield search.rows(margin + deviation * DEEPER, exact_up_to=-math.inf)

    def _best_of_each(self, found: list[Float[np.ndarray, "n p"]]) -> Float[np.ndarray, "k p"]:
        """Of each of these the cheapest that meets the target to first order, or else the one with the lowest rate."""
        rates = np.split(self.first_order(np.concatenate(found)), np.cumsum([len(rows_raw) for rows_raw in found])[:-1])
        best = []
        for rows_raw, rate in zip(found, rates, strict=True):
            met = np.flatnonzero(rate <= self.target)
            best.append(rows_raw[met[self.actions.cost(rows_raw[met]).argmin()] if met.size else rate.argmin()])
        return np.array(best)

    # --- in boxes ----------------------------------------------------------------------------------------------------

    def _distilled(self) -> Boxes:
        reference = self.problem.reference
        X = np.concatenate([self.context.sample.X, reference.X])
        tree = distil(X, np.concatenate([self.context.sample.favourable, reference.scores >= 0.0]))
        self.fidelity = tree.fidelity
        return tree.boxes

    def _rates_in(self, boxes: Boxes) -> Rates:
        return lambda rows_raw: boxes.rate(self.space.encode(rows_raw), self.std, NOISE_LAWS[self.law].cdf)

    def _in_boxes(self, boxes: Boxes) -> Iterator[Float[np.ndarray, "n p"]]:
        """Records, cheapest first, until some lie well beyond the target."""
        rates = self._rates_in(boxes)
        needed = self.needed + ENOUGH
        for rows_raw in rows_in_boxes(boxes, self.actions, self.std):
            yield rows_raw
            if (self.depth(rates(rows_raw)) >= needed).any():
                return


def faults(space: FeatureSpace, params: ProbeParams) -> list[Fault]:
    """One fault for each key of `noise_std` that is not a numeric feature.

    The JSON pointer of a fault starts at the parameters.
    """
    return [fault.under("/noise_std") for fault in noise_faults(space, params.noise_std)]


METHOD = Method(
    name="probe",
    params=ProbeParams,
    yields=Yields.COUNTERFACTUAL,
    takes_long=True,
    generate=generate,
    promise=promise,
    faults=faults,
    knobs={"target_invalidation_rate": -1, "noise_std": 1},
    summary=(
        "The cheapest change that stays favourable under inexact implementation: noise invalidates it no more often "
        "than a chosen rate, measured on the model itself."
    ),
    reference="Pawelczyk, Datta, van den Heuvel, Kasneci, Lakkaraju: Probabilistically Robust Recourse, ICLR 2023",
)
