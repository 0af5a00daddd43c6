"""What compiled code writes to standard output, which no option of it turns off."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Silence:
    """Descriptor 1 leads nowhere while any thread is inside; it is that of the process, so they share one silence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = -1

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                _flush()
                self._usual = os.dup(1)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 1)
                os.close(nowhere)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _flush()
                os.dup2(self._usual, 1)
                os.close(self._usual)


_SILENCE = _Silence()


@contextmanager
def silent() -> Iterator[None]:
    """Drop what the process writes to standard output meanwhile; text that Python still buffers is written later."""
    try:
        _SILENCE.enter()
    except OSError:  # there is no standard output
        yield
        return
    try:
        yield
    finally:
        _SILENCE.leave()


def _flush() -> None:
    """Have C's own buffers written to where they led when they were filled."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
