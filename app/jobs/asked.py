"""What child processes are asked, as plain data that goes through a pipe or is kept in a database."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter

from app.jobs.answer import Json
from app.recourse.actionability import Constraints
from app.recourse.certificate import CertificateParams
from app.recourse.corrections import CorrectionParams
from app.recourse.method import MethodParams
from app.recourse.solve import METHODS
from app.registry.registered import RegisteredModel
from app.registry.registry import Registry
from app.remote_hosts import RemoteHost

if TYPE_CHECKING:
    from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where models are and how far they are trusted, and where the ledger is."""

    root: str
    trust_pickle: bool
    remote_hosts: tuple[RemoteHost, ...] = ()
    ledger: str = field(default="", repr=False)
    """The address of its database, which may hold a password."""

    @classmethod
    def of(cls, settings: "Settings", *, ledger: str = "") -> "Store":
        """What the settings say about models, and the address of the ledger."""
        return cls(
            root=str(settings.models_store.absolute()),
            trust_pickle=settings.trust_pickle,
            remote_hosts=settings.remote_hosts,
            ledger=ledger,
        )

    def open(self) -> Registry:
        """The registry."""
        return Registry(Path(self.root), trust_pickle=self.trust_pickle, remote_hosts=self.remote_hosts)


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
class Question:
    """One applicant's question, already checked against the model's schema."""

    factual_raw: Float[np.ndarray, "p"]
    constraints: Constraints
    cost_weights: Mapping[str, float]
    method: str
    params: MethodParams
    certificate: CertificateParams
    seed: int

    def to_json(self) -> Json:
        """Plain data, to be kept in a database; `from_json` is its inverse."""
        return {
            "factual_raw": self.factual_raw.tolist(),
            "constraints": _CONSTRAINTS.dump_python(self.constraints, mode="json"),
            "cost_weights": dict(self.cost_weights),
            "method": self.method,
            "params": _params(self.method).dump_python(self.params, mode="json"),
            "certificate": _CERTIFICATE.dump_python(self.certificate, mode="json"),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Question":
        """The question that `to_json` described."""
        return cls(
            factual_raw=np.array(data["factual_raw"], dtype=float),
            constraints=_CONSTRAINTS.validate_python(data["constraints"]),
            cost_weights=data["cost_weights"],
            method=data["method"],
            params=_params(data["method"]).validate_python(data["params"]),
            certificate=_CERTIFICATE.validate_python(data["certificate"]),
            seed=data["seed"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One applicant's question at several values of one parameter of its method."""

    question: Question
    parameter: str
    values: tuple[float, ...]

    def to_json(self) -> Json:
        """Plain data, to be kept in a database; `from_json` is its inverse."""
        return {"question": self.question.to_json(), "parameter": self.parameter, "values": list(self.values)}

    @classmethod
    def from_json(cls, data: Json) -> "Sweep":
        """The sweep that `to_json` described."""
        question = Question.from_json(data["question"])
        return cls(question=question, parameter=data["parameter"], values=tuple(data["values"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactuals:
    """Records that somebody has, and the applicant they are for; checked against the model's schema."""

    factual_raw: Float[np.ndarray, "p"]
    rows_raw: Float[np.ndarray, "n p"]
    certificate: CertificateParams
    seed: int
    constraints: Constraints = field(default_factory=Constraints)
    """Decide what the certificate's local model is about, and where a correction may go."""
    cost_weights: Mapping[str, float] = field(default_factory=dict)
    correction: CorrectionParams | None = None
    """None where they are only judged."""

    def to_json(self) -> Json:
        """Plain data, to be kept in a database; `from_json` is its inverse."""
        return {
            "factual_raw": self.factual_raw.tolist(),
            "rows_raw": self.rows_raw.tolist(),
            "certificate": _CERTIFICATE.dump_python(self.certificate, mode="json"),
            "seed": self.seed,
            "constraints": _CONSTRAINTS.dump_python(self.constraints, mode="json"),
            "cost_weights": dict(self.cost_weights),
            "correction": _CORRECTION.dump_python(self.correction, mode="json"),
        }

    @classmethod
    def from_json(cls, data: Json) -> "Counterfactuals":
        """The records that `to_json` described."""
        return cls(
            factual_raw=np.array(data["factual_raw"], dtype=float),
            rows_raw=np.array(data["rows_raw"], dtype=float),
            certificate=_CERTIFICATE.validate_python(data["certificate"]),
            seed=data["seed"],
            # Jobs from before these existed have none.
            constraints=_CONSTRAINTS.validate_python(data.get("constraints", {})),
            cost_weights=data.get("cost_weights", {}),
            correction=_CORRECTION.validate_python(data.get("correction")),
        )


@cache
def _params(method: str) -> TypeAdapter[MethodParams]:
    """Made once for each method: making one takes longer than an answer."""
    params: type[MethodParams] = METHODS[method].params
    return TypeAdapter(params)


_CONSTRAINTS = TypeAdapter(Constraints)
_CERTIFICATE = TypeAdapter(CertificateParams)
_CORRECTION: TypeAdapter[CorrectionParams | None] = TypeAdapter(CorrectionParams | None)


def job_payload(ref: ModelRef, question: Question | Sweep | Counterfactuals, frame: Json) -> Json:
    """What a job is given. Not the store: the server that computes says where models are and whom to trust."""
    return {"model": model_payload(ref), "question": question.to_json(), "frame": frame}


def model_payload(ref: ModelRef) -> Json:
    """A reference as plain data, without the store."""
    model = asdict(ref)
    del model["store"]
    return model
