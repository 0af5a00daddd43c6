"""The chain: each entry's hash covers the entry and the hash before it, so nothing can be changed, moved or left out.

Personal data is covered through a salted digest alone. The salt is erased with the data, and without it the digest
says nothing about what it was made of.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass
from enum import StrEnum

FIRST = "0" * 64
"""Stands for the hash before the first entry."""


class Kind(StrEnum):
    """What an entry says."""

    GIVEN = "given"
    """This recourse was given."""
    ERASED = "erased"
    """The personal data of this recourse was erased; `status` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One link, without its hash; None where it says nothing, as about the model in an erasure."""

    number: int
    """Position in the chain, from 1, without gaps."""
    kind: Kind
    id: str
    """Of the recourse."""
    at: str
    """When it was given or erased."""
    expires_at: str | None = None
    model: str | None = None
    version: str | None = None
    sha256: str | None = None
    """Of the model's artifact."""
    status: str | None = None
    digest: str | None = None
    """Of the personal data."""

    def hash(self, before: str) -> str:
        """Hexadecimal SHA-256 over the hash before it and all its fields."""
        fields = (getattr(self, field) for field in self.__slots__)
        content = json.dumps([before, *fields], separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Particulars:
    """What is known about a person, and what was answered."""

    reference: str | None
    job: str | None
    """The job that computed the answer."""
    request: bytes
    """JSON: the applicant's record and the question with every parameter."""
    answer: bytes
    """JSON, the very bytes that were sent."""

    def digest(self, salt: bytes) -> str:
        """Hexadecimal HMAC-SHA256 of all of it; `salt` is 32 random bytes of its own."""
        keyed = hmac.new(salt, digestmod=hashlib.sha256)
        for part in (json.dumps([self.reference, self.job]).encode(), self.request, self.answer):
            keyed.update(len(part).to_bytes(8, "big") + part)
        return keyed.hexdigest()
