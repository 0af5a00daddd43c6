"""What the ledger holds of an answer, as a letter."""

from dataclasses import fields, replace
from datetime import date
from typing import Any

from app.errors import NoticeIncomplete
from app.keys.keys import may_read_scores
from app.letters.facts import Facts
from app.letters.letter import ALL_REASONS, notice_of
from app.letters.notice import Lender, Notice
from app.letters.regime import Templates
from app.letters.template import LENDER, Template
from app.letters.words import Spoken, missing_words
from app.questions.answers import Json
from app.questions.frame import Frame, identity
from app.questions.question import Question
from app.questions.use_cases import REASONS
from app.reasons.answer import ReasonsQuestion
from app.recourse.models.score import Output
from app.recourse.reasons import ReasonsParams
from app.registry.manifest import Manifest
from app.registry.version import RegisteredModel
from app.settings import Settings

UNNAMED = "every principal reason (features that no letter names made up {} of them)"

REPORTED = "consumer_report in model.yaml, the list of features that the bureau reports"


def offer_share_of(settings: Settings) -> float | None:
    """Least share of what was asked for that an offer has in letters; None where letters have no offers."""
    return settings.notice_offer_share if settings.notice_offer else None


def lender_of(settings: Settings) -> Lender:
    """The sender of letters, as the operator's settings state it."""
    return Lender(**{f.name: getattr(settings, f"lender_{f.name}") for f in fields(Lender)})


def word_gaps(model: RegisteredModel, settings: Settings) -> list[str]:
    """Sentences about words that a model's manifest lacks for letters: one for each language with gaps."""
    templates = Templates.of(settings)
    manifest = model.manifest
    spoken = Spoken(
        model=model.id, features=model.space.schema, title=manifest.title, titles=manifest.titles,
        default=templates.default, reported=_reported(manifest, templates.letters[templates.default]),
    )  # fmt: skip
    return list(spoken.gaps(templates.languages))


def _reported(manifest: Manifest, template: Template) -> tuple[str, ...]:
    """Names of the features that come from a credit bureau, for a letter that states them."""
    listed = manifest.consumer_report
    return () if isinstance(listed, bool) or "reported" not in template.used else listed


def missing_reasons(
    answer: Json, request: Json, model: RegisteredModel
) -> tuple[str, ReasonsQuestion, Frame, float] | None:
    """Arguments of `use_cases.answer` for computing the reasons for a refusal, where the answer states no reasons.

    None where the answer states reasons, or is no refusal.
    """
    if answer.get("reasons") or answer["factual"] is None or answer["factual"]["favourable"]:
        return None
    asked = Question.from_json(request["question"])
    question = ReasonsQuestion(factual_raw=asked.factual_raw, reasons=ReasonsParams(), seed=asked.seed)
    return REASONS, question, Frame(model=identity(model), seed=asked.seed, scores=may_read_scores()), 0.0


def notice_about(
    answer: Json,
    request: Json,
    model: RegisteredModel,
    reasons: Json | None,
    *,
    templates: Templates,
    language: str,
    lender: Lender,
    addressee: tuple[str, ...] = (),
    applied_on: date | None = None,
    draft: bool = False,
    offer_share: float | None = None,
) -> Notice:
    """The letter about an answer.

    Parameters
    ----------
    reasons : the reasons for the refusal; None where the answer itself states them, or is no refusal
    draft : whether the letter may lack settings and words; the names of missing settings stand in place of their values
    applied_on : date of the application, where the letter states it
    offer_share : least share of what was asked for that the answer's offer has in a letter; None for a letter without
        offers

    Raises
    ------
    NoticeIncomplete : settings, or words of the manifest, that the letter states are missing, or the letter has to
        name all principal reasons and does not, and the letter is no draft
    """
    manifest, template = model.manifest, templates.letters[language]
    if not manifest.consumer_report:
        lender = replace(lender, bureau=("none",))
    reports = "reported" in template.used and lender.bureau != ("none",)
    reported = _reported(manifest, template) if reports else ()
    missing = unset = template.missing(lender)
    if reports and not reported:
        missing += (REPORTED,)
    if missing and not draft:
        raise NoticeIncomplete(f"The letter lacks settings that it states: {', '.join(missing)}.")
    # A draft names the setting where its value will stand.
    for setting in unset:
        name, value = setting.removeprefix(LENDER).lower(), f"[{setting}]"
        stated: dict[str, Any] = {name: (value,) if isinstance(getattr(lender, name), tuple) else value}
        lender = replace(lender, **stated)
    facts = Facts(
        answer=answer,
        question=request["question"],
        applicant=request["applicant"],
        reasons=answer.get("reasons") or reasons,
        features=model.space.schema,
        title=manifest.title,
        titles=manifest.titles,
        reported=reported,
        threshold=manifest.threshold if manifest.output is Output.PROBABILITY else None,
        scale=manifest.points,
    )
    spoken = templates.languages[language]
    notice = notice_of(
        facts, spoken, templates.regime, lender, addressee, missing, applied_on=applied_on, offer_share=offer_share
    )
    if notice.unnamed and templates.regime in ALL_REASONS:
        if not draft:
            raise NoticeIncomplete(f"The letter has to name {UNNAMED.format(notice.unnamed)}.")
        missing += (UNNAMED.format(notice.unnamed),)
    words = missing_words(facts, notice, spoken, templates.default)
    if words and not draft:
        raise NoticeIncomplete(f"The letter lacks words: {', '.join(words)}.")
    return replace(notice, missing=missing + words)
