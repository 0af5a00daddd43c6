"""Batches over HTTP beside single requests for the same applicants, and two workers beside one."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.http import CLIENTS, questions, server
from benchmarks.processes import cpu_s, descendants
from benchmarks.tables import show
from benchmarks.tasks import ROOT
from tests.jobs.serving import database, postgres_missing

APPLICANTS = 2000
BY_ONE = 500
"""Of them, those whom one client asks about, a request after another."""
ROUNDS = 3
"""Each rate is the median of so many."""
SEED = 11
LONGEST_S = 600.0
COSTS = tuple(f"{what}: CPU ms per applicant" for what in ("child", "worker"))
"""What a batch costs one worker; server and PostgreSQL come on top."""

Body = dict[str, Any]


def table() -> None:
    """Applicants per second by single requests and as a batch; then of one worker process and of two."""
    rates = (
        "one client: applicants/s",
        f"{CLIENTS} clients",
        "batch",
        "batch / one",
        f"batch / {CLIENTS}",
        "same answers",
    )
    show(f"Batch: {APPLICANTS:,} applicants over HTTP, one server, loopback", ("model", *rates), _batch_rows())
    if reason := postgres_missing():
        print(f"No table of workers: {reason}\n")
        return
    head = ("model", "one worker: applicants/s", "two workers: applicants/s", "ratio", *COSTS)
    show(f"Workers with one child each, PostgreSQL, {APPLICANTS:,} applicants", head, _worker_rows())


def _batch_rows() -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        asked = questions(store)
        with (
            server(store, RECOURSE_STATE_DIR=f"{folder}/state") as url,
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            for model, bodies in asked.items():
                applicants = _repeated(bodies)
                run_batch(client, model, applicants[:100])  # the children for jobs start with the first one
                alone_s, batch_s = [], []
                for _ in range(ROUNDS):
                    alone_s.append(_singly(client, model, applicants[:BY_ONE], clients=1)[0])
                    seconds, lines = run_batch(client, model, applicants)
                    batch_s.append(seconds)
                several_s, singly = _singly(client, model, applicants, clients=CLIENTS)
                same = sum(_same(one) == _same(other) for one, other in zip(singly, lines, strict=True))
                alone, several, batch = BY_ONE / median(alone_s), APPLICANTS / several_s, APPLICANTS / median(batch_s)
                ratios = (f"{batch / alone:.1f}", f"{batch / several:.1f}")
                yield (model, f"{alone:.0f}", f"{several:.0f}", f"{batch:.0f}", *ratios, f"{same:,} of {APPLICANTS:,}")


def _worker_rows() -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        for model, bodies in questions(store).items():
            one_s, two_s, costs_s = _by_workers(store, model, _repeated(bodies))
            ratio = median(one / two for one, two in zip(one_s, two_s, strict=True))
            rates = (f"{APPLICANTS / median(seconds):.0f}" for seconds in (one_s, two_s))
            costs = (f"{1e3 * seconds / (ROUNDS * APPLICANTS):.2f}" for seconds in costs_s)
            yield (model, *rates, f"{ratio:.2f}", *costs)


def _by_workers(store: Path, model: str, applicants: list[Body]) -> tuple[list[float], list[float], list[float]]:
    """Seconds for the applicants with one worker and with two, in turns: no machine is equally fast all the time.

    Last the processor time of its child and of the worker in all rounds with one.
    """
    one_s, two_s, costs_s = [], [], [0.0] * 2
    with ExitStack() as stack:
        shared = {"RECOURSE_DATABASE_URL": stack.enter_context(database()), "RECOURSE_LANES_BOUNDS": "1"}
        url = stack.enter_context(server(store, **shared, RECOURSE_RUN_JOBS="false", RECOURSE_LANES_SYNC="1"))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        first = stack.enter_context(worker(store, shared)).pid
        run_batch(client, model, applicants[:400])  # the child starts with the first one
        (child,), _ = descendants(first)
        for _ in range(ROUNDS):
            before = cpu_s(child), cpu_s(first)
            one_s.append(run_batch(client, model, applicants)[0])
            costs_s = [cost + cpu_s(pid) - was for cost, pid, was in zip(costs_s, (child, first), before, strict=True)]
            with worker(store, shared):
                # Until the second one has taken part, and its child is warm.
                run_batch(client, model, applicants[:800])
                two_s.append(run_batch(client, model, applicants)[0])
    return one_s, two_s, costs_s


def _repeated(bodies: list[Body]) -> list[Body]:
    """As many applicants as are measured; the same one has another seed each time."""
    return [{"applicant": bodies[i % len(bodies)]["applicant"], "reference": str(i)} for i in range(APPLICANTS)]


def _singly(client: httpx.Client, model: str, applicants: list[Body], *, clients: int) -> tuple[float, list[str]]:
    def ask(i: int) -> str:
        return (
            client.post("/recourse", json={"model": model, "seed": SEED + i, **applicants[i]}).raise_for_status().text
        )

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(ask, range(len(applicants))))
    return time.perf_counter() - started, answers


def run_batch(client: httpx.Client, model: str, applicants: list[Body], **options: Any) -> tuple[float, list[str]]:
    """Seconds from the request to the last byte of the results, and their lines."""
    started = time.perf_counter()
    body = {"model": model, "seed": SEED, "applicants": applicants, **options}
    address = client.post("/recourse/batch", json=body).raise_for_status().headers["location"]
    with client.stream("GET", f"{address}/events", timeout=LONGEST_S) as events:
        ended = [line for line in events.iter_lines() if line == "event: succeeded"]
    assert ended, client.get(address).text
    text = client.get(f"{address}/results").raise_for_status().text
    return time.perf_counter() - started, text.splitlines()


def _same(line: str) -> str:
    """The verdict and the records of an answer."""
    answer = json.loads(line)
    return json.dumps([answer["status"], answer["reason"], *(one["applicant"] for one in answer["counterfactuals"])])


@contextmanager
def worker(store: Path, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes jobs; without waiting until it does."""
    environment = os.environ | {"RECOURSE_MODELS_STORE": str(store), "RECOURSE_REHEARSE": "off", **settings}
    command = [sys.executable, "-m", "app.cli", "worker"]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()
