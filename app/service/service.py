"""The service put together: `ask` and `submit` answer every use case of `app.compute.use_cases`."""

import asyncio
import json
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from app.calibration.calibrations import Calibrations
from app.compute import tasks, use_cases
from app.compute.answers import Frame, Json, encoded, identity, plain
from app.compute.encoded_answer import FULL, REQUEST, sent, written, written_answer
from app.compute.messages import Case, Question, Store, ValidityQuestion, job_payload, request_of, request_of_row
from app.compute.use_cases import BOUNDS_S, RECOURSE, USE_CASES, VALIDITY
from app.errors import Fault, LaneTimeout, NotReady, RecourseError
from app.jobs import lines as batch_lines
from app.jobs.ids import ids_are_reserved, new_id
from app.jobs.job import BATCH, Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import AUDIT, COMPARISON, FUTURES, JOB_KINDS, JobKind
from app.keys.access import Access
from app.keys.daily_budgets import DailyBudgets
from app.keys.keys import asking_id, may_read_scores, require_own_or
from app.keys.scopes import Scope
from app.ledger.entries import entry_of, entry_of_texts
from app.ledger.given import GivenRecourse
from app.ledger.ledger import FILE as LEDGER
from app.ledger.ledger import NewRecord
from app.ledger.recorder import Recorder
from app.letters.notices import Notices
from app.metrics import Metrics
from app.pool.child import Written
from app.pool.pool import Pool
from app.pool.quarantine import Quarantine
from app.pool.turns import long_calls
from app.portfolio.comparisons import Comparisons
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.registry.version import RegisteredModel
from app.service.futures import CANCELLED, Rehearsals
from app.service.models import Models
from app.service.queries import Rows, Terms
from app.service.validation import Check, all_or_faults, checks
from app.settings import Settings
from app.store.engine import database_url
from app.store.timestamps import timestamp

Record = Mapping[str, object]
"""A record as the caller sent it."""

Asked = TypeVar("Asked", bound=Case)

LONGEST_WAIT = timedelta(days=7)
"""A row of a batch that is answered later than this after its submission is valid for less time."""


class Service:
    """The use cases, over one models store, lanes of child processes and the jobs."""

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
        self.jobs = Jobs(settings, self._jobs_lane, store, kinds, self._finish, self._fail, self._keep, self.metrics)
        self.given = GivenRecourse(self.ledger, self.jobs, self.models)
        self.comparisons = Comparisons(settings, self.models, self.jobs, self.ledger)
        self.notices = Notices(settings, self.given, self.models)
        self.rehearsals = Rehearsals(settings, self.models, self.jobs)
        self.calibrations = Calibrations(settings, store, self.models, self._lane, self._jobs_lane)
        self.access = Access(settings, self.ledger)

    def start(self, *, answers: bool = True) -> None:
        """Start the child processes and open ledger and jobs; they become ready in the background.

        Parameters
        ----------
        answers : whether to start the children that answer requests; a worker and a command do not
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
        """End the child processes; unfinished jobs stay for the next start."""
        await self.rehearsals.close()
        await self.calibrations.close()
        # The jobs first, or those in progress would seem to have crashed.
        await self.jobs.close()
        await self.budgets.close()
        await self.ledger.close()
        await asyncio.gather(self._lane.close(), self._jobs_lane.close())

    # --- questions about an applicant ---

    async def ask(
        self, name: str, question: Case, applicant: Record, terms: Terms, counterfactuals: Sequence[Record] = ()
    ) -> bytes:
        """The answer of a use case as JSON, in the detail of its terms.

        Joint bounds of a plan that take too long to wait for are there as a bracket, and a job computes tight ones.

        Parameters
        ----------
        name : one of `USE_CASES`
        question : without its records
        applicant, counterfactuals : the records, in the model's own features

        Raises
        ------
        UnknownModel, ModelUnusable : as `Registry.find`
        InvalidRequest : records or parameters do not fit the model; with every fault
        Overloaded, LaneCrashed, LaneTimeout : as `Pool.run`; for recourse a time-out is an answer, not an error
        LedgerUnavailable : the answer could not be recorded, so it is not given
        """
        if terms.store:
            self.ledger.require()
        question = await self._excluding(question, terms)
        model, question, frame = self._checked(name, question, applicant, terms, counterfactuals)
        answer = await self._computed(name, model, question, frame, terms)
        if answer.facts["bracket"]:
            answer = await self._pursued(name, model, question, answer, terms)
        if terms.store:
            texts = answer.texts
            await self.ledger.record(entry_of_texts(answer.facts, texts[REQUEST], texts[FULL], key=asking_id()))
            if ids_are_reserved():
                # Another server may have recorded it and crashed; then that is what was given.
                recorded, _ = await self.given.asked(answer.facts["id"])
                answer = written(name, recorded, terms.detail)
        return sent(answer)

    async def submit(
        self, name: str, question: Case, applicant: Record, terms: Terms, counterfactuals: Sequence[Record] = ()
    ) -> Job:
        """The same as a job, whose result is the answer; a job that is stopped at its deadline has failed.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `ask`
        NotReady : the job store cannot be reached
        """
        question = await self._excluding(question, terms)
        model, question, frame = self._checked(name, question, applicant, terms, counterfactuals)
        frame = use_cases.with_method(frame, question)
        payload = job_payload(self.models.ref(model), question, plain(frame), asking_id())
        payload["request"] = self._request(model, question, terms) if terms.store else None
        await self.models.admit(model)
        timeout_s = USE_CASES[name].job_s or self._deadline_ms(terms) / 1000.0
        recourse = frame.id if name == RECOURSE else None
        return await self.jobs.submit(name, payload, timeout_s=timeout_s, about=recourse, detail=terms.detail)

    async def submit_batch(self, question: Question, terms: Terms, rows: Rows) -> Job:
        """Recourse for many applicants, always as a job; row `i` has the seed of the question plus `i`.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `ask`, for what the applicants have in common
        NotReady : the job store cannot be reached
        """
        if terms.store:
            self.ledger.require()
        question = await self._excluding(question, terms)
        payload = self.bounded(self.batch_payload(question, terms))
        await self.models.admit(self.models.find(terms.model))
        return await self.jobs.submit_batch(BATCH, payload, rows, detail=terms.detail)

    def bounded(self, payload: Json) -> Json:
        """The payload of a batch with the latest moment at which its answers may expire."""
        by = timestamp(self.ledger.believed_now() + LONGEST_WAIT + self._valid)
        return {**payload, "frame": {**payload["frame"], "expires_by": by}}

    def batch_payload(self, question: Question, terms: Terms) -> Json:
        """What the rows of a batch have in common, for `kinds.batch_job`. Errors of the question as `submit_batch`."""
        model = self.models.find(terms.model, pointer="/model")
        all_or_faults(*checks(self.models, model, question))
        valid_days = self.settings.valid_days
        frame = {
            "model": plain(identity(model)),
            "threshold": model.manifest.least_probability,
            "method": use_cases.method_of(question),
            "valid_days": valid_days,
            "scores": may_read_scores(),
            "points": plain(model.manifest.points),
        }
        return {
            **job_payload(
                self.models.ref(model), replace(question, valid_months=self._valid_months), frame, asking_id()
            ),
            "plan_s": self._plan_s,
            "deadline_s": self._deadline_ms(terms) / 1000.0,
            "store": terms.store,
        }

    def _checked(
        self, name: str, question: Asked, applicant: Record, terms: Terms, counterfactuals: Sequence[Record]
    ) -> tuple[RegisteredModel, Asked, Frame]:
        """The model, the question with its records once nothing is wrong with it, and the frame of its answer."""
        created = datetime.now(UTC)
        model = self.models.find(terms.model, pointer="/model")
        readers: dict[str, Check] = {"factual_raw": lambda: model.space.read(applicant, pointer=f"/{terms.record}")}
        if isinstance(question, ValidityQuestion):
            readers["rows_raw"] = lambda: model.space.read_many(counterfactuals, pointer="/counterfactuals")
        found = all_or_faults(*readers.values(), *checks(self.models, model, question))
        records: dict[str, Any] = dict(zip(readers, found, strict=False))  # checks give nothing
        prefix = USE_CASES[name].prefix
        frame = Frame(
            id=prefix and new_id(prefix),
            reference=terms.reference,
            model=identity(model),
            threshold=model.manifest.least_probability,
            seed=question.seed,
            stored=terms.store,
            created_at=timestamp(created),
            expires_at=timestamp(min(created, self.ledger.believed_now()) + self._valid),
            scores=may_read_scores(),
            points=model.manifest.points,
        )
        question = replace(question, valid_months=self._valid_months, **records)
        if isinstance(question, Question) and question.wishes.must_include:
            use_cases.actions_of(model.space, question)  # refuses what this applicant cannot change
        return model, question, frame

    async def _excluding(self, question: Asked, terms: Terms) -> Asked:
        """The question with the sets of features that earlier answers change, in place of their ids."""
        if not terms.exclude_ids or not isinstance(question, Question):
            return question
        model = self.models.find(terms.model, pointer="/model")
        sets = await self.given.changed_sets(terms.exclude_ids, model.id)
        known = set(model.space.names)
        exclude = question.wishes.exclude
        sets = tuple(dict.fromkeys((*exclude.sets, *(some for some in sets if known.issuperset(some)))))
        return replace(question, wishes=replace(question.wishes, exclude=replace(exclude, sets=sets)))

    async def _computed(self, name: str, model: RegisteredModel, question: Case, frame: Frame, terms: Terms) -> Written:
        began, stopped, deadline_ms = time.perf_counter(), USE_CASES[name].stopped, self._deadline_ms(terms)
        try:
            work = (written_answer, name, question, frame, self._plan_s, terms.detail, deadline_ms)
            with long_calls(question.takes_long):
                answer: Written = await self.models.ask(model, *work, timeout_ms=deadline_ms)
        except LaneTimeout:
            if stopped is None:
                raise
            frame = use_cases.with_method(frame, question)
            found = plain(stopped(frame, 1000.0 * (time.perf_counter() - began)))
            request = encoded(self._request(model, question, terms)) if terms.store else None
            answer = written(name, found, terms.detail, request)
        if name == RECOURSE:
            assert isinstance(question, Question)
            self.metrics.answer(question.method, answer.facts, time.perf_counter() - began)
        return answer

    async def _pursued(
        self, name: str, model: RegisteredModel, question: Case, answer: Written, terms: Terms
    ) -> Written:
        """An answer with a bracket of the joint bounds of its plan, and the job that computes tight ones."""
        found = json.loads(answer.texts[FULL])
        points = model.manifest.points
        frame = Frame(model=identity(model), seed=question.seed, scores=may_read_scores(), points=points)
        records = [one["applicant"] for one in found["counterfactuals"]]
        rows_raw = model.space.read_many(records, pointer="/counterfactuals")
        certified = ValidityQuestion.about(question, rows_raw)
        payload = job_payload(self.models.ref(model), certified, plain(frame), asking_id())
        try:
            job = await self.jobs.submit(VALIDITY, payload, timeout_s=BOUNDS_S, about=found.get("id"))
        except NotReady:
            return answer  # without the job store the bracket is the whole answer, and says so
        found["plan"]["validity"] |= {"status": "pending", "job": job.address}
        return written(name, found, terms.detail, answer.texts.get(REQUEST))

    @property
    def _valid(self) -> timedelta:
        """How long an answer is valid."""
        return timedelta(days=self.settings.valid_days)

    @property
    def _valid_months(self) -> float:
        """The same in months: how long the changes of an answer may take."""
        return self.settings.valid_days / DAYS_PER_MONTH

    @property
    def _plan_s(self) -> float:
        return self.settings.plan_budget_ms / 1000.0

    def _deadline_ms(self, terms: Terms) -> int:
        return terms.deadline_ms or self.settings.default_deadline_ms

    def _request(self, model: RegisteredModel, question: Case, terms: Terms) -> Json:
        assert isinstance(question, Question), "only recourse is recorded"
        return request_of(model.space, question, self._deadline_ms(terms))

    # --- what becomes of jobs ---

    async def _keep(self, job_id: str, payload: Json, lines: Sequence[str]) -> None:
        """Record and count the answers among the lines of some rows. Raises `LedgerUnavailable`.

        Repeated after a crash, it records nothing twice, but counts again.
        """
        given = [(i, line, json.loads(line)) for i, line in enumerate(lines) if batch_lines.refusal(line) is None]
        if payload["store"]:
            await self.ledger.record(*self._entries(job_id, payload, given))
        model = payload["model"]["name"].partition("@")[0]
        rows = sum(self.metrics.asked(model, answer) for _, _, answer in given)
        self.budgets.spend(payload.get("key"), rows)

    def _entries(self, job_id: str, payload: Json, given: Sequence[tuple[int, str, Json]]) -> Iterator[NewRecord]:
        """What is recorded of answers of a batch: each with its position among the rows, and its line."""
        space = self.models.find(payload["model"]["name"], include_inactive=True).space
        deadline_ms = round(1000.0 * payload["deadline_s"])
        common = Question.from_json(payload["question"]).to_json()
        for i, line, answer in given:
            factual_raw = space.read(payload["rows"][i]["applicant"], pointer="/applicant")
            request = request_of_row(space, common, factual_raw, batch_lines.seed(payload, i), deadline_ms)
            yield entry_of(answer, request, job_id, key=payload.get("key"), sent=line.encode())

    async def _finish(self, job_id: str, kind: str, payload: Json, result: Json) -> Json:
        """The result of a job, once the recourse in it is recorded."""
        if kind == AUDIT:
            asked = result["model"]
            self.metrics.audited(asked["id"], asked["version"], result["broken"])
        elif kind == COMPARISON:
            await self.comparisons.note(job_id, result)
        elif kind in JOB_KINDS and kind != FUTURES:
            self.budgets.spend(payload.get("key"), self.metrics.asked(result["model"]["id"], result))
        if kind != RECOURSE or payload["request"] is None:
            return result
        await self.ledger.record(entry_of(result, payload["request"], job_id, key=payload.get("key")))
        # A result that was computed again after a crash is not the recorded one: its timings differ.
        recorded, _ = await self.given.asked(result["id"])
        return recorded

    async def _fail(self, kind: str, payload: Json, error: RecourseError) -> None:
        """Note a rehearsal that failed without having noted it itself, such as one whose child was killed."""
        if kind == FUTURES:
            self.rehearsals.ended(payload["model"]["name"], error.sentence)

    async def cancel(self, job_id: str) -> Job:
        """Cancel a job and stop its computation. Idempotent.

        Raises `UnknownJob`, `JobFinished`, `NotReady`, and `InsufficientScope` where an auditor cancels another's.
        """
        require_own_or(Scope.RECOURSE, (await self.jobs.get(job_id)).key)
        job = await self.jobs.cancel(job_id)
        if job.kind == FUTURES and job.about is not None:
            self.rehearsals.ended(job.about, CANCELLED)
        return job

    # --- operations ---

    async def problem_of_databases(self) -> str:
        """Why ledger or jobs cannot do their work; empty if they can."""
        return await _problem(self.ledger.check()) or await _problem(self.jobs.check())

    async def readiness(self) -> Json:
        """How many models and workers stand ready. Raises `NotReady` with all that is not ready."""
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
        """The metrics, as Prometheus reads them; figures from the database are missing while it cannot be reached."""
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


async def _problem(check: Awaitable[None]) -> str:
    try:
        await check
    except NotReady as error:
        return error.detail
    return ""
