"""The database of the ledger and of the keys, as commands open it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.cli.common import CommandError, read_settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from app.ledger.ledger import Ledger


@contextmanager
def open_ledger() -> "Iterator[Ledger]":
    """Context with the ledger, which has to exist and is migrated to this release.

    Raises `CommandError` if there is no ledger or it cannot be used.
    """
    from app.ledger.ledger import FILE, Ledger

    settings = read_settings()
    file = settings.state_dir.absolute() / FILE
    if settings.database_url is None and not file.exists():
        raise CommandError(f"There is no ledger at {file}; RECOURSE_STATE_DIR names its directory.")
    with open_store() as engine:
        yield Ledger(engine)


@contextmanager
def open_store() -> "Iterator[Engine]":
    """Context with the engine of the database of ledger and keys, migrated to this release. Raises `CommandError`."""
    from app.store.migrate import upgrade as migrate

    with ledger_engine() as engine:
        migrate(engine)
        yield engine


@contextmanager
def ledger_engine() -> "Iterator[Engine]":
    """Context with the engine of the database of ledger and keys, which is not migrated.

    Errors of the database are raised as `CommandError`.
    """
    settings = read_settings()
    import sqlalchemy as sa

    from app.store.migrate import as_it_is

    try:
        with as_it_is(settings) as engine:
            yield engine
    except sa.exc.DBAPIError as error:
        raise CommandError(f"The ledger cannot be used: {error.orig}") from error
