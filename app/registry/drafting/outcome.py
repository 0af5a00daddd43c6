"""The column of true outcomes: which value is the favourable one."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import ModelRefused
from app.registry.drafting.columns import ABSENT
from app.registry.drafting.hints import BAD_EVENT, favourable_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known of the outcomes."""

    name: str
    rows: list[int]
    """Records that have one."""
    favourable: list[bool]
    """Of these records."""
    value: str
    """How the favourable outcome is written."""
    sure: bool
    """Whether the lender said so, or the words do."""


def outcome_of(name: str, texts: Sequence[str], favourable: str | None) -> Outcome:
    """The true outcomes in a column.

    Raises
    ------
    ModelRefused : it has not two values, or it does not show which one is favourable
    """
    stripped = [text.strip() for text in texts]
    rows = [i for i, text in enumerate(stripped) if text not in ABSENT]
    values = tuple(sorted({stripped[i] for i in rows}))
    if len(values) != 2:
        shown = ", ".join(values[:5]) + (" and others" if len(values) > 5 else "")
        raise ModelRefused(f'the label "{name}" has {len(values)} different values ({shown}); an outcome has two')
    sure = True
    if favourable is not None:
        chosen = next((value for value in values if same(value, favourable)), None)
        if chosen is None:
            raise ModelRefused(
                f'--favourable "{favourable}" is no value of "{name}"; its values are {" and ".join(values)}'
            )
    else:
        chosen = favourable_of(values)
        if chosen is None and all(_is_flag(value) for value in values):
            bad = BAD_EVENT.search(name.lower())
            chosen, sure = (values[0] if bad else values[1]), False
        if chosen is None:
            raise ModelRefused(
                f'which value of "{name}" is the favourable outcome? Say --favourable "{values[0]}" or '
                f'--favourable "{values[1]}"'
            )
    return Outcome(
        name=name, rows=rows, favourable=[stripped[i] == chosen for i in rows], value=chosen, sure=sure,
    )  # fmt: skip


def same(text: str, value: object) -> bool:
    """Whether a text of the records is this value, such as "1" and 1, or "True" and true."""
    if text == str(value).strip() or text.lower() == str(value).strip().lower():
        return True
    try:
        return float(text) == float(str(value))
    except ValueError:
        return False


def _is_flag(value: str) -> bool:
    return any(same(value, flag) for flag in (0, 1))
