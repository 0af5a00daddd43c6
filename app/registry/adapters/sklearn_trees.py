"""The leaves of scikit-learn's forests and gradient boosting, alone or at the end of a pipeline."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.models.forest import Forest
from app.recourse.models.tree_boxes import single_precision_edge
from app.recourse.models.tree_leaves import Splits
from app.registry.adapters.sklearn_columns import in_two, is_by_column
from app.registry.adapters.trees import LARGEST_FOREST


def forest_of(
    estimator: Any, table: Callable[[np.ndarray], Any], column: int, numbers: Collection[str], names: Collection[str]
) -> Forest | None:
    """The leaves of a forest or of gradient boosting for two classes; None of another estimator, and of too many.

    The mean of a forest is the probability of its class with index `column`; the sum of gradient boosting is linear in
    the logit of class 1.

    Parameters
    ----------
    table : converts the input of the black box to that of `estimator`
    numbers, names : its columns that are numbers, and all of them
    """
    from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

    transform, last = in_two(estimator)
    if not is_by_column(transform, numbers, names) or len(getattr(last, "classes_", ())) != 2:
        return None
    if type(last) in (RandomForestClassifier, ExtraTreesClassifier):
        trees = [(one.tree_, _shares(one.tree_.value, column) / len(last.estimators_)) for one in last.estimators_]
    elif type(last) is GradientBoostingClassifier:
        trees = [(one.tree_, last.learning_rate * one.tree_.value[:, 0, 0]) for one in last.estimators_[:, 0]]
    else:
        return None
    if sum(tree.n_leaves for tree, _ in trees) * 2 * last.n_features_in_ > LARGEST_FOREST:
        return None
    splits = [
        Splits(
            feature=tree.feature, edge=single_precision_edge(tree.threshold, strict=False), left=tree.children_left,
            right=tree.children_right, missing_left=tree.missing_go_to_left.astype(bool),
        )
        for tree, _ in trees
    ]  # fmt: skip
    values = [value for _, value in trees]
    return Forest.of_trees(
        list(zip(splits, values, strict=True)), partial(_matrix, table, transform), last.n_features_in_
    )


def _shares(value: Float[np.ndarray, "k 1 2"], column: int) -> Float[np.ndarray, "k"]:
    """Of each node the share of the class with index `column`."""
    return np.asarray(value[:, 0, column] / value[:, 0].sum(axis=1))


def _matrix(table: Callable[[np.ndarray], Any], transform: Any, rows: np.ndarray) -> Float[np.ndarray, "n d"]:
    """The columns that the trees take."""
    found = table(rows) if transform is None else transform.transform(table(rows))
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=float)
