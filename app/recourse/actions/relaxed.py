"""The constraints of a request that rule records out, each with the action set without it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import range_without
from app.recourse.actions.sentences import name_text


@dataclass(frozen=True, slots=True)
class Relaxed:
    """One constraint of the request, and the larger action set without it."""

    constraint: str
    feature: str | None
    """None where it binds several."""
    text: str
    """What would help, as a sentence."""
    actions: ActionSet


def relaxed(actions: ActionSet) -> Iterator[Relaxed]:
    """Each constraint of the request that rules out records by itself, with the action set without it.

    A time limit that follows from an answer's validity counts as a constraint. Limits that the lender sets do not.
    """
    if actions.beginning is not None:
        for one in relaxed(actions.beginning):
            yield replace(one, actions=_begun_like(actions, one.actions))
        return
    for j, (feature, limits) in enumerate(zip(actions.space.features, actions.limits(), strict=True)):
        for name in dict.fromkeys(limit.name for limit in limits if limit.asked):
            wider = range_without(feature, float(actions.factual_raw[j]), limits, name)
            if name != "horizon_months" and wider != actions.range(j):
                text = f"Relaxing the {name} constraint on {name_text(feature)} would help most."
                yield Relaxed(name, feature.name, text, actions.ranged({j: wider}))
    if actions.max_changes is not None:
        noun = "feature" if actions.max_changes == 1 else "features"
        text = f"Allowing more than {actions.max_changes} changed {noun} would help most."
        uncapped = replace(actions.constraints, max_changes=None)
        yield Relaxed("max_changes", None, text, replace(actions, constraints=uncapped))
    if math.isfinite(actions.clock.months) and not actions.clock.stands_still:
        month = "month" if actions.clock.months == 1.0 else "months"
        months = f"{actions.clock.months:g} {month}"
        valid = f"the {months} for which an answer is valid" if actions.timing.horizon_months is None else months
        text = f"Taking longer than {valid} would help most."
        yield Relaxed("horizon_months", None, text, actions.with_months(math.inf))


def _begun_like(actions: ActionSet, others: ActionSet) -> ActionSet:
    """Another set of the same person after the changes that have been made in this one."""
    ranges = {j: actions.range(j) for j in actions.begun}
    return replace(
        others.ranged(ranges), factual_raw=actions.factual_raw, weights=actions.weights, included={},
        begun=actions.begun, beginning=others,
    )  # fmt: skip


def without_inclusion(actions: ActionSet) -> Iterator[Relaxed]:
    """For each included change that is already made in `actions`, the action set without this change.

    In it, the person may make the change but need not.
    """
    before = actions.beginning
    if before is None:
        return
    for j in actions.begun:
        fact, weights = actions.factual_raw.copy(), actions.weights.copy()
        fact[j], weights[j] = before.factual_raw[j], before.weights[j]
        begun = {k: cost for k, cost in actions.begun.items() if k != j}
        free = replace(actions.ranged({j: before.range(j)}), factual_raw=fact, weights=weights, begun=begun)
        feature = actions.space.features[j]
        text = f"Not insisting on a change of the {name_text(feature)} would help most."
        yield Relaxed("must_include", feature.name, text, free)
