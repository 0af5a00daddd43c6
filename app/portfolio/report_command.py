"""The command ``recourse report``: who has recourse, what it takes, and what stands in the way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import CommandError
from app.recourse.shares import percent

if TYPE_CHECKING:
    from app.questions.answers import Json

MOST_LISTED = 8
"""Lines of a list that are printed; the file has all."""


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The version to report on, id or id@version.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Applicants: .csv, .parquet or .ndjson; by default the reference records."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="A feature to group by, such as sex, or age:25,35,50 with edges; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first record; each record adds 1.")] = 0,
    output: Annotated[Path | None, typer.Option("--json", help="File for all figures.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="File for the page, with plots and tables.")] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", help="A version to replace it, id@version: the page compares the two.")
    ] = None,
) -> None:
    """Report who of the refused has recourse, at what cost, who has none, and which limits stand in the way."""
    from app.api.bodies import validated
    from app.jobs.kinds import comparison_job, report_job
    from app.portfolio.in_process import figures, opened, write
    from app.portfolio.report_page import page
    from app.portfolio.report_schema import ReportRequest

    service, records, beside = opened(), data is not None, None
    asked = validated(ReportRequest, {"seed": seed, "groups": {"by": [_by(text) for text in by or []]}})
    version = service.models.find(model, include_inactive=True)
    if candidate is not None:
        if html is None:
            raise CommandError("--candidate is compared on the page: add --html FILE.")
        # What cannot be compared is refused before anybody is asked about.
        other = service.models.find(candidate, include_inactive=True)
        beside = service.comparisons.payload(version, other, asked.question(), records, [])
    source = {"kind": "records" if records else "reference"}
    payload = service.reports.payload(version, asked.question(), source, asked.figures())
    result = figures(service, report_job, version, payload, data)
    compared = None if beside is None else figures(service, comparison_job, version, beside, data)
    write(result, output, html, lambda found: page(found, compared))
    typer.echo(summary(result))


def _by(text: str) -> "Json":
    """What one `--by` means."""
    from app.portfolio.report_schema import by_of

    try:
        return by_of(text)
    except ValueError:
        raise CommandError(f"--by {text}: edges are numbers with commas between, as in age:25,35,50.") from None


def summary(result: "Json") -> str:
    """The figures of a report in sentences, one on each line; those that its page has too are the same."""
    from app.portfolio.report_page import about, besides, differences, gives, shut_out

    recourse, labels = result["recourse"], result["labels"]
    lines = [about(result), shut_out(result)]
    if recourse["cost"] is not None:
        cost, months = recourse["cost"], recourse["months"]
        lines.append(
            f"Cost: median {cost['p50']:.3g}, of nine in ten at most {cost['p90']:.3g}; "
            f"months: median {months['p50']:.3g}."
        )
    lines += [
        f"Changes {lever['feature']}: {percent(lever['used'])}% of the answers"
        + ("." if lever["only"] is None else f"; no way without it is found for {lever['only']:,}.")
        for lever in (result["levers"] or [])[:MOST_LISTED]
    ]
    lines += [
        f"Way {k}: {way['text']}. Reaches {percent(way['reach'])}% of {way['people']:,} who did not choose it"
        + (" with those before it" if k > 1 else "")
        + ("." if way["cost"] is None else f", at a mean cost of {way['cost']:.3g}.")
        for k, way in enumerate(result["common_ways"] or [], start=1)
    ]
    lines += [f"With a way if this gives: {gives(one, labels)}" for one in (result["limits"] or [])[:MOST_LISTED]]
    lines += [f"By {labels.get(one['by'], one['by'])}: {differences(one)}" for one in result["groups"]]
    return "\n".join([*lines, *besides(result)])
