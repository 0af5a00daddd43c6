"""What a process keeps of models, up to so many bytes; what was used least recently makes room.

Models and their future models share the room. `dropped` names the models whose values were dropped, so that the server
has them loaded again before it asks about them.
"""

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from cachetools import LRUCache

Value = TypeVar("Value")

ROOM = "RECOURSE_CHILD_MODELS_MB"
"""Room in MiB; inherited from the server, whose settings validated it."""

ROOM_MB = 512
"""Room where nothing is set."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    name: str
    size: int


class Kept(LRUCache[Hashable, _Entry]):
    """A cache that drops the entries used least recently, and notes the names of the owners of dropped entries.

    Parameters
    ----------
    room : most bytes that all entries may have together
    """

    def __init__(self, room: int) -> None:
        super().__init__(room, getsizeof=lambda entry: entry.size)
        self.given_up: list[str] = []

    def popitem(self) -> tuple[Hashable, _Entry]:
        """Drop the entry that was used least recently, and return it."""
        key, entry = super().popitem()
        self.given_up.append(entry.name)
        return key, entry


_kept = Kept(int(os.environ.get(ROOM, ROOM_MB)) << 20)


def kept(key: Hashable, make: Callable[[], Value], *, name: str, size: Callable[[Value], int]) -> Value:
    """The cached value of `key`. `make` makes it on the first call, and again after it was dropped.

    Values are dropped to make room for others; the newest one is kept whatever its size.

    Parameters
    ----------
    name : owner of the value; `dropped` returns this name after the value was dropped
    size : function that returns the approximate size of a value in bytes
    """
    if (entry := _kept.get(key)) is None:
        value = make()
        entry = _kept[key] = _Entry(value, name, min(size(value), int(_kept.maxsize)))
    found: Value = entry.value
    return found


def dropped() -> list[str]:
    """Names of the owners whose values were dropped since the last call of `dropped`, each once."""
    names, _kept.given_up = list(dict.fromkeys(_kept.given_up)), []
    return names
