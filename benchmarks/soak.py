"""The service under faults for a while: nothing is lost, nothing is recorded twice, nothing grows."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.http import questions
from benchmarks.processes import descendants
from benchmarks.tables import show
from benchmarks.tasks import ROOT

CLIENTS = 4

FAULT_S = 8.0
"""Mean time between two faults."""

SERVER_EVERY = 5
"""Every so many faults the server is killed, in the first half; it lives through the second, where memory shows."""

READY_S = 120.0

PATIENCE_S = 120.0
"""Longest time to repeat one request."""


class Soak:
    """A server that is started again, clients that repeat their requests, and faults."""

    def __init__(self, directory: Path) -> None:
        store = directory / "store"
        self._bodies = questions(store)["consumer-loan@1"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        self._environment = os.environ | {
            "RECOURSE_MODELS_STORE": str(store), "RECOURSE_PORT": str(port),
            "RECOURSE_STATE_DIR": str(directory / "state"), "RECOURSE_RATE_LIMIT": "0", "RECOURSE_REHEARSE": "off",
        }  # fmt: skip
        self._ending = threading.Event()
        self.answers: dict[str, str] = {}
        """The id of the recourse for each reference that was answered."""
        self.given_up: list[str] = []
        self.count: Counter[str] = Counter()
        self.lives: list[list[tuple[float, int]]] = []
        """Of each server process: its memory in MB and its descriptors, over time."""
        self._start()

    def run(self, minutes: float) -> None:
        """Clients and faults for this time."""
        clients = [threading.Thread(target=self._ask_all, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        end = time.monotonic() + 60.0 * minutes
        chance = random.Random(0)
        while (left := end - time.monotonic()) > 0:
            self._ending.wait(min(left, chance.uniform(0.5, 1.5) * FAULT_S))
            self._look()
            self._fault(chance, kill_server=left > 30.0 * minutes)
        self._ending.set()
        for client in clients:
            client.join()

    def recorded(self) -> dict[str, list[str]]:
        """The ids in the ledger by reference."""
        found = defaultdict(list)
        with httpx.Client(base_url=self._url, timeout=60) as client:
            cursor: dict[str, str] = {}
            while True:
                page = client.get("/recourse", params={"limit": 200, **cursor}).raise_for_status().json()
                for one in page["recourse"]:
                    found[one["reference"]].append(one["id"])
                if page["next_cursor"] is None:
                    return found
                cursor = {"cursor": page["next_cursor"]}

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        self._process.wait()

    def _start(self) -> None:
        command = [sys.executable, "-m", "app.cli", "serve"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=self._environment, cwd=ROOT, stdout=quiet, stderr=quiet)
        end = time.monotonic() + READY_S
        while not self._is_ready():
            if time.monotonic() > end:
                raise RuntimeError("the server did not become ready")
            time.sleep(0.1)
        self.lives.append([])

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self._url}/health/ready", timeout=10).is_success
        return False

    def _fault(self, chance: random.Random, *, kill_server: bool) -> None:
        self.count["faults"] += 1
        if kill_server and self.count["faults"] % SERVER_EVERY == 0:
            self.count["server killed"] += 1
            self._process.kill()
            self._process.wait()
            self._start()
        elif chance.random() < 0.5:
            leaves, templates = descendants(self._process.pid)
            if not leaves and not templates:  # they are being replaced
                return
            self.count["child killed"] += 1
            with suppress(ProcessLookupError):
                os.kill(chance.choice([*leaves, *templates]), signal.SIGKILL)
        else:
            self.count["connections dropped"] += 1
            head = "POST /recourse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            for _ in range(20):
                address = self._url.removeprefix("http://").split(":")
                with suppress(OSError), socket.create_connection((address[0], int(address[1])), 5) as connection:
                    connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())

    def _look(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (memory,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        self.lives[-1].append((memory / 1024, len(os.listdir(f"/proc/{self._process.pid}/fd"))))

    def _ask_all(self, client_number: int) -> None:
        number = 0
        with httpx.Client(base_url=self._url, timeout=30) as client:
            while not self._ending.is_set():
                self._ask(client, f"soak-{client_number}-{number}", self._bodies[number % len(self._bodies)])
                number += 1

    def _ask(self, client: httpx.Client, reference: str, body: dict[str, Any]) -> None:
        """Send one request until it is answered."""
        end = time.monotonic() + PATIENCE_S
        asked = {**body, "reference": reference}
        while time.monotonic() < end:
            with suppress(httpx.TransportError):
                response = client.post("/recourse", json=asked, headers={"Idempotency-Key": reference})
                if response.is_success:
                    self.answers[reference] = response.json()["id"]
                    return
            self.count["repeated"] += 1
            time.sleep(0.1)
        self.given_up.append(reference)


def table(minutes: float) -> bool:
    """Print what happened; whether nothing was lost or recorded twice."""
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        try:
            soak.run(minutes)
            soak._look()
            recorded = soak.recorded()
        finally:
            soak.close()
    lost = [name for name, found in soak.answers.items() if found not in recorded[name]] + soak.given_up
    twice = [name for name, found in recorded.items() if len(found) > 1]
    counts = ("child killed", "server killed", "connections dropped", "repeated")
    head = ("minutes", "answered", *counts, "lost", "twice", "memory MB: first, last", "descriptors: first, last")
    longest = max(soak.lives, key=len)
    memory, descriptors = zip(*longest, strict=True)
    row = (
        f"{minutes:g}", str(len(soak.answers)), *(str(soak.count[name]) for name in counts), str(len(lost)),
        str(len(twice)), f"{memory[0]:.0f}, {memory[-1]:.0f}", f"{descriptors[0]}, {descriptors[-1]}",
    )  # fmt: skip
    show("Soak: POST /recourse with an Idempotency-Key, under faults", head, [row])
    return not lost and not twice
