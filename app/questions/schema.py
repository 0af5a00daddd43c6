"""A question about one applicant, and its answer."""

from dataclasses import fields, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StrictBool, StringConstraints, TypeAdapter
from pydantic_core import PydanticCustomError

from app.api.described import describe
from app.api.strict import (
    FEW,
    LONGEST_NAME,
    MOST_ENTRIES,
    NUMBER,
    Sent,
    Strict,
    derive,
    optional,
    to_record,
    with_fields_of,
)
from app.errors import Fault, InvalidRequest
from app.jobs.lines import SEEDS
from app.models.schema import Record
from app.questions import recourse
from app.questions.encoded_answer import Detail
from app.questions.methods_schema import CHOICES, MethodChoice
from app.questions.question import Question, Terms
from app.recourse.actions.constraints import CHEAPEST, DEAREST, Constraints
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import Exclude, Wishes
from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Yields
from app.recourse.problem import Robustness
from app.recourse.reasons import ReasonsParams
from app.recourse.solve import DEFAULT_METHOD, METHODS

LONGEST_DEADLINE_MS = 60_000

MOST_WAYS = 10
"""Alternatives of one answer."""
Count = Annotated[int, Field(ge=1, le=MOST_WAYS), NUMBER]
AnswerId = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
ExcludedIds: Any = Annotated[tuple[AnswerId, ...], Field(max_length=MOST_ENTRIES), FEW]
IDS_SENTENCE = (
    "Earlier answers of this model from the ledger: none of the sets of features that their counterfactuals change is "
    "changed again. The id of an answer, or with `/2` that of its counterfactual of this rank."
)

OptionalExclude: Any = optional(derive(Exclude, ids=(ExcludedIds, Field(default=(), description=IDS_SENTENCE))))


def printable(text: str) -> str:
    """The text, unchanged. Raises a validation error if it has characters that cannot be printed on one line."""
    if not text.isprintable():
        raise PydanticCustomError("not_printable", "must consist of printable characters")
    return text


MOST_LINES = 8
"""Of an address."""

Line = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(printable)]
"""One line of a letter."""

Reference = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]
"""A client's own name for a case."""

FeatureName = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
Weight = Annotated[float, Field(ge=CHEAPEST, le=DEAREST), NUMBER]
Weights: Any = optional(Annotated[dict[FeatureName, Weight], Field(max_length=MOST_ENTRIES), FEW], dict)


class Cost(Strict):
    """Costs of changes for this applicant."""

    weights: Weights
    """Factors on the model's own cost of each feature; 1 by default."""


OptionalCost: Any = optional(Cost)
USUAL_METHOD = CHOICES[DEFAULT_METHOD].model_validate({"name": DEFAULT_METHOD})
OptionalMethod: Any = optional(MethodChoice, lambda: USUAL_METHOD)


WISHES, NO_WISHES = TypeAdapter(Wishes), Wishes()


class AnyQuestion(Strict):
    """The fields that every question about an applicant has in a request."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`id` (its newest active version) or `id@version`."""
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS), NUMBER] | None = None
    """Milliseconds; the operator's default if absent."""
    seed: Annotated[int, Field(ge=0, le=SEEDS - 1), NUMBER] = 0
    """The same request and seed: the same answer."""

    def terms(self) -> Terms:
        """The fields of the request that are not part of its question, such as the model and the deadline."""
        names = {f.name for f in fields(Terms)} & type(self).model_fields.keys()
        return Terms(**{name: getattr(self, name) for name in names})


class ModelQuestion(AnyQuestion):
    """The fields of a request for an answer that has certificates."""

    certificate: Annotated[CertificateParams, Sent()] = Field(default_factory=CertificateParams)
    """Parameters of the certificates."""


def by_method(request: Any) -> Question:
    """The question of a request, without the applicant's record, certificate, wishes and number of counterfactuals."""
    method = METHODS[request.method.name]
    return Question(
        constraints=request.constraints,
        cost_weights=request.cost.weights,
        timing=to_record(Timing, request),
        seed=request.seed,
        method=method.name,
        params=to_record(method.params, request.method),
        robustness=request.robustness,
    )


@with_fields_of(Timing, Wishes)
class RecourseQuestion(ModelQuestion):
    """The fields of a request for recourse, without the applicant's record."""

    method: OptionalMethod
    """The method; `robust_mpm` when absent."""
    constraints: Annotated[Constraints, Sent()] = Field(default_factory=Constraints)
    """What this applicant cannot or will not do."""
    cost: OptionalCost
    """What changes cost this applicant."""
    robustness: Annotated[Robustness, Sent()] = Field(default_factory=Robustness)
    """What the answer must withstand."""
    exclude: OptionalExclude
    """What is not proposed."""
    detail: Detail = "short"
    """`full`: with parameters, certificates under shift, the surrogate and the effort. The ledger
    keeps the full answer."""

    def terms(self) -> Terms:
        """The fields of the request that are not part of its question, with the ids of answers that it excludes."""
        return replace(super().terms(), exclude_ids=self.exclude.ids)

    def question(self) -> Question:
        """The question of the request, without the applicant's record."""
        return replace(by_method(self), certificate=self.certificate, wishes=self._wishes())

    def _wishes(self) -> Wishes:
        if self.model_fields_set.isdisjoint(("exclude", "must_include")):
            return NO_WISHES
        given = self.model_dump(include={"exclude", "must_include"}, exclude={"exclude": {"ids"}})
        return WISHES.validate_python(given)


class ApplicantQuestion(RecourseQuestion):
    """What an applicant could change so that the model accepts the record."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; returned in the answer."""


class SeveralWays(Strict):
    """The part of a request that says how many counterfactuals are sought."""

    count: Count | None = None
    """Ways, up to this many, that differ in what is changed; the cheapest first, under stress the surest. None changes
    all that an earlier one does. Of a plan, its members. Absent: one, or all of a plan."""

    def counted(self, question: Question, method: BaseModel) -> Question:
        """The question with the `count` of the request: how many ways are sought, or how many members the plan has.

        `method` is the method of the request. Raises `InvalidRequest` where the method states another number of
        members.
        """
        if self.count is None:
            return question
        params: Any = question.params
        if METHODS[question.method].yields is Yields.PLAN:
            if "count" in method.model_fields_set and params.count != self.count:
                detail = f"is {self.count}, but the count of the method is {params.count}: give one of them"
                raise InvalidRequest(faults=[Fault("/count", detail)])
            params = replace(params, count=self.count)
        return replace(question, params=params, count=self.count)


class RecourseRequest(ApplicantQuestion, SeveralWays):
    """What an applicant could change so that the model accepts the record, and whether to keep the answer."""

    store: StrictBool = True
    """Keep request and answer in the ledger, to be looked up and verified later. If false, neither is kept after the
    answer, except in a job, until it is deleted, and under an `Idempotency-Key`, for 24 hours; `DELETE /recourse/{id}`
    erases both."""
    reasons: StrictBool | Annotated[ReasonsParams, Sent(null=False)] = False
    """Also state why the model refuses the record: `true`, or which reasons. This takes up to five more model calls."""

    def question(self) -> Question:
        """The question of the request, with the number of ways sought, and the parameters of reasons if any."""
        asked = self.reasons
        reasons = (ReasonsParams() if asked else None) if isinstance(asked, bool) else asked
        return replace(self.counted(super().question(), self.method), reasons=reasons)


RecourseAnswer: Any = describe(recourse.RecourseAnswer)
