"""What the commands share: the settings they run with, and how they tell things."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from app.registry.registry import Registry
    from app.settings import Settings


class CommandError(Exception):
    """The command could not do its work; the sentence says why."""


def read_settings(**overrides: Any) -> "Settings":
    """The settings of the environment, and what the command line says instead."""
    from pydantic import ValidationError

    from app.settings import Settings

    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = [f"RECOURSE_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors()]
        raise CommandError("\n".join(faults)) from error


def new_table(*headings: str) -> "Table":
    """An empty table with these headings."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_table(table: "Table") -> None:
    """Print a table."""
    from rich.console import Console

    # Names and titles are the lender's: brackets in them are no markup.
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:  # for a program, a row is a line, however long
        console.width = max(
            console.width, console.measure(table, options=console.options.update(width=100_000)).maximum
        )
    console.print(table)


def open_registry(*, trust_pickle: bool | None = None) -> "Registry":
    """The registered models."""
    settings = read_settings(trust_pickle=trust_pickle)
    from app.registry.registry import Registry

    return Registry(settings.models_store, trust_pickle=settings.trust_pickle, remote_hosts=settings.remote_hosts)
