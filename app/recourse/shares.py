"""Shares in per cent as people read them."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

MOST_DIGITS = 6
"""Digits after the point that probabilities have."""


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent, rounded to `digits` after the point, without the sign.

    Only a share of 0 reads as 0, and only a share of 1 as 100.
    """
    step, shown = Decimal(1).scaleb(-digits), in_percent(share, digits)
    return str(shown if share in (0.0, 1.0) else min(max(shown, step), 100 - step))


def in_percent(share: float, digits: int = 0) -> Decimal:
    """A share in per cent, halves rounded up."""
    return half_up(100 * Decimal(repr(float(share))), digits)


def half_up(number: Decimal, digits: int) -> Decimal:
    """The number rounded to `digits` after the point as people round: 20.5 to 21."""
    return number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def digits_apart(at: float | None, shares: Iterable[float | None]) -> int:
    """Fewest digits after the point that tell the share `at`, in per cent, from other `shares`; 0 if `at` is None."""
    others = [share for share in shares if share is not None and share != at]
    if at is None:
        return 0
    digits = (n for n in range(MOST_DIGITS) if all(percent(share, n) != percent(at, n) for share in others))
    return next(digits, MOST_DIGITS)
