"""Whether the columns that scikit-learn's transformers make each follow from one feature, in a way that is known."""

from collections.abc import Collection
from typing import Any

import numpy as np

SCALERS = frozenset({"MaxAbsScaler", "MinMaxScaler", "RobustScaler", "SimpleImputer", "StandardScaler"})
"""Transformers of numbers that are affine, but for a missing value."""

ENCODERS = frozenset({"MissingIndicator", "OneHotEncoder", "OrdinalEncoder"})
"""Transformers whose columns each follow from the level of one column, or from whether it is missing."""


def in_two(estimator: Any) -> tuple[Any, Any]:
    """The steps of a pipeline before its last one, as a pipeline, and the last one; None and the estimator itself."""
    from sklearn.pipeline import Pipeline

    return (estimator[:-1], estimator[-1]) if type(estimator) is Pipeline else (None, estimator)


def is_by_column(transform: Any, numbers: Collection[str], names: Collection[str]) -> bool:
    """Whether each column of a transformer's output follows from one column of a table: affinely from a number.

    Parameters
    ----------
    numbers : the columns of the table that are numbers, not levels
    names : the columns that the transformer takes
    """
    if transform is None or isinstance(transform, str):  # passthrough, drop
        return True
    kind = type(transform).__name__
    if not type(transform).__module__.startswith("sklearn."):
        return False
    if kind == "Pipeline":
        return all(is_by_column(part, numbers, names) for _, part in transform.steps)
    if kind == "ColumnTransformer":
        chosen = [(part, _named(transform, columns)) for _, part, columns in transform.transformers_]
        return all(is_by_column(part, numbers, names if some is None else some) for part, some in chosen)
    if kind == "FunctionTransformer":
        return transform.func is None  # a column that is passed on
    return kind in SCALERS or (kind in ENCODERS and not set(names) & set(numbers))


def _named(transform: Any, columns: Any) -> list[str] | None:
    """The names of chosen columns; None where they are chosen otherwise, which may be any of them."""
    fitted = getattr(transform, "feature_names_in_", None)
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, list | np.ndarray) or fitted is None:
        return None
    return [str(one) if isinstance(one, str) else str(fitted[one]) for one in columns]
