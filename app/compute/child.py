"""The child's side of a lane: it answers calls until its server ends, and sends plain data only.

Imports nothing heavy: the template has imported what most calls need, and the rest comes when a function is unpickled.
"""

import ctypes
import json
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.errors import InternalError, LaneCrashed, RecourseError
from app.observability import log, request_id, trace, traceparent

HEADER = struct.Struct("!Q")
"""Header of every message: its length in bytes."""

PR_SET_PDEATHSIG = 1

Progress = Callable[[int, int], None]
"""Called with the steps done and their total."""

Origin = tuple[str | None, str | None]
"""`request_id` and `traceparent` of a request."""


@dataclass(frozen=True, slots=True)
class Need:
    """``function(*args)``, which a child must have called before it begins a call. Idempotent."""

    name: str
    """Name of what it loads."""
    function: Callable[..., None]
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """``function(*args, **options)``, with a time limit."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    alarm_s: float = 0.0
    """Seconds after which the kernel kills the process, even if its parent does not; 0 for never."""
    reports: bool = False
    """Whether to pass ``progress(done, total)`` to the function, which reports to the parent."""
    origin: Origin = (None, None)
    """The request that it is for."""


@dataclass(frozen=True, slots=True)
class Written:
    """A result that is mostly texts, which the child has encoded: they pass through its server as they are."""

    facts: dict[str, Any]
    """Plain data, for the server."""
    texts: dict[str, bytes]


def serve(descriptor: int, template: int, nice: int, memory_mb: int) -> None:
    """Answer calls from a socket until it closes, in JSON; with at most so much address space, unless it is 0.

    ``{"pid": process id}`` first. Then for each call ``{"ok": result}`` or ``{"error": error.to_dict()}``, and before
    that any number of ``{"progress": [done, total]}``. Of a result that is `Written`, ``{"ok": facts, "texts": {name:
    bytes}}`` is followed by a line feed and the texts. `template` is the parent's process id.
    """
    die_with(template)
    # The alarm of a call must end the process even inside native code, so it has no handler.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.nice(nice)
    if memory_mb:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as messages:
        _send(channel, json.dumps({"pid": os.getpid()}).encode())
        while header := messages.read(HEADER.size):
            _send(channel, _answer(messages.read(*HEADER.unpack(header)), channel))


def _send(channel: socket.socket, message: bytes) -> None:
    channel.sendall(HEADER.pack(len(message)) + message)


def _answer(message: bytes, channel: socket.socket) -> bytes:
    def progress(done: int, total: int) -> None:
        _send(channel, json.dumps({"progress": [done, total]}).encode())

    try:
        call: Call = pickle.loads(message)  # noqa: S301 - from our own parent
        request_id.set(call.origin[0])
        traceparent.set(call.origin[1])
        signal.setitimer(signal.ITIMER_REAL, call.alarm_s)
        options = call.options | ({"progress": progress} if call.reports else {})
        found = call.function(*call.args, **options)
        if isinstance(found, Written):
            lengths = {name: len(text) for name, text in found.texts.items()}
            head = json.dumps({"ok": found.facts, "texts": lengths}, allow_nan=False).encode()
            return b"".join([head, b"\n", *found.texts.values()])
        return json.dumps({"ok": found}, allow_nan=False).encode()
    except RecourseError as error:
        return json.dumps({"error": error.to_dict()}, default=str).encode()
    except MemoryError:
        detail = "The computation needs more memory than its process may have (RECOURSE_CHILD_MEMORY_MB)."
        return json.dumps({"error": LaneCrashed(detail).to_dict()}).encode()
    except BaseException as error:  # noqa: BLE001 - process boundary: the parent receives a message, the log the trace
        log.error("child-error", trace=trace(error))
        return json.dumps({"error": InternalError().to_dict()}).encode()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies.

    Linux only. Elsewhere a child without a parent ends when it next reads or writes, or by its alarm.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
