"""Universal Binary JSON, as XGBoost writes it by default: the same document as its JSON, with typed arrays.

Only what a file of XGBoost has is read. Every length is compared with the bytes that are left before anything is
built, so a damaged file ends in an error and not in a large allocation.
"""

import struct
from typing import Any

import numpy as np

DEEPEST = 32
"""Most objects and arrays inside each other; a file of XGBoost has nine."""

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def is_ubjson(content: bytes) -> bool:
    """Whether `content` begins as a UBJSON object does: a brace, then the type of the first key's length.

    No JSON document begins like this.
    """
    return content[:1] == b"{" and content[1:2] in (b"L", b"i", b"U", b"I", b"l")


def parse(content: bytes) -> Any:
    """The content of a UBJSON document as plain data. Raises `ValueError` for anything else."""
    reader = _Reader(content)
    found = reader.value(reader.take(1), 0)
    if reader.at != len(content):
        raise ValueError("is followed by other bytes")
    return found


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.content) - self.at:
            raise ValueError("is cut off")
        self.at += count
        return self.content[self.at - count : self.at]

    def value(self, kind: bytes, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError(f"is nested more than {DEEPEST} times")
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self.numbers(kind, 1)[0]
        if kind == b"S":
            return self.text()
        if kind == b"C":
            return self.take(1).decode("ascii")
        if kind == b"[":
            return self.array(depth + 1)
        if kind == b"{":
            return self.mapping(depth + 1)
        raise ValueError(f"has a value of the unknown kind {kind!r} at byte {self.at}")

    def numbers(self, kind: bytes, count: int) -> list[Any]:
        dtype = np.dtype(_NUMBERS[kind])
        found: list[Any] = np.frombuffer(self.take(count * dtype.itemsize), dtype).tolist()
        return found

    def length(self) -> int:
        kind = self.take(1)
        if kind not in (b"i", b"U", b"I", b"l", b"L"):
            raise ValueError("has a length that is not a whole number")
        count: int = self.numbers(kind, 1)[0]
        if not 0 <= count <= len(self.content) - self.at:
            raise ValueError("is cut off")
        return count

    def text(self) -> str:
        return self.take(self.length()).decode()

    def peek(self) -> bytes:
        return self.content[self.at : self.at + 1]

    def array(self, depth: int) -> list[Any]:
        if self.peek() == b"$":
            _, kind, sign = struct.unpack("ccc", self.take(3))
            if kind not in _NUMBERS or sign != b"#":
                raise ValueError("has an array of an unknown kind")
            return self.numbers(kind, self.length())
        if self.peek() == b"#":
            self.take(1)
            return [self.value(self.take(1), depth) for _ in range(self.length())]
        found = []
        while (kind := self.take(1)) != b"]":
            found.append(self.value(kind, depth))
        return found

    def mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek() != b"}":
            name = self.text()
            if name in found:
                raise ValueError(f'has the key "{name[:50]}" twice')
            found[name] = self.value(self.take(1), depth)
        self.take(1)
        return found
