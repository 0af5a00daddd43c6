"""How long a server takes until it is ready, what that costs, and what a child holds; Linux only."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import numpy as np

from benchmarks.processes import cpu_s, descendants, memory_mb
from benchmarks.tables import show
from benchmarks.tasks import ROOT

REPEATS = 5
CHILDREN = 2
LONGEST_S = 120.0


def table() -> None:
    """Starts of `recourse serve` with the demo model, and of one child in the place of another."""
    head = ("figure", "median", "least", "most")

    def rows() -> Iterator[tuple[str, ...]]:
        with tempfile.TemporaryDirectory() as folder:
            _measure(Path(folder))  # compiles what has never been imported, and makes the databases
            found = [_measure(Path(folder)) for _ in range(REPEATS)]
        for name in found[0]:
            values = [one[name] for one in found]
            yield (name, *(f"{figure:.2f}" for figure in (np.median(values), min(values), max(values))))

    show(f"Start: one server, {CHILDREN} children, one linear model, {REPEATS} times", head, rows())


def _measure(folder: Path) -> Mapping[str, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "RECOURSE_MODELS_STORE": str(ROOT / "models_store"),
        "RECOURSE_PORT": str(port),
        "RECOURSE_STATE_DIR": str(folder),
        "RECOURSE_LANES_SYNC": str(CHILDREN),
    }
    quiet = subprocess.DEVNULL
    began = time.monotonic()
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST_S) as client,
        subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve"], env=environment, cwd=ROOT, stdout=quiet, stderr=quiet
        ) as server,
    ):
        try:
            _awaited(lambda: _ready(client))
            ready_s = time.monotonic() - began
            _awaited(lambda: _children(client) == (CHILDREN, 0))
            all_s = time.monotonic() - began
            leaves, others = descendants(server.pid)
            held = [memory_mb(pid) for pid in leaves]
            costs = [cpu_s(pid) for pid in leaves]
            figures = {
                "seconds until ready, with one child": ready_s,
                "seconds until all children are warm": all_s,
                "CPU of the server, s": cpu_s(server.pid),
                "CPU of the template, s": sum(map(cpu_s, others)),
                "CPU of a child, s": float(np.mean(costs)),
                "CPU of all, s": cpu_s(server.pid) + sum(map(cpu_s, others)) + sum(costs),
                "memory of the server, MB": sum(memory_mb(server.pid)),
                "memory of a child that is its own, MB": float(np.mean([own for own, _ in held])),
                "memory of a child that it shares, MB": float(np.mean([shared for _, shared in held])),
            }
            os.kill(leaves[0], signal.SIGKILL)
            killed = time.monotonic()
            _awaited(lambda: _children(client) == (CHILDREN, 1))
            figures["seconds until a killed child is replaced"] = time.monotonic() - killed
        finally:
            server.terminate()
    return figures


def _awaited(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LONGEST_S
    while not condition():
        if time.monotonic() > give_up:
            raise RuntimeError("the server did not become ready")
        time.sleep(0.005)


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").is_success
    except httpx.TransportError:
        return False


def _children(client: httpx.Client) -> tuple[int, int]:
    """How many stand idle, and how many were lost so far, of all lanes."""
    lines = [line.split() for line in client.get("/metrics").text.splitlines() if line.startswith("recourse_lane_")]
    idle = sum(float(value) for name, value in lines if 'state="idle"' in name)
    lost = sum(float(value) for name, value in lines if "ended_total" in name)
    return int(idle), int(lost)
