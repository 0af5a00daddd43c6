"""The commands ``recourse verify`` and ``recourse replay``: what the ledger holds, against models."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import CommandError, read_settings
from app.cli.database import open_ledger

RecourseArgument = Annotated[str, typer.Argument(metavar="ID", help="Of a recourse in the ledger, rec_...")]


def verify(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The version that is asked, id@version; active or not.")],
    recourse_id: Annotated[str | None, typer.Option("--id", help="Only this recourse, rec_...")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only promises given at this time (UTC) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only promises given before this time (UTC).")] = None,
    reissue: Annotated[bool, typer.Option("--reissue", help="Find what broken promises would cost now.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="File for the broken promises, as NDJSON.")] = None,
) -> None:
    """Ask a version of a model which promises it would keep; ends with exit code 1 if it breaks any."""
    settings = read_settings()
    from app.jobs import promises
    from app.jobs.answer import encoded
    from app.jobs.asked import ModelRef, Store
    from app.store.engine import database_url
    from app.store.ledger import FILE, Promises

    store = Store.of(settings, ledger=database_url(settings, FILE))
    model = store.open().find(name, include_inactive=True)
    ref = ModelRef.of(store, model)
    if recourse_id is not None:
        with open_ledger() as ledger:
            promised = promises.promised(ledger.find(recourse_id))
        checks = promises.verify(ref, promised, deadline_s=math.inf) if promised else []
        for check in checks:
            typer.echo(json.dumps(check))
        raise typer.Exit(int(not all(check["favourable"] for check in checks)))
    since, until = (at and at.replace(tzinfo=UTC) for at in (since, until))
    which = Promises.unexpired(model.id, since=since, until=until)
    payload = promises.audit_payload(ref, model, which, reissue=reissue)
    with open_ledger(), _progress("asking") as progress:
        result = promises.audit(ref, payload, deadline_s=math.inf, progress=progress)
    broken = result.pop("broken_promises")
    if output is not None:
        output.write_bytes(b"".join(encoded(one) + b"\n" for one in broken))
    typer.echo(json.dumps(result, indent=2))
    raise typer.Exit(int(bool(broken)))


def replay(recourse_id: RecourseArgument) -> None:
    """Compute a stored answer again and compare it, apart from id, times and timings."""
    from app.jobs.pool import ONE_THREAD

    # As in the processes that answer: numeric libraries read this when they are imported, and it decides the last bits.
    os.environ.update(ONE_THREAD)
    settings = read_settings()
    from app.jobs import promises
    from app.jobs.asked import Store

    with open_ledger() as ledger:
        record = ledger.find(recourse_id)
    differing = promises.replay(Store.of(settings), record, settings.plan_budget_ms / 1000.0)
    if differing:
        raise CommandError(f"{recourse_id} has another answer now: {', '.join(differing)} differ.")
    typer.echo(f"{recourse_id} has the same answer, byte for byte, apart from id, times and timings.")


@contextmanager
def _progress(what: str) -> "Iterator[Callable[[int, int], None]]":
    """Shows on standard error how far the work is, where somebody looks at it."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
