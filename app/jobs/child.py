"""The child's side of a lane: it answers calls until its parent is gone, and only plain data leaves it.

Imports nothing heavy: what a call needs is imported when its function is unpickled.
"""

import ctypes
import json
import os
import pickle
import signal
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.errors import InternalError, RecourseError
from app.observability import configure_logging, log, request_id, trace, traceparent

HEADER = struct.Struct("!Q")
"""Every message is its length and its bytes."""

LOG_LEVEL = "RECOURSE_LOG_LEVEL"
"""Inherited from the server, whose settings have checked it."""

LOAD_S = 60.0
"""Longest time to do what a call needs done before it."""

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Need:
    """``function(*args)``, which must have been called in a child before a call can begin; it does nothing twice."""

    name: str
    """Of what is loaded by it."""
    function: Callable[..., None]
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """``function(*args, **options)``, within a time."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    alarm_s: float = 0.0
    """After so many seconds the kernel ends the process, whatever it does and even if nobody watches; 0 for never."""
    reports: bool = False
    """Whether the function is also given ``progress(done, total)``, which tells the parent how far it is."""
    origin: tuple[str | None, str | None] = (None, None)
    """`request_id` and `traceparent` of the request that it is made for."""
    need: Need | None = None
    """Has `LOAD_S` of its own; only then the time of the call begins."""


def serve(descriptor: int, parent: int, nice: int) -> None:
    """Answer calls from a socket until it closes, in JSON.

    ``{"ok": result}`` or ``{"error": error.to_dict()}``, and before that any number of ``{"progress": [done, total]}``;
    before all of these ``{"begun": true}``, if the call had a need and it is met.
    """
    _die_with(parent)
    # Ctrl-C reaches the whole process group, as does what systemd stops a service with; the server alone decides when
    # its children end, and what they are doing for requests in progress is finished first.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # The alarm of a call must end the process even inside native code, so it has no handler.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    os.nice(nice)
    configure_logging(os.environ.get(LOG_LEVEL) or "info")
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as messages:
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
        if call.need is not None:
            signal.setitimer(signal.ITIMER_REAL, LOAD_S + call.alarm_s)
            call.need.function(*call.need.args)
            _send(channel, json.dumps({"begun": True}).encode())
        signal.setitimer(signal.ITIMER_REAL, call.alarm_s)
        options = call.options | ({"progress": progress} if call.reports else {})
        reply = {"ok": call.function(*call.args, **options)}
        return json.dumps(reply, allow_nan=False).encode()
    except RecourseError as error:
        return json.dumps({"error": error.to_dict()}, default=str).encode()
    except BaseException as error:  # noqa: BLE001 - the boundary of the process: the parent gets a sentence, the log the place
        log.error("child-error", trace=trace(error))
        return json.dumps({"error": InternalError().to_dict()}).encode()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, however that dies.

    Only Linux can. Elsewhere a child whose parent is gone ends when it next reads or writes, or by its alarm.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
