"""The results of a batch: one line of JSON for each row, an answer or an error."""

import json
from datetime import UTC, datetime

from app.errors import RecourseError
from app.jobs.ids import new_id
from app.questions.answers import Json, ModelVersion, encoded, plain, without_scores
from app.questions.frame import Frame
from app.questions.recourse import RecourseAnswer, out_of_time
from app.recourse.models.score import PointScale
from app.store.timestamps import expiry, timestamp

GROUP = 60
"""Rows that a child computes at once, and that share model calls."""

SEEDS = 2**53
"""Number of seeds, from 0: whole numbers that JSON readers represent exactly."""

REFUSED = '{"refused":'
"""Start of the line of a row with an error; an answer starts with its id."""


def line_of(found: Json) -> str:
    """The line of a batch that has the answer `found`, encoded as a direct request would get it."""
    return encoded(found).decode()


def refused(row: Json, error: RecourseError) -> str:
    """The line of a batch for a row that failed: has the error; `refusal` reads such a line."""
    return line_of({"refused": error.to_dict(), "reference": row.get("reference")})


def is_refused(line: str) -> bool:
    """Whether a line of a batch holds an error instead of an answer."""
    return line.startswith(REFUSED)


def refusal(line: str) -> tuple[RecourseError, str | None] | None:
    """The error and the row's `reference` that a line made by `refused` holds; None for any other line."""
    if not is_refused(line):
        return None
    row = json.loads(line)
    return RecourseError.from_dict(row["refused"]), row["reference"]


def answered(answer: RecourseAnswer, *, scores: bool = True) -> str:
    """The line of a batch that has an answer; if `scores` is false, without scores of the applicant's record."""
    found = plain(answer)
    return line_of(found if scores else without_scores(found, brought=False))


def frame(payload: Json, offset: int) -> Frame:
    """The frame (id, model, seed, times and so on) of the answer to one row.

    `offset` is the row's index in the payload.
    """
    common, created = payload["frame"], datetime.now(UTC)
    expires_at = expiry(created, common["valid_days"])
    return Frame(
        id=new_id("rec"),
        reference=payload["rows"][offset].get("reference"),
        model=ModelVersion(**common["model"]),
        threshold=common.get("threshold"),
        method=common["method"],
        seed=seed(payload, offset),
        stored=payload["store"],
        created_at=timestamp(created),
        # A job of the release before has no bound.
        expires_at=min(expires_at, common.get("expires_by", expires_at)),
        points=common.get("points") and PointScale(**common["points"]),
    )


def stopped(payload: Json, offset: int, elapsed_ms: float) -> str:
    """The line of a row whose computation was killed after its deadline: an answer that states no recourse."""
    return answered(out_of_time(frame(payload, offset), elapsed_ms))


def seed(payload: Json, offset: int) -> int:
    """The seed of one row: the batch's seed plus the row's index in the batch, modulo `SEEDS`.

    `offset` is the row's index in this payload; the first row of the payload has the index ``first`` in the batch.
    """
    return (int(payload["question"]["seed"]) + int(payload["first"]) + offset) % SEEDS
