"""Sentences about records from a caller that no person could have reached."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import Asked, Limit, limits_of, range_of
from app.recourse.actions.providing import providing
from app.recourse.features import MISSING, Feature


def impossible(actions: ActionSet, rows_raw: Float[np.ndarray, "n p"]) -> list[str]:
    """Sentences that say which rows break the model's own actionability or rules; the first row is row 1.

    Constraints of the request do not count. Sentences do not name protected features.
    """
    sentences, against = [], actions.clock.against(rows_raw)
    for j, feature in enumerate(actions.space.features):
        fact, values = float(actions.factual_raw[j]), rows_raw[:, j]
        if (rows := np.flatnonzero(against[:, j])).size:
            sentences.append(f"{_counted(rows)} cannot be carried out: {_never_so(feature)} in this model.")
        if actions.clock.passive[j] or not (values != fact).any() or (feature.provide and fact == MISSING):
            continue
        limits = [one for one in limits_of(feature, fact, Asked()) if one.name != "least_change"]
        possible = range_of(feature, fact, limits)
        fits = (values >= possible.lower) & (values <= possible.upper)
        if possible.levels is not None:
            fits &= np.isin(values, possible.levels)
        if (rows := np.flatnonzero((values != fact) & ~fits)).size:
            why = _why_not(feature, limits, values[rows])
            sentences.append(f"{_counted(rows)} cannot be carried out: {why} in this model.")
    in_time = np.array([providing(actions, row[None]).clock.keeps_pace(row[None])[0] for row in rows_raw], dtype=bool)
    if (rows := np.flatnonzero(~against.any(axis=1) & ~in_time)).size:
        sentences.append(f"{_counted(rows)} cannot be carried out: what time changes by itself does not agree in it.")
    for rule in actions.rules:
        if (rows := np.flatnonzero((rows_raw != actions.factual_raw).any(axis=1) & ~rule.holds(rows_raw))).size:
            sentences.append(f"{_counted(rows)} cannot be carried out: the model's rule {rule.text} does not hold.")
    return sentences


def _counted(rows: Int[np.ndarray, "k"]) -> str:
    """Which of several counterfactuals, counted from 1."""
    return f"Counterfactual{'s' if len(rows) > 1 else ''} " + ", ".join(str(row + 1) for row in rows.tolist())


def _never_so(feature: Feature) -> str:
    """Why time never brings a value, as part of a sentence."""
    if feature.protected:
        return "a protected attribute does not change so with time"
    assert feature.moves_with_time is not None
    way = "increase" if feature.moves_with_time.per_year > 0.0 else "decrease"
    return f"{feature.name} can only {way}, with time,"


def _why_not(feature: Feature, limits: Sequence[Limit], values_raw: Float[np.ndarray, "n"]) -> str:
    """Why a feature may not have these values, as part of a sentence."""
    if feature.protected:
        return "a protected attribute cannot change"
    if not limits:
        return f"{feature.name} cannot change"
    way = next((limit for limit in limits if limit.name == "change"), None)
    if way is not None and ((values_raw < way.low) | (values_raw > way.high)).any():
        return f"{feature.name} can only {feature.change}"
    return f"{feature.name} is never advised to be so"
