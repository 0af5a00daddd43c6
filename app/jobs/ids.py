"""Ids of recourses and jobs."""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import count

RECOURSE_ID = re.compile(r"rec_[0-9A-HJKMNP-TV-Z]{26}")

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits in the order of their characters, without those that are easily confused."""

_reserved: ContextVar[Iterator[int] | None] = ContextVar("reserved", default=None)


def new_number() -> int:
    """A number that grows with time and cannot be guessed: the milliseconds since 1970, followed by 80 random bits."""
    return (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)


def new_id(prefix: str) -> str:
    """A new id: `prefix` and a number. Ids sort by time and cannot be guessed.

    Inside `counting_from`, the id has the next number of that block.
    """
    reserved = _reserved.get()
    return _named(prefix, new_number() if reserved is None else next(reserved))


def first_id(prefix: str, moment: datetime) -> str:
    """A text that sorts before all ids that have this prefix and are made at `moment` or later."""
    return _named(prefix, int(1000.0 * moment.timestamp()) << 80)


def _named(prefix: str, number: int) -> str:
    return f"{prefix}_" + "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def ids_are_reserved() -> bool:
    """Whether the code runs inside `counting_from`, so that an earlier attempt may have assigned the same ids."""
    return _reserved.get() is not None


@contextmanager
def counting_from(number: int) -> Iterator[None]:
    """Context in which the numbers of new ids count up from `number`: a repeated request assigns the same ids."""
    token = _reserved.set(count(number))
    try:
        yield
    finally:
        _reserved.reset(token)
