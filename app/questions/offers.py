"""Counter-offers: what a child computes, and the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.questions.answers import Decision, ModelVersion, decision
from app.questions.frame import Frame
from app.questions.question import Case
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.sentences import level_text, name_text, number_text
from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.counterfactual import Counterfactual, FutureCertificate
from app.recourse.features import Better, Feature, RawValue
from app.recourse.models.score import PointScale
from app.recourse.offers import NO_OFFER, NoOffer, Offers, offers
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, Status
from app.recourse.terms import terms_of

NOT_ALL_WARNING = (
    "There are too many combinations of terms to ask the model about all of them: {:,} were asked about, so that a "
    "better one may be accepted."
)
MORE_WARNING = "{} more of these offers {} not listed."


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersQuestion(Case):
    """Asks with which terms of the contract the model accepts an applicant who changes nothing else."""

    better: Mapping[str, Better] = field(default_factory=dict)
    """Which way terms are better for this applicant, by name, in place of what the manifest says."""
    future_validity: float | None = None
    """Share of the future models that must accept an offer; None for none."""

    @property
    def takes_long(self) -> bool:
        """Whether future models are asked about every combination of terms."""
        return self.future_validity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(AnswerPart):
    """Terms with which the model accepts the applicant's record, otherwise unchanged."""

    terms: Mapping[str, RawValue]
    """Every term of the contract, those too that stay as they were asked for."""
    share: float | None
    """The first term with a direction, as a share of what was asked for; null where it is no number, or that was 0."""
    text: str
    """The offer as a sentence, with its condition."""
    applicant: Mapping[str, RawValue]
    """The whole record, with these terms."""
    current: Decision
    """The model's own decision on exactly this record."""
    lasts: bool | None
    """As that of counterfactuals."""
    future: FutureCertificate | None
    """What future models say; null where the model has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersAnswer(AnswerPart):
    """Terms with which the model itself accepts the applicant as they are."""

    status: Status
    """`already_favourable`: the model accepts the terms that were asked for, so that there is nothing to offer."""
    reference: str | None
    """The caller's own name for the case."""
    model: ModelVersion
    """The version that was asked."""
    threshold: float | None = field(metadata=EXACT)
    """Smallest favourable probability; null for a model whose output states none."""
    factual: Decision | None
    """The model's decision on the record with the terms that were asked for; null where the model was not asked."""
    better: Mapping[str, Better]
    """Which way is better for the applicant, of each term of which that is known; the first of them ranks the offers.
    """
    offers: tuple[Offer, ...]
    """The best first. None is worse than another in a term with a direction, unless it is better in one or differs in
    one without. Terms without a direction are what the applicant chooses by."""
    complete: bool
    """Whether the model was asked about every combination that can be offered: then no better one is accepted."""
    asked: int
    """Combinations of terms that the model was asked about."""
    reason: NoOffer | None
    """Why there is none."""
    detail: str | None
    """The reason as a sentence."""
    diagnostics: Diagnostics
    """What the answer took to compute."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    seed: int
    """As in the request; nothing in this answer is random."""


def compute(asked: RecourseProblem, question: OffersQuestion, _plan_s: float) -> Offers:
    """The offers that answer a question; `_plan_s` is not used."""
    return offers(replace(asked, future_validity=question.future_validity, under="same"), question.better)


def render(frame: Frame, action_set: ActionSet, found: Offers) -> OffersAnswer:
    """The answer, made from the frame and the offers."""
    known, lead = found.factual_score is not None, next(iter(found.signs))
    warnings = []
    if found.offers and not found.every:
        warnings.append(NOT_ALL_WARNING.format(found.asked))
    if found.more:
        warnings.append(MORE_WARNING.format(f"{found.more:,}", "is" if found.more == 1 else "are"))
    return OffersAnswer(
        **frame.known("reference", "model", "threshold", "seed"),
        status=found.status,
        factual=decision(found.factual_score, found.factual_probability, frame.points) if known else None,
        better={action_set.space.names[j]: Better.MORE if way > 0 else Better.LESS for j, way in found.signs.items()},
        offers=tuple(offer_answer(action_set, one, frame.points, lead) for one in found.offers),
        complete=found.every,
        asked=found.asked,
        reason=found.verdict,
        detail=found.verdict and NO_OFFER[found.verdict],
        diagnostics=found.diagnostics,
        warnings=tuple(warnings),
    )


def offer_answer(action_set: ActionSet, found: Counterfactual, scale: PointScale | None, lead: int) -> Offer:
    """The part of an answer about one offer.

    Parameters
    ----------
    scale : converts scores to points; None for a model without points
    lead : index of the feature whose offered value `share` compares with the value applied for
    """
    space, fact = action_set.space, action_set.factual_raw.tolist()
    terms = {j: space.features[j] for j in terms_of(space)}
    row = found.row_raw.tolist()
    of_asked = fact[lead] > 0.0 and terms[lead].is_number
    parts = [_text(feature, fact[j], row[j]) for j, feature in terms.items()]
    return Offer(
        terms={feature.name: feature.value(row[j]) for j, feature in terms.items()},
        share=row[lead] / fact[lead] if of_asked else None,
        text=f"As the application is otherwise, the model accepts it now with these terms: {'; '.join(parts)}.",
        applicant=space.record(found.row_raw),
        current=decision(found.score, found.probability, scale),
        lasts=found.lasts,
        future=found.future,
    )


def _text(feature: Feature, asked_raw: float, offered_raw: float) -> str:
    name, offered = name_text(feature), _value(feature, offered_raw, asked_raw)
    if offered_raw == asked_raw:
        return f"{name} {offered}, as asked for"
    return f"{name} {offered} instead of {_value(feature, asked_raw, offered_raw)}"


def _value(feature: Feature, value_raw: float, other_raw: float) -> str:
    """A value in words; its rounding does not reach the other one."""
    if not feature.is_number:
        return level_text(feature, feature.value(value_raw))
    if value_raw in feature.states_raw:
        return feature.special.get(value_raw, "not stated")
    return number_text(feature, value_raw, unlike_raw=None if other_raw == value_raw else other_raw)
