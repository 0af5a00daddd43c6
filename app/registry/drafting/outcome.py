"""Which outcome is the good one: what the records show of it, and the question; the draft never decides it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from app.errors import ModelRefused
from app.recourse.features import ABSENT
from app.registry.drafting.columns import Column
from app.registry.drafting.hints import plain_name
from app.registry.drafting.questions import Question, Undecided
from app.registry.performance import CHANCE, auc, auc_deviation
from app.registry.printable import average

FAVOURABLE = "favourable"
"""Key of the question."""

MOST_CLASSES = 10
"""Values of a label up to which each is an outcome; numbers such as limits have more."""

SIGNS = (
    ("more late payments or defaults", -1, r"late|past_due|dpd|delinq\w*|overdue|arrears|default(s|ed)?|derog\w*|"
     r"bankrupt\w*|pub_rec\w*|charge_?offs?|missed|dlq\w*|collections?"),
    ("more of their credit limits used", -1, r"utili[sz]ation\w*|revol_util|util|\w*burden"),
    ("more inquiries", -1, r"inq\w*|inquiries|enquiries"),
    ("higher interest rates", -1, r"int_rate|interest_rate|apr"),
    ("larger debts beside their income", -1, r"dti|pti|debt_ratio|debtinc|(debt|payment|loan)_to_income|"
     r"loan_percent_income"),
    ("higher credit scores", 1, r"fico\w*|credit_score|bureau_score|external_risk_estimate|ext_source\w*"),
    ("higher incomes", 1, r"(?<!to_)(income|salary|wage|wages|earnings|annual_inc|amt_income_total)"),
    ("larger savings", 1, r"savings?|deposits?|assets"),
    ("larger debts", -1, r"debts?|owed|overdraft"),
    ("longer times in their job", 1, r"emp_length|employment_length|years_employed|months_in_job|yoj"),
)  # fmt: skip
"""What a column says of people, and whether more of it goes with repaying (1) or not (-1)."""

PLAIN = 0.1
"""Difference of means, in standard deviations, below which a column says nothing."""

SURE = 3.0
"""Standard deviations of the area by which it must lie above a half."""

SHOWN = 3
"""Columns that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The records that have an outcome, with their outcomes; a label of more than two values is reduced to two."""

    name: str
    rows: list[int]
    """Records that have one."""
    texts: tuple[str, ...]
    """The values of these records."""
    values: tuple[str, str]

    def of(self, value: str) -> Bool[np.ndarray, "n"]:
        """For each record in `rows`, whether its outcome is `value`."""
        return np.array([text == value for text in self.texts])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether each record has the favourable outcome, and how that outcome is written in the records."""

    name: str
    favourable: Bool[np.ndarray, "n"]
    value: str
    """How the favourable outcome is written."""


def labels_of(name: str, texts: Sequence[str], favourable: str | None = None) -> Labels:
    """The labels in a column of `texts`; more than two values are reduced to `favourable` and "not {favourable}".

    Raises `ModelRefused` where the column has one value, or more than `MOST_CLASSES`; `Undecided` where it has more
    than two, and `favourable` is None.
    """
    stripped = [text.strip() for text in texts]
    rows = [i for i, text in enumerate(stripped) if text not in ABSENT]
    values = sorted({stripped[i] for i in rows})
    if not 2 <= len(values) <= MOST_CLASSES:
        shown = ", ".join(values[:5]) + (" and others" if len(values) > 5 else "")
        raise ModelRefused(
            f'the label "{name}" has {len(values)} different values ({shown}); an outcome has two. '
            "Name another column, or leave --label out, as where the model predicts this number"
        )
    if len(values) == 2:
        return Labels(name=name, rows=rows, texts=tuple(stripped[i] for i in rows), values=(values[0], values[1]))
    question = Question(
        key=FAVOURABLE, sentence=f"Which value of {name} is the good outcome? It stands against all others.",
        why=(f"{name} has {len(values)} values",), allowed=tuple(values), flag="--favourable",
    )  # fmt: skip
    if favourable is None:
        raise Undecided([question])
    one = question.read(favourable)
    others = f"not {one}"
    binary = tuple(stripped[i] if stripped[i] == one else others for i in rows)
    return Labels(name=name, rows=rows, texts=binary, values=(others, one))


def outcome_question(labels: Labels, columns: Mapping[str, Column], scores: Float[np.ndarray, "n"] | None) -> Question:
    """The question to the lender which value of a label is favourable.

    The question also states how records with one value differ from records with the other.
    """
    first, second = labels.values
    has = labels.of(second)
    shares = f"{second} in {has.sum():,} records ({has.mean():.1%}), {first} in {(~has).sum():,}"
    why = [f"{labels.name} is {shares}"]
    if scores is not None and not np.isnan(scores).all():
        with_second, with_first = average(np.nanmean(scores[has])), average(np.nanmean(scores[~has]))
        why.append(f"your scores are {with_second} on average with {second}, {with_first} with {first}")
    seen = signs(columns, has)[:SHOWN]
    for said, column, _, more, less in seen:
        figures = f"{column}: {average(more)} against {average(less)}"
        why.append(f"people with {labels.name} = {second} have {said} ({figures})")
    lean = sum(lean for _, _, lean, _, _ in seen)
    if lean:
        why.append(f"so {second if lean > 0 else first} looks like the outcome of people who repay; is that so?")
    return Question(
        key=FAVOURABLE, sentence=f"Which value of {labels.name} is the good outcome, that of people who get a yes?",
        why=tuple(why), allowed=labels.values, flag="--favourable",
    )  # fmt: skip


def class_question(classes: Sequence[object]) -> Question:
    """The question to the lender which class of a model is favourable, if the records have no column of outcomes."""
    named = tuple(str(one) for one in classes)
    return Question(
        key=FAVOURABLE, sentence="Which class of the model is the good outcome, that of people who get a yes?",
        why=(f"the model tells {' from '.join(named)}, and not which of them is good; --label would show more",),
        allowed=named, flag="--favourable",
    )  # fmt: skip


def chance(favourable: Bool[np.ndarray, "n"] | None) -> float:
    """The largest AUC that a model without any knowledge may reach by chance; only a larger AUC is evidence."""
    return CHANCE if favourable is None else max(CHANCE, 0.5 + SURE * auc_deviation(favourable))


def side_question(key: str, sides: Sequence[str], area: float) -> Question:
    """The question to the lender which class, or which points, go with the good outcome; `key` says which is asked.

    It is asked where the outcomes do not decide it; `area` is the AUC that shows this.
    """
    what = "Which class of the model goes with" if key == FAVOURABLE else "Which points go with"
    return Question(
        key="class" if key == FAVOURABLE else key, sentence=f"{what} the good outcome?", allowed=tuple(sides),
        why=(f"the outcomes of the records do not show it (AUC {area:.3f})",),
    )  # fmt: skip


def signs(columns: Mapping[str, Column], has: Bool[np.ndarray, "n"]) -> list[tuple[str, str, float, float, float]]:
    """The columns in which people with an outcome differ plainly from people without it, the clearest first.

    `has` is true for the records with the outcome.

    Returns
    -------
    A tuple for each column. It has words such as "higher incomes"; the column's name; the difference of the two
    means in standard deviations, positive where it suggests that the outcome is the good one; the mean of people with
    the outcome; the mean of people without it
    """
    found: dict[str, tuple[str, str, float, float, float]] = {}
    for name, column in columns.items():
        sign = next((one for one in SIGNS if re.search(rf"(^|_)({one[2]})(_|$)", plain_name(name))), None)
        if sign is None or column.numbers is None or column.constant:
            continue
        with_it, without = column.sides(has)
        if not len(with_it) or not len(without):
            continue
        apart = float((with_it.mean() - without.mean()) / (column.known.std() or 1.0))
        if abs(apart) >= PLAIN and (sign[0] not in found or abs(apart) > abs(found[sign[0]][2])):
            words = sign[0] if apart > 0.0 else _less(sign[0])
            found[sign[0]] = (words, name, sign[1] * apart, float(with_it.mean()), float(without.mean()))
    return sorted(found.values(), key=lambda one: -abs(one[2]))


def _less(words: str) -> str:
    """The words of the opposite, such as "fewer late payments"."""
    first, _, rest = words.partition(" ")
    few = "less" if rest.startswith("of") else "fewer"
    return f"{ {'more': few, 'higher': 'lower', 'larger': 'smaller', 'longer': 'shorter'}[first] } {rest}"


def refuse_contradiction(outcome: Outcome, scores: Float[np.ndarray, "n"] | None) -> None:
    """Raise `ModelRefused` where records with the favourable outcome have lower scores than the other records.

    Either the scores or the outcomes are then wrong.
    """
    if scores is None:
        return
    known = ~np.isnan(scores)
    area = auc(scores[known], outcome.favourable[known])
    if area < 1.0 - CHANCE:
        raise ModelRefused(
            f"the scores contradict the outcomes: they are lower where {outcome.name} is {outcome.value}, the "
            f"favourable outcome (AUC {area:.3f}). Either the other value is the favourable one (--favourable), or "
            "these are scores of the other outcome: give 1 - score, or the logit with the other sign"
        )
