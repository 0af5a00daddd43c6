"""The command line: ``recourse serve | worker | batch | demo | models | keys | verify | replay | db | openapi``.

Everything heavy is imported by the command that needs it, so that ``--help`` answers at once. What a user can cause
ends in one sentence on standard error and exit code 1.
"""

import _thread
import json
import math
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.errors import RecourseError, UnknownModel

if TYPE_CHECKING:
    import httpx
    from rich.progress import Progress
    from rich.table import Table
    from sqlalchemy import Engine

    from app.registry.registered import RegisteredModel
    from app.registry.registry import Registry
    from app.service import RecourseQuery
    from app.settings import Settings
    from app.store.ledger import Ledger

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

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
keys_cli = typer.Typer(help="The keys of those who may ask the service.", no_args_is_help=True)
cli.add_typer(keys_cli, name="keys")
db_cli = typer.Typer(help="The ledger of recourse given.", no_args_is_help=True)
cli.add_typer(db_cli, name="db")


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
def worker() -> None:
    """Compute jobs until told to stop; any number of them share one RECOURSE_DATABASE_URL."""
    settings = _settings()
    from app.main import work

    work(settings)


@cli.command()
def batch(
    source: Annotated[
        Path,
        typer.Option("--input", help="Applicants: .csv or .parquet with a column for each feature, .ndjson with rows."),
    ],
    output: Annotated[Path, typer.Option("--output", help="Where the answers go: .ndjson, .csv or .parquet.")],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="id@version, or id for the newest version.")],
    question: Annotated[
        Path | None, typer.Option("--question", help="JSON file: method, constraints, cost, certificate, deadline_ms.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Row i has this seed plus i, counted from 0.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was stopped.")] = False,
) -> None:
    """Answer many applicants without a server."""
    import asyncio

    from app import batch_files
    from app.observability import configure_logging
    from app.service import Service

    configure_logging("warning")
    settings = _settings()
    service = Service(settings)
    files = batch_files.Batch(
        source=source,
        output=output,
        model=_registry().find(model),
        payload=service.batch_payload(_batch_question(model, question, seed)),
    )
    try:
        done, total = files.begin(resume=resume), files.count()
        with _progress_bar() as bar:
            shown = bar.add_task("applicants", total=total, completed=done)
            asyncio.run(batch_files.compute(settings, files, done, lambda now: bar.update(shown, completed=now)))
    except batch_files.BatchRefused as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What is done is in {files.part}; --resume goes on from there.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"{batch_files.summary(files.finish())} Written to {output}.")


def _batch_question(model: str, file: Path | None, seed: int) -> "RecourseQuery":
    from app.api.json_route import read_json
    from app.api.routes.batch import validated
    from app.api.routes.recourse import query_of
    from app.api.schemas.batch import BatchCommon

    told = {} if file is None else read_json(file.read_bytes())
    if not isinstance(told, dict):
        raise CommandError(f"{file} must hold one JSON object.")
    # There is no ledger without a service.
    return replace(query_of(validated(BatchCommon, {**told, "model": model, "seed": seed})), store=False)


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
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Only to be examined, until `recourse models activate`.")
    ] = False,
) -> None:
    """Examine a model and install it; a bad one is refused with all its faults."""
    model = _registry(trust_pickle=trust_pickle or None).register(directory, active=not inactive)
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
    newest = {model.id: model.name for model in models if model.active}
    table = _table("name", "title", "format", "registered", "state")
    for model in models:
        state = _state(model) + (", newest" if newest.get(model.id) == model.name else "")
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
    model = _registry().find(name, include_inactive=True)
    for key, value in _facts(model).items():
        typer.echo(f"{key + ':':<14}{value}")
    for warning in model.registration.warnings:
        typer.echo(f"{'warning:':<14}{warning}")
    _print(_features(model))
    for rule in model.rules:
        typer.echo(f"{'rule:':<14}{rule.text}")


@models_cli.command()
def activate(name: NameArgument) -> None:
    """Let a version answer applicants that was registered with --inactive."""
    typer.echo(f"Activated {_registry().activate(name)}.")


@models_cli.command()
def retire(name: NameArgument) -> None:
    """Take a version out of use, for good; its files stay."""
    typer.echo(f"Retired {_registry().retire(name)}.")


def _registry(*, trust_pickle: bool | None = None) -> "Registry":
    settings = _settings(trust_pickle=trust_pickle)
    from app.registry.registry import Registry

    return Registry(settings.models_store, trust_pickle=settings.trust_pickle, remote_hosts=settings.remote_hosts)


def _state(model: "RegisteredModel") -> str:
    return "retired" if model.retired else "inactive" if model.waiting else "active"


def _facts(model: "RegisteredModel") -> dict[str, object]:
    from app.registry.manifest import Endpoint

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


# --- API keys --------------------------------------------------------------------------------------------------------


ScopeOption = Annotated[
    list[str],
    typer.Option("--scope", help="What it may be used for: recourse, models, audit. Several times for several."),
]


@keys_cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it, to know it again in the list.")],
    scope: ScopeOption,
) -> None:
    """Make a key and print it, this once. From then on the service asks every caller for one."""
    from app.store.keys import Keys, Scope

    if unknown := set(scope) - {*Scope}:
        raise CommandError(f"There is no scope {', '.join(sorted(unknown))}; there are {', '.join(Scope)}.")
    with _store() as engine:
        typer.echo(Keys(engine).create(name, [Scope(one) for one in scope], datetime.now(UTC)))


@keys_cli.command("list")
def list_keys() -> None:
    """All keys, without their secrets."""
    from app.store.keys import Keys

    with _store() as engine:
        found = Keys(engine).list()
    if not found:
        typer.echo("There is no key.")
        return
    table = _table("id", "name", "scopes", "created", "revoked")
    for key in found:
        table.add_row(key.id, key.name, " ".join(sorted(key.scopes)), key.created_at, key.revoked_at or "")
    _print(table)


@keys_cli.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(metavar="ID", help="As `recourse keys list` shows it.")]) -> None:
    """Make a key useless, for good; running servers know within a second."""
    from app.store.keys import Keys

    with _store() as engine:
        Keys(engine).revoke(key_id, datetime.now(UTC))
    typer.echo(f"Revoked {key_id}.")


# --- the ledger ------------------------------------------------------------------------------------------------------


@db_cli.command()
def upgrade() -> None:
    """Make the tables of the ledger, or bring them up to date; the service does the same when it starts."""
    from app.store.migrate import upgrade as migrate

    with _ledger_engine() as engine:
        before, after = migrate(engine)
    typer.echo(f"The ledger is up to date ({after})." if before == after else f"The ledger is now at {after}.")


@db_cli.command("verify")
def verify_chain(
    head: Annotated[
        str | None, typer.Option("--head", help="A hash that this command told before; it must still be in the chain.")
    ] = None,
) -> None:
    """Look at every entry of the ledger; the first one that is not as it was written is named."""
    with _ledger() as ledger:
        proof = ledger.prove()
        cut = head is not None and not ledger.holds(head)
    if proof.broken is not None:
        named = f" ({proof.broken.id})" if proof.broken.id else ""
        raise CommandError(f"Entry {proof.broken.number:,}{named} {proof.broken.reason}.")
    if cut:
        raise CommandError(f"The chain holds, but no entry of it has the hash {head}.")
    typer.echo(f"The chain holds: {proof.entries:,} entries, {proof.erased:,} of them erasures. Head: {proof.head}")


@db_cli.command()
def sweep() -> None:
    """Erase the personal data of recourse that is old enough and has expired; the service does so every hour."""
    import asyncio

    settings = _settings()
    from app.service import sweep as sweep_ledger

    typer.echo(f"Erased {asyncio.run(sweep_ledger(settings)):,}.")


RecourseArgument = Annotated[str, typer.Argument(metavar="ID", help="Of a recourse in the ledger, rec_...")]


@cli.command()
def verify(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The version that is asked, id@version; active or not.")],
    recourse_id: Annotated[str | None, typer.Option("--id", help="Only this recourse, rec_...")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only promises given at this time (UTC) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only promises given before this time (UTC).")] = None,
    reissue: Annotated[bool, typer.Option("--reissue", help="Find what broken promises would cost now.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="File for the broken promises, as NDJSON.")] = None,
) -> None:
    """Ask a version of a model which promises it would keep; ends with exit code 1 if it breaks any."""
    settings = _settings()
    from app.jobs import promises, task
    from app.jobs.answer import encoded
    from app.store.engine import database_url
    from app.store.ledger import FILE, Promises
    from app.store.moments import timestamp

    root, trust = str(settings.models_store.absolute()), settings.trust_pickle
    store = task.Store(root=root, trust_pickle=trust, ledger=database_url(settings, FILE))
    model = store.open().find(name, include_inactive=True)
    ref = task.ModelRef.of(store, model)
    if recourse_id is not None:
        with _ledger() as ledger:
            promised = promises.promised(ledger.find(recourse_id))
        checks = promises.verify(ref, promised, deadline_s=math.inf) if promised else []
        for check in checks:
            typer.echo(json.dumps(check))
        raise typer.Exit(int(not all(check["favourable"] for check in checks)))
    since_text, until_text = (None if at is None else timestamp(at.replace(tzinfo=UTC)) for at in (since, until))
    which = Promises(model=model.id, as_of=timestamp(datetime.now(UTC)), since=since_text, until=until_text)
    payload = promises.audit_payload(ref, model, which, reissue=reissue)
    with _ledger(), _progress("asking") as progress:
        result = promises.audit(ref, payload, deadline_s=math.inf, progress=progress)
    broken = result.pop("broken_promises")
    if output is not None:
        output.write_bytes(b"".join(encoded(one) + b"\n" for one in broken))
    typer.echo(json.dumps(result, indent=2))
    raise typer.Exit(int(bool(broken)))


@cli.command()
def replay(recourse_id: RecourseArgument) -> None:
    """Compute a stored answer again and compare it, apart from id, times and timings."""
    from app.jobs.pool import ONE_THREAD

    # As in the processes that answer: numeric libraries read this when they are imported, and it decides the last bits.
    os.environ.update(ONE_THREAD)
    settings = _settings()
    from app.jobs import promises, task

    store = task.Store(root=str(settings.models_store.absolute()), trust_pickle=settings.trust_pickle)
    with _ledger() as ledger:
        record = ledger.find(recourse_id)
    differing = promises.replay(store, record, settings.plan_budget_ms / 1000.0)
    if differing:
        raise CommandError(f"{recourse_id} has another answer now: {', '.join(differing)} differ.")
    typer.echo(f"{recourse_id} has the same answer, byte for byte, apart from id, times and timings.")


@contextmanager
def _ledger() -> "Iterator[Ledger]":
    from app.store.ledger import Ledger

    with _store() as engine:
        yield Ledger(engine)


@contextmanager
def _store() -> "Iterator[Engine]":
    """The database with the tables that this release needs."""
    from app.store.migrate import upgrade as migrate

    with _ledger_engine() as engine:
        migrate(engine)
        yield engine


@contextmanager
def _ledger_engine() -> "Iterator[Engine]":
    settings = _settings()
    import sqlalchemy as sa

    from app.store.engine import database_url, open_engine
    from app.store.ledger import FILE
    from app.store.state import require_state

    require_state(settings)
    engine = open_engine(database_url(settings, FILE))
    try:
        yield engine
    except sa.exc.DBAPIError as error:
        raise CommandError(f"The ledger cannot be used: {error.orig}") from error
    finally:
        engine.dispose()


@contextmanager
def _progress(what: str) -> "Iterator[Callable[[int, int], None]]":
    """Shows on standard error how far the work is, where somebody looks at it."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


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
        import httpx

        from app.api.examples import DEMO_MODEL

        self._wait(client)
        described = client.get(f"/models/{DEMO_MODEL}/schema")
        if described.status_code == httpx.codes.UNAUTHORIZED:
            return f"\nThis service asks everybody for an API key, so the demo asks nothing.{_pages(self.url)}"
        schema = _json(described)
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
    return "\n".join(lines) + _pages(url)


def _pages(url: str) -> str:
    """Where to go on from here."""
    return "\n".join(["", "", f"As a page: {url}/workbench", f"Every request: {url}/docs", "Stop with Ctrl-C.", ""])


def _decision(decision: dict[str, Any]) -> str:
    word = "yes" if decision["favourable"] else "no"
    return word if decision["probability"] is None else f"{word} (probability {decision['probability']:.0%})"


if __name__ == "__main__":
    main()
