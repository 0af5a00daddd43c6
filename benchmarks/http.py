"""The service over HTTP: a real server on loopback, asked by one client, then by several at once.

What is timed is asked with the standard library's client, which takes 0.5 ms itself; httpx takes 1.2.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.recourse.models.score import favourable
from app.registry.registry import Registry
from benchmarks.processes import cpu_s, descendants
from benchmarks.tables import show
from benchmarks.tasks import APPLICANTS, GERMAN, ROOT
from examples.german_credit import train as german_train

CLIENTS = 4
REPEATS = 4
COST_ROUNDS = 5
"""Rounds of requests of which the processor time is the median: kept and not kept take turns."""
READY_S = 120.0

Body = dict[str, object]


def table() -> None:
    """Latency of `POST /recourse` beside the time of `solve` inside it, throughput, and what a request costs."""
    with tempfile.TemporaryDirectory() as folder:
        asked = questions(Path(folder) / "store")
        head = (
            "model", "p50 ms", "p95 ms", "solve p50 ms", "p50 - solve p50", f"requests/s, {CLIENTS} clients", "found"
        )  # fmt: skip
        with server(Path(folder) / "store") as url, httpx.Client(base_url=url) as client:
            for bodies in asked.values():
                _warm(client, bodies)
            rows = ((model, *_measure(url, bodies)) for model, bodies in asked.items())
            show("HTTP: POST /recourse, one server, loopback", head, rows)
        told = ("model", "answer", "server: CPU ms", "child: CPU ms", "server / child", "server, beside not kept")
        # Without a worker, which looks for jobs all the time: requests do not cause that.
        with server_process(Path(folder) / "store", RECOURSE_RUN_JOBS="false") as (url, pid):
            costs = (row for model, bodies in asked.items() for row in _costs(url, pid, model, bodies))
            show("HTTP: processor time of one POST /recourse", told, costs)


def _warm(client: httpx.Client, bodies: list[Body]) -> None:
    for body in bodies:
        client.post("/recourse", json=body).raise_for_status()


def _costs(url: str, pid: int, model: str, bodies: list[Body]) -> Iterator[tuple[str, ...]]:
    """What a request costs the server and its children where the answer is kept, and where it is not."""
    children, _ = descendants(pid)
    spent: dict[bool, list[np.ndarray]] = {True: [], False: []}
    with httpx.Client(base_url=url) as client:
        _warm(client, bodies)
        for _ in range(COST_ROUNDS):
            for kept, costs in spent.items():
                before = np.array([cpu_s(pid), sum(map(cpu_s, children))])
                for body in bodies * REPEATS:
                    client.post("/recourse", json={**body, "store": kept}).raise_for_status()
                after = np.array([cpu_s(pid), sum(map(cpu_s, children))])
                costs.append(1e3 * (after - before) / len(bodies * REPEATS))
    medians = {kept: np.median(costs, axis=0) for kept, costs in spent.items()}
    for kept, (server_ms, child_ms) in medians.items():
        ratios = (f"{server_ms / child_ms:.2f}", f"{server_ms / medians[False][0]:.2f}")
        yield model, "kept" if kept else "not kept", f"{server_ms:.2f}", f"{child_ms:.2f}", *ratios


def _measure(url: str, bodies: list[Body]) -> tuple[str, ...]:
    elapsed, inside, found = [], [], 0
    with closing(_connection(url)) as connection:
        for body in bodies * REPEATS:
            started = time.perf_counter()
            answer = _asked(connection, {**body, "detail": "full"})
            elapsed.append(1e3 * (time.perf_counter() - started))
            inside.append(answer["diagnostics"]["elapsed_ms"])
            found += answer["status"] == "found"
    total = REPEATS * len(bodies)
    rate = total / _seconds(url, bodies * REPEATS)
    p50, p95, solve = np.median(elapsed), np.percentile(elapsed, 95), np.median(inside)
    return (f"{p50:.1f}", f"{p95:.1f}", f"{solve:.1f}", f"{p50 - solve:.1f}", f"{rate:.0f}", f"{found / total:.0%}")


def _seconds(url: str, bodies: list[Body]) -> float:
    """What several clients take for these requests, each over one connection."""

    def ask(own: list[Body]) -> None:
        with closing(_connection(url)) as connection:
            for body in own:
                _asked(connection, body)

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(ask, (bodies[i::CLIENTS] for i in range(CLIENTS))))
    return time.perf_counter() - started


def _connection(url: str) -> HTTPConnection:
    address = urlsplit(url)
    assert address.hostname is not None
    return HTTPConnection(address.hostname, address.port)


def _asked(connection: HTTPConnection, body: Body) -> dict[str, Any]:
    connection.request("POST", "/recourse", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer: dict[str, Any] = json.loads(response.read())
    assert response.status == httpx.codes.OK, answer
    return answer


def questions(store: Path) -> dict[str, list[dict[str, object]]]:
    """Request bodies per model, of people whom the model rejects; `store` gets the models, with their future models."""
    registry = Registry(store)
    with tempfile.TemporaryDirectory() as folder:
        if GERMAN.exists():
            german_train.write(german_train.train(GERMAN), Path(folder) / "german")
            registry.register(Path(folder) / "german")
    registry.register(ROOT / "models_store" / "consumer-loan" / "1")
    found: dict[str, list[dict[str, object]]] = {}
    for model in registry.list():
        rehearse(model, Choices())
        loaded = model.load()
        rejected = loaded.reference.rows_raw[~favourable(loaded.reference.scores)][:APPLICANTS]
        found[model.name] = [{"model": model.id, "applicant": model.space.record(row)} for row in rejected]
    return found


@contextmanager
def server(store: Path, **settings: str) -> Iterator[str]:
    """A server with these models; its address once it is ready."""
    with server_process(store, **settings) as (url, _):
        yield url


@contextmanager
def server_process(store: Path, **settings: str) -> Iterator[tuple[str, int]]:
    """The same, and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "RECOURSE_MODELS_STORE": str(store),
        "RECOURSE_PORT": str(port),
        # Its ledger and its jobs are nobody's.
        "RECOURSE_STATE_DIR": str(store.parent / "state"),
        # A server without future models would make them now, on a core that is measured.
        "RECOURSE_REHEARSE": "off",
        **settings,
    }
    command = [sys.executable, "-m", "app.cli", "serve"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=quiet, stderr=quiet) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(url, process)
            yield url, process.pid
        finally:
            process.terminate()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server did not become ready")
