"""Letters and reviews: entries about a recourse, whose personal data goes with that of the recourse."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ABOUT = "about BIGINT REFERENCES ledger_particulars (number) ON DELETE CASCADE"


def upgrade() -> None:
    """Add a column `about` to two tables.

    The personal data of a letter or review is deleted with that of the recourse that it is about.
    """
    if any(column["name"] == "about" for column in sa.inspect(op.get_bind()).get_columns("ledger_entries")):
        return
    op.add_column("ledger_entries", sa.Column("about", sa.String(40)))
    # As SQL: SQLite takes a reference with a new column only where it stands in the definition of the column.
    op.execute(f"ALTER TABLE ledger_particulars ADD COLUMN {ABOUT}")
    op.execute("CREATE INDEX ledger_particulars_about ON ledger_particulars (about) WHERE about IS NOT NULL")
