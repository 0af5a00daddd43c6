"""What is computed in child processes. Plain data in, plain data out; models stay where they were loaded."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter

from app.errors import ModelUnusable, RecourseError
from app.jobs.answer import Json, answer, assessment, decision, framed, judged
from app.recourse.actionability import ActionSet, Constraints, action_set
from app.recourse.assess import assess
from app.recourse.blackbox import BlackBox
from app.recourse.certificate import CertificateParams
from app.recourse.method import MethodParams
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.registered import LoadedModel, RegisteredModel
from app.registry.registry import Registry

FIRST_QUESTION_S = 10.0
"""Time for the first question to each model; a slow model is ready all the same."""

MODELS_IN_MEMORY = 8
"""Models that one child keeps loaded; the least recently used makes room."""

Progress = Callable[[int, int], None]
"""Is told how many steps are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where models are and how far they are trusted."""

    root: str
    trust_pickle: bool

    def open(self) -> Registry:
        """The registry."""
        return Registry(Path(self.root), trust_pickle=self.trust_pickle)


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
            "params": TypeAdapter(type(self.params)).dump_python(self.params, mode="json"),
            "certificate": _CERTIFICATE.dump_python(self.certificate, mode="json"),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Question":
        """The question that `to_json` described."""
        params: type[MethodParams] = METHODS[data["method"]].params
        return cls(
            factual_raw=np.array(data["factual_raw"], dtype=float),
            constraints=_CONSTRAINTS.validate_python(data["constraints"]),
            cost_weights=data["cost_weights"],
            method=data["method"],
            params=TypeAdapter(params).validate_python(data["params"]),
            certificate=_CERTIFICATE.validate_python(data["certificate"]),
            seed=data["seed"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactuals:
    """Records that somebody has, and the applicant they are for; checked against the model's schema."""

    factual_raw: Float[np.ndarray, "p"]
    rows_raw: Float[np.ndarray, "n p"]
    certificate: CertificateParams
    seed: int

    def to_json(self) -> Json:
        """Plain data, to be kept in a database; `from_json` is its inverse."""
        return {
            "factual_raw": self.factual_raw.tolist(),
            "rows_raw": self.rows_raw.tolist(),
            "certificate": _CERTIFICATE.dump_python(self.certificate, mode="json"),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Counterfactuals":
        """The records that `to_json` described."""
        return cls(
            factual_raw=np.array(data["factual_raw"], dtype=float),
            rows_raw=np.array(data["rows_raw"], dtype=float),
            certificate=_CERTIFICATE.validate_python(data["certificate"]),
            seed=data["seed"],
        )


_CONSTRAINTS = TypeAdapter(Constraints)
_CERTIFICATE = TypeAdapter(CertificateParams)


@lru_cache(maxsize=MODELS_IN_MEMORY)
def _load(ref: ModelRef) -> LoadedModel:
    return ref.store.open().find(ref.name).load()


def prepare(store: Store) -> dict[str, str]:
    """Load the active models and ask each one question, so that no request waits for what happens only once.

    Says of each whether that worked.
    """
    active = [model for model in store.open().list() if not model.retired]
    return {ref.name: _try(ref) for ref in (ModelRef.of(store, model) for model in active[-MODELS_IN_MEMORY:])}


def _try(ref: ModelRef) -> str:
    try:
        refused = sample(ref, deadline_s=math.inf)
        if refused is not None:
            name, method = next(iter(METHODS.items()))
            question = Question(
                factual_raw=_load(ref).black_box.space.read(refused),
                constraints=Constraints(),
                cost_weights={},
                method=name,
                params=method.params(),
                certificate=CertificateParams(),
                seed=0,
            )
            recourse(ref, question, deadline_s=FIRST_QUESTION_S)
    except RecourseError as error:
        return error.code
    return "loaded"


def recourse(ref: ModelRef, question: Question, *, deadline_s: float) -> Json:
    """The answer to one question; see `app.jobs.answer`."""
    deadline = time.monotonic() + deadline_s
    model = _load(ref)
    actions = action_set(
        model.black_box.space,
        question.factual_raw,
        constraints=question.constraints,
        rules=model.rules,
        cost_weights=question.cost_weights,
    )
    problem = _problem(ref, actions, question, deadline)
    return answer(actions, solve(problem, METHODS[question.method], question.params, question.certificate))


def validity(ref: ModelRef, brought: Counterfactuals, plan_s: float, *, deadline_s: float) -> Json:
    """What counterfactuals are worth that the caller already has; see `app.jobs.answer`.

    Joint bounds that take longer than `plan_s` are left as a bracket.
    """
    deadline = time.monotonic() + deadline_s
    actions = action_set(_load(ref).black_box.space, brought.factual_raw)
    problem = _problem(ref, actions, brought, deadline)
    return assessment(actions, assess(problem, brought.rows_raw, brought.certificate, plan_s=plan_s))


def _problem(ref: ModelRef, actions: ActionSet, asked: Question | Counterfactuals, deadline: float) -> RecourseProblem:
    model = _load(ref)
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=actions,
        siblings=_siblings(ref, asked.certificate),
        seed=asked.seed,
        deadline=deadline,
    )


def _siblings(ref: ModelRef, certificate: CertificateParams) -> tuple[BlackBox, ...]:
    """The model's other active versions with the same columns, where the certificate asks for them."""
    if not (certificate.ensemble or certificate.moments == "ensemble"):
        return ()
    own = _load(ref).registered
    others = [m for m in ref.store.open().list() if m.id == own.id and m.version != own.version and not m.retired]
    return tuple(_load(ModelRef.of(ref.store, m)).black_box for m in others if m.space.same_columns(own.space))


def recourse_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`recourse`, for the question in a `job_payload`; the whole answer, as the client gets it."""
    question = Question.from_json(payload["question"])
    return framed(payload["frame"], recourse(_asked(store, payload), question, deadline_s=deadline_s))


def validity_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`validity`, for the records in a `job_payload`, with all the time that joint bounds take."""
    brought = Counterfactuals.from_json(payload["question"])
    found = validity(_asked(store, payload), brought, deadline_s, deadline_s=deadline_s)
    return judged(payload["frame"], found)


def job_payload(ref: ModelRef, question: Question | Counterfactuals, frame: Json) -> Json:
    """What a job is given. Not the store: the server that computes says where models are and whom to trust."""
    model = asdict(ref)
    del model["store"]
    return {"model": model, "question": question.to_json(), "frame": frame}


def _asked(store: Store, payload: Json) -> ModelRef:
    """The model that a payload names, if it still is the one that was asked."""
    model = payload["model"]
    if store.open().find(model["name"]).sha256 != model["sha256"]:
        raise ModelUnusable(f"{model['name']} is no longer the model that was asked.")
    return ModelRef(store=store, **model)


def predict(ref: ModelRef, rows_raw: Float[np.ndarray, "n p"], *, deadline_s: float) -> list[Json]:  # noqa: ARG001
    """The model's decisions about raw rows."""
    black_box = _load(ref).black_box
    scores = black_box.score_raw(rows_raw)
    probabilities = black_box.probability(scores)
    return [
        decision(_finite(score), None if probabilities is None else _finite(probabilities[i]))
        for i, score in enumerate(scores)
    ]


def sample(ref: ModelRef, *, deadline_s: float) -> dict[str, Any] | None:  # noqa: ARG001
    """The refused reference record that is most ordinary, by its score; None where the model refuses none."""
    reference = _load(ref).reference
    refused = np.flatnonzero(reference.scores < 0.0)
    if not refused.size:
        return None
    middle = refused[np.argsort(reference.scores[refused], kind="stable")[refused.size // 2]]
    return reference.space.record(reference.rows_raw[middle])


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


class JobKind(Protocol):
    """What a child computes for a kind of job: JSON in, JSON out, within a time, now and then telling how far it is."""

    def __call__(self, store: Store, payload: Json, /, *, deadline_s: float, progress: Progress) -> Any:
        """The result of the job."""


JOB_KINDS: Mapping[str, JobKind] = {"recourse": recourse_job, "validity": validity_job}
"""Every kind of job; to add one, add a line."""
