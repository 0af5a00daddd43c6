"""Several computations in step: what they ask of one function at a time is one call of it.

Each computation is a greenlet; one runs at a time. Where it calls `joined`, it waits until no other computation can go
on without an answer; then one call of the function has the rows of all that wait for it. So computations share calls
without special code.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from greenlet import getcurrent, greenlet

from app.errors import BudgetExceeded, ModelOutputInvalid, RecourseError

R = TypeVar("R")
"""What a computation returns."""
Columns: TypeAlias = tuple[np.ndarray, ...]
"""Arrays of equal length: what a function is asked, or what it gives, for each of several rows."""
Found = TypeVar("Found", bound=np.ndarray | Columns)
"""What a function gives for several rows: an array, or several."""
Reply: TypeAlias = np.ndarray | Columns | RecourseError
"""The function's output for some rows, or its error."""


def joined(function: Callable[..., Found], *columns: np.ndarray, shared: Columns = (), dear: bool = False) -> Found:
    """``function(*columns, *shared)``, the output for each row; `in_step`, in one call with rows of other computations.

    Functions are told apart by equality: a method of one object is one function. Raises what the function raises.

    Parameters
    ----------
    function : its output for a row does not depend on the other rows, but for the last bits
    columns : have an item for each row
    shared : what all these rows have in common; the function gets them with one item for each row, or for all
    dear : whether a call costs much, as that of a model does: it is made once nothing else can be done without it
    """
    here = getcurrent()
    if isinstance(here, _Computation):
        return here.ask(function, columns, shared, dear)
    return function(*columns, *(one[None] for one in shared))


def in_step(works: Sequence[Callable[[], R]]) -> list[R | RecourseError]:
    """Run several computations, and join their calls of `joined`.

    Returns
    -------
    For each computation, in order, its result, or the `RecourseError` that ended it
    """
    computations = [_Computation(work) for work in works]
    for one in computations:
        one.proceed(None)
    waiting: dict[_Question, list[_Computation[R]]] = {}
    moved = computations
    while True:
        for one in moved:
            if one.question is not None:
                waiting.setdefault(one.question, []).append(one)
        if not waiting:
            break
        # What most wait for; the others may come to that, too, before it is their turn.
        question = max(waiting, key=lambda asked: (not asked[2], len(waiting[asked])))
        moved = waiting.pop(question)
        replies = _replies(question, [one.columns for one in moved], [one.shared for one in moved])
        for one, reply in zip(moved, replies, strict=True):
            one.proceed(reply)
    return [one.outcome for one in computations]


def _replies(question: "_Question", asked: Sequence[Columns], shared: Sequence[Columns]) -> Sequence[Reply]:
    """Of one call; after an error that the rows of one may have caused, of one call each."""
    function = question[0]
    if len(asked) == 1:
        return [_reply(function, asked[0], shared[0])]
    sizes = [len(columns[0]) for columns in asked]
    ends = list(accumulate(sizes))
    own = [np.repeat(np.array(each), sizes, axis=0) for each in zip(*shared, strict=True)]
    try:
        output = function(*map(np.concatenate, zip(*asked, strict=True)), *own)
    except (ModelOutputInvalid, BudgetExceeded):
        output = np.empty(0)
    except RecourseError as error:
        # The server is unavailable, or time is over: one call each would fail too.
        return [error] * len(asked)
    parts = output if isinstance(output, tuple) else (np.asarray(output),)
    if any(len(part) != ends[-1] for part in parts):
        return [_reply(function, *one) for one in zip(asked, shared, strict=True)]
    cut = [[part[start:end] for start, end in zip([0, *ends], ends, strict=False)] for part in parts]
    return list(zip(*cut, strict=True)) if isinstance(output, tuple) else cut[0]


def _reply(function: Callable[..., Any], columns: Columns, shared: Columns) -> Reply:
    try:
        reply: Reply = function(*columns, *(one[None] for one in shared))
    except RecourseError as error:
        return error
    return reply


_Question: TypeAlias = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], bool]
"""A function, the shape of a row in each of its columns, as only rows of one shape can be in one call, and `dear`."""


class _Computation(greenlet, Generic[R]):  # type: ignore[misc]
    """One computation, which runs only during `proceed`: until its next question, or its end."""

    def __init__(self, work: Callable[[], R]) -> None:
        super().__init__(work)
        self.gr_context = copy_context()
        self.question: _Question | None = None
        """What it waits for; None before its first question, and after its end."""
        self.columns: Columns = ()
        self.shared: Columns = ()
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
        self.question = None
        try:
            result = self.switch() if reply is None else self.switch(reply)
        except RecourseError as error:
            self._error = error
        else:
            if self.dead:
                self._results.append(result)

    def ask(self, function: Callable[..., Found], columns: Columns, shared: Columns, dear: bool) -> Found:
        """The output of the function for the rows; called within the computation."""
        self.columns, self.shared = columns, shared
        self.question = function, tuple(column.shape[1:] for column in columns), dear
        assert self.parent is not None
        reply: Found | RecourseError = self.parent.switch()
        if isinstance(reply, RecourseError):
            raise reply
        return reply
