"""A comparison or report that a command computes in children of its own, without a server."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.cli.common import CommandError, progress_bar, read_settings
from app.jobs.executor import CLOSING_S, child_lines
from app.jobs.kinds import JobKind
from app.observability import configure_logging
from app.portfolio.comparisons import reference_rows
from app.questions.answers import Json, encoded
from app.questions.batch_files import Batch, in_order, lane_of
from app.registry.ref import Store
from app.registry.version import RegisteredModel
from app.service import Service
from app.settings import Settings
from app.store.state import spooling


def opened() -> Service:
    """The service by the settings of the environment; it logs warnings only."""
    configure_logging("warning")
    return Service(read_settings())


def figures(service: Service, job: JobKind, model: RegisteredModel, payload: Json, data: Path | None) -> Json:
    """The result of a job about the records in `data` or, without these, the model's reference records.

    Child processes compute it.
    """
    rows = reference_rows(model)
    if data is not None:
        if data.suffix not in (".csv", ".parquet", ".ndjson"):
            raise CommandError(f"{data} must end in .csv, .parquet or .ndjson.")
        source = Batch(source=data, output=data, model=model, payload=payload)
        source.require_columns()
        rows = source.rows()
    with progress_bar("asking") as progress:
        return asyncio.run(_asked(service.settings, job, payload, rows, progress))


def write(result: Json, output: Path | None, html: Path | None, page: Callable[[Json], str]) -> None:
    """Write all figures of a result to `output`, and its page to `html`, where these are given."""
    if output is not None:
        output.write_bytes(encoded(result) + b"\n")
    if html is not None:
        html.write_text(page(result), encoding="utf-8")


async def _asked(
    settings: Settings, job: JobKind, payload: Json, rows: Iterable[Json],
    progress: Callable[[int, int], None],
) -> Json:  # fmt: skip
    store, done = Store.of(settings), 0
    asked = list(rows)
    lane = lane_of(settings, store)
    try:
        with spooling(None), NamedTemporaryFile("w", encoding="utf-8") as file:
            async for lines in in_order(lane, job, store, payload, iter(asked), 0):
                file.writelines(f"{line}\n" for line in lines)
                done += len(lines)
                progress(done, len(asked))
            file.flush()
            (line,) = await child_lines(lane, job, store, {**payload, "lines": file.name}, CLOSING_S)
    finally:
        await lane.close()
    return dict(json.loads(line))
