"""Several computations in step: what they ask of one function at a time is one call of it.

Each computation is a greenlet; one runs at a time. Where it calls `joined`, it waits until no other computation can go
on without an answer; then one call of the function has the rows of all that wait for it. So computations share calls
without special code.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import accumulate
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from greenlet import getcurrent, greenlet

from app.errors import BudgetExceeded, ModelOutputInvalid, RecourseError

R = TypeVar("R")
"""What a computation returns."""
Reply: TypeAlias = np.ndarray | RecourseError
"""The function's output for some rows, or its error."""
OfRows: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""A function of rows whose output for a row does not depend on the other rows, but for the last bits."""


def joined(function: OfRows, rows: np.ndarray) -> np.ndarray:
    """``function(rows)``, the output for each of the rows; `in_step`, in one call with the rows of other computations.

    Functions are told apart by equality: a method of one object is one function. Raises what the function raises.
    """
    here = getcurrent()
    return here.ask(function, rows) if isinstance(here, _Computation) else function(rows)


def in_step(works: Sequence[Callable[[], R]]) -> list[R | RecourseError]:
    """Run several computations, and join their calls of `joined`.

    Returns
    -------
    For each computation, in order, its result, or the `RecourseError` that ended it
    """
    computations = [_Computation(work) for work in works]
    for one in computations:
        one.proceed(None)
    while waiting := [one for one in computations if one.function is not None]:
        # What most wait for; the others may come to that, too, before it is their turn.
        asked = [one.function for one in waiting if one.function is not None]
        function = max(dict.fromkeys(asked), key=asked.count)
        asking = [one for one in waiting if one.function == function]
        for one, reply in zip(asking, _replies(function, [one.rows for one in asking]), strict=True):
            one.proceed(reply)
    return [one.outcome for one in computations]


def _replies(function: OfRows, questions: Sequence[np.ndarray]) -> Sequence[Reply]:
    """Of one call; after an error that the rows of one may have caused, of one call each."""
    if len(questions) == 1:
        return [_reply(function, questions[0])]
    rows = np.concatenate(questions)
    try:
        output = np.asarray(function(rows))
    except (ModelOutputInvalid, BudgetExceeded):
        output = np.empty(0)
    except RecourseError as error:
        # The server is unavailable, or time is over: one call each would fail too.
        return [error] * len(questions)
    if len(output) == len(rows):
        ends = list(accumulate(map(len, questions)))
        return [output[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return [_reply(function, question) for question in questions]


def _reply(function: OfRows, question: np.ndarray) -> Reply:
    try:
        return function(question)
    except RecourseError as error:
        return error


class _Computation(greenlet, Generic[R]):  # type: ignore[misc]
    """One computation, which runs only during `proceed`: until its next question, or its end."""

    def __init__(self, work: Callable[[], R]) -> None:
        super().__init__(work)
        self.gr_context = copy_context()
        self.function: OfRows | None = None
        """What it waits for; None before its first question, and after its end."""
        self.rows = np.empty(0)
        """What it asks the function."""
        self._results: list[R] = []
        self._error: RecourseError | None = None

    @property
    def outcome(self) -> R | RecourseError:
        """The result of the computation, or the `RecourseError` that ended it."""
        return self._results[0] if self._error is None else self._error

    def proceed(self, reply: Reply | None) -> None:
        """Hand a reply to the computation, and run it until its next question or its end.

        Raises any error that ends it and is no `RecourseError`.

        Parameters
        ----------
        reply : None to start the computation
        """
        self.function = None
        try:
            result = self.switch() if reply is None else self.switch(reply)
        except RecourseError as error:
            self._error = error
        else:
            if self.dead:
                self._results.append(result)

    def ask(self, function: OfRows, rows: np.ndarray) -> np.ndarray:
        """The output of the function for the rows; called within the computation."""
        self.function, self.rows = function, rows
        assert self.parent is not None
        reply: Reply = self.parent.switch()
        if isinstance(reply, RecourseError):
            raise reply
        return reply
