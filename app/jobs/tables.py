"""The tables of the jobs, in the database of DBOS: what a job is, its parts, and the processes that compute them."""

import sqlalchemy as sa

FILE = "jobs.sqlite"

metadata = sa.MetaData()

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("status", sa.String(10), nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    # Time to compute a single job. A batch has none: each of its rows has the payload's.
    sa.Column("timeout_s", sa.Float),
    sa.Column("parts", sa.Integer, nullable=False),
    # Parts that are not finished.
    sa.Column("remaining", sa.Integer, nullable=False),
    sa.Column("done", sa.Integer, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    # Rows of a batch without an answer, so far.
    sa.Column("refused", sa.Integer, nullable=False),
    # Times are milliseconds since 1970.
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("finished_at", sa.BigInteger),
    sa.Column("error", sa.Text),
    sa.Column("request_id", sa.Text),
    sa.Column("about", sa.Text, index=True),
    sa.Column("key", sa.String(40)),
    sa.Column("model", sa.Text),
    sa.Column("detail", sa.String(10), nullable=False),
    # Of the model; null for jobs of the release before.
    sa.Column("version", sa.Text),
    sa.Index("jobs_model", "model", "id"),
    sa.Index("jobs_model_kind", "model", "kind", "id"),
    sa.Index("jobs_kind", "kind", "id"),
    sa.Index("jobs_status", "status", "id"),
    sa.Index("jobs_created", "created_at"),
)

parts = sa.Table(
    "job_parts",
    metadata,
    sa.Column("job", sa.String(40), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    # Position of the first row in the batch, and number of rows.
    sa.Column("first", sa.Integer, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    # Null once the part is finished: its results are stored and recorded.
    sa.Column("rows", sa.Text),
    # A line of JSON for each row, or the result of a single job; null until they are computed.
    sa.Column("lines", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False),
)

workers = sa.Table(
    "job_workers",
    metadata,
    sa.Column("id", sa.String(100), primary_key=True),
    # Of the one process that computes under this name.
    sa.Column("process", sa.String(32), nullable=False),
    # Whether an operator gave it the name; then nobody else takes over what it had begun.
    sa.Column("named", sa.Boolean, nullable=False),
    # When it last said that it runs: seconds since 1970, by the clock of the database.
    sa.Column("seen_s", sa.Float, nullable=False),
)
