"""PROBE (paper 3): the cheapest change whose invalidation rate under noise stays below a target.

The estimator says how the search judges rates. The answer is always judged by noisy copies of the returned record,
scored by the black box.

==============  =======================================================================================================
linear model    the rate is a margin (`linear_margin`): an exact search with that margin, nothing to improve
gradients       exact searches on the linearisations at legal records, then single moves; rates to first order
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

from app.errors import DegenerateSurrogate, Fault
from app.recourse.candidates import HAIR, Candidates
from app.recourse.features import FeatureSpace
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.tree_boxes import Boxes
from app.recourse.numerics.linalg import unique_rows, unique_rows_and_places
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.invalidation import (
    NOISE_LAWS,
    NoiseLaw,
    invalidation_rate_linear,
    linear_margin,
    noise_faults,
)
from app.recourse.robustness.measured_invalidation import Estimator, MeasuredInvalidation, Rates
from app.recourse.search.cheapest import Search
from app.recourse.search.local_moves import SingleMoves
from app.recourse.search.tree_leaves import rows_in_boxes
from app.recourse.surrogate.boundary import SamplerParams
from app.recourse.surrogate.local import local_linear
from app.recourse.surrogate.tree import distil

BEGINNINGS = 4
"""Records at which each further round linearises."""
NEAREST = 3
"""Accepted records near the applicant's from which the search on linearisations begins too."""
POLISHED, DEEP = 2, 0.5
"""Times that single moves from the best record are tried; the share of the target that is well beyond it."""
LINEARISATIONS = 2
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
    """Standard deviation of inexact implementation, encoded units: one number for all numeric features not
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
        rows_raw, rates = self._polished(*self._linearised(self._beginnings()))
        known = dict(zip((row.tobytes() for row in rows_raw), rates.tolist(), strict=True))

        def estimate(rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
            found = [known.get(row.tobytes()) for row in rows_raw]
            return self.first_order(rows_raw) if None in found else np.array(found, dtype=float)

        judged = estimate if self.black_box.piecewise_linear else self.screened
        return self._from_pool(rows_raw, rates, proven=None, estimate=judged, unit=0.2)

    def _by_boxes(self) -> Candidates:
        boxes = self.black_box.boxes
        own = boxes is not None
        if boxes is None:
            boxes = self._distilled()
        pool = list(self._in_boxes(boxes))
        rows_raw = np.concatenate(pool) if pool else np.empty((0, self.space.p))
        exact = self._rates_in(boxes)
        return self._from_pool(
            rows_raw, exact(rows_raw), proven=exact if own else None, estimate=exact if own else self.screened
        )

    def _from_pool(
        self,
        pool: Float[np.ndarray, "n p"],
        rates: Float[np.ndarray, "n"],
        *,
        proven: Rates | None,
        estimate: Rates,
        unit: float = 0.1,
    ) -> Candidates:
        """Proposals out of a pool: for each extra margin, in deviations, the cheapest that exceeds the target by it."""
        depth = self.depth(rates)
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
            estimate=estimate,
            proven=proven,
            extra_margin_unit=unit,
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

    def _beginnings(self) -> Float[np.ndarray, "n p"]:
        """Legal records to start from: the applicant's own, the local model's answers, and near ones."""
        search = Search(self.local, self.actions, deadline=self.problem.deadline)
        margins = max(search.start_score, 0.0) + 0.5 * self.context.sample.deviation * DEEPER
        sample = self.context.sample
        near_raw = self.actions.snap(self.space.decode(sample.X[sample.favourable]))
        cheapest = near_raw[self.actions.cost(near_raw).argsort(kind="stable")[:NEAREST]]
        neighbours = self.actions.snap(self.space.decode(self.context.neighbours[:NEAREST]))
        rows_raw = np.concatenate([search.rows(margins, exact_up_to=-math.inf), cheapest, neighbours])
        return np.concatenate([self.actions.factual_raw[None], unique_rows(rows_raw)])

    def _linearised(
        self, beginnings: Float[np.ndarray, "n p"]
    ) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, "m"]]:
        """Legal records found by exact searches on the model's linearisation, again at the best of each search.

        Includes the starts themselves, which are deep where no other record is. Returned with their estimated rates.
        """
        known, at = list[Float[np.ndarray, "m"]](), beginnings
        scores, slopes = self._asked(at)
        pool, judged = [at], [invalidation_rate_linear(scores, slopes, self.std, self.law)]
        for _ in range(LINEARISATIONS):
            found = [rows_raw for rows_raw in self._searches_at(at, scores, slopes, known) if len(rows_raw)]
            if not found:
                break
            at = np.concatenate(found)
            scores, slopes = self._asked(at)
            rates = invalidation_rate_linear(scores, slopes, self.std, self.law)
            pool.append(at)
            judged.append(rates)
            best = sorted(self._best_of_each(found, rates), key=lambda k: self._worth(at[k], float(rates[k])))[
                :BEGINNINGS
            ]
            at, scores, slopes = at[best], scores[best], slopes[best]
        rows_raw, places = unique_rows_and_places(np.concatenate(pool))
        rates = np.empty(len(rows_raw))
        rates[places] = np.concatenate(judged)
        legal = self.actions.contains(rows_raw) & (rows_raw != self.actions.factual_raw).any(axis=1)
        return rows_raw[legal], rates[legal]

    def _asked(self, rows_raw: Float[np.ndarray, "n p"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n d"]]:
        X = self.space.encode(rows_raw)
        return self.meter.score(X), self.meter.gradient(X)

    def _searches_at(
        self,
        rows_raw: Float[np.ndarray, "k p"],
        scores: Float[np.ndarray, "k"],
        slopes: Float[np.ndarray, "k d"],
        known: list[Float[np.ndarray, "m"]],
    ) -> Iterator[Float[np.ndarray, "n p"]]:
        """For each record the cheapest ones, by margin, on the linearisation there, if that is a new one.

        A network of pieces has the same linearisation all over a piece.

        Parameters
        ----------
        known : weights of linearisations, intercept last, of which there are searches; new ones are added
        """
        X = self.space.encode(rows_raw)
        for row_raw, x, f, g in zip(rows_raw, X, scores.tolist(), slopes, strict=True):
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
            found = search.rows(margin + deviation * DEEPER, exact_up_to=-math.inf)
            if not self.black_box.piecewise_linear:  # the slope may change on the way
                halfway, numeric = found.copy(), self.space.numeric
                halfway[:, numeric] = 0.5 * (found + row_raw)[:, numeric]
                halfway = self.actions.snap(halfway)
                found = np.concatenate([found, halfway[self.actions.contains(halfway)]])
            yield found

    def _best_of_each(self, found: list[Float[np.ndarray, "n p"]], rates: Float[np.ndarray, "m"]) -> list[int]:
        """Of each of these the cheapest that meets the target, or else the one with the lowest rate; places in all."""
        ends = np.cumsum([len(rows_raw) for rows_raw in found])
        parts = zip(found, np.split(rates, ends[:-1]), ends, strict=True)
        return [int(end) - len(rows_raw) + self._best(rows_raw, rate, self.target) for rows_raw, rate, end in parts]

    def _worth(self, row_raw: Float[np.ndarray, "p"], rate: float) -> tuple[float, float]:
        """Order of records: those that meet the target by cost, then the others by rate."""
        return max(rate, self.target), float(self.actions.cost(row_raw[None])[0])

    def _best(self, rows_raw: Float[np.ndarray, "n p"], rates: Float[np.ndarray, "n"], target: float) -> int:
        met = np.flatnonzero(rates <= target)
        return int(met[self.actions.cost(rows_raw[met]).argmin()] if met.size else rates.argmin())

    def _polished(
        self, pool: Float[np.ndarray, "n p"], rates: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, "m"]]:
        """The pool with the records one move away from its best, again while these have a better one; and their rates.

        Likewise from the best that are well beyond the target, which are left where measured rates are higher.
        """
        moves = SingleMoves(self.actions)
        targets, tried = (self.target, self.target * DEEP), set[bytes]()
        for _ in range(POLISHED if len(pool) else 0):
            best = {row.tobytes(): row for row in (pool[self._best(pool, rates, target)] for target in targets)}
            near = [moves.of(row) for key, row in best.items() if key not in tried]
            if not sum(map(len, near)):
                break
            tried |= set(best)
            pool = np.concatenate([pool, *near])
            rates = np.concatenate([rates, self.first_order(np.concatenate(near))])
        return pool, rates

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
