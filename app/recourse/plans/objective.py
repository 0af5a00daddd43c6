"""The objective of a plan: effort, loss of validity, and lack of diversity, on the favourable side of hyperplanes.

`PlanObjective` is that of paper 4, section 4, in encoded space:
``min  proximity mean_j c(x_j, x0) + validity(plan) - diversity det K,  K_ij = 1 / (1 + c(x_i, x_j))``, with ``c`` the
L2 distance.

`PeopleObjective` has the same form in the terms of people: the cost of the action set and a price of each change in
place of the distance, and of the diversity of places the diversity of what is changed:
``min  proximity mean_j (cost(x_j) / unit + price changes(x_j)) + validity(plan) - diversity mean_j (1 - max_i o_ij)``.
``o_ij`` is the overlap of two members (`app.recourse.plans.overlap`). Cost weights are no part of it, so a larger
weight of a feature never makes the best plan use more of it.

Each method has its own `Validity`.

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022, section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.cost import usual_change
from app.recourse.models.linear import homogeneous
from app.recourse.numerics.linalg import SAME, distances
from app.recourse.plans.overlap import MOST_OVERLAP, Moved, moved, overlaps

Objective: TypeAlias = Literal["people", "paper"]
"""`people`: what a plan costs and changes. `paper`: distances between encoded records."""

PENALTY = 1e6
"""Penalty of a unit on the wrong side of a hyperplane."""
TWIN = 1e9
"""Penalty of two equal members."""
SLACK = 1e-9
"""Tolerance of a hyperplane, for rounding."""
CHANGE_PRICE = 0.1
"""Price of a change of one more feature, in usual changes."""


@runtime_checkable
class Validity(Protocol):
    """A measure of how well records withstand a change of the model: one validity per member, and a loss per plan."""

    def of(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The validity of each homogeneous point; larger is better."""

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The part of a plan's objective that depends on the validities of its members; smaller is better."""


@runtime_checkable
class SmoothValidity(Validity, Protocol):
    """A validity that also has gradients, so that an objective can be minimised by gradient descent."""

    def gradient(self, points: Float[np.ndarray, "*n m"], values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n m"]:
        """The gradient of the validity at each homogeneous point; `values` are the validities there."""

    def slope(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n j"]:
        """A subgradient of the loss of each plan with respect to the validities of its members."""


@dataclass(frozen=True, slots=True)
class HalfSpaces:
    """Half-spaces ``normals @ x~ >= needs`` that all members must lie in; ``x~`` is a point with a 1 appended."""

    normals: Float[np.ndarray, "c m"]
    """Homogeneous, intercept last; numbers are projected onto the first."""
    needs: Float[np.ndarray, "c"]

    def shortfall(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """For each homogeneous point, the sum of its distances to the half-spaces that it is outside of."""
        return self.missed(points @ self.normals.T)

    def missed(self, scores: Float[np.ndarray, "*n c"]) -> Float[np.ndarray, "*n"]:
        """For each point, the sum of its distances to the half-spaces it is outside of.

        Parameters
        ----------
        scores : products of the points with `normals`
        """
        return np.maximum(self.needs - scores - SLACK, 0.0).sum(axis=-1)

    def beyond(self, point: Float[np.ndarray, "m"]) -> "HalfSpaces":
        """The half-spaces with larger needs, so that none of them has the given homogeneous point in its interior.

        It is called with a point that the black box refuses.
        """
        return replace(self, needs=np.maximum(self.needs, self.normals @ point))

    def with_extra_margin(self, extra_margin: float) -> "HalfSpaces":
        """The half-spaces with `extra_margin` added to each required score, which makes each half-space smaller."""
        return replace(self, needs=self.needs + extra_margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanObjective:
    """The published objective of a plan (Bui, Nguyen, Nguyen 2022), plus penalties.

    Penalties apply to members outside the half-spaces `sides`, and to equal members.
    """

    x0: Float[np.ndarray, "d"]
    validity: SmoothValidity
    proximity_weight: float
    diversity_weight: float
    sides: HalfSpaces

    def value(self, X: Float[np.ndarray, "b j d"]) -> Float[np.ndarray, "b"]:
        """The value of each plan; a plan is J encoded records, and smaller is better."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(
        self, X: Float[np.ndarray, "b j d"]
    ) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "b j d"]]:
        """The value of each plan, penalties included, and a subgradient of the value without the penalties."""
        j, points = X.shape[-2], homogeneous(X)
        away = X - self.x0
        length = np.sqrt(_squares(away))
        distance = np.sqrt(_squares(X[..., :, None, :] - X[..., None, :, :]))
        K = 1.0 / (1.0 + distance)
        determinant = np.linalg.det(K)
        stats = self.validity.of(points)
        twins = (distance < SAME).sum(axis=(-1, -2)) - j
        value = (
            self.proximity_weight * length.mean(axis=-1)
            + self.validity.loss(stats)
            - self.diversity_weight * determinant
            + PENALTY * self.sides.shortfall(points).sum(axis=-1)
            + TWIN * twins
        )
        gradient = away * (self.proximity_weight / j / np.maximum(length, SAME))[..., None]
        gradient += self.validity.slope(stats)[..., None] * self.validity.gradient(points, stats)[..., :-1]
        # d det K / d K_ij is det K inv(K)_ij, K_ij is there twice, and d K_ij / d x_i is -K_ij^2 (x_i - x_j)/distance.
        pull = 2.0 * determinant[..., None, None] * np.linalg.inv(K + SAME * np.eye(j)) * K**2
        pull = pull / np.maximum(distance, SAME) * (distance >= SAME)
        gradient += self.diversity_weight * (pull.sum(axis=-1)[..., None] * X - pull @ X)
        return value, gradient

    def joined(self, others: Float[np.ndarray, "k d"]) -> Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n"]]:
        """A function that takes encoded points; for each, it returns the value of the plan `others` plus this point."""
        k, rest = len(others), homogeneous(others)
        K = 1.0 / (1.0 + distances(others, others))
        inverse, determinant = np.linalg.inv(K + SAME * np.eye(k)), float(np.linalg.det(K))
        length, missing, stats = (
            distances(others, self.x0[None]).sum(),
            self.sides.shortfall(rest).sum(),
            self.validity.of(rest),
        )

        def value(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
            points = homogeneous(X)
            distance = distances(X, np.vstack([others, self.x0]))
            near = 1.0 / (1.0 + distance[:, :k])
            all_stats = np.concatenate([np.broadcast_to(stats, (len(X), k)), self.validity.of(points)[:, None]], axis=1)
            return (
                self.proximity_weight * (length + distance[:, k]) / (k + 1)
                + self.validity.loss(all_stats)
                - self.diversity_weight * determinant * (1.0 - ((near @ inverse) * near).sum(axis=1))
                + PENALTY * (self.sides.shortfall(points) + missing)
                + 2.0 * TWIN * (distance[:, :k] < SAME).sum(axis=1)
            )

        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleObjective:
    """The objective of a plan in people's terms (costs, numbers of changes, what is changed), plus penalties.

    Penalties apply to members outside the half-spaces `sides`, and to members that nearly repeat another member.
    """

    actions: ActionSet
    unit: float
    """Cost of a usual change."""
    validity: Validity
    proximity_weight: float
    diversity_weight: float
    sides: HalfSpaces

    def value(self, plan_raw: Float[np.ndarray, "j p"]) -> float:
        """The value of one whole plan; smaller is better."""
        return float(self.joined(plan_raw[:-1])(plan_raw[-1:])[0])

    def joined(
        self, others_raw: Float[np.ndarray, "k p"]
    ) -> Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]]:
        """A function that takes raw rows; for each, it returns the value of the plan `others_raw` plus this row."""
        joint = Joint(self, self.members(others_raw))
        return lambda rows_raw: joint.value(self.members(rows_raw))

    def members(self, rows_raw: Float[np.ndarray, "n p"]) -> "Members":
        """The records as `Members`, with what each of them contributes to the value of a plan."""
        points, ways = homogeneous(self.actions.space.encode(rows_raw)), moved(self.actions, rows_raw)
        effort = self.effort(rows_raw, ways.amounts)
        return Members(
            rows_raw=rows_raw,
            alone=self.proximity_weight * effort + self.validity.loss(self.validity.of(points)[:, None]),
            scores=points @ self.sides.normals.T,
            moved=ways,
        )

    def effort(self, rows_raw: Float[np.ndarray, "n p"], amounts: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """The cost of each row as a multiple of a usual change's cost, plus a price for each changed feature.

        Parameters
        ----------
        amounts : what `ActionSet.amounts` returns for the rows
        """
        return self.actions.cost_of(amounts) / self.unit + CHANGE_PRICE * self.actions.changed(rows_raw)


def objective_of(
    kind: Objective,
    actions: ActionSet,
    validity: Validity,
    sides: HalfSpaces,
    *,
    proximity_weight: float,
    diversity_weight: float,
) -> PlanObjective | PeopleObjective:
    """The objective of a plan for one applicant; with `kind` `paper`, `validity` has to be a `SmoothValidity`."""
    if kind == "people":
        return PeopleObjective(
            actions=actions, unit=usual_change(actions.space), validity=validity, sides=sides,
            proximity_weight=proximity_weight, diversity_weight=diversity_weight,
        )  # fmt: skip
    assert isinstance(validity, SmoothValidity)
    return PlanObjective(
        x0=actions.x0, validity=validity, sides=sides,
        proximity_weight=proximity_weight, diversity_weight=diversity_weight,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Records that can be members of a plan, with the figures that the objective needs for each record in any plan."""

    rows_raw: Float[np.ndarray, "n p"]
    alone: Float[np.ndarray, "n"]
    """Effort and loss of validity; a plan has the mean of its members'."""
    scores: Float[np.ndarray, "n c"]
    """Products with the normals of the half-spaces."""
    moved: Moved

    def __len__(self) -> int:
        return len(self.rows_raw)

    def __getitem__(self, picked: list[int] | slice | Int[np.ndarray, "k"]) -> "Members":
        return Members(
            rows_raw=self.rows_raw[picked],
            alone=self.alone[picked],
            scores=self.scores[picked],
            moved=self.moved[picked],
        )


class Joint:
    """The values of the plans that consist of given members and one more record."""

    def __init__(self, objective: PeopleObjective, others: Members) -> None:
        self.objective, self.others = objective, others
        among = overlaps(others.moved, others.moved)
        np.fill_diagonal(among, 0.0)
        self._nearest = among.max(axis=1, initial=0.0)
        self._alone, self._missing = others.alone.sum(), objective.sides.missed(others.scores).sum()

    def value(self, more: Members) -> Float[np.ndarray, "n"]:
        """For each record of `more`, the value of the plan of the given members and this record."""
        overlap = overlaps(more.moved, self.others.moved)
        shared = np.maximum(overlap, self._nearest).sum(axis=1) + overlap.max(axis=1, initial=0.0)
        return self._value(more, shared) + 2.0 * TWIN * (overlap > MOST_OVERLAP).sum(axis=1)

    def at_least(self, more: Members) -> Float[np.ndarray, "n"]:
        """For each record of `more`, a lower bound of `value`: the value if it overlapped with no given member."""
        return self._value(more, float(self._nearest.sum()))

    def _value(self, more: Members, shared: Float[np.ndarray, "n"] | float) -> Float[np.ndarray, "n"]:
        objective, j = self.objective, len(self._nearest) + 1
        missed = objective.sides.missed(more.scores) + self._missing
        return (self._alone + more.alone) / j - objective.diversity_weight * (1.0 - shared / j) + PENALTY * missed


def _squares(X: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n"]:
    return np.einsum("...d,...d->...", X, X)
