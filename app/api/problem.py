"""Errors, as RFC 9457 problem documents."""

from app.api.described import Described


class Fault(Described):
    """One fault of a request, and where it is."""

    pointer: str
    """JSON pointer into the request body, or into the row of a table; empty for all of it, and where `detail` names a
    query parameter."""
    detail: str
    """What is wrong, as a sentence without its subject."""


class Problem(Described):
    """An error."""

    type: str
    """A page that explains the problem."""
    title: str
    """Short name of the error."""
    status: int
    """HTTP status."""
    detail: str
    """What is wrong in this case."""
    instance: str
    """The address of the request."""
    request_id: str
    """Identifies the request in the log of the service."""
    code: str
    """Stable error code."""
    errors: list[Fault] | None = None
    """All faults of the request, where fields are at fault."""
