"""Whether the ledger can do its work: can be written, has space, and has a sound end of its chain. Blocks."""

import os
from pathlib import Path

import sqlalchemy as sa

from app.errors import LedgerUnavailable, StateUnusable
from app.ledger.chain import FIRST
from app.ledger.rows import is_entry
from app.store.engine import writing
from app.store.migrate import VERSIONS
from app.store.tables import entries

LEAST_FREE = 20_000_000
"""Bytes that must be free in the directory of the state: some thousand answers."""

TAIL = 1000
"""Entries whose hashes are verified at start."""

_REASONS = {
    "SQLITE_FULL": "The disk of the {store} is full.",
    "SQLITE_READONLY": "The {store} is read-only.",
    "SQLITE_CORRUPT": "The file of the {store} is damaged; restore it from a backup.",
    "SQLITE_NOTADB": "The file of the {store} is damaged; restore it from a backup.",
    "SQLITE_IOERR": "The disk of the {store} does not work.",
    "SQLITE_CANTOPEN": "The file of the {store} cannot be opened.",
    "SQLITE_BUSY": "Another process has locked the {store}.",
}
"""By the beginning of SQLite's name for the error."""

_OTHER_TABLES = "The tables of the {store} are not those of this release."

_MISSING = ("no such table", "no such column")
"""How SQLite begins what it says of other tables; it has one name, SQLITE_ERROR, for that and for much else."""

_STATES = {
    "25006": "The {store} is read-only.",
    "42P01": _OTHER_TABLES,
    "42703": _OTHER_TABLES,
    "42501": "The role of the database lacks rights on the tables of the {store}.",
    "53100": "The disk of the {store} is full.",
    "55P03": "Another process has locked the {store}.",
    "XX001": "The tables of the {store} are damaged; restore them from a backup.",
    "XX002": "The tables of the {store} are damaged; restore them from a backup.",
}
"""By PostgreSQL's code for the error. A standby that took the place of the primary is read-only."""

_TOUCH = sa.text(f"UPDATE {VERSIONS} SET version_num = version_num")  # noqa: S608 - our own name


def reason(error: BaseException, store: str = "ledger", unknown: str = LedgerUnavailable.__doc__ or "") -> str:
    """The sentence that says why a database fails; `unknown` where the reason is not known.

    The sentence has no text of the driver, since that text may hold applicant data.

    Parameters
    ----------
    store : what the database is called in the sentence, such as `ledger`
    """
    if isinstance(error, LedgerUnavailable):
        return error.detail
    if isinstance(error, StateUnusable):
        return StateUnusable.__doc__ or ""
    driver = getattr(error, "orig", None)
    name = getattr(driver, "sqlite_errorname", None) or ""
    known = [sentence for prefix, sentence in _REASONS.items() if name.startswith(prefix)]
    known += [_OTHER_TABLES] if name == "SQLITE_ERROR" and str(driver).startswith(_MISSING) else []
    known += [sentence for code, sentence in _STATES.items() if getattr(driver, "sqlstate", None) == code]
    return known[0].format(store=store) if known else unknown


def refusal(error: BaseException) -> str | None:
    """The text with which a database refused a connection, for the log; None for an error of a statement.

    The text names host, user and database. An error of a statement is left out, since its text may hold applicant data.
    """
    if not isinstance(error, sa.exc.DBAPIError) or error.statement is not None or getattr(error.orig, "sqlstate", None):
        return None
    return " ".join(str(error.orig).split())


def try_write(engine: sa.Engine) -> None:
    """Write to the disk without changing data, to see whether this is possible. Raises `DBAPIError`."""
    with writing(engine) as connection:
        connection.execute(_TOUCH)


def lack_of_space(directory: Path, store: str = "ledger") -> str:
    """The sentence that says that the disk of `directory` has too little space left; empty if it has enough.

    Parameters
    ----------
    store : what the database on the disk is called in the sentence, such as `ledger`
    """
    try:
        found = os.statvfs(directory)
    except OSError:
        return ""  # a write shows it
    if found.f_bavail * found.f_frsize >= LEAST_FREE:
        return ""
    return f"The disk of the {store} has less than {LEAST_FREE // 1_000_000} MB left."


def fault_of_tail(engine: sa.Engine) -> str:
    """The sentence that names a damaged entry among the newest; empty if the numbers and hashes of these are right."""
    query = sa.select(*entries.c).order_by(entries.c.number.desc()).limit(TAIL + 1)
    with engine.connect() as connection:
        rows = connection.execute(query).all()[::-1]
    # The first of them follows one that was not read, unless it begins the chain.
    before, after = (rows[0].hash, rows[0].number) if len(rows) > TAIL else (FIRST, 0)
    for row in rows[1:] if len(rows) > TAIL else rows:
        if row.number != after + 1 or not is_entry(row, before):
            return f"Entry {after + 1} of the ledger is not as it was written; `recourse db verify` says more."
        before, after = row.hash, row.number
    return ""
