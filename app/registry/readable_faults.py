"""Faults as people read them: features by their name, and what is wrong in many places once."""

import re
from collections.abc import Mapping, Sequence

from app.errors import Fault

FOLDED = 3
"""Equal sentences up to which each place has a line of its own."""

SHOWN = 3
"""Further places that are named in a folded line; the others are counted."""

_FEATURE = re.compile(r"/features/(\d+)(/.*)?")


def readable(faults: Sequence[Fault], names: Mapping[int, str]) -> list[Fault]:
    """The faults of a model; `names` are those of the features by index."""
    alike: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((re.sub(r"/[^/]*$", "", _place(fault)), fault.detail), []).append(fault)
    return [fault for group in alike.values() for fault in _group(group, names)]


def _place(fault: Fault) -> str:
    """The pointer, without which of the features it is."""
    return re.sub(r"^/features/\d+", "/features", fault.pointer)


def _group(group: list[Fault], names: Mapping[int, str]) -> list[Fault]:
    if len(group) <= FOLDED:
        return [Fault(fault.pointer, _named(fault, names)) for fault in group]
    first, *others = group
    shown = ", ".join(_short(fault, names) for fault in others[:SHOWN])
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return [Fault(first.pointer, f"{_named(first, names)} (also {shown}{more})")]


def _named(fault: Fault, names: Mapping[int, str]) -> str:
    """The sentence, with the name of the feature where it does not say it."""
    found = _FEATURE.fullmatch(fault.pointer)
    name = names.get(int(found[1])) if found else None
    return fault.detail if name is None or f'"{name}"' in fault.detail else f'"{name}": {fault.detail}'


def _short(fault: Fault, names: Mapping[int, str]) -> str:
    found = _FEATURE.fullmatch(fault.pointer)
    if found and int(found[1]) in names:
        return f'"{names[int(found[1])]}"'
    return '"' + fault.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") + '"'
