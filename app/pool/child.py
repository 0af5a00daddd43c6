"""One child process: a fork of `multiprocessing`'s fork server, which answers calls until its server ends.

Calls go in as pickles of plain records, answers come back as JSON: the server unpickles nothing that a model's file may
have made. ``docs/decisions/0003-computation-in-child-processes.md`` gives the reasons.
"""

import asyncio
import atexit
import io
import json
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.util
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError
from app.pool.serve import HEADER, Call, Origin, Progress, Written, is_connected, serve
from app.tracing import add_child_spans

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Numeric libraries read these on import; parallelism comes from the number of children."""

KEPT_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TOP_PAD_": str(8 << 20),
}  # fmt: skip
"""The C library reads these when a process begins. Memory up to so many bytes stays with a child that has freed it: to
return it and ask for it again took a twentieth of an answer."""

LOG_LEVEL = "RECOURSE_LOG_LEVEL"
"""Inherited from the server, whose settings validated it."""

ALARM_S = 5.0
"""Time after which the kernel kills a child that this process should have killed, in case this process has ended."""

WALL_FACTOR = 10.0
"""How many times its limit of processor time the loading of a model may take by the clock: a busy machine is not the
model's fault, but a model that waits for ever is."""

END_S = 10.0
"""Longest wait for the end of a child that was killed."""

READ_BYTES = 1 << 20
"""Bytes of an answer that are read ahead."""

CONTEXT = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a child must have loaded before a call, such as a model; ``function(*args)`` loads it.

    Loading it again does nothing.
    """

    name: str
    """Name of what it loads."""
    function: Callable[..., list[str]]
    """Gives the names of what had to make room for it, and has to be loaded again."""
    args: tuple[Any, ...]


_starting = threading.Lock()

_fork_servers: set[int] = set()
"""Process ids of the fork servers of this process that have made a child."""


def start_fork_server() -> None:
    """Start the fork server of this process, unless it runs already. Children inherit the server's environment.

    The fork server imports what children need, which takes about a second; this function does not wait for that.
    """
    CONTEXT.set_forkserver_preload(["app.pool.preload"])
    with _starting:
        # A directory that happens to be the current one must not lend it its modules.
        own = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        own |= {name: os.environ.get(name, size) for name, size in KEPT_MEMORY.items()}
        kept = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            multiprocessing.forkserver.ensure_running()
        finally:
            for name, value in kept.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def end_fork_server() -> None:
    """Kill the fork servers of this process and all their children; the next child starts a new fork server."""
    while _fork_servers:
        if not _has_ended(pid := _fork_servers.pop()):
            os.kill(pid, signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    """Whether a process that this one has started has ended. Until it is waited for, nobody else gets its id."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


class Child:
    """One child process and the socket to it; used from one event loop.

    Parameters
    ----------
    nice : increment of the niceness of the process, 0 to 19
    memory_mb : largest address space of the process, in MB; 0 for no limit
    """

    def __init__(self, nice: int = 0, memory_mb: int = 0) -> None:
        self._socket, self._theirs = socket.socketpair()
        self._handing_over = threading.Lock()
        """Held while `_theirs` is used or closed: a number closed meanwhile may be another connection's by then."""
        self._process = CONTEXT.Process(target=serve, args=(self._theirs, nice, memory_mb), name=NAME, daemon=True)
        self._writer: asyncio.StreamWriter | None = None
        self._ended = asyncio.Event()
        self._fork_server: int | None = None
        self.pid: int | None = None
        """Process id, once it has begun."""
        self.problems: dict[str, str] = {}
        """Reason for each model that it could not load, by name."""
        self.loading: str | None = None
        """Name of what it is loading, or was when it was lost."""
        self._met: list[Need] = []  # its arguments need no hash

    async def start(self, on_end: Callable[["Child"], None]) -> None:
        """Start the process, and return when it is ready for calls; `on_end` is called when it has ended.

        Raises `OSError` if the fork server cannot be reached, `LaneCrashed` if the child ends before it is ready.
        """
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._fork)
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=READ_BYTES)

        def end() -> None:
            loop.remove_reader(self._process.sentinel)
            self._process.join(0)
            self._ended.set()
            on_end(self)

        loop.add_reader(self._process.sentinel, end)
        try:
            begun = await self._receive()
        except ConnectionError:
            raise LaneCrashed from None
        self.pid, self._fork_server = self._process.pid, begun["parent"]
        _fork_servers.add(begun["parent"])

    def _fork(self) -> None:
        with self._handing_over, self._theirs:
            if self._theirs.fileno() < 0:  # killed before it began
                return
            # What cleans up temporary files may have taken the socket of the fork server, and its directory.
            os.makedirs(multiprocessing.util.get_temp_dir(), mode=0o700, exist_ok=True)
            start_fork_server()
            try:
                self._process.start()
            except (FileNotFoundError, ConnectionRefusedError):
                end_fork_server()
                raise

    @property
    def alive(self) -> bool:
        """Whether the other end of the socket, which the process holds, is still open.

        The kernel is asked, as it knows the end of a process before the event loop does.
        """
        return not self._ended.is_set() and is_connected(self._socket)

    @property
    def orphaned(self) -> bool:
        """Whether the fork server that started the child has ended; the child then ends too."""
        return self._fork_server is not None and _has_ended(self._fork_server)

    @property
    def known(self) -> int:
        """Number of needs, such as models, that the child holds in memory; a dropped need does not count."""
        return len(self._met)

    def has_met(self, need: Need | None) -> bool:
        """Whether the child has in memory what `need` loads, such as a model; False where `need` is None."""
        return need in self._met

    async def meet(self, need: Need, cpu_s: float, origin: Origin = (None, None)) -> None:
        """Let the child load what `need` asks for.

        Loading may take `cpu_s` seconds of processor time, and `WALL_FACTOR` times as many seconds by the clock; beyond
        that, `Overloaded` is raised. After a cancellation, `Overloaded` or `LaneCrashed`, the child must be replaced.
        Any other `RecourseError` comes from the function that loads.
        """
        self.loading = need.name
        wall_s = WALL_FACTOR * cpu_s
        call = Call(need.function, need.args, {}, alarm_s=wall_s, cpu_s=cpu_s, origin=origin)
        try:
            dropped = await self.call(call, wall_s + ALARM_S)
        except (LaneTimeout, LaneCrashed) as error:
            if isinstance(error, LaneCrashed) and not await self._was_stopped():
                raise
            raise Overloaded(f"{need.name} was not loaded within {cpu_s:g} s of processor time.") from None
        except RecourseError as error:
            self.problems[need.name] = error.sentence
            self.loading = None
            raise
        self.problems.pop(need.name, None)
        self.loading = None
        self._met = [*(one for one in self._met if one.name not in dropped), need]

    async def _was_stopped(self) -> bool:
        """Whether the kernel has ended it at a time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._ended.wait()
        return self._process.exitcode in (-signal.SIGPROF, -signal.SIGALRM)

    async def call(self, call: Call, kill_after_s: float, on_progress: Progress | None = None) -> Any:
        """Send a call to the child, and return its result.

        After a cancellation, `LaneTimeout` (no result within `kill_after_s`) or `LaneCrashed`, the child must be
        replaced.
        """
        assert self._writer is not None, "it has started"
        message = pickle.dumps(call)
        try:
            async with asyncio.timeout(kill_after_s):
                self._writer.write(HEADER.pack(len(message)) + message)
                while "progress" in (reply := await self._receive()):
                    if on_progress is not None:
                        on_progress(*reply["progress"])
        except TimeoutError:
            raise LaneTimeout from None
        except ConnectionError:
            raise LaneCrashed from None
        add_child_spans(reply.get("spans", ()))
        if "error" in reply:
            raise RecourseError.from_dict(reply["error"])
        return Written(reply["ok"], reply["texts"]) if "texts" in reply else reply["ok"]

    async def _receive(self) -> dict[str, Any]:
        try:
            header = await self._reader.readexactly(HEADER.size)
            head, _, rest = (await self._reader.readexactly(*HEADER.unpack(header))).partition(b"\n")
        except asyncio.IncompleteReadError:
            raise ConnectionError from None
        message: dict[str, Any] = json.loads(head)
        if "texts" in message:
            source = io.BytesIO(rest)
            message["texts"] = {name: source.read(size) for name, size in message["texts"].items()}
        return message

    async def kill(self) -> None:
        """Kill the process, and wait at most `END_S` seconds for its end.

        If the process is not ready for calls yet, only its socket is closed; the process then ends by itself.
        """
        if self._writer is None:
            self._socket.close()
            if self._handing_over.acquire(blocking=False):  # else `_fork` closes the other end
                self._theirs.close()
                self._handing_over.release()
            return
        self._process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._ended.wait()
        self._writer.close()


NAME = "recourse-child"


@atexit.register
def _kill_all() -> None:
    """Kill what is left at the end of this process; `multiprocessing` would ask politely, and wait."""
    for process in multiprocessing.active_children():
        if process.name == NAME:
            process.kill()
