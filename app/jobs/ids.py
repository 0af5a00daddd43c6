"""Names of answers and jobs."""

import secrets
import time

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits that keep their order as text and are not mistaken for each other."""


def new_id(prefix: str) -> str:
    """A new id that sorts by time and cannot be guessed: milliseconds in ten digits, 80 random bits in sixteen."""
    number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
    return f"{prefix}_" + "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
