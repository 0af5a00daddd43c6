"""The commands ``recourse db …``: the database of ledger and jobs."""

from typing import Annotated

import typer

from app.cli.common import CommandError, read_settings
from app.cli.database import ledger_engine, open_ledger

cli = typer.Typer(help="The database of ledger and jobs.", no_args_is_help=True)


@cli.command()
def upgrade() -> None:
    """Create or migrate the tables of ledger and jobs; the service does the same when it starts."""
    settings = read_settings()
    from app.jobs.database import migrate
    from app.jobs.tables import FILE
    from app.store import migrate as ledger
    from app.store.engine import database_url

    with ledger_engine() as engine:
        before, after = ledger.upgrade(engine)
        migrate(database_url(settings, FILE))
    typer.echo(f"The ledger is up to date ({after})." if before == after else f"The ledger is now at {after}.")


@cli.command("verify")
def verify_chain(
    head: Annotated[
        str | None,
        typer.Option("--head", help="Head that this command printed before; it must be in the chain."),
    ] = None,
) -> None:
    """Verify every entry of the ledger, and report the first entry that was changed."""
    with open_ledger() as ledger:
        proof = ledger.prove()
        cut = head is not None and not ledger.holds(head)
    if proof.broken is not None:
        named = f" ({proof.broken.id})" if proof.broken.id else ""
        raise CommandError(f"Entry {proof.broken.number:,}{named} {proof.broken.reason}.")
    if cut:
        raise CommandError(f"The chain holds, but no entry of it has the hash {head}.")
    typer.echo(f"The chain holds: {proof.entries:,} entries, {proof.erased:,} of them erasures. Head: {proof.head}")


@cli.command()
def sweep(
    *,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock", help="Also if the clock is far ahead of the newest entry or job; deletes old jobs too."
        ),
    ] = False,
) -> None:
    """Erase the personal data of expired recourse past the retention period; the service does so every hour."""
    import asyncio

    settings = read_settings()
    from app.ledger.sweep import sweep as sweep_ledger

    erased = asyncio.run(sweep_ledger(settings, trust_clock=trust_clock))
    if erased is None:
        raise CommandError(
            "The clock of this machine is more than a week ahead of the newest entry, so what it calls old may not be: "
            "only what was due at that entry's time is erased. If the clock is right, use --trust-clock."
        )
    typer.echo(f"Erased {erased:,}.")
