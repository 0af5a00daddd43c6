"""The parent's side of a child process: starts it, calls it within a time limit, kills it."""

import asyncio
import json
import pickle
import socket
from collections.abc import Callable
from typing import Any

from app.compute.child import HEADER, Call, Progress
from app.compute.child_template import template
from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError


def _ignore(_ended: object) -> None:
    """Do nothing."""


class _Reader(asyncio.StreamReader):
    """Calls back as soon as the stream ends, even without a reader waiting."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        super().__init__()
        self._at_end = at_end

    def feed_eof(self) -> None:
        super().feed_eof()
        self._at_end()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._at_end()


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
        self._socket, theirs = socket.socketpair()
        self._template = template()
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
        """Name of what it is loading for a call, or was when it was lost."""
        self._on_end = on_end
        self._ended = False
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def alive(self) -> bool:
        """Whether the process still holds its end of the socket."""
        return self._streams is not None and not self._ended

    @property
    def template_alive(self) -> bool:
        """Whether the process that it is a fork of runs; a child ends with it."""
        return self._template.alive

    async def call(self, call: Call, kill_after_s: float, on_progress: Progress | None = None) -> Any:
        """The result of a call.

        After a cancellation, and after the errors in `FAILURES`, the child must be replaced: `Overloaded` if the need
        of the call was not met in time, `LaneTimeout` if the call did not end within `kill_after_s` after that,
        `LaneCrashed`.
        """
        begun = call.need is None
        self.loading = None if call.need is None else call.need.name
        try:
            async with asyncio.timeout(kill_after_s if begun else call.load_s) as limit:
                reply = await self._exchange(pickle.dumps(call))
                if "begun" in reply:
                    begun, self.loading = True, None
                    limit.reschedule(asyncio.get_running_loop().time() + kill_after_s)
                    reply = await self._receive()
                while "progress" in reply:
                    if on_progress is not None:
                        on_progress(*reply["progress"])
                    reply = await self._receive()
        except TimeoutError:
            if self.pid is None:
                await asyncio.to_thread(self._template.end)  # it has not even forked in all this time
            if begun:
                raise LaneTimeout from None
            assert call.need is not None
            raise Overloaded(f"{call.need.name} was not loaded within {call.load_s:g} s.") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise LaneCrashed from None
        if call.need is not None:
            self.problems.pop(call.need.name, None)
        if "error" in reply:
            error = RecourseError.from_dict(reply["error"])
            if isinstance(error, LaneCrashed):
                raise error  # out of memory
            if not begun and call.need is not None:
                self.problems[call.need.name] = error.sentence
                self.loading = None
            raise error
        return reply["ok"]

    async def _exchange(self, message: bytes) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await self._connect()
            self.pid = (await self._receive())["pid"]
        writer = self._streams[1]
        writer.write(HEADER.pack(len(message)) + message)
        await writer.drain()
        return await self._receive()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = _Reader(self._note_end)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: protocol, sock=self._socket)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _note_end(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(self)

    async def _receive(self) -> dict[str, Any]:
        assert self._streams is not None
        reader = self._streams[0]
        (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
        message: dict[str, Any] = json.loads(await reader.readexactly(length))
        return message

    async def kill(self) -> None:
        """Kill the process at once. One that has not begun ends when it does, at the end of its socket."""
        if self.pid is not None:
            await asyncio.to_thread(self._template.kill, self._number)
        if self._streams is None:
            self._socket.close()
        else:
            self._streams[1].close()
