"""A few ways that help most of the refused: rules such as "savings: at least 5,000 EUR", the same for everybody.

A rule makes one record of each person. It reaches a person where that record is legal for them as it stands, nothing
cut at their own limits, and the black box accepts it. Candidates are what verified answers do: sets of features that
they change, with quantiles of their new values, differences and factors. Of the candidates those few are chosen that
together reach most people, exactly, by a mixed-integer program; others that reach nearly as many and spare much cost
replace them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.sentences import level_text, number_text, title_text
from app.recourse.features import Feature, FeatureType
from app.recourse.models.committee import FutureModels
from app.recourse.models.meter import Meter
from app.recourse.numerics.solvers import largest_cover

MOST_RULES, LEAST_OF_SET = 4_000, 60
"""Candidates in all, roughly, and of each set of features at least."""

SETS, PAIRED = 12, 4
"""Most frequent sets of features that are tried, and most frequent features of which each pair is."""

QUANTILES = (0.5, 0.75, 0.9, 1.0)
"""Of what answers change to and by: the share of them that a rule goes at least as far as."""

LEAST_FACTOR, MOST_FACTOR, STEP = 0.5, 1.5, 0.05
"""Between which a factor can be told, and to multiples of what; beyond these, a value or a difference says it."""

NEAR = 1e-6
"""How far a number without a lattice may be moved to be legal."""

UNREACHED = 100.0
"""What counts as the cost of a person whom no way reaches: one more of 182 is no sign of more among others, for whom
ways that reach everybody at any price reach as many and cost a sixth more."""

Row: TypeAlias = Float[np.ndarray, "p"]

Reached: TypeAlias = tuple[Int[np.ndarray, "r"], Float[np.ndarray, "r p"]]
"""Rules that reach a person, and the accepted records."""


@dataclass(frozen=True, slots=True, order=True)
class Move:
    """What a common way changes in one feature."""

    feature: int
    kind: Literal["level", "to", "by", "times"]
    """To a category; to a value for those who are not there yet; by a difference; times a factor."""
    value: float
    up: bool
    """Whether `to` is a value to have at least, and not at most."""

    def text(self, feature: Feature) -> str:
        """The move in words, such as "savings: at least 5,000 EUR"."""
        if self.kind == "times":
            return f"{title_text(feature)}: {abs(self.value - 1.0):.0%} {'more' if self.value > 1.0 else 'less'}"
        if self.kind == "by":
            way = ("more" if self.value > 0.0 else "less") if feature.is_number else _raised(self.value)
            amount = number_text(feature, abs(self.value)) if feature.is_number else f"{abs(self.value):g}"
            if feature.unit == "%":
                amount = f"{amount.removesuffix('%')} percentage points"
            return f"{title_text(feature)}: {amount} {way}"
        value = self.value
        end = number_text(feature, value) if feature.is_number else level_text(feature, feature.value(value))
        alone = self.kind == "level" or value == (feature.range_raw[1] if self.up else feature.range_raw[0])
        return f"{title_text(feature)}: {end}" if alone else f"{title_text(feature)}: at {self._end} {end}"

    @property
    def _end(self) -> str:
        return "least" if self.up else "most"


def _raised(levels: float) -> str:
    return f"{'level' if abs(levels) == 1.0 else 'levels'} {'higher' if levels > 0.0 else 'lower'}"


Rule: TypeAlias = tuple[Move, ...]


class Rules:
    """Several common ways as arrays; makes one person's records after each of these ways, all at once."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        moves = [(r, move) for r, rule in enumerate(rules) for move in rule]
        self._rule, self._feature = (
            np.array(one, dtype=np.intp) for one in ([r for r, _ in moves], [move.feature for _, move in moves])
        )
        self._kind = np.array([move.kind for _, move in moves])
        self._value, self._up = np.array([move.value for _, move in moves]), np.array([move.up for _, move in moves])

    def rows_raw(self, factual_raw: Row) -> Float[np.ndarray, "k p"]:
        """The raw record that each way makes of a person's own record, one row per way; it may be illegal."""
        own, value, kind = factual_raw[self._feature], self._value, self._kind
        end = np.where(self._up, np.maximum(own, value), np.minimum(own, value))
        rows_raw = np.tile(factual_raw, (len(self.rules), 1))
        made = np.select([kind == "to", kind == "by", kind == "times"], [end, own + value, own * value], value)
        rows_raw[self._rule, self._feature] = made
        return rows_raw

    def reached(
        self, actions: ActionSet, meter: Meter, futures: FutureModels | None = None, least: float = 0.0
    ) -> Reached:
        """The ways that reach one person: their ascending indices, and the accepted raw record that each leads to.

        Parameters
        ----------
        futures, least : future models, and the share of them that must accept a record as well, in [0, 1]
        """
        asked = self.rows_raw(actions.factual_raw)
        rows_raw = actions.clock.settled(actions.snap(asked))
        room = np.where(actions.step_raw > 0.0, actions.step_raw, NEAR)
        untouched = (asked == actions.factual_raw) & (rows_raw == actions.factual_raw)
        kept = untouched | (np.abs(rows_raw - asked) < room) | actions.clock.passive
        found = np.flatnonzero(kept.all(axis=1) & (actions.changed(rows_raw) > 0) & actions.contains(rows_raw))
        if found.size:
            found = found[meter.black_box.accepts(meter.score_raw(rows_raw[found]))]
        if found.size and least > 0.0 and futures is not None:
            found = found[futures.shares(rows_raw[found]) >= least]
        return found, rows_raw[found]


def candidates(features: Sequence[Feature], answers: Sequence[tuple[Row, ActionSet]], changes: int) -> list[Rule]:
    """Possible common ways of at most `changes` moves, made from people's answers.

    Parameters
    ----------
    answers : of each person, the accepted raw row and the person's action set
    changes : largest number of features that one way changes
    """
    changed = [actions.changes(row_raw) for row_raw, actions in answers]
    pairs: dict[int, list[tuple[float, float]]] = {}
    for (row_raw, actions), own in zip(answers, changed, strict=True):
        for j in own:
            pairs.setdefault(j, []).append((float(actions.factual_raw[j]), float(row_raw[j])))
    moves = {j: moves_of(j, features[j], np.array(found)) for j, found in sorted(pairs.items())}
    often = [j for j, _ in Counter(j for own in changed for j in own).most_common(PAIRED)]
    common = [own for own, _ in Counter(own for own in changed if 0 < len(own) <= changes).most_common(SETS)]
    two = itertools.combinations(sorted(often), 2) if changes > 1 else ()
    tried = list(dict.fromkeys([*((j,) for j in moves), *common, *two]))
    rules: list[Rule] = []
    for number, together in enumerate(tried):
        every = list(itertools.islice(itertools.product(*(moves[j] for j in together)), 200_000))
        most = max(LEAST_OF_SET, MOST_RULES // len(tried))
        if len(every) > most:
            drawn = np.random.default_rng(number).choice(len(every), most, replace=False)
            every = [every[k] for k in np.sort(drawn)]
        rules += every
    return list(dict.fromkeys(rules))


def moves_of(j: int, feature: Feature, pairs: Float[np.ndarray, "n 2"]) -> list[Move]:
    """What a rule may do with a feature: pairs of values before and after."""
    if feature.is_group:
        return sorted({Move(j, "level", float(to), up=True) for to in pairs[:, 1]})
    found: set[Move] = set()
    for up in (True, False):
        before, after = pairs[(pairs[:, 1] > pairs[:, 0]) == up].T
        if not len(before):
            continue
        for q in QUANTILES if up else tuple(1.0 - q for q in QUANTILES):
            end, by = (float(np.quantile(one, q, method="nearest")) for one in (after, after - before))
            found.add(Move(j, "to", float(np.clip(told_value(feature, end, up), *feature.range_raw)), up))
            if feature.type is not FeatureType.BINARY:
                found.add(Move(j, "by", told_value(feature, by, up), up))
            if feature.is_number and bool((before > 0.0).all()):
                factor = round(_beyond(float(np.quantile(after / before, q)), STEP, up), 2)
                found |= {Move(j, "times", factor, up)} if LEAST_FACTOR <= factor <= MOST_FACTOR else set()
    return sorted(found)


def told_value(feature: Feature, value: float, up: bool) -> float:
    """A number with two digits that goes at least as far; as it is where these are off the steps of the feature."""
    if not feature.is_number or value == 0.0:
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    step = feature.step or 0.0
    if step and not math.isclose(max(unit / step, step / unit) % 1.0, 0.0, abs_tol=1e-9):
        return value
    return _beyond(value, max(unit, step), up)


def _beyond(value: float, unit: float, up: bool) -> float:
    """The next multiple of a unit, to 12 digits; the value itself where it is one."""
    steps = round(value / unit, 6)
    return float(f"{(math.ceil(steps) if up else math.floor(steps)) * unit:.12g}")


def best_cover(costs: Float[np.ndarray, "n m"], most: int) -> tuple[list[int], list[int], list[int]]:
    """At most `most` common ways that together reach the most people, but for a person who costs others too much.

    Among choices that reach equally many, a cheap one is taken. One person fewer is reached where that spares all
    others together about `UNREACHED`.

    Parameters
    ----------
    costs : (n, m), cost of way m for person n; infinite where the way does not reach the person

    Returns
    -------
    The columns of the chosen ways, in the order in which each adds most people; the numbers of people that the first 1,
        2, ... of these reach; and upper bounds on the numbers of people that any 1, 2, ... ways can reach
    """
    reach = np.isfinite(costs)
    people, weights = np.unique(reach[reach.any(axis=1)], axis=0, return_counts=True)
    shared = (people.T * weights).astype(float) @ people
    size = shared.diagonal()
    within = (shared == size[:, None]) & (size > 0.0)[:, None]  # all whom a rule reaches, another one reaches as well
    larger = (size > size[:, None]) | ((size == size[:, None]) & np.tri(len(size), k=-1, dtype=bool))
    useful = np.flatnonzero((size > 0.0) & ~(within & larger).any(axis=1))
    if not useful.size:
        return [], [], []
    chosen, bound = largest_cover(people[:, useful], weights, most)
    rules = _nested(costs, _cheapened(costs, useful[chosen].tolist(), most))
    reached = [int(reach[:, rules[: k + 1]].any(axis=1).sum()) for k in range(len(rules))]
    gained = np.cumsum(np.sort(size)[::-1])
    return rules, reached, [min(int(gained[k]), bound) for k in range(len(rules))]


def _total(costs: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "..."]:
    """What people pay together."""
    return np.asarray(np.minimum(costs, UNREACHED).sum(axis=0))


def _cheapened(costs: Float[np.ndarray, "n m"], chosen: list[int], most: int) -> list[int]:
    """A set that costs less, those counted whom it does not reach: rules are added or exchanged while that helps."""
    nobody = np.full(len(costs), np.inf)
    while True:
        total, swaps = float(_total(costs[:, chosen].min(axis=1))), []
        for k in range(len(chosen) + (len(chosen) < most)):
            others = chosen[:k] + chosen[k + 1 :]
            kept = costs[:, others].min(axis=1, initial=np.inf) if others else nobody
            totals = _total(np.minimum(costs, kept[:, None]))
            swaps.append((float(totals.min()), [*others, int(totals.argmin())]))
        best, found = min(swaps)
        if best >= total - 1e-9 * (1.0 + total):
            return chosen
        chosen = found


def _nested(costs: Float[np.ndarray, "n m"], chosen: list[int]) -> list[int]:
    """The same rules, those first that add most people, then those that spare most cost."""
    left, order, paid = sorted(chosen), list[int](), np.full(len(costs), np.inf)
    while left:
        totals = _total(np.minimum(costs[:, left], paid[:, None]))
        best = left.pop(int(totals.argmin()))
        order.append(best)
        paid = np.minimum(paid, costs[:, best])
    return order


def rule_text(rule: Rule, features: Sequence[Feature]) -> str:
    """A common way in words: its moves, separated by semicolons."""
    return "; ".join(move.text(features[move.feature]) for move in rule)
