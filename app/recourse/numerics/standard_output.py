"""What compiled code writes to standard output, which no option of it turns off."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent() -> Iterator[None]:
    """Drop what the process writes to standard output meanwhile; text that Python still buffers is written later.

    Nothing is dropped where other threads run, which may write something of their own.
    """
    if threading.active_count() > 1:
        yield
        return
    try:
        usual = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush()
        os.dup2(usual, 1)
        os.close(usual)


def _flush() -> None:
    """Have C's own buffers written to where they led when they were filled."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
