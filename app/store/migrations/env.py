"""Run by Alembic for `app.store.migrate.upgrade`, which passes a connection in a transaction."""

from alembic import context

from app.store.migrate import VERSIONS
from app.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSIONS,
)
context.run_migrations()
