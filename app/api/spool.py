"""Bodies that are lines of JSON: stored in a file without a name as they come, never whole in memory."""

import asyncio
import tempfile
from contextlib import suppress
from io import BufferedRandom

from fastapi import Request

from app.api.deps import service_of
from app.errors import BodyTooLarge, StateUnusable
from app.service import Service

LONGEST_LINE = 1_000_000
"""Bytes of one line."""

WRITTEN_AT_ONCE = 1_000_000
"""Bytes that are collected before they are written."""

_KEY = "spooled"


async def spooled(request: Request) -> BufferedRandom:
    """The body as a file, at its beginning; `close_spooled` must follow.

    Raises
    ------
    BodyTooLarge : the body, or one of its lines
    StateUnusable : it cannot be stored
    """
    try:
        if _KEY not in request.scope:
            request.scope[_KEY] = await asyncio.to_thread(_new_file, service_of(request))
            await _store(request, request.scope[_KEY])
        file: BufferedRandom = request.scope[_KEY]
        file.seek(0)  # writes what is in its buffer
    except OSError as error:
        raise StateUnusable(f"The body of the request cannot be stored: {error.strerror}.") from None
    return file


def close_spooled(request: Request) -> None:
    """Remove the file of a request, if it has one."""
    if (file := request.scope.pop(_KEY, None)) is not None:
        # What could not be written is in its buffer still, and the request was refused for it.
        with suppress(OSError):
            file.close()


def _new_file(service: Service) -> BufferedRandom:
    settings = service.settings
    # Where databases are files, there is a disk for them; a temporary directory may be memory.
    directory = settings.state_dir if settings.database_url is None else None
    return tempfile.TemporaryFile(dir=directory)


async def _store(request: Request, file: BufferedRandom) -> None:
    waiting, line = bytearray(), 0
    async for part in request.stream():
        first, *others = map(len, part.split(b"\n"))
        if max(line + first, *others, 0) > LONGEST_LINE:
            raise BodyTooLarge(f"A line must not exceed {LONGEST_LINE:,} bytes.")
        line = others[-1] if others else line + first
        waiting += part
        if len(waiting) >= WRITTEN_AT_ONCE or not part:
            await asyncio.to_thread(file.write, bytes(waiting))
            waiting.clear()
