"""What a letter to an applicant says: `notice_of` makes it from a recorded answer, in words that people read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from app.letters.language import Language
from app.questions.answers import Json, Timestamp
from app.questions.frame import Frame
from app.questions.question import Case
from app.questions.ways import changes_in_order
from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.sentences import about_text, change_text, title_text
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.recourse.answer_part import AnswerPart
from app.recourse.features import Feature, RawValue, Takes
from app.recourse.method_run import UNSEEN_WARNING
from app.recourse.models.score import PointScale
from app.recourse.promise import promise_text, ways_text
from app.recourse.reasons import Departure, departure, is_unadvised, reason_text, usual_text, value_text
from app.recourse.shares import digits_apart
from app.store.timestamps import timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Lender(AnswerPart):
    """Who sends the letter; from the operator's settings, empty where they say nothing."""

    name: str
    """Its name."""
    address: tuple[str, ...]
    """Its lines."""
    contact: str
    """Where the applicant can ask, and have a person decide."""
    authority: str
    """Who supervises the lender."""
    bureau: tuple[str, ...]
    """Lines of the consumer reporting agency whose report was used; `none` alone where none was."""
    signatory: tuple[str, ...] = ()
    """Lines of who signs; none where only the lender's name stands below the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReason(AnswerPart):
    """A principal reason."""

    code: str | None
    """Code of the reason in the letter's regime; null where it has none."""
    text: str
    """The reason as a sentence or phrase."""
    value: str | None
    """The applicant's value; null where `text` says it, or where it has no order."""
    usual: str | None
    """What is usual among those whom the applicant is compared with; null where the value has no order."""
    common: bool
    """Whether the value is the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeWay(AnswerPart):
    """One way to a yes."""

    number: int
    """From 1."""
    steps: tuple[str, ...]
    """In the order in which each helps most."""
    time: str | None
    """How long it takes; null where the model says nothing of it."""
    late: bool
    """Whether it takes longer than the letter is valid."""
    probability: str | None
    """The model's probability of the favourable outcome then; null for a model without one, or with points, and where
    the applicant states a value that is not known yet."""
    points: str | None
    """Its points then, of a model that gives points; null also where a value is not known yet."""
    promise: str | None
    """What can be promised of future models, with the condition; null where there are none, and where a value is not
    known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(AnswerPart):
    """A letter to an applicant, made of a recorded answer; the same record gives the same letter."""

    id: str
    """Of the recourse."""
    reference: str | None
    """The caller's own name for the case."""
    language: str
    """Language of the letter."""
    regime: str
    """Which of the lender's letters."""
    missing: tuple[str, ...]
    """Settings, and words of the manifest, that the letter lacks: it is a draft then, not to be sent."""
    date: str
    """Of the answer."""
    created_at: Timestamp
    """When the answer was given."""
    title: str
    """What the application is for: the title of the model."""
    model: str
    """`id@version`."""
    lender: Lender
    """Who sends it."""
    addressee: tuple[str, ...]
    """Lines of who gets it; none but in a letter that is recorded as sent."""
    refused: bool
    """Whether the model refuses the application."""
    accepted: bool
    """Neither of both where the model was not asked in time."""
    unseen: bool
    """Whether values are unlike all in the records of the model."""
    precluded: bool
    """Whether it is proven that the model refuses every record that the applicant could reach."""
    accepts_some: bool
    """Whether there is no way, but today's model accepts a change, which does not withstand what the request asks
    for."""
    limited: bool
    """Whether the request rules changes out."""
    left_out: tuple[str, ...]
    """Features among these that no change was to concern."""
    reach_until: str | None
    """Date by which a change had to be possible; null where the model says nothing of time."""
    probability: str | None
    """The model's probability of the favourable outcome today."""
    threshold: str | None
    """The least probability that it accepts."""
    points: str | None
    """The model's points today; null for a model that gives none."""
    least_points: str | None
    """The fewest points that it accepts; null also where fewer are better."""
    most_points: str | None
    """The most points that it accepts, where fewer are better."""
    reasons: tuple[NoticeReason, ...]
    """The principal reasons, the most important one first."""
    compared_with: str | None
    """Whom the reasons compare the applicant with; null where there are none."""
    unnamed: str | None
    """Share of what lowered the score that features have which no letter names; null where each reason has more."""
    ways: tuple[NoticeWay, ...]
    """What the applicant can change, a way each."""
    offer: tuple[str, ...]
    """Other terms that today's model accepts, a line each with what was asked for in brackets; none where
    `RECOURSE_NOTICE_OFFER` is not set, or the answer has no offer."""
    found: bool
    """Whether there is a way."""
    several: bool
    """Whether there is more than one."""
    together: str | None
    """What can be promised of several ways together, at least one of them first; null for one, and as for a way."""
    in_time: bool
    """Whether one takes no longer than the answer is valid."""
    some_late: bool
    """Whether one takes longer."""
    aged: bool
    """Whether time itself changes something in the application until a way ends that is not late."""
    valid_until: str
    """Date until which the answer is to hold; earlier than it expires where a backtest says so."""


def _names(record: Any) -> set[str]:
    return {f.name for f in fields(record)}


NAMES = frozenset().union(*map(_names, (Notice, Lender, NoticeReason, NoticeWay)))
"""What a template may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a letter is made of: a recorded answer, its question, the reasons, and the model's features."""

    answer: Json
    """As it was sent."""
    question: Json
    """What was asked about the applicant."""
    applicant: Mapping[str, RawValue]
    reasons: Json | None
    """The answer's own, or computed again; None where nothing was refused."""
    features: Sequence[Feature]
    """Of the version that answered."""
    title: str
    titles: Mapping[str, str]
    """In other languages."""
    threshold: float | None
    """The least probability that the model accepts; None for another output."""
    scale: PointScale | None = None
    """Of a model that gives points."""


def version_of(answer: Json) -> str:
    """The name ``id@version`` of the version that gave the answer, active or not."""
    return f"{answer['model']['id']}@{answer['model']['version']}"


def notice_of(
    facts: Facts,
    language: Language,
    regime: str,
    lender: Lender,
    addressee: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    *,
    offer: bool = False,
) -> Notice:
    """The letter that states `facts` in a language; `offer` says whether it may state other terms.

    `missing` are the settings that a draft lacks.
    """
    answer, factual = facts.answer, facts.answer["factual"]
    features = {feature.name: _in(feature, language) for feature in facts.features}
    valid_months, valid_until = _validity(answer)
    digits = digits_apart(facts.threshold, _probabilities(answer))
    ways = tuple(_way(facts, one, features, language, valid_months, digits) for one in answer["counterfactuals"])
    reasons = facts.reasons or {"reasons": (), "against": None}
    together = (answer.get("plan") or {"validity": {}})["validity"].get("future") if len(ways) > 1 else None
    if any(_states(facts, one) for one in answer["counterfactuals"]):
        together = None
    probability, points = factual and factual["probability"], factual and factual.get("points")
    accepts = None if facts.scale is None else language.points_text(facts.scale.threshold, facts.scale.threshold)
    fewer = facts.scale is not None and facts.scale.fewer
    return Notice(
        id=answer["id"],
        reference=answer["reference"],
        language=language.tag,
        regime=regime,
        date=language.date_text(answer["created_at"]),
        created_at=answer["created_at"],
        title=facts.titles.get(language.tag, facts.title),
        model=version_of(answer),
        lender=lender,
        addressee=addressee,
        missing=missing,
        unseen=any(UNSEEN_WARNING in warning for warning in answer.get("warnings", ())),
        precluded=(answer.get("precluded") or {}).get("status") == "proven",
        accepts_some=bool((answer.get("nearest") or {}).get("favourable")),
        limited=_is_limited(facts.question),
        left_out=tuple(title_text(features[name]) for name in _left_out(facts.question)),
        reach_until=_reach_until(facts, language),
        refused=factual is not None and not factual["favourable"],
        accepted=factual is not None and factual["favourable"],
        probability=None if probability is None else language.percent_text(probability, digits),
        points=None if points is None or facts.scale is None else language.points_text(points, facts.scale.threshold),
        least_points=None if fewer or points is None else accepts,
        most_points=accepts if fewer and points is not None else None,
        threshold=None if facts.threshold is None else language.percent_text(facts.threshold, digits),
        reasons=_reasons(reasons["reasons"], {one.name: one for one in facts.features}, language),
        compared_with=None if not reasons["reasons"] else _compared(reasons["against"], language),
        unnamed=_unnamed(reasons, language),
        ways=ways,
        offer=_offer(facts, features, language) if offer else (),
        found=bool(ways),
        several=len(ways) > 1,
        together=None if together is None else ways_text(together, len(ways), language.promise),
        in_time=not all(way.late for way in ways),
        some_late=any(way.late for way in ways),
        aged=any(_ages(facts, one) for one, way in zip(answer["counterfactuals"], ways, strict=True) if not way.late),
        valid_until=language.date_text(valid_until),
    )


def _offer(facts: Facts, features: Mapping[str, Feature], language: Language) -> tuple[str, ...]:
    offer = facts.answer.get("offer")  # answers of earlier releases have none
    if offer is None:
        return ()
    lines = []
    for name, offered in offer["terms"].items():
        feature = features[name]
        new, asked = (value_text(feature, feature.parse(value), language.phrases)
                      for value in (offered, facts.applicant[name]))  # fmt: skip
        lines.append(f"{title_text(feature)}: {new}" + (f" ({asked})" if new != asked else ""))
    return tuple(lines)


def _is_limited(question: Json) -> bool:
    """Whether the request rules out changes."""
    asked = Case.from_json({name: question[name] for name in ("constraints", "timing") if name in question})
    excluded = (question.get("wishes") or {}).get("exclude") or {}
    return asked.constraints != Constraints() or any(excluded.values())


def _left_out(question: Json) -> Sequence[str]:
    """Names of features that the request leaves as they are."""
    fixed = (question.get("constraints") or {}).get("immutable") or ()
    excluded = ((question.get("wishes") or {}).get("exclude") or {}).get("features") or ()
    return list(dict.fromkeys((*fixed, *excluded)))


def _reach_until(facts: Facts, language: Language) -> str | None:
    """How long the applicant has for a change; none where none takes time."""
    if all(feature.takes == Takes() for feature in facts.features):
        return None
    horizon = (facts.question.get("timing") or {}).get("horizon_months")
    until = facts.answer["expires_at"] if horizon is None else _later(facts.answer["created_at"], horizon)
    return language.date_text(until)


def _later(moment: Timestamp, months: float) -> Timestamp:
    return timestamp(datetime.fromisoformat(moment) + timedelta(days=months * DAYS_PER_MONTH))


def _validity(answer: Json) -> tuple[float, Timestamp]:
    """Months that a letter is valid, and until when: no longer than the backtest of each way holds what it promises."""
    months, until = Frame.from_json(answer).valid_months, answer["expires_at"]
    for one in answer["counterfactuals"]:
        before = (one["validity"].get("future") or {}).get("kept_before")  # answers of earlier releases have none
        if before and before["holds_months"] is not None and before["holds_months"] < months:
            months = before["holds_months"]
            until = _later(answer["created_at"], months)
    return months, until


def _in(feature: Feature, language: Language) -> Feature:
    return feature if language.tag == "en" and "en" not in feature.words else feature.in_language(language.tag)


def _reasons(reasons: Sequence[Json], features: Mapping[str, Feature], language: Language) -> tuple[NoticeReason, ...]:
    """Each once: several features that a credit bureau does not know are one reason to a reader."""
    found = [_reason(one, features[one["feature"]], language) for one in reasons]
    return tuple({one.text: one for one in reversed(found)}[text] for text in dict.fromkeys(one.text for one in found))


def _unnamed(reasons: Json, language: Language) -> str | None:
    """The share of features that are never named, where it is no smaller than that of each reason."""
    share = reasons.get("protected_share") or 0.0  # answers of earlier releases lack it
    counts = reasons["reasons"] and share >= min(one.get("share", 1.0) for one in reasons["reasons"])
    return language.percent_text(share) if counts and share else None


def _reason(reason: Json, feature: Feature, language: Language) -> NoticeReason:
    value_raw, usual = feature.parse(reason["value"]), reason["reference"]
    usual_raw = float(usual) if feature.is_number and usual is not None else feature.parse(usual)
    departed = departure(feature, value_raw, usual_raw)
    if departed is not None and "direction" in reason:  # answers of earlier releases lack it
        departed = reason["direction"] and Departure(reason["direction"])
    if is_unadvised(feature, departed):  # by the words of the manifest, whatever the language
        departed = None
    feature = _in(feature, language)
    value, usual = (
        text_of(feature, raw, language.phrases) for text_of, raw in ((value_text, value_raw), (usual_text, usual_raw))
    )
    # Two levels say nothing beside each other; numbers may read alike once they are rounded.
    compared = departed is not None and (feature.is_number or len(feature.levels) > 2) and value != usual
    text = reason_text(feature, value_raw, departed, language.phrases)
    return NoticeReason(
        code=reason["code"],
        text=text,
        value=value if compared and not text.endswith(value) else None,
        usual=usual if compared else None,
        common=departed is None and bool(value) and value == usual,
    )


def _compared(against: Json, language: Language) -> str:
    text = {"accepted": language.accepted, "everyone": language.everyone}[against["kind"]]
    return text.replace("{n}", language.count_text(against["records"]))


def _ages(facts: Facts, one: Json) -> bool:
    """Whether the accepted record is one in which time has changed something."""
    moving = [feature.name for feature in facts.features if feature.moves_with_time]
    return any(one["applicant"][name] != facts.applicant[name] for name in moving)


def _probabilities(answer: Json) -> list[float | None]:
    """Of the record, and after each way."""
    decisions = [answer["factual"], *(one["validity"]["current"] for one in answer["counterfactuals"])]
    return [decision["probability"] for decision in decisions if decision is not None]


def _states(facts: Facts, one: Json) -> bool:
    """Whether the applicant states a value on this way; probability and promise are those of a single one."""
    return any(facts.applicant[change["feature"]] is None for change in one["changes"])


def _accepted(found: Json) -> AcceptedValues:
    levels = found["levels"]
    return AcceptedValues(min=found["min"], max=found["max"], levels=None if levels is None else tuple(levels))


def _way(
    facts: Facts, one: Json, features: Mapping[str, Feature], language: Language, valid_months: float, digits: int
) -> NoticeWay:
    # Answers of earlier releases lack some of these.
    current, future = one["validity"]["current"], one["validity"].get("future")
    names = [c["feature"] for c in changes_in_order(one) if not c.get("by_time")]
    months, points = one.get("takes_months", 0.0), current.get("points")
    accepted = {c["feature"]: _accepted(c["accepted"]) for c in one["changes"] if c.get("accepted")}
    known = not _states(facts, one)
    labels = {name: feature.title for name, feature in features.items()}
    return NoticeWay(
        number=one["rank"],
        steps=tuple(
            change_text(
                features[name], features[name].parse(facts.applicant[name]),
                features[name].parse(one["applicant"][name]), language.phrases, accepted=accepted.get(name),
            )
            for name in names
        ),
        time=language.takes.replace("{time}", about_text(months, language.phrases)) if months > 0.0 else None,
        late=months > valid_months,
        probability=None
        if current["probability"] is None or points is not None or not known
        else language.percent_text(current["probability"], digits),
        points=None if points is None or facts.scale is None or not known
        else language.points_text(points, facts.scale.threshold),
        promise=None if future is None or not known else promise_text(future, language.promise, labels),
    )  # fmt: skip
