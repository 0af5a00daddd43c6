"""The commands ``recourse keys …``."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.cli.common import CommandError, new_table, print_table
from app.cli.database import open_store

cli = typer.Typer(help="API keys.", no_args_is_help=True)

ScopeOption = Annotated[
    list[str],
    typer.Option("--scope", help="Scope: recourse, models or audit. Repeat for several."),
]


@cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key in the list.")],
    scope: ScopeOption,
) -> None:
    """Create a key and print it; it is shown only once. From then on the service requires a key."""
    from app.store.keys import Keys, Scope

    if unknown := set(scope) - {*Scope}:
        raise CommandError(f"Unknown scope {', '.join(sorted(unknown))}; the scopes are {', '.join(Scope)}.")
    with open_store() as engine:
        typer.echo(Keys(engine).create(name, [Scope(one) for one in scope], datetime.now(UTC)))


@cli.command("list")
def list_keys() -> None:
    """List all keys, without their secrets."""
    from app.store.keys import Keys

    with open_store() as engine:
        found = Keys(engine).list()
    if not found:
        typer.echo("There is no key.")
        return
    table = new_table("id", "name", "scopes", "created", "revoked")
    for key in found:
        table.add_row(key.id, key.name, " ".join(sorted(key.scopes)), key.created_at, key.revoked_at or "")
    print_table(table)


@cli.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(metavar="ID", help="As `recourse keys list` shows it.")]) -> None:
    """Revoke a key permanently; running servers refuse it within a second."""
    from app.store.keys import Keys

    with open_store() as engine:
        Keys(engine).revoke(key_id, datetime.now(UTC))
    typer.echo(f"Revoked {key_id}.")
