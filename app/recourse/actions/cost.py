"""The cost of a change: how far the feature has moved, times its cost weight.

Numbers and ordinals move by spreads; another category counts 1.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from app.recourse.features import Change, FeatureSpace


def amounts(space: FeatureSpace, distance_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    """Raw distances of each feature converted to spreads; a change of category counts 1.

    A spread is one unit of the feature's encoded column.
    """
    return np.asarray(np.minimum(distance_raw / space.spread_raw, space.most_spreads))


def cost(moved: Float[np.ndarray, "n p"], weights: Float[np.ndarray, "p"], paid: float = 0.0) -> Float[np.ndarray, "n"]:
    """Cost of each row: the weighted sum of its `amounts`, plus the cost `paid` for changes made before."""
    return np.asarray(paid + moved @ weights)


def weights_of(
    space: FeatureSpace, factual_raw: Float[np.ndarray, "p"], factors: Mapping[str, float]
) -> Float[np.ndarray, "p"]:
    """Cost weights of one person: per feature, the cost of one encoded unit or of another category.

    Parameters
    ----------
    factors : by feature name, what the request multiplies the schema's cost with; 1 for a feature without a factor
    """
    costs = [
        f.provide_cost if f.is_group and f.missing and fact == len(f.categories) else f.cost
        for f, fact in zip(space.features, factual_raw.tolist(), strict=True)
    ]
    return np.array([c * factors.get(f.name, 1.0) for c, f in zip(costs, space.features, strict=True)])


def usual_change(space: FeatureSpace) -> float:
    """Cost of a usual change: the median, over features that people may change, of the cost of one spread.

    Of a categorical feature, the cost of another category counts. Objectives measure cost in this unit, so that their
    weights mean the same for every schema. Cost weights of a request do not enter.
    """
    costs = [feature.cost for feature in space.features if feature.change is not Change.NONE]
    return float(np.median(costs)) if costs else 1.0
