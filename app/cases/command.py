"""The command ``recourse case``: the case file of a recourse in the ledger."""

from typing import Annotated, Literal

import typer

from app.cli.common import RecourseArgument, read_settings
from app.cli.database import open_ledger


def case(
    recourse_id: RecourseArgument,
    form: Annotated[Literal["json", "html"], typer.Option("--format", help="Form of the case file.")] = "json",
) -> None:
    """Write all that the ledger holds of a recourse to standard output: JSON, or one page that prints."""
    import asyncio

    from app.observability import configure_logging
    from app.pool.child import start_fork_server

    settings = read_settings(lanes_sync=1)
    configure_logging("error")
    with open_ledger() as ledger:
        ledger.find(recourse_id)
    start_fork_server()
    from app.cases import page
    from app.questions.answers import encoded, plain
    from app.service import opened

    async def written() -> str:
        async with opened(settings, answers=True) as service:
            file = await service.cases.file(recourse_id)
            return page.html(file, service.models) if form == "html" else encoded(plain(file)).decode() + "\n"

    typer.echo(asyncio.run(written()), nl=False)
