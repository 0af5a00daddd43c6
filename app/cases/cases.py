"""What becomes of a recourse that was given: letters that were sent, reviews, and its case file."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.cases.case import (
    AskedAgain,
    Caller,
    CaseFile,
    Channel,
    LaterVersion,
    Outcome,
    Review,
    SentLetter,
    proof_of,
)
from app.errors import Erased, Fault, InvalidRequest, RecourseError, UnknownModel, UnknownRecourse
from app.jobs.ids import new_id
from app.keys.keys import Keys, asking_id
from app.ledger.chain import Kind, PersonalData
from app.ledger.entries import personal_data
from app.ledger.given import GivenRecourse
from app.ledger.ledger import NewRecord
from app.ledger.recorder import Recorder
from app.ledger.rows import Link, Record
from app.letters.facts import version_of
from app.letters.notices import Notices
from app.models.models import Models
from app.questions.answers import Json, ModelVersion, encoded, plain
from app.questions.question import Question, Terms
from app.questions.questions import Questions
from app.questions.use_cases import RECOURSE
from app.recourse.result import Status
from app.registry.artifact import Format
from app.registry.version import RegisteredModel
from app.store.timestamps import timestamp

Part = TypeVar("Part", SentLetter, Review)

SENT, REVIEWED = TypeAdapter(SentLetter), TypeAdapter(Review)

AHEAD = timedelta(days=1)
"""How far in the future a letter may be said to have been sent: clocks differ."""

MOST_LATER = 10
"""Later versions that a case file asks, the newest ones."""


class Cases:
    """Letters, reviews and case files about recourse that the caller may see.

    Every method raises `UnknownRecourse`, `Erased` or `LedgerUnavailable` where the recourse cannot be read.
    """

    def __init__(
        self, ledger: Recorder, given: GivenRecourse, notices: Notices, questions: Questions, models: Models
    ) -> None:
        self._ledger = ledger
        self._given = given
        self._notices = notices
        self._questions = questions
        self._models = models

    async def send(
        self, recourse_id: str, *, channel: Channel, sent_at: datetime | None = None, addressee: tuple[str, ...] = (),
        applied_on: date | None = None, language: str | None = None, text: str | None = None,
    ) -> bytes:  # fmt: skip
        """Record a letter as sent, and return the recorded letter, as the bytes of its JSON.

        After an error, nothing is recorded.

        Parameters
        ----------
        channel : how the letter was sent
        sent_at : time of sending; now, if absent
        applied_on : date of the application, where the letter states it
        language : language of the letter; the operator's default, if absent
        text : the text that was sent, if it is not the letter that the service writes

        Raises
        ------
        NoticeIncomplete : settings or words that the letter states are missing
        UnknownModel, ModelUnusable and others of `Notices.notice` : the model cannot be asked for reasons
        InvalidRequest : `sent_at` is before the answer or in the future, there is no letter in the language, or both a
            text and a language are given
        """
        if text is not None and language is not None:
            raise InvalidRequest(faults=[Fault("/text", "is instead of a letter in a language: give one of them")])
        record = await self._given.find(recourse_id)
        personal_data(record)
        now = datetime.now(UTC)
        at = sent_at or now
        if not datetime.fromisoformat(record.entry.at) <= at <= now + AHEAD:
            raise InvalidRequest(faults=[Fault("/sent_at", "must be after the answer, and not in the future")])
        page = None
        if text is None:
            templates = self._notices.templates
            language = language or templates.default
            if language not in templates.letters:
                known = ", ".join(templates.letters)
                raise InvalidRequest(faults=[Fault("/language", f"must be one of {known}")])
            notice = await self._notices.notice(recourse_id, language, addressee=addressee, applied_on=applied_on)
            text, page = templates.text(notice), templates.html(notice)
        letter = SentLetter(
            id=new_id("let"),
            recourse=recourse_id,
            channel=channel,
            sent_at=timestamp(at),
            recorded_at=timestamp(now),
            recorded_by=asking_id(),
            addressee=addressee,
            language=language,
            text=text,
            page=page,
        )
        return await self._recorded(Kind.SENT, letter, status=letter.channel.value)

    async def letter(self, recourse_id: str, letter_id: str) -> Json:
        """The recorded letter that has the id `letter_id`, as JSON; it is about the recourse `recourse_id`.

        Raises `UnknownRecourse` also where there is no such letter.
        """
        for link in await self._links(recourse_id):
            if link.record.entry.kind is Kind.SENT and link.record.entry.id == letter_id:
                found: Json = json.loads(personal_data(link.record).answer)
                return found
        raise UnknownRecourse("There is no such letter about this recourse.")

    async def review(
        self, recourse_id: str, *, by: str, reason: str, corrections: Mapping[str, Any], model: str | None = None,
        decision: Outcome | None = None,
    ) -> bytes:  # fmt: skip
        """Record the review of a case, and return it as the bytes of its JSON.

        If data are corrected, the model is asked about the corrected record first. After an error, nothing is recorded.

        Parameters
        ----------
        by : who reviewed the case
        reason : why the case was reviewed or decided
        corrections : corrected values by feature; may be empty
        model : the version that is asked; the newest active version, if absent
        decision : what a person decided, if so

        Raises
        ------
        InvalidRequest : there are neither corrections nor a decision
        UnknownModel and others of `Questions.ask` : the model cannot be asked about the corrected record
        """
        if not corrections and decision is None:
            raise InvalidRequest(faults=[Fault("", "a review has corrections, a decision, or both")])
        record = await self._given.find(recourse_id)
        asked = None if not corrections else await self._asked_again(record, corrections, model)
        personal_data(record)
        review = Review(
            id=new_id("rev"),
            recourse=recourse_id,
            by=by,
            reason=reason,
            recorded_at=timestamp(datetime.now(UTC)),
            recorded_by=asking_id(),
            corrections=corrections,
            asked=asked,
            decision=decision,
        )
        facts = {} if asked is None else plain(asked.model)
        facts = {name: facts.get(key) for name, key in (("model", "id"), ("version", "version"), ("sha256", "sha256"))}
        return await self._recorded(Kind.REVIEWED, review, status=decision and decision.value, **facts)

    async def file(self, recourse_id: str) -> CaseFile:
        """The case file of a recourse.

        Models are asked for missing reasons, and whether later versions still accept the counterfactuals.
        """
        links = await self._links(recourse_id)
        given = links[0].record
        answer: Json = json.loads(await self._given.answer(recourse_id))
        request: Json = json.loads(personal_data(given).request)
        return CaseFile(
            id=recourse_id,
            reference=answer["reference"],
            written_at=timestamp(datetime.now(UTC)),
            asked_by=await self._caller(given.key),
            request=request,
            answer=answer,
            reasons=await self._reasons(answer, request),
            later=tuple([await self._later(recourse_id, model) for model in self._later_versions(given, answer)]),
            letters=_parts(links, Kind.SENT, SENT),
            reviews=_parts(links, Kind.REVIEWED, REVIEWED),
            proof=tuple(map(proof_of, links)),
            holds=all(link.holds for link in links),
        )

    # --- inside ---

    async def _links(self, recourse_id: str) -> list[Link]:
        """The entries of a recourse, itself first, for who may see it."""
        personal_data(await self._given.find(recourse_id))
        if not (found := await self._ledger.ask(lambda ledger: ledger.links(recourse_id))):
            raise Erased
        return found

    async def _recorded(self, kind: Kind, part: SentLetter | Review, **facts: Any) -> bytes:
        """The bytes of a part once they are on disk; those of an earlier attempt with the same id."""
        data = PersonalData(reference=None, job=None, request=b"{}", answer=encoded(plain(part)))
        new = NewRecord(
            kind=kind,
            id=part.id,
            at=part.recorded_at,
            about=part.recourse,
            key=asking_id(),
            personal_data=data,
            **facts,
        )
        return personal_data(await self._ledger.ask(lambda ledger: ledger.add(new))).answer

    async def _asked_again(self, record: Record, corrections: Mapping[str, Any], name: str | None) -> AskedAgain:
        answer, request = await self._given.asked(record.entry.id)
        model = self._models.version(str(record.entry.model), name)
        # What follows from others follows from the corrected ones.
        sent = {one.name for one in model.space.schema if one.derived is None}
        applicant = {name: value for name, value in request["applicant"].items() if name in sent}
        terms = Terms(
            model=model.name, reference=answer["reference"], deadline_ms=request["deadline_ms"], store=True,
            record="corrections",
        )  # fmt: skip
        question = Question.from_json(request["question"])
        found = json.loads(await self._questions.ask(RECOURSE, question, {**applicant, **corrections}, terms))
        factual = found["factual"]
        return AskedAgain(
            id=found["id"],
            model=ModelVersion(**found["model"]),
            status=Status(found["status"]),
            favourable=None if factual is None else factual["favourable"],
        )

    async def _caller(self, key_id: str | None) -> Caller | None:
        if key_id is None:
            return None
        keys = await self._ledger.run(lambda engine: Keys(engine).list())
        return Caller(key=key_id, name=next((key.name for key in keys if key.id == key_id), None))

    async def _reasons(self, answer: Json, request: Json) -> Json | None:
        stated: Json | None = answer.get("reasons")
        if stated is not None:
            return stated
        try:
            model = self._models.find(version_of(answer), include_inactive=True)
            return await self._notices.missing_reasons(model, answer, request)
        except UnknownModel:
            return None

    def _later_versions(self, given: Record, answer: Json) -> list[RegisteredModel]:
        if not answer["counterfactuals"]:
            return []
        versions = {model.name: model for model in self._models.all() if model.id == given.entry.model}
        own = versions.get(version_of(answer))
        since = datetime.fromisoformat(given.entry.at) if own is None else own.registered_at
        later = [model for model in versions.values() if model.registered_at > since]
        return sorted(later, key=lambda model: model.registered_at)[-MOST_LATER:]

    async def _later(self, recourse_id: str, model: RegisteredModel) -> LaterVersion:
        kept, detail = None, None
        if model.manifest.artifact.format is Format.HTTP:
            detail = "A remote model is not asked, since every request is paid for."
        else:
            try:
                kept = (await self._given.verify(recourse_id, model.name))["still_valid"]
            except RecourseError as error:
                detail = error.detail
        return LaterVersion(model=model.name, registered_at=timestamp(model.registered_at), kept=kept, detail=detail)


def _parts(links: Sequence[Link], kind: Kind, reader: TypeAdapter[Part]) -> tuple[Part, ...]:
    """Letters or reviews as they were recorded; one that was changed and cannot be read is in the proof only."""
    found = []
    for link in links:
        if link.record.entry.kind is kind:
            with suppress(ValidationError):
                found.append(reader.validate_json(personal_data(link.record).answer))
    return tuple(found)
