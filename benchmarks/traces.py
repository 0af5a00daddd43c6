"""What traces cost a request: a server that sends spans to a collector takes turns with one that sends none."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np

from app.api.examples import APPLICANT, DEMO_MODEL
from benchmarks.http import server_process
from benchmarks.processes import cpu_s, descendants
from benchmarks.tables import show
from benchmarks.tasks import ROOT

ROUNDS = 15
REQUESTS = 100
BODY = {"model": DEMO_MODEL, "applicant": APPLICANT}


class Discard(BaseHTTPRequestHandler):
    """A collector that keeps nothing."""

    def do_POST(self) -> None:
        """Take spans."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing of requests."""


def table() -> None:
    """Medians over rounds of requests, each beside the round without traces before it."""
    with tempfile.TemporaryDirectory() as folder, _collector() as address:
        place = Path(folder)
        with (
            server_process(ROOT / "models_store", **_settings(place / "off")) as off,
            server_process(ROOT / "models_store", **_settings(place / "on"), RECOURSE_TRACES_URL=address) as on,
        ):
            _round(off), _round(on)
            found = np.array([[_round(off), _round(on)] for _ in range(ROUNDS)])
    names = ("p50 ms", "CPU ms of server and children")
    rows = (
        (name, *(f"{value:.2f}" for value in np.median(found[:, :, k], axis=0)), f"{_ratio(found[:, :, k]):.3f}")
        for k, name in enumerate(names)
    )
    show(f"Traces: POST /recourse of the demo, {ROUNDS} x {REQUESTS}", ("figure", "off", "on", "on / off"), rows)


def _ratio(pairs: np.ndarray) -> float:
    return float(np.median(pairs[:, 1] / pairs[:, 0]))


def _settings(state: Path) -> dict[str, str]:
    return {"RECOURSE_STATE_DIR": str(state), "RECOURSE_RUN_JOBS": "false", "RECOURSE_LANES_SYNC": "1"}


def _round(server: tuple[str, int]) -> tuple[float, float]:
    """Median latency, and processor time of each request, milliseconds."""
    url, pid = server
    pids = [pid, *descendants(pid)[0]]
    before, took = sum(map(cpu_s, pids)), []
    with httpx.Client(base_url=url) as client:
        for _ in range(REQUESTS):
            began = time.perf_counter()
            client.post("/recourse", json=BODY).raise_for_status()
            took.append(1e3 * (time.perf_counter() - began))
    return float(np.median(took)), 1e3 * (sum(map(cpu_s, pids)) - before) / REQUESTS


@contextmanager
def _collector() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Discard)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()
