"""Batches in files: read applicants, compute them without a server, write a line for each.

Finished rows are in ``OUTPUT.part``, one line of JSON each, in the order of the input; ``OUTPUT.part.json`` has the
question. So a batch that was stopped, for whatever reason, can continue.
"""

import asyncio
import csv
import fcntl
import hashlib
import json
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from app.api.errors import problem
from app.api.table_rows import Cells, Reader, as_texts, count_and_mark, fault_of_heading, table_lines, table_records
from app.jobs import kinds
from app.jobs.executor import lines_of
from app.jobs.lines import GROUP, line_of, refusal
from app.models import tasks
from app.pool.pool import Pool
from app.questions.answers import Json
from app.questions.batch_schema import line_to_row
from app.recourse.features import Feature
from app.registry.files import require_regular
from app.registry.ref import Store
from app.registry.version import RegisteredModel
from app.settings import Settings

LINES, CSV, PARQUET = ".ndjson", ".csv", ".parquet"

FORMATS = (LINES, CSV, PARQUET)

AHEAD = 2
"""Groups queued for each child, so that none waits for this process."""

PARQUET_ROWS = 1000
"""Rows of a Parquet file in memory at once."""


class BatchRefused(Exception):
    """Raised where a batch cannot be computed; its sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A file of applicants, and the file to which their answers are written."""

    source: Path
    output: Path
    model: RegisteredModel
    payload: Json
    """What the applicants have in common, from `Service.batch_payload`."""
    verbatim: bool = False
    """Whether texts of a CSV are written as they are, for programs; a spreadsheet would compute some of them."""

    @property
    def part(self) -> Path:
        """Path of the file that has the lines of the finished rows; it lies beside the output."""
        return self.output.with_name(f"{self.output.name}.part")

    @property
    def asked(self) -> Path:
        """Path of the file that has the question of an unfinished batch; it lies beside the output."""
        return self.output.with_name(f"{self.output.name}.part.json")

    @contextmanager
    def begun(self, *, resume: bool) -> Iterator[tuple[int, int]]:
        """Context in which no other process writes the output. Yields two numbers: of finished rows, and of all rows.

        Raises
        ------
        BatchRefused : the input cannot be read; a column is missing or occurs twice; another process writes the same
            output; finished rows exist and `resume` is false; the finished rows belong to another question
        """
        for path in (self.source, self.output):
            if path.suffix not in FORMATS:
                raise BatchRefused(f"{path} must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
        if PARQUET in (self.source.suffix, self.output.suffix):
            _parquet()
        self._require_no_output()
        require_regular(self.source)  # it is read several times
        self.require_columns()
        total, _ = self._count()
        question = line_of({"input": _digest(self.source), "question": self.payload})
        with self._alone():
            self._require_no_output()  # of a process that has finished since
            yield self._done(question, resume=resume), total

    def require_columns(self) -> None:
        """Raise `BatchRefused` where the input cannot be read, or where a column is missing or occurs twice."""
        if fault := fault_of_heading(self._columns(), self.model.space.schema):
            raise BatchRefused(f"{self.source} {fault}")

    def _require_no_output(self) -> None:
        if self.output.exists():
            raise BatchRefused(f"{self.output} exists already; remove it, or choose another output.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self.part.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BatchRefused(f"Another process is writing {self.part}; wait for it, or stop it.") from None
            yield

    def _done(self, question: str, *, resume: bool) -> int:
        """The number of finished rows; cuts off what is unfinished, once nothing speaks against it."""
        done, end = _whole_lines(self.part)
        if not done or not self.asked.exists():
            os.truncate(self.part, 0)
            self.asked.write_text(question, encoding="utf-8")
            return 0
        if not resume:
            raise BatchRefused(f"{done:,} rows are done in {self.part}. Continue with --resume, or remove it.")
        if self.asked.read_text(encoding="utf-8") != question:
            raise BatchRefused(f"{self.part} is of another input, model or question; remove it to start again.")
        os.truncate(self.part, end)
        return done

    def ignored(self) -> list[str]:
        """Names of the input's columns that are neither a feature nor `reference`."""
        return [name for name in self._columns() if name not in (*self._names(), "reference")]

    def _names(self) -> list[str]:
        return [feature.name for feature in self.model.space.schema]

    def _columns(self) -> list[str]:
        """Those of a table; lines have the features by name, each for itself."""
        if self.source.suffix == PARQUET:
            with _reading(self.source):
                return list(_parquet().ParquetFile(self.source).schema_arrow.names)
        if self.source.suffix == CSV:
            with _cells_of(self.source) as cells:
                return next(cells.lines, [])
        return self._names()

    def _count(self) -> tuple[int, str]:
        """The number of rows, and the decimal mark of a CSV. Raises `BatchRefused` where its numbers show none."""
        if self.source.suffix == PARQUET:
            with _reading(self.source):
                return int(_parquet().ParquetFile(self.source).metadata.num_rows), "."
        if self.source.suffix == LINES:
            return sum(1 for _ in _records(self.source)), "."
        with _cells_of(self.source) as cells:
            return count_and_mark(cells, self.model.space.schema)

    def rows(self) -> Iterator[Json]:
        """The applicants of the input, each as a row for the payload of a `kinds.batch_job`."""
        if self.source.suffix == LINES:
            return map(line_to_row, _records(self.source))
        return map(Reader(self.model.space.schema, self._count()[1]).row, _records(self.source))

    def finish(self) -> Counter[str]:
        """Write the output file from the answers to all rows, and return how many answers have each status."""
        counts: Counter[str] = Counter()
        if self.output.suffix == LINES:
            unfinished = self.output.with_name(f"{self.output.name}.tmp")
            with unfinished.open("w", encoding="utf-8") as file:
                for result in self._results(counts):
                    file.write(line_of(result) + "\n")
        else:
            unfinished = _write_table(
                self.output, self.model.space.schema, self._results(counts), verbatim=self.verbatim
            )
        os.replace(unfinished, self.output)
        self.part.unlink()
        self.asked.unlink()
        return counts

    def _results(self, counts: Counter[str]) -> Iterator[Json]:
        """Answers and problem documents, in order."""
        with self.part.open(encoding="utf-8") as file:
            for line in file:
                found = refusal(line)
                if found is None:
                    result = json.loads(line)
                else:
                    result = {**problem(found[0], "/recourse/batch"), "reference": found[1]}
                counts[str(result["status"]) if found is None else "refused"] += 1
                yield result


async def compute(settings: Settings, batch: Batch, done: int, on_progress: Callable[[int], None]) -> None:
    """Compute the answers to all rows but the first `done` in child processes, and append their lines to `batch.part`.

    Parameters
    ----------
    on_progress : called with the number of rows that are finished so far
    """
    store = Store.of(settings)
    lane = lane_of(settings, store)
    try:
        with batch.part.open("a", encoding="utf-8") as file:
            rows = islice(batch.rows(), done, None)
            async for lines in in_order(lane, kinds.batch_job, store, batch.payload, rows, done):
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                done += len(lines)
                on_progress(done)
    finally:
        await lane.close()


def lane_of(settings: Settings, store: Store) -> Pool:
    """A started pool of child processes for the batch of a command; the command has to close the pool."""
    lane = Pool(
        "batch",
        settings.lanes_bounds,
        needs=lambda: tasks.needs(store),
        memory_mb=settings.child_memory_mb,
        load_s=settings.model_load_s,
    )
    lane.start()
    return lane


async def in_order(
    lane: Pool, kind: kinds.JobKind, store: Store, common: Json, rows: Iterator[Json], first: int
) -> AsyncIterator[list[str]]:
    """The lines of the answers to `rows`, in the order of the rows.

    Each item holds the lines of one group of rows. Later groups are computed meanwhile.

    Parameters
    ----------
    kind : the kind of job that computes a group
    common : what the payloads of all groups share
    first : number of the first row
    """
    running: deque[asyncio.Task[list[str]]] = deque()
    try:
        while True:
            while len(running) < AHEAD * lane.size and (group := list(islice(rows, GROUP))):
                payload = {**common, "first": first, "rows": group}
                running.append(asyncio.create_task(lines_of(lane, kind, store, payload)))
                first += len(group)
            if not running:
                return
            yield await running.popleft()
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


# --- reading ---------------------------------------------------------------------------------------------------------


def _records(source: Path) -> Iterator[Any]:
    if source.suffix == CSV:
        with _cells_of(source) as cells:
            yield from table_records(cells.lines)
    elif source.suffix == PARQUET:
        with _reading(source):
            for part in _parquet().ParquetFile(source).iter_batches(batch_size=PARQUET_ROWS):
                yield from part.to_pylist()
    else:
        with source.open("rb") as file:
            yield from (line for line in file if line.strip())


@contextmanager
def _cells_of(source: Path) -> Iterator[Cells]:
    """The cells of a CSV."""
    with _reading(source), source.open(encoding="utf-8-sig", newline="") as file:
        yield table_lines(file)


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Turns the errors of reading a file into a sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise BatchRefused(f"{source} is not UTF-8 ({error.reason}); save it as CSV in UTF-8.") from error
    except csv.Error as error:
        raise BatchRefused(f"{source} is not a table that can be read: {error}.") from error
    except ValueError as error:  # as pyarrow says it
        raise BatchRefused(f"{source} cannot be read: {' '.join(str(error).split())}") from error


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise BatchRefused("Parquet files need pyarrow: pip install pyarrow.") from None
    return pyarrow.parquet


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _whole_lines(path: Path) -> tuple[int, int]:
    """The number of complete lines of a file, and where the last of them ends."""
    count = end = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
    return count, end


# --- tables ----------------------------------------------------------------------------------------------------------

FACTS = {
    "reference": str, "id": str, "status": str, "reason": str, "detail": str, "seed": int, "probability": float,
    "points": float, "changes": str, "cost": float, "validity_lower": float, "joint_lower": float,
}  # fmt: skip
"""Columns of every table; those of the advised record follow, `to.` and the name of the feature."""


def _cells(result: Json) -> Json:
    """One row of a table; the best counterfactual where there are several."""
    if "code" in result:
        faults = [f"{fault['pointer']} {fault['detail']}" for fault in result.get("errors", ())]
        detail = "; ".join([result["detail"], *faults])
        return {"reference": result["reference"], "status": "refused", "reason": result["code"], "detail": detail}
    cells = {key: result[key] for key in ("reference", "id", "status", "reason", "detail", "seed")}
    cells |= {key: result["factual"] and result["factual"].get(key) for key in ("probability", "points")}
    for best in result["counterfactuals"][:1]:
        validity = best["validity"]
        cells |= {
            "changes": " ".join(change["text"] for change in best["changes"]),
            "cost": best["cost"]["total"],
            "validity_lower": validity["shift"] and validity["shift"]["gelbrich"]["lower"],
            "joint_lower": validity["joint"] and validity["joint"]["lower"],
            **{f"to.{name}": value for name, value in best["applicant"].items()},
        }
    return cells


def _write_table(output: Path, features: Iterable[Feature], result: Iterator[Json], *, verbatim: bool) -> Path:
    """Write the table to a temporary file beside the output."""
    unfinished = output.with_name(f"{output.name}.tmp")
    columns = {**FACTS, **{f"to.{feature.name}": _kind(feature) for feature in features}}
    rows = map(_cells, result)
    if output.suffix == CSV:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows if verbatim else map(as_texts, rows))
        return unfinished
    parquet = _parquet()
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(unfinished, schema) as writer:
        while part := list(islice(rows, PARQUET_ROWS)):
            writer.write_table(pa.Table.from_pylist(part, schema=schema))
    return unfinished


def _kind(feature: Feature) -> type:
    if feature.is_number:
        return float
    return bool if all(isinstance(level, bool) for level in feature.levels if level is not None) else str


def summary(counts: Counter[str]) -> str:
    """The sentence that states how many applicants have an answer of each status."""
    parts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    return f"{counts.total():,} applicants: {parts or 'none'}."
