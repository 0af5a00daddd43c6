"""Servers that compute jobs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.jobs.serving import Server, database, postgres_missing

Start = Callable[..., Server]


@pytest.fixture(params=["sqlite", "postgres"])
def start(request: pytest.FixtureRequest, models_store: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on one database; they are ended afterwards."""
    settings = {
        "RECOURSE_MODELS_STORE": str(models_store), "RECOURSE_TRUST_PICKLE": "true", "RECOURSE_LANES_SYNC": "1",
        "RECOURSE_LANES_BOUNDS": "1", "RECOURSE_STATE_DIR": str(tmp_path / "state"),
    }  # fmt: skip
    with ExitStack() as stack:
        if request.param == "postgres":
            if missing := postgres_missing():
                pytest.skip(missing)
            settings["RECOURSE_DATABASE_URL"] = stack.enter_context(database())

        def started(**more: str) -> Server:
            server = Server(tmp_path, settings | more)
            stack.callback(server.end)
            return server

        yield started


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.touch()
    return path
