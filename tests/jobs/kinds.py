"""Jobs for tests. Each writes a line into a ledger when it is computed, so that a test sees how often that was."""

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from app.errors import InvalidRecord
from app.jobs.kinds import JOB_KINDS, JobKind, batch_job
from app.pool.serve import Progress
from app.registry.ref import Store

WORK_S = 0.05
"""Time that rows of a batch take at least, where a test counts how often they are computed."""


def note(payload: dict[str, Any], word: str) -> None:
    """One write to a file opened for appending: lines of several processes do not mix, and a kill loses none."""
    descriptor = os.open(payload["ledger"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{word} {os.getpid()}\n".encode())
    os.close(descriptor)


def hold(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> dict[str, Any]:
    """Work as long as the file `while` exists."""
    note(payload, "began")
    while Path(payload["while"]).exists():
        time.sleep(0.005)
    note(payload, "ended")
    return {"held": payload["while"]}


def loop(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> int:
    """One call in C that holds the interpreter's lock for hours."""
    note(payload, "began")
    return sum(range(10**13))


def segfault(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> None:
    note(payload, "began")
    ctypes.string_at(0)


def stumble(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> None:
    note(payload, "began")
    raise ZeroDivisionError("the applicant's secret")


def refuse(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> None:
    note(payload, "began")
    raise InvalidRecord


def refuse_one(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> list[str]:
    """Of two groups of a batch, refuse the first once the other is being computed, which never ends."""
    note(payload, "began")
    if payload["first"]:
        sum(range(10**13))
    while len(Path(payload["ledger"]).read_text().splitlines()) < 2:
        time.sleep(0.005)
    raise InvalidRecord


def step(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> str:
    """Three steps, each as long as the file `while` exists and has fewer bytes than steps are done."""
    for done in range(3):
        progress(done, 3)
        while Path(payload["while"]).stat().st_size <= done:
            time.sleep(0.005)
    return "walked"


def batch(store: Store, payload: dict[str, Any], *, deadline_s: float, progress: Progress) -> list[str]:
    """The real one; it notes the first of its rows where the test has given its server a ledger."""
    if ledger := os.environ.get("TEST_LEDGER"):
        note({"ledger": ledger}, str(payload["first"]))
        time.sleep(WORK_S)
    return batch_job(store, payload, deadline_s=deadline_s, progress=progress)


KINDS: dict[str, JobKind] = {
    **JOB_KINDS,
    "hold": hold,
    "loop": loop,
    "segfault": segfault,
    "stumble": stumble,
    "refuse": refuse,
    "refuse_one": refuse_one,
    "step": step,
    "batch": batch,
}
