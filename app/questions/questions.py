"""Questions about applicants: answered at once, or by a job; their answers are recorded where the request says so."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from jiter import from_json

from app.errors import LaneTimeout, NotReady
from app.jobs import lines as batch_lines
from app.jobs.ids import ids_are_reserved, new_id
from app.jobs.job import BATCH, Job
from app.jobs.jobs import Jobs
from app.keys.daily_budgets import DailyBudgets
from app.keys.keys import asking_id, may_read_scores
from app.ledger.entries import entry_of, entry_of_texts
from app.ledger.given import GivenRecourse
from app.ledger.ledger import NewRecord
from app.ledger.recorder import Recorder
from app.metrics import Metrics
from app.models.models import Models
from app.pool.serve import Written
from app.pool.turns import long_calls
from app.questions import use_cases
from app.questions.answers import Json, encoded, plain
from app.questions.encoded_answer import FULL, REQUEST, sent, written, written_answer
from app.questions.frame import Frame, identity
from app.questions.question import Case, Question, Rows, Terms, job_payload, request_of, request_of_row
from app.questions.use_cases import BOUNDS_S, RECOURSE, USE_CASES, VALIDITY
from app.questions.validation import Check, all_or_faults, checks
from app.questions.validity import ValidityQuestion
from app.recourse.actions.timing import months_for_changes
from app.registry.version import RegisteredModel
from app.settings import Settings
from app.store.timestamps import expiry, timestamp

Record = Mapping[str, object]
"""A record as the caller sent it."""

Asked = TypeVar("Asked", bound=Case)

LONGEST_WAIT = timedelta(days=7)
"""A row of a batch that is answered later than this after its submission is valid for less time."""


class Questions:
    """Answers the questions of every use case of `app.questions.use_cases`, at once or as jobs."""

    def __init__(
        self,
        settings: Settings,
        models: Models,
        jobs: Jobs,
        ledger: Recorder,
        given: GivenRecourse,
        budgets: DailyBudgets,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._models = models
        self._jobs = jobs
        self._ledger = ledger
        self._given = given
        self._budgets = budgets
        self._metrics = metrics

    async def ask(
        self, name: str, question: Case, applicant: Record, terms: Terms, counterfactuals: Sequence[Record] = ()
    ) -> bytes:
        """Answer a question of a use case. Returns JSON, in the detail that `terms` asks for.

        Where joint bounds of a plan take too long to wait for, the answer has rough bounds (a bracket), and a job
        computes tight bounds.

        Parameters
        ----------
        name : one of `USE_CASES`
        question : without its records
        applicant, counterfactuals : the records, in the model's own features

        Raises
        ------
        UnknownModel : no such model is active
        ModelUnusable : the version is broken, or the store cannot be read
        InvalidRequest : records or parameters do not fit the model; the error has every fault
        Overloaded, LaneCrashed : the child processes are busy, or one crashes
        LaneTimeout : the child process runs out of time; a question about recourse gets an answer instead of this error
        LedgerUnavailable : the answer could not be recorded, so it is not given
        """
        if terms.store:
            self._ledger.require()
        question = await self._excluding(question, terms)
        model, question, frame = self._checked(name, question, applicant, terms, counterfactuals)
        answer = await self._computed(name, model, question, frame, terms)
        if answer.facts["bracket"]:
            answer = await self._pursued(name, model, question, answer, terms)
        if terms.store:
            texts = answer.texts
            await self._ledger.record(entry_of_texts(answer.facts, texts[REQUEST], texts[FULL], key=asking_id()))
            if ids_are_reserved():
                # Another server may have recorded it and crashed; then that is what was given.
                recorded, _ = await self._given.asked(answer.facts["id"])
                answer = written(name, recorded, terms.detail)
        return sent(answer)

    async def submit(
        self, name: str, question: Case, applicant: Record, terms: Terms, counterfactuals: Sequence[Record] = ()
    ) -> Job:
        """Start a job whose result is the answer that `ask` would return. A job that is stopped at its deadline fails.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : the question cannot be asked, as in `ask`
        NotReady : the job store cannot be reached
        """
        question = await self._excluding(question, terms)
        model, question, frame = self._checked(name, question, applicant, terms, counterfactuals)
        frame = use_cases.with_method(frame, question)
        payload = job_payload(self._models.ref(model), question, plain(frame), asking_id())
        payload["request"] = self._request(model, question, terms) if terms.store else None
        await self._models.admit(model)
        timeout_s = USE_CASES[name].job_s or self._deadline_ms(terms) / 1000.0
        recourse = frame.id if name == RECOURSE else None
        return await self._jobs.submit(name, payload, timeout_s=timeout_s, about=recourse, detail=terms.detail)

    async def submit_batch(self, question: Question, terms: Terms, rows: Rows) -> Job:
        """Start a job that finds recourse for many applicants; the seed for row `i` is the question's seed plus `i`.

        Raises
        ------
        UnknownModel, ModelUnusable, InvalidRequest : the question cannot be asked of the model, as in `ask`
        NotReady : the job store cannot be reached
        """
        if terms.store:
            self._ledger.require()
        question = await self._excluding(question, terms)
        payload = self.bounded(self.batch_payload(question, terms))
        await self._models.admit(self._models.find(terms.model))
        return await self._jobs.submit_batch(BATCH, payload, rows, detail=terms.detail)

    def bounded(self, payload: Json) -> Json:
        """The payload of a batch, completed by the latest time at which the batch's answers may expire."""
        by = expiry(self._ledger.believed_now() + LONGEST_WAIT, self._settings.valid_days)
        return {**payload, "frame": {**payload["frame"], "expires_by": by}}

    def batch_payload(self, question: Question, terms: Terms) -> Json:
        """The payload that all rows of a batch share.

        Raises `UnknownModel`, `ModelUnusable` or `InvalidRequest` where the question cannot be asked of the model.
        """
        model = self._models.find(terms.model, pointer="/model")
        all_or_faults(*checks(self._models, model, question))
        valid_days = self._settings.valid_days
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
                self._models.ref(model), replace(question, valid_months=self._valid_months), frame, asking_id()
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
        model = self._models.find(terms.model, pointer="/model")
        readers: dict[str, Check] = {"factual_raw": lambda: model.space.read(applicant, pointer=f"/{terms.record}")}
        if isinstance(question, ValidityQuestion):
            readers["rows_raw"] = lambda: model.space.read_many(counterfactuals, pointer="/counterfactuals")
        found = all_or_faults(*readers.values(), *checks(self._models, model, question))
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
            expires_at=expiry(min(created, self._ledger.believed_now()), self._settings.valid_days),
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
        model = self._models.find(terms.model, pointer="/model")
        sets = await self._given.changed_sets(terms.exclude_ids, model.id)
        known = set(model.space.names)
        exclude = question.wishes.exclude
        sets = tuple(dict.fromkeys((*exclude.sets, *(some for some in sets if known.issuperset(some)))))
        return replace(question, wishes=replace(question.wishes, exclude=replace(exclude, sets=sets)))

    async def _computed(self, name: str, model: RegisteredModel, question: Case, frame: Frame, terms: Terms) -> Written:
        began, stopped, deadline_ms = time.perf_counter(), USE_CASES[name].stopped, self._deadline_ms(terms)
        try:
            work = (written_answer, name, question, frame, self._plan_s, terms.detail, deadline_ms)
            with long_calls(question.takes_long):
                answer: Written = await self._models.ask(model, *work, timeout_ms=deadline_ms)
        except LaneTimeout:
            if stopped is None:
                raise
            frame = use_cases.with_method(frame, question)
            found = plain(stopped(frame, 1000.0 * (time.perf_counter() - began)))
            request = encoded(self._request(model, question, terms)) if terms.store else None
            answer = written(name, found, terms.detail, request)
        if name == RECOURSE:
            assert isinstance(question, Question)
            self._metrics.answer(question.method, answer.facts, time.perf_counter() - began)
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
        payload = job_payload(self._models.ref(model), certified, plain(frame), asking_id())
        try:
            job = await self._jobs.submit(VALIDITY, payload, timeout_s=BOUNDS_S, about=found.get("id"))
        except NotReady:
            return answer  # without the job store the bracket is the whole answer, and says so
        found["plan"]["validity"] |= {"status": "pending", "job": job.address}
        return written(name, found, terms.detail, answer.texts.get(REQUEST))

    @property
    def _valid_months(self) -> float:
        """Months that changes may take while an answer is valid."""
        return months_for_changes(self._settings.valid_days)

    @property
    def _plan_s(self) -> float:
        return self._settings.plan_budget_ms / 1000.0

    def _deadline_ms(self, terms: Terms) -> int:
        return terms.deadline_ms or self._settings.default_deadline_ms

    def _request(self, model: RegisteredModel, question: Case, terms: Terms) -> Json:
        assert isinstance(question, Question), "only recourse is recorded"
        return request_of(model.space, question, self._deadline_ms(terms))

    # --- what becomes of jobs ---

    async def keep(self, job_id: str, payload: Json, lines: Sequence[str]) -> None:
        """Record the answers among `lines` of a batch, and count the model calls of these answers.

        A call that is repeated after a crash records no answer twice, but counts the model calls again. Raises
        `LedgerUnavailable`.
        """
        given = [
            (i, line, from_json(line.encode())) for i, line in enumerate(lines) if batch_lines.refusal(line) is None
        ]
        if payload["store"]:
            await self._ledger.record(*self._entries(job_id, payload, given))
        model = payload["model"]["name"].partition("@")[0]
        rows = sum(self._metrics.asked(model, answer) for _, _, answer in given)
        self._budgets.spend(payload.get("key"), rows)

    def _entries(self, job_id: str, payload: Json, given: Sequence[tuple[int, str, Json]]) -> Iterator[NewRecord]:
        """What is recorded of answers of a batch: each with its position among the rows, and its line."""
        space = self._models.find(payload["model"]["name"], include_inactive=True).space
        deadline_ms = round(1000.0 * payload["deadline_s"])
        common = Question.from_json(payload["question"]).to_json()
        for i, line, answer in given:
            factual_raw = space.read(payload["rows"][i]["applicant"], pointer="/applicant")
            request = request_of_row(space, common, factual_raw, batch_lines.seed(payload, i), deadline_ms)
            yield entry_of(answer, request, job_id, key=payload.get("key"), sent=line.encode())

    async def recorded(self, job_id: str, payload: Json, result: Json) -> Json:
        """Record the result of a job about one applicant, count its model calls, and return the result.

        An answer about recourse is returned as the ledger has it: an earlier attempt of the job may have recorded it.
        """
        self._budgets.spend(payload.get("key"), self._metrics.asked(result["model"]["id"], result))
        if payload.get("request") is None:
            return result
        await self._ledger.record(entry_of(result, payload["request"], job_id, key=payload.get("key")))
        # A result that was computed again after a crash is not the recorded one: its timings differ.
        found, _ = await self._given.asked(result["id"])
        return found
