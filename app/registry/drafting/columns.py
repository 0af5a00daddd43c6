"""What a column of records holds: numbers or levels, missing values, special codes."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.features import ABSENT, ABSENT_NUMBERS, LARGEST, DecimalMark, Written, plain_numbers, written
from app.recourse.features.encoding import TAIL
from app.registry.special_codes import codes_among

FEW_STRAYS = 0.1
"""Share of cells that are no numbers up to which a column is still one of numbers, and these cells are mistakes."""

FEW_VALUES = 30
"""Different numbers up to which all of them are usual."""

FEWEST_VALUES = 10
"""Different whole numbers below which they show no round step."""

ROUND_STEPS = (1000, 500, 250, 200, 100, 50, 25, 20, 10, 5)

MANY = 1_000
"""Texts that show whether a column is one of numbers."""

MOST_DECIMALS = 4
"""More digits than these are no precision that a person can follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table of records: its cells as texts and as numbers, and what a draft found in them."""

    name: str
    texts: tuple[str, ...]
    """Levels as they are written, numbers as programs write them; "" where the value is missing."""
    numbers: Float[np.ndarray, "n"] | None
    """NaN where missing; None where texts are no numbers."""
    codes: tuple[float, ...] = ()
    """Numbers that stand apart from the others, as special codes do."""
    percent: Literal["", "number", "share"] = ""
    """How `numbers` state percentages: 20.75 % is 20.75 (`number`) or 0.2075 (`share`); empty without any."""
    currency: str = ""
    """The code of the currency in which they are written."""

    @property
    def share(self) -> "Column":
        """The same column with shares in place of percentages, such as 0.2075 for 20.75 %."""
        assert self.numbers is not None
        digits = [len(text.partition(".")[2]) + 2 for text in self.texts]
        texts = [text and f"{float(text) / 100.0:.{n}f}" for text, n in zip(self.texts, digits, strict=True)]
        numbers = np.array([float(text or "nan") for text in texts])
        codes = tuple(code / 100.0 for code in self.codes)
        return replace(self, texts=tuple(texts), numbers=numbers, codes=codes, percent="share")

    def with_codes_of(self, family: Collection[float]) -> "Column":
        """The column with more special codes: those of other columns (`family`) that occur here, even if rarely."""
        if self.numbers is None:
            return self
        return replace(self, codes=tuple(sorted({*self.codes, *codes_among(self.numbers, family)})))

    @property
    def missing(self) -> int:
        """Number of records without a value."""
        return self.texts.count("")

    @property
    def levels(self) -> tuple[str, ...]:
        """The distinct texts of the cells, sorted; missing values are left out."""
        return tuple(sorted(set(self.texts) - {""}))

    @property
    def known(self) -> Float[np.ndarray, "m"]:
        """The numbers of the column that are quantities: neither missing values nor special codes."""
        assert self.numbers is not None
        values = self.numbers[~np.isnan(self.numbers)]
        return values[~np.isin(values, self.codes)]

    def sides(self, has: Bool[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "m"]]:
        """The quantities of the records where `has` is true, then those of the other records.

        Missing values and special codes are left out.
        """
        assert self.numbers is not None
        known = ~np.isnan(self.numbers) & ~np.isin(self.numbers, self.codes)
        return self.numbers[known & has], self.numbers[known & ~has]

    @property
    def whole(self) -> bool:
        """Whether all numbers are integers of absolute value below 2^53; false for a column of texts."""
        if self.numbers is None:
            return False
        values = np.append(self.numbers[~np.isnan(self.numbers)], self.codes)
        return bool(((values == np.round(values)) & (np.abs(values) < 2**53)).all())

    @property
    def flag(self) -> bool:
        """Whether the column has exactly the values 0 and 1, or exactly false and true. Missing values do not count."""
        if self.numbers is None:
            return {level.lower() for level in self.levels} == {"false", "true"}
        return not self.codes and np.unique(self.known).tolist() == [0.0, 1.0]

    @property
    def constant(self) -> bool:
        """Whether the column has at most one distinct value. Missing values and special codes do not count."""
        if self.numbers is None:
            return len(self.levels) < 2
        known = self.known
        return not known.size or bool(known.min() == known.max())

    @property
    def names_records(self) -> bool:
        """Whether the column identifies records: texts without repetition, or whole numbers that count up by 1.

        Whole numbers in another order identify records only if the column has a name such as "id". The result is false
        for fewer than 20 records, and where a value is repeated.
        """
        if len(self.texts) < 20 or len(set(self.texts)) < len(self.texts):
            return False
        if self.numbers is None:
            return True
        named = re.search(r"(^|_|\b)(id|ids|key|index|row|no|nr|uuid|account|unnamed.*)($|_|\b)", self.name.lower())
        counted = self.whole and bool((np.diff(self.known) == 1.0).all())
        return counted or (self.whole and named is not None)

    @property
    def usual(self) -> tuple[float, float]:
        """The smallest and the largest quantity of the column, without outliers.

        If the column has many distinct quantities, the lowest and the highest 1 % of the records are outliers. A
        smallest quantity of 0 is kept in any case.
        """
        known = self.known
        if len(np.unique(known)) <= FEW_VALUES:
            return float(known.min()), float(known.max())
        low, high = np.quantile(known, [TAIL, 1.0 - TAIL], method="nearest")
        # Nothing is as natural a limit as 0.
        return (0.0 if known.min() == 0.0 else float(low)), float(high)

    @property
    def long(self) -> bool:
        """Whether the column has a number with an exponent, or with more than `MOST_DECIMALS` decimals."""
        return re.search(rf"[eE]|\.\d{{{MOST_DECIMALS + 1}}}", "\n".join(self.texts)) is not None

    @property
    def decimals(self) -> int:
        """Number of digits after the point with which the column's numbers are shown to people."""
        if not self.long:
            joined = "\n".join(self.texts)
            return next((n for n in range(MOST_DECIMALS, 0, -1) if re.search(rf"\.\d{{{n}}}", joined)), 0)
        spread = float(np.std(self.known)) if self.known.size else 1.0
        return int(min(max(0, math.ceil(2 - math.log10(spread))), 9)) if spread > 0.0 else MOST_DECIMALS

    @property
    def step(self) -> int:
        """The largest of `ROUND_STEPS` that divides all quantities of the column.

        1 where none of them does, where a quantity is not whole, or where there are few distinct quantities.
        """
        values = np.unique(np.abs(self.known)).astype(int).tolist() if self.whole else []
        if len(values) < FEWEST_VALUES:
            return 1
        common = reduce(math.gcd, values)
        return next((step for step in ROUND_STEPS if common % step == 0), 1) if common else 1

    @property
    def apart(self) -> int:
        """For a column of few distinct whole numbers, the greatest common divisor of their gaps: 24 for 36, 60 and 108.

        0 for any other column, and where the divisor is 1.
        """
        values = sorted({int(value) for value in self.known}) if self.whole else []
        if not 1 < len(values) < FEWEST_VALUES or values[0] < 0:
            return 0
        common = reduce(math.gcd, (high - low for low, high in pairwise(values)))
        return common if common > 1 else 0


def describe(
    name: str, texts: Sequence[str], known: Collection[str] = (), codes: Collection[float] = (), mark: str = "."
) -> Column:
    """The column whose cells are `texts`: its numbers or levels, missing values and special codes.

    Parameters
    ----------
    known : levels in the model's own encoder; if given, the texts are levels, even if they look like numbers
    codes : special codes that the model knows
    mark : decimal mark of the table
    """
    if not known and mark == "." and (numbers := _plain(name, texts, codes)) is not None:
        return numbers
    exact = {text: _known_text(text, known) for text in dict.fromkeys(texts)}
    if not known:
        cells = _cells(exact.values(), mark)
        found = [cell for cell in cells.values() if cell is not None]
        if found and not _strays(cells):
            plain = {text: "" if (cell := cells[one]) is None else cell.plain for text, one in exact.items()}
            return _numbers(
                name, [plain[text] for text in texts], codes,
                percent="number" if any(cell.percent for cell in found) else "",
                currency=min((cell.currency for cell in found if cell.currency), default=""),
            )  # fmt: skip
    kept = {text: "" if one in ABSENT and one not in known else one for text, one in exact.items()}
    return Column(name=name, texts=tuple(kept[text] for text in texts), numbers=None)


def _numbers(name: str, texts: Sequence[str], codes: Collection[float], **more: Any) -> Column:
    """A column of texts that are all numbers as programs write them, or empty."""
    numbers = plain_numbers(texts)
    found = tuple(sorted({*codes, *codes_among(numbers)}))
    return Column(name=name, texts=tuple(texts), numbers=numbers, codes=found, **more)


def _known_text(text: str, known: Collection[str]) -> str:
    """A text as the model's encoder has it: of codes, 1.0 is 1."""
    if text in known:
        return text
    plain = text.strip()
    if not known:
        return plain
    whole = re.fullmatch(r"(-?\d+)\.0*", plain)
    return whole[1] if whole is not None and whole[1] in known else plain


def mark_among(columns: Iterable[Sequence[str]]) -> DecimalMark:
    """The decimal marks that the number columns of a table show. Each item of `columns` has the cells of one column."""
    found = DecimalMark()
    for texts in columns:
        unique = [text for text in dict.fromkeys(map(str.strip, texts)) if text not in ABSENT_NUMBERS]
        marked = [text for text in unique if "," in text or "." in text]
        some = unique[:: 1 + len(unique) // MANY]
        if marked and any(sum(written(text, mark) is not None for text in some) > len(some) / 2 for mark in ".,"):
            found.see(marked)
    return found


def strays(texts: Sequence[str], mark: str = ".") -> list[int]:
    """The indices of the few cells that are no numbers in a column of numbers.

    Empty where too many cells are no numbers: the column is then one of texts.
    """
    cells = _cells([text.strip() for text in texts], mark)
    odd = _strays(cells)
    found = [i for i, text in enumerate(texts) if text.strip() in odd]
    present = sum(text.strip() not in ABSENT_NUMBERS for text in texts)
    numbers = {cell.plain for cell in cells.values() if cell is not None}
    return found if len(found) <= FEW_STRAYS * present or len(numbers) > FEW_VALUES else []


def _cells(texts: Iterable[str], mark: str) -> dict[str, Written | None]:
    """What each distinct text is as a number."""
    found: dict[str, Written | None] = dict.fromkeys(texts)
    found |= {text: written(text, mark) for text in found.keys() - ABSENT_NUMBERS}
    return found


def _plain(name: str, texts: Sequence[str], codes: Collection[float]) -> Column | None:
    """A column whose cells are all written as programs write numbers, or empty; None for another one."""
    stripped = list(map(str.strip, texts))
    absent = ABSENT_NUMBERS.intersection(stripped)
    if absent - {""}:
        stripped = ["" if text in absent else text for text in stripped]
    try:
        found = _numbers(name, stripped, codes)
    except ValueError:
        return None
    numbers = found.known
    return found if numbers.size and np.abs(numbers).max() <= LARGEST else None


def _strays(cells: Mapping[str, Written | None]) -> set[str]:
    """The texts that are no numbers, and where percentages and plain numbers stand together, those that are fewer."""
    odd = {text for text, cell in cells.items() if cell is None and text not in ABSENT_NUMBERS}
    numbers = {text: cell for text, cell in cells.items() if cell is not None}
    odd |= {text for text, cell in numbers.items() if abs(float(cell.plain)) > LARGEST}
    percent = {text for text, cell in numbers.items() if cell.percent}
    if not percent:
        return odd
    plain = {text for text, cell in numbers.items() if not cell.percent and float(cell.plain) != 0.0}
    return odd | min(percent, plain, key=len)
