"""The commands ``recourse models …``: draft, try, register, list, activate and retire models."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.common import (
    SCORE_TOLERANCE,
    DirectoryArgument,
    ScoresOption,
    ToleranceOption,
    TrustPickleOption,
    memory_limit,
    new_table,
    open_registry,
    print_table,
    read_settings,
    report,
)

if TYPE_CHECKING:
    from rich.table import Table

    from app.registry.registry import Registry
    from app.registry.version import RegisteredModel

cli = typer.Typer(help="Registered models.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="id@version, or id for the newest active version.")]


@cli.command()
def register(
    directory: DirectoryArgument,
    trust_pickle: TrustPickleOption = False,
    scores: ScoresOption = None,
    score_tolerance: ToleranceOption = SCORE_TOLERANCE,
    activate_: Annotated[
        Literal["ready", "now"],
        typer.Option("--activate", help="When it takes the place of a version with future models: once it has them."),
    ] = "ready",
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Register without activating; see `recourse models activate`.")
    ] = False,
) -> None:
    """Check a model and install it, or report all its faults."""
    from app.models.first_load import load_first, runs_foreign_code

    settings = read_settings(trust_pickle=trust_pickle or None)
    registry = open_registry(trust_pickle=trust_pickle or None)
    with memory_limit(settings.child_memory_mb):
        model = registry.register(directory, active=False, scores=scores, tolerance=score_tolerance)
    try:
        if runs_foreign_code(model):
            load_first(settings, model)
    except BaseException:
        registry.discard(model.name)
        raise
    if not inactive:
        waits = activate_ == "ready" and _succeeds(registry, model)
        (registry.activate_when_ready if waits else registry.activate)(model.name)
    model = registry.find(model.name, include_inactive=True)
    report(f"Registered {model.name}:", model)
    if model.runs_code:
        typer.echo("Servers and workers load it only with RECOURSE_TRUST_PICKLE=true.", err=True)
    if model.succeeds:
        typer.echo(
            "The version before answers until this one has future models. A server makes them (RECOURSE_REHEARSE), or: "
            f"recourse models rehearse {model.name}",
            err=True,
        )
    elif model.manifest.label is not None and model.manifest.futures.source != "none":
        typer.echo(f"To measure what its next training changes: recourse models rehearse {model.name}", err=True)


def _succeeds(registry: "Registry", model: "RegisteredModel") -> bool:
    """Whether a version can have future models, and the one whose place it takes has some: clients may ask for them."""
    from app.errors import ModelUnusable, UnknownModel
    from app.futures.store import can_have_futures, status

    try:
        before = registry.find(model.id)
    except (UnknownModel, ModelUnusable):
        return False
    return can_have_futures(model) and status(before)["status"] == "ready" and status(model)["status"] != "ready"


@cli.command("list")
def list_models() -> None:
    """List all registered versions, in the order of registration."""
    registry = open_registry()
    models, broken = registry.list(), registry.broken()
    if not models and not broken:
        typer.echo(f"No model is registered in {registry.root}.")
        return
    newest = {model.id: model.name for model in models if model.active}
    table = new_table("name", "title", "format", "registered", "state")
    for model in models:
        state = _state(model) + (", newest" if newest.get(model.id) == model.name else "")
        registered = f"{model.registered_at:%Y-%m-%d %H:%M}"
        table.add_row(model.name, model.manifest.title, model.manifest.artifact.format, registered, state)
    for version in broken:
        table.add_row(version.name, "", "", f"{version.registered_at:%Y-%m-%d %H:%M}", "unusable")
    print_table(table)
    for version in broken:
        typer.echo(str(version.error), err=True)


@cli.command()
def show(name: NameArgument) -> None:
    """Show one version: its decision, its features and what a person can change."""
    model = open_registry().find(name, include_inactive=True)
    for key, value in _facts(model).items():
        typer.echo(f"{key + ':':<14}{value}")
    for note in model.registration.notes:
        typer.echo(f"{'checked:':<14}{note}")
    for warning in model.registration.warnings:
        typer.echo(f"{'warning:':<14}{warning}")
    print_table(_features(model))
    for rule in model.rules:
        typer.echo(f"{'rule:':<14}{rule.text}")


@cli.command()
def activate(name: NameArgument) -> None:
    """Activate a version that was registered with --inactive, or waits for its future models."""
    typer.echo(f"Activated {open_registry().activate(name)}.")


@cli.command()
def retire(name: NameArgument) -> None:
    """Retire a version permanently; its files stay."""
    typer.echo(f"Retired {open_registry().retire(name)}.")


@cli.command()
def release(name: NameArgument) -> None:
    """Let running servers load a version again that they hold in quarantine."""
    typer.echo(f"Released {open_registry().release(name)}; servers load it again at the next request for it.")


def _state(model: "RegisteredModel") -> str:
    if model.retired:
        return "retired"
    if model.succeeds:
        return "active once it has future models"
    return "inactive" if model.waiting else "active"


def _facts(model: "RegisteredModel") -> dict[str, object]:
    from app.registry.artifact import Endpoint

    manifest, registration = model.manifest, model.registration
    artifact = manifest.artifact
    where = artifact.url if isinstance(artifact, Endpoint) else artifact.path
    return {
        "name": model.name + ("" if model.active else f" ({_state(model)})"),
        "title": manifest.title,
        "description": manifest.description or "-",
        "artifact": f"{artifact.format}, {where}, sha256 {model.sha256}",
        "decision": f"{manifest.output} of {manifest.favourable!r}, favourable from {manifest.threshold:g}",
        "reference": f"{registration.records:,} records, {registration.favourable:,} of them accepted",
        "futures": _futures(model),
        "registered": f"{model.registered_at:%Y-%m-%d %H:%M:%S} UTC in {model.directory}",
    }


def _futures(model: "RegisteredModel") -> str:
    from app.futures.store import status

    found = status(model)
    if found["status"] == "ready":
        stresses = ", ".join("{column}={direction}".format(**one) for one in found["stress"])
        stress = f", and under the stress {stresses}" if stresses else ""
        return f"{found['search']} for searches and {found['held_back']} held back, {found['source']}{stress}"
    return found["status"] + (f": {found['detail']}" if found["detail"] else "")


def _features(model: "RegisteredModel") -> "Table":
    table = new_table("feature", "type", "values", "unit", "change")
    for feature in model.space.schema:
        low, high = feature.range_raw
        values = f"{low:g} to {high:g}" if feature.is_number else ", ".join(str(level) for level in feature.categories)
        if not feature.is_number and not feature.categories:
            values = "False, True"
        states = [f"{code:g} ({meaning})" for code, meaning in feature.special.items()]
        states += ["missing"] if feature.missing else []
        change = "derived" if feature.derived else "none" if feature.is_fixed else feature.change.value
        table.add_row(feature.name, feature.type, ", ".join([values, *states]), feature.unit or "", change)
    return table
