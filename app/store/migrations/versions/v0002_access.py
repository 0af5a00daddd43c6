"""API keys, and answers that are kept for their idempotency key."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables `api_keys` and `idempotent_answers`."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("scopes", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(24), nullable=False),
        sa.Column("revoked_at", sa.String(24)),
    )
    op.create_table(
        "idempotent_answers",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("ids", sa.String(40), nullable=False),
        sa.Column("attempt", sa.String(32), nullable=False),
        sa.Column("until", sa.String(24), nullable=False),
        sa.Column("recourse", sa.String(40)),
        sa.Column("status", sa.SmallInteger),
        sa.Column("headers", sa.Text),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("idempotent_answers_until", "idempotent_answers", ["until"])
    op.create_index("idempotent_answers_recourse", "idempotent_answers", ["recourse"])
