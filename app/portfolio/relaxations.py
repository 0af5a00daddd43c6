"""Which limits stand between a person and a yes, and by how much each would have to give."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import Limit, range_of
from app.recourse.features import Advice, Feature

STEPS = (0.25, 0.5, 1.0, 2.0)
"""By how many spreads, roughly, a limit of a number gives before it goes altogether."""

MONTHS = (3.0, 6.0, 12.0, 24.0)
"""By how many months the limit of time gives before it goes."""

KEPT = frozenset({"range", "least_change", "horizon_months"})
"""No choices of one feature: what a record may hold, changes too small to be worth advising, and time."""

Reachable: TypeAlias = Callable[[ActionSet], bool]
"""Whether the model accepts a record of an action set."""


@dataclass(frozen=True, slots=True)
class InTheWay:
    """A limit that keeps a person from a way to a yes: without it, the person has one."""

    limit: str
    feature: str | None
    """None for time, which limits all features."""
    lender_set: bool
    """Whether the lender set it, and not the request."""
    by: float | None
    """The least raw difference of `STEPS`, or of `MONTHS`, by which it would have to give; None where none of them is
    enough, and of levels."""


def in_the_way(actions: ActionSet, reachable: Reachable) -> list[InTheWay]:
    """The limits that stand in a person's way: each opens a way to a yes if it alone is given up or widened.

    The person has no recourse with all limits. Rules are never given up.

    Parameters
    ----------
    reachable : whether an action set has a record that the model accepts
    """
    found = []
    months = actions.clock.months
    if not math.isinf(months) and reachable(actions.with_months(math.inf)):
        asked = actions.timing.horizon_months is not None
        by = next((more for more in MONTHS if reachable(actions.with_months(months + more))), None)
        found.append(InTheWay(limit="horizon_months", feature=None, lender_set=not asked, by=by))
    for j, (feature, limits) in enumerate(zip(actions.space.features, actions.limits(), strict=True)):
        for name, lender_set, widened in _choices(feature, limits):
            if not _opens(actions, j, widened(math.inf), reachable):
                continue
            spread = float(actions.space.spread_raw[j])
            steps = () if feature.is_group else (_plain(step * spread, actions.step_raw[j]) for step in STEPS)
            by = next((by for by in steps if _opens(actions, j, widened(by), reachable)), None)
            found.append(InTheWay(limit=name, feature=feature.name, lender_set=lender_set, by=by))
    return found


def _plain(by: float, tick: float) -> float:
    """A difference with one digit that is not 0, which is a multiple of the tick; at least one tick."""
    digit = 10.0 ** math.floor(math.log10(by))
    rounded = round(by / digit) * digit
    return float(f"{max(round(rounded / tick), 1) * tick if tick > 0.0 else rounded:.12g}")


Widened: TypeAlias = Callable[[float], tuple[Feature, list[Limit]]]
"""A feature and its limits, one of them widened by a raw difference, or given up at infinity."""


def _choices(feature: Feature, limits: Sequence[Limit]) -> Iterator[tuple[str, bool, Widened]]:
    """Each limit of a feature that could give: its name, whether the lender set it, and how it is widened.

    What nobody can change, as the past, has none.
    """
    for name, asked in dict.fromkeys((limit.name, limit.asked) for limit in limits if limit.name not in KEPT):

        def widened(by: float, name: str = name, asked: bool = asked) -> tuple[Feature, list[Limit]]:
            one = replace(feature, advice=Advice()) if name == "advice" else feature
            return one, [_given(limit, by) if (limit.name, limit.asked) == (name, asked) else limit for limit in limits]

        yield name, not asked, widened


def _given(limit: Limit, by: float) -> Limit:
    return replace(limit, low=limit.low - by, high=limit.high + by, without=())


def _opens(actions: ActionSet, j: int, widened: tuple[Feature, list[Limit]], reachable: Reachable) -> bool:
    """Whether the model accepts a record of the set in which one feature has other limits."""
    feature, limits = widened
    wider = range_of(feature, float(actions.factual_raw[j]), limits)
    return wider != actions.range(j) and reachable(actions.ranged({j: wider}))
