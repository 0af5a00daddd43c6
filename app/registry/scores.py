"""Whether a model scores records as it did at registration."""

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import Output, sigmoid

SCORE_TOLERANCE = 1e-3
"""Largest change of a score since registration, relative to 1 + |score|; single precision changes it less."""

PROBABILITY_TOLERANCE = 1e-6
"""Largest change of a probability; single precision, in batches of other sizes, changes it less."""


def scores_match(
    black_box: BlackBox, scores: Float[np.ndarray, "k"], registered: Float[np.ndarray, "k"]
) -> Bool[np.ndarray, "k"]:
    """Whether each score equals the score at registration within the tolerances, (k,); false for NaN."""
    same = np.abs(scores - registered) <= SCORE_TOLERANCE * (1.0 + np.abs(registered))
    if black_box.output is Output.PROBABILITY:
        # The logit of a probability near 0 or 1 is dominated by the rounding of single precision.
        offset = black_box.offset
        same |= np.abs(sigmoid(scores + offset) - sigmoid(registered + offset)) <= PROBABILITY_TOLERANCE
    return same
