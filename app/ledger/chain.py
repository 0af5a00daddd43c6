"""The chain: each entry's hash covers the entry and the hash before it, so no entry can be changed, moved or removed.

Personal data is covered by a salted digest only. The salt is erased with the data; without it the digest reveals
nothing about the data.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass
from enum import StrEnum

FIRST = "0" * 64
"""Takes the place of the hash before the first entry."""


class Kind(StrEnum):
    """The kind of event that an entry of the ledger records."""

    GIVEN = "given"
    """A recourse was given."""
    ERASED = "erased"
    """The personal data of a recourse was erased; `status` has the reason."""
    COMPARED = "compared"
    """Two versions of a model were compared; model, version and sha256 are the candidate's."""
    REPORTED = "reported"
    """A report was made of the recourse of all whom a version refuses."""
    SENT = "sent"
    """A letter about a recourse was sent; `status` has the channel."""
    REVIEWED = "reviewed"
    """A recourse was looked at again; `status` has the decision, model, version and sha256 are those asked then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the hash chain, without its hash. Fields that do not apply to its kind are None."""

    number: int
    """Position in the chain, from 1, without gaps."""
    kind: Kind
    id: str
    """Of the recourse, of the job that compared or reported, or of the letter or review."""
    at: str
    """When it was given, erased, compared, reported, or recorded."""
    expires_at: str | None = None
    model: str | None = None
    version: str | None = None
    sha256: str | None = None
    """Of the model's artifact."""
    status: str | None = None
    digest: str | None = None
    """Of the personal data; of a comparison SHA-256 of its result."""
    about: str | None = None
    """The recourse that a letter or review is about."""

    def hash(self, before: str) -> str:
        """Hexadecimal SHA-256 of the text `before` and of all fields; `before` is the hash of the previous entry.

        The field `about` is not hashed where it is None.
        """
        fields = [getattr(self, field) for field in self.__slots__]
        if self.about is None:  # entries of earlier releases have no such field
            fields.pop()
        content = json.dumps([before, *fields], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalData:
    """The personal data of one recourse, letter or review: the client's reference, the request and the answer."""

    reference: str | None
    job: str | None
    """The job that computed the answer."""
    request: bytes
    """JSON: the applicant's record and the question with every parameter."""
    answer: bytes
    """JSON, exactly the bytes that were sent."""

    def digest(self, salt: bytes) -> str:
        """Hexadecimal HMAC-SHA256 of all fields.

        The key of the HMAC is `salt`: 32 random bytes that are used for no other personal data.
        """
        parts = json.dumps([self.reference, self.job]).encode(), self.request, self.answer
        framed = (piece for part in parts for piece in (len(part).to_bytes(8, "big"), part))
        return hmac.digest(salt, b"".join(framed), "sha256").hex()
