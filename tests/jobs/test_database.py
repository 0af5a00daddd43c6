"""Where jobs are kept."""

import os
import sqlite3
from pathlib import Path

import pytest

from app.errors import NotReady, StateUnusable
from app.jobs.database import Claim, database_url, open_engine
from app.jobs.state import require_state
from app.settings import Settings


def test_the_directory_is_made_and_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    url = database_url(Settings(state_dir=tmp_path / "a" / "b"))
    assert url == f"sqlite:///{tmp_path}/a/b/jobs.sqlite"
    with sqlite3.connect(tmp_path / "a" / "b" / "jobs.sqlite") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusable, match=r"RECOURSE_STATE_DIR.*/file/state: Not a directory"):
        require_state(Settings(state_dir=tmp_path / "file" / "state"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StateUnusable, match="RECOURSE_STATE_DIR"):
        require_state(Settings(state_dir=tmp_path))


def test_a_database_elsewhere_needs_no_directory(tmp_path: Path) -> None:
    settings = Settings.model_validate({"state_dir": tmp_path / "state", "database_url": "postgresql://h/n"})
    require_state(settings)
    assert not (tmp_path / "state").exists()
    assert database_url(settings) == "postgresql://h/n"


def test_only_one_process_computes_the_jobs_of_a_directory(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    engine = open_engine(database_url(settings))
    claim = Claim(engine, settings)
    with pytest.raises(NotReady, match="RECOURSE_STATE_DIR"):
        Claim(engine, settings)
    claim.release()
    Claim(engine, settings).release()
    engine.dispose()
