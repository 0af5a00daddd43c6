"""The database of the jobs: its tables, and its file on one machine."""

from app.store.engine import open_engine

FILE = "jobs.sqlite"


def migrate(url: str) -> None:
    """Create or migrate the tables of the jobs. Needs no rights on tables if they are up to date.

    Blocks; errors are SQLAlchemy's `DBAPIError`.
    """
    from dbos import DBOS

    from app.jobs.batch.chunks import Chunks

    DBOS.migrate(url)
    engine = open_engine(url)
    try:
        Chunks(engine).create()
    finally:
        engine.dispose()
