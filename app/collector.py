"""Switches garbage collection off while many objects without cycles are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Run the block without Python's cyclic garbage collection.

    A block that makes millions of objects would start that collection many times. The collections would take ten times
    as long as parsing the JSON of a request, and a quarter of the time of a draft.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
