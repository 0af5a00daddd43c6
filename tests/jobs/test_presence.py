"""Which processes compute jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.errors import NotReady
from app.jobs.database import migrate
from app.jobs.presence import FORGOTTEN_S, SILENT_S, Presence, count
from app.jobs.tables import FILE, workers
from app.settings import Settings
from app.store.engine import database_url, open_engine, writing
from tests.jobs.serving import database, postgres_missing


def engine_of(settings: Settings) -> sa.Engine:
    url = database_url(settings, FILE)
    migrate(url)
    return open_engine(url)


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    if missing := postgres_missing():
        pytest.skip(missing)
    with database() as url:
        yield Settings.model_validate({"state_dir": tmp_path, "database_url": url})


def begun(engine: sa.Engine, settings: Settings, name: str | None = None) -> Presence:
    found = Presence(engine, settings.model_copy(update={"executor_id": name}))
    found.begin()
    return found


def silence(engine: sa.Engine, presence: Presence, seconds: float) -> None:
    """As if it had said nothing for so long."""
    with writing(engine) as connection:
        values = {"seen_s": workers.c.seen_s - seconds}
        connection.execute(sa.update(workers).where(workers.c.id == presence.executor_id).values(values))


def test_only_one_process_computes_the_jobs_of_a_directory(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    engine = engine_of(settings)
    one = begun(engine, settings)
    with pytest.raises(NotReady, match="RECOURSE_STATE_DIR"):
        Presence(engine, settings)
    one.end()
    begun(engine, settings).end()
    engine.dispose()


def test_what_a_process_is_called_does_not_strand_the_jobs_of_a_directory(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    engine = engine_of(settings)
    held = []
    for name in ("one", None, "two"):
        presence = begun(engine, settings, name)
        held.append(presence.executor_id)
        presence.end()
    assert len(set(held)) == 1
    engine.dispose()


def test_a_killed_process_of_a_directory_is_followed_at_once(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    engine = engine_of(settings)
    killed = begun(engine, settings)
    assert killed._lock is not None
    killed._lock.close()  # as the kernel does
    begun(engine, settings).end()
    engine.dispose()


def test_the_processes_that_compute_jobs_are_counted(settings: Settings) -> None:
    engine = engine_of(settings)
    assert count(engine) == 0
    one, two, named = begun(engine, settings), begun(engine, settings), begun(engine, settings, "named")
    assert count(engine) == 3
    one.end()
    named.end()
    assert count(engine) == 1
    silence(engine, two, SILENT_S + 1.0)
    assert count(engine) == 0
    assert two.beat()
    assert count(engine) == 1
    engine.dispose()


def test_a_name_is_held_by_one_process(settings: Settings) -> None:
    engine = engine_of(settings)
    one = begun(engine, settings, "one")
    with pytest.raises(NotReady, match="RECOURSE_EXECUTOR_ID"):
        begun(engine, settings, "one")
    assert one.beat()
    silence(engine, one, SILENT_S + 1.0)
    other = begun(engine, settings, "one")
    assert not one.beat(), "it was silent for too long, and has to open again"
    one.end()
    assert other.beat(), "the name is no longer its own to give up"
    other.end()
    begun(engine, settings, "one").end()
    engine.dispose()


def test_others_finish_what_a_silent_process_had_begun_unless_it_has_a_name_of_its_own(settings: Settings) -> None:
    engine = engine_of(settings)
    first, second, named = begun(engine, settings), begun(engine, settings), begun(engine, settings, "named")
    assert first.spared() == {first.executor_id, second.executor_id, "named"}
    for one in (second, named):
        silence(engine, one, SILENT_S + 1.0)
    assert first.spared() == {first.executor_id, "named"}
    silence(engine, second, FORGOTTEN_S)
    silence(engine, named, FORGOTTEN_S)
    first.beat()
    with engine.connect() as connection:
        assert set(connection.scalars(sa.select(workers.c.id))) == {first.executor_id, "named"}
    first.end()
    assert named.spared() == {"named"}, "who leaves need not be waited for"
    engine.dispose()
