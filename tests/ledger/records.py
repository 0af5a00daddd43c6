"""Recourses to be recorded, and processes that record them."""

import sys
import time
from pathlib import Path
from typing import Any

from app.ledger.chain import PersonalData
from app.ledger.ledger import Ledger, NewRecord
from app.store.engine import open_engine
from app.store.migrate import upgrade


def new_record(number: int, *, prefix: str = "rec", **changes: Any) -> NewRecord:
    """A recourse; the later the number, the later it was given."""
    about = {"reference": f"case {number % 3}", "job": None, "request": b'{"age":41}', "answer": b'{"age":42}'}
    personal_data = PersonalData(**about | {key: changes.pop(key) for key in about if key in changes})
    facts = {
        "id": f"{prefix}_{number:04}",
        "at": f"2030-01-01T00:00:{number % 60:02}.000Z",
        "expires_at": "2030-04-01T00:00:00.000Z",
        "model": "loan",
        "version": "1",
        "sha256": "a" * 64,
        "status": "found",
    }
    return NewRecord(**facts | changes, personal_data=personal_data)


if __name__ == "__main__":
    address, name, count, start = sys.argv[1:]
    engine = open_engine(address)
    upgrade(engine)
    Path(start, name).touch()
    while not Path(start, "go").exists():
        time.sleep(0.001)
    for number in range(int(count)):
        Ledger(engine).append([new_record(number, prefix=name)])
        time.sleep(0.005)  # for the others to have their turn, however few the cores are
    engine.dispose()
