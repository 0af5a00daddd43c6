"""What a child process does: it answers calls that come through a socket, within the limits that the kernel keeps."""

import ctypes
import fcntl
import json
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from app.errors import InternalError, LaneCrashed, RecourseError
from app.observability import log, request_id, trace, traceparent
from app.tracing import Timed, timed

HEADER = struct.Struct("!Q")
"""Header of every message: its length in bytes."""

PR_SET_PDEATHSIG = 1

Progress = Callable[[int, int], None]
"""Called with the steps done and their total."""

Origin = tuple[str | None, str | None]
"""`request_id` and `traceparent` of a request."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call ``function(*args, **options)``. The kernel enforces its time limits; a limit of 0 means none."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    alarm_s: float = 0.0
    """Seconds by the clock."""
    cpu_s: float = 0.0
    """Seconds of processor time."""
    reports: bool = False
    """Whether to pass ``progress(done, total)`` to the function, which reports to the parent."""
    origin: Origin = field(default_factory=lambda: (request_id.get(), traceparent.get()))
    """The request that it is for; by default that of this context."""


@dataclass(frozen=True, slots=True)
class Written:
    """A result that is mostly text. The child encodes the texts, and the server sends them to the client unchanged."""

    facts: dict[str, Any]
    """Plain data, for the server."""
    texts: dict[str, bytes]


def serve(channel: socket.socket, nice: int, memory_mb: int) -> None:
    """Answer calls that arrive on a socket, in JSON, until the socket closes.

    `memory_mb` limits the address space of this process; 0 is no limit. `nice` is the increment of its niceness.

    The first message is ``{"parent": process id}``. For each call there are then any number of ``{"progress": [done,
    total]}``, and at the end ``{"ok": result}`` or ``{"error": error.to_dict()}``. For a result of type `Written`, the
    end is ``{"ok": facts, "texts": {name: number of bytes}}``, a line feed, and the texts.
    """
    parent = os.getppid()
    die_with(parent)
    # The limits of a call must end the process even inside native code, so they have no handlers.
    for limit in (signal.SIGALRM, signal.SIGPROF, signal.SIGIO):
        signal.signal(limit, signal.SIG_DFL)
    # As in the fork server, also where that could not be prepared.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    os.nice(nice)
    if memory_mb:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    channel.setblocking(True)
    with suppress(ConnectionError), channel, channel.makefile("rb") as messages:
        _send(channel, json.dumps({"parent": parent}).encode())
        while header := messages.read(HEADER.size):
            message = messages.read(*HEADER.unpack(header))
            with _ended_with(channel):
                answer = _answer(message, channel)
            _send(channel, answer)
    os._exit(0)  # no library that a model has imported has a say in it


@contextmanager
def _ended_with(channel: socket.socket) -> Iterator[None]:
    """Inside, the kernel ends this process when the server is gone, also within native code.

    `multiprocessing` gives each child what keeps the fork server alive, so a child that computes would go on. Nothing
    is received meanwhile: the end of the connection is all that can happen, and its signal, SIGIO, ends a process.
    """
    fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
    _signal_end(channel, on=True)
    try:
        yield
    finally:
        _signal_end(channel, on=False)


def _signal_end(channel: socket.socket, *, on: bool) -> None:
    """Whether the end of the connection is a signal; a process whose connection has ended already exits."""
    flags = fcntl.fcntl(channel, fcntl.F_GETFL)
    fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_ASYNC if on else flags & ~os.O_ASYNC)
    if on and not is_connected(channel):
        os._exit(1)


def is_connected(channel: socket.socket) -> bool:
    """Whether the other end of a socket is still open. The kernel is asked."""
    try:
        return channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _send(channel: socket.socket, message: bytes) -> None:
    channel.sendall(HEADER.pack(len(message)) + message)


def _answer(message: bytes, channel: socket.socket) -> bytes:
    def progress(done: int, total: int) -> None:
        message = json.dumps({"progress": [done, total]}).encode()
        # To wait for space would end in the same signal.
        _signal_end(channel, on=False)
        _send(channel, message)
        _signal_end(channel, on=True)

    spans: list[Timed] | None
    try:
        call: Call = pickle.loads(message)  # noqa: S301 - from our own parent
        request_id.set(call.origin[0])
        traceparent.set(call.origin[1])
        spans = None if call.origin[1] is None else []
        timed.set(spans)
        signal.setitimer(signal.ITIMER_REAL, call.alarm_s)
        signal.setitimer(signal.ITIMER_PROF, call.cpu_s)
        options = call.options | ({"progress": progress} if call.reports else {})
        found = call.function(*call.args, **options)
        if isinstance(found, Written):
            lengths = {name: len(text) for name, text in found.texts.items()}
            head = json.dumps({"ok": found.facts, "texts": lengths, "spans": spans or ()}, allow_nan=False).encode()
            return b"".join([head, b"\n", *found.texts.values()])
        return json.dumps({"ok": found, "spans": spans or ()}, allow_nan=False).encode()
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
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends.

    This works on Linux only. On other systems, a child whose parent has ended stops when it next reads or writes, or
    when its time limit is over.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
