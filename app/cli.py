"""The command line: ``recourse serve | demo | models | openapi``.

Everything heavy is imported by the command that needs it, so that ``--help`` answers at once. What a user can cause
ends in one sentence on standard error and exit code 1.
"""

import _thread
import json
import shlex
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.errors import RecourseError, UnknownModel

if TYPE_CHECKING:
    import httpx
    from rich.table import Table

    from app.registry.registered import RegisteredModel
    from app.registry.registry import Registry
    from app.settings import Settings

READY_S = 120.0
"""How long the demo waits for the service to be ready."""

POLL_S = 0.25
"""How often it looks."""

cli = typer.Typer(
    help="Robust algorithmic recourse: what could this person change so that the answer becomes yes, and stays yes?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
models_cli = typer.Typer(help="The models that the service knows.", no_args_is_help=True)
cli.add_typer(models_cli, name="models")


class CommandError(Exception):
    """The command could not do its work; the sentence says why."""


def main() -> None:
    """Run the command line; the entry point `recourse`."""
    try:
        cli()
    except (RecourseError, CommandError) as error:
        sys.exit(_fail(str(error)))
    except OSError as error:
        sys.exit(_fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"))


def _fail(sentence: str) -> int:
    typer.echo(sentence, err=True)
    return 1


HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on; RECOURSE_HOST otherwise.")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on; RECOURSE_PORT otherwise.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="id@version, or id for the newest active version.")]


# --- the service -----------------------------------------------------------------------------------------------------


@cli.command()
def serve(host: HostOption = None, port: PortOption = None) -> None:
    """Answer over HTTP until told to stop."""
    settings = _settings(host=host, port=port)
    _refuse_taken(settings)
    from app.main import serve as run

    run(settings)


@cli.command()
def openapi(
    output: Annotated[Path | None, typer.Option("--output", help="File to write; standard output otherwise.")] = None,
) -> None:
    """Write the description of the HTTP interface, openapi.json."""
    from app.api.openapi import render

    if output is None:
        typer.echo(render(), nl=False)
    else:
        output.write_text(render(), encoding="utf-8")


def _settings(**overrides: Any) -> "Settings":
    """The settings of the environment, and what the command line says instead."""
    from pydantic import ValidationError

    from app.settings import Settings

    try:
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        faults = [f"RECOURSE_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors()]
        raise CommandError("\n".join(faults)) from error


def _refuse_taken(settings: "Settings") -> None:
    """Say so before anything is started, if the address cannot be listened on."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise CommandError(
                f"{settings.host}:{settings.port} cannot be listened on ({error.strerror}); "
                "another program may be using it: choose a port with --port or RECOURSE_PORT"
            ) from error


# --- models ----------------------------------------------------------------------------------------------------------


@models_cli.command()
def register(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory with model.yaml and the files it names.")],
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Read .joblib and .pkl files, which can run any code.")
    ] = False,
) -> None:
    """Examine a model and install it; a bad one is refused with all its faults."""
    model = _registry(trust_pickle=trust_pickle or None).register(directory)
    registration = model.registration
    typer.echo(
        f"Registered {model.name}: accepts {registration.favourable:,} of {registration.records:,} reference records."
    )
    for warning in registration.warnings:
        typer.echo(f"Warning: {warning}", err=True)


@models_cli.command("list")
def list_models() -> None:
    """All registered versions, in the order of registration."""
    registry = _registry()
    models, broken = registry.list(), registry.broken()
    if not models and not broken:
        typer.echo(f"No model is registered in {registry.root}.")
        return
    newest = {model.id: model.name for model in models if not model.retired}
    table = _table("name", "title", "format", "registered", "state")
    for model in models:
        state = "retired" if model.retired else "active, newest" if newest[model.id] == model.name else "active"
        registered = f"{model.registered_at:%Y-%m-%d %H:%M}"
        table.add_row(model.name, model.manifest.title, model.manifest.artifact.format, registered, state)
    for version in broken:
        table.add_row(version.name, "", "", f"{version.registered_at:%Y-%m-%d %H:%M}", "unusable")
    _print(table)
    for version in broken:
        typer.echo(str(version.error), err=True)


@models_cli.command()
def show(name: NameArgument) -> None:
    """One version: what it decides on, and what a person can change."""
    model = _registry().find(name, include_retired=True)
    for key, value in _facts(model).items():
        typer.echo(f"{key + ':':<14}{value}")
    for warning in model.registration.warnings:
        typer.echo(f"{'warning:':<14}{warning}")
    _print(_features(model))
    for rule in model.rules:
        typer.echo(f"{'rule:':<14}{rule.text}")


@models_cli.command()
def retire(name: NameArgument) -> None:
    """Take a version out of use, for good; its files stay."""
    typer.echo(f"Retired {_registry().retire(name)}.")


def _registry(*, trust_pickle: bool | None = None) -> "Registry":
    settings = _settings(trust_pickle=trust_pickle)
    from app.registry.registry import Registry

    return Registry(settings.models_store, trust_pickle=settings.trust_pickle)


def _facts(model: "RegisteredModel") -> dict[str, object]:
    manifest, registration = model.manifest, model.registration
    return {
        "name": model.name + (" (retired)" if model.retired else ""),
        "title": manifest.title,
        "description": manifest.description or "-",
        "artifact": f"{manifest.artifact.format}, {manifest.artifact.path}, sha256 {model.sha256}",
        "decision": f"{manifest.output} of {manifest.favourable!r}, favourable from {manifest.threshold:g}",
        "reference": f"{registration.records:,} records, {registration.favourable:,} of them accepted",
        "registered": f"{model.registered_at:%Y-%m-%d %H:%M:%S} UTC in {model.directory}",
    }


def _features(model: "RegisteredModel") -> "Table":
    table = _table("feature", "type", "values", "unit", "change")
    for feature in model.space.features:
        low, high = feature.range_raw
        values = f"{low:g} to {high:g}" if feature.is_number else ", ".join(str(level) for level in feature.levels)
        table.add_row(feature.name, feature.type, values, feature.unit or "", feature.change)
    return table


def _table(*headings: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: "Table") -> None:
    from rich.console import Console

    # Names and titles are the lender's: brackets in them are no markup.
    Console(markup=False, emoji=False, highlight=False).print(table)


# --- the demo --------------------------------------------------------------------------------------------------------


@cli.command()
def demo(host: HostOption = None, port: PortOption = None) -> None:
    """Start the service, ask it one question, keep serving."""
    settings = _settings(host=host, port=port)
    _refuse_taken(settings)
    _refuse_missing_demo(settings)
    if settings.port == 0:
        settings = settings.model_copy(update={"port": _free_port(settings.host)})
    from app.main import serve as run

    question = _Question(_url(settings))
    threading.Thread(target=question.run, name="demo", daemon=True).start()
    run(settings)
    if question.failure is not None:
        raise question.failure


def _refuse_missing_demo(settings: "Settings") -> None:
    from app.api.examples import DEMO_MODEL
    from app.registry.registry import Registry

    try:
        Registry(settings.models_store).find(DEMO_MODEL)
    except UnknownModel as error:
        raise CommandError(
            f"The demo asks {DEMO_MODEL}, which is not in {settings.models_store.absolute()}: start it in the "
            "directory of the repository, or set RECOURSE_MODELS_STORE."
        ) from error


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _url(settings: "Settings") -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


@dataclass(slots=True)
class _Question:
    """The demo's client: asks the service that runs in the main thread, and stops it if there is no answer."""

    url: str
    failure: CommandError | None = field(default=None, init=False)

    def run(self) -> None:
        """Ask, and print the answer."""
        import httpx

        try:
            with httpx.Client(base_url=self.url, timeout=30.0, trust_env=False) as client:
                typer.echo(self._ask(client))
        except (httpx.HTTPError, CommandError) as error:
            self.failure = error if isinstance(error, CommandError) else CommandError(f"The demo failed: {error!r}")
            _thread.interrupt_main()

    def _ask(self, client: "httpx.Client") -> str:
        from app.api.examples import DEMO_MODEL

        self._wait(client)
        schema = _json(client.get(f"/models/{DEMO_MODEL}/schema"))
        body = {"model": DEMO_MODEL, "applicant": schema["sample"]}
        return _told(self.url, body, _json(client.post("/recourse", json=body)))

    def _wait(self, client: "httpx.Client") -> None:
        import httpx

        until, said = time.monotonic() + READY_S, "it does not listen"
        while time.monotonic() < until:
            try:
                response = client.get("/health/ready")
            except httpx.TransportError:
                pass
            else:
                if response.is_success:
                    return
                said = response.text
            time.sleep(POLL_S)
        raise CommandError(f"The demo failed: the service was not ready within {READY_S:g} s: {said}")


def _json(response: "httpx.Response") -> Any:
    if response.is_success:
        return response.json()
    raise CommandError(f"The demo failed: {response.request.url} answered {response.status_code}: {response.text}")


def _told(url: str, body: dict[str, Any], answer: dict[str, Any]) -> str:
    """The answer for people, and how to ask again."""
    factual, found = answer["factual"], answer["counterfactuals"]
    lines = ["", f"{answer['model']['id']} was asked about this applicant:"]
    lines += [f"    {name:<20}{value}" for name, value in body["applicant"].items()]
    lines += ["", f"It says {_decision(factual)}."]
    for counterfactual in found:
        lines += ["", f"Asked again, it says {_decision(counterfactual['validity']['current'])} after this:"]
        lines += [f"    {change['text']}" for change in counterfactual["changes"]]
    if not found and answer["detail"]:
        lines += [answer["detail"]]
    curl = f"curl -s {url}/recourse -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
    lines += ["", "The same question from another terminal:", "", curl]
    return "\n".join([*lines, "", f"All of it to try out: {url}/docs", "Stop with Ctrl-C.", ""])


def _decision(decision: dict[str, Any]) -> str:
    word = "yes" if decision["favourable"] else "no"
    return word if decision["probability"] is None else f"{word} (probability {decision['probability']:.0%})"


if __name__ == "__main__":
    main()
