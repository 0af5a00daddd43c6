"""The command ``recourse compare``, which says whether a new version may go live."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import CommandError
from app.errors import RecourseError

UNUSABLE = 2
"""Exit code where nothing was compared; the others are those of `exit_code`."""


def compare(
    baseline: Annotated[str, typer.Argument(metavar="A", help="The version in use, id@version.")],
    candidate: Annotated[str, typer.Argument(metavar="B", help="The version to replace it, id@version.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Applicants: .csv, .parquet or .ndjson; by default the reference records of A."),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help="A condition, such as 'beyond-retraining<0.05' or 'broken>5%'; repeatable."),
    ] = None,
    sure: Annotated[bool, typer.Option("--sure", help="Exit with 3 where an interval contains a limit.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first record; each record adds 1.")] = 0,
    output: Annotated[Path | None, typer.Option("--json", help="File for all figures.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="File for the page, with a plot and a table.")] = None,
) -> None:
    """Compare two versions; exits with 0 if B passes, 1 if it fails, 2 if nothing was compared, 3 if not sure."""
    from app.api.bodies import validated
    from app.jobs.kinds import comparison_job
    from app.portfolio.comparison_page import comparison_page, sentences
    from app.portfolio.conditions import Condition, Judged, exit_code, sentence
    from app.portfolio.in_process import figures, opened, write
    from app.portfolio.schema import ComparisonRequest
    from app.questions.batch_files import BatchRefused

    try:
        service = opened()
        for i, text in enumerate(fail_if or [], 1):
            Condition.parse(text, f"--fail-if {i}")
        before, after = (service.models.find(name, include_inactive=True) for name in (baseline, candidate))
        asked = validated(ComparisonRequest, {"baseline": before.name, "candidate": after.name, "seed": seed})
        payload = service.comparisons.payload(before, after, asked.question(), data is not None, fail_if or [])
        result = figures(service, comparison_job, before, payload, data)
        write(result, output, html, comparison_page)
    except (RecourseError, CommandError, BatchRefused, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNUSABLE) from None
    typer.echo("\n".join(sentences(result)))
    judged = [Judged(**one) for one in result["conditions"]]
    for one in judged:
        typer.echo(sentence(one))
    raise typer.Exit(exit_code(judged, sure=sure))
