"""The header `Idempotency-Key`: a request that is sent again gets the first answer.

It follows draft-ietf-httpapi-idempotency-key-header-07, which has lapsed but is a convention.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response

from app.api.bodies import CSV, JSON, NDJSON, READ_AT_ONCE, media_type, spooled
from app.api.deps import service_of
from app.errors import Fault, InvalidRequest, NotReady
from app.idempotency.answers import LEASE, Attempt, IdempotentAnswer, IdempotentAnswers
from app.jobs.ids import RECOURSE_ID, counting_from, new_number
from app.jobs.job import JOB_ID
from app.observability import log
from app.service import Service

HEADER = "Idempotency-Key"

_KEY = r'[!#-~]{1,255}|"[ !#-~]{1,255}"'
"""Bare, or in quotes as the draft wants it."""

PARAMETER: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A name for this request that no other request has, such as a UUID. Sent again within 24 hours, the "
    "request is not carried out again: it gets the first answer, with `Idempotent-Replayed: true`. Up to "
    f"{READ_AT_ONCE:,} bytes it does not matter how the same JSON is written.",
    "schema": {"type": "string", "pattern": f"^(?:{_KEY})$"},
}

KEPT_HEADERS = ("content-type", "content-location", "location", "preference-applied", "retry-after", "vary")

Handle = Callable[[Request], Awaitable[Response]]


async def answer_once(request: Request, caller: str, handle: Handle) -> Response:
    """Handle a request that has an idempotency key; if the request is sent again, it gets the first answer.

    Only an answer of success is kept: a request that was refused or has failed may be sent again.

    Raises
    ------
    InvalidRequest : the header has no valid key
    IdempotencyKeyReused : the key was used for another request
    IdempotencyInProgress : the same request is being answered
    NotReady : the database cannot be reached
    """
    service = service_of(request)
    key = request.headers[HEADER]
    if not re.fullmatch(_KEY, key):
        what = "must be 1 to 255 visible ASCII characters other than double quotes; with spaces, in double quotes"
        fault = Fault("", f"the header {HEADER} {what}")
        raise InvalidRequest(faults=[fault])
    name = _digest(caller.encode(), key.strip('"').encode())
    query = request.url.query and f"?{request.url.query}"
    sent = request.method.encode(), f"{request.url.path}{query}".encode(), await _canonical(request)
    # In a thread: a large body takes a while.
    digest = await asyncio.to_thread(_digest, *sent)
    claimed = await service.ledger.run(
        lambda engine: IdempotentAnswers(engine).claim(name, digest, str(new_number()), _now())
    )
    if isinstance(claimed, IdempotentAnswer):
        service.metrics.replayed()
        return Response(claimed.body, claimed.status, {**claimed.headers, "Idempotent-Replayed": "true"})
    async with _renewed(service, claimed):
        try:
            with counting_from(int(claimed.ids)):
                response = await handle(request)
        except Exception:
            await _settle(service, claimed, request, None)
            raise
        await _settle(service, claimed, request, response if response.status_code < 300 else None)
        return response


async def _settle(service: Service, attempt: Attempt, request: Request, response: Response | None) -> None:
    """Keep an answer for its key, or let the key go. Without the database the lease lapses, and the answer is given."""
    try:
        if response is None:
            await service.ledger.run(lambda engine: IdempotentAnswers(engine).release(attempt, _now()))
            return
        headers = {name: value for name, value in response.headers.items() if name in KEPT_HEADERS}
        body = bytes(response.body)
        answer = IdempotentAnswer(status=response.status_code, headers=headers, body=body)
        subject = _subject(request, response)
        if not await service.ledger.run(
            lambda engine: IdempotentAnswers(engine).keep(attempt, answer, subject, _now())
        ):
            log.warning("idempotent-answer-not-kept", reason="another attempt took over, or the recourse was erased")
    except NotReady:
        log.warning("idempotent-answer-not-kept", reason="the database cannot be reached")


@asynccontextmanager
async def _renewed(service: Service, attempt: Attempt) -> AsyncIterator[None]:
    """Keeps the key claimed for as long as its request takes."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            with suppress(NotReady):  # the next one may come in time
                await service.ledger.run(lambda engine: IdempotentAnswers(engine).renew(attempt, _now()))

    task = asyncio.get_running_loop().create_task(renew())
    try:
        yield
    finally:
        task.cancel()


async def _canonical(request: Request) -> bytes:
    """The JSON of a small body in one spelling, the digest of lines and tables; else the body itself."""
    if media_type(request.headers) in (NDJSON, CSV):
        return (await asyncio.to_thread(hashlib.file_digest, await spooled(request), "sha256")).digest()
    if media_type(request.headers) != JSON or len(await request.body()) > READ_AT_ONCE:
        return await request.body()
    try:
        value = await request.json()
    except (ValueError, RecursionError):
        return await request.body()  # its handler reports the fault
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _subject(request: Request, response: Response) -> str | None:
    """The id of the recourse that an answer is about, or of the job it is from: once that is erased, it goes too."""
    if about := RECOURSE_ID.search(request.url.path):
        return about[0]
    found = json.loads(bytes(response.body)) if response.media_type == JSON else None
    name = found.get("id") if isinstance(found, dict) else None
    if isinstance(name, str) and RECOURSE_ID.fullmatch(name):
        return name
    job = JOB_ID.search(response.headers.get("location") or response.headers.get("content-location", ""))
    return job and job[0]


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


def _now() -> datetime:
    return datetime.now(UTC)
