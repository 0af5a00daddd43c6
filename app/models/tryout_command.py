"""The command ``recourse models try``: what registering a directory would report, and some answers."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import (
    SCORE_TOLERANCE,
    DirectoryArgument,
    ScoresOption,
    ToleranceOption,
    TrustPickleOption,
    one_thread,
    read_settings,
)
from app.recourse.shares import digits_apart, percent

if TYPE_CHECKING:
    from app.models.oddities import Asked
    from app.questions.answers import Json


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
    from app.letters.given import word_gaps
    from app.models.tryout import attempt
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
    typer.echo(f"{found.futures}.")
    for one in found.asked:
        typer.echo(text_of(one, found.threshold))
    odd = [*registration.warnings, *found.findings, *word_gaps(found.model, settings)]
    if odd:
        typer.echo("\nWhat looks odd:")
    for sentence in odd:
        typer.echo(f"  {sentence.rstrip('.')}.")
    if not found.sound:
        raise typer.Exit(1)


def text_of(one: "Asked", threshold: float | None = None) -> str:
    """The lines that show a record and its answer; probabilities have enough digits to differ from the threshold."""
    decisions = [decision for decision in (one.before, one.after) if decision is not None]
    digits = digits_apart(threshold, [decision["probability"] for decision in decisions])
    lines = ["", f"Record {one.record}: no{_rating(one.before, digits)}. ({one.elapsed_s:.2f} s)"]
    lines += [f"  {text}" for _, text in one.changes] or [f"  {one.detail}"]
    if one.changes:
        after = _rating(one.after, digits)
        needed = f"; needed: {percent(threshold, digits)}%" if after and threshold is not None else ""
        months = math.ceil(10.0 * one.takes_months) / 10.0
        when = "at once" if not months else f"in {months:g} {'month' if months == 1.0 else 'months'}"
        lines.append(f"  Then, {when}: yes{after}{needed}.")
    return "\n".join(lines)


def _rating(decision: "Json | None", digits: int) -> str:
    if decision is None or (decision["points"] is None and decision["probability"] is None):
        return ""
    points, probability = decision["points"], decision["probability"]
    return f" ({points:,.12g} points)" if points is not None else f" (probability {share_text(probability, digits)})"


def share_text(share: float, digits: int = 0) -> str:
    """A share between 0 and 1 as a percentage in text. Only 0 becomes "0%", and only 1 "100%"; others may be "<1%"."""
    half = 10.0**-digits / 2.0
    sign = "<" if 0.0 < 100.0 * share < half else ">" if 100.0 - half <= 100.0 * share < 100.0 else ""
    return f"{sign}{percent(share, digits)}%"
