"""Ledgers on databases of their own, of both kinds."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.ledger.ledger import FILE, Ledger
from app.settings import Settings
from app.store.engine import database_url, open_engine
from app.store.migrate import upgrade
from tests.jobs.serving import database, postgres_missing


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield database_url(Settings(state_dir=tmp_path), FILE)
        else:
            if missing := postgres_missing():
                pytest.skip(missing)
            yield stack.enter_context(database())


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """An empty ledger."""
    engine = open_engine(url)
    upgrade(engine)
    yield Ledger(engine)
    engine.dispose()
