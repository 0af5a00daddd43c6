"""What a column of records holds: numbers or levels, missing values, special codes."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from jaxtyping import Float

from app.recourse.features import LARGEST
from app.recourse.features.encoding import TAIL
from app.registry.special_codes import codes_among

ABSENT = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "-nan", "-NaN",
})  # fmt: skip
"""Texts that pandas reads as a missing value, but for "None", which may be a level."""

ABSENT_NUMBERS = ABSENT | {"?", "-", ".", "None", "none", "missing", "unknown"}
"""Texts that say in a column of numbers that there is none."""

FEW_VALUES = 30
"""Different numbers up to which all of them are usual."""

ROUND_STEPS = (1000, 500, 250, 200, 100, 50, 25, 20, 10, 5)

MOST_DECIMALS = 4
"""More digits than these are no precision that a person can follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of records."""

    name: str
    texts: tuple[str, ...]
    """As they are written; "" where the value is missing."""
    numbers: Float[np.ndarray, "n"] | None
    """NaN where missing; None where texts are no numbers."""
    codes: tuple[float, ...] = ()
    """Numbers that stand apart from the others, as special codes do."""

    @property
    def missing(self) -> int:
        """Number of records without a value."""
        return self.texts.count("")

    @property
    def levels(self) -> tuple[str, ...]:
        """Distinct texts, without the missing ones, sorted."""
        return tuple(sorted(set(self.texts) - {""}))

    @property
    def known(self) -> Float[np.ndarray, "m"]:
        """The numbers that are quantities: neither missing nor codes."""
        assert self.numbers is not None
        values = self.numbers[~np.isnan(self.numbers)]
        return values[~np.isin(values, self.codes)]

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole, and small enough for one."""
        return self.numbers is not None and all(
            value == np.round(value) and abs(value) < 2**53 for value in (*self.known, *self.codes)
        )

    @property
    def flag(self) -> bool:
        """Whether all values are 0 and 1, or false and true."""
        if self.numbers is None:
            return {level.lower() for level in self.levels} == {"false", "true"}
        return not self.codes and set(self.known.tolist()) == {0.0, 1.0}

    @property
    def constant(self) -> bool:
        """Whether there is no more than one value."""
        return len(self.levels) < 2 if self.numbers is None else len(set(self.known.tolist())) < 2

    @property
    def names_records(self) -> bool:
        """Whether it identifies records: a different text, or a number counted up, in each of them."""
        if len(self.texts) < 20 or len(set(self.texts)) < len(self.texts):
            return False
        if self.numbers is None:
            return True
        named = re.search(r"(^|_|\b)(id|ids|key|index|row|no|nr|uuid|account|unnamed.*)($|_|\b)", self.name.lower())
        counted = self.whole and bool((np.diff(self.known) == 1.0).all())
        return counted or (self.whole and named is not None)

    @property
    def usual(self) -> tuple[float, float]:
        """The range of nearly all quantities: of many different ones, without the last hundredth on either side."""
        known = self.known
        if len(np.unique(known)) <= FEW_VALUES:
            return float(known.min()), float(known.max())
        low, high = np.quantile(known, [TAIL, 1.0 - TAIL], method="nearest")
        # Nothing is as natural a limit as 0.
        return (0.0 if known.min() == 0.0 else float(low)), float(high)

    @property
    def decimals(self) -> int:
        """Digits after the point in which a number can be stated to a person."""
        written = max((len(text.partition(".")[2]) for text in self.texts if "e" not in text.lower()), default=0)
        if written <= MOST_DECIMALS and not any("e" in text.lower() for text in self.texts):
            return written
        spread = float(np.std(self.known)) if self.known.size else 1.0
        return int(min(max(0, math.ceil(2 - math.log10(spread))), 9)) if spread > 0.0 else MOST_DECIMALS

    @property
    def step(self) -> int:
        """The round number that all whole numbers are multiples of; 1 where there is none, or too few of them."""
        values = {abs(int(value)) for value in self.known} if self.whole else set()
        if len(values) < 10:
            return 1
        common = reduce(math.gcd, values)
        return next((step for step in ROUND_STEPS if common % step == 0), 1) if common else 1


def describe(name: str, texts: Sequence[str], known: Collection[str] = (), codes: Collection[float] = ()) -> Column:
    """What a column holds.

    Parameters
    ----------
    known : levels that the model's own encoder has, which are levels here too, whatever they look like
    codes : special codes that the model knows
    """
    exact = [_known_text(text, known) for text in texts]
    if not known:
        numbers = _numbers(exact)
        if numbers is not None:
            kept = tuple("" if math.isnan(number) else text for number, text in zip(numbers, exact, strict=True))
            return Column(name=name, texts=kept, numbers=numbers, codes=tuple(sorted({*codes, *codes_among(numbers)})))
    kept = tuple("" if text in ABSENT and text not in known else text for text in exact)
    return Column(name=name, texts=kept, numbers=None)


def _known_text(text: str, known: Collection[str]) -> str:
    """A text as the model's encoder has it: of codes, 1.0 is 1."""
    if text in known:
        return text
    plain = text.strip()
    whole = re.fullmatch(r"(-?\d+)\.0*", plain)
    return whole[1] if whole is not None and whole[1] in known else plain


def strays(texts: Sequence[str]) -> list[str]:
    """The texts that keep a column from being one of numbers, where nearly all are numbers."""
    others = [text.strip() for text in texts if _number(text.strip()) is None]
    return sorted(set(others)) if 0 < len(others) <= 0.1 * len(texts) else []


def _numbers(texts: Sequence[str]) -> Float[np.ndarray, "n"] | None:
    values = [_number(text) for text in texts]
    if any(value is None for value in values) or all(value is not None and math.isnan(value) for value in values):
        return None
    return np.array(values, dtype=float)


def _number(text: str) -> float | None:
    """The number; NaN where the text says that there is none; None for another text."""
    if text in ABSENT_NUMBERS:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST and "_" not in text else None
