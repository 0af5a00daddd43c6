"""Where jobs are kept."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.errors import NotReady
from app.jobs.database import FILE
from app.jobs.slots import Claim, processes
from app.settings import Settings
from app.store.engine import database_url, open_engine
from tests.conftest import until
from tests.jobs.serving import database, postgres_missing


def test_only_one_process_computes_the_jobs_of_a_directory(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    engine = open_engine(database_url(settings, FILE))
    claim = Claim(engine, settings)
    with pytest.raises(NotReady, match="RECOURSE_STATE_DIR"):
        Claim(engine, settings)
    claim.release()
    Claim(engine, settings).release()
    engine.dispose()


def test_what_a_process_is_called_does_not_strand_the_jobs_of_a_directory(tmp_path: Path) -> None:
    engine = open_engine(database_url(Settings(state_dir=tmp_path), FILE))
    held = []
    for name in ("one", None, "two"):
        claim = Claim(engine, Settings(state_dir=tmp_path, executor_id=name))
        held.append(claim.executor_id)
        claim.release()
    assert len(set(held)) == 1
    engine.dispose()


@pytest.mark.skipif(bool(postgres_missing()), reason=postgres_missing())
def test_the_processes_that_compute_jobs_are_counted() -> None:
    with database() as one, database() as another:
        engines = [open_engine(database_url(Settings(database_url=SecretStr(url)), FILE)) for url in (one, another)]
        settings = Settings(database_url=SecretStr(one))
        assert processes(engines[0]) == 0
        claims = [Claim(engines[0], settings) for _ in range(3)]
        elsewhere = Claim(engines[1], settings)
        assert processes(engines[0]) == 3
        assert processes(engines[1]) == 1
        claims.pop().release()
        # PostgreSQL ends a session a moment after its connection is closed.
        until(lambda: processes(engines[0]) == 2)
        for claim in (*claims, elsewhere):
            claim.release()
        for engine in engines:
            engine.dispose()
