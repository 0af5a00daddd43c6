"""The use cases that find or judge advice, and the parts of the service put together."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from jaxtyping import Float

from app.access import Access
from app.errors import Fault, LaneTimeout, NotReady
from app.jobs import batch, task
from app.jobs.answer import Json, amended, framed, identity, judged, out_of_time, swept
from app.jobs.asked import Counterfactuals, Question, Store, Sweep, job_payload
from app.jobs.ids import ids_are_reserved, new_id
from app.jobs.job import BATCH, Job
from app.jobs.kinds import JOB_KINDS, JobKind
from app.jobs.pool import Lane
from app.jobs.promises import given, kept_request
from app.jobs.queue import Jobs
from app.metrics import Metrics
from app.recourse.actionability import check_constraints
from app.registry.registered import RegisteredModel
from app.service.checks import all_or_faults, check_certificate, checks
from app.service.given import GivenRecourse
from app.service.models import Models
from app.service.queries import BatchQuery, CorrectionQuery, FrontierQuery, RecourseQuery, ValidityQuery
from app.settings import Settings
from app.store.engine import database_url
from app.store.ledger import FILE as LEDGER
from app.store.ledger import Record
from app.store.moments import timestamp
from app.store.recorder import Recorder

OPEN_S = 30.0
"""Longest time for a command to open the databases."""

OPEN_POLL_S = 0.1

BOUNDS_S = 300.0
"""Time for a job of joint bounds."""


class Service:
    """The use cases, over one models store, lanes of child processes and the jobs."""

    def __init__(self, settings: Settings, kinds: Mapping[str, JobKind] = JOB_KINDS) -> None:
        self.settings = settings
        store = Store.of(settings, ledger=database_url(settings, LEDGER))
        self._lane = Lane("sync", settings.lanes_sync, task.prepare, (store,))
        # Jobs give way to whoever waits for an answer.
        self._bounds = Lane("bounds", settings.lanes_bounds, task.prepare, (store,), nice=10)
        self.metrics = Metrics(lambda: {lane.name: lane.state() for lane in (self._lane, self._bounds)})
        self.models = Models(settings, store, self._lane, self.metrics)
        self.jobs = Jobs(settings, self._bounds, store, kinds, self._finish, self._keep, self.metrics)
        self.ledger = Recorder(settings, self._forget)
        self.given = GivenRecourse(self.ledger, self.jobs, self.models)
        self.access = Access(settings, self.ledger)

    def start(self) -> None:
        """Start the child processes and open ledger and jobs; they become ready in the background."""
        self._lane.start()
        self.start_jobs()

    def start_jobs(self) -> None:
        """The same without what computes answers to requests."""
        self.ledger.start()
        self.jobs.start()

    async def close(self) -> None:
        """End the child processes; unfinished jobs stay for the next start."""
        # The jobs first, or those in progress would seem to have crashed.
        await self.jobs.close()
        await self.ledger.close()
        await asyncio.gather(self._lane.close(), self._bounds.close())

    # --- recourse ---

    async def recourse(self, query: RecourseQuery) -> Json:
        """What the applicant could change.

        Raises
        ------
        UnknownModel, ModelUnusable : as `Registry.find`
        InvalidRequest : record, constraints or weights do not fit the model; with every fault
        Overloaded, LaneCrashed : as `Lane.run`; a time-out is an answer, not an error
        LedgerUnavailable : the answer could not be recorded, so it is not given
        """
        if query.store:
            self.ledger.require()
        model, question, frame = self._prepare(query)
        began = time.perf_counter()
        found = await self._ask(model, question, self._deadline_ms(query))
        self.metrics.answer(query.method, found, time.perf_counter() - began)
        answer = framed(frame, found)
        await self._pursue(model, answer, lambda: _shown(model, question, answer))
        if query.store:
            await self.ledger.record(given(answer, kept_request(model.space, question, self._deadline_ms(query))))
            if ids_are_reserved():
                # Another server may have recorded it and crashed; then that is what was given.
                return await self.given.recorded(answer["id"])
        return answer

    async def start_recourse(self, query: RecourseQuery) -> Job:
        """The same as a job, whose result is the answer; if it has to be stopped at its deadline, it has failed.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `recourse`
        NotReady : the job store cannot be reached
        """
        model, question, frame = self._prepare(query)
        payload = job_payload(self.models.ref(model), question, frame)
        payload["request"] = kept_request(model.space, question, self._deadline_ms(query)) if query.store else None
        timeout_s = self._deadline_ms(query) / 1000.0
        return await self.jobs.submit("recourse", payload, timeout_s=timeout_s, recourse=frame["id"])

    async def start_batch(self, query: BatchQuery) -> Job:
        """The same for many applicants, always as a job; row `i` has the seed of the question plus `i`.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `recourse`, of what the applicants have in common
        NotReady : the job store cannot be reached
        """
        if query.question.store:
            self.ledger.require()
        return await self.jobs.submit_batch(BATCH, self.batch_payload(query.question), query.rows)

    def batch_payload(self, asked: RecourseQuery) -> Json:
        """What the rows of a batch have in common, for `kinds.batch_job`. Errors of the question as `start_batch`."""
        model = self.models.find(asked.model, pointer="/model")
        all_or_faults(*checks(self.models, model, asked))
        return {
            **job_payload(self.models.ref(model), _question(asked, np.empty(0)), {}),
            "frame": {"model": identity(model), "method": _method(asked), "valid_days": self.settings.valid_days},
            "plan_s": self.settings.plan_budget_ms / 1000.0,
            "deadline_s": self._deadline_ms(asked) / 1000.0,
            "store": asked.store,
        }

    async def _keep(self, job_id: str, payload: Json, lines: Sequence[str]) -> None:
        """Record the answers among the lines of some rows; once more does no harm. Raises `LedgerUnavailable`."""
        if not payload["store"]:
            return
        space = self.models.find(payload["model"]["name"], include_inactive=True).space
        deadline_ms = round(1000.0 * payload["deadline_s"])
        answers, gifts = [], []
        for i, (row, line) in enumerate(zip(payload["rows"], lines, strict=True)):
            if batch.refusal(line) is None:
                question = {
                    **payload["question"],
                    "factual_raw": space.read(row["applicant"]).tolist(),
                    "seed": batch.seed(payload, i),
                }
                request = {"applicant": row["applicant"], "question": question, "deadline_ms": deadline_ms}
                answers.append(json.loads(line))
                gifts.append(given(answers[-1], request, job_id, told=line.encode()))
        await self.ledger.record(*gifts)
        for answer in answers:
            self.metrics.asked(answer["model"]["id"], answer)

    async def _finish(self, job_id: str, kind: str, payload: Json, result: Json) -> Json:
        """The result of a job, once the recourse in it is recorded."""
        if kind == "audit":
            asked = result["model"]
            self.metrics.audited(asked["id"], asked["version"], result["broken"])
        elif kind in JOB_KINDS:
            self.metrics.asked(result["model"]["id"], result)
        if kind != "recourse" or payload["request"] is None:
            return result
        await self.ledger.record(given(result, payload["request"], job_id))
        # What was computed once more after a crash is not what was recorded: its timings differ.
        return await self.given.recorded(result["id"])

    async def _forget(self, records: Sequence[Record]) -> None:
        await self.given.forget(records)

    def _prepare(self, query: RecourseQuery) -> tuple[RegisteredModel, Question, Json]:
        """The model, the question once nothing is wrong with it, and what goes around its answer."""
        created = datetime.now(UTC)
        model = self.models.find(query.model, pointer="/model")
        factual_raw, *_ = all_or_faults(lambda: model.space.read(query.applicant), *checks(self.models, model, query))
        question = _question(query, factual_raw)
        frame = {
            "id": new_id("rec"),
            "reference": query.reference,
            "model": identity(model),
            "method": _method(query),
            "seed": query.seed,
            "stored": query.store,
            "created_at": timestamp(created),
            "expires_at": timestamp(created + timedelta(days=self.settings.valid_days)),
        }
        return model, question, frame

    def _deadline_ms(self, query: RecourseQuery) -> int:
        return query.deadline_ms or self.settings.default_deadline_ms

    async def _ask(self, model: RegisteredModel, question: Question, deadline_ms: int) -> Json:
        began = time.perf_counter()
        try:
            plan_s = self.settings.plan_budget_ms / 1000.0
            found: Json = await self.models.ask(model, task.recourse, question, plan_s, timeout_ms=deadline_ms)
        except LaneTimeout:
            return out_of_time(1000.0 * (time.perf_counter() - began))
        return found

    async def frontier(self, query: FrontierQuery) -> Json:
        """What more certainty costs the applicant. Errors as `recourse`; also `LaneTimeout`."""
        model, asked, frame = self._prepare_sweep(query)
        found = await self.models.ask(model, task.sweep, asked, timeout_ms=self._deadline_ms(query.question))
        return swept(frame, found)

    async def start_frontier(self, query: FrontierQuery) -> Job:
        """The same as a job. Errors as `start_recourse`."""
        model, asked, frame = self._prepare_sweep(query)
        payload = job_payload(self.models.ref(model), asked, frame)
        return await self.jobs.submit("frontier", payload, timeout_s=self._deadline_ms(query.question) / 1000.0)

    def _prepare_sweep(self, query: FrontierQuery) -> tuple[RegisteredModel, Sweep, Json]:
        model, question, frame = self._prepare(query.question)
        sweep = Sweep(question=question, parameter=query.parameter, values=query.values)
        return model, sweep, {**frame, "parameter": query.parameter}

    async def validity(self, query: ValidityQuery) -> Json:
        """What counterfactuals are worth that another system has made.

        Joint bounds that take too long to wait for are there as a bracket, and a job finds the tight ones. Errors as
        `recourse`; also `LaneTimeout` and `DeadlineExceeded`.
        """
        model, brought, frame = self._prepare_validity(query)
        plan_s = self.settings.plan_budget_ms / 1000.0
        found = await self.models.ask(model, task.validity, brought, plan_s, timeout_ms=query.deadline_ms)
        answer = judged(frame, found)
        await self._pursue(model, answer, lambda: brought)
        return answer

    async def _pursue(self, model: RegisteredModel, answer: Json, brought: Callable[[], Counterfactuals]) -> None:
        """Have a job compute the joint bounds of an answer, where there is only a bracket of them."""
        if answer["plan"] and answer["plan"]["validity"]["status"] == "bracket":
            # Without the job store the bracket is the whole answer, and says so.
            with suppress(NotReady):
                frame = {"model": answer["model"], "seed": answer["seed"]}
                job = await self._submit("validity", model, brought(), frame, recourse=answer.get("id"))
                answer["plan"]["validity"] |= {"status": "pending", "job": job.address}

    async def start_validity(self, query: ValidityQuery) -> Job:
        """The same as a job, which has all the time that the bounds take. Errors as `start_recourse`."""
        return await self._submit("validity", *self._prepare_validity(query))

    async def correct(self, query: CorrectionQuery) -> Json:
        """A plan that the caller has, made more valid. Errors as `validity`.

        Members whose correction the joint bounds cannot show to help in time stay as they were.
        """
        model, brought, frame = self._prepare_correction(query)
        plan_s = self.settings.plan_budget_ms / 1000.0
        found = await self.models.ask(model, task.corrected, brought, plan_s, timeout_ms=query.deadline_ms)
        answer = amended(frame, found)
        await self._pursue(model, answer, lambda: _shown(model, brought, answer))
        return answer

    async def start_correction(self, query: CorrectionQuery) -> Job:
        """The same as a job, which has all the time that the bounds take. Errors as `start_recourse`."""
        return await self._submit("correction", *self._prepare_correction(query))

    async def _submit(
        self, kind: str, model: RegisteredModel, brought: Counterfactuals, frame: Json, *, recourse: str | None = None
    ) -> Job:
        payload = job_payload(self.models.ref(model), brought, frame)
        return await self.jobs.submit(kind, payload, timeout_s=BOUNDS_S, recourse=recourse)

    def _prepare_correction(self, query: CorrectionQuery) -> tuple[RegisteredModel, Counterfactuals, Json]:
        model, brought, frame = self._prepare_validity(query)
        brought = replace(brought, correction=query.correction)
        return model, brought, {"id": new_id("cor"), **frame, "created_at": timestamp(datetime.now(UTC))}

    def _prepare_validity(self, query: ValidityQuery) -> tuple[RegisteredModel, Counterfactuals, Json]:
        model = self.models.find(query.model, pointer="/model")
        space = model.space
        factual_raw, rows_raw, _, _ = all_or_faults(
            lambda: space.read(query.factual, pointer="/factual"),
            lambda: space.read_many(query.counterfactuals, pointer="/counterfactuals"),
            lambda: check_certificate(model, query.certificate),
            lambda: check_constraints(space, query.constraints, {}),
        )
        brought = Counterfactuals(
            factual_raw=factual_raw,
            rows_raw=rows_raw,
            certificate=query.certificate,
            seed=query.seed,
            constraints=query.constraints,
        )
        return model, brought, {"model": identity(model), "seed": query.seed}

    # --- operations ---

    async def open(self) -> bool:
        """Whether ledger and jobs can be reached."""
        return not (await _amiss(self.ledger.check()) or await _amiss(self.jobs.check()))

    async def readiness(self) -> Json:
        """How many models and workers stand ready. Raises `NotReady` with all that is amiss."""
        amiss = await self._amiss()
        if faults := [Fault("", sentence) for sentence in amiss.values() if sentence]:
            raise NotReady(faults=faults)
        return {
            "status": "ready",
            "models": self.models.active(),
            "workers": self._lane.warm,
            "warnings": self.models.warnings(),
        }

    async def measured(self) -> bytes:
        """The metrics, as Prometheus reads them; what the database knows is left out while it is away."""
        unfinished: Mapping[tuple[str, str], int] = {}
        with suppress(NotReady):
            unfinished = await self.jobs.unfinished()
        return self.metrics.render(unfinished, {part: not amiss for part, amiss in (await self._amiss()).items()})

    async def _amiss(self) -> dict[str, str]:
        """What is wrong with each part; empty where nothing is."""
        return {
            "models": self.models.amiss(),
            "lane": "" if self._lane.warm else "no worker has finished loading the models",
            "ledger": await _amiss(self.ledger.check()),
            "jobs": await _amiss(self.jobs.check()),
        }


async def _amiss(check: Awaitable[None]) -> str:
    try:
        await check
    except NotReady as error:
        return error.detail
    return ""


async def sweep(settings: Settings) -> int:
    """`Recorder.sweep` without a running service; how many recourses were erased. Raises `NotReady`."""
    service = Service(settings.model_copy(update={"run_jobs": False}))
    service.start_jobs()
    try:
        async with asyncio.timeout(OPEN_S):
            while not await service.open():
                await asyncio.sleep(OPEN_POLL_S)
        return await service.ledger.sweep()
    except TimeoutError:
        raise NotReady("The databases of ledger and jobs cannot be opened.") from None
    finally:
        await service.close()


def _question(query: RecourseQuery, factual_raw: Float[np.ndarray, "p"]) -> Question:
    return Question(
        factual_raw=factual_raw,
        constraints=query.constraints,
        cost_weights=query.cost_weights,
        method=query.method,
        params=query.params,
        certificate=query.certificate,
        seed=query.seed,
    )


def _method(query: RecourseQuery) -> Json:
    return {"name": query.method, **asdict(query.params)}


def _shown(model: RegisteredModel, asked: Question | Counterfactuals, answer: Json) -> Counterfactuals:
    """Exactly the records of an answer, to be judged in the same circumstances."""
    records = [one["applicant"] for one in answer["counterfactuals"]]
    return Counterfactuals(
        factual_raw=asked.factual_raw,
        rows_raw=model.space.read_many(records, pointer="/counterfactuals"),
        certificate=asked.certificate,
        seed=asked.seed,
        constraints=asked.constraints,
        cost_weights=asked.cost_weights,
    )
