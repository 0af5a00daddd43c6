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
