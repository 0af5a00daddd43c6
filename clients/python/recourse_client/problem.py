"""Errors of the service, as exceptions."""

from dataclasses import dataclass
from typing import Any

import httpx

PROBLEM_JSON = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request."""

    pointer: str
    """JSON pointer into its body; empty for the whole request."""
    detail: str


class ProblemError(Exception):
    """An error of the service: a problem document (RFC 9457)."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.problem = problem
        """The whole document."""
        self.code: str = problem["code"]
        """Stable; branch on this, not on the text."""
        self.status: int = problem["status"]
        """Of HTTP."""
        self.detail: str = problem["detail"]
        self.request_id: str = problem["request_id"]
        """Identifies the request in the log of the service."""
        self.errors = tuple(Fault(one["pointer"], one["detail"]) for one in problem.get("errors") or ())
        """Every fault of the request."""
        faults = "".join(f"\n  {fault.pointer or '/'}: {fault.detail}" for fault in self.errors)
        super().__init__(f"{self.status} {self.code}: {self.detail}{faults}")


def checked(response: httpx.Response) -> httpx.Response:
    """The response, whose body has been read, if it is no error.

    Raises
    ------
    ProblemError : the service says what is wrong
    httpx.HTTPStatusError : an error that is not the service's, as of a proxy
    """
    if response.headers.get("Content-Type", "").startswith(PROBLEM_JSON):
        raise ProblemError(response.json())
    return response.raise_for_status()
