"""The template: a process that has imported what answers need, and forks a child in milliseconds when it is asked to.

One for each process that has children, ``python -m app.compute FD``. It computes nothing, loads no model and has one
thread, so that a fork of it is a whole process. It alone waits for its children, and each has a number that never comes
back: what has ended is not killed again, whatever has its process id by then.
"""

import atexit
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import count

from app.compute.child import serve
from app.observability import configure_logging, log, trace

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Numeric libraries read these on import; parallelism comes from the number of children."""

IMPORTED = ("numpy.random", "app.compute.encoded_answer") if sys.platform == "linux" else ()
"""What children have imported when they begin. Elsewhere they import it themselves: Accelerate of macOS may not be used
in forks of a process that has used it."""

LOG_LEVEL = "RECOURSE_LOG_LEVEL"
"""Inherited from the server, whose settings validated it."""

ORDER = struct.Struct("!Qii")
"""Number of a child, and its niceness and megabytes where a socket comes with it; else it is to be killed."""

ENDED = b"\0"
"""Reply to the order to kill a child, once it has ended."""

ANSWER_S = 30.0
"""Longest time to kill a child; a template that takes longer is killed itself."""

END_S = 5.0
"""Longest time to end; a template that takes longer is killed."""


# --- the side of the server ------------------------------------------------------------------------------------------


class Template:
    """A template process, from any thread. Its children end with it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(ANSWER_S)
        with theirs:
            self._process = start_process(theirs)
        self._numbers = count(1)
        self._ending = False
        self._killing = threading.Lock()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs, and is to go on."""
        return not self._ending and self._process.poll() is None

    def fork(self, theirs: socket.socket, nice: int, memory_mb: int) -> int:
        """Order a child that serves a socket; its number. Raises `OSError` if the template has died."""
        number = next(self._numbers)
        socket.send_fds(self._channel, [ORDER.pack(number, nice, memory_mb)], [theirs.fileno()])
        return number

    def kill(self, number: int) -> None:
        """Kill a child; returns when it has ended."""
        with self._killing:
            try:
                self._channel.sendall(ORDER.pack(number, 0, 0))
                if self._channel.recv(len(ENDED)) == ENDED:
                    return
            except OSError:
                pass  # it has died, or does not answer
        self.end()

    def end(self) -> None:
        """End it and its children, however often."""
        self._ending = True
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._killing:
            self._channel.close()


_starting = threading.Lock()


def template() -> Template:
    """The template of this process: started when it is first needed, and again when it has died."""
    with _starting:
        if not _newest().alive:
            _newest().end()
            log.error("template-lost", pid=_newest().pid)
            _newest.cache_clear()
        return _newest()


@cache
def _newest() -> Template:
    one = Template()
    atexit.register(one.end)
    return one


def start_process(channel: socket.socket) -> "subprocess.Popen[bytes]":
    """A process that takes orders from a socket."""
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-P", "-m", "app.compute", str(channel.fileno())],
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


# --- the side of the template ----------------------------------------------------------------------------------------


def wait_for_orders(descriptor: int) -> None:
    """Fork children and kill them, as the orders from a socket say, until it closes."""
    # Ctrl-C and systemd signal the whole process group. The server alone decides when its children end, so that
    # requests in progress are finished first.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    configure_logging(os.environ.get(LOG_LEVEL) or "info")
    for module in IMPORTED:
        import_module(module)
    if "numpy.random" in sys.modules:
        # Or each child would draw what the others draw; Python sees to `random` itself.
        os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)
    # What the collector never looks at stays shared with the children.
    gc.collect()
    gc.freeze()
    children: dict[int, int] = {}
    with socket.socket(fileno=descriptor) as channel:
        try:
            while (received := socket.recv_fds(channel, ORDER.size, 1, socket.MSG_WAITALL))[0]:
                _obey(channel, children, received[0], received[1])
        finally:
            for number in list(children):
                _kill(children, number)


def _obey(channel: socket.socket, children: dict[int, int], order: bytes, received: list[int]) -> None:
    number, nice, memory_mb = ORDER.unpack(order)
    if received:
        try:
            children[number] = _fork(channel, received[0], nice, memory_mb)
        except OSError as error:
            log.error("child-not-started", reason=error.strerror)  # the server sees the end of the socket
        finally:
            os.close(received[0])
    else:
        _kill(children, number)
        channel.sendall(ENDED)
    with suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            del children[next(number for number, pid in children.items() if pid == ended)]


def _kill(children: dict[int, int], number: int) -> None:
    if pid := children.pop(number, None):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(channel: socket.socket, theirs: int, nice: int, memory_mb: int) -> int:
    """Process id of a new child; the child itself does not return."""
    template = os.getpid()
    if pid := os.fork():
        return pid
    try:
        channel.close()
        serve(theirs, template, nice, memory_mb)
    except ConnectionError:
        pass  # the server has ended, or no longer needs it
    except BaseException as error:  # noqa: BLE001 - process boundary
        log.error("child-error", trace=trace(error))
    finally:
        os._exit(0)
