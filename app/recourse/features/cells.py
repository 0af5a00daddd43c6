"""Cells of a lender's table: numbers as people write them, and texts that stand for a missing value.

A number is written with a decimal point or a decimal comma, in groups of three digits or not, with a currency, or as a
percentage. ``1.234`` and ``1,234`` are read two ways; the other cells of the table say which is meant (`DecimalMark`).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from jaxtyping import Float

ABSENT = frozenset({
    "", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "-nan", "-NaN",
})  # fmt: skip
"""Texts that pandas reads as a missing value, but for "None", which may be a level."""

ABSENT_NUMBERS = ABSENT | {"?", "-", ".", "None", "none", "missing", "unknown"}
"""Texts that stand for a missing value in a column of numbers."""

CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP", "₹": "INR"}
"""Signs of currencies; codes of three letters are understood too."""

DELIMITERS = ",;\t|"

_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_PLAIN_SIGNS = re.compile(r"[0-9.+\-eE]*")
"""Signs of numbers that `float` reads as `number_of_text` does."""

_MONEY = "[$€£₹]|EUR|USD|GBP|CHF|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR"
_AROUND = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-])?\s?(?P<before>{_MONEY})?\s?(?P<number>[+-]?[0-9.,][0-9.,'’\s]*(?:[eE][+-]?[0-9]+)?)"
    rf"\s?(?:(?P<percent>%)|(?P<after>{_MONEY}))?(?P<close>\))?"
)
_GROUPS = {".": r",'’\s", ",": r".'’\s"}
"""What may stand between groups of three digits, by the decimal mark."""

_DIGITS = r"(?:[0-9]+|[1-9][0-9]{{0,2}}(?P<group>[{groups}])[0-9]{{3}}(?:(?P=group)[0-9]{{3}})*)"
_WITH = {
    mark: re.compile(
        rf"[+-]?(?:{_DIGITS.format(groups=groups)}(?:{re.escape(mark)}[0-9]*)?|{re.escape(mark)}[0-9]+)"
        r"(?:[eE][+-]?[0-9]+)?"
    )
    for mark, groups in _GROUPS.items()
}
"""Numbers with a decimal point, and with a decimal comma."""


@dataclass(frozen=True, slots=True)
class Written:
    """The number in a table's cell, and what is written beside it: a percent sign or a currency."""

    plain: str
    """The number with a decimal point and nothing else, as ``1012.37``; for 5 % it is ``5``."""
    percent: bool = False
    currency: str = ""
    """Code of three letters."""


def written(text: str, mark: str = ".") -> Written | None:
    """The number in a table's cell; None for a text that is no number.

    Parameters
    ----------
    mark : the decimal mark of the table, "." or ","
    """
    text = text.strip()
    if mark == "." and _PLAIN.fullmatch(text):
        return Written(text)
    # Spreadsheets of some languages write digits of full width; those of other scripts are no digits here.
    around = _AROUND.fullmatch(unicodedata.normalize("NFKC", text).replace("\u2212", "-"))
    if around is None or bool(around["open"]) != bool(around["close"]):
        return None
    number = around["number"].strip()
    if _WITH[mark].fullmatch(number) is None or (around["before"] and around["after"]):
        return None
    if (around["sign"] or around["open"]) and number[0] in "+-":
        return None
    if around["open"]:  # as bookkeepers write what is owed
        number = f"-{number}"
    plain = re.sub(f"[{_GROUPS[mark]}]", "", number).replace(mark, ".")
    found = around["before"] or around["after"] or ""
    sign = around["sign"] or ""
    return Written(f"{sign}{plain}", percent=bool(around["percent"]), currency=CURRENCIES.get(found, found))


def number_of_text(text: str) -> float:
    """The number in a text, written as in a program. Raises `ValueError` for other texts, such as 1_2, ١٢ and inf."""
    if _PLAIN.fullmatch(text) is None:
        raise ValueError
    return float(text)


def plain_numbers(texts: Sequence[str]) -> Float[np.ndarray, "n"]:
    """The numbers in texts, written as in a program; NaN for an empty text. Raises `ValueError` for other texts."""
    if _PLAIN_SIGNS.fullmatch("".join(texts)) is None:
        raise ValueError
    known = [text or "nan" for text in texts] if "" in texts else texts
    return np.fromiter(map(float, known), float, len(texts))


FIRST = 100
"""Cells that mostly show the decimal mark of a column."""

_TWO_POINTS = re.compile(r"\.[^.\n]*\.")


@dataclass(slots=True)
class DecimalMark:
    """Evidence for the decimal mark of a table, collected from its cells.

    It has the first number with a decimal point, the first with a decimal comma, and the first that allows both
    readings.
    """

    point: str = ""
    comma: str = ""
    either: str = ""
    """A cell that can be read both ways, as 1.234."""
    seen: set[str] = field(default_factory=set)

    def see(self, texts: Sequence[str]) -> None:
        """Add the evidence in the cells of one column; cells that are not numbers give none."""
        self._look(texts[:FIRST])
        # Where the point is known, cells with one point and no comma say nothing more.
        joined = "\n".join(texts[FIRST:])
        if not self.point or "," in joined or _TWO_POINTS.search(joined):
            self._look(texts[FIRST:])

    def _look(self, texts: Iterable[str]) -> None:
        for text in dict.fromkeys(texts):
            # Where one mark is known, only what may show the other one matters.
            if (self.point and "," not in text and text.count(".") < 2) or (
                self.comma and "." not in text and text.count(",") < 2
            ):
                continue
            if ("," not in text and "." not in text) or text in self.seen:
                continue
            if len(self.seen) < 100_000:
                self.seen.add(text)
            with_point, with_comma = written(text, "."), written(text, ",")
            if with_point is not None and with_comma is not None:
                self.either = self.either or text.strip()
            elif with_comma is not None:
                self.comma = self.comma or text.strip()
            elif with_point is not None:
                self.point = self.point or text.strip()

    def of(self, delimiter: str) -> str | None:
        """The decimal mark of a table with this delimiter; None where its cells can be read both ways.

        Raises
        ------
        ValueError : some cells have a decimal point and others a decimal comma
        """
        if self.point and self.comma:
            raise ValueError(
                f'has both "{self.point}" and "{self.comma}" among its numbers; write all of them with a decimal point'
            )
        if self.point or self.comma:
            return "." if self.point else ","
        # Where commas stand between cells, nobody writes decimal commas; elsewhere both are usual.
        return "." if delimiter == "," or not self.either else None


def delimiter_of(heading: str) -> str:
    """The delimiter that a table's first line shows; a semicolon where the line has no delimiter."""
    bare = re.sub(r'"[^"]*"', "", heading)
    found = max(DELIMITERS, key=bare.count)
    return found if found in bare else ";"


def lines_and_delimiter(lines: Iterable[str]) -> tuple[Iterator[str], str]:
    """All lines of a table, and the delimiter that its first non-blank line shows."""
    rest = iter(lines)
    skipped: list[str] = []
    for line in rest:
        skipped.append(line)
        if line.strip():
            break
    return chain(skipped, rest), delimiter_of(skipped[-1] if skipped else "")
