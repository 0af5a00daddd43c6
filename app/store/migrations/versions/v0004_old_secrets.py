"""The previous secret of a renewed key, and the time until which it is still accepted."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns `old_digest` and `old_until` to `api_keys`."""
    op.add_column("api_keys", sa.Column("old_digest", sa.String(64)))
    op.add_column("api_keys", sa.Column("old_until", sa.String(24)))
