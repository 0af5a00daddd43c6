"""The changes of each counterfactual in the order in which each helps most, by the model's own score after each.

One model call scores the records in between for all counterfactuals of an answer: after every combination of changes
where these are few, else after the first changes of one order. Most often a remote model has been asked about them
already, with the proposals. Records that break a rule, or that no derived feature allows, are avoided where another
order does; a number that a rule makes depend on a level, such as the rent on the housing, comes after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.in_between import Made, combined, rows_between
from app.recourse.actions.rules import Comparison, LogicRule, parts_of
from app.recourse.counterfactual import Counterfactual, Step
from app.recourse.models.meter import Meter


def with_steps(actions: ActionSet, meter: Meter, found: Sequence[Counterfactual]) -> list[Counterfactual]:
    """The counterfactuals in `found`; those of several changes get the steps in which to make them.

    This takes at most one model call. Where time or budget are used up, all are returned without steps.

    Parameters
    ----------
    actions : the applicant's action set, in which no missing value is provided
    """
    orders = [_Order(actions, one) if len(one.changed) > 1 else None for one in found]
    rows = [row_raw for order in orders if order for row_raw in order.rows_raw.values()]
    if not rows:
        return list(found)
    try:
        scores = meter.score_raw(np.array(rows)).tolist()
    except (BudgetExceeded, DeadlineExceeded):
        return list(found)
    probability_of, with_them = meter.black_box.probability_of, list[Counterfactual]()
    for one, order in zip(found, orders, strict=True):
        if order is not None:
            own, scores = scores[: len(order.rows_raw)], scores[len(order.rows_raw) :]
            one = replace(one, steps=order.steps(own, probability_of))
        with_them.append(one)
    return with_them


def with_lasting(actions: ActionSet, meter: Meter, found: Sequence[Counterfactual]) -> list[Counterfactual]:
    """The counterfactuals in `found`, each with whether it lasts until the answer expires.

    This takes at most one model call, and none of a remote model. Where time or budget are used up, nothing is known.
    """
    clock = actions.clock
    if meter.black_box.remote is not None or not clock.passive.any():
        return list(found)
    days: list[Float[np.ndarray, "n p"]] = []
    for one in found:
        enough = next((step.row_raw for step in one.steps or () if step.score is not None and step.score >= 0.0), None)
        chosen = [*_stated(actions, one), *([] if enough is None else [enough])]
        own = [] if one.takes_months > clock.valid_months else [clock.until_expiry(row_raw) for row_raw in chosen]
        days.append(np.concatenate(own) if own else np.empty((0, actions.space.p)))
    rows_raw = np.concatenate(days) if days else np.empty((0, actions.space.p))
    if not len(rows_raw):
        return list(found)
    try:
        accepted = meter.black_box.accepts(meter.score_raw(rows_raw))
    except (BudgetExceeded, DeadlineExceeded):
        return list(found)
    ends = np.cumsum([len(own) for own in days])[:-1]
    return [
        replace(one, lasts=bool(yes.all()) if len(yes) else None)
        for one, yes in zip(found, np.split(accepted, ends), strict=True)
    ]


def _stated(actions: ActionSet, one: Counterfactual) -> list[Float[np.ndarray, "p"]]:
    """The record, and with the other ends of what is accepted of values to state."""
    rows_raw = [one.row_raw]
    for j, accepted in one.accepted.items():
        ends = accepted.levels or tuple(end for end in (accepted.min, accepted.max) if end is not None)
        values = [actions.space.features[j].parse(end) for end in ends]
        rows_raw += [np.where(np.arange(len(row)) == j, value, row) for row in rows_raw for value in values]
    return rows_raw


class _Order:
    """The records in between for one counterfactual."""

    def __init__(self, actions: ActionSet, one: Counterfactual) -> None:
        self.one, self.whole = one, frozenset(one.changed)
        some = combined(actions, one.row_raw, one.changed)
        self.rows_raw = dict(zip(some, rows_between(actions, one.row_raw, some), strict=True))
        rows = np.array(list(self.rows_raw.values()))
        legal = actions.keeps_rules(rows)
        if actions.space.derived is not None:
            legal &= actions.space.derives_legally(rows)
        self.legal = dict(zip(self.rows_raw, legal.tolist(), strict=True))
        parts = [list(parts_of(rule.condition)) for rule in actions.rules if isinstance(rule, LogicRule)]
        self.pairs = {
            (level, number)
            for rule in parts
            for compared in rule if isinstance(compared, Comparison) for number in compared.features
            for tested in rule if not isinstance(tested, Comparison) for level in tested.features
        }  # fmt: skip
        """A level, and a number that depends on it."""

    def steps(self, scores: Sequence[float], probability_of: Callable[[float], float | None]) -> tuple[Step, ...]:
        """The steps in the best order, from the `scores` of `rows_raw`, in which some of the changes are made."""
        known = dict(zip(self.rows_raw, scores, strict=True))
        broken: dict[Made, int] = {self.whole: 0}
        for some in sorted(self.rows_raw, key=len, reverse=True):
            onward = [broken[more] for more in broken if len(more) == len(some) + 1 and some < more]
            broken[some] = min(onward) + (not self.legal[some])
        found, made = list[Step](), frozenset[int]()
        while made != self.whole:
            options = [some for some in broken if len(some) == len(made) + 1 and made < some]
            left = self.whole - made
            early = {number for level, number in self.pairs if level in left}
            after = min(
                options,
                key=lambda some: (broken[some], some - made <= early, -_finite(known.get(some, 0.0)), sorted(some)),
            )
            (feature,) = after - made
            row_raw, score = (
                (self.one.row_raw, self.one.score) if after == self.whole else (self.rows_raw[after], known[after])
            )
            finite = bool(np.isfinite(score))
            found.append(
                Step(
                    feature=feature, row_raw=row_raw, score=score if finite else None,
                    probability=probability_of(score) if finite else None,
                )
            )  # fmt: skip
            made = after
        return tuple(found)


def _finite(score: float) -> float:
    """For comparison: a record without a score comes last."""
    return score if np.isfinite(score) else -np.inf
