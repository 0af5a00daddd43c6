"""What children are asked to do in the tests of pools."""

import ctypes
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from app.errors import Fault, InvalidRecord, ModelUnusable
from app.pool.serve import Written

prepared: list[str] = []


def load(note: str, *dropped: str) -> list[str]:
    """Prepare for a call; `damaged` cannot be loaded, and nor can a file that exists, as long as it does.

    Says that `dropped` had to make room.
    """
    if note == "damaged":
        raise ModelUnusable("is damaged")
    while os.path.exists(note):
        time.sleep(0.005)
    prepared.append(note)
    return list(dropped)


def spin() -> None:
    """Compute for hours while something is loaded."""
    sum(range(10**13))


def work(cpu_s: float, *, deadline_s: float) -> str:
    """Use so much processor time."""
    while time.process_time() < cpu_s:
        pass
    return "done"


def devour(megabytes: int, **options: Any) -> None:
    """Take so much memory."""
    bytearray(megabytes << 20)


def crash() -> None:
    """Die while something is prepared."""
    os.kill(os.getpid(), signal.SIGKILL)


def echo(value: Any, *, deadline_s: float) -> Any:
    return value


def write(texts: dict[str, bytes], *, deadline_s: float) -> Written:
    return Written({"texts": len(texts)}, texts)


def left(*, deadline_s: float) -> float:
    return deadline_s


def pid(*, deadline_s: float) -> int:
    return os.getpid()


def notes(*, deadline_s: float) -> list[str]:
    return prepared


def draw(*, deadline_s: float) -> list[float]:
    """Numbers from the generators that all code of a process shares."""
    return [random.random(), float(np.random.random())]


def imported(names: list[str], *, deadline_s: float) -> list[bool]:
    return [name in sys.modules for name in names]


def environment(name: str, *, deadline_s: float) -> str | None:
    return os.environ.get(name)


def page_faults(*, deadline_s: float) -> int:
    """How often the kernel is asked for memory in the last of several rounds that take 30 MB and free it."""
    found = [0]
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        arrays = [np.ones(10 << 17) for _ in range(3)]
        del arrays
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return found[-1]


def niceness(*, deadline_s: float) -> int:
    return os.nice(0)


def hold(path: str, *, deadline_s: float) -> str:
    """Say that the work has begun, and work until the file is gone."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while os.path.exists(path):
        time.sleep(0.005)
    return "done"


def loop_in_c(path: str, *, deadline_s: float) -> int:
    """One call in C that holds the interpreter's lock for hours."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return sum(range(10**13))


def walk(steps: int, *, deadline_s: float, progress: Callable[[int, int], None]) -> str:
    """Tell each step."""
    for done in range(1, steps + 1):
        progress(done, steps)
    return "there"


def die(*, deadline_s: float) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(*, deadline_s: float) -> None:
    ctypes.string_at(0)


def leave(*, deadline_s: float) -> None:
    sys.exit(2)


def stumble(secret: str, *, deadline_s: float) -> None:
    raise ValueError(f"cannot digest {secret}")


def object_to(pointer: str, *, deadline_s: float) -> None:
    raise InvalidRecord(faults=[Fault(pointer, "is missing")])


def give_nan(*, deadline_s: float) -> float:
    return float("nan")


def chatter(*, deadline_s: float) -> str:
    """Write more to the standard streams than a pipe holds, as native libraries do."""
    for descriptor in (1, 2):
        os.write(descriptor, b" " * 100_000)
    return "said"


def never_end(*, deadline_s: float) -> None:
    sum(range(10**13))
