"""A comparison or report that a command computes in children of its own, without a server."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from app.api.bodies import validated
from app.cli.common import CommandError, progress_bar, read_settings
from app.jobs.executor import CLOSING_S, child_lines
from app.jobs.kinds import JobKind, comparison_job
from app.observability import configure_logging
from app.portfolio.comparisons import reference_rows
from app.portfolio.conditions import Condition
from app.portfolio.schema import ComparisonRequest
from app.questions.answers import Json
from app.questions.batch_files import Batch, in_order, lane_of
from app.registry.ref import Store
from app.registry.version import RegisteredModel
from app.service import Service
from app.settings import Settings
from app.store.state import spooling


def figures(
    settings: Settings, job: JobKind, model: RegisteredModel, payload: Json, data: Path | None
) -> Json:  # fmt: skip
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
        return asyncio.run(_asked(settings, job, payload, rows, progress))


def compared(baseline: str, candidate: str, data: Path | None, fail_if: list[str], seed: int) -> Json:
    """The `ComparisonAnswer` about the records in `data`, or the baseline's reference records, as plain data."""
    configure_logging("warning")
    settings = read_settings()
    for i, text in enumerate(fail_if):
        Condition.parse(text, f"--fail-if {i + 1}")
    service = Service(settings)
    before, after = (service.models.find(name, include_inactive=True) for name in (baseline, candidate))
    question = validated(ComparisonRequest, {"baseline": before.name, "candidate": after.name, "seed": seed}).question()
    payload = service.comparisons.payload(before, after, question, data is not None, fail_if)
    return figures(settings, comparison_job, before, payload, data)


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
