"""Future estimators of scikit-learn: clones of today's, fitted to bootstraps.

A clone has the parameters of today's estimator and nothing that was fitted. Every parameter `random_state`, also of
nested estimators, is set to the seed of the model, so that they differ in their random parts too.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.errors import RehearsalFailed
from app.futures.recipe import RecipeOfOneManifest, Tuned
from app.futures.records import Records, Sample
from app.recourse.models.black_box import Input
from app.registry.adapters.artifact import read_artifact
from app.registry.adapters.optional_import import library
from app.registry.adapters.sklearn_model import ESTIMATOR_ERRORS, input_table, read_content
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel


class EstimatorRecipe(RecipeOfOneManifest):
    """Makes future models by fitting clones of the registered scikit-learn estimator."""

    name = "estimator"
    block = 1

    def __init__(self, model: LoadedModel, manifest: Manifest, estimator: Any) -> None:
        super().__init__(model, manifest)
        self.estimator = estimator

    @classmethod
    def of_model(cls, model: LoadedModel) -> "EstimatorRecipe":
        """Build the recipe from the estimator of a registered model."""
        registered = model.registered
        content = read_artifact(registered.manifest, registered.directory)
        return cls(model, registered.manifest, read_content(registered.manifest.file.path, content, registered.trust))

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Check that the estimator can be cloned and has two classes.

        Returns the name of its class; nothing is tuned.
        """
        if len(self.estimator.classes_) != 2:
            raise RehearsalFailed("An estimator with more than two classes is not retrained: the label has two.")
        if not hasattr(self.estimator, "get_params"):
            raise RehearsalFailed(f"A {type(self.estimator).__name__} cannot be cloned.")
        return {"estimator": type(self.estimator).__name__}

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:  # noqa: ARG002
        """Fit one clone for each sample; returns model files in the format of today's estimator."""
        with library("sklearn"):
            from sklearn.base import clone
        columns = self.model.registered.columns
        rows = (columns.rows if self.described.input is Input.RAW else columns.encode)(records.rows_raw)
        table = input_table(self.estimator, self.described, columns.model)
        classes = self.estimator.classes_
        favourable = classes == self.described.favourable
        labels = np.where(records.favourable, classes[favourable][0], classes[~favourable][0])
        found = []
        for sample in samples:
            fresh = clone(self.estimator)
            _seed(fresh, sample.seed)
            try:
                fresh.fit(table(rows[sample.chosen]), labels[sample.chosen])
            except ESTIMATOR_ERRORS as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                raise RehearsalFailed(f"The estimator cannot be fitted to a bootstrap: {reason}") from error
            found.append(self._file(fresh))
        return found

    def _file(self, estimator: Any) -> bytes:
        with library("sklearn"):
            import joblib
            import skops.io
        if self.described.file.runs_code:
            buffer = io.BytesIO()
            joblib.dump(estimator, buffer)
            return buffer.getvalue()
        return bytes(skops.io.dumps(estimator))


def _seed(estimator: Any, seed: int) -> None:
    names = [name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "random_state"]
    estimator.set_params(**dict.fromkeys(names, seed))
    jobs = [name for name in estimator.get_params(deep=True) if name.split("__")[-1] == "n_jobs"]
    estimator.set_params(**dict.fromkeys(jobs, None))
