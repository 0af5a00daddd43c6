"""The command ``recourse report``: who has recourse, what it takes, and what stands in the way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.common import CommandError
from app.recourse.shares import percent

if TYPE_CHECKING:
    from app.questions.answers import Json

BURDENS = {"none": "having no way", "cost": "cost", "changes": "the number of changes", "months": "time"}
"""What groups are compared by, in words."""

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
    """The figures of a report in sentences, one on each line."""
    records, recourse, none = result["records"], result["recourse"], result["preclusion"]
    lines = [f"{records['scored']:,} records: {records['refused']:,} refused, {records['accepted']:,} accepted."]
    if recourse["share"] is not None:
        low, high = recourse["interval"]
        lines.append(
            f"{recourse['found']:,} of {records['refused']:,} refused ({percent(recourse['share'], 1)}%; "
            f"{percent(low, 1)}% to {percent(high, 1)}%) have a change that the model accepts."
        )
    proven = none["proven"]["enumerated"] + none["proven"]["optimised"]
    if proven or none["open"]:
        lines.append(f"{proven:,} have none, proven under the limits as they are; {none['open']:,} are open.")
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
    lines += [_limit(one) for one in (result["limits"] or [])[:MOST_LISTED]]
    for table in result["groups"]:
        lines += _group(table)
    if result["terms_alone"] is not None:
        lines.append(f"{percent(result['terms_alone'], 1)}% of the refused get a yes by the lender's terms alone.")
    if result["contestable"]:
        lines.append(f"{result['contestable']:,} refused records are accepted by at least half of the future models.")
    return "\n".join([*lines, *result["warnings"]])


def _limit(one: dict[str, Any]) -> str:
    whose = "the lender's" if one["lender_set"] else "the request's"
    what = "limit of time" if one["feature"] is None else f"limit {one['limit']} of {one['feature']}"
    curve = ", ".join(f"{point['people']:,} if it gives by {point['by']:.3g}" for point in one["would_help"])
    return f"Without {whose} {what}, a way opens for {one['blocks']:,}" + (f"; {curve}." if curve else ".")


def _group(table: "Json") -> list[str]:
    lines = [f"By {table['by']}, of {table['tests']} tests:"]
    for row in table["rows"]:
        worst = min(row["harder"], key=lambda one: one["p"])
        lines.append(
            f"  {row['group']}: {row['refused']:,} refused, {percent(row['share'])}% with recourse; by "
            f"{BURDENS[worst['measure']]} a member has it harder than somebody else with probability "
            f"{worst['value']:.2f} (p {worst['p']:.3g}, at equal score {worst['p_at_equal_score']:.3g})."
        )
    if table["suppressed"]:
        lines.append(
            f"  Not shown, as they are too small or could be had by subtraction: {', '.join(table['suppressed'])}."
        )
    return lines
