"""Future linear models: logistic regressions with the ridge penalty that explains today's weights best.

No manifest says how a linear model was penalised. Of a grid of penalties the one is taken whose regression on all
records gives the reference records the logits that are nearest to today's. Records of a bootstrap of half the records
count twice, so that the penalty keeps its part in the whole.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from app.errors import RehearsalFailed, SolverFailed
from app.futures.recipe import Encoded, RecipeOfOneManifest, Tuned, encoded
from app.futures.records import Records, Sample
from app.recourse.models.linear import homogeneous
from app.recourse.surrogate.refits import BATCH, fit
from app.registry.adapters.linear_model import LinearFile
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel

RIDGES = tuple(10.0 ** (k / 2) for k in range(-8, 9))
"""Penalties that are tried, on half of the squared weights beside the sum of the log-losses; scikit-learn's 1 / C."""

USUAL_RIDGE = 1.0
"""Of a model that is no logit, which has nothing to be compared with: scikit-learn's default."""


class LinearRecipe(RecipeOfOneManifest):
    """Makes future models that are logistic regressions on encoded points."""

    name = "linear"
    block = 20

    def __init__(self, model: LoadedModel, manifest: Manifest, *, compare: bool = True) -> None:
        super().__init__(model, manifest)
        self.compare = compare and model.black_box.linear

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Find the ridge penalty whose fit to the records is nearest to today's model.

        It is a usual penalty where today's model is not linear.
        """
        if not self.compare:
            return {"ridge": USUAL_RIDGE}
        data = encoded(self.model, records, self.described)
        # Without the threshold, and of class 1, as the regressions are.
        today = self.model.reference.scores + self.model.black_box.offset
        if not self.described.favourable:
            today = -today
        points = homogeneous(self.model.registered.columns.encode(self.model.reference.rows_raw))
        distances = {}
        for ridge in RIDGES:
            try:
                theta = _fitted(data, np.ones((1, len(data.y))), ridge)[0]
            except SolverFailed:
                continue
            distances[ridge] = float(np.square(points @ theta - today).mean())
        if not distances:
            raise RehearsalFailed("The records do not determine a logistic regression of the label.")
        best = min(distances, key=lambda ridge: distances[ridge])
        return {"ridge": best, "logits_differ_by": round(float(np.sqrt(distances[best])), 4)}

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Fit one logistic regression for each sample; returns JSON files in the format `linear`."""
        data = encoded(self.model, records, self.described)
        counts = np.array([np.bincount(sample.chosen, minlength=len(data.y)) for sample in samples], dtype=float)
        counts *= len(data.y) / counts.sum(axis=1, keepdims=True)
        try:
            thetas = _fitted(data, counts, tuned["ridge"])
        except SolverFailed as error:
            raise RehearsalFailed("The logistic regression of future models did not converge.") from error
        return [self._file(theta) for theta in thetas]

    def _file(self, theta: Float[np.ndarray, "m"]) -> bytes:
        weights = dict(zip(self.model.registered.columns.model.columns, theta[:-1].tolist(), strict=True))
        return LinearFile(intercept=float(theta[-1]), weights=weights).model_dump_json().encode()


def _fitted(data: Encoded, counts: Float[np.ndarray, "b n"], ridge: float) -> Float[np.ndarray, "b m"]:
    """Weights and intercepts; `fit` has a penalty of 1, so the records count the less."""
    points = homogeneous(data.X)
    start = np.zeros(points.shape[1])
    batch = max(1, BATCH // max(len(points), points.shape[1] ** 2))
    return np.concatenate(
        [fit(points, data.y, counts[at : at + batch] / ridge, start) for at in range(0, len(counts), batch)]
    )
