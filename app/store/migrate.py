"""Migrates the tables of a database to those of this release."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.errors import LedgerUnavailable
from app.ledger.ledger import FILE
from app.settings import Settings
from app.store.engine import database_url, open_engine, writing
from app.store.state import require_state

VERSIONS = "ledger_version"
"""Alembic's version table; DBOS has tables of its own in the same database."""


NEWER = "The tables of the ledger are those of a newer release: start that one, or restore a backup from before it."


@contextmanager
def as_it_is(settings: Settings) -> Iterator[sa.Engine]:
    """Context with the engine of the ledger's database, without migrating it. Raises `StateUnusable`."""
    require_state(settings)
    engine = open_engine(database_url(settings, FILE))
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def opened(settings: Settings) -> Iterator[sa.Engine]:
    """Context with the engine of the ledger's database, which is migrated to this release.

    Raises
    ------
    StateUnusable : the directory of the database cannot be written
    LedgerUnavailable : a newer release has migrated the database
    """
    with as_it_is(settings) as engine:
        upgrade(engine)
        yield engine


def upgrade(engine: sa.Engine) -> tuple[str | None, str | None]:
    """Migrate the tables to the newest revision, and return two revisions: before and after.

    Concurrent callers wait for the first. Raises `LedgerUnavailable` where a newer release has migrated the tables.
    """
    config = Config()
    config.set_main_option("script_location", str(files("app.store") / "migrations"))
    with writing(engine) as connection:
        # In one transaction, so that a migration is done as a whole or not at all.
        config.attributes["connection"] = connection
        before = _revision(connection)
        if before not in {None, *(one.revision for one in ScriptDirectory.from_config(config).walk_revisions())}:
            raise LedgerUnavailable(NEWER)
        command.upgrade(config, "head")
        return before, _revision(connection)


def _revision(connection: sa.Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSIONS})
    return context.get_current_revision()
