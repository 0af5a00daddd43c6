"""The commands ``recourse verify`` and ``recourse replay``: check promises and answers in the ledger against models."""

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import CommandError, RecourseArgument, progress_bar, read_settings
from app.cli.database import open_ledger


def verify(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Version to check against, id@version; active or not.")],
    recourse_id: Annotated[str | None, typer.Option("--id", help="Only this recourse, rec_...")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only promises given at this time (UTC) or later.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only promises given before this time (UTC).")] = None,
    reissue: Annotated[bool, typer.Option("--reissue", help="Compute new recourse for broken promises.")] = False,
    output: Annotated[Path | None, typer.Option("--output", help="File for the broken promises, as NDJSON.")] = None,
) -> None:
    """Check which promises a version of a model keeps; exits with code 1 if it breaks any promise."""
    settings = read_settings()
    from app.keys.keys import seen_by
    from app.ledger import audits
    from app.ledger.entries import promised
    from app.ledger.ledger import FILE
    from app.ledger.promises import Promises
    from app.questions.answers import encoded, plain
    from app.questions.frame import identity
    from app.registry.ref import ModelRef, Store
    from app.store.engine import database_url

    store = Store.of(settings, ledger=database_url(settings, FILE))
    model = store.open().find(name, include_inactive=True)
    ref = ModelRef.of(store, model)
    if recourse_id is not None:
        with open_ledger() as ledger:
            record = ledger.find(recourse_id)
            records = promised(record)
            checks = audits.verify(ref, records, deadline_s=math.inf) if records else []
            kept = all(check["favourable"] for check in checks)
            if checks:
                audits.note(ledger, plain(identity(model)), [(record, kept)])
        for check in checks:
            typer.echo(json.dumps(check))
        raise typer.Exit(int(not kept))
    since, until = (at and at.replace(tzinfo=UTC) for at in (since, until))
    which = Promises.unexpired(model.id, since=since, until=until)
    payload = audits.audit_payload(ref, model, which, reissue=reissue)
    with open_ledger() as ledger, progress_bar("checking") as progress:
        result = audits.audit(ref, payload, deadline_s=math.inf, progress=progress)
        broken = audits.with_references(ledger, result.pop("broken_promises"), seen_by(None))
    if output is not None:
        output.write_bytes(b"".join(encoded(one) + b"\n" for one in broken))
    typer.echo(json.dumps(result, indent=2))
    raise typer.Exit(int(bool(broken)))


def replay(recourse_id: RecourseArgument) -> None:
    """Compute a stored answer again, and compare it with the stored one, apart from id, times and timings."""
    from app.pool.child import ONE_THREAD

    # As in the child processes: numeric libraries read this on import, and it affects the last bits of results.
    os.environ.update(ONE_THREAD)
    settings = read_settings()
    from app.ledger.replay import replay as differences
    from app.registry.ref import Store

    with open_ledger() as ledger:
        record = ledger.find(recourse_id)
    differing = differences(Store.of(settings), record, settings.plan_budget_ms / 1000.0)
    if differing:
        raise CommandError(f"{recourse_id} has another answer now: {', '.join(differing)} differ.")
    typer.echo(f"{recourse_id} has the same answer, byte for byte, apart from id, times and timings.")
