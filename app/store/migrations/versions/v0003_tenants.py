"""What a key is limited to, what it has spent, which key asked for a recourse, and what a job has recorded."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns to `api_keys` and `ledger_entries`, add indexes, and create the table `spent_rows`."""
    op.add_column("api_keys", sa.Column("models", sa.Text))
    op.add_column("api_keys", sa.Column("model_rows", sa.BigInteger))
    op.add_column("ledger_entries", sa.Column("key", sa.String(16)))
    op.create_index("ledger_entries_key", "ledger_entries", ["key", "number"])
    op.create_index("ledger_particulars_job", "ledger_particulars", ["job", "number"])
    op.create_table(
        "spent_rows",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
    )
