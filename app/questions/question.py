"""The questions that child processes compute, as records that go through a pipe or are kept in a database."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from jaxtyping import Float
from pydantic import PlainSerializer, PlainValidator, SerializeAsAny, TypeAdapter, ValidationInfo

from app.questions.answers import Json
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import Wishes
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.method import MethodParams
from app.recourse.problem import Robustness
from app.recourse.reasons import ReasonsParams
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, model_payload

_READ_PARAMS = {name: TypeAdapter(method.params).validate_python for name, method in METHODS.items()}


def _array(values: Any) -> Float[np.ndarray, "..."]:
    return np.array(values, dtype=float)


def _params(given: Any, others: ValidationInfo) -> MethodParams:
    """Only the method knows its record."""
    params: MethodParams = _READ_PARAMS[others.data["method"]](given)
    return params


NUMBERS = PlainValidator(_array), PlainSerializer(np.ndarray.tolist)
"""How an array is read and written as plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Base of the questions about one applicant: has the applicant's record, and what every answer must comply with."""

    factual_raw: Annotated[Float[np.ndarray, "p"], *NUMBERS] = field(default_factory=lambda: np.empty(0))
    """The applicant's raw row; empty until the record has been checked against the model's schema."""
    constraints: Constraints = field(default_factory=Constraints)
    """Decide what the certificate's local model is about, and which records are legal."""
    cost_weights: Mapping[str, float] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    """How much time the applicant has."""
    valid_months: float | None = None
    """How long the answer is valid, and so how long it may take where `timing` says nothing; None for no limit."""
    certificate: CertificateParams = field(default_factory=CertificateParams)
    seed: int = 0

    @property
    def takes_long(self) -> bool:
        """Whether computing the answer takes many times as long as computing most answers."""
        return False

    def to_json(self) -> Json:
        """The question as plain data for a database; `from_json` is the inverse."""
        data: Json = reader(type(self)).dump_python(self, mode="json")
        return data

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The question whose `to_json` returned `data`; fields that an earlier release did not write have defaults."""
        question: Self = reader(cls).validate_python(data)
        return question


_READERS: dict[type[Any], TypeAdapter[Any]] = {}


def reader(question: type[Any]) -> TypeAdapter[Any]:
    """The adapter that validates and serialises questions of one class.

    It is made once for each class, since making it is slow.
    """
    if question not in _READERS:
        _READERS[question] = TypeAdapter(question)
    return _READERS[question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Case):
    """Asks one method what the applicant could change."""

    method: str
    params: Annotated[MethodParams, PlainValidator(_params), SerializeAsAny()]
    robustness: Robustness = field(default_factory=Robustness)
    wishes: Wishes = field(default_factory=Wishes)
    """What no answer proposes, and what every answer includes."""
    count: int = 1
    """Ways that differ in what is changed."""
    reasons: ReasonsParams | None = None
    """Which reasons for the refusal the answer states; None for none."""

    @property
    def takes_long(self) -> bool:
        """Whether the method takes long, or the question asks for several ways or for future validity."""
        searches = self.count > 1 or self.robustness.future_validity is not None
        return METHODS[self.method].takes_long or searches

    @property
    def needs_future_models(self) -> bool:
        """Whether only a model that has future models can answer the question."""
        return self.robustness.future_validity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a request says besides its question, such as the model, the deadline and whether the answer is recorded."""

    model: str
    """`id@version`, or `id` for its newest active version."""
    reference: str | None = None
    """The caller's own name for the case."""
    deadline_ms: int | None = None
    """Milliseconds until the answer; None for the operator's default."""
    store: bool = False
    """Keep request and answer in the ledger."""
    detail: str = "full"
    """How much of the answer a job shows, `short` or `full`."""
    exclude_ids: tuple[str, ...] = ()
    """Earlier answers, and counterfactuals of them, whose sets of changed features are excluded."""
    record: str = "applicant"
    """Where the request has the applicant's record, for pointers to its faults."""


Rows = Iterable[Json]
"""The rows of a batch, each with its ``applicant`` and ``reference``, or with the error that it is ``refused`` for."""


def request_of(space: FeatureSpace, question: Question, deadline_ms: int) -> Json:
    """A request as the ledger keeps it: the applicant's record by feature name, the question with every parameter."""
    return request_of_row(space, question.to_json(), question.factual_raw, question.seed, deadline_ms)


def request_of_row(
    space: FeatureSpace, question: Json, factual_raw: Float[np.ndarray, "p"], seed: int, deadline_ms: int
) -> Json:
    """The request of one applicant of a batch, as the ledger keeps it.

    Parameters
    ----------
    question : the question as JSON, which all applicants of the batch share
    """
    return {
        "applicant": space.record(factual_raw),
        "question": {**question, "factual_raw": factual_raw.tolist(), "seed": seed},
        "deadline_ms": deadline_ms,
    }


def job_payload(ref: ModelRef, question: Case, frame: Json, key: str | None = None) -> Json:
    """The payload of a job that answers a question, without the store of models, which each server adds.

    Parameters
    ----------
    key : id of the API key that submits the job
    """
    return {"model": model_payload(ref), "question": question.to_json(), "frame": frame, "key": key}
