"""The command ``recourse notice``: the letter about a recourse in the ledger."""

import json
import math
import os
from datetime import datetime
from typing import Annotated, Literal

import typer

from app.cli.common import CommandError, RecourseArgument, read_settings
from app.cli.database import open_ledger


def notice(
    recourse_id: RecourseArgument,
    lang: Annotated[str | None, typer.Option("--lang", help="Language; default: RECOURSE_NOTICE_LANGUAGE.")] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Write it also where settings are missing, as a draft.")
    ] = False,
    addressee: Annotated[
        str, typer.Option("--addressee", help="Name and address, lines separated by semicolons.")
    ] = "",
    applied_on: Annotated[
        datetime | None, typer.Option("--applied-on", formats=["%Y-%m-%d"], help="Date of the application.")
    ] = None,
    form: Annotated[Literal["text", "html"], typer.Option("--format", help="Form of the letter.")] = "text",
) -> None:
    """Write the letter about a recourse in the ledger to standard output."""
    from app.pool.child import ONE_THREAD

    os.environ.update(ONE_THREAD)
    settings = read_settings()
    from app.ledger.entries import personal_data
    from app.letters.facts import version_of
    from app.letters.given import lender_of, missing_reasons, notice_about, offer_share_of
    from app.letters.regime import Templates
    from app.questions import use_cases
    from app.registry.ref import ModelRef, Store

    templates = Templates.of(settings)
    language = lang or templates.default
    if language not in templates.letters:
        raise CommandError(f"--lang must be one of {', '.join(templates.letters)}")
    with open_ledger() as ledger:
        kept = personal_data(ledger.find(recourse_id))
    answer, request = json.loads(kept.answer), json.loads(kept.request)
    store = Store.of(settings)
    model = store.open().find(version_of(answer), include_inactive=True)
    reasons = None
    if asked := missing_reasons(answer, request, model):
        reasons = use_cases.answer(ModelRef.of(store, model), *asked, deadline_s=math.inf)
    found = notice_about(
        answer,
        request,
        model,
        reasons,
        templates=templates,
        language=language,
        lender=lender_of(settings),
        addressee=tuple(line.strip() for line in addressee.split(";") if line.strip()),
        applied_on=applied_on and applied_on.date(),
        draft=draft,
        offer_share=offer_share_of(settings),
    )
    typer.echo(templates.html(found) if form == "html" else templates.text(found), nl=False)
