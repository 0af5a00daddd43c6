"""What verifying the ledger finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The place at which the chain is broken."""

    number: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of verifying every entry."""

    entries: int
    erased: int
    head: str
    """Hash of the last entry."""
    broken: Broken | None
    """The first entry that does not verify."""
