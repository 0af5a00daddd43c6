"""Whose call gets the next free child: callers take turns, and long calls leave a child to short ones."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from app.errors import Overloaded
from app.pool.child import Child, Need

caller: ContextVar[str] = ContextVar("caller", default="")
"""Who causes the calls of this context: a key, an address, or "" for the service itself."""

LONG_SHARE = 8
"""How many times fewer long calls than short ones of a caller may wait."""

MOST_QUEUES = 10_000
"""Queues of which it is known when they were served; those that were served longest ago count as new."""

_long: ContextVar[bool] = ContextVar("long", default=False)


@contextmanager
def long_calls(long: bool = True) -> Iterator[None]:
    """Mark all calls made in this context as long calls, which wait in separate queues."""
    token = _long.set(long)
    try:
        yield
    finally:
        _long.reset(token)


class Turns:
    """The queues in which calls wait for a free child of one pool; used from one event loop.

    Each caller has one queue for short calls and one for long calls. The next call is always from the queue that has
    not been served for the longest time (round robin). So a caller with few calls does not wait for callers with many.
    If there are several children, long calls never use the last of them, so that a short call does not wait for a long
    one.

    Parameters
    ----------
    size : number of children
    """

    def __init__(self, size: int) -> None:
        self._most_long = max(1, size - 1)
        self._queues: dict[tuple[str, bool], deque[tuple[asyncio.Future[Child], float, Need | None]]] = {}
        """The calls that wait, since when and what they need, by caller and whether they are long."""
        self._served: dict[tuple[str, bool], int] = {}
        """Which call was the last one served of each queue, by number; also of empty ones, the oldest first."""
        self._count = 0
        self._on_long: list[Child] = []
        """Children with a long call."""

    def __len__(self) -> int:
        """Number of calls that wait."""
        return sum(not turn.done() for queue in self._queues.values() for turn, *_ in queue)

    def join(self, most: int, need: Need | None = None) -> asyncio.Future[Child]:
        """Add a call of the current caller to the caller's queue; the future returned gives the call a free child.

        A child that has already loaded `need` is preferred.

        Raises `Overloaded` if `most` short calls of this caller are waiting, or an eighth of `most` if the call is
        long: in a longer queue, a long call would use up its deadline before its turn.
        """
        name = caller.get(), _long.get()
        most = max(1, most // LONG_SHARE) if _long.get() else most
        waiting = [one for one in self._queues.get(name, ()) if not one[0].done()]
        if len(waiting) >= most:
            # As long as its first call has waited: so long its queue takes at present.
            raise Overloaded(retry_after_s=time.monotonic() - waiting[0][1])
        turn: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._queues[name] = deque([*waiting, (turn, time.monotonic(), need)])
        return turn

    def serve(self, free: list[Child]) -> None:
        """Give the children in `free` to the waiting calls whose turn it is; each such child is removed from `free`."""
        while free and (found := self._next()) is not None:
            turn, long, need = found
            child = next((one for one in reversed(free) if one.has_met(need)), free[-1])
            free.remove(child)
            if long:
                self._on_long.append(child)
            turn.set_result(child)

    def end(self, child: Child) -> None:
        """Take note that the call in this child has ended."""
        if child in self._on_long:
            self._on_long.remove(child)

    def _next(self) -> tuple[asyncio.Future[Child], bool, Need | None] | None:
        self._on_long = [child for child in self._on_long if child.alive]
        for name in sorted(self._queues, key=lambda name: self._served.get(name, 0)):
            queue, long = self._queues[name], name[1]
            if long and len(self._on_long) >= self._most_long:
                continue
            del self._queues[name]
            while queue:
                turn, _, need = queue.popleft()
                # A cancelled call may still be in the queue.
                if not turn.done():
                    if queue:
                        self._queues[name] = queue
                    self._note(name)
                    return turn, long, need
        return None

    def _note(self, name: tuple[str, bool]) -> None:
        self._count += 1
        self._served.pop(name, None)
        self._served[name] = self._count
        if len(self._served) > MOST_QUEUES:
            del self._served[next(iter(self._served))]
