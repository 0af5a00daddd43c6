"""What the fork server does once, before it forks any child; imported there and nowhere else.

It computes nothing, loads no model and has one thread, so that a fork of it is a whole process and costs milliseconds.
"""

import gc
import os
import pickle
import signal
import sys
from importlib import import_module
from types import TracebackType

from app.observability import configure_logging
from app.pool.child import LOG_LEVEL, ONE_THREAD

IMPORTED = ("numpy.random", "app.cli.commands", "app.questions.encoded_answer")
"""What children have imported when they begin: questions, and the program that `recourse` runs, which `multiprocessing`
imports in each child. On Linux only: Accelerate of macOS may not be used in a fork of a process that has used it."""

# Ctrl-C and systemd signal the whole process group. The server alone decides when its children end, so that requests in
# progress are finished first.
for stop in (signal.SIGINT, signal.SIGTERM):
    signal.signal(stop, signal.SIG_IGN)
# Native libraries print to standard output, which may be the result of a command.
nowhere = os.open(os.devnull, os.O_RDWR)
for standard in (0, 1):
    os.dup2(nowhere, standard)
os.close(nowhere)
os.environ.update(ONE_THREAD)
configure_logging(os.environ.get(LOG_LEVEL) or "info")
if sys.platform == "linux":
    for module in IMPORTED:
        import_module(module)
    # Or each child would draw what the others draw; Python sees to `random` itself.
    os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught error, except where it only means that the fork server ended while it started a child."""
    if not issubclass(kind, EOFError | ConnectionError | pickle.UnpicklingError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = report
# What the collector never looks at stays shared with the children.
gc.collect()
gc.freeze()
