"""The rows of a batch and what becomes of them: each an answer or an error, one line of JSON."""

import json
from datetime import UTC, datetime, timedelta

from app.errors import RecourseError
from app.jobs.answer import Json, encoded, framed, out_of_time
from app.jobs.ids import new_id
from app.store.moments import timestamp

GROUP = 20
"""Rows that a child computes at once, and that share model calls."""

SEEDS = 2**53
"""How many seeds there are, from 0: whole numbers that every reader of JSON can tell apart."""

REFUSED = '{"refused":'
"""Begins the line of a row that has an error; an answer begins with its id."""


def line_of(found: Json) -> str:
    """A line, in the very bytes that a direct answer would have had."""
    return encoded(found).decode()


def refused(row: Json, error: RecourseError) -> str:
    """The line of a row that has no answer; `refusal` reads it."""
    return line_of({"refused": error.to_dict(), "reference": row.get("reference")})


def refusal(line: str) -> tuple[RecourseError, str | None] | None:
    """The error and the reference of a row that has no answer; None for an answer."""
    if not line.startswith(REFUSED):
        return None
    told = json.loads(line)
    return RecourseError.from_dict(told["refused"]), told["reference"]


def answered(payload: Json, offset: int, found: Json) -> str:
    """The line of an answer to row `offset` of the payload's rows, with its own id, seed and times."""
    frame, created = payload["frame"], datetime.now(UTC)
    own = {
        "id": new_id("rec"),
        "reference": payload["rows"][offset].get("reference"),
        "model": frame["model"],
        "method": frame["method"],
        "seed": seed(payload, offset),
        "stored": payload["store"],
        "created_at": timestamp(created),
        "expires_at": timestamp(created + timedelta(days=frame["valid_days"])),
    }
    return line_of(framed(own, found))


def stopped(payload: Json, offset: int, elapsed_ms: float) -> str:
    """The line of a row whose computation had to be stopped from outside."""
    return answered(payload, offset, out_of_time(elapsed_ms))


def seed(payload: Json, offset: int) -> int:
    """The seed of a row: that of the batch, plus the row's position in it; after the last seed comes 0."""
    return (int(payload["question"]["seed"]) + int(payload["first"]) + offset) % SEEDS
