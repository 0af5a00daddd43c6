"""``python -m benchmarks.ledger_writer ADDRESS SIZE SECONDS NAME``: appends to a ledger for a while.

Begins when standard input ends, and prints how many appends of `SIZE` answers it made.
"""

import sys
import time

from app.ledger.chain import PersonalData
from app.ledger.ledger import Ledger, NewRecord
from app.store.engine import open_engine

ANSWER, REQUEST = 3_000, 1_500
"""Bytes of an answer and of a request, about those of the demo model."""


def main(address: str, size: int, seconds: float, name: str) -> None:
    """Append answers, so many at a time."""
    ledger = Ledger(open_engine(address))
    ledger.check()
    print("ready", flush=True)
    sys.stdin.read()
    end, appends = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        ledger.append([_record(f"rec_{name}_{appends * size + k}") for k in range(size)])
        appends += 1
    print(appends)


def _record(recourse_id: str) -> NewRecord:
    data = PersonalData(reference=None, job=None, request=b"r" * REQUEST, answer=b"a" * ANSWER)
    at, until = "2030-01-01T00:00:00.000Z", "2030-04-01T00:00:00.000Z"
    return NewRecord(
        id=recourse_id, at=at, expires_at=until, model="loan", version="1", sha256="a" * 64, status="found",
        personal_data=data,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
