"""The ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables `ledger_entries` (the hash chain) and `ledger_particulars` (personal data)."""
    op.create_table(
        "ledger_entries",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("at", sa.String(24), nullable=False),
        sa.Column("expires_at", sa.String(24)),
        sa.Column("model", sa.String(200)),
        sa.Column("version", sa.String(200)),
        sa.Column("sha256", sa.String(64)),
        sa.Column("status", sa.String(20)),
        sa.Column("digest", sa.String(64)),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.UniqueConstraint("id", "kind", name="ledger_entries_id_kind"),
    )
    op.create_index("ledger_entries_model", "ledger_entries", ["model", "number"])
    op.create_table(
        "ledger_particulars",
        sa.Column(
            "number", sa.BigInteger, sa.ForeignKey("ledger_entries.number"), primary_key=True, autoincrement=False
        ),
        sa.Column("salt", sa.LargeBinary(32), nullable=False),
        sa.Column("reference", sa.Text),
        sa.Column("job", sa.String(40)),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
    )
    op.create_index("ledger_particulars_reference", "ledger_particulars", ["reference", "number"])
