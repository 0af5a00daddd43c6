"""The command ``recourse models draft``: a model directory from records and a model."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.common import TrustPickleOption, read_settings, report
from app.collector import uncollected
from app.errors import ModelRefused

if TYPE_CHECKING:
    from app.registry.drafting.draft import Drafted, Wish
    from app.registry.drafting.questions import Question
    from app.registry.trust import Trust
    from app.settings import Settings

QUESTIONS_OPEN = 2
"""Exit code where the draft asks outside a terminal."""


def draft(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Records with a header: .csv, or .parquet.")],
    model: Annotated[
        str | None,
        typer.Option(help="The model's file, a directory of MLflow, or models:/NAME/VERSION of its registry."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Address of a model server, in place of a file: …/infer or …/invocations.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column with the true outcome.")] = None,
    favourable: Annotated[
        str | None, typer.Option(help="Value of the label, or class of the model, that means yes.")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(help="Your own scores of these records: a column, or a CSV with one for each.")
    ] = None,
    threshold: Annotated[float | None, typer.Option(help="Smallest favourable output; 0.5 when absent.")] = None,
    name: Annotated[
        str | None, typer.Option("--id", help="Id of the model; that of the directory when absent.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns that a model without names takes, in its order, with commas between.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Answers to the questions of a draft, as YAML or JSON; see its answers.yaml.")
    ] = None,
    answer: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="One such answer; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory to write; named after the data when absent.")] = None,
    trust_pickle: TrustPickleOption = False,
) -> None:
    """Write model.yaml and the reference from records and a model, and try whether it registers."""
    from app.registry.drafting.draft import Wish
    from app.registry.drafting.mlflow_directory import fetched
    from app.registry.drafting.questions import answers_of, read_answers
    from app.registry.trust import Trust

    settings = read_settings(trust_pickle=trust_pickle or None)
    wish = Wish(
        data=data, model=None, url=url, label=label, favourable=favourable, scores=scores, threshold=threshold,
        id=name, drop=tuple(drop or ()), columns=tuple(filter(None, (columns or "").split(","))),
        answers=({} if answers is None else read_answers(answers)) | answers_of(answer or ()),
    )  # fmt: skip
    trust = Trust.of(settings)
    with nullcontext() if model is None else fetched(model) as path, uncollected():
        drafted = _made(replace(wish, model=path), out, trust)
    for note in drafted.notes:
        typer.echo(note)
    count = drafted.decisions
    typer.echo(f"Wrote {drafted.directory / 'model.yaml'}; {count} comments in it ask for a decision.")
    if drafted.complete:
        with uncollected():
            _verify(drafted, trust, settings)
    else:
        typer.echo("Next: the same with --model FILE (or --url) and another --out, so that the draft fits the model.")


def _made(wish: "Wish", out: Path | None, trust: "Trust") -> "Drafted":
    """The draft; its questions are asked in a terminal, and elsewhere end the command with exit code 2."""
    from app.registry.drafting.draft import draft as make
    from app.registry.drafting.questions import Undecided

    kept = frozenset[str]() if sys.stdin.isatty() and sys.stdout.isatty() else None
    while True:
        try:
            return make(replace(wish, kept=kept), out, trust)
        except Undecided as undecided:
            if kept is None:
                typer.echo(str(undecided), err=True)
                raise typer.Exit(QUESTIONS_OPEN) from None
            typed = {one.name: _asked(one) for one in undecided.questions}
            kept |= {name for name, answer in typed.items() if answer is None}
            answers = {name: answer for name, answer in typed.items() if answer is not None}
            wish = replace(wish, answers={**wish.answers, **answers})


def _asked(question: "Question") -> str | None:
    """The answer that is typed; asked again until it is one. None where what the draft has stays."""
    typer.echo(f"\n{question.sentence}")
    for reason in question.why:
        typer.echo(f"  {reason}")
    shown = " or ".join(question.allowed) or "a number"
    while True:
        if question.required:
            typed = typer.prompt(shown, prompt_suffix=": ")
        else:
            typed = typer.prompt(f"{shown} [keep {question.keep}]", default="", show_default=False, prompt_suffix=": ")
            if not str(typed).strip():
                return None
        try:
            return question.read(str(typed))
        except ModelRefused as refused:
            typer.echo(str(refused))


def _verify(drafted: "Drafted", trust: "Trust", settings: "Settings") -> None:
    """Register in a store that is thrown away, and say what comes next."""
    from tempfile import TemporaryDirectory

    from app.letters.given import word_gaps
    from app.registry.registry import Registry

    with TemporaryDirectory(prefix="recourse-") as place:
        store: Registry = Registry(Path(place) / "store", trust)
        model = store.register(drafted.directory)
    report("It registers:", model)
    for gap in word_gaps(model, settings):
        typer.echo(f"Warning: {gap}", err=True)
    arguments = f"{drafted.directory} --trust-pickle" if model.runs_code else f"{drafted.directory}"
    typer.echo(f"Next: recourse models try {arguments}, then recourse models register {arguments}")
