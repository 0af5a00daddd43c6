"""Computes groups of rows of a batch in the children of a lane."""

import time
from typing import Any

from app.compute.answers import Json
from app.compute.child import Need
from app.compute.lane import Lane
from app.compute.messages import Store
from app.errors import InternalError, LaneCrashed, LaneTimeout, RecourseError
from app.jobs.batch import lines as batch_lines
from app.jobs.kinds import JobKind, ready

ATTEMPTS_ALONE = 2
"""Attempts to compute a row alone, after the child died with its group."""

LONGEST_TURN_S = 86_400.0
"""Longest time that a job or a group waits for a child: others may occupy all of them."""


async def lines_of(lane: Lane, kind: JobKind, store: Store, payload: Json) -> list[str]:
    """One line for each of the payload's rows, whatever happens to the child.

    If the group fails, each row is computed alone, and the error is in the line of the row that causes it. Raises
    errors that concern all rows, such as `ModelUnusable`.
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
            return batch_lines.stopped(payload, 0, 1000.0 * (time.monotonic() - began))
        except InternalError as caught:
            return batch_lines.refused(row, caught)
        except LaneCrashed as caught:
            error = caught
    assert error is not None
    return batch_lines.refused(row, error)


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
    """The model that a child must load before it computes a job; None for a job without a model."""
    if "model" not in payload:
        return None
    return Need(payload["model"]["name"], ready, (store, {"model": payload["model"]}))


def _count_nothing(_done: int, _total: int) -> None:
    """Ignore progress: that of a batch is counted in chunks."""
