"""Comparisons of two versions of a model, as jobs; their digests are in the ledger."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from app.errors import Fault, InvalidRequest, SchemaDiffers
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import COMPARISON
from app.keys.keys import asking_id
from app.ledger.chain import Kind
from app.ledger.recorder import Recorder
from app.models.models import Models
from app.portfolio.comparison import schema_faults
from app.portfolio.conditions import Condition
from app.questions.answers import Json, encoded
from app.questions.question import Question, job_payload
from app.questions.validation import all_or_faults, checks
from app.recourse.actions.timing import months_for_changes
from app.registry.ref import ModelRef, model_payload
from app.registry.version import RegisteredModel
from app.settings import Settings
from app.store.timestamps import timestamp

ANSWER_S = 30.0
"""Time for each answer: much more than it takes, so that a busy machine does not change the figures."""


class Comparisons:
    """The service that starts comparisons: jobs that measure what a candidate changes for the baseline's applicants."""

    def __init__(self, settings: Settings, models: Models, jobs: Jobs, ledger: Recorder) -> None:
        self._settings = settings
        self._models = models
        self._jobs = jobs
        self._ledger = ledger

    async def start(
        self, model_id: str, baseline: str, candidate: str, question: Question, rows: Iterable[Json] | None,
        fail_if: Sequence[str],
    ) -> Job:  # fmt: skip
        """Start a job that compares two versions on `rows`; None stands for the baseline's reference records.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest, SchemaDiffers : the request cannot be answered
        ModelQuarantined, DailyBudgetSpent : the model is in quarantine, or the key's budget for today is spent
        NotReady : the job store cannot be reached
        """
        before = self.version(model_id, baseline, "/baseline")
        after = self.version(model_id, candidate, "/candidate")
        for i, text in enumerate(fail_if):
            Condition.parse(text, f"/fail_if/{i}")
        payload = self.payload(before, after, question, rows is not None, fail_if)
        all_or_faults(*checks(self._models, before, question), *checks(self._models, after, question))
        await self._models.admit(before)
        asked = reference_rows(before) if rows is None else rows
        return await self._jobs.submit_batch(COMPARISON, payload, asked, closed=True)

    def payload(
        self, before: RegisteredModel, after: RegisteredModel, question: Question, records: bool, fail_if: Sequence[str]
    ) -> Json:
        """The payload that all rows of a comparison share.

        Raises `SchemaDiffers` where the two versions do not have the same features.
        """
        if not before.space.same_columns(after.space):
            differ = schema_faults(before.space, after.space) or ["the order of the features"]
            faults = [Fault("/candidate", f"differs in {name}") for name in differ]
            raise SchemaDiffers(f"{before.name} and {after.name} do not have the same features.", faults=faults)
        return {
            **asked_payload(self._settings, self._models.ref(before), question),
            "candidate": model_payload(self._models.ref(after)),
            "source": {"kind": "records" if records else "reference"},
            "fail_if": list(fail_if),
        }

    async def note(self, job_id: str, result: Json) -> None:
        """Enter the digest of a comparison's result in the ledger, once for each job. Raises `LedgerUnavailable`."""
        await noted(self._ledger, Kind.COMPARED, job_id, result["candidate"], result)

    def version(self, model_id: str, name: str, pointer: str) -> RegisteredModel:
        """The version of a model that a request names at `pointer`; raises `InvalidRequest` and `UnknownModel`."""
        if name.partition("@")[0] != model_id:
            raise InvalidRequest(faults=[Fault(pointer, f"is not a version of {model_id}")])
        return self._models.find(name, pointer=pointer, include_inactive=True)


def asked_payload(settings: Settings, ref: ModelRef, question: Question) -> Json:
    """The payload of a job that asks a version about many people and stores no answers; all rows share it."""
    payload = job_payload(ref, replace(question, valid_months=months_for_changes(settings.valid_days)), {}, asking_id())
    del payload["frame"]
    times = {"deadline_s": ANSWER_S, "plan_s": settings.plan_budget_ms / 1000.0}
    return {**payload, **times, "store": False}


async def noted(ledger: Recorder, kind: Kind, job_id: str, model: Json, result: Json) -> None:
    """Enter the digest of a job's result in the ledger, once for each job.

    Raises `LedgerUnavailable`.
    """
    digest, now = hashlib.sha256(encoded(result)).hexdigest(), timestamp(datetime.now(UTC))
    facts = {"model": model["id"], "version": model["version"], "sha256": model["sha256"], "digest": digest}
    await ledger.ask(lambda opened: opened.noted(kind, job_id, now, **facts))


def reference_rows(model: RegisteredModel) -> Iterable[Json]:
    """A job's rows for all reference records of a model; each row names one record by its position."""
    return ({"reference_row": i, "reference": None} for i in range(model.registration.records))
