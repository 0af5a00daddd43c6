"""Recourse that was given: looked up, erased, and verified again."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from app.errors import (
    Erased,
    Fault,
    InvalidRequest,
    JobUnfinished,
    RecourseError,
    UnknownJob,
    UnknownRecourse,
)
from app.jobs.ids import RECOURSE_ID
from app.jobs.job import Job
from app.jobs.jobs import Jobs
from app.jobs.kinds import AUDIT
from app.keys.keys import asking, may_read_scores, may_see, seen_by
from app.ledger import audits
from app.ledger.entries import offered, personal_data, promised
from app.ledger.ledger import Outline
from app.ledger.promises import Promises
from app.ledger.recorder import Recorder
from app.ledger.rows import Record
from app.models.models import Models
from app.questions.answers import UNREAD, Json, encoded, plain
from app.questions.frame import identity
from app.store.timestamps import timestamp

EXPORTED_AT_ONCE = 1000
"""Entries of an export that are in memory."""

AUDIT_S = 3600.0
"""Time for a job that re-verifies promises."""


class GivenRecourse:
    """Reads, checks and erases recourse that was given: in the ledger, and in the jobs that hold the same data."""

    def __init__(self, ledger: Recorder, jobs: Jobs, models: Models) -> None:
        self._ledger = ledger
        self._jobs = jobs
        self._models = models

    async def answer(self, recourse_id: str) -> bytes:
        """The bytes of the answer as it was sent; bounds of a plan that a job has computed since are filled in.

        Raises
        ------
        UnknownRecourse : the ledger has no such recourse, or the current API key may not see it
        Erased : the personal data of the recourse was erased
        LedgerUnavailable : the ledger cannot be read
        """
        kept = personal_data(await self.find(recourse_id)).answer
        answer = json.loads(kept)
        if (job_id := _pending(answer)) is None:
            return kept
        # A job that has failed, or was deleted, has no bounds: the bracket stays.
        with suppress(RecourseError):
            result = await self._jobs.result(job_id)
            answer["plan"]["validity"] = result["plan"]["validity"]
            return encoded(answer)
        return kept

    async def asked(self, recourse_id: str) -> tuple[Json, Json]:
        """Two items: the answer as it was recorded, and the request.

        Raises `UnknownRecourse`, `Erased`, `LedgerUnavailable`.
        """
        kept = personal_data(await self.find(recourse_id))
        return json.loads(kept.answer), json.loads(kept.request)

    async def changed_sets(self, ids: Sequence[str], model: str) -> tuple[tuple[str, ...], ...]:
        """The sets of features that counterfactuals of earlier answers change: for each, the names of its features.

        Changes by time are left out.

        Parameters
        ----------
        ids : ids of answers, which stand for all their counterfactuals; with ``/2`` at the end, only for that of rank 2
        model : id of the model that gave the answers

        Raises
        ------
        InvalidRequest : an id is not in the ledger, is erased, or belongs to another model; the error has every fault
        LedgerUnavailable : the ledger cannot be read
        """
        sets: list[tuple[str, ...]] = []
        faults: list[Fault] = []
        for i, one in enumerate(ids):
            recourse_id, _, rank = one.partition("/")
            pointer = f"/exclude/ids/{i}"
            try:
                record = await self.find(recourse_id)
                found = json.loads(personal_data(record).answer)["counterfactuals"]
            except UnknownRecourse:
                faults.append(Fault(pointer, "is not the id of an answer in the ledger"))
                continue
            except Erased:
                faults.append(Fault(pointer, "is the id of an answer that was erased"))
                continue
            if record.entry.model != model:
                faults.append(Fault(pointer, f"is the id of an answer of another model than {model}"))
                continue
            if "/" in one:
                found = [each for each in found if str(each["rank"]) == rank]
                if not found:
                    faults.append(Fault(pointer, "is not the rank of a counterfactual of that answer"))
            changed = [tuple(c["feature"] for c in each["changes"] if not c["by_time"]) for each in found]
            sets += [some for some in changed if some]
        if faults:
            raise InvalidRequest(faults=faults)
        return tuple(sets)

    async def newest(self, limit: int, **which: Any) -> list[Json]:
        """At most `limit` recourses that the current API key may see, newest first.

        `which` has further fields of a `Search`.
        """
        return [_listed(one) for one in await self._newest(limit, **which, **seen_by(asking.get()))]

    async def export(self, lines: Callable[[Sequence[Json]], bytes], **which: Any) -> AsyncIterator[bytes]:
        """All recourse that `newest` would find without a limit, in texts of at most `EXPORTED_AT_ONCE` recourses.

        `lines` encodes the recourses of one text.
        """
        # Now, as what follows may be asked for in another context.
        which |= seen_by(asking.get())
        while True:
            found = await self._newest(EXPORTED_AT_ONCE, **which)
            yield await asyncio.to_thread(lambda some: lines([_listed(one) for one in some]), found)
            if len(found) < EXPORTED_AT_ONCE:
                return
            which["before"] = found[-1].entry.id

    async def _newest(self, limit: int, **which: Any) -> list[Outline]:
        return await self._ledger.ask(lambda ledger: ledger.newest(limit, **which))

    async def with_references(self, broken: Sequence[Json]) -> list[Json]:
        """Broken promises, each with the reference of its recourse; null where the current API key may not see it.

        Raises `LedgerUnavailable`.
        """
        seen = seen_by(asking.get())
        return await self._ledger.ask(lambda ledger: audits.with_references(ledger, broken, seen))

    async def erase(self, recourse_id: str) -> Json | None:
        """Delete the personal data of a recourse, and the jobs that computed the recourse. Idempotent.

        Returns what the ledger keeps of the recourse; None where the ledger has no entry of it.

        Raises
        ------
        UnknownRecourse : neither the ledger nor jobs nor answers kept for idempotency keys have the recourse
        NotReady : ledger or jobs cannot be reached; the call can be repeated
        """
        try:
            record = await self._record(recourse_id)
        except UnknownRecourse:
            if RECOURSE_ID.fullmatch(recourse_id) and await self._erase_unrecorded(recourse_id):
                return None
            raise
        _require_own(record)
        if record.personal_data is not None:
            await self._ledger.erase([record], "request")
            record = await self.find(recourse_id)
        else:
            # A restored backup of the jobs brings back what was erased since.
            await self._erase_unrecorded(recourse_id)
        return {**_outline(record), "status": "erased", "erased_at": record.erased_at}

    async def verify(self, recourse_id: str, name: str | None) -> Json:
        """Whether a version of the model still accepts the counterfactuals of a recourse; the decisions, as JSON.

        Parameters
        ----------
        name : `id@version` of the version; None for the newest active version

        Raises
        ------
        UnknownRecourse, Erased, LedgerUnavailable : the recourse cannot be read
        UnknownModel, ModelUnusable : there is no such version, or it is broken
        InvalidRequest : `name` is a version of another model
        """
        record = await self.find(recourse_id)
        records, offer = promised(record), offered(record)
        model = self._models.version(str(record.entry.model), name)
        asked = [*records, *filter(None, [offer])]
        checks = await self._models.ask(model, audits.verify, asked) if asked else []
        of_offer = [] if offer is None else [checks.pop()]
        valid = all(check["favourable"] for check in checks) if checks else None
        if valid is not None:
            await self._ledger.ask(lambda ledger: audits.note(ledger, plain(identity(model)), [(record, valid)]))
        if not may_read_scores():
            checks, of_offer = ([{**check, **UNREAD} for check in some] for some in (checks, of_offer))
        return {
            "id": recourse_id,
            "model": plain(identity(model)),
            "still_valid": valid,
            "expires_at": record.entry.expires_at,
            "verified_at": timestamp(datetime.now(UTC)),
            "counterfactuals": [{"rank": rank, **check} for rank, check in enumerate(checks, start=1)],
            "offer": next(iter(of_offer), None),
        }

    async def start_audit(
        self, model_id: str, candidate: str, *, since: datetime | None, until: datetime | None, reissue: bool
    ) -> Job:
        """Start a job that checks whether one version of a model keeps the promises of all versions of the model.

        Parameters
        ----------
        candidate : the version that is checked, `id@version`; it need not be active
        since, until : only promises that were given at `since` or later, and before `until`
        reissue : whether the job also looks for the candidate's own answers in place of broken promises

        Raises
        ------
        UnknownModel, ModelUnusable : there is no such model or version, or it is broken
        InvalidRequest : `candidate` is a version of another model
        ModelQuarantined, DailyBudgetSpent : the job would fail at once
        NotReady : the job store cannot be reached
        """
        self._models.require_known(model_id)
        model = self._models.version(model_id, candidate)
        await self._models.admit(model)
        which = Promises.unexpired(model_id, since=since, until=until)
        ref = self._models.ref(model)
        payload = audits.audit_payload(ref, model, which, reissue=reissue)
        return await self._jobs.submit(AUDIT, payload, timeout_s=AUDIT_S)

    async def audits(self, model_id: str, limit: int, **which: Any) -> list[tuple[Job, Json | None]]:
        """The audits of a model, newest first. Each item: the job, and its result without broken promises or None.

        The result is None where the job has none. `which` has further arguments of `Jobs.newest`. Raises `UnknownModel`
        or `NotReady`.
        """
        self._models.require_known(model_id)
        found = await self._jobs.newest(limit, kind=AUDIT, model=model_id, **which)
        heads = await self._jobs.begun_with([job.id for job in found if job.has_result])
        return [(job, audits.summary(heads[job.id]) if job.id in heads else None) for job in found]

    async def forget(self, records: Sequence[Record]) -> None:
        """Erase the recourses `records` from the jobs that also hold personal data of these recourses."""
        for record in records:
            if (kept := record.personal_data) is not None:
                for job in (kept.job, _pending(json.loads(kept.answer))):
                    if job is not None:
                        await self._forget_job(job, record.entry.id)

    async def delete_job(self, job_id: str) -> None:
        """Delete a job that has ended, with its question, its result, and the idempotent answers that hold the job.

        Raises
        ------
        UnknownJob : there is no such job
        JobUnfinished : the job has not ended
        NotReady : ledger or jobs cannot be reached
        """
        if not (await self._jobs.get(job_id)).status.finished:
            raise JobUnfinished
        await self._jobs.delete([job_id])
        await self._ledger.erase_answers([job_id])

    async def _erase_unrecorded(self, recourse_id: str) -> bool:
        """Delete a recourse's jobs and kept answers. Returns whether there were any."""
        jobs = await self._jobs.holding(recourse_id)
        for job in jobs:
            await self._require_own_job(job)
        for job in jobs:
            await self._forget_job(job, recourse_id)
        return bool(await self._ledger.erase_answers([recourse_id]) or jobs)

    async def _require_own_job(self, job_id: str) -> None:
        """Raise `UnknownRecourse`, as if there were none, if another key submitted the job."""
        try:
            await self._jobs.get(job_id)
        except UnknownJob:
            raise UnknownRecourse from None

    async def _forget_job(self, job_id: str, recourse_id: str) -> None:
        if await self._jobs.erase(job_id, recourse_id):
            # A repeated request must not get a reference to a job that is gone.
            await self._ledger.erase_answers([job_id])

    async def find(self, recourse_id: str) -> Record:
        """The record of one recourse that the current API key may see. Raises `UnknownRecourse`."""
        record = await self._record(recourse_id)
        _require_own(record)
        return record

    async def _record(self, recourse_id: str) -> Record:
        if not RECOURSE_ID.fullmatch(recourse_id):
            raise UnknownRecourse
        return await self._ledger.ask(lambda ledger: ledger.find(recourse_id))


def _require_own(record: Record) -> None:
    """Raise `UnknownRecourse`, as if there were none, unless the key of this context may see it."""
    if not may_see(record.key, record.entry.model):
        raise UnknownRecourse


def _listed(one: Outline) -> Json:
    return {**_outline(one), "reference": one.reference, "kept": one.kept}


def _outline(record: Record | Outline) -> Json:
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
