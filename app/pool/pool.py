"""A pool: a few warm child processes for one kind of work, each of which can be killed and is replaced.

``docs/decisions/0003-computation-in-child-processes.md`` gives the reasons for this design.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError
from app.metrics import LaneState
from app.observability import log, request_id, traceparent
from app.pool.child import ALARM_S, Child, Need
from app.pool.quarantine import Quarantine
from app.pool.serve import Call, Origin, Progress
from app.pool.turns import Turns
from app.tracing import span

GRACE_S = 0.5
"""Longest time after its deadline that a computation has to end by itself before its process is killed."""

GRACE_SHARE = 0.15
"""The same as a share of its time, where that is less; at least `LEAST_GRACE_S`."""

LEAST_GRACE_S = 0.1

LOAD_S = 60.0
"""Most processor time to meet a need, unless the pool says otherwise."""

PATIENCE_S = 0.5
"""Time to meet a need after which another child takes the place of the one that meets it."""

START_S = 120.0
"""Longest time for a child to begin, where the fork server has to import the libraries first."""

RETRY_S = 1.0
"""Pause after a child could not be started; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 30.0

WAITING_PER_CHILD = 64
"""Longest queue of one caller's calls per child; more of its calls are refused immediately."""

FAILURES: dict[type[RecourseError], str] = {LaneTimeout: "timeout", Overloaded: "timeout", LaneCrashed: "crash"}
"""Errors after which a child is replaced."""


class Pool:
    """Child processes that are kept ready for one kind of work; used from one event loop.

    Parameters
    ----------
    name : name of the pool in the log and the metrics
    size : number of children; there are up to twice as many while some take long to load a model
    needs : function that returns what idle children load in advance, one at a time
    nice : increment of the niceness of the children, 0 to 19
    memory_mb : largest address space of a child, in MB; 0 for no limit
    load_s : most processor time to load a model, in seconds
    quarantine : counts, for each model, the children that ended while they loaded it; refuses a model with too many
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        needs: Callable[[], Sequence[Need]] = tuple,
        nice: int = 0,
        memory_mb: int = 0,
        load_s: float = LOAD_S,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self._needs = needs
        self._nice = nice
        self._memory_mb = memory_mb
        self._load_s = load_s
        self._quarantine = quarantine or Quarantine()
        self._children: set[Child] = set()
        """Those that have begun: idle, busy or loading."""
        self._free: list[Child] = []
        self._loads: dict[Child, asyncio.Task[None]] = {}
        """Those that meet a need."""
        self._slow: set[Child] = set()
        """Those of them that have taken longer than `PATIENCE_S`."""
        self._cold: set[Child] = set()
        """Those that have not met all needs in the background."""
        self._line = Turns(size)
        """Calls that wait for a child."""
        self._ended: Counter[str] = Counter()
        """Children that were lost, by reason: `timeout`, `crash` or `cancelled`."""
        self._starting: set[asyncio.Task[None]] = set()
        self._warming: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """Everything that goes on in the background."""
        self._started = False
        self._closed = False

    @property
    def warm(self) -> int:
        """Number of children that have started; never more than `size`, even if further children run."""
        return min(len(self._children), self.size)

    def state(self) -> LaneState:
        """How many children are busy, idle, starting or loading, how many ended and why, and how many calls wait."""
        idle, warming = len(self._free), len(self._loads)
        return LaneState(
            busy=len(self._children) - idle - warming,
            idle=idle,
            warming=warming + len(self._starting),
            waiting=len(self._line),
            ended=dict(self._ended),
        )

    @property
    def problems(self) -> dict[str, str]:
        """By model name, a sentence on why a child failed to load this model at its last attempt."""
        return {name: why for child in self._children for name, why in child.problems.items()}

    @property
    def loading(self) -> list[str]:
        """Names of the models that children are loading now."""
        return sorted({child.loading for child in self._loads if child.loading is not None})

    @property
    def pids(self) -> set[int]:
        """Process ids of all children that have started."""
        return {child.pid for child in self._children if child.pid is not None}

    def start(self) -> None:
        """Start all children in the background. The first call of `start` does this; later ones have no effect.

        Calls of `run` wait until a child is ready.
        """
        if not self._started:
            self._started = True
            self._balance()

    async def close(self) -> None:
        """Kill all children, busy or not."""
        self._closed = True
        for task in (*self._starting, *self._loads.values(), *filter(None, [self._warming])):
            task.cancel()
        await asyncio.gather(*(child.kill() for child in self._children))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._children.clear()

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float,
        wait_s: float | None = None,
        on_progress: Progress | None = None,
        need: Need | None = None,
    ) -> Any:
        """Run ``function(*args, deadline_s=...)`` in a child that has loaded `need`, and return the result.

        The function runs once a child is free and has loaded `need`. The wait for this is part of `timeout_s`, and
        `deadline_s` is the rest of `timeout_s` in seconds. If `wait_s` is given, the wait may take that long, and
        `deadline_s` is all of `timeout_s`. If `on_progress` is given, the function is also passed ``progress=``.

        Raises
        ------
        Overloaded : the queue is full, no child became free in time, or `need` was not loaded in time; a child
            that loads `need` goes on
        LaneTimeout : the child exceeded its time limit and was killed
        LaneCrashed : the child died
        ModelQuarantined : `need` is a model that has ended several children before
        RecourseError : raised by the function or while loading; `InternalError` for any other exception
        """
        if need is not None:
            self._quarantine.require(need.name)
        give_up = time.monotonic() + (timeout_s if wait_s is None else wait_s)
        with span("queue"):
            child = await self._take(need, give_up)
        failure: str | None = "cancelled"
        try:
            left_s = max(give_up - time.monotonic(), 0.0) if wait_s is None else timeout_s
            kill_after_s = left_s + max(LEAST_GRACE_S, min(GRACE_S, GRACE_SHARE * timeout_s))
            with span("compute", model="" if need is None else need.name):
                call = Call(
                    function, args, {"deadline_s": left_s}, kill_after_s + ALARM_S, reports=on_progress is not None
                )
                result = await child.call(call, kill_after_s, on_progress)
            failure = None
        except RecourseError as error:
            failure = FAILURES.get(type(error))
            raise
        finally:
            if failure is None:
                self._give_back(child)
            else:
                self._lose(child, failure)
        return result

    # --- children for calls ---

    async def _take(self, need: Need | None, give_up: float) -> Child:
        """A child that has met the need."""
        while True:
            child = await self._next(need, give_up)
            if not child.alive:
                self._lose(child, FAILURES[LaneCrashed])  # it died in between
            elif need is None or child.has_met(need):
                return child
            elif load := self._only_load_of(need):
                # A second child would find out no more, and be missed.
                self._give_back(child)
                await self._wait_for(load, need, give_up)
                self._quarantine.require(need.name)
            else:
                load = self._load(child, need, (request_id.get(), traceparent.get()))
                kept = False
                try:
                    await self._wait_for(load, need, give_up)
                    load.result()
                    kept = True
                    return child
                finally:
                    if not kept:
                        load.add_done_callback(partial(self._give_back_loaded, child))

    def _only_load_of(self, need: Need) -> asyncio.Task[None] | None:
        """The load of a child that meets the need, if no other has met it."""
        if any(child.has_met(need) for child in self._children):
            return None
        return next((load for child, load in self._loads.items() if child.loading == need.name), None)

    async def _wait_for(self, load: asyncio.Task[None], need: Need, give_up: float) -> None:
        """Wait for the end of a load, which goes on if the caller stops waiting."""
        began = time.monotonic()
        await asyncio.wait([load], timeout=max(0.0, give_up - began))
        if not load.done():
            # As long as it has been waited for: so long it may take again.
            waited_s = time.monotonic() - began
            raise Overloaded(f"{need.name} is still being loaded.", retry_after_s=waited_s)

    async def _next(self, need: Need | None, give_up: float) -> Child:
        turn = self._line.join(WAITING_PER_CHILD * self.size, need)
        self._line.serve(self._free)
        try:
            if not turn.done():
                async with asyncio.timeout(give_up - time.monotonic()):
                    await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if not turn.cancelled():
                # It received a child at the same moment.
                self._give_back(turn.result())
            if isinstance(error, TimeoutError):
                raise Overloaded("No worker became free before the deadline of the request.") from None
            raise
        return turn.result()

    def _give_back(self, child: Child) -> None:
        if child in self._children and not self._closed:
            self._line.end(child)
            self._free.append(child)
            self._line.serve(self._free)
            self._balance()
            if self._cold.intersection(self._free) and (self._warming is None or self._warming.done()):
                self._warming = self._in_background(self._warm_up())

    # --- loading ---

    def _load(self, child: Child, need: Need, origin: Origin = (None, None)) -> asyncio.Task[None]:
        """Let a child meet a need, whoever waits for that. After a failure that ends it, it is replaced."""
        load = self._loads[child] = self._in_background(self._met(child, need, origin))
        return load

    async def _met(self, child: Child, need: Need, origin: Origin) -> None:
        patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._note_slow, child)
        try:
            await child.meet(need, self._load_s, origin)
            self._quarantine.acquit(need.name)
        except RecourseError as error:
            if (reason := FAILURES.get(type(error))) is not None:
                if not child.orphaned:
                    self._quarantine.strike(need.name, reason)
                self._lose(child, reason)
            else:
                log.warning("not-loaded", lane=self.name, pid=child.pid, name=need.name, detail=error.sentence)
            raise
        finally:
            patience.cancel()
            self._slow.discard(child)
            del self._loads[child]

    def _give_back_loaded(self, child: Child, load: asyncio.Task[None]) -> None:
        if not load.cancelled():
            load.exception()  # whoever waited has raised it
            self._give_back(child)

    def _note_slow(self, child: Child) -> None:
        log.warning("slow-loading", lane=self.name, pid=child.pid, model=child.loading)
        self._slow.add(child)
        self._balance()

    async def _warm_up(self) -> None:
        """Let idle children meet the needs, one child and one need at a time, while nobody waits."""
        pause_s = RETRY_S
        while True:
            try:
                needs = self._needs()
                break
            except OSError as error:  # such as without free file descriptors
                log.error("models-not-listed", lane=self.name, reason=error.strerror)
                await asyncio.sleep(pause_s)
                pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        while not len(self._line) and (cold := self._cold.intersection(self._free)):
            child = cold.pop()
            for need in needs:
                if child not in self._free or len(self._line):
                    break  # it goes on when the child is idle again
                # What has ended a child, or holds one up, is tried again by a request for it only.
                if not (child.has_met(need) or self._quarantine.doubts(need.name) or self._only_load_of(need)):
                    self._free.remove(child)
                    load = self._load(child, need)
                    load.add_done_callback(partial(self._give_back_loaded, child))
                    await asyncio.wait([load])
            else:
                self._cold.discard(child)

    # --- as many children as there should be ---

    def _balance(self) -> None:
        """Start or end children, so that there are `size` beside those that are slow to meet a need."""
        if self._closed or not self._started:
            return
        surplus = len(self._children) + len(self._starting) - len(self._slow) - self.size
        while surplus < 0 and len(self._children) + len(self._starting) < 2 * self.size:
            task = self._in_background(self._begin())
            self._starting.add(task)
            surplus += 1
        while surplus > 0 and self._free:
            child = min(self._free, key=lambda one: one.known)
            self._free.remove(child)
            self._children.discard(child)
            self._cold.discard(child)
            self._in_background(child.kill())
            surplus -= 1

    async def _begin(self) -> None:
        """A new child, however often that must be tried."""
        pause_s = RETRY_S
        try:
            while (child := await self._begun()) is None:
                await asyncio.sleep(pause_s)
                pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
            self._children.add(child)
            self._cold.add(child)
        finally:
            self._starting = {task for task in self._starting if task is not asyncio.current_task()}
        self._give_back(child)

    async def _begun(self) -> Child | None:
        """A new child; None, with a line in the log, if that failed."""
        began = time.monotonic()
        try:
            child = Child(self._nice, self._memory_mb)
        except OSError as error:
            log.error("child-not-started", lane=self.name, reason=error.strerror)
            return None
        ready = False
        try:
            async with asyncio.timeout(START_S):
                await child.start(self._note_end)
            ready = True
        except (OSError, EOFError, LaneCrashed) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            log.error("child-not-warm", lane=self.name, pid=child.pid, reason=reason)
            return None
        finally:
            if not ready:
                await child.kill()
        log.info("child-warm", lane=self.name, pid=child.pid, ms=round(1000.0 * (time.monotonic() - began)))
        return child

    def _note_end(self, child: Child) -> None:
        """Replace a child that died while idle; the call of a busy child notices by itself."""
        if child in self._free and not self._closed:
            self._free.remove(child)
            self._lose(child, FAILURES[LaneCrashed])

    def _lose(self, child: Child, reason: str) -> None:
        self._ended[reason] += 1
        if child in self._children and not self._closed:
            self._children.discard(child)
            self._cold.discard(child)
            self._in_background(child.kill())
            self._balance()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # Not of the request that happens to cause it.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
