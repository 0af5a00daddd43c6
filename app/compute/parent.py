"""The parent's side of a child process: starts it, calls it within a time limit, kills it."""

import asyncio
import io
import json
import pickle
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from app.compute.child import HEADER, Call, Need, Origin, Progress, Written
from app.compute.child_template import template
from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError

ALARM_S = 5.0
"""Time after which the kernel kills a child that this process should have killed, in case this process has ended."""

REMEMBERED = 4
"""Needs that a child is not asked to meet again: fewer than it keeps what they load for (`tasks.MODELS_IN_MEMORY`)."""


def _ignore(_ended: object) -> None:
    """Do nothing."""


class _Messages(asyncio.Protocol):
    """The messages that come through a socket, and its end."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        self._bytes = bytearray()
        self._whole: deque[bytes] = deque()
        self._awaited: asyncio.Future[None] | None = None
        self.ended = False

    def data_received(self, data: bytes) -> None:
        """Take the messages that are whole."""
        self._bytes += data
        while len(self._bytes) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            self._whole.append(bytes(self._bytes[HEADER.size : end]))
            del self._bytes[:end]
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - an end is an end
        """Note the end, which ends a wait as well."""
        self.ended = True
        self._wake()
        self._at_end()

    async def next(self) -> bytes:
        """The next message; used by one task at a time. Raises `ConnectionError` at the end."""
        if not (self._whole or self.ended):
            self._awaited = asyncio.get_running_loop().create_future()
            await self._awaited
        if not self._whole:
            raise ConnectionError
        return self._whole.popleft()

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)


class Child:
    """One child process and the socket to it.

    Parameters
    ----------
    nice : increment of its niceness, 0 to 19
    on_end : called when it has closed its end of the socket, busy or not; from the first call on
    memory_mb : most address space that it may have; 0 for no limit

    Raises
    ------
    OSError : the template cannot be started, or has just died
    """

    def __init__(self, nice: int, on_end: Callable[["Child"], None] = _ignore, memory_mb: int = 0) -> None:
        self._template = template()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._number = self._template.fork(theirs, nice, memory_mb)
            except OSError:
                self._socket.close()
                raise
        self.pid: int | None = None
        """Process id, once it has begun."""
        self.problems: dict[str, str] = {}
        """Reason for each model that it could not load, by name."""
        self.loading: str | None = None
        """Name of what it is loading, or was when it was lost."""
        self._messages = _Messages(lambda: on_end(self))
        self._transport: asyncio.Transport | None = None
        self._met: deque[Need] = deque(maxlen=REMEMBERED)

    @property
    def ended(self) -> bool:
        """Whether the loop has seen the end of its socket."""
        return self._messages.ended

    @property
    def alive(self) -> bool:
        """Whether the process still holds its end of the socket: asked of the kernel, as the loop may not know yet."""
        if self._transport is None or self._messages.ended:
            return False
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def has_met(self, need: Need | None) -> bool:
        """Whether a call need not state the need, because the child has met it and can not have forgotten that yet."""
        return need in self._met

    @property
    def template_alive(self) -> bool:
        """Whether the process that it is a fork of runs; a child ends with it."""
        return self._template.alive

    async def meet(self, need: Need, within_s: float, origin: Origin = (None, None)) -> None:
        """Let it meet a need.

        After a cancellation, and after the errors in `FAILURES`, the child must be replaced: `Overloaded` if that took
        longer than `within_s`, `LaneCrashed`. Any other `RecourseError` is the need's own.
        """
        self.loading = need.name
        try:
            call = Call(need.function, need.args, {}, alarm_s=within_s + ALARM_S, origin=origin)
            await self.call(call, within_s)
        except LaneTimeout:
            raise Overloaded(f"{need.name} was not loaded within {within_s:g} s.") from None
        except LaneCrashed:
            raise
        except RecourseError as error:
            self.problems[need.name] = error.sentence
            self.loading = None
            raise
        self.problems.pop(need.name, None)
        self.loading = None
        self._met.append(need)

    async def call(self, call: Call, kill_after_s: float, on_progress: Progress | None = None) -> Any:
        """The result of a call.

        After a cancellation, after `LaneTimeout`, if it did not end within `kill_after_s`, and after `LaneCrashed` the
        child must be replaced.
        """
        try:
            async with asyncio.timeout(kill_after_s):
                reply = await self._exchange(pickle.dumps(call))
                while "progress" in reply:
                    if on_progress is not None:
                        on_progress(*reply["progress"])
                    reply = await self._receive()
        except TimeoutError:
            if self.pid is None:
                await asyncio.to_thread(self._template.end)  # it has not even forked in all this time
            raise LaneTimeout from None
        except ConnectionError:
            raise LaneCrashed from None
        if "error" in reply:
            raise RecourseError.from_dict(reply["error"])
        return Written(reply["ok"], reply["texts"]) if "texts" in reply else reply["ok"]

    async def _exchange(self, message: bytes) -> dict[str, Any]:
        if self._transport is None:
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_connection(lambda: self._messages, sock=self._socket)
            self.pid = (await self._receive())["pid"]
        self._transport.write(HEADER.pack(len(message)) + message)
        return await self._receive()

    async def _receive(self) -> dict[str, Any]:
        head, _, rest = (await self._messages.next()).partition(b"\n")
        message: dict[str, Any] = json.loads(head)
        if "texts" in message:
            source = io.BytesIO(rest)
            message["texts"] = {name: source.read(size) for name, size in message["texts"].items()}
        return message

    async def kill(self) -> None:
        """Kill the process immediately. One that has not begun ends when it does, at the end of its socket."""
        if self.pid is not None:
            await asyncio.to_thread(self._template.kill, self._number)
        if self._transport is None:
            self._socket.close()
        else:
            self._transport.close()
