"""What is recorded about a recourse that was given, and its case file: all of it in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.ledger.rows import Link
from app.questions.answers import ModelVersion, Timestamp
from app.recourse.answer_part import AnswerPart
from app.recourse.features import RawValue
from app.recourse.result import Status


class Channel(StrEnum):
    """How a letter was sent."""

    POST = "post"
    EMAIL = "email"
    PORTAL = "portal"
    IN_PERSON = "in_person"
    OTHER = "other"


class Outcome(StrEnum):
    """What a person decided about an application."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLetter(AnswerPart):
    """A letter that was sent, as it is recorded."""

    id: str
    """Of the letter."""
    recourse: str
    """The recourse that it is about."""
    channel: Channel
    """How it was sent."""
    sent_at: Timestamp
    """When it was sent."""
    recorded_at: Timestamp
    """When this was recorded."""
    recorded_by: str | None
    """The id of the API key that recorded it; null without keys."""
    addressee: tuple[str, ...]
    """Lines of who got it; none where nobody said."""
    language: str | None
    """Of the letter; null for a text of the lender's own."""
    text: str
    """The text that was sent."""
    page: str | None
    """The same as the page that prints, in HTML; null for a text of the lender's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAgain(AnswerPart):
    """The answer to the corrected record."""

    id: str
    """Of the new recourse in the ledger; it is a case of its own, and is erased by itself."""
    model: ModelVersion
    """The version that was asked."""
    status: Status
    """Outcome of the new answer."""
    favourable: bool | None
    """Whether the model accepts the corrected record; null where it was not asked in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review(AnswerPart):
    """A second look at a case: wrong data corrected and the model asked again, a decision by a person, or both."""

    id: str
    """Of the review."""
    recourse: str
    """The recourse that it is about."""
    by: str
    """Who looked."""
    reason: str
    """Why it was corrected, or decided so."""
    recorded_at: Timestamp
    """When this was recorded."""
    recorded_by: str | None
    """The id of the API key that recorded it; null without keys."""
    corrections: Mapping[str, RawValue]
    """Corrected values by feature; empty where nothing was wrong."""
    asked: AskedAgain | None
    """What the model says of the corrected record; null without corrections."""
    decision: Outcome | None
    """What the person decided; null where nothing is decided yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller(AnswerPart):
    """Who asked."""

    key: str
    """The id of an API key."""
    name: str | None
    """What the operator calls it; null where it is no longer known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterVersion(AnswerPart):
    """Whether a version that was registered later keeps the promise."""

    model: str
    """`id@version`."""
    registered_at: Timestamp
    """When it was registered."""
    kept: bool | None
    """Whether it accepts every way of the answer; null where it was not asked."""
    detail: str | None
    """Why it was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofLink(AnswerPart):
    """An entry of the chain about this case."""

    number: int
    """Position in the chain."""
    kind: str
    """`given`, `sent` or `reviewed`."""
    id: str
    """Of the recourse, the letter or the review."""
    about: str | None
    """The recourse that a letter or review is about."""
    at: Timestamp
    """When it was recorded."""
    digest: str
    """Of the personal data, keyed with a secret that is erased with it."""
    before: str
    """Hash of the entry before."""
    hash: str
    """Hash of this entry."""
    holds: bool
    """Whether the entry has this hash now, and its personal data this digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile(AnswerPart):
    """All that is known of a case."""

    id: str
    """Id of the answer."""
    reference: str | None
    """The caller's own name for the case."""
    written_at: Timestamp
    """When this file was written."""
    asked_by: Caller | None
    """Who asked; null without API keys."""
    request: Mapping[str, Any]
    """As it was resolved: the record, and the question with every parameter."""
    answer: Mapping[str, Any]
    """As `GET /recourse/{id}` has it: decision, version, ways, and until when they are promised."""
    reasons: Mapping[str, Any] | None
    """Why the model refuses, from the answer or computed now as for the letter; null where it does not refuse, or where
    the version that answered is no longer there."""
    later: tuple[LaterVersion, ...]
    """Whether versions that were registered later keep the promise, oldest first; none where nothing was promised."""
    letters: tuple[SentLetter, ...]
    """Letters that were sent, in the order in which they were recorded."""
    reviews: tuple[Review, ...]
    """Second looks, in the order in which they were recorded."""
    proof: tuple[ProofLink, ...]
    """The entries of the chain about this case. `recourse db verify` verifies the whole chain, and with `--head` that a
    hash is in it."""
    holds: bool
    """Whether each of these entries is as it was written."""


def proof_of(link: Link) -> ProofLink:
    """The part of a case file about one entry of the ledger's chain."""
    entry = link.record.entry
    return ProofLink(
        number=entry.number,
        kind=entry.kind.value,
        id=entry.id,
        about=entry.about,
        at=entry.at,
        digest=entry.digest or "",
        before=link.before,
        hash=link.hash,
        holds=link.holds,
    )
