"""A model server process for tests, and a loan model that is asked there."""

import atexit
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from app.remote_hosts import RemoteHost
from tests.registry.loan import ModelDirectory, make_linear

ROOT = Path(__file__).parents[2]


class ModelServer:
    """A running `tests.remote.server`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.remote.server"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False)

    @property
    def hosts(self) -> tuple[RemoteHost, ...]:
        """What an operator says who allows this server."""
        return (RemoteHost.parse(f"http://127.0.0.1:{self.port}=127.0.0.1"),)

    def behave(self, how: str = "well", **mode: Any) -> None:
        """Answer like this from now on, or from after so many requests on (`after`); forget what was asked."""
        self._client.post("/behave", json={"is": how, **mode}).raise_for_status()

    def asked(self) -> list[dict[str, Any]]:
        """The requests since then."""
        found: list[dict[str, Any]] = self._client.get("/asked").json()
        return found

    def gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def end(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.communicate()


@contextmanager
def serving() -> Iterator[ModelServer]:
    """A server of one's own."""
    server = ModelServer()
    try:
        yield server
    finally:
        server.end()


@cache
def shared() -> ModelServer:
    """A server for all tests that do not break it."""
    server = ModelServer()
    atexit.register(server.end)
    return server


def make_remote(
    path: Path, server: ModelServer, protocol: str = "oip-v2", kind: str = "encoded", **artifact: Any
) -> ModelDirectory:
    """The loan model, asked at a server; `None` in `artifact` removes a key."""
    model = make_linear(path)
    oip = protocol == "oip-v2"
    address = f"/v2/models/{kind}/infer" if oip else f"/{kind}/invocations"
    stated = {"format": "http", "url": f"http://127.0.0.1:{server.port}{address}", "protocol": protocol}
    if oip:
        stated |= {"output_name": "p", "input_name": "x"}
    model.manifest |= {"artifact": {k: v for k, v in (stated | artifact).items() if v is not None}, "input": kind}
    return model
