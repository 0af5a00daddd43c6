"""Linear classifiers of scikit-learn, alone or at the end of a pipeline, as one term for each feature."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import Input
from app.registry.adapters.sklearn_columns import in_two, is_by_column
from app.registry.adapters.sklearn_model import input_table, names_of, numbers_of
from app.registry.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Design:
    """The columns in which a model that is additive over raw rows, and affine in numbers, is linear.

    Each number has its value and whether it is missing; each level has whether it is the row's, as has a missing one.
    """

    space: FeatureSpace

    def of(self, rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """The columns for raw rows, in which NaN is a missing value."""
        return np.column_stack([part for j in range(self.space.p) for part in self._parts(rows[:, j], j)])

    def _parts(self, values: Float[np.ndarray, "n"], j: int) -> Iterator[np.ndarray]:
        missing = np.isnan(values)
        if self.space.features[j].is_number:
            yield np.where(missing, 0.0, values)
        else:
            yield (values[:, None] == np.arange(self._levels(j))).astype(float)
        yield missing.astype(float)

    def _levels(self, j: int) -> int:
        return sum(level is not None for level in self.space.features[j].levels)

    def probes(self) -> Float[np.ndarray, "m p"]:
        """Rows that determine all weights of such a model: the first has zeros, each other differs in one feature."""
        rows = [np.zeros(self.space.p)]
        for j, feature in enumerate(self.space.features):
            others = [1.0] if feature.is_number else list(np.arange(1.0, self._levels(j)))
            for value in [*others, *([np.nan] if feature.missing else [])]:
                row = np.zeros(self.space.p)
                row[j] = value
                rows.append(row)
        return np.array(rows)


def weights_of(estimator: Any, manifest: Manifest, space: FeatureSpace) -> Float[np.ndarray, "q+1"] | None:
    """Weights of a linear classifier's logit of the favourable class by the columns of `Design`, then its constant.

    None of another estimator, or where a step of the pipeline joins columns. The manifest has ``input: raw``.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

    transform, last = in_two(estimator)
    if (
        manifest.input is not Input.RAW
        or type(last) not in (LogisticRegression, LogisticRegressionCV, LinearDiscriminantAnalysis)
        or len(last.classes_) != 2
        or not is_by_column(transform, numbers_of(manifest, space), names_of(estimator) or ())
    ):
        return None
    design = Design(space)
    probes = design.probes()
    sign = 1.0 if estimator.classes_.tolist().index(manifest.favourable) == 1 else -1.0
    logits = sign * np.asarray(
        estimator.decision_function(input_table(estimator, manifest, space)(probes)), dtype=float
    )
    # The first level has weight 0, as has what no record can be.
    weights = np.linalg.lstsq(np.column_stack([design.of(probes), np.ones(len(probes))]), logits, rcond=None)[0]
    return np.asarray(weights) if np.isfinite(logits).all() else None
