"""The command ``recourse models rehearse``: make the future models of a registered version."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.common import one_thread, open_registry, progress_bar
from app.recourse.shares import percent

if TYPE_CHECKING:
    from app.futures.spec import Choices, Material
    from app.registry.version import RegisteredModel


CURVE_RECORDS = 500
"""Accepted reference records behind the curve that is printed."""


def rehearse(
    name: Annotated[str, typer.Argument(metavar="NAME", help="id@version, or id for the newest active version.")],
    source: Annotated[
        Literal["auto", "retrained", "stand_in"] | None,
        typer.Option(help="Kind of the models; the manifest decides when absent."),
    ] = None,
    records: Annotated[
        Literal["fresh", "same"] | None,
        typer.Option(help="Bootstraps of half the records, or of the full size. With --data: same when absent."),
    ] = None,
    search: Annotated[int | None, typer.Option(min=2, max=1_000, help="Number of models for searches.")] = None,
    held_back: Annotated[
        int | None, typer.Option(min=2, max=1_000, help="Number of models that only measure validity.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="CSV of newer records with the columns of the reference, to train on.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="Trains one model, such as 'python train.py --data {data} --seed {seed} -o {directory}'."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one run of the command.")] = 3600.0,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Directory of existing models of the same format.")
    ] = None,
    stress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=up|down",
            help="Further models of records among which high or low values of a column are more frequent; auto or "
            "none. May be given several times; the manifest decides when absent.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the bootstraps and the training.")] = 0,
) -> None:
    """Train the next versions of a model beforehand; interrupted, it resumes when run again."""
    if sum(option is not None for option in (source, command, folder)) > 1:
        raise typer.BadParameter("at most one of --source, --command and --from can be given")
    one_thread()
    from app.futures.spec import Material, choices_of
    from app.observability import configure_logging

    configure_logging("warning")
    model = open_registry().find(name, include_inactive=True)
    if data is not None and records is None:
        records = "same"  # today's model has not seen them, so they vary from it as they are
    changes = {
        "source": source, "records": records, "search": search, "held_back": held_back, "seed": seed,
        "stress": stress_of(stress) if stress else None,
    }  # fmt: skip
    material = Material(command=command, timeout_s=timeout, data=data, folder=folder)
    run(model, choices_of(model, **changes), material)


def stress_of(texts: list[str]) -> str | list[dict[str, str]]:
    """The stresses that option values name: `auto`, `none`, or a dict with `column` and `direction` for each value."""
    if texts in (["auto"], ["none"]):
        return texts[0]
    found = []
    for text in texts:
        column, _, direction = text.rpartition("=")
        if not column or direction not in ("up", "down"):
            raise typer.BadParameter("--stress must be COLUMN=up or COLUMN=down, or auto or none alone")
        found.append({"column": column, "direction": direction})
    return found


def run(model: "RegisteredModel", choices: "Choices", material: "Material") -> None:
    """Make future models with a progress bar, and print what was made."""
    from app.futures.rehearsal import rehearse as make

    with progress_bar("rehearsing") as progress:
        record = make(model, choices, material, progress=progress)
    dropped = sum(one.dropped for one in record.sets.values())
    typer.echo(
        f"{model.name} has {record.search.models} future models for searches and {record.held_back.models} held back "
        f"({record.source}, {record.recipe}); they agree with it on {percent(record.agreement)}% of unseen "
        "reference records."
    )
    if record.stressed_search and record.stressed:
        stresses = ", ".join(f"{one.column}={one.direction}" for one in record.stresses)
        more = record.stressed_search.models + record.stressed.models
        typer.echo(f"{more} more are for the stress {stresses}; they say how far answers hold if applicants change.")
        typer.echo(_curve_text(model))
    if record.advice:
        typer.echo(record.advice, err=True)
    if dropped:
        typer.echo(f"Dropped {dropped} that are no better than chance.", err=True)
    if record.labels == "own_decisions":
        typer.echo(
            "They are fitted to the model's own decisions, which understates the effect of retraining: name the column "
            "of true outcomes in the manifest, as label.",
            err=True,
        )


def _curve_text(model: "RegisteredModel") -> str:
    """Strength -> share: how many held-back models accept the reference records that today's model accepts."""
    import numpy as np

    from app.futures.store import load_futures

    loaded, futures = model.load(), load_futures(model)
    accepted = loaded.reference.rows_raw[loaded.reference.scores >= 0.0][:CURVE_RECORDS]
    if futures is None or futures.stressed is None or not len(accepted):
        return "No reference record shows how far acceptances hold."
    stress = futures.stressed
    shares = (stress.accepted(stress.models.scores_raw(accepted)) / stress.counted).mean(axis=0)
    plain = float(futures.held_back.shares(accepted).mean())
    lowest = np.minimum.accumulate(np.concatenate([[plain], shares.min(axis=0)]))
    hardest = stress.stresses[int(shares[:, -1].argmin())]
    points = ", ".join(f"{s:g}: {100 * y:.0f}" for s, y in zip(stress.strengths, lowest[1:].tolist(), strict=True))
    return (
        f"Of records that {model.name} accepts, future models accept on average {100 * plain:.0f} in 100 if applicants "
        f"stay as they are, and if they change, by strength: {points} (hardest: {hardest.column}={hardest.direction})."
    )
