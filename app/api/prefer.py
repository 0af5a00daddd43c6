"""The header `Prefer` (RFC 7240): whether a client wants to wait for the answer."""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request

from app.errors import InvalidRequest

LONGEST_WAIT_S = 30
"""Longest time that a response is held back."""

_PREFERENCE = re.compile(
    r"""\s*+(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*+(?:=\s*+(?:(?P<token>[^\s",;]*)|"(?P<quoted>(?:[^"\\]|\\.)*)"))?"""
    r"""\s*+(?:;(?:[^",]|"(?:[^"\\]|\\.)*")*)?(?:,|$)"""
)
"""One preference with its parameters, which ours do not have."""


@dataclass(frozen=True, slots=True)
class Prefer:
    """The preferences of a request's header `Prefer` that this service knows; the service ignores others."""

    respond_async: bool = False
    wait_s: int | None = None
    """Seconds to wait for an answer before the job is returned instead."""

    @property
    def wants_job(self) -> bool:
        """Whether the client prefers a job to a direct answer."""
        return self.respond_async or self.wait_s is not None

    @property
    def applied(self) -> str:
        """The value of the response header `Preference-Applied`."""
        wait = [] if self.wait_s is None else [f"wait={self.wait_s}"]
        return ", ".join([*(["respond-async"] if self.respond_async else []), *wait])

    @classmethod
    def parse(cls, header: str) -> "Prefer":
        """The preferences in the text of a header; of a preference that occurs twice, the first occurrence counts."""
        found: dict[str, str] = {}
        position = 0
        while position < len(header) and (match := _PREFERENCE.match(header, position)):
            found.setdefault(match["name"].lower(), match["token"] or match["quoted"] or "")
            position = match.end()
        wait = found.get("wait", "")
        seconds = min(int(wait), LONGEST_WAIT_S) if re.fullmatch(r"[0-9]{1,9}", wait, re.ASCII) else None
        return cls(respond_async="respond-async" in found, wait_s=seconds)


async def _prefer(
    request: Request,
    prefer: Annotated[  # noqa: ARG001 - for the description
        str | None,
        Header(
            description="`respond-async`: answer 202 with a job at once. `wait=N`: wait at most N seconds (30 at most) "
            "for the answer, then return the job. Without either, the answer is direct.",
        ),
    ] = None,
) -> Prefer:
    return _preferences(request)


PreferDep = Annotated[Prefer, Depends(_prefer)]


def _preferences(request: Request) -> Prefer:
    # A header that is sent several times means the same as its values with commas between them.
    sent = request.headers.getlist("prefer")
    return Prefer.parse(", ".join(sent)) if sent else Prefer()


async def _direct(request: Request) -> None:
    """Raises `InvalidRequest` for a client that wants a job of what is answered in one step."""
    if _preferences(request).respond_async:
        raise InvalidRequest("This endpoint always answers directly: leave out the header `Prefer: respond-async`.")


DIRECT = Depends(_direct)
"""Of routes that make no jobs."""
