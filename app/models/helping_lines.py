"""Which lines of a manifest would help people for whom nothing was found: each is lifted alone, and the model asked."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from app.models.oddities import FIXED, USUAL
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.rules import Rule
from app.recourse.features import Change, Feature
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import Reference
from app.registry.drafting.hints import hint_of

ROWS = 128
"""Records that are tried for each person and line."""

LEAST = 0.2
"""Share of the people that a line must help to be named."""

NAMED = 3
"""Lines that are named."""


def helping_lines(
    black_box: BlackBox, reference: Reference, rules: Sequence[Rule], records: Sequence[int], valid_months: float
) -> Iterator[str]:
    """A sentence with the lines that would let the model accept most of these records; none where no line helps.

    Parameters
    ----------
    records : of the reference, for which nothing was found
    """
    features = reference.space.features
    lines = {j: line for j, feature in enumerate(features) if (line := _line(feature))}
    if not records or not lines or black_box.remote is not None:
        return
    rng = np.random.default_rng(0)
    helped = dict.fromkeys(lines, 0)
    for record in records:
        row = reference.rows_raw[record]
        actions = action_set(reference.space, row, rules=rules, valid_months=valid_months)
        tried = _within(actions, reference, rng)
        for j in lines:
            rows = tried.copy()
            rows[:, j] = _beyond(features[j], reference, row[j], j, rng)
            rows = rows[actions.keeps_rules(rows)]
            helped[j] += bool(len(rows)) and bool(black_box.accepts(black_box.score_raw(rows)).any())
    best = sorted((j for j in helped if helped[j] > LEAST * len(records)), key=lambda j: -helped[j])[:NAMED]
    if best:
        said = ", ".join(f"{helped[j]} without {lines[j]}" for j in best)
        yield f"Of the records without an answer ({len(records)}) the model would accept {said}"


def _line(feature: Feature) -> str:
    """The line that keeps a feature from moving far, or at all; none of what nobody can change by its name."""
    if feature.protected or feature.moves_with_time is not None:
        return ""
    if feature.change is Change.NONE:
        hint = hint_of(feature.name, feature.type.value)
        fixed = hint is not None and any(hint.keys.items() >= said.items() for said in FIXED.values())
        return "" if fixed else f"the change: none of {feature.name}"
    return f"the max_change of {feature.name}" if feature.max_change is not None else ""


def _within(actions: ActionSet, reference: Reference, rng: np.random.Generator) -> Float[np.ndarray, "n p"]:
    """Records of one person with some features moved as the manifest allows, to their ends or between them."""
    own = np.tile(actions.factual_raw, (ROWS, 1))
    people = np.vstack([reference.rows_raw, actions.factual_raw])
    low = np.fmax(actions.lower_raw, np.fmin.reduce(people))
    high = np.fmin(actions.upper_raw, np.fmax.reduce(people))
    share = rng.choice([0.0, 1.0, -1.0], own.shape)
    share = np.where(share < 0.0, rng.random(own.shape), share)
    moved = actions.snap(low + share * (high - low))
    return np.where(actions.movable & (rng.random(own.shape) < 0.7), moved, own)


def _beyond(
    feature: Feature, reference: Reference, own: float, j: int, rng: np.random.Generator
) -> Float[np.ndarray, "n"]:
    """Values that people have, in the direction in which this one may move."""
    known = reference.rows_raw[~reference.space.in_state(reference.rows_raw)[:, j], j]
    if feature.is_number:
        low, high = np.quantile(known, USUAL)
        known = known[(known >= low) & (known <= high)]
    if feature.change is Change.INCREASE:
        known = known[known > own]
    if feature.change is Change.DECREASE:
        known = known[known < own]
    return rng.choice(known, ROWS) if len(known) else np.full(ROWS, own)
