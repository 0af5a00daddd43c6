"""The tables of the ledger, API keys, what they have spent, and idempotent answers; `migrations` creates them.

`entries` is the chain: append-only, and without personal data. Erasing a recourse deletes its row of `personal_data`,
with it that of `checks` and those of its letters and reviews, and adds an entry.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

entries = sa.Table(
    "ledger_entries",
    metadata,
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
    # Which key asked: no personal data, kept beyond an erasure, and not covered by the hash.
    sa.Column("key", sa.String(16)),
    # The recourse that a letter or review is about.
    sa.Column("about", sa.String(40)),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("id", "kind", name="ledger_entries_id_kind"),
    # In SQLite two triggers say it: a table gets no CHECK without being copied.
    sa.CheckConstraint("number >= 1", name="ledger_entries_number"),
    sa.Index("ledger_entries_model", "model", "number"),
    sa.Index("ledger_entries_key", "key", "number"),
    sa.Index("ledger_entries_version", "model", "version", "number"),
    sa.Index("ledger_entries_status", "status", "number"),
    sa.Index("ledger_entries_model_status", "model", "status", "number"),
    sa.Index("ledger_entries_at", "at", "number"),
)

# The SQL table keeps its first name: a rename would break servers of the previous release during an upgrade.
personal_data = sa.Table(
    "ledger_particulars",
    metadata,
    sa.Column("number", sa.BigInteger, sa.ForeignKey("ledger_entries.number"), primary_key=True, autoincrement=False),
    sa.Column("salt", sa.LargeBinary(32), nullable=False),
    sa.Column("reference", sa.Text),
    sa.Column("job", sa.String(40)),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    # Of a letter or review: the number of the recourse that it is about, with which it goes.
    sa.Column("about", sa.BigInteger, sa.ForeignKey("ledger_particulars.number", ondelete="CASCADE")),
    sa.Index("ledger_particulars_reference", "reference", "number"),
    sa.Index("ledger_particulars_job", "job", "number"),
    sa.Index(
        "ledger_particulars_about",
        "about",
        sqlite_where=sa.text("about IS NOT NULL"),
        postgresql_where=sa.text("about IS NOT NULL"),
    ),
)

checks = sa.Table(
    "ledger_checks",
    metadata,
    sa.Column(
        "number",
        sa.BigInteger,
        sa.ForeignKey("ledger_particulars.number", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    # Of the promise; here as well, for the index.
    sa.Column("model", sa.String(200), nullable=False),
    # The version that was asked last, and its decision.
    sa.Column("version", sa.String(200), nullable=False),
    sa.Column("at", sa.String(24), nullable=False),
    sa.Column("kept", sa.Boolean, nullable=False),
    sa.Index("ledger_checks_kept", "kept", "number"),
    sa.Index("ledger_checks_model", "model", "kept", "number"),
)

keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("scopes", sa.String(100), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("created_at", sa.String(24), nullable=False),
    sa.Column("revoked_at", sa.String(24)),
    sa.Column("models", sa.Text),
    sa.Column("model_rows", sa.BigInteger),
    sa.Column("old_digest", sa.String(64)),
    sa.Column("old_until", sa.String(24)),
)

spent_rows = sa.Table(
    "spent_rows",
    metadata,
    sa.Column("key", sa.String(16), primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("rows", sa.BigInteger, nullable=False),
)

idempotent_answers = sa.Table(
    "idempotent_answers",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("ids", sa.String(40), nullable=False),
    sa.Column("attempt", sa.String(32), nullable=False),
    sa.Column("until", sa.String(24), nullable=False),
    sa.Column("recourse", sa.String(40)),
    sa.Column("status", sa.SmallInteger),
    sa.Column("headers", sa.Text),
    sa.Column("body", sa.LargeBinary),
    sa.Index("idempotent_answers_until", "until"),
    sa.Index("idempotent_answers_recourse", "recourse"),
)
