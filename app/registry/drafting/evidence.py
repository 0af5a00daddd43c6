"""Tests what no file says, such as the scales of a model's columns, against the lender's scores or outcomes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from app.errors import ModelOutputInvalid, ModelRefused, ModelUnavailable, ModelUnusable
from app.recourse.features import Feature, ModelColumns
from app.registry.adapters import load_black_box
from app.registry.install import fit_columns
from app.registry.lender_scores import TOLERANCE, Comparison, outputs_of
from app.registry.parsed_manifest import ParsedManifest
from app.registry.performance import auc
from app.registry.trust import Trust
from app.registry.version import noted_warnings

SAMPLE = 2_000
"""Records that candidates are tried on; all of them fit the scales."""

TIE = 0.01
"""Difference of areas under the curve that says little: then the loss decides, as training made it small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The candidate manifest that was chosen, and the evidence for the choice."""

    manifest: dict[str, Any]
    sentence: str = ""
    """How sure that is; empty where there was nothing to choose."""
    sure: bool = True
    """Whether the lender's scores confirm it."""
    area: float | None = None
    """Area under the curve of true outcomes that decided; None where they did not decide."""
    own_threshold: bool = False
    """Whether the threshold is the model's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Asks the model about the records under each candidate manifest; compares the outputs with scores and outcomes."""

    directory: Path
    trust: Trust
    rows_raw: Float[np.ndarray, "n p"]
    read_as: Sequence[Feature]
    """The features, without derived ones, as which the rows were read."""
    scores: Float[np.ndarray, "n"] | None
    favourable: Bool[np.ndarray, "n"] | None
    fitted: dict[str, ModelColumns] = field(default_factory=dict)
    """The columns of models that were fitted to the records, by encoding and features."""

    def choose(self, candidates: Sequence[dict[str, Any]]) -> Choice:
        """The candidate manifest under which the model agrees best with the lender's scores.

        Without scores, the lender's outcomes decide; without outcomes, the first candidate is chosen. Candidates under
        which the model gives no outputs are left out; if that leaves none, the first candidate is chosen.
        """
        if len(candidates) == 1 and self.scores is None:
            return Choice(manifest=candidates[0])
        some = np.linspace(0, len(self.rows_raw) - 1, min(SAMPLE, len(self.rows_raw))).astype(np.intp)
        asked = (self._ask(candidate, self.rows_raw[some]) for candidate in candidates)
        tried = [one for one in asked if one is not None]
        if not tried:
            return Choice(manifest=candidates[0])
        favourable = None if self.favourable is None else self.favourable[some]
        if self.scores is not None:
            return _by_scores(tried, self.scores[some], favourable)
        if len(tried) == 1 or favourable is None:
            sure = len(candidates) == 1
            return Choice(manifest=tried[0].manifest, sentence="" if sure else "not checked", sure=sure)
        return _by_outcomes(tried, favourable)

    def outputs(
        self, candidate: dict[str, Any], rows_raw: Float[np.ndarray, "m p"] | None = None
    ) -> Float[np.ndarray, "m"] | None:
        """The model's outputs, (m,), for `rows_raw`; without `rows_raw`, for all records. None if the model fails.

        The outputs are probabilities, logits, points or labels, as the `candidate` manifest says.
        """
        asked = self._ask(candidate, self.rows_raw if rows_raw is None else rows_raw)
        return None if asked is None else asked.outputs

    def _ask(self, candidate: dict[str, Any], rows_raw: Float[np.ndarray, "m p"]) -> "_Tried | None":
        """Outputs for some rows; None where the model does not answer."""
        manifest = ParsedManifest.of(candidate).manifest
        if manifest is None:
            return None
        key = repr((candidate.get("encoding"), candidate["features"]))
        if key not in self.fitted:
            self.fitted[key] = fit_columns(manifest, _recoded(self.rows_raw, self.read_as, manifest.features))
        try:
            with noted_warnings():
                black_box = load_black_box(manifest, self.directory, self.fitted[key], self.trust)
                scores = black_box.score_raw(_recoded(rows_raw, self.read_as, manifest.features))
        except (ModelRefused, ModelUnusable, ModelUnavailable, ModelOutputInvalid):
            return None
        if np.isnan(scores).any():
            return None
        return _Tried(manifest=candidate, outputs=outputs_of(black_box, scores), scores=scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A candidate whose model has answered."""

    manifest: dict[str, Any]
    outputs: Float[np.ndarray, "n"]
    """Outputs of the model, in its own unit."""
    scores: Float[np.ndarray, "n"]
    """Higher is better."""


def _recoded(rows_raw: np.ndarray, read_as: Sequence[Feature], features: Sequence[Feature]) -> np.ndarray:
    """Raw rows where levels stand in another order than that in which they were read."""
    named = {feature.name: feature for feature in features}
    found = rows_raw.copy()
    for j, feature in enumerate(read_as):
        other = named[feature.name].categories
        if other != feature.categories:
            order = np.array([other.index(level) for level in feature.categories], dtype=float)
            known = rows_raw[:, j] >= 0.0
            found[known, j] = order[rows_raw[known, j].astype(np.intp)]
    return found


def _by_scores(tried: Sequence[_Tried], given: np.ndarray, favourable: np.ndarray | None) -> Choice:
    compared = [Comparison(given=given, found=one.outputs, tolerance=TOLERANCE) for one in tried]
    off = [float(one.difference.max(initial=0.0)) for one in compared]
    # Points are the same, whether more or fewer are better: the outcomes decide.
    areas = [0.0 if favourable is None else auc(one.scores, favourable) for one in tried]
    best = min(range(len(tried)), key=lambda k: (round(off[k], 9), -areas[k]))
    sure, nearest = compared[best].agrees, f"nearest to the scores of {len(tried)} tried, but off by {off[best]:.3g}"
    sentence = f"confirmed by the scores, to {off[best]:.0e}" if sure else nearest
    return Choice(manifest=tried[best].manifest, sentence=sentence, sure=sure)


def _loss(found: np.ndarray, favourable: np.ndarray) -> float:
    """Mean logarithmic loss of outputs that are probabilities; 0 for others, which have none."""
    if found.min() < 0.0 or found.max() > 1.0:
        return 0.0
    p = np.clip(np.where(favourable, found, 1.0 - found), 1e-12, 1.0)
    return float(-np.log(p).mean())


def _by_outcomes(tried: Sequence[_Tried], favourable: np.ndarray) -> Choice:
    areas = [auc(one.scores, favourable) for one in tried]
    if any(math.isnan(area) for area in areas):
        return Choice(manifest=tried[0].manifest, sentence="not checked", sure=False, area=0.5)
    near = [k for k, area in enumerate(areas) if area >= max(areas) - TIE]
    usual = min(near, key=lambda k: (round(_loss(tried[k].outputs, favourable), 6), k))
    others = [area for area in areas if area < max(areas) - TIE and abs(1.0 - area - max(areas)) > TIE]
    beside = f", next {max(others):.3f}" if others else ""
    sentence = f"likeliest by the outcomes (AUC {areas[usual]:.3f}{beside}); --scores would confirm it"
    return Choice(manifest=tried[usual].manifest, sentence=sentence, sure=False, area=areas[usual])
