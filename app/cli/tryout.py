"""The command ``recourse models try``: what registering a directory would bring, and some answers."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import read_settings
from app.cli.registration_options import (
    SCORE_TOLERANCE,
    DirectoryArgument,
    ScoresOption,
    ToleranceOption,
    TrustPickleOption,
)
from app.cli.rehearsals import one_thread

if TYPE_CHECKING:
    from app.compute.answers import Json
    from app.compute.oddities import Asked


def try_(
    directory: DirectoryArgument,
    scores: ScoresOption = None,
    score_tolerance: ToleranceOption = SCORE_TOLERANCE,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Rejected records to ask about.")] = 5,
    trust_pickle: TrustPickleOption = False,
) -> None:
    """Check a model and ask it about a few rejected records, without registering it."""
    settings = read_settings(trust_pickle=trust_pickle or None)
    one_thread(openmp=True)
    from app.compute.tryout import attempt
    from app.observability import configure_logging

    configure_logging("error")
    found = attempt(directory, settings, scores=scores, tolerance=score_tolerance, count=count)
    registration = found.registration
    typer.echo(
        f"{found.name} would register: {found.features} features; accepts {registration.favourable:,} of "
        f"{registration.records:,} reference records."
    )
    for note in registration.notes:
        typer.echo(note)
    for one in found.asked:
        typer.echo(text_of(one))
    odd = [*registration.warnings, *found.findings]
    if odd:
        typer.echo("\nWhat looks odd:")
    for sentence in odd:
        typer.echo(f"  {sentence.rstrip('.')}.")
    if not found.sound:
        raise typer.Exit(1)


def text_of(one: "Asked") -> str:
    """A question and its answer, in lines."""
    lines = ["", f"Record {one.record}: no{_rating(one.before)}. ({one.elapsed_s:.2f} s)"]
    lines += [f"  {text}" for _, text in one.changes] or [f"  {one.detail}"]
    if one.changes:
        lines.append(f"  Then: yes{_rating(one.after)}.")
    return "\n".join(lines)


def _rating(decision: "Json | None") -> str:
    if decision is None or (decision["points"] is None and decision["probability"] is None):
        return ""
    points, probability = decision["points"], decision["probability"]
    return f" ({points:,.12g} points)" if points is not None else f" (probability {share_text(probability)})"


def share_text(share: float) -> str:
    """A share in whole per cent; only nothing is 0% and only everything is 100%."""
    return "<1%" if 0.0 < share < 0.005 else ">99%" if 0.995 <= share < 1.0 else f"{share:.0%}"
