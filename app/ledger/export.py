"""What the ledger's search finds as lines of JSON or as a table."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from app.api.media_type import CSV, NDJSON
from app.api.table_rows import as_texts
from app.questions.answers import Json, encoded

COLUMNS = ("id", "reference", "status", "model", "version", "sha256", "created_at", "expires_at", "kept")


def _lines(found: Sequence[Json]) -> bytes:
    return b"".join(encoded(one) + b"\n" for one in found)


def _table(found: Sequence[Json]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    for one in found:
        model = one["model"]
        row = {**one, "model": model["id"], "version": model["version"], "sha256": model["sha256"]}
        writer.writerow(as_texts({**row, "kept": {True: "true", False: "false"}.get(one["kept"])}))
    return text.getvalue().encode()


EXPORTS: Mapping[str, tuple[bytes, Callable[[Sequence[Json]], bytes]]] = {
    NDJSON: (b"", _lines),
    CSV: (",".join(COLUMNS).encode() + b"\r\n", _table),
}
"""By media type: what the export begins with, and what writes some recourses of it."""
