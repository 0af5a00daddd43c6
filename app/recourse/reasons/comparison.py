"""Whom a refused applicant is compared with: reference records near the cut-off that the model accepts, or all."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from app.recourse.actions.phrases import ENGLISH, Phrases, fill
from app.recourse.actions.sentences import level_text, number_text, title_text
from app.recourse.features import MISSING, Change, Feature, FeatureType
from app.recourse.models.score import favourable
from app.recourse.problem import Reference

NEAR_SHARE = 0.1
"""Share of the accepted records that are near the cut-off: those with the lowest scores."""
LEAST_NEAR, MOST_NEAR = 50, 200
"""Limits of their number."""

COMMON = 0.75
"""Share of the records with one value from which on it is what is usual, and who has it differs from few."""

SIGNIFICANT_DIGITS, LARGE = 2, 100.0
"""Digits of an average; one more from `LARGE` on."""


class Against(StrEnum):
    """Whom a refused applicant is compared with."""

    ACCEPTED = "accepted"
    EVERYONE = "everyone"


class Departure(StrEnum):
    """Which way a number or a level differs from what is usual."""

    TOO_HIGH = "too_high"
    TOO_LOW = "too_low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The reference records with which an applicant is compared, and their scores."""

    rows_raw: Float[np.ndarray, "n p"]
    scores: Float[np.ndarray, "n"]

    @classmethod
    def of(cls, reference: Reference, against: Against) -> "Comparison":
        """The comparison with all reference records, or with those just above the threshold.

        The latter are the accepted records of lowest score; there are none where the model accepts no reference record.
        """
        if against is Against.EVERYONE:
            return cls(rows_raw=reference.rows_raw, scores=reference.scores)
        accepted = np.flatnonzero(favourable(reference.scores))
        count = min(max(math.ceil(NEAR_SHARE * accepted.size), LEAST_NEAR), MOST_NEAR)
        near = accepted[np.argsort(reference.scores[accepted], kind="stable")[:count]]
        return cls(rows_raw=reference.rows_raw[near], scores=reference.scores[near])

    @property
    def score(self) -> float:
        """Mean score of the records that the applicant is compared with."""
        return float(self.scores.mean())


def usual_raw(feature: Feature, column_raw: Float[np.ndarray, "n"]) -> float:
    """The usual value in one column of raw values: the value that most people have, or else a middle value.

    The middle value is the mean of amounts, the median of whole numbers and of levels, the most common category. If at
    least the share `COMMON` of the records has the same number, this number is taken instead: nobody has the mean of
    many zeros and a few large amounts. Missing values and special codes count only where there is nothing else.
    """
    quantities = column_raw[~np.isin(column_raw, feature.states_raw)]
    if quantities.size and feature.is_number:
        value, share = _most_common(quantities)
        whole = feature.type is FeatureType.INTEGER
        middle = float(np.median(quantities) // 1.0 if whole else quantities.mean())
        return value if share >= COMMON else _rounded(middle)
    if quantities.size and not feature.is_group:
        return float(np.median(quantities) // 1.0)
    return _most_common(column_raw)[0]


def _most_common(column_raw: Float[np.ndarray, "n"]) -> tuple[float, float]:
    """The most common value, and the share that has it."""
    values, counts = np.unique(column_raw, return_counts=True)
    return float(values[counts.argmax()]), float(counts.max() / column_raw.size)


def departure(feature: Feature, value_raw: float, usual_raw: float) -> Departure | None:
    """Whether a value is above or below the usual one.

    None where both are equal, for categories, and where either is missing or a special code.
    """
    if feature.is_group or value_raw == usual_raw or not {value_raw, usual_raw}.isdisjoint(feature.states_raw):
        return None
    return Departure.TOO_HIGH if value_raw > usual_raw else Departure.TOO_LOW


def is_unadvised(feature: Feature, departed: Departure | None) -> bool:
    """Whether the lender takes the value for a good one, although it differs from the usual one.

    This is so where advice may only move the feature further away from the usual value, because no advice tells anyone
    to drink more or to owe more. It is also so where the lender states a reason only for values on the other side of
    the usual one.
    """
    if departed is None:
        return False
    stated = {Departure.TOO_HIGH: feature.reason.too_high, Departure.TOO_LOW: feature.reason.too_low}
    if stated.pop(departed):
        return False
    opposite = {Change.DECREASE: Departure.TOO_LOW, Change.INCREASE: Departure.TOO_HIGH}
    return opposite.get(feature.change) is departed or any(stated.values())


def _rounded(number: float) -> float:
    """As people state an average: 7,680, 51, 0.92."""
    return float(f"{number:.{SIGNIFICANT_DIGITS + (abs(number) >= LARGE)}g}")


# --- one reason in words ---------------------------------------------------------------------------------------------


def reason_text(feature: Feature, value_raw: float, departed: Departure | None, phrases: Phrases = ENGLISH) -> str:
    """The sentence that states a feature as a reason for a refusal.

    Parameters
    ----------
    feature : the feature, with its words in the language of `phrases`
    departed : `TOO_HIGH` or `TOO_LOW` where that lowered the score; None where the value is neither
    """
    words, own = {"Name": title_text(feature), "to": value_text(feature, value_raw, phrases)}, feature.reason
    if value_raw in feature.states_raw or feature.value(value_raw) is None:
        known = value_raw != MISSING and feature.value(value_raw) is not None
        return own.missing or own.text or fill(phrases.level if known else phrases.missing, words)
    if departed is None:
        return own.text or fill(phrases.level, words)
    too_high = departed is Departure.TOO_HIGH
    directed, phrase = (own.too_high, phrases.too_high) if too_high else (own.too_low, phrases.too_low)
    # A level and a time have no size to be too high or too low, unless the lender says so; nor is either what no advice
    # would mend.
    neutral = not feature.is_number or _is_time(feature, phrases) or is_unadvised(feature, departed)
    return directed or own.text or fill(phrases.level if neutral else phrase, words)


def _is_time(feature: Feature, phrases: Phrases) -> bool:
    """Whether the number counts times: 36 months, or years in a job; by its unit, or else by the words of its label."""
    times = {unit.lower() for unit in (*phrases.one_of, *ENGLISH.one_of)}
    return not times.isdisjoint(f"{feature.unit or ''} {title_text(feature)}".lower().split())


def value_text(feature: Feature, value_raw: float, phrases: Phrases = ENGLISH) -> str:
    """A raw value as people say it; empty where the value is missing."""
    if value_raw in feature.special:
        return feature.special[value_raw]
    value = feature.value(value_raw)
    if value is None:
        return ""
    return number_text(feature, float(value_raw), phrases) if feature.is_number else level_text(feature, value, phrases)


def usual_text(feature: Feature, usual_raw: float, phrases: Phrases = ENGLISH) -> str:
    """The usual value in words; a mean shows its own digits, whatever `decimals` the feature has."""
    if feature.is_number and usual_raw not in feature.states_raw:
        feature = replace(feature, type=FeatureType.CONTINUOUS, decimals=None)
    return value_text(feature, usual_raw, phrases)
