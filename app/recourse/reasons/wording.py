"""One reason in words: the lender's own, else the feature and which way it differs."""

from dataclasses import replace

from app.recourse.actions.phrases import ENGLISH, Phrases, fill
from app.recourse.actions.sentences import level_text, number_text, title_text
from app.recourse.features import MISSING, Feature, FeatureType
from app.recourse.reasons.comparison import Departure, is_unadvised


def reason_text(feature: Feature, value_raw: float, departed: Departure | None, phrases: Phrases = ENGLISH) -> str:
    """The reason.

    Parameters
    ----------
    feature : in the language of the phrases
    departed : which way the value differs where this lowered the score; None where it is neither too high nor too low
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
    times = {unit.lower() for unit in phrases.one_of}
    return not times.isdisjoint({feature.unit or "", *title_text(feature).lower().split()})


def value_text(feature: Feature, value_raw: float, phrases: Phrases = ENGLISH) -> str:
    """A value as people say it; empty where it is missing."""
    if value_raw in feature.special:
        return feature.special[value_raw]
    value = feature.value(value_raw)
    if value is None:
        return ""
    return number_text(feature, float(value_raw), phrases) if feature.is_number else level_text(feature, value, phrases)


def usual_text(feature: Feature, usual_raw: float, phrases: Phrases = ENGLISH) -> str:
    """What is usual, as people say it: the average of amounts has digits of its own."""
    if feature.is_number and usual_raw not in feature.states_raw:
        feature = replace(feature, type=FeatureType.CONTINUOUS, decimals=None)
    return value_text(feature, usual_raw, phrases)
