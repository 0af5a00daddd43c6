"""The directory of the service's own files."""

import os

from app.errors import StateUnusable
from app.settings import Settings


def require_state(settings: Settings) -> None:
    """Create the state directory, unless PostgreSQL is used. Raises `StateUnusable` if that cannot be written."""
    if settings.database_url is not None:
        return
    directory = settings.state_dir.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateUnusable(f"{StateUnusable.__doc__} {directory}: {error.strerror}.") from None
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise StateUnusable(f"{StateUnusable.__doc__} {directory}")
