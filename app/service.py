"""What the product can do, one method per use case. The HTTP edge is a skin over it."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from app.access import Access
from app.errors import (
    Fault,
    InvalidRequest,
    LaneTimeout,
    NotReady,
    RecourseError,
    UnknownModel,
    UnknownRecourse,
)
from app.jobs import batch, promises, task
from app.jobs.answer import Json, amended, encoded, framed, judged, out_of_time, swept
from app.jobs.ids import RECOURSE_ID, ids_are_reserved, new_id
from app.jobs.job import BATCH, Job
from app.jobs.pool import Lane
from app.jobs.promises import given, kept_request, particulars
from app.jobs.queue import Jobs
from app.metrics import Metrics
from app.recourse.actionability import Constraints, action_set
from app.recourse.blackbox import Output
from app.recourse.certificate import CertificateParams, check_moments, check_noise
from app.recourse.corrections import CorrectionParams
from app.recourse.features import Feature
from app.recourse.method import MethodParams
from app.recourse.solve import METHODS
from app.registry.registered import RegisteredModel
from app.settings import Settings
from app.store.engine import database_url
from app.store.ledger import FILE as LEDGER
from app.store.ledger import Promises, Record
from app.store.moments import timestamp
from app.store.recorder import Recorder

OPEN_S = 30.0
"""Longest time for a command to open the databases."""

OPEN_POLL_S = 0.1

AUDIT_S = 3600.0
"""Time for a job that re-verifies promises."""

BOUNDS_S = 300.0
"""Time for a job of joint bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecourseQuery:
    """A request for recourse, as it came."""

    model: str
    applicant: Mapping[str, object]
    method: str
    params: MethodParams
    reference: str | None = None
    constraints: Constraints = field(default_factory=Constraints)
    cost_weights: Mapping[str, float] = field(default_factory=dict)
    certificate: CertificateParams = field(default_factory=CertificateParams)
    deadline_ms: int | None = None
    seed: int = 0
    store: bool = True
    """Keep request and answer in the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """A request for recourse for many applicants, as it came."""

    question: RecourseQuery
    """What they have in common; its applicant and its reference are not used."""
    rows: Iterable[Json]
    """Each with its ``applicant`` and ``reference``, or with the error that it is ``refused`` for; consumed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierQuery:
    """A request for a cost-robustness curve, as it came."""

    question: RecourseQuery
    parameter: str
    """One of the knobs of the method."""
    values: tuple[float, ...]
    """Each within the limits of the parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityQuery:
    """A request to judge counterfactuals, as it came."""

    model: str
    factual: Mapping[str, object]
    counterfactuals: Sequence[Mapping[str, object]]
    certificate: CertificateParams
    constraints: Constraints = field(default_factory=Constraints)
    deadline_ms: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """A request to re-verify the promises of a model."""

    id: str
    """Of the model; promises of all its versions are meant."""
    candidate: str
    """The version that is asked, `id@version`; it need not be active."""
    since: datetime | None = None
    until: datetime | None = None
    reissue: bool = False
    """Also find what would be answered instead of what is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionQuery(ValidityQuery):
    """A request to correct a plan, as it came."""

    correction: CorrectionParams


class Service:
    """The use cases, over one models store, lanes of child processes and the jobs."""

    def __init__(self, settings: Settings, kinds: Mapping[str, task.JobKind] = task.JOB_KINDS) -> None:
        self.settings = settings
        self._store = task.Store(
            root=str(settings.models_store.absolute()),
            trust_pickle=settings.trust_pickle,
            remote_hosts=settings.remote_hosts,
            ledger=database_url(settings, LEDGER),
        )
        self._registry = self._store.open()
        self._lane = Lane("sync", settings.lanes_sync, task.prepare, (self._store,))
        # Jobs give way to whoever waits for an answer.
        self._bounds = Lane("bounds", settings.lanes_bounds, task.prepare, (self._store,), nice=10)
        self.metrics = Metrics(lambda: {lane.name: lane.state() for lane in (self._lane, self._bounds)})
        self.jobs = Jobs(settings, self._bounds, self._store, kinds, self._finish, self._keep, self.metrics)
        self.ledger = Recorder(settings, self._forget)
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
                return await self._recorded(answer["id"])
        return answer

    async def start_recourse(self, query: RecourseQuery) -> Job:
        """The same as a job, whose result is the answer; if it has to be stopped at its deadline, it has failed.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `recourse`
        NotReady : the job store cannot be reached
        """
        model, question, frame = self._prepare(query)
        payload = task.job_payload(task.ModelRef.of(self._store, model), question, frame)
        payload["request"] = kept_request(model.space, question, self._deadline_ms(query)) if query.store else None
        return await self.jobs.submit("recourse", payload, timeout_s=self._deadline_ms(query) / 1000.0)

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
        """What the rows of a batch have in common, for `task.batch_job`. Errors of the question as `start_batch`."""
        model = self._find(asked.model, pointer="/model")
        _all_or_faults(*self._checks(model, asked))
        return {
            **task.job_payload(task.ModelRef.of(self._store, model), _question(asked, np.empty(0)), {}),
            "frame": {"model": _identity(model), "method": _method(asked), "valid_days": self.settings.valid_days},
            "plan_s": self.settings.plan_budget_ms / 1000.0,
            "deadline_s": self._deadline_ms(asked) / 1000.0,
            "store": asked.store,
        }

    async def _keep(self, job_id: str, payload: Json, lines: Sequence[str]) -> None:
        """Record the answers among the lines of some rows; once more does no harm. Raises `LedgerUnavailable`."""
        if not payload["store"]:
            return
        space = self._registry.find(payload["model"]["name"], include_inactive=True).space
        deadline_ms = round(1000.0 * payload["deadline_s"])
        gifts = []
        for i, (row, line) in enumerate(zip(payload["rows"], lines, strict=True)):
            if batch.refusal(line) is None:
                question = {
                    **payload["question"],
                    "factual_raw": space.read(row["applicant"]).tolist(),
                    "seed": batch.seed(payload, i),
                }
                request = {"applicant": row["applicant"], "question": question, "deadline_ms": deadline_ms}
                gifts.append(given(json.loads(line), request, job_id, told=line.encode()))
        await asyncio.gather(*map(self.ledger.record, gifts))

    async def _finish(self, job_id: str, kind: str, payload: Json, result: Json) -> Json:
        """The result of a job, once the recourse in it is recorded."""
        if kind == "audit":
            asked = result["model"]
            self.metrics.audited(asked["id"], asked["version"], result["broken"])
        elif kind in task.JOB_KINDS:
            self.metrics.asked(result["model"]["id"], result)
        if kind != "recourse" or payload["request"] is None:
            return result
        await self.ledger.record(given(result, payload["request"], job_id))
        # What was computed once more after a crash is not what was recorded: its timings differ.
        return await self._recorded(result["id"])

    async def _recorded(self, recourse_id: str) -> Json:
        return cast(Json, json.loads(particulars(await self._find_record(recourse_id)).answer))

    def _prepare(self, query: RecourseQuery) -> tuple[RegisteredModel, task.Question, Json]:
        """The model, the question once nothing is wrong with it, and what goes around its answer."""
        created = datetime.now(UTC)
        model = self._find(query.model, pointer="/model")
        factual_raw, *_ = _all_or_faults(lambda: model.space.read(query.applicant), *self._checks(model, query))
        question = _question(query, factual_raw)
        frame = {
            "id": new_id("rec"),
            "reference": query.reference,
            "model": _identity(model),
            "method": _method(query),
            "seed": query.seed,
            "stored": query.store,
            "created_at": timestamp(created),
            "expires_at": timestamp(created + timedelta(days=self.settings.valid_days)),
        }
        return model, question, frame

    def _deadline_ms(self, query: RecourseQuery) -> int:
        return query.deadline_ms or self.settings.default_deadline_ms

    async def _ask(self, model: RegisteredModel, question: task.Question, deadline_ms: int) -> Json:
        began = time.perf_counter()
        try:
            plan_s = self.settings.plan_budget_ms / 1000.0
            found: Json = await self._in_child(model, task.recourse, question, plan_s, timeout_ms=deadline_ms)
        except LaneTimeout:
            return out_of_time(1000.0 * (time.perf_counter() - began))
        return found

    async def frontier(self, query: FrontierQuery) -> Json:
        """What more certainty costs the applicant. Errors as `recourse`; also `LaneTimeout`."""
        model, asked, frame = self._prepare_sweep(query)
        found = await self._in_child(model, task.sweep, asked, timeout_ms=self._deadline_ms(query.question))
        return swept(frame, found)

    async def start_frontier(self, query: FrontierQuery) -> Job:
        """The same as a job. Errors as `start_recourse`."""
        model, asked, frame = self._prepare_sweep(query)
        payload = task.job_payload(task.ModelRef.of(self._store, model), asked, frame)
        return await self.jobs.submit("frontier", payload, timeout_s=self._deadline_ms(query.question) / 1000.0)

    def _prepare_sweep(self, query: FrontierQuery) -> tuple[RegisteredModel, task.Sweep, Json]:
        model, question, frame = self._prepare(query.question)
        sweep = task.Sweep(question=question, parameter=query.parameter, values=query.values)
        return model, sweep, {**frame, "parameter": query.parameter}

    async def validity(self, query: ValidityQuery) -> Json:
        """What counterfactuals are worth that another system has made.

        Joint bounds that take too long to wait for are there as a bracket, and a job finds the tight ones. Errors as
        `recourse`; also `LaneTimeout` and `DeadlineExceeded`.
        """
        model, brought, frame = self._prepare_validity(query)
        plan_s = self.settings.plan_budget_ms / 1000.0
        found = await self._in_child(model, task.validity, brought, plan_s, timeout_ms=query.deadline_ms)
        answer = judged(frame, found)
        await self._pursue(model, answer, lambda: brought)
        return answer

    async def _pursue(self, model: RegisteredModel, answer: Json, brought: Callable[[], task.Counterfactuals]) -> None:
        """Have a job compute the joint bounds of an answer, where there is only a bracket of them."""
        if answer["plan"] and answer["plan"]["validity"]["status"] == "bracket":
            # Without the job store the bracket is the whole answer, and says so.
            with suppress(NotReady):
                frame = {"model": answer["model"], "seed": answer["seed"]}
                job = await self._submit("validity", model, brought(), frame)
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
        found = await self._in_child(model, task.corrected, brought, plan_s, timeout_ms=query.deadline_ms)
        answer = amended(frame, found)
        await self._pursue(model, answer, lambda: _shown(model, brought, answer))
        return answer

    async def start_correction(self, query: CorrectionQuery) -> Job:
        """The same as a job, which has all the time that the bounds take. Errors as `start_recourse`."""
        return await self._submit("correction", *self._prepare_correction(query))

    async def _submit(self, kind: str, model: RegisteredModel, brought: task.Counterfactuals, frame: Json) -> Job:
        payload = task.job_payload(task.ModelRef.of(self._store, model), brought, frame)
        return await self.jobs.submit(kind, payload, timeout_s=BOUNDS_S)

    def _prepare_correction(self, query: CorrectionQuery) -> tuple[RegisteredModel, task.Counterfactuals, Json]:
        model, brought, frame = self._prepare_validity(query)
        brought = replace(brought, correction=query.correction)
        return model, brought, {"id": new_id("cor"), **frame, "created_at": timestamp(datetime.now(UTC))}

    def _prepare_validity(self, query: ValidityQuery) -> tuple[RegisteredModel, task.Counterfactuals, Json]:
        model = self._find(query.model, pointer="/model")
        space = model.space
        factual_raw, rows_raw, _, _ = _all_or_faults(
            lambda: space.read(query.factual, pointer="/factual"),
            lambda: space.read_many(query.counterfactuals, pointer="/counterfactuals"),
            lambda: _check_certificate(model, query.certificate),
            lambda: action_set(space, np.zeros(space.p), constraints=query.constraints),
        )
        brought = task.Counterfactuals(
            factual_raw=factual_raw,
            rows_raw=rows_raw,
            certificate=query.certificate,
            seed=query.seed,
            constraints=query.constraints,
        )
        return model, brought, {"model": _identity(model), "seed": query.seed}

    # --- models ---

    def models(self) -> list[Json]:
        """Every registered version."""
        return [_summary(model) for model in self._registry.list()]

    def model(self, name: str) -> Json:
        """One registered version, also one that is not active by its full name."""
        return _summary(self._registry.find(name, include_inactive=True))

    async def schema(self, name: str) -> Json:
        """The features of a model, and a record to try."""
        model = self._find(name)
        return {
            "model": _identity(model),
            "features": [_describe(feature) for feature in model.space.features],
            "rules": [rule.text for rule in model.rules],
            "sample": await self._in_child(model, task.sample),
        }

    async def predict(self, name: str, records: Sequence[Mapping[str, object]]) -> Json:
        """The model's decisions. Raises `InvalidRecord` with the faults of all records."""
        model = self._find(name)
        rows_raw = model.space.read_many(records, pointer="/records")
        return {"model": _identity(model), "predictions": await self._in_child(model, task.predict, rows_raw)}

    # --- the ledger ---

    async def given(self, recourse_id: str) -> bytes:
        """The answer as it was sent; bounds of a plan that were still being computed then are filled in.

        Raises
        ------
        UnknownRecourse, Erased : there is none, or no longer
        LedgerUnavailable : the ledger cannot be read
        """
        kept = particulars(await self._find_record(recourse_id)).answer
        answer = json.loads(kept)
        if (job_id := _pending(answer)) is None:
            return kept
        # A job that has failed, or is no longer there, has no bounds: the bracket stays.
        with suppress(RecourseError):
            result = await self.jobs.result(job_id)
            answer["plan"]["validity"] = result["plan"]["validity"]
            return encoded(answer)
        return kept

    async def newest(self, limit: int, *, reference: str | None, before: str | None) -> list[Json]:
        """What was given, newest first; those before the id `before`."""
        records = await self.ledger.ask(lambda ledger: ledger.newest(limit, reference=reference, before=before))
        return [{**_outline(record), "reference": particulars(record).reference} for record in records]

    async def erase(self, recourse_id: str) -> Json:
        """Delete the personal data of a recourse, and the jobs that computed it; once more does no harm.

        Raises
        ------
        UnknownRecourse : there is none
        NotReady : ledger or jobs cannot be reached; nothing is left undone that cannot be done again
        """
        record = await self._find_record(recourse_id)
        if record.particulars is not None:
            await self.ledger.erase([record], "request")
            record = await self._find_record(recourse_id)
        return {**_outline(record), "status": "erased", "erased_at": record.erased_at}

    async def verify(self, recourse_id: str, name: str | None) -> Json:
        """Whether a model still accepts what was given; the newest active version of the model unless one is named.

        Raises
        ------
        UnknownRecourse, Erased, LedgerUnavailable : as `given`
        UnknownModel, ModelUnusable : there is no such version
        InvalidRequest : it is a version of another model
        """
        record = await self._find_record(recourse_id)
        promised = promises.promised(record)
        model = self._version(str(record.entry.model), name)
        checks = await self._in_child(model, promises.verify, promised) if promised else []
        return {
            "id": recourse_id,
            "model": _identity(model),
            "still_valid": all(check["favourable"] for check in checks) if checks else None,
            "expires_at": record.entry.expires_at,
            "verified_at": timestamp(datetime.now(UTC)),
            "counterfactuals": [{"rank": rank, **check} for rank, check in enumerate(checks, start=1)],
        }

    async def start_audit(self, query: AuditQuery) -> Job:
        """A job that asks a version of a model about all promises that any version of it has made.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `verify`
        NotReady : the job store cannot be reached
        """
        if not any(model.id == query.id for model in self._registry.list()):
            raise UnknownModel(f'No version of "{query.id[:100]}" is registered.')
        model = self._version(query.id, query.candidate)
        which = Promises(
            model=query.id,
            as_of=timestamp(datetime.now(UTC)),
            since=None if query.since is None else timestamp(query.since),
            until=None if query.until is None else timestamp(query.until),
        )
        ref = task.ModelRef.of(self._store, model)
        payload = promises.audit_payload(ref, model, which, reissue=query.reissue)
        return await self.jobs.submit("audit", payload, timeout_s=AUDIT_S)

    def _version(self, model_id: str, name: str | None) -> RegisteredModel:
        """A version of a model, active or not; the newest active one unless it is named."""
        if name is None:
            return self._find(model_id)
        if name.partition("@")[0] != model_id:
            raise InvalidRequest(faults=[Fault("/model", "is not a version of the model that was asked then")])
        return self._find(name, pointer="/model", include_inactive=True)

    async def _find_record(self, recourse_id: str) -> Record:
        if not RECOURSE_ID.fullmatch(recourse_id):
            raise UnknownRecourse
        return await self.ledger.ask(lambda ledger: ledger.find(recourse_id))

    async def _forget(self, records: Sequence[Record]) -> None:
        """Delete the jobs in which the personal data of recourses is kept as well."""
        for record in records:
            if (kept := record.particulars) is not None:
                for job in (kept.job, _pending(json.loads(kept.answer))):
                    if job is not None:
                        await self.jobs.erase(job, record.entry.id)

    # --- operations ---

    async def open(self) -> bool:
        """Whether ledger and jobs can be reached."""
        return not (await _amiss(self.ledger.check()) or await _amiss(self.jobs.check()))

    async def readiness(self) -> Json:
        """How many models and workers stand ready. Raises `NotReady` with all that is amiss."""
        amiss = await self._amiss()
        if faults := [Fault("", sentence) for sentence in amiss.values() if sentence]:
            raise NotReady(faults=faults)
        active = [model for model in self._registry.list() if model.active]
        broken = [version.error.detail for version in self._registry.broken() if version.active]
        return {"status": "ready", "models": len(active), "workers": self._lane.warm, "warnings": broken}

    async def measured(self) -> bytes:
        """The metrics, as Prometheus reads them; what the database knows is left out while it is away."""
        unfinished: Mapping[tuple[str, str], int] = {}
        with suppress(NotReady):
            unfinished = await self.jobs.unfinished()
        return self.metrics.render(unfinished, {part: not amiss for part, amiss in (await self._amiss()).items()})

    async def _amiss(self) -> dict[str, str]:
        """What is wrong with each part; empty where nothing is."""
        models = ""
        if not os.access(self.settings.models_store, os.R_OK | os.X_OK):
            models = "the directory of models (RECOURSE_MODELS_STORE) cannot be read"
        elif self._registry.broken() and not any(model.active for model in self._registry.list()):
            models = "none of the registered models can be used"
        lane = "" if self._lane.warm else "no worker has finished loading the models"
        return {
            "models": models,
            "lane": lane,
            "ledger": await _amiss(self.ledger.check()),
            "jobs": await _amiss(self.jobs.check()),
        }

    # --- inside ---

    def _find(self, name: str, *, pointer: str | None = None, include_inactive: bool = False) -> RegisteredModel:
        try:
            return self._registry.find(name, include_inactive=include_inactive)
        except UnknownModel as error:
            if pointer is None:
                raise
            fault = Fault(pointer, "is not the name of an active model")
            raise UnknownModel(error.detail, faults=[fault], **error.facts) from None

    def _checks(self, model: RegisteredModel, query: RecourseQuery) -> list[Callable[[], Any]]:
        """Of everything but the applicant's record."""
        space = model.space
        # The action set is built for its checks alone, on any record; the child that solves builds its own.
        any_raw = np.zeros(space.p)
        return [
            lambda: action_set(space, any_raw, constraints=query.constraints, cost_weights=query.cost_weights),
            lambda: _check_certificate(model, query.certificate),
            lambda: self._check_method(model, query),
        ]

    def _check_method(self, model: RegisteredModel, query: RecourseQuery) -> None:
        faults = list(METHODS[query.method].faults(model.space, query.params))
        for pointer, name in query.params.other_models().items():
            try:
                other = self._registry.find(name)
            except UnknownModel:
                faults.append(Fault(pointer, "is not the name of an active model"))
                continue
            if not other.space.same_columns(model.space):
                faults.append(Fault(pointer, f"has other features than {model.name}, or other values of them"))
        if faults:
            raise InvalidRequest(faults=faults)

    async def _in_child(
        self, model: RegisteredModel, work: Callable[..., Any], *args: Any, timeout_ms: int | None = None
    ) -> Any:
        timeout_s = (timeout_ms or self.settings.default_deadline_ms) / 1000.0
        found = await self._lane.run(work, task.ModelRef.of(self._store, model), *args, timeout_s=timeout_s)
        self.metrics.asked(model.id, found)
        return found


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


def _question(query: RecourseQuery, factual_raw: Float[np.ndarray, "p"]) -> task.Question:
    return task.Question(
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


def _shown(model: RegisteredModel, asked: task.Question | task.Counterfactuals, answer: Json) -> task.Counterfactuals:
    """Exactly the records of an answer, to be judged in the same circumstances."""
    records = [one["applicant"] for one in answer["counterfactuals"]]
    return task.Counterfactuals(
        factual_raw=asked.factual_raw,
        rows_raw=model.space.read_many(records, pointer="/counterfactuals"),
        certificate=asked.certificate,
        seed=asked.seed,
        constraints=asked.constraints,
        cost_weights=asked.cost_weights,
    )


def _check_certificate(model: RegisteredModel, certificate: CertificateParams) -> None:
    faults = check_noise(model.space, certificate)
    faults += check_moments(certificate, registered=model.manifest.label is not None)
    if faults:
        raise InvalidRequest(faults=faults)


def _all_or_faults(*checks: Callable[[], Any]) -> list[Any]:
    """What all checks give, or one error with the faults of all that fail."""
    results, faulty = [], []
    for check in checks:
        try:
            results.append(check())
        except InvalidRequest as error:
            faulty.append(error)
    if len(faulty) == 1:
        raise faulty[0]
    if faulty:
        raise InvalidRequest(faults=[fault for error in faulty for fault in error.faults])
    return results


def _outline(record: Record) -> Json:
    """What the ledger says about a recourse without personal data."""
    entry = record.entry
    return {
        "id": entry.id,
        "status": entry.status,
        "model": {"id": entry.model, "version": entry.version, "sha256": entry.sha256},
        "created_at": entry.at,
        "expires_at": entry.expires_at,
    }


def _pending(answer: Json) -> str | None:
    """The job that computes the bounds of an answer's plan, where there was one."""
    job = answer["plan"] and answer["plan"]["validity"]["job"]
    return job and str(job).rpartition("/")[2]


def _identity(model: RegisteredModel) -> Json:
    return {"id": model.id, "version": model.version, "sha256": model.sha256}


def _summary(model: RegisteredModel) -> Json:
    manifest = model.manifest
    return {
        **_identity(model),
        "title": manifest.title,
        "description": manifest.description,
        "active": model.active,
        "registered_at": timestamp(model.registered_at),
        "features": len(manifest.features),
        "output": manifest.output.value,
        "threshold": None if manifest.output is Output.LABEL else manifest.threshold,
    }


def _describe(feature: Feature) -> Json:
    return {
        "name": feature.name,
        "type": feature.type.value,
        "label": feature.title,
        "unit": feature.unit,
        "min": feature.min,
        "max": feature.max,
        "step": feature.step,
        "decimals": feature.decimals,
        "categories": None if feature.is_number else list(feature.levels),
        "change": feature.change.value,
        "cost": feature.cost,
    }
