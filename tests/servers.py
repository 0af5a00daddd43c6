"""Servers that compute jobs. A server of a test's own takes seconds to start: such tests are `slow`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
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


DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.release)]
"""The tables' own tests (`tests/ledger`, `tests/jobs/test_records.py`) try both each time; so do tests `on_both`."""

on_sqlite = pytest.mark.parametrize("start", ["sqlite"], indirect=True)
"""For servers of a test's own, where another test shows that PostgreSQL does the same."""

on_both = pytest.mark.parametrize("start", ["sqlite", "postgres"], indirect=True)
"""For servers of a test's own that die or meet at one database, where its locks and notices decide."""


@pytest.fixture(params=DATABASES)
def start(request: pytest.FixtureRequest, loan_store: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on a database of this test's own."""
    with starting(request.param, loan_store, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_servers(loan_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """The one server of each kind of database for the tests of a file, which starts when a test first asks for it."""
    with ExitStack() as stack:

        @cache
        def of(kind: str) -> Server:
            return stack.enter_context(starting(kind, loan_store, tmp_path_factory.mktemp("server")))().ready()

        yield of


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, shared_servers: Callable[[str], Server]) -> Server:
    """A server for all tests; what they leave behind must not be in the way of the next one."""
    return shared_servers(request.param)


@pytest.fixture(scope="module")
def odd_server(models_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the model that misbehaves, which no database sees."""
    with starting("sqlite", models_store, tmp_path_factory.mktemp("server")) as start:
        yield start().ready()


@pytest.fixture
def address() -> Iterator[str]:
    """A PostgreSQL database."""
    if missing := postgres_missing():
        pytest.skip(missing)
    with database() as address:
        yield address


@pytest.fixture
def cluster(address: str, loan_store: Path, tmp_path: Path, ledger: Path) -> Iterator[tuple[Server, StartWorker]]:
    """A server that answers requests and computes no jobs, and a way to start workers."""
    settings = {
        "RECOURSE_MODELS_STORE": str(loan_store), "RECOURSE_LANES_SYNC": "1",
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


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    return path
