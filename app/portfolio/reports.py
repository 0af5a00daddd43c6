"""Reports of the recourse of everybody whom a version refuses, as jobs; their digests are in the ledger."""

import json
from collections.abc import Iterable
from datetime import datetime
from functools import partial

from app.errors import BodyTooLarge, Fault, InvalidRequest, UnknownJob
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import CLOSED, REPORT
from app.ledger.chain import Kind
from app.ledger.entries import personal_data
from app.ledger.ledger import Ledger
from app.ledger.recorder import Recorder
from app.models.models import Models
from app.portfolio.comparisons import asked_payload, noted, reference_rows
from app.questions.answers import Json
from app.questions.question import Question
from app.questions.validation import all_or_faults, check_futures, checks
from app.registry.version import RegisteredModel
from app.settings import Settings
from app.store.timestamps import timestamp

FUTURE_VALIDITY = "/ways/future_validity"
"""Pointer to what ways must withstand."""

Period = tuple[datetime | None, datetime | None]
"""From when until when; None for no limit."""


class Reports:
    """The service that starts reports: jobs about which refused people have recourse, and what stands in the way."""

    def __init__(self, settings: Settings, models: Models, jobs: Jobs, ledger: Recorder) -> None:
        self._settings = settings
        self._models = models
        self._jobs = jobs
        self._ledger = ledger

    async def start(
        self, model: str, question: Question, rows: Iterable[Json] | None, period: Period | None,
        figures: Json,
    ) -> Job:  # fmt: skip
        """Start a job that reports on `rows`, on people who asked in a `period`, or on a version's reference records.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : the request cannot be answered
        ModelQuarantined, DailyBudgetSpent : the model is in quarantine, or the key's budget for today is spent
        NotReady : the job store cannot be reached
        LedgerUnavailable : the ledger cannot be reached
        """
        asked = self._models.find(model, include_inactive=True)
        source: Json = {"kind": "reference" if rows is None else "records"}
        if period is not None:
            rows, source = await self._ledger.ask(partial(self._asked, asked.id, period))
        payload = self.payload(asked, question, source, figures)
        needed = [] if figures["ways"]["future_validity"] is None else [partial(check_futures, asked, FUTURE_VALIDITY)]
        all_or_faults(*checks(self._models, asked, question), *needed)
        await self._models.admit(asked)
        people = reference_rows(asked) if rows is None else rows
        return await self._jobs.submit_batch(REPORT, payload, people, closed=True)

    def payload(self, model: RegisteredModel, question: Question, source: Json, figures: Json) -> Json:
        """The payload that all rows of a report share.

        Raises `InvalidRequest` for groups by an unknown feature, or by a column where the records have no columns.
        """
        known = [feature.name for feature in model.space.schema]
        faults = []
        for i, one in enumerate(figures["groups"]["by"]):
            if one.get("column") is None and one["feature"] not in known:
                faults.append(Fault(f"/groups/by/{i}/feature", f"must be one of {', '.join(known)}"))
            if one.get("column") is not None and source["kind"] != "records":
                faults.append(Fault(f"/groups/by/{i}/column", "only the records of a request have columns"))
        if faults:
            raise InvalidRequest(faults=faults)
        return {
            **asked_payload(self._settings, self._models.ref(model), question),
            "source": source,
            **figures,
        }

    def _asked(self, model_id: str, period: Period, ledger: Ledger) -> tuple[list[Json], Json]:
        """Rows of who asked in a period, the newest question of each reference, and what was left out."""
        since, until = (None if moment is None else timestamp(moment) for moment in period)
        most, rows, seen, repeated = self._settings.max_batch_rows, list[Json](), set[str](), 0
        for records in ledger.newest_given(model_id, since=since, until=until):
            for record in records:
                data = personal_data(record)
                if data.reference in seen:
                    repeated += 1
                    continue
                if data.reference is not None:
                    seen.add(data.reference)
                rows.append({"applicant": json.loads(data.request)["applicant"], "reference": data.reference})
            if len(rows) > most:
                raise BodyTooLarge(f"A report must not have more than {most:,} records; more asked in this period.")
        if not rows:
            raise InvalidRequest(faults=[Fault("/source", "names a period of which the ledger has no records")])
        erased = ledger.count_erased(model_id, since=since, until=until)
        return rows, {"kind": "ledger", "erased": erased, "repeated": repeated}

    async def newest(self, model_id: str, limit: int, before: str | None) -> list[Job]:
        """The newest reports of a model, at most `limit`, the newest first.

        Parameters
        ----------
        before : identifier of a report; only older ones are returned. None for all

        Raises
        ------
        UnknownModel : there is no such model
        NotReady : the job store cannot be reached
        """
        self._models.require_known(model_id)
        return await self._jobs.newest(limit, kind=REPORT, model=model_id, before=before)

    async def result(self, report_id: str) -> Json:
        """The `ReportAnswer` of a report, or the `ComparisonAnswer` of a comparison, as plain data.

        Raises
        ------
        UnknownJob : there is no such job, or it is of another kind
        JobUnfinished, JobCancelled : the job has no result
        RecourseError : the job failed with this error
        """
        if (await self._jobs.get(report_id)).kind not in CLOSED:
            raise UnknownJob(f"There is no report {report_id}.")
        found: Json = await self._jobs.result(report_id)
        return found

    async def note(self, job_id: str, result: Json) -> None:
        """Enter the digest of a report's result in the ledger, once for each job. Raises `LedgerUnavailable`."""
        await noted(self._ledger, Kind.REPORTED, job_id, result["model"], result)
