"""How well a model's scores agree with the true outcomes of its reference records."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.shares import percent

CHANCE = 0.55
"""Area under the curve up to which a model is no better than chance. 0.05 above a half is 2.5 standard deviations of a
model that knows nothing, on 1,000 records of which 300 are unfavourable, and too little to lend by. The accuracy says
less: a lender who accepts only the best may well be right less often than one who accepts all."""

DEVIATIONS = 2.0
"""Standard deviations by which the area must lie below a half before it is called reversed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Agreement of a model's scores and decisions with true outcomes."""

    auc: float
    """Chance that a favourable record scores above an unfavourable one; ties count half."""
    accuracy: float
    """Share of the records that the model decides as they turned out."""
    majority: float
    """Share of the more frequent outcome: what deciding alike for all would reach."""
    deviation: float
    """Standard deviation of `auc` for a model that knows nothing."""

    @property
    def sentence(self) -> str:
        """The sentence that states how well the model agrees with the outcomes."""
        return (
            f"On its reference records the model has an AUC of {self.auc:.3f} and decides {percent(self.accuracy, 1)}% "
            f"as they turned out; deciding alike for all would reach {percent(self.majority, 1)}%."
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings where the model ranks the reference records no better than chance, or in reverse."""
        if self.auc < 1.0 - CHANCE and self.auc < 0.5 - DEVIATIONS * self.deviation:
            return [
                f"The AUC on the reference is {self.auc:.3f}, far below 0.5: is the label reversed (it must be 1 "
                "where the outcome was favourable), or the class (favourable: the class that means yes), or are the "
                "columns not in the order of the model?"
            ]
        if self.auc <= CHANCE:
            return [
                f"The AUC on the reference is {self.auc:.3f}, no better than chance: do the records, the encoding and "
                "the order of the columns belong to this model?"
            ]
        return []


def auc(scores: Float[np.ndarray, "n"], favourable: Bool[np.ndarray, "n"]) -> float:
    """Area under the ROC curve; NaN where all records have one outcome, or a score is NaN."""
    yes = int(favourable.sum())
    no = len(favourable) - yes
    if not yes or not no or np.isnan(scores).any():
        return math.nan
    # Equal scores share the mean of their ranks.
    below, up_to = (np.searchsorted(np.sort(scores), scores[favourable], side) for side in ("left", "right"))
    return float((((below + up_to + 1) / 2).sum() - yes * (yes + 1) / 2) / (yes * no))


def auc_deviation(favourable: Bool[np.ndarray, "n"]) -> float:
    """Standard deviation of the AUC if scores are independent of the outcomes; 0 if all outcomes are the same."""
    yes = int(favourable.sum())
    no = len(favourable) - yes
    return math.sqrt((yes + no + 1) / (12 * yes * no)) if yes and no else 0.0


def performance(
    scores: Float[np.ndarray, "n"], favourable: Bool[np.ndarray, "n"], accepted: Bool[np.ndarray, "n"]
) -> Performance | None:
    """How well scores, and decisions (`accepted`), agree with true outcomes; None if all outcomes are the same."""
    area = auc(scores, favourable)
    if math.isnan(area):
        return None
    yes = int(favourable.sum())
    no = len(favourable) - yes
    return Performance(
        auc=area,
        accuracy=float(np.mean(accepted == favourable)),
        majority=max(yes, no) / (yes + no),
        deviation=auc_deviation(favourable),
    )
