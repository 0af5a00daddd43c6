"""The command ``recourse models calibration``: promised shares of future models against what later versions kept."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.common import CommandError, new_table, open_registry, print_table, read_settings
from app.cli.database import open_ledger

if TYPE_CHECKING:
    from rich.table import Table


def calibration(
    model_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a model, without a version.")],
) -> None:
    """Compare promised shares of future models with what the next versions kept, and store the corrections."""
    settings = read_settings()
    from app.calibration.report import calibration as compute
    from app.ledger.ledger import FILE
    from app.registry.ref import Store
    from app.store.engine import database_url

    if all(model.id != model_id for model in open_registry().list()):
        raise CommandError(f"No version of {model_id} is registered.")
    with open_ledger():
        store = Store.of(settings, ledger=database_url(settings, FILE))
        found = compute(store, model_id, deadline_s=math.inf)
    print_table(_table(found))
    typer.echo(f"Without a next version: {found['pending']:,}. Not checked: {found['unchecked']:,}.")
    if found["left_out"]:
        typer.echo(f"Older answers that were not read: {found['left_out']:,}.")
    for one in found["under"]:
        if one["mean_lowest"] is not None:
            asked = {"stress": "under stress", "same": "for applicants as they are"}.get(one["under"], "for no share")
            typer.echo(
                f"Asked {asked}: {one['promises']:,} promises, {one['kept']:.3f} kept; smallest share under stress "
                f"{one['mean_lowest']:.3f} on average."
            )
    if found["backtest"]:
        print_table(_backtest(found["backtest"]))
    elif found["backtest_detail"]:
        typer.echo(f"No backtest: {found['backtest_detail']}")
    if (correction := found["correction"]) is None:
        typer.echo("Nothing is corrected.")
        return
    largest = max(correction["by"])
    behind = f"{correction['promises']:,} promises and {correction['retrainings']} retrainings"
    typer.echo(f"Answers of {correction['model']} are corrected by up to {largest:.3f}, from {behind}.")


def _table(found: dict[str, Any]) -> "Table":
    table = new_table("method", "promised", "promises", "mean promised", "kept", "95 % interval")
    for name, part in (("all", found), *((one["method"], one) for one in found["methods"])):
        for one in part["bins"]:
            low, high = one["interval"]
            promised = f"{one['told'][0]:.1f} to {one['told'][1]:.1f}"
            numbers = f"{one['mean_told']:.3f}", f"{one['kept']:.3f}", f"{low:.3f} to {high:.3f}"
            table.add_row(name, promised, f"{one['promises']:,}", *numbers)
    return table


def _backtest(found: list[dict[str, Any]]) -> "Table":
    table = new_table("asked", "under", "months later", "answers", "mean promised", "kept", "95 % interval")
    for one in found:
        low, high = one["interval"]
        asked = "-" if one["asked"] is None else f"{one['asked']:g}"
        table.add_row(
            asked, one["under"] or "-", str(one["months"]), f"{one['promises']:,}", f"{one['promised']:.3f}",
            f"{one['kept']:.3f}", f"{low:.3f} to {high:.3f}",
        )  # fmt: skip
    return table
