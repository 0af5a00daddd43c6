"""The question: one applicant, one model, what the person can change."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actionability import ActionSet
from app.recourse.blackbox import BlackBox, favourable
from app.recourse.features import FeatureSpace
from app.recourse.linear import WeightMoments


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Reference records of a model with what is computed from them once, at registration."""

    space: FeatureSpace
    rows_raw: Float[np.ndarray, "n p"]
    scores: Float[np.ndarray, "n"]
    """The model's score of each record."""
    largest_distance: float
    """Largest L2 distance between two encoded records; the unit of sampling radii."""
    weight_moments: WeightMoments | None = None
    """Of the model retrained on random halves; None where it was registered without true outcomes."""

    @cached_property
    def X(self) -> Float[np.ndarray, "n d"]:
        """Encoded records."""
        return self.space.encode(self.rows_raw)

    @cached_property
    def favourable(self) -> Int[np.ndarray, "k"]:
        """Indices of records that the model accepts."""
        return np.flatnonzero(favourable(self.scores))

    @cached_property
    def rows_favourable_raw(self) -> Float[np.ndarray, "k p"]:
        """Raw rows that the model accepts."""
        return self.rows_raw[self.favourable]

    @cached_property
    def X_favourable(self) -> Float[np.ndarray, "k d"]:
        """Encoded records that the model accepts."""
        return self.X[self.favourable]

    @cached_property
    def squares_favourable(self) -> Float[np.ndarray, "k"]:
        """Squared length of each of them, for fast distances."""
        return np.asarray((self.X_favourable**2).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class RecourseProblem:
    """One applicant's question."""

    black_box: BlackBox
    reference: Reference
    action_set: ActionSet
    siblings: tuple[BlackBox, ...] = ()
    """Other versions of the model, with the same columns; asked for the certificate only."""
    others: Mapping[str, BlackBox] = field(default_factory=dict)
    """Models that the method's parameters name, with the same columns."""
    seed: int = 0
    deadline: float | None = None
    """`time.monotonic()` at which the answer must be there; None for no limit."""

    @property
    def factual_raw(self) -> Float[np.ndarray, "p"]:
        """The applicant's raw row."""
        return self.action_set.factual_raw

    def about(self, rows_raw: Float[np.ndarray, "n p"]) -> "RecourseProblem":
        """The question where decisions are sampled about these rows, legal or not.

        A sample that holds still what they change would say that it does not matter.
        """
        return replace(self, action_set=self.action_set.opened(rows_raw))

    @cached_property
    def x0(self) -> Float[np.ndarray, "d"]:
        """The applicant, encoded."""
        return self.action_set.space.encode(self.factual_raw[None])[0]
