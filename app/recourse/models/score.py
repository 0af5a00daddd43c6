"""Scores: logits of the favourable class, minus that of the threshold; what a model gives, and what is favourable."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

LOGIT_LIMIT = 40.0
"""Scores are clipped here: a probability of exactly 0 or 1 has a finite score."""


class Output(StrEnum):
    """The kind of output that a model gives about the favourable class."""

    PROBABILITY = "probability"
    LOGIT = "logit"
    MARGIN = "margin"
    LABEL = "label"
    POINTS = "points"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScale:
    """The scale of a model that gives points: the odds of the favourable class double with every `pdo` points."""

    threshold: float
    """Smallest favourable number of points; the largest where fewer are better."""
    pdo: float
    """Points that double the odds; negative where fewer points are better."""
    offset: float | None = None
    """Logit of the favourable class at the threshold; None where points state no probability."""

    @property
    def slope(self) -> float:
        """By how much one more point raises the score; negative if fewer points are better."""
        return math.log(2.0) / self.pdo

    @property
    def fewer(self) -> bool:
        """Whether fewer points are better for the applicant."""
        return self.pdo < 0.0

    def of(self, scores: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
        """The points that belong to each score: the inverse of `BlackBox.score_of`. NaN stays NaN."""
        return np.asarray(self.threshold + np.asarray(scores, dtype=float) / self.slope)


def logit(probability: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
    """``log(p / (1 - p))`` of each probability, clipped to [-`LOGIT_LIMIT`, `LOGIT_LIMIT`]; NaN stays NaN."""
    p = np.asarray(probability, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(np.maximum(np.log(p) - np.log1p(-p), -LOGIT_LIMIT), LOGIT_LIMIT))


def sigmoid(value: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
    """The probability of each logit: the inverse of `logit`."""
    return np.asarray(expit(value))


def favourable(scores: Float[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
    """Whether each score is a favourable decision; a NaN never is."""
    return np.asarray(scores >= 0.0)
