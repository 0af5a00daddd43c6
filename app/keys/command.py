"""The commands ``recourse keys …``."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from app.cli.common import CommandError, new_table, print_table
from app.cli.database import open_store

cli = typer.Typer(help="API keys.", no_args_is_help=True)

ScopeOption = Annotated[
    list[str],
    typer.Option("--scope", help="Scope: recourse, models, audit, scores or everyone. Repeat for several."),
]

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `recourse keys list` shows it.")]


@cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key in the list.")],
    scope: ScopeOption,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Id of a model that it may ask; default: all. Repeatable.")
    ] = None,
    model_rows: Annotated[
        int | None,
        typer.Option(
            "--model-rows",
            min=0,
            help="Records that models may be asked about for it in a day; 0: no limit; default: "
            "RECOURSE_MODEL_ROWS_PER_DAY. One answer takes about 1,300.",
        ),
    ] = None,
) -> None:
    """Create a key and print it; it is shown only once. From then on the service requires a key."""
    from app.keys.keys import Keys
    from app.keys.scopes import Scope
    from app.registry.manifest import ID

    if unknown := set(scope) - {*Scope}:
        raise CommandError(f"Unknown scope {', '.join(sorted(unknown))}; the scopes are {', '.join(Scope)}.")
    if wrong := [one for one in model or () if not re.fullmatch(ID, one)]:
        raise CommandError(f"{wrong[0]} is not the id of a model, without a version, such as consumer-loan.")
    limits: Any = {"models": model or (), "model_rows": model_rows}
    with open_store() as engine:
        typer.echo(Keys(engine).create(name, [Scope(one) for one in scope], datetime.now(UTC), **limits))


@cli.command("list")
def list_keys() -> None:
    """List all keys, without their secrets."""
    from app.keys.keys import Keys

    with open_store() as engine:
        found = Keys(engine).list()
    if not found:
        typer.echo("There is no key.")
        return
    table = new_table("id", "name", "scopes", "models", "rows a day", "created", "old secret until", "revoked")
    for key in found:
        models = "all" if key.models is None else " ".join(sorted(key.models))
        rows = "default" if key.model_rows is None else f"{key.model_rows:,}" if key.model_rows else "no limit"
        scopes = " ".join(sorted(key.scopes))
        table.add_row(key.id, key.name, scopes, models, rows, key.created_at, key.old_until or "", key.revoked_at or "")
    print_table(table)


@cli.command("renew")
def renew_key(
    key_id: IdArgument,
    overlap: Annotated[
        int, typer.Option(metavar="HOURS", min=0, max=2160, help="Hours for which the secret before works as well.")
    ] = 0,
) -> None:
    """Give a key another secret and print the key; within a second, running servers refuse the previous secret.

    The key keeps its id, its limits, and what it has asked for.
    """
    from app.keys.keys import Keys

    with open_store() as engine:
        typer.echo(Keys(engine).renew(key_id, datetime.now(UTC), timedelta(hours=overlap)))


@cli.command("revoke")
def revoke_key(key_id: IdArgument) -> None:
    """Revoke a key permanently; running servers refuse it within a second."""
    from app.keys.keys import Keys

    with open_store() as engine:
        Keys(engine).revoke(key_id, datetime.now(UTC))
    typer.echo(f"Revoked {key_id}.")
