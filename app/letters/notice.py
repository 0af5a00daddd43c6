"""The records that a letter consists of; templates name their fields."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from app.questions.answers import Timestamp
from app.recourse.answer_part import AnswerPart

Role = Literal["needed", "margin", "flat", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender(AnswerPart):
    """Who sends the letter; from the operator's settings, empty where they say nothing."""

    name: str
    """Its name."""
    address: tuple[str, ...]
    """Its lines."""
    contact: str
    """Where the applicant can ask, and have a person decide."""
    authority: str
    """Whom applicants complain to about the decision."""
    data_authority: str
    """Whom they complain to about the use of their data."""
    debt_advice: str
    """Who advises people in debt."""
    bureau: tuple[str, ...]
    """Lines of the credit bureau whose report was used; `none` alone where none was."""
    signatory: tuple[str, ...] = ()
    """Lines of who signs; none where only the lender's name stands below the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReason(AnswerPart):
    """A principal reason."""

    code: str | None
    """The lender's own code."""
    text: str
    """The reason in words."""
    value: str | None
    """The applicant's; null where `text` says it, or without `usual`; if `mixed`, better than that."""
    usual: str | None
    """What is usual among the others; null where that says nothing."""
    mixed: bool
    """Whether it lowers the rating without being too high or too low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeWay(AnswerPart):
    """One way to a yes."""

    number: int
    """From 1."""
    steps: tuple[str, ...]
    """The most helpful first."""
    roles: tuple[Role, ...]
    """Of each step; `flat` and `lower`: a margin that keeps or lowers the rating."""
    time: str | None
    """How long it takes; null if unknown."""
    late: bool
    """Whether that is longer than the letter is valid."""
    tight: bool
    """Whether it is nearly as long."""
    day: str | None
    """From which day, if that matters."""
    last: str | None
    """Until which day, likewise; null if late."""
    counted: tuple[str, ...]
    """What it assumes of that day."""
    unstated: tuple[str, ...]
    """What may be stated."""
    birthday: bool
    """Whether only a count of years makes the yes."""
    enough: int | None
    """How many steps suffice today; null where all, or unknown."""
    enough_time: str | None
    """How long these take."""
    rating: str | None
    """The model's rating then; null with points, or a value unknown."""
    points: str | None
    """Its points, likewise."""
    promise: str | None
    """What is promised beyond `alike`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(AnswerPart):
    """A letter to an applicant."""

    id: str
    """Of the recourse."""
    reference: str | None
    """The caller's name for the case."""
    language: str
    """Its language."""
    regime: str
    """Which of the lender's letters."""
    missing: tuple[str, ...]
    """What a draft lacks."""
    date: str
    """Of the answer."""
    created_at: Timestamp
    """Time of the answer."""
    title: str
    """Of the model."""
    model: str
    """`id@version`."""
    lender: Lender
    """Who sends it."""
    addressee: tuple[str, ...]
    """Lines of who gets it."""
    applied_on: str | None
    """Date of the application."""
    asked: tuple[str, ...]
    """Terms applied for, a line each."""
    refused: bool
    """Whether the model refuses the application."""
    accepted: bool
    """Neither where the model was not asked in time."""
    lasting: bool
    """Time changes it, but no yes."""
    timed: bool
    """Whether time changes a yes."""
    last: str | None
    """Until when it does not."""
    today: tuple[str, ...]
    """What it changes, as it is now."""
    unstated: tuple[str, ...]
    """What may be stated, without ways."""
    years: bool
    """Whether a birthday may change the answer."""
    unseen: bool
    """Whether values are unlike those of the records."""
    precluded: bool
    """Whether the model is proven to refuse all within reach."""
    accepts_some: bool
    """Whether it accepts changes, but none lasts as asked."""
    limited: bool
    """Whether the request rules changes out."""
    left_out: tuple[str, ...]
    """What it rules out."""
    likely_enough: str | None
    """What of that seems enough alone."""
    longer: str | None
    """How long it takes with more time; empty if unknown."""
    reach_until: str | None
    """By when changes must be possible, if that matters."""
    rating: str | None
    """How the model rates the application, from 0 to 100."""
    least_rating: str | None
    """Least rating that it accepts."""
    points: str | None
    """Its points today; null without."""
    least_points: str | None
    """The fewest that it accepts; null where fewer are better."""
    most_points: str | None
    """The most, where fewer are better."""
    reasons: tuple[NoticeReason, ...]
    """The most important first."""
    compared_with: str | None
    """Whom reasons compare with."""
    unnamed: str | None
    """Share of what lowered the score that is not named; null where small."""
    reported: tuple[str, ...]
    """What the bureau reported, where the letter states it."""
    unreported: tuple[str, ...]
    """What it did not know, likewise."""
    ways: tuple[NoticeWay, ...]
    """In at most five steps each."""
    offer: tuple[str, ...]
    """Other terms that today's model accepts, a line each."""
    offer_promise: str | None
    """What can be promised of it."""
    long_left_out: bool
    """Whether all have too many steps."""
    alike: str | None
    """What can be promised of each of several ways."""
    tried: int | None
    """Future models behind the shares in promises."""
    valid_until: str
    """Last day; before the answer expires where a backtest says so."""


def _names(record: Any) -> set[str]:
    return {f.name for f in fields(record)}


NAMES = frozenset().union(*map(_names, (Notice, Lender, NoticeReason, NoticeWay)))
"""What a template may name."""
