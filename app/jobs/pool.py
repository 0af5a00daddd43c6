"""A lane: a few warm child processes for one kind of work, each of which can be killed and is replaced warm.

``docs/decisions/0003-computation-in-child-processes.md`` says why it is built like this.
"""

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError
from app.jobs.child import HEADER, Call
from app.metrics import LaneState
from app.observability import log, request_id, traceparent

GRACE_S = 0.5
"""A computation that knows its deadline may end this much later before its process is killed."""

ALARM_S = 5.0
"""So much after the kill that is due here, the kernel ends a child by itself: nobody may be left to kill it."""

WARM_UP_S = 120.0
"""Longest time to import the libraries and load the models."""

RETRY_S = 1.0
"""Pause after a child could not be warmed up; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 30.0

WAITING_PER_CHILD = 32
"""Calls that may wait in line for each child; more are refused at once."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Parallelism comes from the number of children; numeric libraries read these when they are imported."""

FAILURES: dict[type[RecourseError], str] = {LaneTimeout: "timeout", LaneCrashed: "crash"}
"""Errors after which a child is of no more use."""

OnProgress = Callable[[int, int], None]
"""Is told how many steps are done, and of how many."""


class Child:
    """One child process and the socket to it. Must be started from a thread that lives as long as it shall."""

    def __init__(self, nice: int) -> None:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
                [sys.executable, "-P", "-m", "app.jobs", str(descriptor), str(os.getpid()), str(nice)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._socket = ours
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still holds its end of the socket."""
        return self._streams is not None and not self._streams[0].at_eof()

    async def call(self, call: Call, kill_after_s: float, on_progress: OnProgress | None = None) -> Any:
        """The result of a call. After `LaneTimeout`, `LaneCrashed` or a cancellation the child is of no more use."""
        try:
            async with asyncio.timeout(kill_after_s):
                reply = await self._exchange(pickle.dumps(call))
                while "progress" in reply:
                    if on_progress is not None:
                        on_progress(*reply["progress"])
                    reply = await self._receive()
        except TimeoutError:
            raise LaneTimeout from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise LaneCrashed from None
        if "error" in reply:
            raise RecourseError.from_dict(reply["error"])
        return reply["ok"]

    async def _exchange(self, message: bytes) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(sock=self._socket)
        writer = self._streams[1]
        writer.write(HEADER.pack(len(message)) + message)
        await writer.drain()
        return await self._receive()

    async def _receive(self) -> dict[str, Any]:
        assert self._streams is not None
        reader = self._streams[0]
        (length,) = HEADER.unpack(await reader.readexactly(HEADER.size))
        message: dict[str, Any] = json.loads(await reader.readexactly(length))
        return message

    async def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        self._process.kill()
        if self._streams is None:
            self._socket.close()
        else:
            self._streams[1].close()
        await asyncio.to_thread(self._process.wait)


class Lane:
    """Warm children for one kind of work; used from one event loop.

    Parameters
    ----------
    name : for the log
    size : number of children
    prepare, args : called once in each new child; imports libraries and loads models
    nice : by how much the children give way to this process, 0 to 19
    """

    def __init__(
        self, name: str, size: int, prepare: Callable[..., Any], args: tuple[Any, ...] = (), *, nice: int = 0
    ) -> None:
        self.name = name
        self.size = size
        self._preparation = Call(prepare, args, {})
        self._nice = nice
        self._free: list[Child] = []
        self._turns = asyncio.Semaphore(0)
        self._waiting = 0
        self._ended: Counter[str] = Counter()
        """Children that were lost, by the reason: `timeout`, `crash` or `cancelled`."""
        self._children: set[Child] = set()
        """Every running process, warm or not."""
        self._replacing: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    @property
    def warm(self) -> int:
        """How many children are ready or at work."""
        return self.size - len(self._replacing) if self._children else 0

    def state(self) -> LaneState:
        """What its children do now."""
        idle = len(self._free)
        warming = len(self._replacing)
        busy = self.size - warming - idle if self._started else 0
        return LaneState(busy=busy, idle=idle, warming=warming, waiting=self._waiting, ended=dict(self._ended))

    @property
    def pids(self) -> set[int]:
        """Process ids of all children."""
        return {child.pid for child in self._children}

    def start(self) -> None:
        """Start all children, once; they warm up in the background and calls wait in line until one is ready."""
        if self._started:
            return
        self._started = True
        for _ in range(self.size):
            self._replace(None)

    async def close(self) -> None:
        """Kill all children, whatever they are doing."""
        self._closed = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(self._end(child) for child in list(self._children)))

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float,
        wait_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Result of ``function(*args, deadline_s=...)`` in a child, which learns how much of the time waiting has left.

        With `wait_s`, the call may wait that long in line and has all of `timeout_s` after that. With `on_progress`,
        the function is also given ``progress=``.

        Raises
        ------
        Overloaded : the line is full, or no child came free in time
        LaneTimeout : the child did not end by itself and was killed
        LaneCrashed : the child died
        RecourseError : whatever the function raised; `InternalError` for anything unforeseen
        """
        give_up = time.monotonic() + (timeout_s if wait_s is None else wait_s)
        child = await self._take(give_up)
        failure: str | None = "cancelled"
        try:
            left_s = max(give_up - time.monotonic(), 0.0) if wait_s is None else timeout_s
            kill_after_s = left_s + GRACE_S
            options, reports = {"deadline_s": left_s}, on_progress is not None
            origin = (request_id.get(), traceparent.get())
            call = Call(function, args, options, alarm_s=kill_after_s + ALARM_S, reports=reports, origin=origin)
            result = await child.call(call, kill_after_s, on_progress)
            failure = None
        except RecourseError as error:
            failure = FAILURES.get(type(error))
            raise
        finally:
            if failure is None:
                self._give_back(child)
            else:
                self._lose(child, failure)
        return result

    async def _take(self, give_up: float) -> Child:
        if self._waiting >= WAITING_PER_CHILD * self.size:
            raise Overloaded
        self._waiting += 1
        try:
            async with asyncio.timeout(give_up - time.monotonic()):
                while True:
                    await self._turns.acquire()
                    child = self._free.pop()
                    if child.alive:
                        return child
                    # It died while it was idle.
                    self._lose(child, FAILURES[LaneCrashed])
        except TimeoutError:
            raise Overloaded("No worker came free within the time that the request allowed.") from None
        finally:
            self._waiting -= 1

    def _give_back(self, child: Child) -> None:
        self._free.append(child)
        self._turns.release()

    def _lose(self, child: Child, reason: str) -> None:
        self._ended[reason] += 1
        self._replace(child)

    def _replace(self, old: Child | None) -> None:
        """End a child if there is one, and warm up another in the background; then calls can have it."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._renew(old))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _renew(self, old: Child | None) -> None:
        if old is not None:
            await self._end(old)
        pause_s = RETRY_S
        while (child := await self._warmed_up()) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        self._give_back(child)

    async def _warmed_up(self) -> Child | None:
        """A new child that is ready; None, and a line in the log, if that did not work."""
        began = time.monotonic()
        try:
            child = Child(self._nice)
        except OSError as error:
            log.error("child-not-started", lane=self.name, reason=error.strerror)
            return None
        self._children.add(child)
        try:
            notes = await child.call(self._preparation, WARM_UP_S)
        except RecourseError as error:
            log.error("child-not-warm", lane=self.name, pid=child.pid, code=error.code)
            await self._end(child)
            return None
        log.info(
            "child-warm", lane=self.name, pid=child.pid, ms=round(1000.0 * (time.monotonic() - began)), notes=notes
        )
        return child

    async def _end(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)
