"""Growing spheres: the nearest favourable record among random ones at growing distance. A baseline without a surrogate.

Records are drawn in shells around the factual and made legal. The cheapest favourable record of the first shell with
one is taken, and its changes are undone, smallest first, as long as the model still accepts it. The paper halves the
first sphere until nothing in it is favourable; here several shells are scored in one call, from the smallest.

References
----------
Laugel et al., "Comparison-based inverse classification for interpretability in machine learning", 2018.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.problem import RecourseProblem
from app.recourse.search.local_moves import SingleMoves
from app.recourse.surrogate.boundary import SamplerParams

SHELLS_PER_CALL = 5
CALLS = 8
"""Calls without a favourable record after which the search ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingSpheresParams(SamplerParams, MethodParams):
    """Parameters of growing spheres."""

    shell_width: Annotated[float, Interval(gt=0, le=10)] = 0.2
    """By how much the radius grows from shell to shell, encoded units."""
    shell_samples: Annotated[int, Interval(ge=10, le=5000)] = 300
    """Records drawn in each shell."""


def generate(problem: RecourseProblem, params: GrowingSpheresParams, context: MethodContext) -> Candidates:
    """Propose the nearest accepted record found, and versions of it that leave out its smallest changes."""
    rows_raw = _search(problem, params, context)
    cost = problem.action_set.cost
    order = cost(rows_raw).argsort(kind="stable")
    return Candidates(
        propose=lambda extra_margins: rows_raw[order[: len(extra_margins)]],
        meets=lambda rows: np.ones(len(rows), dtype=bool),
        rank=lambda rows: -cost(rows),
        extra_margin_unit=1.0,
        is_optimal=False,
        takes_any=True,
        proves_infeasible=False,
    )


def _search(problem: RecourseProblem, params: GrowingSpheresParams, context: MethodContext) -> Float[np.ndarray, "n p"]:
    """Favourable legal rows: the nearest found, and the same with changes undone; none where none is found."""
    A, rng = problem.action_set, np.random.default_rng(problem.seed)
    for call in range(CALLS):
        radii = params.shell_width * (1.0 + np.arange(call * SHELLS_PER_CALL, (call + 1) * SHELLS_PER_CALL))
        # Later calls take wider steps, or far boundaries would never be reached.
        rows = np.concatenate([_shell(problem, rng, params, radius * 2.0**call) for radius in radii])
        rows = A.clock.settled(rows)
        if A.rules and not A.contains(rows).any():
            rows = np.concatenate([rows, *SingleMoves(A).balanced(rows)])
        rows = rows[A.contains(rows) & (rows != A.factual_raw).any(axis=1)]
        if not len(rows):
            continue
        accepted = rows[problem.black_box.accepts(context.meter.score_raw(rows))]
        if len(accepted):
            nearest = accepted[A.cost(accepted).argmin()]
            fewer = _undone_one_by_one(problem, nearest)
            kept = fewer[problem.black_box.accepts(context.meter.score_raw(fewer))] if len(fewer) else fewer
            return np.concatenate([nearest[None], kept])
    return np.empty((0, A.space.p))


def _shell(
    problem: RecourseProblem, rng: np.random.Generator, params: GrowingSpheresParams, radius: float
) -> Float[np.ndarray, "n p"]:
    """Legal rows about as far from the factual as `radius`; a change of category becomes likelier with the radius."""
    A, space, n = problem.action_set, problem.action_set.space, params.shell_samples
    rows = np.tile(A.factual_raw, (n, 1))
    moving = A.movable[space.numeric]
    numbers = space.numeric[moving]
    if numbers.size:
        directions = rng.standard_normal((n, len(numbers)))
        lengths = radius - params.shell_width * rng.random((n, 1))
        directions *= np.maximum(lengths, 0.0) / np.linalg.norm(directions, axis=1, keepdims=True)
        rows[:, numbers] += directions * space.scale_raw[moving]
    for j in space.groups[A.movable[space.groups]].tolist():
        switch = rng.random(n) < min(0.5, radius**2 / (2.0 * space.d))
        rows[switch, j] = rng.choice(A.levels(j), size=int(switch.sum()))
    return A.snap(rows)


def _undone_one_by_one(problem: RecourseProblem, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
    """The row with its smallest change undone, its two smallest, and so on; at least one change remains."""
    A = problem.action_set
    changed = np.flatnonzero(row_raw != A.factual_raw)
    single = np.tile(A.factual_raw, (len(changed), 1))
    single[np.arange(len(changed)), changed] = row_raw[changed]
    order = changed[A.cost(single).argsort(kind="stable")]
    rows = np.tile(row_raw, (max(len(changed) - 1, 0), 1))
    for k in range(len(rows)):
        rows[k, order[: k + 1]] = A.factual_raw[order[: k + 1]]
    return rows[A.contains(rows)]


METHOD = Method(
    name="growing_spheres",
    params=GrowingSpheresParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    summary="The nearest favourable record among random ones at growing distance; a baseline, not robust.",
    reference="Laugel et al.: Comparison-based inverse classification for interpretability in machine learning, 2018",
)
