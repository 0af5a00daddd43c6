"""Garbage collection, switched off while much is made at once that has no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection, which would search millions of new texts and lists for cycles, many times.

    That takes ten times as long as reading a body of JSON, and a quarter of the time of a draft.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
