"""The parts of answers: each is declared once, here or in the core, and `plain` alone turns them into JSON.

Whole answers are put together beside their questions; `app.api.described` derives the response schemas from them. The
makers translate the core's results into the model's own features, units and categories.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import to_json

from app.questions.ways import ChangeStep, Difference, difference, points_of, steps
from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.providing import provided
from app.recourse.actions.sentences import MONTHS_DIGITS, FeatureChange, changes
from app.recourse.answer_part import EXACT, FULL, AnswerPart, rounded, rounded_output
from app.recourse.counterfactual import (
    AssessedCounterfactual,
    Counterfactual,
    FutureCertificate,
    JointCertificate,
    NoiseCertificate,
    ShiftCertificate,
)
from app.recourse.features import RawValue
from app.recourse.models.score import PointScale
from app.recourse.reports import MethodReport
from app.recourse.result import PlanCertificate, PlanFutureCertificate
from app.recourse.verdict import Reason

Json = dict[str, Any]


def _is_time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Timestamp = Annotated[str, AfterValidator(_is_time), WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time in UTC, in ISO 8601."""


LEAVES = frozenset((str, float, int, bool, type(None)))
"""What most parts of an answer are; no `Enum`, which may be a text as well."""


def plain(part: Any) -> Any:
    """An answer as plain data, ready for `json`: fields are in the order of their declaration.

    Numbers that were computed are rounded to their significant digits. Records, changes and the values of the request
    are not rounded.
    """
    kind: Any = type(part)
    if kind in LEAVES:
        return part
    if isinstance(part, tuple | list):
        return [plain(value) for value in part]
    if isinstance(part, Mapping):
        return {key: plain(value) for key, value in part.items()}
    if (members := _members(kind)) is not None:
        made = {}
        for name, key, measured in members:
            value = getattr(part, name)
            if type(value) not in LEAVES:
                value = _carried(value) if measured else plain(value)
            elif measured and type(value) is float:
                value = rounded(value)
            made[key] = value
        return made
    if isinstance(part, Enum):
        return part.value
    return part


@cache
def _members(record: type[object]) -> tuple[tuple[str, str, bool], ...] | None:
    """Of a dataclass each field's name, its key, and whether numbers in it have only the digits that they carry."""
    if not is_dataclass(record):
        return None
    measured = issubclass(record, AnswerPart)
    # A field that would be a keyword ends in an underscore.
    return tuple((f.name, f.name.rstrip("_"), measured and f.metadata != EXACT) for f in fields(record))


def _carried(value: Any) -> Any:
    """As `plain`, and numbers with the significant digits of an answer; of a tuple each."""
    if isinstance(value, tuple):
        return [_carried(one) for one in value]
    return rounded(value) if isinstance(value, float) else plain(value)


def encoded(answer: Json) -> bytes:
    """The bytes of an answer's JSON, as clients get them. Raises `ValueError` for a number that is not finite."""
    text = to_json(answer)
    # A quarter of the time of the standard library's encoder, which raises for what is no JSON.
    return _ENCODER.encode(answer).encode() if b"NaN" in text or b"Infinity" in text else text


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


# --- parts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion(AnswerPart):
    """Exactly which model was asked."""

    id: str
    """Id of the model."""
    version: str
    """Its version."""
    sha256: str
    """Digest of the artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(AnswerPart):
    """The model's decision about one record."""

    probability: float | None = field(metadata=EXACT)
    """Of the favourable class; null for a model that answers with labels, or gave no finite number, and for a record of
    the caller whose key has neither the scope `scores` nor `models`."""
    score: float | None
    """In logit units, favourable from 0 on; null where the model gave no finite number, and as `probability`."""
    points: float | None = field(metadata=EXACT)
    """Of a model whose output is points, as a scorecard's; null for others, and as `score`."""
    favourable: bool
    """Whether the model accepts the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook(AnswerPart):
    """Whether future models accept the refused record without changes; for the lender, not the applicant."""

    accepted: float
    """Share of the held-back future models that accept it."""
    models: int
    """Held-back future models."""
    look_again: bool
    """At least half accept it: the refusal depends on the training, and a person should look at the case again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactualDecision(Decision):
    """The model's decision about the applicant's record."""

    future: SecondLook | None
    """Null where the model accepts it or has no future models, and for a caller who may not read scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCost(AnswerPart):
    """Cost of the changes."""

    total: float
    """Weighted sum of the changes in standardised units; a change of category counts 1."""
    norm: Literal["l1"]
    """Norm of the weighted changes."""
    changed_features: int
    """Number of features that change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity(AnswerPart):
    """The certificate: the model's decision now, and what is known about how long it holds."""

    current: Decision
    """The model's own decision on exactly this record."""
    future: FutureCertificate | None
    """What future models say, the lender's next model among them if it is trained as they are; null where the model has
    none."""
    noise: NoiseCertificate | None
    """Null, like `shift` and `joint`, where the decisions around the applicant determine no local model."""
    shift: ShiftCertificate | None = field(metadata=FULL)
    """What a change of the model does to the record."""
    joint: JointCertificate | None = field(metadata=FULL)
    """Noise and a change of the model together; null also where the model offers no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualAnswer(AnswerPart):
    """A record with its changes, cost and certificate."""

    rank: int
    """From 1."""
    changes: tuple[FeatureChange, ...]
    """In the order of the model's features, with what time changes by itself until then."""
    takes_months: float
    """How long the changes take; the record is that of the applicant then. The longest of them, or their sum where the
    request is `sequential`."""
    lasts: bool | None
    """Whether it is accepted whatever time changes until `expires_at`; null if not known, or nothing moves."""
    cost: ChangeCost
    """Cost of the changes."""
    validity: Validity
    """The certificate."""
    applicant: Mapping[str, RawValue]
    """The whole record, with the changes made."""
    difference: Difference | None
    """What sets it apart from those before it; null for the first."""
    steps: tuple[ChangeStep, ...] | None
    """Of several changes, the order in which each helps most, with the model's decision after each; null where this was
    not asked."""
    report: MethodReport | None = field(metadata=FULL)
    """The method's own figures; null for most methods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest(AnswerPart):
    """The best record that was tried: the model refuses it, or it misses what the method's parameters ask for."""

    applicant: Mapping[str, RawValue]
    """The record."""
    changes: tuple[FeatureChange, ...]
    """What differs from the applicant's record."""
    takes_months: float
    """Months until the changes are made."""
    probability: float | None = field(metadata=EXACT)
    """Its probability of the favourable outcome; null where the model states none."""
    score: float
    """Its score in logit units, favourable from 0 on."""
    points: float | None = field(metadata=EXACT)
    """Its points; null for models without points."""
    favourable: bool
    """Whether the model accepts it."""
    future: FutureCertificate | None
    """What future models say; null where the model has none."""
    report: MethodReport | None = field(metadata=FULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanValidity(AnswerPart):
    """Bounds on the probability that a linear model accepts every member, for all distributions in `shift.gelbrich`."""

    lower: float
    """Lower bound."""
    upper: float
    """Upper bound."""
    exact: bool
    """Whether the bounds are tight; false where `future.all_interval` widened them."""
    status: Literal["complete", "pending", "bracket"]
    """`complete`: the solver finished. `pending`: these bounds follow from those of the members; `job` computes tight
    ones. `bracket`: the same without a job."""
    job: str | None
    """Address of the job that computes tight bounds."""
    future: PlanFutureCertificate | None
    """What future models say about the members together; null where the model has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnswerPart):
    """The counterfactuals as a plan, judged together."""

    validity: PlanValidity
    """Joint bounds of all members."""
    proximity: float
    """Mean L2 distance to the factual, in standardised units."""
    diversity: float
    """Determinant of ``1/(1 + distance)`` between the members: 0 for equal members, towards 1 for distant ones."""


# --- makers ----------------------------------------------------------------------------------------------------------


UNREAD = {"probability": None, "score": None, "points": None}
"""What a caller without the scope `scores` reads of a decision about a record that it brings."""


def without_scores(answer: Json, *, brought: bool) -> Json:
    """The answer without the score of the applicant's record, and without what the score follows from.

    The answer is changed in place.

    Parameters
    ----------
    brought : whether the caller has supplied the counterfactuals; if so, their scores are removed as well
    """
    decisions = [answer["factual"]]
    if brought:
        decisions += [one["validity"]["current"] for one in answer["counterfactuals"]]
    for found in filter(None, decisions):
        found |= UNREAD
        if "future" in found:
            found["future"] = None
    reasons = answer if "against" in answer else answer.get("reasons")
    if reasons is not None and reasons["against"] is not None:
        # Contributions add up to the score.
        reasons["against"]["score"] = None
        for one in reasons["reasons"]:
            one |= {"contribution": None, "std_error": None}
    return answer


def decision(score: float | None, probability: float | None, scale: PointScale | None) -> Decision:
    """The model's decision about one record.

    Parameters
    ----------
    score : None where the model gave no output; such a record counts as unfavourable
    scale : converts scores to points; None for a model without points
    """
    return Decision(
        probability=rounded_output(probability, score),
        score=score,
        points=points_of(score, scale),
        favourable=score is not None and score >= 0.0,
    )


def decision_if_asked(
    score: float | None, probability: float | None, reason: Reason | None, scale: PointScale | None
) -> Decision | None:
    """The model's decision about one record; None where time or budget ran out before the model was asked.

    Parameters
    ----------
    reason : why the score is unknown; with `MODEL_OUTPUT_INVALID`, the decision is unfavourable
    """
    unasked = score is None and reason is not Reason.MODEL_OUTPUT_INVALID
    return None if unasked else decision(score, probability, scale)


def counterfactual_answer(
    action_set: ActionSet,
    found: AssessedCounterfactual,
    scale: PointScale | None,
    before: Sequence[AssessedCounterfactual],
) -> CounterfactualAnswer:
    """The part of an answer about one counterfactual; the answer lists the counterfactuals `before` earlier."""
    certificate = found.certificate
    made = changes_of(action_set, found.row_raw, found.accepted)
    return CounterfactualAnswer(
        rank=len(before) + 1,
        applicant=action_set.space.record(found.row_raw),
        changes=made,
        takes_months=round(found.takes_months, MONTHS_DIGITS),
        lasts=found.lasts,
        cost=ChangeCost(total=found.cost, norm="l1", changed_features=len(found.changed)),
        validity=Validity(
            current=decision(found.score, found.probability, scale),
            noise=certificate.noise if certificate else None,
            shift=certificate.shift if certificate else None,
            joint=certificate.joint if certificate else None,
            future=found.future,
        ),
        report=found.report,
        difference=difference(action_set, found, before),
        steps=steps(action_set, found, made, scale),
    )


def counterfactual_answers(
    action_set: ActionSet, found: Sequence[AssessedCounterfactual], scale: PointScale | None
) -> tuple[CounterfactualAnswer, ...]:
    """The parts of an answer about its counterfactuals: one for each, in the same order, ranked from 1."""
    return tuple(counterfactual_answer(action_set, one, scale, found[:k]) for k, one in enumerate(found))


def nearest_answer(action_set: ActionSet, found: Counterfactual, scale: PointScale | None) -> Nearest:
    """The part of an answer about `found`, the record that came nearest to what the request asks for."""
    current = decision(found.score, found.probability, scale)
    return Nearest(
        applicant=action_set.space.record(found.row_raw),
        changes=changes_of(action_set, found.row_raw),
        takes_months=round(found.takes_months, MONTHS_DIGITS),
        probability=current.probability,
        score=found.score,
        points=current.points,
        favourable=current.favourable,
        future=found.future,
        report=found.report,
    )


def changes_of(
    action_set: ActionSet, row_raw: Float[np.ndarray, "p"], accepted: Mapping[int, AcceptedValues] | None = None
) -> tuple[FeatureChange, ...]:
    """The changes that lead from the applicant's record to `row_raw`.

    Parameters
    ----------
    accepted : by index of a feature whose missing value the applicant is to state, the values that the model accepts
    """
    clock, providing = action_set.clock, provided(action_set)
    if providing is not None and not action_set.space.in_state(row_raw[None])[0, list(providing.given)].any():
        clock = providing.clock  # stating a value takes no time; changing it does
    return changes(action_set.space.features, action_set.factual_raw, row_raw, clock, accepted)


def plan_answer(plan: PlanCertificate | None) -> Plan | None:
    """The part of an answer about a plan, with bounds on the probability that a model accepts every member.

    None where `plan` is None.
    """
    if plan is None:
        return None
    status: Literal["complete", "bracket"] = "complete" if plan.status == "complete" else "bracket"
    bounds = PlanValidity(
        lower=plan.lower, upper=plan.upper, exact=plan.exact, status=status, job=None, future=plan.future,
    )  # fmt: skip
    return Plan(validity=bounds, proximity=plan.proximity, diversity=plan.diversity)
