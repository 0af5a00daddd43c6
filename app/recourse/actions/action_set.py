"""What one person can change: the model's own limits, tightened by the request, seen from the person's record.

An `ActionSet` describes the legal counterfactuals of one applicant. Each feature stays, or takes a value that may be
proposed (`app.recourse.actions.advice_ranges`): numbers, ordinals and binaries from `lower_raw` to `below_raw` or from
`above_raw` to `upper_raw`, on a lattice where the schema has one; categories one of `levels`. At most `max_changes`
features differ from the factual; rules hold between features; there is time for all changes
(`app.recourse.actions.timing`). Nothing forces a change but the wishes of the person (`app.recourse.actions.wishes`):
every other value of the factual is legal.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from app.recourse.actions.advice_ranges import (
    Asked,
    Lattices,
    Limit,
    Range,
    arrays_of,
    arrays_within,
    ends_of,
    least_worth,
    limits_of,
    range_of,
    ranges_of_all,
)
from app.recourse.actions.constraints import Constraints, check_constraints
from app.recourse.actions.cost import amounts, cost, weights_of
from app.recourse.actions.inclusion import check_inclusion
from app.recourse.actions.legal_values import LegalValues, legal_values
from app.recourse.actions.rules import Rule
from app.recourse.actions.timing import Clock, Timing, clock
from app.recourse.actions.wishes import Wishes, check_wishes
from app.recourse.features import Advice, FeatureSpace
from app.recourse.models.in_step import joined

FEW = 100
"""Rows up to which those of several people are looked at together: more of them take longer to copy."""


@dataclass(frozen=True, kw_only=True)
class ActionSet:
    """The legal counterfactuals of one applicant; build it with `action_set`."""

    space: FeatureSpace
    factual_raw: Float[np.ndarray, "p"]
    lower_raw: Float[np.ndarray, "p"]
    upper_raw: Float[np.ndarray, "p"]
    """Range of each feature (of its categories by index), the factual in it; equal to it where it cannot change."""
    below_raw: Float[np.ndarray, "p"]
    above_raw: Float[np.ndarray, "p"]
    """The nearest values on either side of the factual; the factual itself where there is no gap beside it."""
    restricted: Mapping[int, tuple[int, ...]]
    """The levels that some features may have, where these are not all from `lower_raw` to `upper_raw`."""
    movable: Bool[np.ndarray, "p"]
    """Which features a person may change."""
    step_raw: Float[np.ndarray, "p"]
    """Lattice step; 0 where any number is allowed, or the feature cannot change."""
    anchor_raw: Float[np.ndarray, "p"]
    """A point of each lattice."""
    weights: Float[np.ndarray, "p"]
    """Cost of one encoded unit, or of one change of category, that a person makes."""
    constraints: Constraints
    """Constraints of the request; all but `max_changes` are applied to the ranges."""
    rules: tuple[Rule, ...]
    timing: Timing
    """The time that the request gives."""
    clock: Clock
    """The time that the person has, already applied to the ranges."""
    least_share: float
    """Share of a number by which it changes at least, as in `action_set`."""
    given: tuple[int, ...] = ()
    """Features whose missing values this person provides, `factual_raw` having typical ones (`actions.providing`)."""
    wishes: Wishes = field(default_factory=Wishes)
    """Wishes of the request; what they rule out for single features is applied to the ranges."""
    included: Mapping[int, float | None] = field(default_factory=dict)
    """Features that change in every legal row, with the raw number that they change to where one is given."""
    barred: tuple[tuple[int, ...], ...] = ()
    """Sets of features that do not all change in one row."""
    begun: Mapping[int, float] = field(default_factory=dict)
    """Features whose change has been made in `factual_raw`, and what that costs (`actions.beginning`)."""
    beginning: "ActionSet | None" = None
    """This set before these changes were made."""

    @property
    def max_changes(self) -> int | None:
        """Largest number of features that may change; None for no limit."""
        return self.constraints.max_changes

    def levels(self, g: int) -> tuple[int, ...]:
        """Ascending indices of the legal levels of the feature in column `g`, with the applicant's own level."""
        return self.restricted.get(g) or tuple(range(int(self.lower_raw[g]), int(self.upper_raw[g]) + 1))

    @property
    def has_holes(self) -> bool:
        """Whether some ordinal feature has an illegal level between its lowest and its highest legal level."""
        return bool(self._ordinals)

    @property
    def is_coupled(self) -> bool:
        """Whether some limit joins several features, or leaves out levels of an ordinal feature.

        Limits that count are rules, a time that all changes share, levels left out, and a largest number of changes of
        which some are already made. A largest number of changes alone does not count.
        """
        counts_begun = bool(self.begun) and self.max_changes is not None
        return bool(self.rules) or self.clock.is_shared or self.has_holes or counts_begun

    @property
    def has_gaps(self) -> bool:
        """Whether some number without a lattice has a least change, so that values close to its own are illegal."""
        open_ends = (self.below_raw < self.factual_raw) | (self.above_raw > self.factual_raw)
        return bool((open_ends & (self.step_raw == 0.0)).any())

    @property
    def reweighted(self) -> bool:
        """Whether the request changes the cost weights of the schema."""
        usual = weights_of(self.space, self.factual_raw, {})
        usual[list(self.begun)] = self.weights[list(self.begun)]
        return bool((self.weights != usual).any())

    @property
    def is_box(self) -> bool:
        """Whether the set is a product of intervals.

        False where it has a lattice, categories, a least change, rules, a time that changes share, or a largest number
        of changes.
        """
        return not (self.step_raw.any() or self.has_gaps or self.is_coupled or self.max_changes is not None)

    def limits(self) -> list[list[Limit]]:
        """The limits on each feature, in column order; a feature that advice never changes has an empty list."""
        pairs = zip(self.space.features, self.factual_raw.tolist(), strict=True)
        return [limits_of(feature, fact, self._asked) for feature, fact in pairs]

    @property
    def _asked(self) -> Asked:
        return Asked(
            constraints=self.constraints, exclude=self.wishes.exclude, months=self.clock.months,
            horizon_is_asked=self.timing.horizon_months is not None, least_share=self.least_share,
        )  # fmt: skip

    def range(self, j: int) -> Range:
        """The legal values of feature `j`."""
        lower, below, above, upper = (
            float(end[j]) for end in (self.lower_raw, self.below_raw, self.above_raw, self.upper_raw)
        )
        return Range(lower, below, above, upper, self.restricted.get(j))

    def frozen(self, features: Iterable[int]) -> "ActionSet":
        """A copy of this action set in which the `features` with these column indices do not change."""
        facts = {j: float(self.factual_raw[j]) for j in features}
        return self.ranged({j: Range(fact, fact, fact, fact) for j, fact in facts.items()}) if facts else self

    def ranged(self, others: Mapping[int, Range]) -> "ActionSet":
        """A copy of this action set with new ranges for some features; `others` has each new range by column index."""
        ends = np.array([self.lower_raw, self.below_raw, self.above_raw, self.upper_raw])
        ends[:, list(others)] = ends_of(others.values())
        levels = {**self.restricted, **{j: one.levels for j, one in others.items()}}
        return replace(self, **arrays_within(self.space, ends, levels))

    def with_months(self, months: float) -> "ActionSet":
        """A copy of this action set in which changes may take so many months, or any time at infinity."""
        timing = replace(self.timing, horizon_months=None)
        wider = replace(self, timing=timing, clock=clock(self.space.features, self.factual_raw, timing, months))
        ranges = ranges_of_all(self.space, self.factual_raw, replace(self._asked, months=wider.clock.months))
        return replace(wider, **arrays_of(self.space, ranges))

    def opened(self, rows_raw: Float[np.ndarray, "n p"]) -> "ActionSet":
        """A copy of this action set that lets immovable features change where `rows_raw` change them.

        Such a feature may take every value of the schema. The copy serves to sample decisions around records that are
        not legal counterfactuals.
        """
        fixed = np.flatnonzero(~self.movable & (rows_raw != self.factual_raw).any(axis=0)).tolist()
        whole: dict[int, Range] = {}
        for j in fixed:
            feature, fact = self.space.features[j], float(self.factual_raw[j])
            low, high = feature.range_raw
            if feature.is_group:
                whole[j] = Range(low, fact, fact, high)
            else:
                limit = Limit(name="range", asked=False, low=low, high=high)
                whole[j] = range_of(replace(feature, advice=Advice()), fact, [limit])
        return self.ranged(whole) if whole else self

    def contains(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the raw rows that are legal counterfactuals of this applicant; every answer must pass it."""
        mask = self._joined(self._values.whole_rows, rows_raw)
        for j in self._ordinals:
            mask &= self._keeps_levels(j, rows_raw) | self.clock.passive[j]
        if self.max_changes is not None:
            mask &= self.changed(rows_raw) <= self.max_changes
        if self.rules:
            mask &= self.keeps_rules(rows_raw)
        if self.space.derived is not None:
            mask &= self.space.derives_legally(rows_raw)
        if not self.clock.stands_still:
            mask &= self.clock.holds(rows_raw)
        if self.included or self.barred:
            mask &= self._as_wished(rows_raw)
        return np.asarray(mask)

    def keeps_rules(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the raw rows that keep all rules of the model."""
        every = np.ones(len(rows_raw), dtype=bool)
        return np.logical_and.reduce([every, *(rule.holds(rows_raw) for rule in self.rules)])

    def _as_wished(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Which rows change all that is included, and no set of features that is excluded."""
        changed, mask = self._changes(rows_raw), np.ones(len(rows_raw), dtype=bool)
        for j, to in self.included.items():
            mask &= changed[:, j] if to is None else rows_raw[:, j] == to
        for together in self.barred:
            mask &= ~changed[:, list(together)].all(axis=1)
        return mask

    def each_is_legal(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        """Mask, per row and feature, of the legal values: the person's own, and those that may be proposed.

        Each value is judged without the rest of its row.
        """
        legal = self._joined(self._values.legal, rows_raw)
        for j in self._ordinals:
            legal[:, j] &= self._keeps_levels(j, rows_raw)
        return legal

    def _keeps_levels(self, j: int, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Which rows have a level of an ordinal feature that may be proposed, or the person's own."""
        return np.asarray(
            (rows_raw[:, j, None] == self.restricted[j]).any(axis=1) | (rows_raw[:, j] == self.factual_raw[j])
        )

    def _joined(
        self, function: Callable[..., np.ndarray], *rows_raw: Float[np.ndarray, "n p"]
    ) -> Shaped[np.ndarray, "n ..."]:
        """What a function of `LegalValues` gives for the rows; few rows in one call with those of other people."""
        if len(rows_raw[0]) > FEW:
            return function(*rows_raw, self._limits[None], self._proposed[None])
        return joined(function, *rows_raw, shared=(self._limits, self._proposed))

    def snap(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Rows with each value moved to the nearest legal value of its feature.

        A category that may not be proposed becomes the person's own, and so does a missing value or special code.
        Limits that join features are ignored: rules, the time that changes share, and the largest number of changes.
        `contains` checks these.
        """
        rounded = self._joined(self._values.snapped, rows_raw)
        return self._with_levels(rounded, rounded) if self._ordinals else rounded

    def round(
        self, rows_raw: Float[np.ndarray, "n p"], *, toward_raw: Float[np.ndarray, "#n p"] | None = None
    ) -> Float[np.ndarray, "n p"]:
        """Rows with each number rounded to a value that may be proposed, within the range of its feature.

        A number is rounded towards the number in the same place of `toward_raw`. It is rounded to the nearest such
        value if `toward_raw` is None, or has the same number there. Values equal to the factual stay.
        """
        toward_raw = rows_raw if toward_raw is None else np.broadcast_to(toward_raw, rows_raw.shape)
        rounded = self._joined(self._values.rounded, rows_raw, toward_raw)
        return self._with_levels(rounded, toward_raw) if self._ordinals else rounded

    def _with_levels(
        self, rounded: Float[np.ndarray, "n p"], toward_raw: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "n p"]:
        """Rounded rows, with levels of ordinal features that may be proposed."""
        rounded = rounded.copy()
        for j in self._ordinals:
            levels = np.array(self.restricted[j], dtype=float)
            rounded[:, j] = self._ordinal(levels, rounded[:, j], toward_raw[:, j])
        return rounded

    @staticmethod
    def _ordinal(
        levels: Float[np.ndarray, "k"], values: Float[np.ndarray, "n"], toward: Float[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Levels of an ordinal feature in place of those that are not proposed."""
        above = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
        higher, lower = levels[above], levels[np.maximum(above - (levels[above] > values), 0)]
        up = np.where(toward == values, higher - values < values - lower, toward > values)
        return np.where(up, higher, lower)

    def finished(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Rows in which each changed number that stops just short of the end of its range is moved to that end.

        Just short means closer to the end than the least change worth advising: who pays back all but 1 EUR pays that
        too. Rows stay as they are where `least_share` is 0.
        """
        if self.least_share == 0.0:
            return rows_raw
        end = np.where(rows_raw > self.factual_raw, self.upper_raw, self.lower_raw)
        near = (rows_raw != self.factual_raw) & self.movable & (np.abs(end - rows_raw) < self._least)
        return np.where(near, end, rows_raw) if near.any() else rows_raw

    @cached_property
    def x0(self) -> Float[np.ndarray, "d"]:
        """The factual as an encoded point."""
        return self.space.encode(self.factual_raw[None])[0]

    @property
    def _values(self) -> LegalValues:
        return legal_values(self.space)

    @cached_property
    def _limits(self) -> Float[np.ndarray, "k p"]:
        """The limits as `LegalValues` takes them."""
        ends = self.factual_raw, self.lower_raw, self.below_raw, self.above_raw, self.upper_raw
        lattices = Lattices.of(self.step_raw, self.anchor_raw)
        fields = lattices.exist, lattices.anchor, lattices.unit, lattices.times, lattices.parts
        return np.array([*ends, self.clock.passive, *fields])

    @cached_property
    def _proposed(self) -> Bool[np.ndarray, "g l"]:
        """Of each categorical feature the levels that may be proposed."""
        found = np.ones((len(self.space.groups), self._values.levels), dtype=bool)
        for k, g in enumerate(self.space.groups.tolist()):
            if (levels := self.restricted.get(g)) is not None:
                found[k] = False
                found[k, list(levels)] = True
        return found

    @cached_property
    def _ordinals(self) -> list[int]:
        """Ordinal features of which some levels may not be proposed."""
        return [j for j in self.restricted if not self.space.features[j].is_group]

    @cached_property
    def _least(self) -> Float[np.ndarray, "p"]:
        """Smallest change of each number that is worth advising; 0 of other features."""
        pairs = zip(self.space.features, self.factual_raw.tolist(), strict=True)
        return np.array([least_worth(f, fact, self.least_share) if f.is_number else 0.0 for f, fact in pairs])

    @cached_property
    def _paid(self) -> float:
        """Cost of the values that are provided, and of changes that have been made."""
        return sum(self.space.features[j].provide_cost for j in self.given) + sum(self.begun.values())

    def amounts(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Distance that the person moves each feature from the factual, in spreads; 1 for another category.

        A feature that time moves counts 0. A spread is ``space.scale_raw``, one unit of the encoded column.
        """
        return amounts(self.space, np.where(self.clock.passive, 0.0, np.abs(rows_raw - self.factual_raw)))

    def cost(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Cost of each raw row: its weighted L1 distance to the factual in encoded units.

        Another category counts 1; a feature that time moves counts 0.
        """
        return self.cost_of(self.amounts(rows_raw))

    def cost_of(self, amounts: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Cost of each row, computed from its `amounts`."""
        return cost(amounts, self.weights, self._paid)

    def changed(self, rows_raw: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "n"]:
        """Number of features in each row that the person changes; a feature that time moves does not count."""
        return self._changes(rows_raw).sum(axis=1)

    def changes(self, row_raw: Float[np.ndarray, "p"]) -> tuple[int, ...]:
        """Column indices of the features that the person changes in one row, without features that time moves."""
        return tuple(np.flatnonzero(self._changes(row_raw[None])[0]).tolist())

    def _changes(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        made = (rows_raw != self.factual_raw) & ~self.clock.passive
        if self.given or self.begun:
            made[:, [*self.given, *self.begun]] = True
        return np.asarray(made)


def action_set(
    space: FeatureSpace,
    factual_raw: Float[np.ndarray, "p"],
    *,
    constraints: Constraints | None = None,
    rules: Sequence[Rule] = (),
    cost_weights: Mapping[str, float] | None = None,
    timing: Timing | None = None,
    valid_months: float = math.inf,
    least_share: float = 0.0,
    wishes: Wishes | None = None,
) -> ActionSet:
    """Build the action set of one applicant.

    Parameters
    ----------
    valid_months : months within which all changes must fit where `timing` sets no horizon
    least_share : smallest change of a number where no least change is stated, as a share of the number and of its
        spread: `advice_ranges.LEAST_SHARE`, or 0 for any change

    Raises
    ------
    InvalidRequest : constraints, weights or wishes do not fit the model, or the applicant cannot make an included
        change
    ConstraintClash : a constraint would allow what the model's own actionability forbids
    """
    constraints, timing, wishes = constraints or Constraints(), timing or Timing(), wishes or Wishes()
    check_constraints(space, constraints, cost_weights or {})
    if wishes:
        check_wishes(space, wishes, constraints)
    time = clock(space.features, factual_raw, timing, valid_months)
    weights = weights_of(space, factual_raw, cost_weights or {})
    asked = Asked(constraints=constraints, exclude=wishes.exclude, months=time.months, least_share=least_share)
    ranges = ranges_of_all(space, factual_raw, asked)
    actions = ActionSet(
        space=space, factual_raw=factual_raw, weights=weights, constraints=constraints,
        rules=tuple(rules), timing=timing, clock=time, least_share=least_share,
        wishes=wishes, included=wishes.included_raw(space), barred=wishes.barred(space),
        **arrays_of(space, ranges),
    )  # fmt: skip
    if wishes.must_include:
        check_inclusion(space, wishes, constraints, factual_raw, ranges, actions.limits(), actions.each_is_legal)
    return actions
