"""The difference between two records in words: "Reduce the credit amount from 5,951 DM to 2,100 DM."."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from app.recourse.actions.timing import Clock
from app.recourse.features import MISSING, Feature, FeatureType, RawValue

SIGNIFICANT_DIGITS = 6
"""Digits shown of a number whose feature states no `decimals`."""

MOST_PLACES = 15
"""Numbers with more digits before the point, or zeros after it, are written with an exponent."""

COUNTED_UNITS = frozenset({"years", "months", "weeks", "days", "hours"})
"""Units that lose their plural for one."""

MONTHS_DIGITS = 4
"""Digits after the point of months in answers."""

CURRENCY_SIGNS = frozenset("$€£¥")
"""Units written before the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChange:
    """One feature that differs between the factual and a counterfactual."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"use_attribute_docstrings": True}

    feature: str
    from_: RawValue
    to: RawValue
    delta: float | int | None
    """`to - from` without rounding noise; null where the values are not numbers."""
    unit: str | None
    takes_months: float
    """How long the change takes; 0 where the model says nothing of it."""
    by_time: bool
    """Whether time does this by itself: it is no advice, costs nothing and is not counted."""
    text: str
    """What to do, as a sentence; or what time does by itself."""


def changes(
    features: Sequence[Feature], factual_raw: Float[np.ndarray, "p"], row_raw: Float[np.ndarray, "p"], clock: Clock
) -> tuple[FeatureChange, ...]:
    """What a person has to change to get from one raw row to another, in the order of the schema.

    What time changes by itself until then, which is not advice, comes last, but for protected features, of which
    nothing is said.
    """
    months, total = clock.each(row_raw[None])[0], float(clock.total(row_raw[None])[0])
    return tuple(
        _change(
            features[j], float(factual_raw[j]), float(row_raw[j]), float(months[j]),
            after_months=total if clock.passive[j] else None,
        )
        for j in sorted(np.flatnonzero(factual_raw != row_raw).tolist(), key=lambda j: bool(clock.passive[j]))
        if not (clock.passive[j] and features[j].protected)
    )  # fmt: skip


def _change(
    feature: Feature, before_raw: float, after_raw: float, takes_months: float, *, after_months: float | None
) -> FeatureChange:
    before, after = feature.value(before_raw), feature.value(after_raw)
    before_text, after_text = _texts(feature, before_raw, after_raw)
    text = f"{_verb(feature, after_raw > before_raw)} the {name_text(feature)} from {before_text} to {after_text}."
    if before is None:
        text = f"State the {name_text(feature)}; this answer holds for {after_text}."
    if feature.protected:
        text = "A protected attribute is different."
    elif after_months is not None:
        text = f"In {months_text(after_months)} the {name_text(feature)} is {after_text}."
    return FeatureChange(
        feature=feature.name,
        from_=before,
        to=after,
        delta=_delta(feature, before_raw, after_raw),
        unit=feature.unit,
        takes_months=round(takes_months, MONTHS_DIGITS),
        by_time=after_months is not None,
        text=text,
    )


def months_text(months: float) -> str:
    """A time as people say it, rounded up to a tenth of a month."""
    rounded = math.ceil(10.0 * months - 1e-6) / 10.0
    return f"{rounded:g} month{'' if rounded == 1.0 else 's'}"


def _delta(feature: Feature, before_raw: float, after_raw: float) -> float | int | None:
    if not feature.is_number or MISSING in (before_raw, after_raw):
        return None
    difference = _decimal(after_raw) - _decimal(before_raw)
    return int(difference) if feature.type is FeatureType.INTEGER else float(difference)


def _verb(feature: Feature, upwards: bool) -> str:
    if feature.action:
        return feature.action
    if feature.is_number:
        return "Increase" if upwards else "Reduce"
    if feature.type is FeatureType.ORDINAL:
        return "Raise" if upwards else "Lower"
    return "Change"


def name_text(feature: Feature) -> str:
    """The label as it reads inside a sentence: "credit amount", but "LTV ratio"."""
    label = feature.label or feature.name.replace("_", " ")
    return label[0].lower() + label[1:] if label[1:2].islower() else label


def _texts(feature: Feature, before_raw: float, after_raw: float) -> tuple[str, str]:
    if not feature.is_number:
        before, after = (_level(feature.value(raw)) for raw in (before_raw, after_raw))
        # "from under 1 year to 1 to 3 years" would be hard to read.
        return (f'"{before}"', f'"{after}"') if " " in before + after else (before, after)
    digits = (_rounded(feature, before_raw), _rounded(feature, after_raw))
    if digits[0] == digits[1]:
        # Rounding for display must not hide the change.
        digits = (_decimal(before_raw), _decimal(after_raw))
    return _with_unit(digits[0], feature.unit), _with_unit(digits[1], feature.unit)


def number_text(feature: Feature, number_raw: float) -> str:
    """A number as it reads inside a sentence, with its unit."""
    return _with_unit(_rounded(feature, number_raw), feature.unit)


def _level(value: RawValue) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _decimal(number_raw: float) -> Decimal:
    """The number as it prints, so that 0.3 - 0.1 is 0.2."""
    return Decimal(repr(number_raw))


def _rounded(feature: Feature, number_raw: float) -> Decimal:
    number = _decimal(number_raw)
    if number.adjusted() >= MOST_PLACES:
        return number
    if feature.type is FeatureType.INTEGER:
        return round(number, 0)
    if feature.decimals is not None:
        return round(number, feature.decimals)
    # Significant digits, but never fewer than the whole part has.
    places = max(0, SIGNIFICANT_DIGITS - 1 - number.adjusted())
    return round(number, places).normalize()


def _with_unit(number: Decimal, unit: str | None) -> str:
    digits = f"{number:,f}" if abs(number.adjusted()) < MOST_PLACES else f"{float(number):g}"
    if unit is None:
        return digits
    if unit == "%":
        return f"{digits}%"
    if unit in CURRENCY_SIGNS:
        return f"-{unit}{digits[1:]}" if digits.startswith("-") else f"{unit}{digits}"
    if unit in COUNTED_UNITS and abs(number) == 1:
        return f"{digits} {unit[:-1]}"
    return f"{digits} {unit}"
