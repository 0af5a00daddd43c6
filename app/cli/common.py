"""What the commands share: settings, tables, errors."""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from app.registry.registry import Registry
    from app.registry.version import RegisteredModel
    from app.settings import Settings

DirectoryArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory with model.yaml and the files it names.")
]
ScoresOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="CSV with your own score of each reference record, unless the reference has a column score."),
]
ToleranceOption: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Largest difference between your scores and the model's.")
]
TrustPickleOption: TypeAlias = Annotated[
    bool, typer.Option("--trust-pickle", help="Load .joblib and .pkl files, which can run any code.")
]

SCORE_TOLERANCE = 1e-4
"""`app.registry.lender_scores.TOLERANCE`, which takes time to import."""


RecourseArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a recourse in the ledger, rec_...")]


class CommandError(Exception):
    """Raised where a command fails; its message is for the user of the command."""


def read_settings(**overrides: Any) -> "Settings":
    """The settings from the environment, overridden by the `overrides` that are not None. Raises `CommandError`."""
    from pydantic import ValidationError

    from app.registry.form_sentences import sentence_of
    from app.settings import Settings

    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = [f"RECOURSE_{'_'.join(map(str, e['loc'])).upper()}: {sentence_of(e)}" for e in error.errors()]
        raise CommandError("\n".join(faults)) from error


def new_table(*headings: str) -> "Table":
    """An empty table whose columns have the given headings."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_table(table: "Table") -> None:
    """Print a table."""
    from rich.console import Console

    # Names and titles come from the lender: brackets in them are not markup.
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:  # for programs, one line per row, however long
        console.width = max(
            console.width, console.measure(table, options=console.options.update(width=100_000)).maximum
        )
    console.print(table)


def open_registry(*, trust_pickle: bool | None = None) -> "Registry":
    """The registry of models in the directory that the settings name."""
    settings = read_settings(trust_pickle=trust_pickle)
    from app.registry.registry import Registry
    from app.registry.trust import Trust

    return Registry(settings.models_store, Trust.of(settings))


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Context in which this process may use only `megabytes` MiB of address space, as child processes may; 0: no limit.

    Raises `CommandError` if the code in the context needs more.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    if megabytes:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, before[1]))
    try:
        yield
    except MemoryError:
        raise CommandError(
            f"The model needs more than {megabytes} MiB, which a child process may have (RECOURSE_CHILD_MEMORY_MB)."
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def progress_bar(what: str) -> "Iterator[Callable[[int, int], None]]":
    """Context with a progress bar on standard error, if that is a terminal.

    Yields a function that sets two numbers: how many are done, and how many there are in total.
    """
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


def one_thread(*, openmp: bool = False) -> None:
    """Limit to one thread those numeric libraries that are imported later, as matrix products are small here.

    `openmp` says whether to limit OpenMP as well. Libraries that train or ask trees use OpenMP; on few processors,
    their threads delay each other.
    """
    from app.pool.child import ONE_THREAD

    os.environ.update({key: value for key, value in ONE_THREAD.items() if openmp or key != "OMP_NUM_THREADS"})


def report(begins: str, model: "RegisteredModel") -> None:
    """Print what a registration found: a line that starts with the text `begins`, then notes and warnings."""
    found = model.registration
    typer.echo(f"{begins} accepts {found.favourable:,} of {found.records:,} reference records.")
    for note in found.notes:
        typer.echo(note)
    for warning in found.warnings:
        typer.echo(f"Warning: {warning}", err=True)
