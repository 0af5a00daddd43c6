"""Programs of the product in processes of their own that have imported everything when they begin.

What a server or a command imports takes seconds of computing. So one process, ``python -m tests.forks``, imports it
once and waits; each program is a fork of it, with its own arguments, environment and standard files. Everything else is
as in a process that was started the long way: signals, exit codes, children of its own. What imports themselves do is
tested with processes that do start the long way.

The first fork server of `multiprocessing` that such a program starts is a fork as well, made before the program began.
"""

import atexit
import fcntl
import gc
import json
import multiprocessing.util
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from app.pool.serve import die_with

ROOT = Path(__file__).parents[1]

IMPORTED = ("app.main", "app.cli.commands", "app.api.openapi", "app.models.tasks", "tests.jobs.kinds")

FAR = 1000
"""A number that no open file has."""

LIBRARIES = ("pandas", "sklearn.ensemble", "sklearn.linear_model", "sklearn.pipeline", "skops.io")
"""Of models, imported where they are installed."""


# --- the side of the tests -------------------------------------------------------------------------------------------


class Fork:
    """A program that was started, as `subprocess.Popen` shows it."""

    def __init__(self, forks: "Forks", pid: int) -> None:
        self.pid = pid
        self._forks = forks

    @property
    def returncode(self) -> int | None:
        return self._forks.ended.get(self.pid)

    def poll(self) -> int | None:
        """The exit code once it has ended; the negative number of the signal that ended it."""
        self._forks.hear(0.0)
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        give_up = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > give_up:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self._forks.hear(0.05)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that waits."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self._begun: list[int] = []
        self._rest = b""
        self.ended: dict[int, int] = {}

    def run(
        self, module: str, *arguments: object, env: Mapping[str, str], strict: bool = False, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end, as `subprocess.run` does with the text of its output."""
        words = [*map(str, arguments)]
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            fork = self.start(module, words, env=env, stdout=stdout, stderr=stderr, strict=strict)
            try:
                code = fork.wait(timeout_s)
            finally:
                fork.kill()
            for file in (stdout, stderr):
                file.seek(0)
            return subprocess.CompletedProcess([module, *words], code, stdout.read(), stderr.read())

    def start(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        env: Mapping[str, str],
        stdout: IO[Any] | int = 1,
        stderr: IO[Any] | int = 2,
        strict: bool = False,
    ) -> Fork:
        """Run ``python -m module`` in the root of the repository, as the leader of a session.

        With `strict` every warning is an error.
        """
        order = {"module": module, "arguments": [*arguments], "env": dict(env), "strict": strict}
        files = [file if isinstance(file, int) else file.fileno() for file in (stdout, stderr)]
        socket.send_fds(self._channel, [b"!"], files)
        self._channel.sendall(json.dumps(order).encode() + b"\n")
        while not self._begun:
            assert self.hear(60.0), "nothing was started"
        return Fork(self, self._begun.pop())

    def hear(self, timeout_s: float) -> bool:
        """Wait for news of what has begun and ended, for so long; whether there were any."""
        if not select.select([self._channel], [], [], timeout_s)[0]:
            return False
        news = self._channel.recv(65536)
        assert news, "the process that forks others has died"
        *lines, self._rest = (self._rest + news).split(b"\n")
        for line in lines:
            pid, code = json.loads(line)
            if code is None:
                self._begun.append(pid)
            else:
                self.ended[pid] = code
        return True

    def end(self) -> None:
        self._channel.close()
        self._process.wait(20)


@cache
def forks() -> Forks:
    """The one of this test process, which starts when it is first needed."""
    one = Forks()
    atexit.register(one.end)
    return one


# --- the process that waits ------------------------------------------------------------------------------------------


def wait_for_orders(channel: socket.socket) -> dict[str, Any]:
    """Fork for every order, and tell what has begun and ended; returns in the forks only, with the order."""
    wake, waker = socket.socketpair()
    for end in (wake, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([channel, wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                wake.recv(4096)
            with suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    tell(channel, ended[0], os.waitstatus_to_exitcode(ended[1]))
        if channel in ready:
            mark, files, _, _ = socket.recv_fds(channel, 1, 2)
            if not mark:
                sys.exit()
            line = b""
            while not line.endswith(b"\n"):
                if not (more := channel.recv(65536)):
                    sys.exit()
                line += more
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (channel, wake, waker):
                    one.close()
                for standard, file in enumerate(files, 1):
                    os.dup2(file, standard)
                    os.close(file)
                order: dict[str, Any] = json.loads(line)
                return order
            for file in files:
                os.close(file)
            tell(channel, pid, None)


def tell(channel: socket.socket, pid: int, code: int | None) -> None:
    channel.sendall(json.dumps([pid, code]).encode() + b"\n")


def keep_fork_server_ready() -> None:
    """Fork a process that becomes this one's fork server when `multiprocessing` first starts one.

    Only that call is replaced: arguments, pipes, preparation and end of the fork server are those of `multiprocessing`.
    """
    ours, theirs = socket.socketpair()
    waiting = os.getpid()
    pid = os.fork()
    if not pid:
        ours.close()
        become_fork_server(theirs, waiting)
    theirs.close()
    spawn = multiprocessing.util.spawnv_passfds

    def start(path: bytes, arguments: Sequence[str], passed: Iterable[int]) -> int:
        if "multiprocessing.forkserver" not in arguments[-1]:
            return int(spawn(path, arguments, passed))
        multiprocessing.util.spawnv_passfds = spawn  # what comes after it is a new process
        with ours:
            order = {"code": arguments[-1], "numbers": [*passed], "env": dict(os.environ)}
            socket.send_fds(ours, [b"!"], order["numbers"])
            ours.sendall(json.dumps(order).encode() + b"\n")
        return pid

    multiprocessing.util.spawnv_passfds = start


def become_fork_server(channel: socket.socket, parent: int) -> None:
    """Wait for the call that starts a fork server, and be that; ends with the program, never returns."""
    mark, files, _, _ = socket.recv_fds(channel, 1, 8)
    if not mark or os.getppid() != parent:
        os._exit(0)
    with channel.makefile("rb") as rest:
        order = json.loads(rest.readline())
    channel.close()
    # The call names its files by number: first all of them are out of the way.
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, FAR) for file in files]
    os.closerange(3, FAR)
    for file, number in zip(moved, order["numbers"], strict=True):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(order["env"])
    with suppress(SystemExit):
        exec(order["code"], {})
    os._exit(0)


def main() -> None:
    gc.disable()
    for module in IMPORTED:
        import_module(module)
    for library in LIBRARIES:
        with suppress(ImportError):
            import_module(library)
    gc.freeze()
    gc.enable()
    waiting = os.getpid()
    order = wait_for_orders(socket.socket(fileno=int(sys.argv[1])))
    os.setsid()
    die_with(waiting)
    os.environ.clear()
    os.environ.update(order["env"])
    keep_fork_server_ready()
    if order["strict"]:
        warnings.simplefilter("error")
    sys.argv = [order["module"], *order["arguments"]]
    try:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        leave(end.code or 0)
    leave(0)


def leave(code: int) -> None:
    """End as Python does, but do not take apart what was imported: each page of it would be copied for that."""
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # or nobody would be warned of files that were left open
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
