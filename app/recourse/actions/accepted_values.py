"""The values of a missing feature that a model accepts, as part of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.recourse.actions.phrases import Phrases, fill
from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.features import RawValue


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues(AnswerPart):
    """Which values of a missing feature the model accepts, with everything else as in the record."""

    min: float | None = field(default=None, metadata=EXACT)
    """The smallest of them; null where every smaller value is accepted too, and for a feature that is not a number."""
    max: float | None = field(default=None, metadata=EXACT)
    """The largest of them; null where every larger value is accepted too, and for a feature that is not a number."""
    levels: tuple[RawValue, ...] | None = None
    """All of them, of a feature that is not a number; null for a number."""


def phrase_of(accepted: AcceptedValues | None, phrases: Phrases) -> str:
    """The phrase that asks the applicant to state a missing value, with ``{places}`` for the accepted values.

    The phrase names no accepted values where `accepted` is None.
    """
    if accepted is None:
        return phrases.state
    if accepted.levels is not None:
        return phrases.state_level
    if accepted.min is None:
        return phrases.state_any if accepted.max is None else phrases.state_most
    if accepted.max is None:
        return phrases.state_least
    return phrases.state_only if accepted.min == accepted.max else phrases.state_between


def either(names: Sequence[str], phrases: Phrases) -> str:
    """The `names` joined as alternatives in the language of `phrases`: "A, B or C"."""
    *others, last = names
    return fill(phrases.either, {"from": ", ".join(others), "to": last}) if others else last
