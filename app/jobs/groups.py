"""Rows of a batch in the children of a lane, a group at a time."""

import time
from typing import Any

from app.errors import InternalError, LaneCrashed, LaneTimeout, RecourseError
from app.jobs import batch
from app.jobs.answer import Json
from app.jobs.asked import Store
from app.jobs.child import Need
from app.jobs.kinds import JobKind, ready
from app.jobs.pool import Lane

ATTEMPTS_ALONE = 2
"""How often a row is computed alone whose child dies, after it died with others."""

LONGEST_TURN_S = 86_400.0
"""Longest time to wait for a child: other jobs may have all of them."""


async def lines_of(lane: Lane, kind: JobKind, store: Store, payload: Json) -> list[str]:
    """One line for each of the payload's rows, whatever happens to the child.

    Where they cannot be computed together, each is computed alone, and the one that is the reason says so in its line.
    Raises what concerns all rows, such as `ModelUnusable`.
    """
    rows = payload["rows"]
    try:
        return await _computed(lane, kind, store, payload)
    except (LaneTimeout, LaneCrashed, InternalError):
        alone = [{**payload, "first": payload["first"] + i, "rows": [row]} for i, row in enumerate(rows)]
        return [await _line(lane, kind, store, one) for one in alone]


async def _line(lane: Lane, kind: JobKind, store: Store, payload: Json) -> str:
    (row,) = payload["rows"]
    began = time.monotonic()
    error: RecourseError | None = None
    for _ in range(ATTEMPTS_ALONE):
        try:
            (line,) = await _computed(lane, kind, store, payload)
            return line
        except LaneTimeout:
            return batch.stopped(payload, 0, 1000.0 * (time.monotonic() - began))
        except InternalError as caught:
            return batch.refused(row, caught)
        except LaneCrashed as caught:
            error = caught
    assert error is not None
    return batch.refused(row, error)


async def _computed(lane: Lane, kind: JobKind, store: Store, payload: Json) -> list[str]:
    timeout_s = len(payload["rows"]) * payload["deadline_s"]
    lines: Any = await lane.run(
        kind,
        store,
        payload,
        timeout_s=timeout_s,
        wait_s=LONGEST_TURN_S,
        on_progress=_count_nothing,
        need=need_of(store, payload),
    )
    return list(lines)


def need_of(store: Store, payload: Json) -> Need | None:
    """What a child must have loaded before it computes a job; a job about no model needs nothing."""
    if "model" not in payload:
        return None
    return Need(payload["model"]["name"], ready, (store, {"model": payload["model"]}))


def _count_nothing(_done: int, _total: int) -> None:
    """Progress is that of the chunks."""
