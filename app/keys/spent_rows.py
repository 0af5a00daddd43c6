"""How many records the models were asked about for each API key, by day (UTC). Blocks; not for an event loop.

Errors of the database are SQLAlchemy's `DBAPIError`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from app.store.engine import changing
from app.store.tables import spent_rows

Spent = tuple[str, str]
"""A key's id and a day, such as 2026-03-01."""

KEPT_DAYS = 30
"""Days of which the numbers are kept, so that an operator can see who asked how much."""


class SpentRows:
    """Stored numbers of records that models were asked about, by key and day.

    Several threads, processes and machines may use the database at once.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._insert = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    def spend(self, rows: Mapping[Spent, int]) -> dict[Spent, int]:
        """Add `rows` to the stored numbers of records, and return the sums.

        Numbers and sums are by pairs of the key's id and the day.
        """
        totals = {}
        with changing(self._engine) as connection:
            # In one order, so that two writers never wait for each other.
            for (key, day), count in sorted(rows.items()):
                added = self._insert(spent_rows).values(key=key, day=day, rows=count)
                total = {"rows": spent_rows.c.rows + count}
                query = added.on_conflict_do_update(index_elements=["key", "day"], set_=total)
                totals[key, day] = int(connection.scalar(query.returning(spent_rows.c.rows)) or 0)
        return totals

    def spent(self, key: str, day: str) -> int:
        """Number of records that models were asked about for a key on one day; `day` has the form 2030-01-31."""
        query = sa.select(spent_rows.c.rows).where(spent_rows.c.key == key, spent_rows.c.day == day)
        with self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def forget(self, now: datetime) -> None:
        """Delete the numbers of days that are more than `KEPT_DAYS` days before `now`."""
        before = (now - timedelta(days=KEPT_DAYS)).date().isoformat()
        with changing(self._engine) as connection:
            connection.execute(sa.delete(spent_rows).where(spent_rows.c.day < before))
