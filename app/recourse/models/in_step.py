"""Several computations that ask one model, in step: what all of them ask at a time is one call.

Each works in a thread of its own; one thread runs at a time. One that asks waits until all others ask or have ended;
then one call scores all their rows. So computations share calls without special code.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from app.errors import BudgetExceeded, ModelOutputInvalid, RecourseError
from app.recourse.models.black_box import Predict

R = TypeVar("R")
"""What a computation returns."""
Reply: TypeAlias = np.ndarray | RecourseError
"""The model's output or the error."""


def in_step(works: Sequence[Callable[[Predict], R]], predict: Predict) -> list[R | RecourseError]:
    """Run several computations that all ask one model, and join their calls of the model.

    Parameters
    ----------
    works : the computations; each is a function that takes a substitute for `predict` and calls it to ask the model

    Returns
    -------
    For each computation, in order, its result, or the `RecourseError` that ended it
    """
    workers = [_Worker(work) for work in works]
    try:
        for one in workers:
            one.proceed(None)
        while asking := [one for one in workers if one.question is not None]:
            replies = _replies(predict, [one.question for one in asking if one.question is not None])
            for one, reply in zip(asking, replies, strict=True):
                one.proceed(reply)
    finally:
        for one in workers:
            one.abandon()
    return [one.outcome for one in workers]


def _replies(predict: Predict, questions: Sequence[np.ndarray]) -> Sequence[Reply]:
    """Of one call; after an error that the rows of one may have caused, of one call each."""
    rows = np.concatenate(questions)
    try:
        output = np.asarray(predict(rows))
    except (ModelOutputInvalid, BudgetExceeded):
        output = np.empty(0)
    except RecourseError as error:
        # The server is unavailable, or time is over: one call each would fail too.
        return [error] * len(questions)
    if output.shape == (len(rows),):
        return list(np.split(output, np.cumsum([len(question) for question in questions])[:-1]))
    return [_reply(predict, question) for question in questions]


def _reply(predict: Predict, question: np.ndarray) -> Reply:
    try:
        return np.asarray(predict(question))
    except RecourseError as error:
        return error


class _Abandoned(BaseException):
    """Ends the thread of a computation that is no longer needed."""


class _Worker(Generic[R]):
    """One computation in a thread that runs only during `proceed`: until its next question, or its end."""

    def __init__(self, work: Callable[[Predict], R]) -> None:
        self.question: np.ndarray | None = None
        """Model input that waits to be scored."""
        self._work = work
        self._reply: Reply | None = None
        self._abandoned = False
        self._results: list[R] = []
        self._error: BaseException | None = None
        self._turn, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="in step", daemon=True)

    @property
    def outcome(self) -> R | RecourseError:
        """The result of the computation, or the `RecourseError` that ended it. Raises any other error that ended it."""
        if isinstance(self._error, RecourseError):
            return self._error
        if self._error is not None:
            raise self._error
        (result,) = self._results
        return result

    def proceed(self, reply: Reply | None) -> None:
        """Hand the model's reply to the computation, and run the computation until its next question or its end.

        Parameters
        ----------
        reply : None to start the computation
        """
        self.question, self._reply = None, reply
        if not self._thread.ident:
            self._thread.start()
        self._turn.release()
        self._paused.acquire()

    def abandon(self) -> None:
        """End the computation's thread if it still waits for a reply."""
        if self.question is not None:
            self._abandoned = True
            self.proceed(None)

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._results.append(self._work(self._ask))
        except BaseException as error:  # noqa: BLE001 - raised again by `outcome`
            self._error = error
        self._paused.release()

    def _ask(self, model_input: np.ndarray) -> np.ndarray:
        self.question = model_input
        self._paused.release()
        self._turn.acquire()
        if self._abandoned:
            raise _Abandoned
        if isinstance(self._reply, RecourseError):
            raise self._reply
        assert self._reply is not None
        return self._reply
