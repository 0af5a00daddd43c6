"""The number that a model reads as a missing value, where its file shows that the training had missing values."""

from collections.abc import Mapping, Sequence

import numpy as np

from app.registry.drafting.columns import Column
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import FeatureDraft
from app.registry.drafting.matching import listed
from app.registry.drafting.questions import Question, Questions
from app.registry.special_codes import CODES

KEY = "missing"
"""Key of the question."""

FILL = "fill"
"""Key of the questions about columns without missing values in training."""

NONE = "none"
"""The answer that no number is read as missing."""

USUAL = (0.0, *CODES)
"""Numbers that are given as the parameter `missing`; XGBoost's own example is -999."""


def sentinels(
    facts: ModelFacts,
    features: Sequence[FeatureDraft],
    columns: Mapping[str, Column],
    questions: Questions,
    *,
    scored: bool,
) -> tuple[float | None, ...]:
    """The numbers that the model may read as missing values, the likeliest first; None stands for no such number.

    There are two questions to the lender. If a column had missing values in training and has none in the records: which
    number does the model read as missing? If it is the other way round: which number fills the missing values? Neither
    needs an answer if `scored` is true, as scores then show it.
    """
    _fill(facts, features, columns, questions, scored=scored)
    if facts.saw_missing is None:
        return (None,)
    used = {feature.name: columns[feature.name] for feature in features if columns[feature.name].numbers is not None}
    odd = [name for name in used if name in facts.saw_missing and (not used[name].missing or used[name].codes)]
    if not odd:
        return (None,)
    found = [number for number in _numbers(used, odd) if _fits(number, used, odd, facts.saw_missing)]
    shown = tuple(f"{number:.15g}" for number in found)
    answer = questions.ask(Question(
        key=KEY, allowed=(*shown, NONE), required=not scored,
        sentence="Which number of the records does the model read as a missing value (`missing` of XGBoost)?",
        why=(f"{listed(odd)}: missing values in training, which the records do not have as empty cells",),
    ))  # fmt: skip
    if answer is None:
        return (*found, None)
    return (None,) if answer == NONE else (float(answer),)


def _fill(
    facts: ModelFacts,
    features: Sequence[FeatureDraft],
    columns: Mapping[str, Column],
    questions: Questions,
    *,
    scored: bool,
) -> None:
    """Ask for the number that stands for a missing value, where the model had none in training but records do."""
    for feature in features:
        column = columns[feature.name]
        if column.numbers is None or feature.keys.get("missing") != "nan" or feature.name not in facts.saw_all:
            continue
        answer = questions.ask(Question(
            key=FILL, column=feature.name, required=not scored,
            sentence=f'Which number does the model take where "{feature.name}" is missing?',
            why=(f"{column.missing} records have no value, but the model had a number for all in training",),
        ))  # fmt: skip
        if answer is not None:
            feature.keys |= {"missing": "fill", "fill": float(answer)}


def _numbers(used: Mapping[str, Column], odd: Sequence[str]) -> list[float]:
    """Numbers of the columns that may stand for a missing value: special codes, then usual ones, then repeated ends."""
    numbers = {name: column.numbers for name, column in used.items() if column.numbers is not None}
    codes = [code for name in odd for code in used[name].codes]
    ends = [float(end) for name in odd for end in (np.nanmin(numbers[name]), np.nanmax(numbers[name]))
            if (numbers[name] == end).sum() > 1]  # fmt: skip
    usual = [number for number in USUAL if any((numbers[name] == number).any() for name in odd)]
    return list(dict.fromkeys([*codes, *usual, *ends]))


def _fits(number: float, used: Mapping[str, Column], odd: Sequence[str], saw_missing: frozenset[str]) -> bool:
    """Whether a number is in the columns that had missing values in training, and in no other one."""
    has = {name for name, column in used.items() if column.numbers is not None and (column.numbers == number).any()}
    return bool(has & set(odd)) and not has - saw_missing
