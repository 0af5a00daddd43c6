"""The questions that child processes compute, as records that go through a pipe or are kept in a database."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Self, get_type_hints

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One applicant, and under which conditions something is asked about them."""

    factual_raw: Float[np.ndarray, "p"] = field(default_factory=lambda: np.empty(0))
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
        """Whether the answer takes many times as long as most."""
        return False

    def to_json(self) -> Json:
        """Plain data, to be kept in a database; `from_json` is its inverse."""
        return {f.name: _stored(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The question that `to_json` described; what a job of an earlier release lacks has its default."""
        # mypy takes no class for hashable.
        readers = _readers(cls)  # type: ignore[arg-type]
        read = {name: reader(data[name]) for name, reader in readers.items() if name in data}
        if "params" in read:
            params: Any = METHODS[data["method"]].params
            read["params"] = _reader(params).validate_python(data["params"])
        return cls(**read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Case):
    """What the applicant could change, by one method."""

    method: str
    params: MethodParams
    robustness: Robustness = field(default_factory=Robustness)
    wishes: Wishes = field(default_factory=Wishes)
    """What no answer proposes, and what every answer includes."""
    count: int = 1
    """Ways that differ in what is changed."""
    reasons: ReasonsParams | None = None
    """Which reasons for the refusal the answer states; None for none."""

    @property
    def takes_long(self) -> bool:
        """Some methods do, and several ways and future validity with every method."""
        searches = self.count > 1 or self.robustness.future_validity is not None
        return METHODS[self.method].takes_long or searches

    @property
    def needs_future_models(self) -> bool:
        """Whether it can be answered only for a model that has future models."""
        return self.robustness.future_validity is not None


def _stored(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        record: Any = type(value)
        return _reader(record).dump_python(value, mode="json")
    return value


@cache
def _reader(record: Any) -> TypeAdapter[Any]:
    """Made once for each record: making one takes longer than an answer."""
    return TypeAdapter(record)


def _array(values: Any) -> Float[np.ndarray, "..."]:
    return np.array(values, dtype=float)


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _readers(question: type[Case]) -> Mapping[str, Callable[[Any], Any]]:
    """How each field is read from plain data; `params` as it is, since only the method knows its record."""
    hints = get_type_hints(question)
    return {f.name: _reader_of(hints[f.name]) for f in fields(question)}


def _reader_of(annotation: Any) -> Callable[[Any], Any]:
    if annotation is MethodParams:
        return _as_it_is
    return _array if hasattr(annotation, "array_type") else _reader(annotation).validate_python


def read_ahead(question: type[Case]) -> None:
    """Make what reads a question from plain data now, not during the first request that names it."""
    _readers(question)  # type: ignore[arg-type]  # mypy takes no class for hashable


_params: Any
for _params in (ReasonsParams, *(method.params for method in METHODS.values())):
    _reader(_params)


def request_of(space: FeatureSpace, question: Question, deadline_ms: int) -> Json:
    """A request as it was resolved: the record by feature, and the question with every parameter."""
    return request_of_row(space, question.to_json(), question.factual_raw, question.seed, deadline_ms)


def request_of_row(
    space: FeatureSpace, question: Json, factual_raw: Float[np.ndarray, "p"], seed: int, deadline_ms: int
) -> Json:
    """The same of one of many applicants, from what `Question.to_json` says of all of them."""
    return {
        "applicant": space.record(factual_raw),
        "question": {**question, "factual_raw": factual_raw.tolist(), "seed": seed},
        "deadline_ms": deadline_ms,
    }


def job_payload(ref: ModelRef, question: Case, frame: Json, key: str | None = None) -> Json:
    """The input of a job, without the store: the server that computes decides where models are and which to trust.

    `key` is the id of the API key that submits it.
    """
    return {"model": model_payload(ref), "question": question.to_json(), "frame": frame, "key": key}
