"""Toy black boxes: small enough to know their boundary, odd enough to break what is careless."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import pdist

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem, Reference

Predict: TypeAlias = Callable[[Any], Any]


@dataclass
class Spy:
    """A model that remembers what it was asked, and insists on legal records where it takes raw ones."""

    predict: Predict
    space: FeatureSpace
    raw: bool
    asked: list[Float[np.ndarray, "n k"]] = field(default_factory=list)

    def __call__(self, X: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
        assert X.shape[1] == (self.space.p if self.raw else self.space.d)
        assert len(X) > 0
        if self.raw:
            for feature, column in zip(self.space.features, X.T, strict=True):
                assert is_legal(feature, column).all()
        self.asked.append(X.copy())
        return np.asarray(self.predict(X), dtype=float)


def is_legal(feature: Feature, column: Float[np.ndarray, "n"]) -> np.ndarray:
    """Which raw numbers a record may have."""
    whole = column == np.rint(column)
    if not feature.is_number:
        return whole & (column >= 0.0) & (column < len(feature.categories or "ft"))
    low, high = (-np.inf if feature.min is None else feature.min), (np.inf if feature.max is None else feature.max)
    return (whole | (feature.type is FeatureType.CONTINUOUS)) & (column >= low) & (column <= high)


def plane(d: int, *, low: float | None = -5.0, high: float | None = 5.0) -> FeatureSpace:
    """`d` continuous features, encoded as they are."""
    return FeatureSpace(
        [Feature(name=f"f{j}", type=FeatureType.CONTINUOUS, min=low, max=high, center=0.0, scale=1.0) for j in range(d)]
    )


LOAN = FeatureSpace(
    [
        Feature(
            name="age", type=FeatureType.INTEGER, min=18, max=90, change=Change.INCREASE, center=45.0, scale=12.0
        ),
        Feature(name="months", type=FeatureType.INTEGER, min=6, max=72, step=6, center=24.0, scale=12.0),
        Feature(name="income", type=FeatureType.CONTINUOUS, min=0, decimals=0, center=3000.0, scale=1500.0),
        Feature(name="rate", type=FeatureType.CONTINUOUS, min=0, max=1, center=0.4, scale=0.2),
        Feature(
            name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"), center=1.0, scale=0.8
        ),
        Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0),
        Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rents", "owns", "free")),
        Feature(
            name="origin", type=FeatureType.CATEGORICAL, categories=("here", "there"), change=Change.NONE
        ),
    ]
)  # fmt: skip
"""Every type of feature."""


def loan_rows(count: int, seed: int = 0) -> Float[np.ndarray, "n p"]:
    """Random applicants for a loan."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.integers(18, 91, count), rng.integers(6, 73, count), np.rint(rng.gamma(4, 750, count)),
        np.round(rng.beta(2, 3, count), 3), rng.integers(3, size=count), rng.integers(2, size=count),
        rng.integers(3, size=count), rng.integers(2, size=count),
    ]  # fmt: skip
    return np.column_stack(columns).astype(float)


def loan_score(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    """A smooth score of encoded loan applicants with an interaction; about a third are accepted."""
    age, months, income, rate, savings, guarantor, rents, owns, _, here, _ = X.T
    return (
        0.3 * age - 0.5 * months + 1.2 * np.tanh(income) - 0.9 * rate + 0.6 * savings + 0.7 * guarantor
        + 0.8 * owns - 0.4 * rents + 0.3 * here + 0.4 * income * guarantor - 1.0
    )  # fmt: skip


def largest_distance(X: Float[np.ndarray, "n d"]) -> float:
    return float(pdist(X).max())


def ask(
    space: FeatureSpace,
    predict: Predict,
    factual_raw: Sequence[float],
    *,
    rows_raw: Float[np.ndarray, "n p"] | None = None,
    constraints: Mapping[str, Any] | Constraints | None = None,
    timing: Timing | None = None,
    rules: Sequence[LinearRule] = (),
    raw: bool = False,
    output: Output = Output.LOGIT,
    threshold: float = 0.0,
    seed: int = 0,
    deadline: float = math.inf,
) -> tuple[RecourseProblem, Spy]:
    """A question about a model, and the model's memory of what it is asked from now on."""
    if rows_raw is None:
        rows_raw = np.random.default_rng(7).uniform(-5, 5, (400, space.p))
    spy = Spy(predict, space, raw)
    black_box = BlackBox(
        space=space, predict=spy, input=Input.RAW if raw else Input.ENCODED, output=output, threshold=threshold
    )
    reference = Reference(
        space=space,
        rows_raw=rows_raw,
        scores=black_box.score_raw(rows_raw),
        largest_distance=largest_distance(space.encode(rows_raw)),
    )
    if not isinstance(constraints, Constraints):
        constraints = Constraints(**(constraints or {}))
    actions = action_set(space, np.array(factual_raw, dtype=float), constraints=constraints, rules=rules, timing=timing)
    spy.asked.clear()
    return RecourseProblem(
        black_box=black_box, reference=reference, action_set=actions, seed=seed, deadline=deadline
    ), spy  # fmt: skip
