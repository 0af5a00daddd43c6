"""What the product can do, one method per use case. The HTTP edge is a skin over it."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import Fault, InvalidRequest, LaneTimeout, NotReady, UnknownModel
from app.jobs import task
from app.jobs.answer import Json, framed, judged, out_of_time
from app.jobs.ids import new_id
from app.jobs.job import Job
from app.jobs.pool import Lane
from app.jobs.queue import Jobs
from app.recourse.actionability import Constraints, action_set
from app.recourse.blackbox import Output
from app.recourse.certificate import CertificateParams, check_moments, check_noise
from app.recourse.features import Feature
from app.recourse.method import MethodParams
from app.registry.registered import RegisteredModel
from app.registry.registry import Registry
from app.settings import Settings

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityQuery:
    """A request to judge counterfactuals, as it came."""

    model: str
    factual: Mapping[str, object]
    counterfactuals: Sequence[Mapping[str, object]]
    certificate: CertificateParams
    deadline_ms: int | None = None
    seed: int = 0


class Service:
    """The use cases, over one models store, lanes of child processes and the jobs."""

    def __init__(self, settings: Settings, kinds: Mapping[str, task.JobKind] = task.JOB_KINDS) -> None:
        self.settings = settings
        self._registry = Registry(settings.models_store, trust_pickle=settings.trust_pickle)
        self._store = task.Store(root=str(settings.models_store.absolute()), trust_pickle=settings.trust_pickle)
        self._lane = Lane("sync", settings.lanes_sync, task.prepare, (self._store,))
        # Jobs give way to whoever waits for an answer.
        self._bounds = Lane("bounds", settings.lanes_bounds, task.prepare, (self._store,), nice=10)
        self.jobs = Jobs(settings, self._bounds, self._store, kinds)

    def start(self) -> None:
        """Start the child processes and open the jobs; they become ready in the background."""
        self._lane.start()
        self.jobs.start()

    async def close(self) -> None:
        """End the child processes; unfinished jobs stay for the next start."""
        # The jobs first, or those in progress would seem to have crashed.
        await self.jobs.close()
        await asyncio.gather(self._lane.close(), self._bounds.close())

    # --- recourse ---

    async def recourse(self, query: RecourseQuery) -> Json:
        """What the applicant could change.

        Raises
        ------
        UnknownModel, ModelUnusable : as `Registry.find`
        InvalidRequest : record, constraints or weights do not fit the model; with every fault
        Overloaded, LaneCrashed : as `Lane.run`; a time-out is an answer, not an error
        """
        model, question, frame = self._prepare(query)
        return framed(frame, await self._ask(model, question, self._deadline_ms(query)))

    async def start_recourse(self, query: RecourseQuery) -> Job:
        """The same as a job, whose result is the answer; if it has to be stopped at its deadline, it has failed.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : as `recourse`
        NotReady : the job store cannot be reached
        """
        model, question, frame = self._prepare(query)
        payload = task.job_payload(task.ModelRef.of(self._store, model), question, frame)
        return await self.jobs.submit("recourse", payload, timeout_s=self._deadline_ms(query) / 1000.0)

    def _prepare(self, query: RecourseQuery) -> tuple[RegisteredModel, task.Question, Json]:
        """The model, the question once nothing is wrong with it, and what goes around its answer."""
        created = datetime.now(UTC)
        model = self._find(query.model, pointer="/model")
        question = task.Question(
            factual_raw=_checked(model, query),
            constraints=query.constraints,
            cost_weights=query.cost_weights,
            method=query.method,
            params=query.params,
            certificate=query.certificate,
            seed=query.seed,
        )
        frame = {
            "id": new_id("rec"),
            "reference": query.reference,
            "model": _identity(model),
            "method": {"name": query.method, **asdict(query.params)},
            "seed": query.seed,
            "created_at": timestamp(created),
            "expires_at": timestamp(created + timedelta(days=self.settings.valid_days)),
        }
        return model, question, frame

    def _deadline_ms(self, query: RecourseQuery) -> int:
        return query.deadline_ms or self.settings.default_deadline_ms

    async def _ask(self, model: RegisteredModel, question: task.Question, deadline_ms: int) -> Json:
        began = time.perf_counter()
        try:
            found: Json = await self._in_child(model, task.recourse, question, timeout_ms=deadline_ms)
        except LaneTimeout:
            return out_of_time(1000.0 * (time.perf_counter() - began))
        return found

    async def validity(self, query: ValidityQuery) -> Json:
        """What counterfactuals are worth that another system has made.

        Joint bounds that take too long to wait for are there as a bracket, and a job finds the tight ones. Errors as
        `recourse`; also `LaneTimeout` and `DeadlineExceeded`.
        """
        asked = self._prepare_validity(query)
        model, brought, frame = asked
        plan_s = self.settings.plan_budget_ms / 1000.0
        found = await self._in_child(model, task.validity, brought, plan_s, timeout_ms=query.deadline_ms)
        answer = judged(frame, found)
        if answer["plan"] and answer["plan"]["validity"]["status"] == "bracket":
            # Without the job store the bracket is the whole answer, and says so.
            with suppress(NotReady):
                job = await self._submit_validity(*asked)
                answer["plan"]["validity"] |= {"status": "pending", "job": job.address}
        return answer

    async def start_validity(self, query: ValidityQuery) -> Job:
        """The same as a job, which has all the time that the bounds take. Errors as `start_recourse`."""
        return await self._submit_validity(*self._prepare_validity(query))

    async def _submit_validity(self, model: RegisteredModel, brought: task.Counterfactuals, frame: Json) -> Job:
        payload = task.job_payload(task.ModelRef.of(self._store, model), brought, frame)
        return await self.jobs.submit("validity", payload, timeout_s=BOUNDS_S)

    def _prepare_validity(self, query: ValidityQuery) -> tuple[RegisteredModel, task.Counterfactuals, Json]:
        model = self._find(query.model, pointer="/model")
        space = model.space
        factual_raw, rows_raw, _ = _all_or_faults(
            lambda: space.read(query.factual, pointer="/factual"),
            lambda: space.read_many(query.counterfactuals, pointer="/counterfactuals"),
            lambda: _check_certificate(model, query.certificate),
        )
        brought = task.Counterfactuals(
            factual_raw=factual_raw, rows_raw=rows_raw, certificate=query.certificate, seed=query.seed
        )
        return model, brought, {"model": _identity(model), "seed": query.seed}

    # --- models ---

    def models(self) -> list[Json]:
        """Every registered version."""
        return [_summary(model) for model in self._registry.list()]

    def model(self, name: str) -> Json:
        """One registered version, also a retired one by its full name."""
        return _summary(self._registry.find(name, include_retired=True))

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

    # --- operations ---

    async def readiness(self) -> Json:
        """How many models and workers stand ready. Raises `NotReady` with all that is amiss."""
        faults = []
        if not os.access(self.settings.models_store, os.R_OK | os.X_OK):
            faults.append(Fault("", "the directory of models (RECOURSE_MODELS_STORE) cannot be read"))
        if not self._lane.warm:
            faults.append(Fault("", "no worker has finished loading the models"))
        try:
            await self.jobs.check()
        except NotReady as error:
            faults.append(Fault("", error.detail))
        if faults:
            raise NotReady(faults=faults)
        active = [model for model in self._registry.list() if not model.retired]
        broken = [version.error.detail for version in self._registry.broken() if not version.retired]
        return {"status": "ready", "models": len(active), "workers": self._lane.warm, "warnings": broken}

    # --- inside ---

    def _find(self, name: str, *, pointer: str | None = None) -> RegisteredModel:
        try:
            return self._registry.find(name)
        except UnknownModel as error:
            if pointer is None:
                raise
            fault = Fault(pointer, "is not the name of an active model")
            raise UnknownModel(error.detail, faults=[fault], **error.facts) from None

    async def _in_child(
        self, model: RegisteredModel, work: Callable[..., Any], *args: Any, timeout_ms: int | None = None
    ) -> Any:
        timeout_s = (timeout_ms or self.settings.default_deadline_ms) / 1000.0
        return await self._lane.run(work, task.ModelRef.of(self._store, model), *args, timeout_s=timeout_s)


def _checked(model: RegisteredModel, query: RecourseQuery) -> Float[np.ndarray, "p"]:
    """The applicant's raw row, once nothing is wrong with it, nor with constraints and weights; else every fault."""
    space = model.space
    # The action set is built for its checks alone, on any record; the child that solves builds its own.
    factual_raw, _, _ = _all_or_faults(
        lambda: space.read(query.applicant),
        lambda: action_set(space, np.zeros(space.p), constraints=query.constraints, cost_weights=query.cost_weights),
        lambda: _check_certificate(model, query.certificate),
    )
    return factual_raw


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


def _identity(model: RegisteredModel) -> Json:
    return {"id": model.id, "version": model.version, "sha256": model.sha256}


def _summary(model: RegisteredModel) -> Json:
    manifest = model.manifest
    return {
        **_identity(model),
        "title": manifest.title,
        "description": manifest.description,
        "active": not model.retired,
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


def timestamp(moment: datetime) -> str:
    """A moment as clients read it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
