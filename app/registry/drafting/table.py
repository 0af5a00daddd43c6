"""The columns of the records that may be features, with the questions about how their numbers are written."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from app.errors import ModelRefused
from app.recourse.features import ABSENT, written
from app.registry.drafting.columns import Column, describe, mark_among, strays
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.questions import Question, Questions
from app.registry.drafting.records import Records

DECIMAL = Question(
    key="decimal", sentence="Have the numbers of the records a decimal point or a decimal comma?",
    allowed=("point", "comma"),
)  # fmt: skip


DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}|$)|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|[A-Za-z]{3,9}[- ]\d{2,4}$|"
    r"\d{1,2}[- ][A-Za-z]{3,9}[- ,]+\d{2,4}$"
)
"""How dates are written, such as 2015-12-01, 1/12/2015 or Dec-2015."""

PERCENT = "percent"
"""Key of the questions about percentages."""


def columns_of(
    records: Records, facts: ModelFacts, questions: Questions, *, left_out: Collection[str | None], scored: bool
) -> dict[str, Column]:
    """The columns of the records that may be features, by name: all columns except those in `left_out`.

    The model may take shares where a column has percentages. The lender is asked whether it does, unless scores can
    show it (`scored`); if so, the column is converted. Raises `ModelRefused` where a column of numbers has texts that
    are no numbers, or the table has two decimal marks.
    """
    levels = {
        name: {level for level in facts.levels.get(name, ()) if level is not None}
        for name in records.columns
        if name not in left_out
    }
    mark = _mark(records, [name for name, known in levels.items() if not known], questions)
    columns: dict[str, Column] = {}
    for name, known in levels.items():
        found = describe(name, records.columns[name], known, facts.codes.get(name, ()), mark)
        taken = name in (facts.names or levels)
        if taken and found.numbers is None and not known and not found.flag:
            _require_numbers(records, name, mark, facts)
        columns[name] = _percent(found, questions, scored=scored) if found.percent and taken else found
    family = {code for column in columns.values() for code in column.codes}
    return {name: column.with_codes_of(family) for name, column in columns.items()}


def _mark(records: Records, names: Sequence[str], questions: Questions) -> str:
    """The decimal mark of the records."""
    found = mark_among(records.columns[name] for name in names)
    try:
        mark = found.of(records.delimiter)
    except ValueError as error:
        raise ModelRefused(f"{records.file} {error}") from None
    if mark is not None:
        return mark
    answer = questions.ask(replace(DECIMAL, why=(f'{records.file} has "{found.either}"',)))
    return "," if answer == "comma" else "."


def _percent(column: Column, questions: Questions, *, scored: bool) -> Column:
    """A column of percentages as the model takes it; scores may show how that is."""
    shown = f"{next(text for text in column.texts if text)}%"
    answer = questions.ask(Question(
        key=PERCENT, column=column.name, allowed=("number", "share"), required=not scored,
        sentence=f'"{column.name}" is written with %: what does the model take?',
        why=(f"{shown} is {shown[:-1]} (number) or {float(shown[:-1]) / 100:g} (share)",),
    ))  # fmt: skip
    return column.share if answer == "share" else column


def _require_numbers(records: Records, name: str, mark: str, facts: ModelFacts) -> None:
    """Refuse a column that is one of numbers but for some cells, or that the model takes as numbers."""
    texts = records.columns[name]
    what = f'the model takes "{name}" as a number' if name in facts.numbers else f'"{name}" is a column of numbers'
    if wrong := strays(texts, mark):
        count = "1 cell is none" if len(wrong) == 1 else f"{len(wrong)} cells are none"
        raise ModelRefused(
            f"{what}, but {count}, in {records.place(wrong[0])}: {texts[wrong[0]]}; correct it, or leave it "
            "empty where the value is missing"
        )
    if name in facts.numbers:
        first = next(i for i, text in enumerate(texts) if text.strip() not in ABSENT and written(text, mark) is None)
        way_out = (
            "write the number that the model takes in place of the date, such as the days or months until the record"
            if DATE.match(texts[first].strip()) else "leave the cell empty where the value is missing"
        )  # fmt: skip
        raise ModelRefused(
            f'{what}, but there are texts, such as "{texts[first]}" in {records.place(first)}; {way_out}'
        )
