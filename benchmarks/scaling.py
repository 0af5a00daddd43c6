"""Many workers on one PostgreSQL: applicants per second of 1 to 16, and appends to the ledger by 1 to 8 writers.

The machine has fewer processors than there are workers. So the workers of the first table wait: their model is a
server that takes its time for every call, and what is measured is whether anything else makes them wait.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import yaml

from app.ledger.ledger import Ledger
from app.recourse.models.score import sigmoid
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.remote_hosts import RemoteHost
from app.store.engine import open_engine
from app.store.migrate import upgrade
from benchmarks.batch import Body, run_batch, worker
from benchmarks.http import server
from benchmarks.model_server import Columns, serving
from benchmarks.processes import cpu_s, descendants, memory_mb
from benchmarks.tables import show
from benchmarks.tasks import ROOT
from tests.jobs.serving import database, postgres_missing

WORKERS = (1, 2, 4, 8, 16)
WAIT_S = 2.0
"""What each call of the model takes."""
WARM_S = 0.3
"""The same while the workers start."""
EACH = 120
"""Applicants for each worker: three chunks."""
METHOD = {"name": "robust_mpm", "samples": 100, "neighbours": 3}
"""Few records in each call, so that their JSON takes no processor."""

WRITERS = (1, 2, 4, 8)
RECORDS = (1, 20, 100)
"""Answers in one append: a single request, some that end together, and the chunk of a batch."""
APPEND_S = 5.0
"""Time for which each number of writers appends."""


def table() -> None:
    """Both tables; a line why not where there is no PostgreSQL."""
    if reason := postgres_missing():
        print(f"No tables of scaling: {reason}\n")
        return
    head = ("workers", "applicants/s", "ratio", "ratio / workers", "busy processors", "connections", "MB of a worker")
    show(f"Workers whose model waits {WAIT_S:g} s for each call, PostgreSQL, {EACH} applicants each", head, _waiting())
    appends = [f"{size} answers: appends/s, answers/s" if size > 1 else "1 answer: appends/s" for size in RECORDS]
    show("Appends to one ledger on PostgreSQL", ("writers", *appends), _appending())


# --- workers ---------------------------------------------------------------------------------------------------------


class _Waiting:
    """A logistic model of four numbers, behind a server that takes `seconds` for every call."""

    features = ("income", "savings", "debt", "amount")
    weights = np.array([1.0, 0.8, -0.9, -0.7])

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, columns: Columns) -> np.ndarray:
        time.sleep(self.seconds)
        rows = np.column_stack([columns[name] for name in self.features])
        favourable = sigmoid((rows / 1_000.0 - 5.0) @ self.weights / 2.0)
        return np.column_stack([1.0 - favourable, favourable])

    def register(self, registry: Registry, address: str, directory: Path) -> list[Body]:
        """Register it; applicants whom it refuses."""
        rows = np.random.default_rng(0).uniform(0.0, 10_000.0, size=(400, len(self.features))).round(2)
        manifest = {
            "id": "waiting", "version": "1", "title": "A model that takes its time", "input": "raw",
            "output": "probability", "favourable": 1, "threshold": 0.5, "reference": "reference.csv",
            "encoding": {"continuous": "standard"},
            "artifact": {
                "format": "http", "protocol": "oip-v2", "url": f"{address}/v2/models/credit/infer",
                "output_name": "probabilities", "column": 1, "timeout_s": 60, "max_calls": 100,
            },
            "features": [
                {"name": name, "type": "continuous", "min": 0, "max": 10_000, "decimals": 2} for name in self.features
            ],
        }  # fmt: skip
        lines = [",".join(self.features), *(",".join(map(str, row)) for row in rows.tolist())]
        (directory / "reference.csv").write_text("\n".join(lines))
        (directory / "model.yaml").write_text(yaml.safe_dump(manifest))
        registry.register(directory)
        scores = self(dict(zip(self.features, rows.T.tolist(), strict=True)))[:, 1]
        return [
            {"applicant": dict(zip(self.features, row, strict=True))} for row in rows[scores < 0.4].tolist()
        ]  # fmt: skip


def _waiting() -> Iterator[tuple[str, ...]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model, store, source = _Waiting(), folder / "store", folder / "source"
        source.mkdir()
        address = stack.enter_context(serving(dict.fromkeys(model.features, "FP64"), model))
        hosts = f"{address}=127.0.0.1"
        refused = model.register(Registry(store, Trust(hosts=(RemoteHost.parse(hosts),))), address, source)
        shared = {
            "RECOURSE_DATABASE_URL": stack.enter_context(database()), "RECOURSE_LANES_BOUNDS": "1",
            "RECOURSE_REMOTE_HOSTS": hosts,
        }  # fmt: skip
        url = stack.enter_context(server(store, **shared, RECOURSE_RUN_JOBS="false", RECOURSE_LANES_SYNC="1"))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=60))
        pids: list[int] = []
        first = 0.0
        kept = shared["RECOURSE_DATABASE_URL"]
        for workers in WORKERS:
            if pids and _connections(kept) * workers / len(pids) > _allowed(kept):
                print(f"No row of {workers} workers: PostgreSQL allows too few connections (max_connections).")
                return
            while len(pids) < workers:
                pids.append(stack.enter_context(worker(store, shared)).pid)
            model.seconds = WARM_S
            for _ in _until(lambda: all(descendants(pid)[0] for pid in pids), "a worker took no part"):
                _ask(client, refused, 40 * workers)
            model.seconds = WAIT_S
            spent = _spent(pids)
            seconds = _ask(client, refused, EACH * workers)
            rate = EACH * workers / seconds
            first = first or rate
            yield (
                f"{workers}", f"{rate:.2f}", f"{rate / first:.2f}", f"{rate / first / workers:.2f}",
                f"{(_spent(pids) - spent) / seconds:.2f}", f"{_connections(kept)}",
                f"{np.mean([sum(memory_mb(each)[0] for each in _all(pid)) for pid in pids]):.0f}",
            )  # fmt: skip


def _ask(client: httpx.Client, refused: list[Body], number: int) -> float:
    """Seconds for a batch of so many applicants, each of whom gets an answer."""
    applicants = [refused[i % len(refused)] for i in range(number)]
    seconds, lines = run_batch(client, "waiting", applicants, method=METHOD, deadline_ms=60_000)
    found = [json.loads(line).get("status") for line in lines]
    assert found == ["found"] * number, lines[found.index(next(one for one in found if one != "found"))]
    return seconds


def _until(condition: Callable[[], bool], otherwise: str) -> Iterator[int]:
    """Counts until a condition holds, at least once."""
    for attempt in count():
        yield attempt
        if condition():
            return
        if attempt == 20:
            raise RuntimeError(otherwise)


def _all(pid: int) -> list[int]:
    return [pid, *(each for some in descendants(pid) for each in some)]


def _spent(pids: list[int]) -> float:
    """Processor time of workers with their children."""
    return sum(cpu_s(each) for pid in pids for each in _all(pid))


def _connections(address: str) -> int:
    """Connections to a database, without this one."""
    return _number(address, "select count(*) - 1 from pg_stat_activity where datname = current_database()")


def _allowed(address: str) -> int:
    """Connections that the server of a database still allows, with those to the database itself."""
    return _number(
        address,
        "select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        " - count(*) from pg_stat_activity where datname is distinct from current_database()",
    )


def _number(address: str, query: str) -> int:
    import psycopg

    with psycopg.connect(address) as connection:
        (found,) = connection.execute(query).fetchone() or (0,)
    return int(found)


# --- the ledger ------------------------------------------------------------------------------------------------------


def _appending() -> Iterator[tuple[str, ...]]:
    for writers in WRITERS:
        cells = []
        for size in RECORDS:
            with database() as address:
                engine = open_engine(address)
                upgrade(engine)
                appends = _by_writers(address, writers, size)
                proof = Ledger(engine).prove()
                assert proof.broken is None
                assert proof.entries == appends * size
                engine.dispose()
            each = f"{appends / APPEND_S:.0f}"
            cells.append(each if size == 1 else f"{each}, {appends * size / APPEND_S:.0f}")
        yield (f"{writers}", *cells)


def _by_writers(address: str, writers: int, size: int) -> int:
    """Appends of all writers, each in a process of its own, which all begin at the same time."""
    command = [sys.executable, "-m", "benchmarks.ledger_writer", address, str(size), str(APPEND_S)]
    with ExitStack() as stack:
        running = [stack.enter_context(_writer([*command, f"w{k}"])) for k in range(writers)]
        for one in running:
            assert one.stdout is not None
            one.stdout.readline()
        for one in running:
            assert one.stdin is not None
            one.stdin.close()
        return sum(int(one.stdout.readline()) for one in running if one.stdout is not None)


@contextmanager
def _writer(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        yield process
