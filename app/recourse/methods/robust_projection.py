"""The cheapest action that every linear model within a Euclidean radius accepts (the ablation of paper 1).

``min cost  subject to  w.x + c - radius |(x, 1)|_2 >= 0``, ``|w| = 1``: a second-order cone program. Over lattices,
categories and caps, a mixed-integer program with tangents of the cone chooses the integer variables, the cone program
the continuous ones, and its optimum gives the next tangent, until no cheaper row is left (outer approximation; Duran
and Grossmann 1986).

References
----------
Bui, Nguyen, Yue, Nguyen, "Coverage-Validity-Aware Algorithmic Recourse", 2023, ablation study.
"""

import math
import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.linear import LinearModel, homogeneous
from app.recourse.numerics.solvers import cone_program
from app.recourse.problem import RecourseProblem
from app.recourse.search.cheapest import Search
from app.recourse.search.mixed_integer import FAR, ActionProgram
from app.recourse.search.rule_branching import solve_program
from app.recourse.surrogate.linear_fits import SurrogateParams
from app.recourse.surrogate.local import logit_model

ROUNDS = 20
"""Rounds of tangents."""
TOLERANCE = 1e-7
"""Of the constraint, encoded units."""
DUST = 1e-6
"""Shorter moves of continuous features are solver residue, encoded units."""
RUNGS = 24
"""Rows of growing score that are tried where no row has a worst score >= 0."""
HALVINGS = 5
"""Of the interval in which the largest worst score lies."""
FARTHEST = 10.0
"""Score up to which they grow where a number has no limit, encoded units."""
SLACK = 1e-6
"""By which the worst score may miss 0 in an answer, encoded units."""
LONGEST_S = 10.0
"""Of a cone program without a deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustProjectionParams(SurrogateParams, MethodParams):
    """Parameters of the robust projection."""

    weight_radius: Annotated[float, Interval(ge=0, lt=1)] = 0.1
    """How far the weights, of length 1, and the intercept may move together (Euclidean)."""


def worst_score(model: LinearModel, radius: float, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    """Score of each point under the linear model that is worst for this point, among all models within the radius."""
    return model.score(X) - radius * np.linalg.norm(homogeneous(X), axis=1)


def project(
    program: ActionProgram, model: LinearModel, radius: float, deadline: float
) -> Float[np.ndarray, "p"] | None:
    """The cheapest legal row whose worst score is at least 0; None if no legal row has such a score.

    The worst score is that of `worst_score`, over all linear models within `radius` of `model`.

    Raises
    ------
    DeadlineExceeded : no row was known at `deadline`, a `time.monotonic()`
    SolverFailed : a solver ended without an answer
    """
    every = np.ones(program.size, dtype=bool)
    relaxed = _continuous(program, model, radius, np.zeros(program.size), every, deadline)
    if relaxed is None:
        return None
    encode = program.action_set.space.encode
    best: Float[np.ndarray, p] | None = None
    best_cost = math.inf
    points = [program.start + program.effect @ relaxed]
    for _ in range(ROUNDS):
        tangents = [_tangent(model, radius, point) for point in points]
        rows = np.array([tangent.w @ program.effect for tangent in tangents])
        lower = np.array([-float(tangent.score(program.start[None])[0]) for tangent in tangents])
        found = solve_program(program, program.cost, rows, lower, deadline=deadline)
        if found is None or found.value >= best_cost - TOLERANCE:
            break
        z = _continuous(program, model, radius, found.z, ~program.integer, deadline)
        if z is not None and (dust := ~program.integer & (np.abs(program.effect).max(axis=0) * z < DUST)).any():
            settled = np.where(dust, 0.0, found.z)
            z = _continuous(program, model, radius, settled, ~program.integer & ~dust, deadline)
        if z is not None and not program.keeps_rules(program.row(z)):
            z = None  # only its own part of the action set keeps the rules
        row_raw = found.row_raw if z is None else program.row(z)
        point, cost = encode(row_raw[None])[0], found.value if z is None else float(program.cost @ z)
        if worst_score(model, radius, point[None])[0] >= -TOLERANCE and cost < best_cost:
            best, best_cost = row_raw, cost
        points.append(point)
    return best


def _tangent(model: LinearModel, radius: float, point: Float[np.ndarray, "d"]) -> LinearModel:
    """The linear model tangent to the worst score at a point; nowhere below it."""
    length = math.sqrt(float(point @ point) + 1.0)
    return LinearModel(model.w - radius * point / length, model.c - radius / length)


def _continuous(
    program: ActionProgram,
    model: LinearModel,
    radius: float,
    z: Float[np.ndarray, "n"],
    free: Bool[np.ndarray, "n"],
    deadline: float,
) -> Float[np.ndarray, "n"] | None:
    """The best values of the free variables, taken as continuous, with the others fixed.

    None where that is infeasible, or no variable is free.
    """
    if not free.any():
        return None
    fixed = np.where(free, 0.0, z)
    n, d = int(np.count_nonzero(free)), len(program.start)
    own, slack = program.rows, program.rows @ fixed
    above, below = np.isfinite(program.upper), np.isfinite(program.lower)
    eye, limit = np.eye(n), program.limit[free]
    capped = np.isfinite(limit)
    # Scaled by cost and by the largest entry of each row, because steps of a fine lattice are many and small.
    unit = 1.0 / np.where(program.cost[free] > 0.0, program.cost[free], 1.0)
    linear = np.concatenate([-eye, eye[capped], own[above][:, free], -own[below][:, free]]) * unit
    limits = np.concatenate(
        [np.zeros(n), limit[capped], (program.upper - slack)[above], (slack - program.lower)[below]]
    )
    size = np.abs(linear).max(axis=1, initial=0.0)
    size[size == 0.0] = 1.0
    start, effect = program.start + program.effect @ fixed, program.effect[:, free]
    # First row of the cone: the score; then radius times the point, and times 1.
    cone = np.concatenate([-(model.w @ effect)[None], -radius * effect, np.zeros((1, n))])
    A = np.concatenate([linear / size[:, None], cone * unit])
    at = np.nonzero(A)
    answer = cone_program(
        program.cost[free] * unit,
        (A[at], (at[0], at[1])),
        np.concatenate([limits / size, model.score(start[None]), radius * start, [radius]]),
        [("nonnegative", len(linear)), ("second_order", d + 2)],
        deadline=time.monotonic() + LONGEST_S if math.isinf(deadline) else deadline,
    )
    if answer is None:
        return None
    found = fixed.copy()
    found[free] = np.clip(answer.x * unit, 0.0, limit)
    return found


def generate(problem: RecourseProblem, params: RobustProjectionParams, context: MethodContext) -> Candidates:
    """Propose the cheapest row that all models within the radius accept, and further rows for larger margins."""
    local = logit_model(problem, context.sample, context.meter, params.surrogate)
    model, radius, space = local.model.unit(), params.weight_radius, problem.action_set.space
    program = ActionProgram(problem.action_set, reach=FAR * float(problem.action_set.weights.max()))
    best = project(program, model, radius, problem.deadline)

    def propose(extra_margins: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        if best is None:
            return np.empty((0, space.p))
        tangent = _tangent(model, radius, space.encode(best[None])[0])
        search = Search(tangent, problem.action_set, deadline=problem.deadline)
        positive = extra_margins[extra_margins > 0.0]
        further = search.rows(np.maximum(search.start_score, 0.0) + positive, exact_up_to=-math.inf)
        # The tangent accepts more than the constraint.
        return np.concatenate([best[None][: int((extra_margins == 0.0).any())], further[meets(further)]])

    def nearest() -> Float[np.ndarray, "n p"]:
        """Rows of increasing score, then the cheapest rows for several worst scores below 0."""
        search = Search(model, problem.action_set, deadline=problem.deadline)
        rows = np.empty((0, space.p))
        if search.reach > search.start_score:
            top = min(search.reach, max(search.start_score, 0.0) + FARTHEST)
            rows = search.rows(np.linspace(search.start_score, top, RUNGS + 1)[1:], exact_up_to=-math.inf)
        low = float(worst_score(model, radius, space.encode(np.vstack([problem.factual_raw, rows]))).max())
        high, found = 0.0, [rows]
        for _ in range(HALVINGS if low < 0.0 and best is None else 0):
            middle = 0.5 * (low + high)
            try:
                row_raw = project(program, LinearModel(model.w, model.c - middle), radius, problem.deadline)
            except (DeadlineExceeded, SolverFailed):
                break
            low, high = (low, middle) if row_raw is None else (middle, high)
            found += [] if row_raw is None else [row_raw[None]]
        return np.concatenate(found)

    def how_far(row_raw: Float[np.ndarray, "p"]) -> str | None:
        point = space.encode(row_raw[None])
        if worst_score(model, radius, point)[0] >= -SLACK:
            return None
        reached = max(float(model.score(point)[0] / np.linalg.norm(homogeneous(point))), 0.0)
        return f"Every linear model within a radius of {reached:.3g} accepts it; weight_radius is {radius:g}."

    def meets(rows_raw: Float[np.ndarray, "n p"]) -> np.ndarray:
        return worst_score(model, radius, space.encode(rows_raw)) >= -TOLERANCE

    return Candidates(
        propose=propose,
        meets=meets,
        rank=lambda rows_raw: worst_score(model, radius, space.encode(rows_raw)),
        nearest=nearest,
        how_far=how_far,
        extra_margin_unit=0.5 * context.sample.deviation,
        surrogate=local.report,
        relax=lambda: Search(model, problem.action_set).relaxation(0.0),
    )


METHOD = Method(
    name="robust_projection",
    params=RobustProjectionParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    knobs={"weight_radius": 1},
    summary="The cheapest change that every linear model within a Euclidean radius of the local one accepts.",
    reference="Bui, Nguyen, Yue, Nguyen: Coverage-Validity-Aware Algorithmic Recourse, 2023 (ablation)",
)
