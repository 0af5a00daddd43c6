"""How long a caller waits while another one keeps a hundred connections busy."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from benchmarks.http import questions, server
from benchmarks.tables import show
from benchmarks.tasks import ROOT

CONNECTIONS = 100

SWEEP = {"parameter": "radius_unfavourable", "values": [0, 1, 2, 5, 10]}

ASKED = 200

BETWEEN_S = 0.02
"""Pause of the other caller between two requests: it is a person's software, not a load test."""


def table() -> None:
    """The other caller's `POST /recourse` without and with the crowd, and with one that asks for curves."""
    head = ("crowd", "p50 ms", "p99 ms", "p99 / without", "refused", "crowd: answered/s", "crowd: refused/s")

    def rows() -> Iterator[tuple[str, ...]]:
        with two_callers() as (url, crowd, other, body):
            measured(url, other, body)
            alone = measured(url, other, body)
            yield ("none", *figures(alone, alone), "-", "-")
            for name, path, asked in (
                ("100 x POST /recourse", "/recourse", body),
                ("100 x frontier", "/recourse/frontier", {**body, "sweep": SWEEP}),
            ):
                with _crowd(url, crowd, path, asked) as counts:
                    found = measured(url, other, body)
                yield (name, *figures(found, alone), *(f"{count:.0f}" for count in counts))

    show(f"Fairness: another caller beside {CONNECTIONS} connections of one key", head, rows())


@contextmanager
def two_callers() -> Iterator[tuple[str, str, str, dict[str, object]]]:
    """The address of a server with the demo model, two keys for it, and a question."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        body = next(bodies[0] for name, bodies in questions(store).items() if name.startswith("consumer-loan"))
        settings = {"RECOURSE_RATE_LIMIT": "0", "RECOURSE_STATE_DIR": str(Path(folder) / "state")}
        one, other = _key(store, settings), _key(store, settings)
        with server(store, **settings) as url:
            yield url, one, other, body


def _key(store: Path, settings: dict[str, str]) -> str:
    command = [sys.executable, "-m", "app.cli", "keys", "create", "benchmark", "--scope", "recourse"]
    environment = os.environ | {"RECOURSE_MODELS_STORE": str(store), **settings}
    made = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    return made.stdout.strip()


def measured(url: str, key: str, body: dict[str, object]) -> list[float]:
    """Milliseconds of each request; infinite where it was refused."""
    found = []
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        for _ in range(ASKED):
            began = time.perf_counter()
            response = client.post("/recourse", json=body)
            found.append(1e3 * (time.perf_counter() - began) if response.is_success else np.inf)
            time.sleep(BETWEEN_S)
    return found


def figures(found: list[float], alone: list[float]) -> tuple[str, ...]:
    """Median, 99th percentile, its ratio to that without others, and refusals."""
    p99, p99_alone = np.percentile(found, 99, method="lower"), np.percentile(alone, 99, method="lower")
    refused = sum(np.isinf(found))
    return (f"{np.median(found):.1f}", f"{p99:.1f}", f"{p99 / p99_alone:.2f}", f"{refused} of {len(found)}")


@contextmanager
def _crowd(url: str, key: str, path: str, body: dict[str, object]) -> Iterator[list[float]]:
    """A process with many connections that ask without a pause; afterwards its answers and refusals per second."""
    counts: list[float] = []
    command = [sys.executable, "-m", "benchmarks.crowd", url, key, path, str(CONNECTIONS)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(body) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        try:
            yield counts
        finally:
            process.stdin.close()
            counts += map(float, process.stdout.readline().split())
