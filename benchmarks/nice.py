"""NICE, written plainly: an accepted person's values, copied one by one until the model accepts.

Brughmans, Leyman, Martens, "NICE: an algorithm for nearest instance counterfactual explanations", 2021. The nearest
record that the model accepts, in the heterogeneous distance (numbers in units of their range, 1 for another category),
gives its values to the applicant one feature at a time: the one that raises the favourable probability most
(`sparsity`), or most per distance (`proximity`). Its own library (`NICEx` 0.2.3) asks for numpy 1 and pandas 1.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.recourse.models.black_box import BlackBox

EPSILON = 1e-11
"""Added to distances, as in the library."""


@dataclass(frozen=True, kw_only=True)
class Nice:
    """Explains applicants by the accepted ones of some records.

    It cannot be told what an applicant may change; but the records may be such that only that differs.
    """

    black_box: BlackBox
    records_raw: np.ndarray
    reward: Literal["sparsity", "proximity"]

    def explain(self, applicant_raw: np.ndarray) -> np.ndarray | None:
        """The first accepted row on the way to the nearest accepted record; None where no record is accepted."""
        accepted = self.records_raw[self._probability(self.records_raw) >= 0.5]
        if not len(accepted):
            return None
        nearest = accepted[self._distance(applicant_raw, accepted).argmin()]
        row_raw = applicant_raw
        while self._probability(row_raw[None])[0] < 0.5:
            differ = np.flatnonzero(row_raw != nearest)
            options = np.tile(row_raw, (len(differ), 1))
            options[np.arange(len(differ)), differ] = nearest[differ]
            gain = self._probability(options) - self._probability(row_raw[None])
            if self.reward == "proximity":
                further = self._distance(applicant_raw, options) - self._distance(applicant_raw, row_raw[None])
                gain = gain / (further + EPSILON)
            row_raw = options[gain.argmax()]
        return row_raw

    def _probability(self, rows_raw: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 / (1.0 + np.exp(-self.black_box.score_raw(rows_raw))))

    def _distance(self, row_raw: np.ndarray, others_raw: np.ndarray) -> np.ndarray:
        width = np.ptp(self.records_raw, axis=0)
        is_number = np.array([feature.is_number for feature in self.black_box.space.features])
        apart = np.abs(others_raw - row_raw) / np.maximum(width, EPSILON)
        return np.asarray(np.where(is_number, apart, others_raw != row_raw).sum(axis=1))
