"""What attacks on the server cost another caller: its answers, and how soon the server says that it lives."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.attacker import ATTACKS
from benchmarks.fairness import figures, measured, two_callers
from benchmarks.tables import show
from benchmarks.tasks import ROOT
from tests.proxied import NGINX, proxied


def table() -> None:
    """Another caller's `POST /recourse` and `GET /health/live`, without and under each attack.

    Through the proxy where this machine has nginx.
    """
    head = (
        "attack",
        "p50 ms",
        "p99 ms",
        "p99 / without",
        "refused",
        "/health/live, slowest ms",
        "ended by the server/s",
    )

    def rows() -> Iterator[tuple[str, ...]]:
        with two_callers() as (direct, attacker, other, body), _reached(direct) as url:
            measured(url, other, body)
            with _alive(url) as waits:
                alone = measured(url, other, body)
            yield ("none", *figures(alone, alone), f"{max(waits):.0f}", "-")
            for name in ATTACKS:
                with _attack(url, attacker, name) as ended, _alive(url) as waits:
                    began = time.perf_counter()
                    found = measured(url, other, body)
                    seconds = time.perf_counter() - began
                yield (name, *figures(found, alone), f"{max(waits):.0f}", f"{ended[0] / seconds:.0f}")

    way = "through nginx" if NGINX else "without a proxy"
    show(f"Attacks: another caller beside one attacker, {way}", head, rows())


@contextmanager
def _reached(url: str) -> Iterator[str]:
    """The address at which the callers reach the server."""
    if NGINX is None:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder, proxied(url, Path(folder)) as proxy:
        yield proxy


@contextmanager
def _alive(url: str) -> Iterator[list[float]]:
    """Milliseconds of `GET /health/live`, asked ten times a second."""
    waits, ending = [0.0], threading.Event()

    def look() -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not ending.wait(0.1):
                began = time.perf_counter()
                client.get("/health/live").raise_for_status()
                waits.append(1e3 * (time.perf_counter() - began))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield waits
    finally:
        ending.set()
        looking.join()


@contextmanager
def _attack(url: str, key: str, name: str) -> Iterator[list[int]]:
    """A process that attacks; afterwards how many of its connections ended."""
    ended: list[int] = []
    command = [sys.executable, "-m", "benchmarks.attacker", url, key, name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield ended
        finally:
            process.stdin.close()
            ended.append(int(process.stdout.readline()))
