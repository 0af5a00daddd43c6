"""Server processes that compute jobs, on a database of the test's own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.asking import document
from tests.conftest import until
from tests.forks import forks
from tests.processes import children, gone, lane_children

ROOT = Path(__file__).parents[2]

POSTGRES = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
"""A server where the tests may create databases."""


def postgres_missing() -> str:
    """Why there is no PostgreSQL for the tests; empty if there is."""
    try:
        import psycopg
    except ImportError:
        return "psycopg is not installed"
    try:
        psycopg.connect(POSTGRES, connect_timeout=2).close()
    except psycopg.Error as error:
        return f"no PostgreSQL at TEST_POSTGRES_URL or on this machine: {type(error).__name__}"
    return ""


@contextmanager
def database(how: str = "") -> Iterator[str]:
    """The address of a new PostgreSQL database, which is dropped afterwards; `how` it is made, in SQL."""
    import psycopg

    name = f"recourse_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"create database {name} {how}")
    try:
        yield f"{POSTGRES.rpartition('/')[0]}/{name}"
    finally:
        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")


class OwnPostgres:
    """A PostgreSQL server of the test's own, which may be killed: `run`, `kill` and `run` again."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs, self._data = programs, directory / "data"
        self._log = directory / "log"
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(directory, self._user)
        command = [programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(command, user=self._user, cwd=directory, check=True, capture_output=True, timeout=60)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Start it, after a crash as well, and wait until it answers."""
        command = [self._programs / "postgres", "-D", self._data, "-p", str(self._port), "-k", "", "-h", "127.0.0.1"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, user=self._user, cwd=self._data, stdout=log, stderr=log, start_new_session=True
            )
        until(self._answers)

    def kill(self) -> None:
        """All of its processes at once, as when the machine dies."""
        if self._process is not None:
            pids = children(self._process.pid)
            for pid in (self._process.pid, *pids):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(20)
            until(lambda: all(gone(pid) for pid in pids))
            self._process = None

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            psycopg.connect(self.address, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """A running PostgreSQL server of the test's own; skips the test where its programs are not installed."""
    path = os.pathsep.join([*sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True), os.environ.get("PATH", "")])
    program = shutil.which("initdb", path=path)
    if program is None:
        pytest.skip("initdb is neither in PATH nor in /usr/lib/postgresql")
    with tempfile.TemporaryDirectory() as directory:
        postgres = OwnPostgres(Path(program).resolve().parent, Path(directory))
        postgres.run()
        try:
            yield postgres
        finally:
            postgres.kill()


def drop_connections(address: str) -> int:
    """Cut off everybody who uses a database; how many that were."""
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        name = address.rpartition("/")[2]
        query = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s"
        return len(connection.execute(query, [name]).fetchall())


class Process:
    """A process of the product with a log of its own; its children die with it.

    Parameters
    ----------
    begun : in its log once it is there
    """

    def __init__(self, module: str, directory: Path, settings: dict[str, str], begun: bytes) -> None:
        self.log = directory / f"log-{uuid.uuid4().hex[:6]}"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("RECOURSE_")}
        with self.log.open("wb") as stderr:
            self._process = forks().start(module, env=inherited | settings, stderr=stderr)
        until(lambda: begun in self.log.read_bytes() or self._process.poll() is not None)
        assert self._process.poll() is None, self.log.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The lines of the log, of one event."""
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in found if event in ("", line["event"])]

    def kill(self) -> None:
        """As the kernel does when memory runs out: the process, not its children."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Server(Process):
    """A server process."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__("tests.jobs.server", directory, {"RECOURSE_PORT": "0"} | settings, b"running on")
        self.database = settings.get("RECOURSE_DATABASE_URL", "")
        self.state = Path(settings["RECOURSE_STATE_DIR"])
        (line,) = (line for line in self.lines() if "running on" in line["event"])
        self.client = httpx.Client(base_url=line["event"].split()[3], timeout=120)

    def ready(self) -> "Server":
        """The server, once it is ready."""
        until(lambda: self.client.get("/health/ready").status_code == 200)
        return self

    def submit(self, kind: str, payload: dict[str, Any], *, timeout_s: float = 60.0) -> str:
        """The address of a new job."""
        response = self.client.post(f"/test/{kind}", json={"payload": payload, "timeout_s": timeout_s})
        assert response.status_code == 202, response.text
        return f"/jobs/{response.json()['id']}"

    def job(self, address: str) -> dict[str, Any]:
        return document(self.client.get(address))

    def ended(self, address: str, *, within_s: float = 120.0) -> dict[str, Any]:
        """A job, once it has ended."""
        until(lambda: self.job(address)["finished_at"], within_s=within_s)
        return self.job(address)

    def children(self) -> list[int]:
        return lane_children(self._process.pid)

    def stop(self) -> None:
        """Tell it to stop, and see that it does so in an orderly way."""
        self._process.terminate()
        # The web server passes the signal on to itself once everything is closed.
        assert self._process.wait(20) == -signal.SIGTERM
        assert self.lines("Application shutdown complete."), self.log.read_text()[-4000:]

    def end(self) -> None:
        self.client.close()
        super().end()


class Worker(Process):
    """A process that computes jobs and answers nobody."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__("tests.jobs.worker", directory, settings, b"job-store-opened")

    def stop(self) -> None:
        """Tell it to stop, and see that it does so in an orderly way."""
        self._process.terminate()
        assert self._process.wait(20) == 0
        assert self.lines("worker-stopped")
