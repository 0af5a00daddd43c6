"""What the last check of each promise found; recourse is found by model and status."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

INDEXES = {
    "ledger_entries_model_status": ["ledger_entries", "model", "status", "number"],
    "ledger_checks_kept": ["ledger_checks", "kept", "number"],
    "ledger_checks_model": ["ledger_checks", "model", "kept", "number"],
}


def upgrade() -> None:
    """Create the table `ledger_checks` and its indexes; a check is deleted with the personal data of its recourse."""
    op.create_table(
        "ledger_checks",
        sa.Column(
            "number",
            sa.BigInteger,
            sa.ForeignKey("ledger_particulars.number", ondelete="CASCADE"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("at", sa.String(24), nullable=False),
        sa.Column("kept", sa.Boolean, nullable=False),
        if_not_exists=True,
    )
    for name, (table, *columns) in INDEXES.items():
        op.create_index(name, table, columns, if_not_exists=True)
