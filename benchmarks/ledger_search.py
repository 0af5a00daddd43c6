"""``python -m benchmarks.ledger_search ADDRESS ROWS [--plans]``: how long searches of a large ledger take.

ADDRESS is that of an empty PostgreSQL database, which is filled with made answers the first time: four models, of which
`old` was asked long ago, `boat` seldom, and `card` always finds something; the oldest twentieth is erased.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import sqlalchemy as sa

from app.ledger.ledger import Ledger
from app.store.engine import open_engine
from app.store.migrate import upgrade
from app.store.tables import checks, entries, personal_data

BEGAN = datetime(2028, 1, 1, tzinfo=UTC)

MINUTES = 365 * 24 * 60
"""Over which the answers are spread."""

MODEL = """CASE WHEN n % 1000 = 0 THEN 'boat' WHEN n <= {rows} / 10 THEN 'old' WHEN n % 3 = 0 THEN 'card'
    ELSE 'loan' END"""

STATUS = """CASE WHEN n % 1000 = 0 OR n % 3 = 0 OR n % 20 < 17 THEN 'found' WHEN n % 20 < 19 THEN 'not_found'
    ELSE 'already_favourable' END"""

AT = """to_char(timestamp '2028-01-01' + interval '1 minute' * ({minutes}.0::float8 * n / {rows}),
    'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""

FILL = [
    f"""INSERT INTO ledger_entries (number, kind, id, at, expires_at, model, version, sha256, status, digest, key, hash)
    SELECT n, 'given', 'rec_' || lpad(n::text, 26, '0'), {AT}, '2029-06-01T00:00:00.000Z', {MODEL},
    (1 + n * 4 / {{rows}})::text, repeat('a', 64), {STATUS}, md5(n::text) || md5(n::text),
    'key' || n % 7, md5(n::text) || md5((-n)::text) FROM generate_series(1, {{rows}}::bigint) n""",
    """INSERT INTO ledger_particulars (number, salt, reference, job, request, answer)
    SELECT n, decode(md5(n::text), 'hex'), 'case ' || n / 2, NULL, decode(repeat('61', 100), 'hex'),
    decode(repeat('61', 100), 'hex') FROM generate_series({rows} / 20 + 1, {rows}::bigint) n""",
    """INSERT INTO ledger_entries (number, kind, id, at, status, hash)
    SELECT n + {rows}, 'erased', 'rec_' || lpad(n::text, 26, '0'), '2029-01-01T00:00:00.000Z', 'retention',
    md5(n::text) || md5((-n)::text) FROM generate_series(1, {rows}::bigint / 20) n""",
    """INSERT INTO ledger_checks (number, model, version, at, kept)
    SELECT number, model, '5', '2029-01-01T00:00:00.000Z', number % 1000 = 0 OR number % 50 <> 1
    FROM ledger_entries JOIN ledger_particulars USING (number)
    WHERE status = 'found' AND number <= {rows} / 10 * 6""",
]
"""Without a chain that holds: nothing here proves it."""

TIMES = 5


def searches(rows: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Filters, the empty and the far ones among them, and their names."""
    day = timedelta(days=1)
    singles: list[dict[str, Any]] = [
        {},
        *({"model": model} for model in ("loan", "boat", "old", "none")),
        *({"status": status} for status in ("found", "not_found")),
        *({"kept": kept} for kept in (True, False)),
        {"reference": f"case {rows // 4}"},
        {"since": BEGAN + 364 * day},
        {"until": BEGAN + 30 * day},
        {"since": BEGAN + 100 * day, "until": BEGAN + 101 * day},
    ]
    pairs: list[dict[str, Any]] = [
        {"model": "loan", "version": "1"},
        {"model": "loan", "version": "9"},
        {"model": "card", "status": "not_found"},
        {"model": "loan", "status": "not_found"},
        {"model": "old", "status": "already_favourable"},
        {"model": "loan", "version": "1", "status": "not_found"},
        {"model": "card", "version": "2", "status": "not_found"},
        {"model": "boat", "kept": False},
        {"model": "loan", "kept": False},
        {"model": "card", "kept": True},
        {"model": "loan", "version": "1", "kept": False},
        {"model": "loan", "version": "4", "kept": False},
        {"status": "not_found", "kept": False},
        {"model": "loan", "until": BEGAN + 60 * day},
        {"model": "card", "status": "not_found", "until": BEGAN + 60 * day},
        {"model": "loan", "kept": False, "until": BEGAN + 60 * day},
        {"kept": False, "since": BEGAN + 300 * day},
        {"reference": f"case {rows // 4}", "status": "not_found"},
        {"key": "key3"},
        {"key": "key3", "status": "not_found"},
        {"key": "key3", "models": {"boat", "old"}},
        {"models": {"boat"}, "status": "not_found"},
        {"key": "key3", "kept": False},
        {"model": "loan", "before": f"rec_{rows // 2:026}"},
        {"kept": False, "before": f"rec_{rows // 2:026}"},
    ]
    for one in singles + pairs:
        yield ", ".join(f"{name}={_short(value)}" for name, value in one.items()) or "all", one


def _short(value: Any) -> str:
    return f"{value:%m-%d}" if isinstance(value, datetime) else str(value)


def fill(engine: sa.Engine, rows: int) -> None:
    """Fill the tables; their indexes are made afterwards, which takes a fifth of the time."""
    indexes = [index for table in (entries, personal_data, checks) for index in table.indexes]
    with engine.begin() as connection:
        for index in indexes:
            index.drop(connection)
        for statement in FILL:
            connection.exec_driver_sql(statement.format(rows=rows, minutes=MINUTES).replace("%", "%%"))
        for index in indexes:
            index.create(connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


@contextmanager
def explained(engine: sa.Engine) -> Iterator[list[str]]:
    """Collects the plan of each query."""
    plans: list[str] = []

    def explain(_connection: sa.Connection, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {statement}", parameters)
        plans.append("\n".join(row[0] for row in cursor.fetchall()))

    sa.event.listen(engine, "before_cursor_execute", explain)
    yield plans
    sa.event.remove(engine, "before_cursor_execute", explain)


def main() -> None:
    """Print the median and slowest time of each search, of the page of 51 that the route asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("rows", type=int)
    parser.add_argument("--plans", action="store_true")
    asked = parser.parse_args()
    engine = open_engine(asked.address)
    upgrade(engine)
    ledger = Ledger(engine)
    if ledger.newest_at() is None:
        began = time.monotonic()
        fill(engine, asked.rows)
        print(f"filled in {time.monotonic() - began:.0f} s")
    for name, which in searches(asked.rows):
        took = []
        for _ in range(TIMES):
            began = time.perf_counter()
            found = ledger.newest(51, **which)
            took.append(1000.0 * (time.perf_counter() - began))
        print(f"| {name} | {len(found)} | {median(took):.1f} | {max(took):.1f} |", flush=True)
        if asked.plans:
            with explained(engine) as plans:
                ledger.newest(51, **which)
            print("\n".join(plans))


if __name__ == "__main__":
    main()
