"""A lane: a few warm child processes for one kind of work, each of which can be killed and is replaced warm.

``docs/decisions/0003-computation-in-child-processes.md`` gives the reasons for this design.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from app.compute.child import Call, Need, Origin, Progress
from app.compute.parent import ALARM_S, Child
from app.compute.quarantine import Quarantine
from app.compute.turns import Turns
from app.errors import LaneCrashed, LaneTimeout, Overloaded, RecourseError
from app.metrics import LaneState
from app.observability import log, request_id, traceparent

GRACE_S = 0.5
"""Time after its deadline that a computation has to end by itself before its process is killed."""

LOAD_S = 60.0
"""Longest time to meet a need, unless the lane says otherwise."""

PATIENCE_S = 2.0
"""Time to meet a need after which another child stands in for the one that meets it."""

WARM_UP_S = 120.0
"""Longest time to import the libraries."""

RETRY_S = 1.0
"""Pause after a child could not be warmed up; doubles up to `LONGEST_RETRY_S`."""

LONGEST_RETRY_S = 30.0

WAITING_PER_CHILD = 64
"""Longest queue of one caller's calls per child; more of its calls are refused immediately."""

FAILURES: dict[type[RecourseError], str] = {LaneTimeout: "timeout", Overloaded: "timeout", LaneCrashed: "crash"}
"""Errors after which a child is replaced."""


class Lane:
    """Warm children for one kind of work; used from one event loop.

    Parameters
    ----------
    name : for the log
    size : number of children
    prepare : called once in each new child, for the libraries that this imports
    needs : what each new child meets before its first call, each within `load_s`
    nice : increment of the niceness of the children, 0 to 19
    memory_mb : most address space of a child; 0 for no limit
    load_s : longest time to meet a need
    quarantine : counts what ends children before they begin a call, and refuses it
    """

    def __init__(
        self,
        name: str,
        size: int,
        prepare: Callable[[], None],
        *,
        needs: Callable[[], Sequence[Need]] = tuple,
        nice: int = 0,
        memory_mb: int = 0,
        load_s: float = LOAD_S,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self._preparation = Call(prepare, (), {})
        self._needs = needs
        self._nice = nice
        self._memory_mb = memory_mb
        self._load_s = load_s
        self._quarantine = quarantine or Quarantine()
        self._free: list[Child] = []
        self._line = Turns(size)
        """Calls that wait for a child."""
        self._ended: Counter[str] = Counter()
        """Children that were lost, by reason: `timeout`, `crash` or `cancelled`."""
        self._children: set[Child] = set()
        """Every running process, warm or not."""
        self._members: set[Child] = set()
        """Those that are idle or busy."""
        self._aside: dict[Child, asyncio.Event] = {}
        """Those that have been meeting a need for longer than `PATIENCE_S`; the event is set when that ends."""
        self._stand_ins: set[Child] = set()
        """Those beyond `size`, so that calls with other needs are answered meanwhile."""
        self._replacing: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    @property
    def warm(self) -> int:
        """Number of children that are idle or busy and do not stand in for one that is not warm yet."""
        return len(self._members - self._stand_ins)

    def state(self) -> LaneState:
        """What its children are doing now."""
        idle = len(self._free)
        warming = len(self._replacing)
        busy = len(self._members) - idle
        return LaneState(busy=busy, idle=idle, warming=warming, waiting=len(self._line), ended=dict(self._ended))

    @property
    def problems(self) -> dict[str, str]:
        """Reason for each model that some child could not load at its last attempt, by name."""
        return {name: why for child in self._children for name, why in child.problems.items()}

    @property
    def pids(self) -> set[int]:
        """Process ids of all children that have begun."""
        return {child.pid for child in self._children if child.pid is not None}

    def start(self) -> None:
        """Start all children, once; they warm up in the background, and calls wait until one is ready."""
        if self._started:
            return
        self._started = True
        for _ in range(self.size):
            self._replace(None)

    async def close(self) -> None:
        """Kill all children, busy or not."""
        self._closed = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*self._ending, *(self._end(child) for child in list(self._children)))

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float,
        wait_s: float | None = None,
        on_progress: Progress | None = None,
        need: Need | None = None,
    ) -> Any:
        """Result of ``function(*args, deadline_s=...)`` in a child; the deadline is the time left after waiting.

        With `wait_s`, the call may wait that long and has all of `timeout_s` after that. With `on_progress`, the
        function is also passed ``progress=``. A `need` is met first, within a time limit of its own.

        Raises
        ------
        Overloaded : the queue is full, no child became free in time, or the need was not met in time, by this child or
            by another one that this call waited for
        LaneTimeout : the child exceeded its time limit and was killed
        LaneCrashed : the child died
        ModelQuarantined : the need has ended children before
        RecourseError : raised by the function or the need; `InternalError` for any other exception
        """
        if need is not None:
            self._quarantine.require(need.name)
        give_up = time.monotonic() + (timeout_s if wait_s is None else wait_s)
        child = await self._take_for(need, give_up)
        failure: str | None = "cancelled"
        try:
            left_s = max(give_up - time.monotonic(), 0.0) if wait_s is None else timeout_s
            kill_after_s = left_s + GRACE_S
            options, reports = {"deadline_s": left_s}, on_progress is not None
            origin = (request_id.get(), traceparent.get())
            alarm_s = kill_after_s + ALARM_S
            if need is not None and not child.has_met(need):
                await self._meet(child, need, origin)
            call = Call(function, args, options, alarm_s=alarm_s, reports=reports, origin=origin)
            result = await child.call(call, kill_after_s, on_progress)
            failure = None
        except RecourseError as error:
            failure = FAILURES.get(type(error))
            raise
        finally:
            if failure is None:
                self._give_back(child)
            else:
                self._note_loss(child, failure)
                self._lose(child, failure)
        return result

    def _note_loss(self, child: Child, reason: str) -> None:
        """Blame what a child was loading when it was lost, unless it was lost with its template."""
        if child.loading is not None and reason in FAILURES.values() and child.template_alive:
            self._quarantine.strike(child.loading, reason)

    async def _take_for(self, need: Need | None, give_up: float) -> Child:
        """A child that has met a need, or may now."""
        while True:
            child = await self._take(give_up)
            if need is None or child.has_met(need) or (met := self._met_slowly(need)) is None:
                return child
            self._give_back(child)
            try:
                async with asyncio.timeout(give_up - time.monotonic()):
                    await met.wait()
            except TimeoutError:
                raise Overloaded(f"{need.name} is still being loaded.") from None
            self._quarantine.require(need.name)

    def _met_slowly(self, need: Need) -> asyncio.Event | None:
        """Set when a child ends to meet a need that takes it long, if no other has met it.

        A second child would find out no more, and be missed.
        """
        if any(child.has_met(need) for child in self._members):
            return None
        return next((met for child, met in self._aside.items() if child.loading == need.name), None)

    async def _take(self, give_up: float) -> Child:
        while not (child := await self._next(give_up)).alive:
            # It died in between.
            self._lose(child, FAILURES[LaneCrashed])
        return child

    async def _next(self, give_up: float) -> Child:
        turn = self._line.join(WAITING_PER_CHILD * self.size)
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
        # What has died unseen is noticed when it is taken.
        if child.ended:
            self._lose(child, FAILURES[LaneCrashed])
            return
        self._line.end(child)
        self._free.append(child)
        self._line.serve(self._free)
        self._end_stand_ins()

    def _note_end(self, child: Child) -> None:
        """Replace a child that died while idle; the call of a busy child notices by itself."""
        if child in self._free and not self._closed:
            self._free.remove(child)
            self._lose(child, FAILURES[LaneCrashed])

    def _lose(self, child: Child, reason: str) -> None:
        self._ended[reason] += 1
        self._members.discard(child)
        self._replace(child, stands_in=child in self._stand_ins)

    def _replace(self, old: Child | None, *, stands_in: bool = False) -> None:
        """End the old child, if any, and warm up a new one in the background."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._renew(old, stands_in))
        self._replacing.add(task)
        task.add_done_callback(self._note_renewed)

    def _note_renewed(self, task: asyncio.Task[None]) -> None:
        self._replacing.discard(task)
        self._end_stand_ins()

    def _put_aside(self, child: Child) -> None:
        """Let another child stand in for one that has been meeting a need for long."""
        self._aside[child] = asyncio.Event()
        log.warning("slow-loading", lane=self.name, pid=child.pid, model=child.loading)
        if len(self._children) < 2 * self.size:
            self._replace(None, stands_in=True)

    def _end_stand_ins(self) -> None:
        """End those that are idle once nobody needs them."""
        if self._closed or self._aside or self._replacing:
            return
        for child in self._stand_ins.intersection(self._free):
            self._free.remove(child)
            self._ending.add(task := asyncio.get_running_loop().create_task(self._end(child)))
            task.add_done_callback(self._ending.discard)

    async def _renew(self, old: Child | None, stands_in: bool) -> None:
        if old is not None:
            await self._end(old)
        pause_s = RETRY_S
        while (child := await self._warmed_up(stands_in)) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_RETRY_S)
        self._members.add(child)
        self._give_back(child)

    async def _warmed_up(self, stands_in: bool) -> Child | None:
        """A new child that is ready; None, with a line in the log, if that failed.

        One that stands in meets no need before a call has it, as it might be kept by the next slow one.
        """
        began = time.monotonic()
        try:
            child = Child(self._nice, self._note_end, self._memory_mb)
        except OSError as error:
            log.error("child-not-started", lane=self.name, reason=error.strerror)
            return None
        self._children.add(child)
        if stands_in:
            self._stand_ins.add(child)
        try:
            await child.call(self._preparation, WARM_UP_S)
            for need in () if stands_in else self._needs():
                # The next child does not try what has ended this one, or holds it up: a request for it does.
                if not self._quarantine.doubts(need.name) and self._met_slowly(need) is None:
                    await self._meet_if_possible(child, need)
        except RecourseError as error:
            self._note_loss(child, FAILURES.get(type(error), ""))
            log.error("child-not-warm", lane=self.name, pid=child.pid, code=error.code, loading=child.loading)
            await self._end(child)
            return None
        except OSError as error:
            # The models cannot be listed, such as without free file descriptors.
            log.error("child-not-warm", lane=self.name, pid=child.pid, reason=error.strerror)
            await self._end(child)
            return None
        for name, why in child.problems.items():
            log.warning("not-loaded", lane=self.name, pid=child.pid, name=name, detail=why)
        log.info("child-warm", lane=self.name, pid=child.pid, ms=round(1000.0 * (time.monotonic() - began)))
        return child

    async def _meet_if_possible(self, child: Child, need: Need) -> None:
        """As `_meet`; what goes wrong without ending the child is among its problems."""
        try:
            await self._meet(child, need)
        except RecourseError as error:
            if type(error) in FAILURES:
                raise

    async def _meet(self, child: Child, need: Need, origin: Origin = (None, None)) -> None:
        """As `Child.meet`, and put it aside while that takes long."""
        patience = asyncio.get_running_loop().call_later(PATIENCE_S, self._put_aside, child)
        try:
            await child.meet(need, self._load_s, origin)
            self._quarantine.acquit(need.name)
        finally:
            patience.cancel()
            if child in self._aside:
                self._aside.pop(child).set()

    async def _end(self, child: Child) -> None:
        self._members.discard(child)
        await child.kill()
        self._children.discard(child)
        self._stand_ins.discard(child)
