"""A lane: a few warm child processes for one kind of work, each of which can be killed and is replaced warm.

``docs/decisions/0003-computation-in-child-processes.md`` gives the reasons for this design.
"""

import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from app.compute.child import HEADER, LOAD_S, Call, Need, Progress
from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError
from app.metrics import LaneState
from app.observability import log, request_id, traceparent

GRACE_S = 0.5
"""Time after its deadline that a computation has to end by itself before its process is killed."""

ALARM_S = 5.0
"""Time after which the kernel kills a child that this process should have killed, in case this process is gone."""

WARM_UP_S = 120.0
"""Longest time to import the libraries and load the models."""

RETRY_S = 1.0
"""Pause after a child could not be warmed up; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 30.0

WAITING_PER_CHILD = 32
"""Longest queue of calls per child; more calls are refused at once."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Numeric libraries read these on import; parallelism comes from the number of children."""

FAILURES: dict[type[RecourseError], str] = {LaneTimeout: "timeout", Overloaded: "timeout", LaneCrashed: "crash"}
"""Errors after which a child is replaced."""


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
    """One child process and the socket to it. Create it in a thread that outlives it.

    Parameters
    ----------
    nice : increment of its niceness, 0 to 19
    on_end : called when it has closed its end of the socket, busy or not; from the first call on
    """

    def __init__(self, nice: int, on_end: Callable[["Child"], None] = _ignore) -> None:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
                [sys.executable, "-P", "-m", "app.compute", str(descriptor), str(os.getpid()), str(nice)],
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._socket = ours
        self.problems: dict[str, str] = {}
        """Reason for each model that it could not load, by name."""
        self._on_end = on_end
        self._ended = False
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still holds its end of the socket."""
        return self._streams is not None and not self._ended

    async def call(self, call: Call, kill_after_s: float, on_progress: Progress | None = None) -> Any:
        """The result of a call.

        After a cancellation, and after the errors in `FAILURES`, the child must be replaced: `Overloaded` if the need
        of the call was not met in time, `LaneTimeout` if the call did not end within `kill_after_s` after that,
        `LaneCrashed`.
        """
        begun = call.need is None
        try:
            async with asyncio.timeout(kill_after_s if begun else LOAD_S) as limit:
                reply = await self._exchange(pickle.dumps(call))
                if "begun" in reply:
                    begun = True
                    limit.reschedule(asyncio.get_running_loop().time() + kill_after_s)
                    reply = await self._receive()
                while "progress" in reply:
                    if on_progress is not None:
                        on_progress(*reply["progress"])
                    reply = await self._receive()
        except TimeoutError:
            if begun:
                raise LaneTimeout from None
            assert call.need is not None
            raise Overloaded(f"{call.need.name} was not loaded within {LOAD_S:g} s.") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise LaneCrashed from None
        if call.need is not None:
            self.problems.pop(call.need.name, None)
        if "error" in reply:
            error = RecourseError.from_dict(reply["error"])
            if not begun and call.need is not None:
                self.problems[call.need.name] = error.sentence
            raise error
        return reply["ok"]

    async def _exchange(self, message: bytes) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await self._connect()
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
        """Kill the process at once."""
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
    prepare, args : called once in each new child; imports libraries, loads models, and returns the reason for each
        model that could not be loaded
    nice : increment of the niceness of the children, 0 to 19
    """

    def __init__(
        self, name: str, size: int, prepare: Callable[..., Any], args: tuple[Any, ...] = (), *, nice: int = 0
    ) -> None:
        self.name = name
        self.size = size
        self._preparation = Call(prepare, args, {})
        self._nice = nice
        self._free: list[Child] = []
        self._line: deque[asyncio.Future[Child]] = deque()
        """Calls that wait for a child, first come, first served."""
        self._ended: Counter[str] = Counter()
        """Children that were lost, by reason: `timeout`, `crash` or `cancelled`."""
        self._children: set[Child] = set()
        """Every running process, warm or not."""
        self._replacing: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    @property
    def warm(self) -> int:
        """Number of children that are idle or busy."""
        return self.size - len(self._replacing) if self._children else 0

    def state(self) -> LaneState:
        """What its children are doing now."""
        idle = len(self._free)
        warming = len(self._replacing)
        busy = self.size - warming - idle if self._started else 0
        return LaneState(busy=busy, idle=idle, warming=warming, waiting=len(self._line), ended=dict(self._ended))

    @property
    def problems(self) -> dict[str, str]:
        """Reason for each model that some child could not load at its last attempt, by name."""
        return {name: why for child in self._children for name, why in child.problems.items()}

    @property
    def pids(self) -> set[int]:
        """Process ids of all children."""
        return {child.pid for child in self._children}

    def start(self) -> None:
        """Start all children, once; they warm up in the background, and calls wait until one is ready."""
        if self._started:
            return
        self._started = True
        for _ in range(self.size):
            self._replace(None)

    async def close(self) -> None:
        """Kill all children, busy or not."""
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
        on_progress: Progress | None = None,
        need: Need | None = None,
    ) -> Any:
        """Result of ``function(*args, deadline_s=...)`` in a child; the deadline is the time left after waiting.

        With `wait_s`, the call may wait that long and has all of `timeout_s` after that. With `on_progress`, the
        function is also passed ``progress=``. A `need` is met first, within a time limit of its own.

        Raises
        ------
        Overloaded : the queue is full, no child became free in time, or the need was not met in time
        LaneTimeout : the child exceeded its time limit and was killed
        LaneCrashed : the child died
        RecourseError : raised by the function or the need; `InternalError` for any other exception
        """
        give_up = time.monotonic() + (timeout_s if wait_s is None else wait_s)
        child = await self._take(give_up)
        failure: str | None = "cancelled"
        try:
            left_s = max(give_up - time.monotonic(), 0.0) if wait_s is None else timeout_s
            kill_after_s = left_s + GRACE_S
            options, reports = {"deadline_s": left_s}, on_progress is not None
            origin = (request_id.get(), traceparent.get())
            alarm_s = kill_after_s + ALARM_S
            call = Call(function, args, options, alarm_s=alarm_s, reports=reports, origin=origin, need=need)
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
        try:
            async with asyncio.timeout(give_up - time.monotonic()):
                while not (child := await self._next()).alive:
                    # It died in between.
                    self._lose(child, FAILURES[LaneCrashed])
                return child
        except TimeoutError:
            raise Overloaded("No worker became free before the deadline of the request.") from None

    async def _next(self) -> Child:
        if self._free:
            return self._free.pop()
        if len(self._line) >= WAITING_PER_CHILD * self.size:
            raise Overloaded
        turn: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It received a child at the same moment.
                self._give_back(turn.result())
            elif turn in self._line:
                self._line.remove(turn)
            raise

    def _give_back(self, child: Child) -> None:
        if not child.alive:
            self._lose(child, FAILURES[LaneCrashed])
            return
        while self._line:
            turn = self._line.popleft()
            # A cancelled call may still be in the queue.
            if not turn.done():
                turn.set_result(child)
                return
        self._free.append(child)

    def _note_end(self, child: Child) -> None:
        """Replace a child that died while idle; the call of a busy child notices by itself."""
        if child in self._free and not self._closed:
            self._free.remove(child)
            self._lose(child, FAILURES[LaneCrashed])

    def _lose(self, child: Child, reason: str) -> None:
        self._ended[reason] += 1
        self._replace(child)

    def _replace(self, old: Child | None) -> None:
        """End the old child, if any, and warm up a new one in the background."""
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
        """A new child that is ready; None, with a line in the log, if that failed."""
        began = time.monotonic()
        try:
            child = Child(self._nice, self._note_end)
        except OSError as error:
            log.error("child-not-started", lane=self.name, reason=error.strerror)
            return None
        self._children.add(child)
        try:
            child.problems = await child.call(self._preparation, WARM_UP_S)
        except RecourseError as error:
            log.error("child-not-warm", lane=self.name, pid=child.pid, code=error.code)
            await self._end(child)
            return None
        for name, why in child.problems.items():
            log.warning("not-loaded", lane=self.name, pid=child.pid, name=name, detail=why)
        log.info("child-warm", lane=self.name, pid=child.pid, ms=round(1000.0 * (time.monotonic() - began)))
        return child

    async def _end(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)
