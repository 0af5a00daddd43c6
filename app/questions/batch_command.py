"""The command ``recourse batch``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import CommandError, open_registry, read_settings

if TYPE_CHECKING:
    from rich.progress import Progress

    from app.questions.question import Question, Terms

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def batch(
    source: Annotated[
        Path,
        typer.Option("--input", help="Applicants: .csv or .parquet with a column for each feature, .ndjson with rows."),
    ],
    output: Annotated[Path, typer.Option("--output", help="File for the answers: .ndjson, .csv or .parquet.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="id@version, or id for the newest version.")],
    question: Annotated[
        Path | None, typer.Option("--question", help="JSON file: method, constraints, cost, count, exclude, ….")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the first row; each row adds 1.")] = 0,
    verbatim: Annotated[
        bool, typer.Option("--verbatim", help="Write texts of a .csv as they are, for programs: =1+1 not as '=1+1.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an earlier run that was stopped.")] = False,
) -> None:
    """Answer many applicants without a server."""
    import asyncio

    from app.observability import configure_logging
    from app.questions import batch_files
    from app.service import Service

    configure_logging("warning")
    settings = read_settings()
    service = Service(settings)
    files = batch_files.Batch(
        source=source,
        output=output,
        model=open_registry().find(model),
        payload=service.questions.batch_payload(*_batch_question(model, question, seed)),
        verbatim=verbatim,
    )
    try:
        with files.begun(resume=resume) as (done, total):
            if ignored := files.ignored():
                typer.echo(f"Ignored columns that are not features of {model}: {', '.join(ignored)}.", err=True)
            with _progress_bar() as bar:
                shown = bar.add_task("applicants", total=total, completed=done)
                asyncio.run(batch_files.compute(settings, files, done, lambda now: bar.update(shown, completed=now)))
            counts = files.finish()
    except batch_files.BatchRefused as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        if error.filename is not None:  # else of a file that was open, such as on a full disk
            raise
        raise CommandError(
            f"{output} cannot be written: {error.strerror}. Finished answers are in {files.part}; --resume continues "
            "from there."
        ) from error
    except KeyboardInterrupt:
        typer.echo(f"Stopped. Finished answers are in {files.part}; --resume continues from there.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"{batch_files.summary(counts)} Written to {output}.")
    if counts and set(counts) == {"refused"}:
        raise typer.Exit(1)


def _batch_question(model: str, file: Path | None, seed: int) -> "tuple[Question, Terms]":
    from app.api.bodies import read_json, validated
    from app.questions.batch_schema import BatchCommon
    from app.registry.files import read_regular

    given = {} if file is None else read_json(read_regular(file))
    if not isinstance(given, dict):
        raise CommandError(f"{file} must hold one JSON object.")
    request = validated(BatchCommon, {**given, "model": model, "seed": seed})
    if request.exclude.ids:
        raise CommandError("exclude.ids needs the ledger of a server; name the sets of features in exclude.sets.")
    # Without a server there is no ledger.
    return request.question(), replace(request.terms(), store=False)


def _progress_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("done in"), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True))
