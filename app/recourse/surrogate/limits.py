"""What is fitted and searched of a wide schema: a part of the levels and of the features that this person can change.

A thousand samples do not determine the weights of thousands of columns, and a machine of them takes seconds. So where a
person can change more than `MOST_COLUMNS` encoded columns, the search goes over

* of each feature with many levels, those that most accepted reference records have, those of the neighbours of the
  survey, and the person's own;
* the features that promise most for their cost, by the model's own weights where they are known, else by a linear fit
  of the scores of the reference records (`Reference.weights`), and all that a rule or a wish is about.

What is legal stays the same: verification, fallback records and what the request forbids know the whole action set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.boundary import free_columns
from app.recourse.surrogate.local import own_linear

MOST_COLUMNS = 100
"""Encoded columns that the person can change up to which all are fitted and searched."""
MOST_LEVELS = 60
"""Levels of one feature beyond that, those of neighbours aside."""
FEWEST_LEVELS = 5
"""Fewest levels that a feature keeps where many features share `MOST_COLUMNS`."""
MOST_FEATURES = 60
"""Features beyond that, those of rules and wishes aside."""


@dataclass(frozen=True, eq=False)
class Limits:
    """The levels and features that are fitted and searched for one person, where the schema is too wide for all."""

    levels: Mapping[int, tuple[int, ...]]
    """The levels of features of which not all are."""
    still: tuple[int, ...]
    """Features that stay as they are."""

    def of(self, actions: ActionSet) -> ActionSet:
        """This person's action set `actions`, reduced to the levels and features that are searched."""
        ranges = {}
        for g, levels in self.levels.items():
            own = actions.range(g)
            ranges[g] = replace(
                own, levels=tuple(sorted({*levels, int(actions.factual_raw[g])} & {*actions.levels(g)}))
            )
        return actions.ranged(ranges).frozen(self.still)

    def columns(self, actions: ActionSet) -> Int[np.ndarray, "k"]:
        """Indices of the encoded columns that the surrogate fits, among those that the person can change.

        Parameters
        ----------
        actions : the action set of this person
        """
        space = actions.space
        fitted = np.ones(space.d, dtype=bool)
        for g in self.levels:
            fitted[space.spans[g]] = False
            fitted[space.spans[g].start + np.array(actions.levels(g))] = True
        free = free_columns(actions)
        return free[fitted[free]]


def limits_of(problem: RecourseProblem, ends: Float[np.ndarray, "k d"]) -> Limits | None:
    """The limits for one problem; None if the person can change so few columns that all are fitted and searched.

    Parameters
    ----------
    ends : nearby accepted records, encoded, each moved to what this person can reach
    """
    actions = problem.action_set
    if len(free_columns(actions)) <= MOST_COLUMNS:
        return None
    return _Chosen(problem, ends).limits


class _Chosen:
    """The choice of one question."""

    def __init__(self, problem: RecourseProblem, ends: Float[np.ndarray, "k d"]) -> None:
        self.problem, self.actions, self.space = problem, problem.action_set, problem.action_set.space
        self.near_raw = self.space.decode(ends)

    @property
    def limits(self) -> Limits:
        """Which levels of categories and which features the surrogate fits and the search changes."""
        most, groups = MOST_LEVELS, self.space.groups[self.actions.movable[self.space.groups]].tolist()
        sizes = np.array([len(self.actions.levels(g)) for g in groups])
        while most > FEWEST_LEVELS and np.minimum(sizes, most).sum() > MOST_COLUMNS:
            most = max(FEWEST_LEVELS, most // 2)
        levels = {g: self._levels(g, most) for g, size in zip(groups, sizes.tolist(), strict=True) if size > most}
        movable = np.flatnonzero(self.actions.movable)
        if len(movable) <= MOST_FEATURES:
            return Limits(levels, ())
        order = movable[np.argsort(-self._worth(levels)[movable], kind="stable")]
        return Limits(levels, tuple(sorted({*order[MOST_FEATURES:].tolist()} - self._bound)))

    def _levels(self, g: int, most: int) -> tuple[int, ...]:
        """Of a feature the commonest levels of accepted records, and those of neighbours."""
        legal = np.array(self.actions.levels(g))
        counts = self.problem.reference.accepted_levels[g][legal]
        common = legal[np.argsort(-counts, kind="stable")[:most]]
        return tuple({*common.tolist(), *self.near_raw[:, g].astype(int).tolist()})

    def _worth(self, levels: Mapping[int, tuple[int, ...]]) -> Float[np.ndarray, "p"]:
        """What each feature adds to the score for its cost, of a change of at most one spread."""
        actions, space, w = self.actions, self.space, self._weights
        worth, own = np.zeros(space.p), w[space.numeric_columns]
        up, down = actions.upper_raw - actions.factual_raw, actions.factual_raw - actions.lower_raw
        room = np.where(own > 0.0, up[space.numeric], down[space.numeric])
        worth[space.numeric] = np.abs(own) * np.minimum(room / space.scale_raw, 1.0)
        for g in space.groups.tolist():
            of_levels = w[space.spans[g]]
            possible = levels.get(g) or actions.levels(g)
            worth[g] = of_levels[list(possible)].max() - of_levels[int(actions.factual_raw[g])]
        return worth / actions.weights

    @cached_property
    def _weights(self) -> Float[np.ndarray, "d"]:
        if self.problem.black_box.linear:
            return own_linear(self.problem).w
        return self.problem.reference.weights

    @property
    def _bound(self) -> set[int]:
        """Features that rules and wishes are about."""
        return {*self.actions.included, *(j for rule in self.actions.rules for j in rule.features)}
