"""Whether a person has any way at all: a proof that the model refuses every legal record, a record, or a bound.

Three proofs, each about the black box itself: all legal records, where they are few; for linear models infeasibility of
a mixed-integer program over the action set; for networks with ReLU and for trees, that every range of records has a
bound on the score that is too low. A form of the model that a proof uses must first give the black box's own scores of
the reference records. Elsewhere random legal records bound the share that is accepted: that is no proof.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Float

from app.errors import DeadlineExceeded, SolverFailed
from app.portfolio.shares import most_accepted
from app.recourse.actions.action_set import ActionSet
from app.recourse.models.black_box import BlackBox, input_of_rows
from app.recourse.models.meter import Meter
from app.recourse.numerics.solvers import MOST_NODES
from app.recourse.problem import Reference
from app.recourse.proofs.forest_branching import ForestBranching
from app.recourse.proofs.network_branching import NetworkBranching
from app.recourse.search.legal_rows import every_row
from app.recourse.search.mixed_integer import FAR, ActionProgram, Solved
from app.recourse.search.rule_branching import solve_program

MOST_ROWS = 20_000
"""Legal records that are all asked about."""

SAMPLES, FIRST = 2_000, 200
"""Random records behind a bound, of which those that are legal count; and before a longer search for any way."""

TRIED, HEADROOM = 100, 3.0
"""Records that show how long all of them take, and the factor that the time left must have beyond that."""

NEAR, CLOSE = 3.0, 2e-3
"""Scores within the first of the threshold must be reproduced up to the second; farther out outputs saturate."""

COMPARED = 200
"""Reference records near the threshold whose scores the leaves must reproduce."""

ROUNDED = 1e-9
"""Error of sums in double precision, in scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preclusion:
    """What is known of a person for whom a search found nothing: a proof, an accepted record, or a bound."""

    proof: Literal["enumerated", "optimised"] | None = None
    """How it is proven that no legal record is accepted; None where it is not."""
    row_raw: Float[np.ndarray, "p"] | None = None
    """A legal record that the black box accepts, which the search has missed."""
    accepted_share_at_most: float | None = None
    """95 % bound on the share of legal records that are accepted, where neither is known."""
    asked: int = 0
    """Records that the black box was asked about."""


def preclusion(
    black_box: BlackBox, reference: Reference, actions: ActionSet, *, seed: int = 0, deadline: float = math.inf,
    cheapest: bool = True,
) -> Preclusion:  # fmt: skip
    """Search for a proof that the black box refuses every legal record, or for a legal record that it accepts.

    Where neither is found, the result bounds the share of legal records that are accepted. A remote model is not asked,
    and its `Preclusion` is empty.

    Parameters
    ----------
    deadline : time by `time.monotonic()` at which the search ends
    cheapest : whether a cheap record is worth further effort, of linear models and networks
    """
    if black_box.remote is not None:
        return Preclusion()
    rows_raw = every_row(actions, MOST_ROWS) if _is_closed(actions) else None
    if rows_raw is not None:
        asked, found = _first_accepted(black_box, rows_raw, deadline)
        proof: Literal["enumerated"] | None = "enumerated" if found is None and asked == len(rows_raw) else None
        return Preclusion(proof=proof, row_raw=found, asked=asked)
    if _is_closed(actions):
        known = (
            _by_weights(black_box, reference, actions, deadline, cheapest)
            or _by_network(black_box, reference, actions, deadline, cheapest)
            or _by_leaves(black_box, reference, actions)
            or _by_trees(black_box, reference, actions, deadline)
        )
        if known is not None:
            return known
    rows_raw = random_rows(actions, seed, SAMPLES)
    asked, found = _first_accepted(black_box, rows_raw[actions.cost(rows_raw).argsort(kind="stable")], deadline)
    if found is not None or asked < len(rows_raw):
        return Preclusion(row_raw=found, asked=asked)
    return Preclusion(accepted_share_at_most=most_accepted(asked), asked=asked)


def _first_accepted(
    black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], deadline: float
) -> tuple[int, Float[np.ndarray, "p"] | None]:
    """How many records the black box was asked about, and the first that it accepts.

    The first few show how long the rest would take; without time for the rest they remain the only ones.
    """
    began = time.monotonic()
    if began >= deadline:
        return 0, None
    first, rest = rows_raw[:TRIED], rows_raw[TRIED:]
    found = _accepted(black_box, first)
    each_s = (time.monotonic() - began) / TRIED
    if found is not None or time.monotonic() + HEADROOM * each_s * len(rest) >= deadline:
        return len(first), found
    return len(rows_raw), _accepted(black_box, rest)


def _is_closed(actions: ActionSet) -> bool:
    """Whether lattices and ranges say all that is legal: time moves nothing, and no number leaves a state."""
    clock = actions.clock
    moves = clock.passive.any() and (math.isinf(clock.months) or len(clock.waiting()) > 0)
    return not moves and not (actions.space.in_state(actions.factual_raw[None])[0] & actions.movable).any()


def _accepted(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p"] | None:
    """The first record that the black box accepts."""
    if not len(rows_raw):
        return None
    yes = np.flatnonzero(black_box.accepts(black_box.score_raw(rows_raw)))
    return rows_raw[yes[0]] if yes.size else None


def _gap(own: Float[np.ndarray, "n"], scores: Float[np.ndarray, "n"]) -> float:
    """How far scores of a form of the model are from its own near the threshold; infinite where they decide otherwise.

    Also infinite where no score is near: then nothing was compared.
    """
    near = np.abs(scores) < NEAR
    if not near.any() or ((own >= CLOSE) & (scores < -CLOSE)).any() or ((own < -CLOSE) & (scores >= CLOSE)).any():
        return math.inf
    return float(np.abs(own - scores)[near].max())


def _by_weights(
    black_box: BlackBox, reference: Reference, actions: ActionSet, deadline: float, cheapest: bool
) -> Preclusion | None:
    """For a linear model: whether its score reaches the threshold. None where it says nothing."""
    if not black_box.knows_weights or black_box.gradient is None:
        return None
    program = ActionProgram(actions, reach=math.inf, nodes=MOST_NODES)
    w, constant, gap = reference.once_compared(black_box.gradient, 0.0, lambda: _weights(black_box, reference))
    if not (gap < CLOSE and (program.limit <= FAR * 1e3).all()):
        return None
    row = (w @ program.effect)[None]
    start = constant + float(program.start @ w)
    # Solvers keep constraints up to a millionth of their size.
    margin = 10.0 * gap + 1e-6 * (1.0 + float(np.abs(row[0] * program.limit).sum()))

    def solve(cost: Float[np.ndarray, "n"], least: float) -> Solved | None:
        return solve_program(program, cost, row, np.array([least - start]), deadline=deadline)

    try:
        # Without a cost, any such record will do, which takes a third of the time.
        found = [solve(np.zeros(program.size), -margin)]
    except (DeadlineExceeded, SolverFailed):
        return None
    if found == [None]:
        return Preclusion(proof="optimised")
    if cheapest:
        with suppress(DeadlineExceeded, SolverFailed):  # then that record has to do
            found.insert(0, solve(program.cost, margin))
    for solved in found:
        known = None
        if solved is not None and actions.contains(solved.row_raw[None])[0]:
            known = _if_accepted(black_box, solved.row_raw)
        if known is not None:
            return known
    return None


def _if_accepted(black_box: BlackBox, row_raw: Float[np.ndarray, "p"]) -> Preclusion | None:
    """That a legal record exists, once the black box itself accepts it."""
    found = _accepted(black_box, row_raw[None])
    return None if found is None else Preclusion(row_raw=found)


def _weights(black_box: BlackBox, reference: Reference) -> tuple[Float[np.ndarray, "d"], float, float]:
    """Weights of a linear model, its score at 0, and how far these are from the scores of the reference records."""
    assert black_box.gradient is not None
    nearest = int(np.nan_to_num(np.abs(reference.scores), nan=np.inf).argmin())
    x = reference.X[nearest]
    w = black_box.gradient(x[None])[0]
    constant = float(reference.scores[nearest] - x @ w)
    return w, constant, _gap(constant + reference.X @ w, reference.scores)


def _by_network(
    black_box: BlackBox, reference: Reference, actions: ActionSet, deadline: float, cheapest: bool
) -> Preclusion | None:
    """For a network with ReLU: whether its score reaches the threshold. None where that says nothing."""
    network, offset, moves = black_box.network, black_box.offset, actions.movable
    if network is None or not np.isfinite(actions.upper_raw[moves] - actions.lower_raw[moves]).all():
        return None
    gap = reference.once_compared(
        network, offset, lambda: _gap(network.logit(reference.X) - offset, reference.scores)
    )  # fmt: skip
    if not gap < CLOSE:
        return None
    search = NetworkBranching(network, offset, actions)
    return _by_search(
        black_box, partial(search.accepted, cheapest=cheapest, deadline=deadline), 0.0, 10.0 * gap + ROUNDED
    )


def _by_search(
    black_box: BlackBox, search: Callable[[float], Float[np.ndarray, "p"] | None], least: float, margin: float
) -> Preclusion | None:
    """What a search for a legal record of at least a score shows. None where it shows nothing.

    Parameters
    ----------
    least : the threshold
    margin : how much scores of the search may differ from the black box's
    """
    try:
        for sure in (least - margin, least + margin):
            if (row_raw := search(sure)) is None:
                return Preclusion(proof="optimised") if sure < least else None
            if (known := _if_accepted(black_box, row_raw)) is not None:
                return known
    except (DeadlineExceeded, SolverFailed):
        pass
    return None


def _by_leaves(black_box: BlackBox, reference: Reference, actions: ActionSet) -> Preclusion | None:
    """For a single tree: whether a favourable leaf meets what each column can reach. None where it says nothing."""
    boxes = black_box.boxes
    if boxes is None or not reference.once_compared(
        boxes, 0.0, lambda: bool(((boxes.score(reference.X) >= 0.0) == (reference.scores >= 0.0)).all())
    ):
        return None
    lower, upper = _reach(actions)
    meets = (boxes.lower < upper).all(axis=1) & (boxes.upper >= lower).all(axis=1)
    return None if (meets & boxes.favourable).any() else Preclusion(proof="optimised")


def _by_trees(black_box: BlackBox, reference: Reference, actions: ActionSet, deadline: float) -> Preclusion | None:
    """For an ensemble of trees: whether any record within reach has enough. None where that says nothing."""
    forest = black_box.forest
    known = None if forest is None else reference.once_compared(forest, 0.0, lambda: _scale(black_box, reference))
    if forest is None or known is None:
        return None
    slope, offset, gap = known

    def search(sure: float) -> Float[np.ndarray, "p"] | None:
        inputs = partial(input_of_rows, black_box)
        return ForestBranching(forest, inputs, actions, math.copysign(1.0, slope)).accepted(sure, deadline=deadline)

    return _by_search(black_box, search, -offset / abs(slope), 10.0 * gap / abs(slope))


def _scale(black_box: BlackBox, reference: Reference) -> tuple[float, float, float] | None:
    """Slope and offset with which the sum of the leaves is favourable from 0 on, and how far that is from the model.

    The model is linear in that sum by its score, or by its probability as the mean of a forest is. None for another.
    """
    near = np.flatnonzero(np.abs(reference.scores) < NEAR)[:COMPARED]
    if black_box.forest is None or len(near) < 3:
        return None
    scores = reference.scores[near]
    margins = black_box.forest.margin(input_of_rows(black_box, reference.rows_raw[near]))
    probabilities = black_box.probability(scores)
    for target in (scores, None if probabilities is None else probabilities - black_box.probability_of(0.0)):
        if target is None or np.ptp(margins) == 0.0:
            continue
        slope, offset = np.polyfit(margins, target, 1)
        gap = float(np.abs(offset + slope * margins - target).max())
        if slope != 0.0 and gap < CLOSE:
            return float(slope), float(offset), gap
    return None


def _reach(actions: ActionSet) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d"]]:
    """The smallest and largest value of each encoded column, over a superset of the action set."""
    space, fact = actions.space, actions.factual_raw
    x0 = space.encode(fact[None])[0]
    lower, upper = x0.copy(), x0.copy()
    for k, j in enumerate(space.numeric.tolist()):
        if not actions.movable[j]:
            continue
        ends = np.array([actions.lower_raw[j], actions.upper_raw[j], fact[j]])
        encoded = (ends - space.center_raw[k]) / space.scale_raw[k]
        slack = 1e-9 * (1.0 + np.abs(encoded[np.isfinite(encoded)]).max())
        lower[space.spans[j].start], upper[space.spans[j].start] = encoded.min() - slack, encoded.max() + slack
    for j in space.groups.tolist():
        if actions.movable[j]:
            levels = {*actions.levels(j), int(fact[j])}
            for level in range(space.spans[j].start, space.spans[j].stop):
                place = level - space.spans[j].start
                lower[level], upper[level] = float(levels == {place}), float(place in levels)
    return lower, upper


def accepts_at_random(meter: Meter, actions: ActionSet) -> bool:
    """Whether the black box accepts at least one of a few random legal records.

    If so, a way to a yes exists, and no search is needed to know it.
    """
    rows_raw = random_rows(actions, 0, FIRST)
    return len(rows_raw) > 0 and bool(meter.black_box.accepts(meter.score_raw(rows_raw)).any())


def random_rows(actions: ActionSet, seed: int, most: int) -> Float[np.ndarray, "n p"]:
    """At most `most` random legal raw records.

    The value of a feature that may change is uniform between finite bounds, else normal around the person's own value.
    """
    rng, rows_raw = np.random.default_rng(seed), np.tile(actions.factual_raw, (most, 1))
    for j, feature in enumerate(actions.space.features):
        low, high = float(actions.lower_raw[j]), float(actions.upper_raw[j])
        if not actions.movable[j]:
            continue
        if feature.is_group:
            rows_raw[:, j] = rng.choice(actions.levels(j), most)
        elif math.isfinite(low) and math.isfinite(high):
            rows_raw[:, j] = rng.uniform(low, high, most)
        else:
            spread = actions.space.spread_raw[j]
            rows_raw[:, j] = np.clip(rows_raw[:, j] + 3.0 * spread * rng.standard_normal(most), low, high)
    rows_raw = actions.clock.settled(actions.snap(rows_raw))
    return rows_raw[actions.contains(rows_raw)]
