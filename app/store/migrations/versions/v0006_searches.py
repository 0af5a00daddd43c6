"""Recourse is found by status, by version and by time."""

from alembic import op

revision = "0006"
down_revision = "0005"

INDEXES = {
    "ledger_entries_version": ["model", "version", "number"],
    "ledger_entries_status": ["status", "number"],
    "ledger_entries_at": ["at", "number"],
}


def upgrade() -> None:
    """Add indexes of `ledger_entries` by version, status and time."""
    for name, columns in INDEXES.items():
        op.create_index(name, "ledger_entries", columns, if_not_exists=True)
