"""The service put together: one models store, lanes of child processes, the ledger and the jobs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from app.calibration.calibrations import Calibrations
from app.cases.cases import Cases
from app.errors import Fault, NotReady, RecourseError
from app.futures.rehearsals import CANCELLED, Rehearsals
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import AUDIT, COMPARISON, FUTURES, JOB_KINDS, REPORT, JobKind
from app.keys.access import Access
from app.keys.daily_budgets import DailyBudgets
from app.keys.keys import require_own_or
from app.keys.scopes import Scope
from app.ledger.given import GivenRecourse
from app.ledger.ledger import FILE as LEDGER
from app.ledger.recorder import Recorder
from app.letters.notices import Notices
from app.metrics import Metrics
from app.models import tasks
from app.models.models import Models
from app.pool.pool import Pool
from app.pool.quarantine import Quarantine
from app.portfolio.comparisons import Comparisons
from app.portfolio.reports import Reports
from app.questions.answers import Json
from app.questions.questions import Questions
from app.registry.ref import Store
from app.settings import Settings
from app.store.engine import database_url
from app.tracing import end_spans

OPEN_S = 30.0
"""Longest time for a command to open the databases."""

OPEN_POLL_S = 0.1
"""Pause after the databases could not be opened; doubles each time, since each attempt writes a line of the log."""


class Service:
    """The operations that routes and commands use, and the components that carry them out."""

    def __init__(self, settings: Settings, kinds: Mapping[str, JobKind] = JOB_KINDS) -> None:
        self.settings = settings
        store = Store.of(settings, ledger=database_url(settings, LEDGER))
        self.quarantine = Quarantine(store.open().released)
        lane = partial(
            Pool,
            needs=lambda: tasks.needs(store),
            memory_mb=settings.child_memory_mb,
            load_s=settings.model_load_s,
            quarantine=self.quarantine,
        )
        self._answers = True
        """Whether it answers requests."""
        self._lane = lane("sync", settings.lanes_sync)
        # Requests have priority over jobs. The first of these computed bounds; metrics and settings keep the name.
        self._jobs_lane = lane("bounds", settings.lanes_bounds, nice=10)
        self.metrics = Metrics(
            lambda: {lane.name: lane.state() for lane in (self._lane, self._jobs_lane)}, self.quarantine.names
        )
        self.ledger = Recorder(settings, lambda records: self.given.forget(records))
        self.budgets = DailyBudgets(settings.model_rows_per_day, self.ledger, self.metrics)
        self.models = Models(settings, store, self._lane, self.metrics, self.budgets, self.quarantine)
        callbacks = (self._finish, self._fail, lambda *rows: self.questions.keep(*rows))
        self.jobs = Jobs(settings, self._jobs_lane, store, kinds, *callbacks, self.metrics)
        self.given: GivenRecourse = GivenRecourse(self.ledger, self.jobs, self.models)
        self.questions: Questions = Questions(
            settings, self.models, self.jobs, self.ledger, self.given, self.budgets, self.metrics
        )
        self.comparisons = Comparisons(settings, self.models, self.jobs, self.ledger)
        self.reports = Reports(settings, self.models, self.jobs, self.ledger)
        self.notices = Notices(settings, self.given, self.models)
        self.cases = Cases(self.ledger, self.given, self.notices, self.questions, self.models)
        self.rehearsals = Rehearsals(settings, self.models, self.jobs)
        self.calibrations = Calibrations(settings, store, self.models, self._lane, self._jobs_lane)
        self.access = Access(settings, self.ledger)

    def start(self, *, answers: bool = True) -> None:
        """Start the child processes, and open the ledger and the jobs. They become ready in the background.

        Parameters
        ----------
        answers : whether to start the child processes that answer requests; workers and most commands do not need these
        """
        self._answers = answers
        if answers:
            self.models.tell_problems()
            self._lane.start()
        self.ledger.start()
        self.jobs.start()
        self.rehearsals.watch()
        self.calibrations.watch()

    async def close(self) -> None:
        """End the child processes, and close the ledger and the jobs. Unfinished jobs continue at the next start."""
        await self.rehearsals.close()
        await self.calibrations.close()
        # The jobs first, or those in progress would seem to have crashed.
        await self.jobs.close()
        await self.budgets.close()
        await self.ledger.close()
        await asyncio.gather(self._lane.close(), self._jobs_lane.close())
        await asyncio.to_thread(end_spans)

    # --- what becomes of jobs ---

    async def _finish(self, job_id: str, kind: str, payload: Json, result: Json) -> Json:
        """The result of a job, once what it says is counted and recorded."""
        if kind == AUDIT:
            asked = result["model"]
            self.metrics.audited(asked["id"], asked["version"], result["broken"])
        elif kind == COMPARISON:
            await self.comparisons.note(job_id, result)
        elif kind == REPORT:
            await self.reports.note(job_id, result)
        elif kind in JOB_KINDS and kind != FUTURES:
            return await self.questions.recorded(job_id, payload, result)
        return result

    async def _fail(self, kind: str, payload: Json, error: RecourseError) -> None:
        """Note a rehearsal that failed without having noted it itself, such as one whose child was killed."""
        if kind == FUTURES:
            self.rehearsals.ended(payload["model"]["name"], error.sentence)

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job and stop its computation. Idempotent.

        Raises `UnknownJob`, `JobFinished`, `NotReady`; `InsufficientScope` where the caller's key did not submit the
        job and lacks the scope `recourse`.
        """
        require_own_or(Scope.RECOURSE, (await self.jobs.get(job_id)).key)
        job = await self.jobs.cancel(job_id)
        if job.kind == FUTURES and job.about is not None:
            self.rehearsals.ended(job.about, CANCELLED)
        return job

    # --- operations ---

    async def problem_of_databases(self) -> str:
        """A sentence on why the ledger or the job store cannot be used; empty if both can be used."""
        return await _problem(self.ledger.check()) or await _problem(self.jobs.check())

    async def readiness(self) -> Json:
        """As JSON data: the status, the number of active models, the number of ready child processes, and warnings.

        Also the names of the models that are being loaded. Raises `NotReady` with a fault for each part that is not
        ready.
        """
        problems = await self._problems()
        if faults := [Fault("", sentence) for sentence in problems.values() if sentence]:
            raise NotReady(faults=faults)
        return {
            "status": "degraded" if self.quarantine.names() else "ready",
            "models": self.models.active(),
            "workers": (self._lane if self._answers else self._jobs_lane).warm,
            "loading": sorted({*self._lane.loading, *self._jobs_lane.loading}),
            "warnings": self.quarantine.warnings() + self.models.warnings() + self.ledger.clock_warnings(),
        }

    async def measured(self) -> bytes:
        """The metrics in the format of Prometheus.

        While the database cannot be reached, the numbers that come from it are missing.
        """
        unfinished: Mapping[tuple[str, str], int] = {}
        with suppress(NotReady):
            unfinished = await self.jobs.unfinished()
        parts = {part: not problem for part, problem in (await self._problems()).items()}
        return self.metrics.render(unfinished, parts)

    async def _problems(self) -> dict[str, str]:
        """The problem of each part; empty where it has none."""
        return {
            "models": self.models.problems(),
            "lane": "" if self._lane.warm or not self._answers else "no worker has begun",
            "ledger": await _problem(self.ledger.check()),
            "jobs": await _problem(self.jobs.check()),
        }


@asynccontextmanager
async def opened(settings: Settings, *, answers: bool = False) -> AsyncIterator[Service]:
    """Context manager: a started service for a command. It computes no jobs.

    `answers` says whether the command asks models. Raises `NotReady` where the databases cannot be opened; the error
    says why.
    """
    service = Service(settings.model_copy(update={"run_jobs": False}))
    service.start(answers=answers)
    problem, pause_s = "The databases of ledger and jobs cannot be opened.", OPEN_POLL_S
    try:
        try:
            async with asyncio.timeout(OPEN_S):
                while found := await service.problem_of_databases():
                    problem = found
                    await asyncio.sleep(pause_s)
                    pause_s *= 2.0
        except TimeoutError:
            raise NotReady(problem) from None
        yield service
    finally:
        await service.close()


async def _problem(check: Awaitable[None]) -> str:
    try:
        await check
    except NotReady as error:
        return error.detail
    return ""
