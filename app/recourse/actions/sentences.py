"""The difference between two records in words: "Reduce the credit amount from 5,951 DM to 2,100 DM."."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from app.recourse.actions.accepted_values import AcceptedValues, either, phrase_of
from app.recourse.actions.phrases import ENGLISH, Phrases, fill
from app.recourse.actions.timing import DAYS_PER_MONTH, Clock
from app.recourse.features import MISSING, Feature, FeatureType, RawValue
from app.recourse.shares import half_up

SIGNIFICANT_DIGITS = 6
"""Digits shown of a number whose feature states no `decimals`."""

MOST_PLACES = 15
"""Numbers with more digits before the point, or zeros after it, are written with an exponent."""

WEEKS_BELOW = 6.0
"""Months from which on weeks are too fine."""

MONTHS_DIGITS = 4
"""Digits after the point of months in answers."""

CURRENCY_SIGNS = frozenset("$€£¥")
"""Units written before the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange:
    """One feature that differs between the factual and a counterfactual."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"use_attribute_docstrings": True}

    feature: str
    """Name of the feature."""
    from_: RawValue
    """The applicant's value."""
    to: RawValue
    """The value to reach."""
    delta: float | int | None
    """`to - from` without rounding noise; null where the values are not numbers."""
    unit: str | None
    """Unit of both values; null where they have none."""
    accepted: AcceptedValues | None
    """Of a missing value that is provided: which values the model accepts, with everything else as in this record; null
    for other changes, and where time or budget ran out before the model was asked."""
    takes_months: float
    """How long the change takes; 0 where the model says nothing of it."""
    by_time: bool
    """Whether time does this by itself: it is no advice, costs nothing and is not counted."""
    text: str
    """What to do, as a sentence; or what time does by itself."""


def changes(
    features: Sequence[Feature],
    factual_raw: Float[np.ndarray, "p"],
    row_raw: Float[np.ndarray, "p"],
    clock: Clock,
    accepted: Mapping[int, AcceptedValues] | None = None,
) -> tuple[FeatureChange, ...]:
    """The features that differ between two raw rows, one item each, in the order of the schema.

    Changes that time makes by itself come last, because they are no advice; those of protected features are left out.

    Parameters
    ----------
    accepted : by index of a missing feature that the person states, the values of this feature that the model accepts
    """
    months, differ = clock.each(row_raw[None])[0].tolist(), np.flatnonzero(factual_raw != row_raw)
    by_time, total = frozenset[int](), 0.0
    if clock.passive[differ].any():
        by_time = frozenset(np.flatnonzero(clock.passive & ~clock.against(row_raw[None])[0]).tolist())
        total = float(clock.total(row_raw[None])[0])
    return tuple(
        _change(
            features[j], float(factual_raw[j]), float(row_raw[j]), months[j],
            after_months=total if j in by_time else None, accepted=(accepted or {}).get(j),
        )
        for j in sorted(differ.tolist(), key=by_time.__contains__)
        if not (j in by_time and features[j].protected)
    )  # fmt: skip


def _change(
    feature: Feature,
    before_raw: float,
    after_raw: float,
    takes_months: float,
    *,
    after_months: float | None,
    accepted: AcceptedValues | None,
) -> FeatureChange:
    before, after = feature.value(before_raw), feature.value(after_raw)
    return FeatureChange(
        feature=feature.name,
        from_=before,
        to=after,
        delta=_delta(feature, before_raw, after_raw),
        unit=feature.unit,
        accepted=accepted,
        takes_months=round(takes_months, MONTHS_DIGITS),
        by_time=after_months is not None,
        text=change_text(feature, before_raw, after_raw, after_months=after_months, accepted=accepted),
    )


def change_text(
    feature: Feature,
    before_raw: float,
    after_raw: float,
    phrases: Phrases = ENGLISH,
    *,
    after_months: float | None = None,
    accepted: AcceptedValues | None = None,
) -> str:
    """The sentence for one change: the manifest's own, or else a sentence of `phrases`.

    Parameters
    ----------
    feature : the feature, with its words in the language of `phrases`
    after_months : months after which time has made the change by itself; None for a change that the person makes
    accepted : where the person states a missing value, the values that the model accepts
    """
    before_text, after_text = _texts(feature, before_raw, after_raw, phrases)
    words = {
        "name": name_text(feature), "Name": title_text(feature), "from": before_text, "to": after_text,
        "action": feature.action or "",
        "time": "" if after_months is None else months_text(after_months, phrases, down=True),
    }  # fmt: skip
    if feature.protected:
        return phrases.protected
    if after_months is not None:
        return fill(phrases.by_time, words)
    if before_raw == MISSING or feature.value(before_raw) is None:
        return fill(phrase_of(accepted, phrases), words | _accepted_texts(feature, accepted, phrases))
    own = _own_sentence(feature, before_raw, after_raw)
    if own and not feature.is_number:
        names = (level_text(feature, feature.value(raw), phrases) for raw in (before_raw, after_raw))
        words |= dict(zip(("from", "to"), names, strict=True))
    return _ended(fill(own, words)) if own else fill(_phrase(feature, after_raw > before_raw, phrases), words)


def _accepted_texts(feature: Feature, accepted: AcceptedValues | None, phrases: Phrases) -> dict[str, str]:
    """The words of a sentence that asks for a missing value."""
    if accepted is None:
        return {}
    if accepted.levels is not None:
        names = [fill(phrases.quoted, {"to": level_text(feature, level, phrases)}) for level in accepted.levels]
        return {"to": either(names, phrases)}
    ends = {"from": accepted.min, "to": accepted.max}
    return {name: number_text(feature, end, phrases) for name, end in ends.items() if end is not None}


def _own_sentence(feature: Feature, before_raw: float, after_raw: float) -> str | None:
    """The manifest's own sentence for this change."""
    sentence = feature.sentence
    if not feature.is_number and (own := sentence.to.get(feature.level_key(feature.value(after_raw)))):
        return own
    directed = sentence.increase if after_raw > before_raw else sentence.decrease
    return (None if feature.is_group else directed) or sentence.any


def _ended(sentence: str) -> str:
    """A sentence of the manifest, which need not end with a point."""
    return sentence if sentence.endswith((".", "!")) else f"{sentence}."


def _phrase(feature: Feature, upwards: bool, phrases: Phrases) -> str:
    if feature.action:
        return phrases.action
    if feature.is_number:
        return phrases.increase if upwards else phrases.reduce
    # Levels may be listed downwards: their order says nothing of more or less.
    return phrases.change


def months_text(months: float, phrases: Phrases = ENGLISH, *, down: bool = False) -> str:
    """A number of months in words, rounded up to a tenth of a month.

    Parameters
    ----------
    down : whether to round down instead, to at least a tenth; for changes that are complete by then
    """
    rounded = (max(math.floor(10.0 * months + 1e-6), 1) if down else math.ceil(10.0 * months - 1e-6)) / 10.0
    number = f"{rounded:g}".replace(".", phrases.decimal)
    return fill(phrases.month if rounded == 1.0 else phrases.months, {"to": number})


def in_weeks(months: float) -> bool:
    """Whether weeks say a number of months better than whole months: of less than half a year, unless it is whole."""
    return months < WEEKS_BELOW and months % 1.0 != 0.0


def about_text(months: float, phrases: Phrases = ENGLISH) -> str:
    """A number of months in words, rounded up: to whole months, or to whole weeks where months are too coarse."""
    if in_weeks(months):
        weeks = math.ceil(months * DAYS_PER_MONTH / 7.0 - 1e-6)
        return fill(phrases.week if weeks == 1 else phrases.weeks, {"to": str(weeks)})
    return months_text(float(math.ceil(months - 1e-6)), phrases)


def days_text(days: int, phrases: Phrases = ENGLISH) -> str:
    """A number of days in words."""
    return fill(phrases.day if days == 1 else phrases.days, {"to": str(days)})


def _delta(feature: Feature, before_raw: float, after_raw: float) -> float | int | None:
    if not feature.is_number or MISSING in (before_raw, after_raw):
        return None
    difference = _decimal(after_raw) - _decimal(before_raw)
    return int(difference) if feature.type is FeatureType.INTEGER else float(difference)


def name_text(feature: Feature) -> str:
    """The feature's label as it is written inside a sentence: "credit amount", but "LTV ratio"."""
    label = feature.label or feature.name.replace("_", " ")
    return label[0].lower() + label[1:] if label[1:2].islower() else label


def title_text(feature: Feature) -> str:
    """The feature's label as it is written at the beginning of a sentence."""
    label = feature.label or feature.name.replace("_", " ")
    return label[0].upper() + label[1:]


def _texts(feature: Feature, before_raw: float, after_raw: float, phrases: Phrases) -> tuple[str, str]:
    if not feature.is_number:
        before, after = (level_text(feature, feature.value(raw), phrases) for raw in (before_raw, after_raw))
        # "from under 1 year to 1 to 3 years" would be hard to read.
        quoted = " " in before + after
        return (
            (fill(phrases.quoted, {"to": before}), fill(phrases.quoted, {"to": after})) if quoted else (before, after)
        )
    digits = (_rounded(feature, before_raw), _rounded(feature, after_raw))
    if digits[0] == digits[1]:
        # Rounding for display must not hide the change.
        digits = (_decimal(before_raw), _decimal(after_raw))
    return _with_unit(digits[0], feature.unit, phrases), _with_unit(digits[1], feature.unit, phrases)


def number_text(
    feature: Feature, number_raw: float, phrases: Phrases = ENGLISH, *, unlike_raw: float | None = None
) -> str:
    """A raw number of a feature as a sentence shows it: rounded, with its unit.

    Parameters
    ----------
    unlike_raw : another raw number; rounding must not make the first one equal to it or move it past it
    """
    number = _rounded(feature, number_raw)
    if unlike_raw is not None:
        other, exact = _decimal(unlike_raw), _decimal(number_raw)
        number = exact if number == other or (number < other) != (exact < other) else number
    return _with_unit(number, feature.unit, phrases)


def level_text(feature: Feature, level: RawValue, phrases: Phrases = ENGLISH) -> str:
    """The name of a level for people: the manifest's own, else a word for true or false, else the level itself."""
    named = feature.level_names.get(feature.level_key(level))
    return named or ({True: phrases.is_true, False: phrases.is_false}[level] if isinstance(level, bool) else str(level))


def _decimal(number_raw: float) -> Decimal:
    """The number as it prints, so that 0.3 - 0.1 is 0.2."""
    return Decimal(repr(number_raw))


def _rounded(feature: Feature, number_raw: float) -> Decimal:
    number = _decimal(number_raw)
    found = _to_its_digits(feature, number)
    # 99.5% is not all, and 0.4% not nothing.
    if feature.unit == "%" and found in (0, 100) and found != number:
        return next(finer for digits in count(1) if (finer := half_up(number, digits)) != found)
    return found


def _to_its_digits(feature: Feature, number: Decimal) -> Decimal:
    if number.adjusted() >= MOST_PLACES:
        return number
    if feature.type is FeatureType.INTEGER:
        return half_up(number, 0)
    if feature.decimals is not None:
        rounded = half_up(number, feature.decimals)
        # "4%" rather than "4.0%"; two decimals are those of money, which people write out.
        return half_up(number, 0) if feature.decimals == 1 and rounded == rounded.to_integral_value() else rounded
    # Significant digits, but never fewer than the whole part has.
    places = max(0, SIGNIFICANT_DIGITS - 1 - number.adjusted())
    return half_up(number, places).normalize()


def _with_unit(number: Decimal, unit: str | None, phrases: Phrases) -> str:
    if abs(number.adjusted()) < MOST_PLACES:
        digits = f"{number:,f}".translate({ord(","): phrases.group, ord("."): phrases.decimal})
    else:
        digits = f"{float(number):g}"
    if unit is None:
        return digits
    if unit == "%":
        return fill(phrases.percent, {"to": digits})
    if unit in CURRENCY_SIGNS:
        return f"-{unit}{digits[1:]}" if digits.startswith("-") else f"{unit}{digits}"
    return f"{digits} {phrases.one_of.get(unit, unit) if abs(number) == 1 else unit}"
