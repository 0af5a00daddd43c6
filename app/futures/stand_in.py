"""Models that stand in for the next ones of a model that cannot be retrained: a graph, a remote model, a failed recipe.

Trees of scikit-learn have XGBoost's, trained with the same parameters: they vary as these do from one training to the
next, decide at the same threshold, and hundreds of them are asked at once. For others, boosted trees, networks and
logistic regressions are fitted to the label, and the family is taken that agrees most with today's model on reference
records that it has not seen. Each decides at the threshold at which its family accepts as many of these as today's
model does: a model's own threshold means little to a family that is calibrated otherwise.

Without a label they are fitted to the model's own decisions, which understates what retraining changes.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from app.errors import ModelRefused, ModelUnusable, RehearsalFailed
from app.futures.boosted import USUAL, LightgbmRecipe, XgboostRecipe
from app.futures.estimator import EstimatorRecipe
from app.futures.linear import LinearRecipe
from app.futures.network import NetworkRecipe, model_loss
from app.futures.recipe import Recipe, Tuned
from app.futures.records import Records, Sample
from app.observability import log
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.score import Output, logit, sigmoid
from app.registry.adapters.sklearn_twins import twin_of
from app.registry.artifact import Activation, Architecture, Artifact, Format
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel

HIDDEN = (20, 20)
"""Widths of the hidden layers of a network that stands in for something else."""

PILOTS = 3
"""Models of each family that are compared with today's."""

NONE = "0" * 64
"""Digest of a file that is not there yet."""


class StandInRecipe:
    """Makes future models of another family than today's model: of the one that agrees with today's model most.

    Parameters
    ----------
    score : makes a black box from a manifest and the content of a model file
    """

    name = "stand_in"
    block = 10

    def __init__(self, model: LoadedModel, score: Any) -> None:
        self.model = model
        self.score = score
        self._twin = twin_of_model(model)

    def families(self, records: Records) -> dict[str, Recipe]:
        """The recipe of each model family that the installed libraries can train, by the family's name."""
        model = self.model
        found: dict[str, Recipe] = {}
        if self._twin is not None:
            return {"boosted": XgboostRecipe(model, self._described(Format.XGBOOST), stand_in=self._twin)}
        trees_only = model.registered.columns.has_nan
        if not trees_only:
            found["linear"] = LinearRecipe(model, self._described(Format.LINEAR), compare=False)
        if not trees_only and find_spec("safetensors") is not None:
            stated = model.black_box.output is not Output.LABEL and (
                model.black_box.points is None or model.black_box.points.offset is not None
            )
            target = model_loss(model, records) if stated else None
            found["network"] = NetworkRecipe(model, self._described(Format.TORCH), target)
        if find_spec("xgboost") is not None:
            described = self._described(Format.XGBOOST)
            found["boosted"] = XgboostRecipe(model, described, stand_in=USUAL)
        elif find_spec("lightgbm") is not None:
            described = self._described(Format.LIGHTGBM)
            found["boosted"] = LightgbmRecipe(model, described, stand_in=USUAL)
        elif find_spec("sklearn") is not None and find_spec("skops") is not None:
            found["boosted"] = _histograms(model, self._described(Format.SKLEARN))
        return found

    def manifest(self, tuned: Tuned) -> Manifest:
        """The manifest of every future model, with the family and the threshold that `tune` chose."""
        described = self._described(Format(tuned["format"]))
        return described.model_copy(update={"threshold": tuned["threshold"]})

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:
        """Choose the family that agrees most with today's model, and find its threshold and settings."""
        tried: dict[str, Tuned] = {}
        for name, recipe in self.families(records).items():
            try:
                tried[name] = self._try(recipe, records, pilots[:PILOTS])
            except (RehearsalFailed, ModelRefused, ModelUnusable) as error:
                log.warning("stand-in-failed", model=self.model.registered.name, family=name, detail=error.detail)
        if not tried:
            raise RehearsalFailed("No family of models could be fitted to the label.")
        best = max(tried, key=lambda name: tried[name]["agreement"])
        return {"family": best, "tried": {name: found["agreement"] for name, found in tried.items()}, **tried[best]}

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train one model of the chosen family for each sample; returns model files in the format of the family."""
        return self.families(records)[tuned["family"]].make(records, samples, tuned["recipe"])

    def _try(self, recipe: Recipe, records: Records, pilots: Sequence[Sample]) -> Tuned:
        inner = recipe.tune(records, pilots)
        described = recipe.manifest(inner)
        reference = self.model.reference
        accepted = reference.scores >= 0.0
        logits, today = [], []
        for sample, content in zip(pilots, recipe.make(records, pilots, inner), strict=True):
            unseen = _unseen(records, sample, len(accepted))
            member: BlackBox = self.score(described, content)
            logits.append(member.score_raw(reference.rows_raw[unseen]) + member.offset)
            today.append(accepted[unseen])
        own = self._own_threshold(inner)
        threshold = _threshold(np.concatenate(logits), np.concatenate(today)) if own is None else own
        alike = [float(((z >= threshold) == yes).mean()) for z, yes in zip(logits, today, strict=True)]
        return {
            "format": described.artifact.format.value,
            "threshold": float(np.clip(sigmoid(threshold), 1e-9, 1.0 - 1e-9)),
            "agreement": round(float(np.mean(alike)), 4),
            "recipe": inner,
        }

    def _own_threshold(self, inner: Tuned) -> float | None:
        """The logit at which twins decide as today's model does; None for other families, and without probabilities."""
        least = self.model.black_box.probability_of(0.0)
        if least is None or self._twin is None:
            return None
        return 4.0 * (least - 0.5) if "num_parallel_tree" in inner else logit(np.array(least)).item()

    def _described(self, kind: Format) -> Manifest:
        """A model of another format over the same encoded columns."""
        space = self.model.registered.columns.model
        own = self.model.registered.manifest
        architecture = None
        if kind is Format.TORCH:
            stated = own.artifact.architecture if isinstance(own.artifact, Artifact) else None
            architecture = stated or Architecture(type="mlp", layers=(space.d, *HIDDEN, 1), activation=Activation.RELU)
        artifact = Artifact(format=kind, path=PATHS[kind], sha256=NONE, architecture=architecture)
        return own.model_copy(
            update={
                "artifact": artifact,
                "input": Input.ENCODED,
                "output": Output.PROBABILITY,
                "favourable": 1,
                "threshold": 0.5,
                "label": None,
            }
        )


def twin_of_model(model: LoadedModel) -> Tuned | None:
    """Parameters with which XGBoost trains trees like those of a scikit-learn model; None for other models."""
    if model.registered.manifest.artifact.format is not Format.SKLEARN or find_spec("xgboost") is None:
        return None
    return twin_of(EstimatorRecipe.of_model(model).estimator)


PATHS = {
    Format.LINEAR: "model.json",
    Format.TORCH: "model.safetensors",
    Format.XGBOOST: "model.json",
    Format.LIGHTGBM: "model.txt",
    Format.SKLEARN: "model.skops",
}
"""Names of files of each format."""


def _histograms(model: LoadedModel, manifest: Manifest) -> EstimatorRecipe:
    from sklearn.ensemble import HistGradientBoostingClassifier

    estimator = HistGradientBoostingClassifier(early_stopping=False)
    estimator.classes_ = np.array([0, 1])  # of the labels that it will be fitted to
    return EstimatorRecipe(model, manifest, estimator)


def _unseen(records: Records, sample: Sample, count: int) -> np.ndarray:
    """Indices of reference records that a model was not trained on."""
    everything = np.arange(count)
    return np.setdiff1d(everything, sample.chosen) if records.of_reference else everything


def _threshold(logits: Float[np.ndarray, "n"], accepted: Bool[np.ndarray, "n"]) -> float:
    """The logit from which as large a share is accepted."""
    if not np.isfinite(logits).all():
        raise RehearsalFailed("A stand-in gives no finite output.")
    return float(np.quantile(logits, 1.0 - accepted.mean()))
