"""Errors, as RFC 9457 problem documents."""

from pydantic import BaseModel, ConfigDict


class Fault(BaseModel):
    """One thing that is wrong with a request, and where."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    pointer: str
    """JSON pointer into the request body."""
    detail: str


class Problem(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """A page that explains the problem."""
    title: str
    status: int
    detail: str
    instance: str
    """The address that was asked."""
    request_id: str
    """Names the request in the log of the service."""
    code: str
    """Stable; switch on this."""
    errors: list[Fault] | None = None
    """Everything that is wrong with the request, where fields are at fault."""


class ProblemPage(BaseModel):
    """What one kind of problem means."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    code: str
    status: int
    title: str
    meaning: str
    remedy: str
    """What to do about it."""
