"""Texts that people read: letters show parts of a manifest, so characters that hide, turn or break text are refused."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from app.errors import Fault
from app.recourse.features import escape

JOINERS = "\u00ad\u200c\u200d"
"""Invisible characters that words of some languages are written with."""

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Categories of Unicode: controls, marks of direction, halves of characters, private ones, ends of lines."""

_BREAK = re.compile("[ \t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


def unprintable(text: str) -> int | None:
    """Index of the first unprintable character in a text, or None. Line feeds and tabs count as printable."""
    if text.isprintable():
        return None
    return next((k for k, one in enumerate(text) if one not in "\n\t" and not _is_printable(one)), None)


def one_line(text: str) -> str:
    """The text on one line: each line break becomes a space, and each unprintable character becomes U+FFFD."""
    spaced = _BREAK.sub(" ", text).strip()
    return spaced if spaced.isprintable() else "".join(c if _is_printable(c) else "\ufffd" for c in spaced)


def listed(names: Sequence[str], most: int = 10, quote: str = '"') -> str:
    """The first `most` names as one text, each between `quote` marks, and then the number of the names left out."""
    shown = ", ".join(f"{quote}{name}{quote}" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def average(value: float) -> str:
    """A mean as a person compares it: three significant digits, or a whole number with thousands from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def unprintable_faults(document: Any) -> list[Fault]:
    """A fault for each key or value of a document that has an unprintable character.

    The fault names the first such character.
    """
    return [
        Fault(pointer, f"has U+{ord(text[at]):04X} at character {at + 1}, which cannot be printed; leave it out")
        for pointer, text in _texts(document, "")
        if (at := unprintable(text)) is not None
    ]


def _is_printable(one: str) -> bool:
    return one in JOINERS or unicodedata.category(one) not in UNPRINTABLE


def _texts(part: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, str):
        yield pointer, part
    elif isinstance(part, dict):
        for key, value in part.items():
            if isinstance(key, str):
                yield pointer, key
            yield from _texts(value, f"{pointer}/{escape(one_line(str(key)))}")
    elif isinstance(part, list | tuple):
        for i, value in enumerate(part):
            yield from _texts(value, f"{pointer}/{i}")
