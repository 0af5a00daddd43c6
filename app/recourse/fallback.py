"""Records that no method proposed, for answers in which the proposals were refused or there were none.

All legal records where they are few; else favourable reference records made legal for this person, samples that the
model accepted, extreme changes of one or two features and the cheapest record of a linear model. Records in which only
time has passed are tried too. Where the model refuses all of these, `relaxation` names the constraint that binds.
"""

import math
from collections.abc import Callable
from itertools import islice

import numpy as np
from jaxtyping import Float

from app.errors import DegenerateSurrogate, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.candidates import HAIR
from app.recourse.models.linear import LinearModel
from app.recourse.models.score import favourable
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import RecourseProblem
from app.recourse.search.cheapest import Search
from app.recourse.search.legal_rows import every_row, nearest_legal
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.class_moments import class_moments
from app.recourse.surrogate.local import own_linear
from app.recourse.surrogate.mpm import fit
from app.recourse.verdict import Relaxation

REFERENCES = 20
"""Favourable reference records that are tried."""
SAMPLES = 50
"""Accepted samples that are tried, the cheapest ones."""
MOST_STEPS = 60
"""Records on the way to each: of a wide schema several changes are made at once."""
MAX_PAIRS = 3000
"""Pairs of extreme changes that are tried with them."""
MOST_NUMBERS = 300_000
"""Encoded numbers in the records of these pairs: fewer pairs of a wide schema."""
MOST_ROWS, MOST_ROWS_FREE = 5000, 2000
"""Records up to which all that are legal are tried: where rules tie features, and where none do."""
RELAXATION_RECORDS = 200
"""Reference records of each decision that the search for the binding constraint uses."""
RELAXATION_COLUMNS = 200
"""Encoded columns that it is fitted to, those in which the decisions differ most."""
FALLBACK_WARNING = (
    "The method's own constraint cannot be met, or the model refused every record that the method proposed. This "
    "answer comes from adapted reference records, from samples near the boundary, from extreme changes of one or two "
    "features, from all legal records, or from the model's own weights: the model accepts it, but it may not be robust."
)

NEAREST_WARNING = (
    "The method's own constraint cannot be met, or the model refused every record that the method proposed. Of the "
    "records that were tried and that the model accepts, this answer comes nearest to the constraint."
)


def fallback_rows(
    problem: RecourseProblem,
    rank: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]],
    sample: BoundarySample | None = None,
) -> tuple[Float[np.ndarray, "m p"], int | None]:
    """Distinct legal raw rows that the black box is asked about if a method's own proposals are not enough.

    Parameters
    ----------
    rank : how favourable the model is expected to find each row; larger is better, and only the order counts
    sample : encoded points with the decisions of the black box

    Returns
    -------
    (m, p), the rows; and the number of all legal rows in which the person changes something, None where only some of
        the legal rows are returned
    """
    actions = problem.action_set
    if (every := every_row(actions, MOST_ROWS if actions.rules else MOST_ROWS_FREE)) is not None:
        changed = int((actions.changed(every) > 0).sum())
        return np.concatenate([every, actions.clock.waiting()]), changed
    parts = [_reference_rows(problem, rank), _corners(actions), _cheapest_of_linear(problem)]
    if sample is not None:
        accepted = actions.snap(actions.space.decode(sample.X[sample.favourable]))
        parts.append(accepted[actions.cost(accepted).argsort(kind="stable")[:SAMPLES]])
    rows_raw = unique_rows(np.concatenate(parts))
    return np.concatenate([actions.clock.settled(rows_raw), actions.clock.waiting()]), None


def _reference_rows(
    problem: RecourseProblem, rank: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]
) -> Float[np.ndarray, "n p"]:
    """Favourable reference records made legal for this person, nearest first, and the way to each.

    A reference record usually differs in many features; the way makes its changes one after another, highest rank
    first, so that a record with few changes is found where one exists.
    """
    actions, fact = problem.action_set, problem.factual_raw
    p = actions.space.p
    rows = actions.snap(problem.reference.rows_favourable_raw)
    rows = rows[actions.cost(rows).argsort(kind="stable")[:REFERENCES]]
    if actions.rules and not actions.contains(rows).any():
        rows = np.concatenate([rows, nearest_legal(actions, rows, deadline=problem.deadline)])
    made = np.tri(p, dtype=bool)[np.linspace(0, p - 1, min(p, MOST_STEPS)).astype(int)]
    ways = []
    for row_raw in rows:
        single = np.where(np.eye(p, dtype=bool), row_raw, fact)
        order = np.argsort(-rank(single), kind="stable")
        taken = made[:, np.argsort(order, kind="stable")]
        ways.append(np.where(taken, row_raw, fact))
    return np.concatenate(ways) if ways else np.empty((0, p))


def _cheapest_of_linear(problem: RecourseProblem) -> Float[np.ndarray, "n p"]:
    """The cheapest record that a linear black box accepts, and one a hair beyond its boundary; none for others."""
    black_box, p = problem.black_box, problem.action_set.space.p
    if not black_box.knows_weights:
        return np.empty((0, p))
    model = own_linear(problem)
    try:
        search = Search(model, problem.action_set, deadline=problem.deadline)
        return search.rows(np.array([0.0, HAIR]) * max(1.0, abs(search.start_score)))
    except SolverFailed:
        return np.empty((0, p))


def _corners(actions: ActionSet) -> Float[np.ndarray, "n p"]:
    """Records in which one or two features change as far as they can: under a cap on changes these reach furthest."""
    space, fact = actions.space, actions.factual_raw
    lower, upper = actions.lower_raw.tolist(), actions.upper_raw.tolist()
    columns, values = list[int](), list[float]()
    others = list[int]()  # for each single change, where those of the next feature begin
    for j in np.flatnonzero(actions.movable).tolist():
        ends = actions.levels(j) if space.features[j].is_group else (lower[j], upper[j])
        own = [value for value in ends if math.isfinite(value) and value != fact[j]]
        columns += [j] * len(own)
        values += own
        others += [len(values)] * len(own)
    singles = range(len(values))
    pairs = ((one, other) for one in singles for other in singles[others[one] :])
    chosen = [*zip(singles, singles, strict=True), *islice(pairs, min(MAX_PAIRS, MOST_NUMBERS // space.d))]
    rows = np.tile(fact, (len(chosen), 1))
    if chosen:
        places = np.array(chosen)
        rows[np.arange(len(rows))[:, None], np.array(columns)[places]] = np.array(values)[places]
    return rows


def relaxation(problem: RecourseProblem) -> Relaxation | None:
    """The constraint of the request whose removal helps most, by an estimate that calls no model.

    The estimate is a linear classifier (minimax probability machine) of the nearest accepted and refused reference
    records. It is not fitted to samples near the boundary, because features that cannot change do not vary in these.

    None where no classifier can be fitted to these records, or no single constraint helps.
    """
    reference = problem.reference
    accepted = favourable(reference.scores)
    distance = ((reference.X - problem.x0) ** 2).sum(axis=1)
    order = distance.argsort(kind="stable")
    near = np.concatenate([order[accepted[order]][:RELAXATION_RECORDS], order[~accepted[order]][:RELAXATION_RECORDS]])
    X, w = reference.X[near], np.zeros(reference.space.d)
    columns = np.arange(len(w))
    if len(w) > RELAXATION_COLUMNS:
        apart = np.abs(X[accepted[near]].sum(axis=0) - X[~accepted[near]].sum(axis=0))
        columns = np.sort(np.argsort(-apart, kind="stable")[:RELAXATION_COLUMNS])
    try:
        machine = fit(class_moments(X[:, columns], accepted[near]), "none").model
        w[columns] = machine.w
        model = LinearModel(w, machine.c)
        search = Search(model, problem.action_set, deadline=problem.deadline)
    except DegenerateSurrogate:
        return None
    return search.relaxation(max(search.start_score, 0.0))
