"""The questions that child processes compute, as records that go through a pipe or are kept in a database."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_type_hints

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter

from app.compute.answers import Json
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import Wishes
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import FeatureSpace
from app.recourse.frontier import FUTURE_VALIDITY
from app.recourse.method import MethodParams
from app.recourse.plans.corrector import CorrectionParams
from app.recourse.problem import Robustness
from app.recourse.reasons import ReasonsParams
from app.recourse.solve import METHODS
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel

if TYPE_CHECKING:
    from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where models are and how far they are trusted, and where the ledger is."""

    root: str
    trust: Trust = field(default_factory=Trust)
    ledger: str = field(default="", repr=False)
    """The address of its database, which may hold a password."""

    @classmethod
    def of(cls, settings: "Settings", *, ledger: str = "") -> "Store":
        """What the settings say about models, and the address of the ledger."""
        return cls(root=str(settings.models_store.absolute()), trust=Trust.of(settings), ledger=ledger)

    def open(self) -> Registry:
        """The registry: one in each process, so that what it has read of versions is read once."""
        return _registry(self)


@cache
def _registry(store: Store) -> Registry:
    return Registry(Path(store.root), store.trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Exactly one registration of a model; another one under the same name is another reference."""

    store: Store
    name: str
    """`id@version`"""
    sha256: str
    registered_at: str

    @classmethod
    def of(cls, store: Store, model: RegisteredModel) -> "ModelRef":
        """The reference to a registered model."""
        return cls(
            store=store,
            name=model.name,
            sha256=model.sha256,
            registered_at=model.registered_at.isoformat(),
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierQuestion(Question):
    """The same at several values of one parameter of the method."""

    parameter: str
    """One of the method's knobs."""
    values: tuple[float, ...]
    """Distinct, each within the limits of the parameter."""

    @property
    def takes_long(self) -> bool:
        """Every curve."""
        return True

    @property
    def needs_future_models(self) -> bool:
        """As for every question, and where the frontier is over future validity."""
        return self.parameter == FUTURE_VALIDITY or self.robustness.future_validity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonsQuestion(Case):
    """Why the model refuses a record."""

    reasons: ReasonsParams


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityQuestion(Case):
    """The certificates of records that the caller supplies."""

    rows_raw: Float[np.ndarray, "n p"] = field(default_factory=lambda: np.empty((0, 0)))
    """Their raw rows; empty until the records have been checked against the model's schema."""

    @classmethod
    def about(cls, question: Case, rows_raw: Float[np.ndarray, "n p"]) -> "ValidityQuestion":
        """The question whether these rows are valid, under the conditions of `question`."""
        return cls(
            factual_raw=question.factual_raw,
            rows_raw=rows_raw,
            certificate=question.certificate,
            seed=question.seed,
            constraints=question.constraints,
            cost_weights=question.cost_weights,
        )

    @property
    def takes_long(self) -> bool:
        """The joint bounds of several records do."""
        return len(self.rows_raw) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionQuestion(ValidityQuestion):
    """A correction of the plan that these records form."""

    correction: CorrectionParams

    @property
    def takes_long(self) -> bool:
        """Every correction."""
        return True


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


# Now, not during the first request that names them.
for _question in (Question, FrontierQuestion, ReasonsQuestion, ValidityQuestion, CorrectionQuestion):
    _readers(_question)
_record: Any
for _record in (ReasonsParams, *(method.params for method in METHODS.values())):
    _reader(_record)


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


def model_payload(ref: ModelRef) -> Json:
    """A reference as plain data, without the store."""
    model = asdict(ref)
    del model["store"]
    return model
