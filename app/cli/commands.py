"""The commands of `recourse`, put together.

Heavy modules are imported by the command that needs them, so that ``--help`` is fast. An error that a user can cause
ends in one sentence on standard error and exit code 1.
"""

import sys

import typer

from app.calibration.command import calibration
from app.cases.command import case
from app.cli import demo, serving
from app.cli.common import CommandError
from app.errors import RecourseError
from app.futures.command import rehearse
from app.keys import command as keys
from app.ledger import command as db
from app.ledger import promise_command as promises
from app.letters import command as notices
from app.models import command as models
from app.models.draft_command import draft
from app.models.tryout_command import try_
from app.portfolio import command as comparing
from app.portfolio.report_command import report
from app.questions.batch_command import batch

cli = typer.Typer(
    help="Robust algorithmic recourse: what could this person change so that the answer becomes yes, and stays yes?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    serving.serve,
    serving.worker,
    batch,
    serving.openapi,
    comparing.compare,
    report,
    promises.verify,
    promises.replay,
    notices.notice,
    case,
    demo.demo,
):
    cli.command()(command)
models.cli.command()(draft)
models.cli.command("try")(try_)
models.cli.command()(rehearse)
models.cli.command()(calibration)
cli.add_typer(models.cli, name="models")
cli.add_typer(keys.cli, name="keys")
cli.add_typer(db.cli, name="db")


def main() -> None:
    """Run the command line; it is the entry point `recourse`."""
    try:
        cli()
    except (RecourseError, CommandError) as error:
        sys.exit(_fail(str(error)))
    except OSError as error:
        sys.exit(_fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"))


def _fail(sentence: str) -> int:
    typer.echo(sentence, err=True)
    return 1
