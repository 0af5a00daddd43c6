"""Templates: text with ``{{name}}``, ``{{#name}}…{{/name}}`` and ``{{^name}}…{{/name}}``, a part of Mustache.

A section ``#`` is repeated for each entry of a list, left out where there is nothing, and shown once otherwise; ``^``
is shown where there is nothing. Names are looked up in the entry, then around it; ``{{.}}`` is the entry itself. There
are no expressions, so a template can show what it is given and do nothing else.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.registry.printable import one_line

_TAG = re.compile(r"\{\{\s*([#^/]?)\s*(\w+|\.)\s*\}\}")
_ALONE = re.compile(r"^[ \t]*(\{\{\s*[#^/]\s*\w+\s*\}\})[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Place:
    name: str


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    inverted: bool
    parts: "list[_Part]"


_Part: TypeAlias = str | _Place | _Section


class Template:
    """A template that has been read.

    Parameters
    ----------
    names : that it may use

    Raises
    ------
    ValueError : a section is not closed, or a name is not among them; the sentence has the line
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._parts = _parsed(text, names)

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text with these values; line breaks in a value become spaces, what cannot be printed U+FFFD."""
        return _filled(self._parts, [values])


def _parsed(text: str, names: Collection[str]) -> list[_Part]:
    # A tag of a section that stands alone leaves no empty line. One of another line keeps the count of lines right.
    lines = {match.start(1): text.count("\n", 0, match.start(1)) + 1 for match in _TAG.finditer(text)}
    numbers = list(lines.values())
    text = _ALONE.sub(r"\1", text)
    root: list[_Part] = []
    stack: list[tuple[str, int, list[_Part]]] = [("", 0, root)]
    at = 0
    for number, tag in zip(numbers, _TAG.finditer(text), strict=True):
        kind, name = tag.groups()
        stack[-1][2].append(text[at : tag.start()])
        at = tag.end()
        if kind == "/":
            if stack[-1][0] != name:
                raise ValueError(f"line {number} ends {name}, which does not begin before it")
            stack.pop()
            continue
        if name not in names and name != ".":
            raise ValueError(f"line {number} names {name}; there are " + ", ".join(sorted(names)))
        if kind:
            section = _Section(name, kind == "^", [])
            stack[-1][2].append(section)
            stack.append((name, number, section.parts))
        else:
            stack[-1][2].append(_Place(name))
    if len(stack) > 1:
        raise ValueError(f"line {stack[-1][1]} begins {stack[-1][0]}, which does not end")
    root.append(text[at:])
    return root


def _filled(parts: Sequence[_Part], around: list[Any]) -> str:
    return "".join(_shown(part, around) for part in parts)


def _shown(part: _Part, around: list[Any]) -> str:
    if isinstance(part, str):
        return part
    value = _found(part.name, around)
    if isinstance(part, _Place):
        return "" if value is None else one_line(str(value))
    nothing = value is None or value is False or (isinstance(value, str | list | tuple | dict) and not value)
    if part.inverted or nothing:
        return _filled(part.parts, around) if part.inverted and nothing else ""
    entries = value if isinstance(value, list | tuple) else [value]
    return "".join(_filled(part.parts, [*around, entry]) for entry in entries)


def _found(name: str, around: list[Any]) -> Any:
    if name == ".":
        return around[-1]
    return next((level[name] for level in reversed(around) if isinstance(level, Mapping) and name in level), None)
