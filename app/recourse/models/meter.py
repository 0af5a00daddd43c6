"""Calls and records that an answer asks of a black box: counted, and bounded by a deadline and a budget."""

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.models.black_box import BlackBox, Predict, Wrapped


@dataclass(frozen=True)
class _Spent(Wrapped):
    """A remote model of whose budget a part is spent."""

    calls: int
    rows: int

    @property
    def max_calls(self) -> int:
        return self.remote.max_calls - self.calls

    @property
    def max_rows(self) -> int:
        return self.remote.max_rows - self.rows


class Meter:
    """A black box with counters, a deadline, and the budget of a remote model.

    Parameters
    ----------
    deadline : `time.monotonic()` after which no call starts
    """

    def __init__(self, black_box: BlackBox, deadline: float = math.inf) -> None:
        self._asked = black_box
        self.black_box = black_box.by(deadline)
        self.deadline = deadline
        self.calls = 0
        self.rows = 0
        self.silent = 0
        """Rows for which the model gave no finite answer."""
        self._sent_calls = self._sent_rows = 0

    def score(self, X: Float[np.ndarray, "n d"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """As `BlackBox.score`; raises DeadlineExceeded, BudgetExceeded.

        Parameters
        ----------
        further : whether these points continue the previous call; for models that are not remote
        """
        return self._count(self.black_box.score, X, further)

    def score_raw(self, rows_raw: Float[np.ndarray, "n p"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """As `BlackBox.score_raw`, and `further` as in `score`; raises DeadlineExceeded, BudgetExceeded."""
        return self._count(self.black_box.score_raw, rows_raw, further)

    def gradient(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The gradient of the score, counted as a call; for models that offer one. Raises DeadlineExceeded."""
        assert self.black_box.gradient is not None
        self.check()
        self.calls += 1
        self.rows += len(X)
        return self.black_box.gradient(X)

    def rest(self) -> BlackBox:
        """Another meter of the model, with the budget that this one leaves."""
        remote = self._asked.remote
        if remote is None:
            return self._asked
        return replace(self._asked, remote=_Spent(remote, calls=self._sent_calls, rows=self._sent_rows))

    def check(self) -> None:
        """Raise DeadlineExceeded when the deadline has passed."""
        if time.monotonic() >= self.deadline:
            raise DeadlineExceeded

    def _count(self, score: Predict, rows: np.ndarray, further: bool) -> Float[np.ndarray, "n"]:
        assert not (further and self.black_box.remote)
        self.check()
        self._spend(len(rows))
        self.calls += not further
        self.rows += len(rows)
        scores = score(rows)
        self.silent += int(np.count_nonzero(np.isnan(scores)))
        return scores

    def _spend(self, rows: int) -> None:
        """Raise BudgetExceeded if the call would exceed the budget; nothing is sent then."""
        remote = self.black_box.remote
        if remote is None:
            return
        calls, sent = remote.price(rows)
        if self._sent_calls + calls > remote.max_calls or self._sent_rows + sent > remote.max_rows:
            raise BudgetExceeded
        self._sent_calls += calls
        self._sent_rows += sent
