"""Calls and records that an answer asks of a black box: counted, and bounded by a deadline and a budget."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from app.errors import BudgetExceeded, DeadlineExceeded, RecourseError
from app.recourse.models.black_box import BlackBox, Predict, Wrapped, one_each
from app.recourse.models.in_step import in_step, joined

MOST_REMEMBERED = 1_000
"""Rows up to which those of a call of a remote model are remembered; larger ones are draws, which nobody repeats."""

R = TypeVar("R")
"""What a computation returns."""


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
    """A black box with counters of calls and rows, a deadline, and the budget of a remote model.

    A call of a remote model costs money. So the meter remembers the outputs of small calls and does not ask for them
    again, and it can join the calls of several computations (`together`).

    Parameters
    ----------
    deadline : `time.monotonic()` after which no call starts
    """

    def __init__(self, black_box: BlackBox, deadline: float = math.inf) -> None:
        self._asked = black_box
        self.black_box = black_box.by(deadline)
        self._send = self.black_box.predict
        if black_box.remote is not None:
            self.black_box = replace(self.black_box, predict=self._ask)
        self.deadline = deadline
        self.calls = 0
        self.rows = 0
        self.silent = 0
        """Rows for which the model gave no finite answer."""
        self._sent_calls = self._sent_rows = 0
        self._known: dict[bytes, float] = {}
        """Of a remote model: its output for each row of small calls."""
        self._asking: Predict = self._sent
        """What this model is asked by: several computations ask together."""

    def score(self, X: Float[np.ndarray, "n d"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """Scores of encoded points; NaN if the model gave none.

        Parameters
        ----------
        further : whether these points belong to the previous call, so that both count as one call; False for a remote
            model

        Raises
        ------
        DeadlineExceeded, BudgetExceeded
        """
        return self._count(self.black_box.score, X, further)

    def score_raw(self, rows_raw: Float[np.ndarray, "n p"], *, further: bool = False) -> Float[np.ndarray, "n"]:
        """Scores of raw rows; NaN if the model gave none.

        Parameters
        ----------
        further : whether these rows belong to the previous call, so that both count as one call; False for a remote
            model

        Raises
        ------
        DeadlineExceeded, BudgetExceeded
        """
        return self._count(self.black_box.score_raw, rows_raw, further)

    def gradient(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The gradient of the score at each point, counted as one call; only for models that offer gradients.

        Raises
        ------
        DeadlineExceeded
        """
        assert self.black_box.gradient is not None
        self.check()
        self.calls += 1
        self.rows += len(X)
        return self.black_box.gradient(X)

    def together(self, works: Sequence[Callable[[], R]]) -> list[R | RecourseError]:
        """Run computations that all ask this remote model, and send their calls as one.

        Returns
        -------
        For each computation, in order, its result, or the `RecourseError` that ended it
        """
        self._asking, before = self._together, self._asking
        try:
            return in_step(works)
        finally:
            self._asking = before

    def rest(self) -> BlackBox:
        """The black box with the part of its budget that this meter has not spent."""
        remote = self._asked.remote
        if remote is None:
            return self._asked
        return replace(self._asked, remote=_Spent(remote, calls=self._sent_calls, rows=self._sent_rows))

    def check(self) -> None:
        """Raise DeadlineExceeded when the deadline has passed."""
        if time.monotonic() >= self.deadline:
            raise DeadlineExceeded

    def _count(self, score: Predict, rows: np.ndarray, further: bool) -> Float[np.ndarray, "n"]:
        self.check()
        if self.black_box.remote is not None:
            assert not further
            return score(rows)
        self.calls += not further
        self.rows += len(rows)
        scores = score(rows)
        self.silent += int(np.count_nonzero(np.isnan(scores)))
        return scores

    def _ask(self, model_input: np.ndarray) -> np.ndarray:
        """The output of a remote model, of which one of several computations asks with the others."""
        return self._asking(model_input)

    def _together(self, model_input: np.ndarray) -> np.ndarray:
        return joined(self._sent, model_input, dear=True)

    def _sent(self, model_input: np.ndarray) -> np.ndarray:
        """The output of a remote model, which is sent what it has not been asked before."""
        if len(model_input) > MOST_REMEMBERED:
            return self._paid(model_input)
        keys = [row.tobytes() for row in model_input]
        places = {key: i for i, key in enumerate(keys) if key not in self._known}
        if places:
            output = self._paid(model_input[list(places.values())])
            self._known.update(zip(places, output.tolist(), strict=True))
        return np.array([self._known[key] for key in keys])

    def _paid(self, model_input: np.ndarray) -> np.ndarray:
        """The output of a remote model in one call, counted; raises BudgetExceeded before one that it cannot pay."""
        remote = self.black_box.remote
        assert remote is not None
        calls, sent = remote.price(len(model_input))
        if self._sent_calls + calls > remote.max_calls or self._sent_rows + sent > remote.max_rows:
            raise BudgetExceeded
        self._sent_calls += calls
        self._sent_rows += sent
        self.calls += 1
        self.rows += len(model_input)
        output = one_each(self._send(model_input), len(model_input))
        self.silent += int(np.count_nonzero(~np.isfinite(output)))
        return output
