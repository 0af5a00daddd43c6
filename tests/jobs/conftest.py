"""Servers that compute jobs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.jobs.serving import Server, Worker, database, postgres_missing

Start = Callable[..., Server]
StartWorker = Callable[[], Worker]


@contextmanager
def starting(kind: str, models_store: Path, directory: Path) -> Iterator[Start]:
    """Starts servers on one database of a kind; they are ended afterwards."""
    settings = {
        "RECOURSE_MODELS_STORE": str(models_store), "RECOURSE_TRUST_PICKLE": "true", "RECOURSE_LANES_SYNC": "1",
        "RECOURSE_LANES_BOUNDS": "1", "RECOURSE_STATE_DIR": str(directory / "state"),
        "RECOURSE_PLAN_BUDGET_MS": "30000",
    }  # fmt: skip
    with ExitStack() as stack:
        if kind == "postgres":
            if missing := postgres_missing():
                pytest.skip(missing)
            settings["RECOURSE_DATABASE_URL"] = stack.enter_context(database())

        def started(**more: str) -> Server:
            server = Server(directory, settings | more)
            stack.callback(server.end)
            return server

        yield started


@pytest.fixture(params=["sqlite", "postgres"])
def start(request: pytest.FixtureRequest, models_store: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on a database of this test's own."""
    with starting(request.param, models_store, tmp_path) as start:
        yield start


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(
    request: pytest.FixtureRequest, models_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that several tests use; what they leave behind must not be in the way of the next one."""
    with starting(request.param, models_store, tmp_path_factory.mktemp("server")) as start:
        yield start().ready()


@pytest.fixture
def address() -> Iterator[str]:
    """A PostgreSQL database."""
    if missing := postgres_missing():
        pytest.skip(missing)
    with database() as address:
        yield address


@pytest.fixture
def cluster(address: str, models_store: Path, tmp_path: Path, ledger: Path) -> Iterator[tuple[Server, StartWorker]]:
    """A server that answers requests and computes no jobs, and a way to start workers."""
    settings = {
        "RECOURSE_MODELS_STORE": str(models_store), "RECOURSE_TRUST_PICKLE": "true", "RECOURSE_LANES_SYNC": "1",
        "RECOURSE_LANES_BOUNDS": "1", "RECOURSE_DATABASE_URL": address, "TEST_LEDGER": str(ledger),
        "RECOURSE_STATE_DIR": str(tmp_path / "state"), "RECOURSE_PLAN_BUDGET_MS": "30000",
    }  # fmt: skip
    with ExitStack() as stack:
        server = Server(tmp_path, {**settings, "RECOURSE_RUN_JOBS": "false"})
        stack.callback(server.end)

        def start() -> Worker:
            worker = Worker(tmp_path, settings)
            stack.callback(worker.end)
            return worker

        yield server.ready(), start


SQLITE_FIRST = ("test_batches.py", "test_ledger.py", "test_promises.py")
"""Many tests over HTTP, of tables whose own tests (tests/store) try both databases each time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `-m`, what takes long is tried on SQLite alone."""
    if config.option.markexpr:
        return
    for item in items:
        if "postgres" in item.name and (item.get_closest_marker("slow") or item.path.name in SQLITE_FIRST):
            reason = "takes long, and is tried on SQLite: `pytest -m 'slow or not slow'` tries PostgreSQL too"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    return path
