"""Reports of the recourse of everybody whom a version refuses, as jobs; their digests are in the ledger."""

from collections.abc import Sequence
from dataclasses import replace

from app.errors import Fault, InvalidRequest
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import REPORT
from app.keys.keys import asking_id
from app.ledger.chain import Kind
from app.ledger.recorder import Recorder
from app.models.models import Models
from app.portfolio.comparisons import ANSWER_S, noted, reference_rows
from app.questions.answers import Json
from app.questions.question import Question, job_payload
from app.questions.validation import all_or_faults, checks
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.registry.version import RegisteredModel
from app.settings import Settings


class Reports:
    """Who has recourse, what it takes, and what stands in the way."""

    def __init__(self, settings: Settings, models: Models, jobs: Jobs, ledger: Recorder) -> None:
        self._settings = settings
        self._models = models
        self._jobs = jobs
        self._ledger = ledger

    async def start(
        self, model: str, question: Question, rows: Sequence[Json] | None, parts: Sequence[str], groups: Json
    ) -> Job:
        """A job that reports on rows, or on the reference records of a version.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : the request cannot be answered
        ModelQuarantined, DailyBudgetSpent : as `Models.admit`
        NotReady : the job store cannot be reached
        """
        asked = self._models.find(model, include_inactive=True)
        payload = self.payload(asked, question, rows is not None, parts, groups)
        all_or_faults(*checks(self._models, asked, question))
        await self._models.admit(asked)
        people = reference_rows(asked) if rows is None else rows
        return await self._jobs.submit_batch(REPORT, payload, people, closed=True)

    def payload(
        self, model: RegisteredModel, question: Question, records: bool, parts: Sequence[str], groups: Json
    ) -> Json:
        """What the rows of a report have in common. Raises `InvalidRequest` for a group that is none."""
        known = [feature.name for feature in model.space.schema]
        faults = []
        for i, one in enumerate(groups["by"]):
            if one.get("column") is None and one["feature"] not in known:
                faults.append(Fault(f"/groups/by/{i}/feature", f"must be one of {', '.join(known)}"))
            if one.get("column") is not None and not records:
                faults.append(Fault(f"/groups/by/{i}/column", "only the records of a request have columns"))
        if faults:
            raise InvalidRequest(faults=faults)
        months = self._settings.valid_days / DAYS_PER_MONTH
        payload = job_payload(self._models.ref(model), replace(question, valid_months=months), {}, asking_id())
        del payload["frame"]
        return {
            **payload,
            "source": {"kind": "records" if records else "reference"},
            "parts": list(parts),
            "groups": groups,
            "deadline_s": ANSWER_S,
            "plan_s": self._settings.plan_budget_ms / 1000.0,
            # Answers of a report are no promises.
            "store": False,
        }

    async def note(self, job_id: str, result: Json) -> None:
        """Note the digest of a result in the ledger, once. Raises `LedgerUnavailable`."""
        await noted(self._ledger, Kind.REPORTED, job_id, result["model"], result)
