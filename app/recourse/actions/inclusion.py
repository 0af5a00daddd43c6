"""Whether one applicant can make the changes that the wishes include."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float

from app.errors import Fault, InvalidRequest
from app.recourse.actions.advice_ranges import Limit, Range, bounds_of, range_of, range_without
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.wishes import Wishes
from app.recourse.features import MISSING, Feature, FeatureSpace

TAKES_LONGER = "every change takes longer than the answer is valid, and the request sets no horizon_months"


def check_inclusion(
    space: FeatureSpace,
    wishes: Wishes,
    constraints: Constraints,
    factual_raw: Float[np.ndarray, "p"],
    ranges: Sequence[Range],
    limits: Sequence[Sequence[Limit]],
    each_is_legal: Callable[[Float[np.ndarray, "n p"]], Bool[np.ndarray, "n p"]],
) -> None:
    """Check that this applicant can make each change that the request must include.

    Parameters
    ----------
    ranges, limits : legal range and limits of each feature, in column order
    each_is_legal : takes raw rows and returns, for each value, whether it is legal; see `ActionSet.each_is_legal`

    Raises
    ------
    InvalidRequest : the applicant cannot make some change; the error has a fault for each such change, with a pointer
        into ``/must_include``
    """

    def faults() -> Iterator[Fault]:
        for i, (name, to) in enumerate(wishes.included()):
            j = space.index(name)
            assert j is not None  # checked before
            feature, fact = space.features[j], float(factual_raw[j])
            if feature.provide and fact == MISSING:
                # The value that the person states is any, within what the request itself allows.
                low, high = bounds_of(feature, constraints)
                if to is not None and not low <= feature.parse(to) <= high:
                    yield Fault(f"/must_include/{i}/to", "lies outside constraints.bounds")
                continue
            if not ranges[j].is_open:
                why = _why_fixed(feature, fact, limits[j])
                yield Fault(f"/must_include/{i}", f'"{name}" cannot change for this applicant: {why}')
            elif to is not None:
                row_raw = factual_raw.copy()
                row_raw[j] = feature.parse(to)
                if row_raw[j] == fact:
                    yield Fault(
                        f"/must_include/{i}/to", f'is the applicant\'s own value of "{name}", so nothing changes'
                    )
                elif not each_is_legal(row_raw[None])[0, j]:
                    possible = _possible(feature, fact, ranges[j])
                    yield Fault(f"/must_include/{i}/to", f'cannot be proposed of "{name}" here; possible: {possible}')

    if found := list(faults()):
        raise InvalidRequest(faults=found)


def _why_fixed(feature: Feature, fact: float, limits: Sequence[Limit]) -> str:
    """What leaves no other value: limits of the request where it is these, and not what the model proposes at all."""
    own = [limit for limit in limits if not limit.asked]
    if not range_of(feature, fact, own).is_open:
        timeless = range_of(feature, fact, [limit for limit in own if limit.name != "horizon_months"])
        return TAKES_LONGER if timeless.is_open else "the model proposes no other value"
    asked = dict.fromkeys(limit.name for limit in limits if limit.asked)
    alone = [name for name in asked if range_without(feature, fact, limits, name).is_open]
    names = alone or list(asked)
    return f"{' and '.join(names)} of the request {'leaves' if len(names) == 1 else 'leave'} no other value"


def _possible(feature: Feature, fact: float, own: Range) -> str:
    """The values that may be proposed, as a caller writes them."""
    if feature.is_number:
        ends = [(own.lower, own.below), (own.above, own.upper)]
        possible = [(low, high) for low, high in ends if low < fact or high > fact]
        return " or ".join(f"{low:g} to {high:g}" if low < high else f"{low:g}" for low, high in possible)
    levels = own.levels or range(int(own.lower), int(own.upper) + 1)
    return ", ".join(str(feature.levels[level]) for level in levels if level != fact)
