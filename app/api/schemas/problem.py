"""Errors, as RFC 9457 problem documents."""

from pydantic import BaseModel, ConfigDict


class Fault(BaseModel):
    """One fault of a request, and where it is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    pointer: str
    """JSON pointer into the request body."""
    detail: str


class Problem(BaseModel):
    """An error."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """A page that explains the problem."""
    title: str
    status: int
    detail: str
    instance: str
    """The address of the request."""
    request_id: str
    """Identifies the request in the log of the service."""
    code: str
    """Stable error code."""
    errors: list[Fault] | None = None
    """All faults of the request, where fields are at fault."""


class ProblemPage(BaseModel):
    """The meaning of an error code."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    code: str
    status: int
    title: str
    meaning: str
    remedy: str
    """What to do about it."""
