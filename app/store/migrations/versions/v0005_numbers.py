"""Entries are numbered from 1: a row with another number is refused."""

from alembic import op

revision = "0005"
down_revision = "0004"

RULE = "ledger_entries_number"

TRIGGER = """
CREATE TRIGGER ledger_entries_number_EVENT BEFORE EVENT ON ledger_entries
WHEN typeof(NEW.number) <> 'integer' OR NEW.number < 1
BEGIN SELECT RAISE(ABORT, 'entries of the ledger are numbered from 1'); END
"""


def upgrade() -> None:
    """Let the database refuse new entries whose number is below 1; existing entries stay, for `Ledger.prove` to report.

    SQLite can add a CHECK only by copying the table, and a ledger may be large: here, triggers refuse the same rows.
    """
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE ledger_entries ADD CONSTRAINT {RULE} CHECK (number >= 1) NOT VALID")
        if not op.get_bind().exec_driver_sql("SELECT 1 FROM ledger_entries WHERE number < 1").first():
            op.execute(f"ALTER TABLE ledger_entries VALIDATE CONSTRAINT {RULE}")
        return
    for event in ("insert", "update"):
        op.execute(TRIGGER.replace("EVENT", event))
