"""The directory of the service's own files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import StateUnusable
from app.settings import Settings


def require_state(settings: Settings) -> None:
    """Create the state directory, unless PostgreSQL is used.

    Raises `StateUnusable` if the directory cannot be created or written.
    """
    if settings.database_url is not None:
        return
    directory = settings.state_dir.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateUnusable(f"{StateUnusable.__doc__} {directory}: {error.strerror}.") from None
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise StateUnusable(f"{StateUnusable.__doc__} {directory}")


def spool_directory(settings: Settings) -> Path | None:
    """The directory for large temporary files; None for the temporary directory of the system.

    If the databases are files, it is the state directory, which is on a disk; a temporary directory may be in memory.
    """
    return settings.state_dir if settings.database_url is None else None


@contextmanager
def spooling(directory: Path | None) -> Iterator[None]:
    """Context for writing a temporary file: raises `StateUnusable`, which names the directory, if writing fails."""
    try:
        yield
    except (ConnectionError, TimeoutError):  # `OSError` as well, but of what the file is written from
        raise
    except OSError as error:
        raise StateUnusable(f"{directory or tempfile.gettempdir()} cannot be written: {error.strerror}.") from None
