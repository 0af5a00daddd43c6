"""Where jobs are kept."""

from pathlib import Path

import pytest

from app.errors import NotReady
from app.jobs.database import FILE, Claim
from app.settings import Settings
from app.store.engine import database_url, open_engine


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
