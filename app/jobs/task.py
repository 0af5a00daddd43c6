"""What is computed in child processes. Plain data in, plain data out; models stay where they were loaded."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter

from app.errors import ModelUnusable, RecourseError
from app.jobs import batch
from app.jobs.answer import (
    Json,
    amended,
    answer,
    assessment,
    correction,
    curve,
    decision,
    framed,
    judged,
    swept,
)
from app.recourse.actionability import ActionSet, Constraints, action_set
from app.recourse.assess import assess
from app.recourse.blackbox import BlackBox, Meter
from app.recourse.certificate import CertificateParams
from app.recourse.correct import correct
from app.recourse.corrections import CorrectionParams
from app.recourse.frontier import frontier
from app.recourse.method import MethodParams
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.recourse.together import solve_many
from app.registry.registered import LoadedModel, RegisteredModel
from app.registry.registry import Registry
from app.remote_hosts import RemoteHost

FIRST_QUESTION_S = 10.0
"""Time for the first question to each model; a slow model is ready all the same."""

MODELS_IN_MEMORY = 8
"""Models that one child keeps loaded; the least recently used makes room."""

Progress = Callable[[int, int], None]
"""Is told how many steps are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where models are and how far they are trusted, and where the ledger is."""

    root: str
    trust_pickle: bool
    remote_hosts: tuple[RemoteHost, ...] = ()
    ledger: str = field(default="", repr=False)
    """The address of its database, which may hold a password."""

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


@lru_cache(maxsize=MODELS_IN_MEMORY)
def load(ref: ModelRef) -> LoadedModel:
    """The model that is meant, ready to be asked; whether it should be active is for the caller to know."""
    return ref.store.open().find(ref.name, include_inactive=True).load()


def prepare(store: Store) -> dict[str, str]:
    """Load the active models and ask each one question, so that no request waits for what happens only once.

    Says of each whether that worked.
    """
    active = [model for model in store.open().list() if model.active]
    return {ref.name: _try(ref) for ref in (ModelRef.of(store, model) for model in active[-MODELS_IN_MEMORY:])}


def _try(ref: ModelRef) -> str:
    try:
        refused = sample(ref, deadline_s=math.inf)
        # A question to a remote model warms nothing here, and costs.
        if refused is not None and load(ref).black_box.remote is None:
            name, method = next(iter(METHODS.items()))
            question = Question(
                factual_raw=load(ref).black_box.space.read(refused),
                constraints=Constraints(),
                cost_weights={},
                method=name,
                params=method.params(),
                certificate=CertificateParams(),
                seed=0,
            )
            recourse(ref, question, 0.0, deadline_s=FIRST_QUESTION_S)
    except RecourseError as error:
        return error.code
    return "loaded"


def recourse(ref: ModelRef, question: Question, plan_s: float = math.inf, *, deadline_s: float) -> Json:
    """The answer to one question; see `app.jobs.answer`.

    Joint bounds of a plan that take longer than `plan_s` are left as a bracket.
    """
    problem = _question_problem(ref, question, deadline_s)
    found = solve(problem, METHODS[question.method], question.params, question.certificate, plan_s=plan_s)
    return answer(problem.action_set, found)


def sweep(ref: ModelRef, asked: Sweep, *, deadline_s: float) -> Json:
    """The cost-robustness curve of one question; see `app.jobs.answer`."""
    question = asked.question
    problem = _question_problem(ref, question, deadline_s)
    method = METHODS[question.method]
    found = frontier(problem, method, question.params, asked.parameter, asked.values, question.certificate)
    return curve(problem.action_set, found)


def _question_problem(ref: ModelRef, question: Question, deadline_s: float) -> RecourseProblem:
    deadline = time.monotonic() + deadline_s
    others = {name: load(_named(ref.store, name)).black_box for name in question.params.other_models().values()}
    return replace(_problem(ref, _actions(ref, question), question, deadline), others=others)


def validity(ref: ModelRef, brought: Counterfactuals, plan_s: float, *, deadline_s: float) -> Json:
    """What counterfactuals are worth that the caller already has; see `app.jobs.answer`.

    Joint bounds that take longer than `plan_s` are left as a bracket.
    """
    deadline = time.monotonic() + deadline_s
    actions = _actions(ref, brought)
    problem = _problem(ref, actions, brought, deadline)
    return assessment(actions, assess(problem, brought.rows_raw, brought.certificate, plan_s=plan_s))


def corrected(ref: ModelRef, brought: Counterfactuals, plan_s: float, *, deadline_s: float) -> Json:
    """A plan that the caller already has, made more valid; see `app.jobs.answer`.

    What joint bounds cannot show to help within `plan_s` is not changed.
    """
    assert brought.correction is not None
    deadline = time.monotonic() + deadline_s
    actions = _actions(ref, brought)
    problem = _problem(ref, actions, brought, deadline)
    found = correct(problem, brought.rows_raw, brought.correction, brought.certificate, plan_s=plan_s)
    return correction(actions, found)


def _actions(ref: ModelRef, asked: Question | Counterfactuals) -> ActionSet:
    model = load(ref)
    return action_set(
        model.black_box.space,
        asked.factual_raw,
        constraints=asked.constraints,
        rules=model.rules,
        cost_weights=asked.cost_weights,
    )


def _problem(ref: ModelRef, actions: ActionSet, asked: Question | Counterfactuals, deadline: float) -> RecourseProblem:
    model = load(ref)
    return RecourseProblem(
        black_box=model.black_box,
        reference=model.reference,
        action_set=actions,
        siblings=tuple(sibling.by(deadline) for sibling in _siblings(ref, asked.certificate)),
        seed=asked.seed,
        deadline=deadline,
    )


def _named(store: Store, name: str) -> ModelRef:
    return ModelRef.of(store, store.open().find(name))


def _siblings(ref: ModelRef, certificate: CertificateParams) -> tuple[BlackBox, ...]:
    """The model's other active versions with the same columns, where the certificate asks for them."""
    if not (certificate.ensemble or certificate.moments == "ensemble"):
        return ()
    own = load(ref).registered
    others = [m for m in ref.store.open().list() if m.id == own.id and m.version != own.version and m.active]
    return tuple(load(ModelRef.of(ref.store, m)).black_box for m in others if m.space.same_columns(own.space))


def recourse_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`recourse`, for the question in a `job_payload`; the whole answer, as the client gets it."""
    question = Question.from_json(payload["question"])
    return framed(payload["frame"], recourse(model_asked(store, payload), question, deadline_s, deadline_s=deadline_s))


def sweep_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`sweep`, for the sweep in a `job_payload`; the whole curve, as the client gets it."""
    asked = Sweep.from_json(payload["question"])
    return swept(payload["frame"], sweep(model_asked(store, payload), asked, deadline_s=deadline_s))


def validity_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`validity`, for the records in a `job_payload`, with all the time that joint bounds take."""
    brought = Counterfactuals.from_json(payload["question"])
    found = validity(model_asked(store, payload), brought, deadline_s, deadline_s=deadline_s)
    return judged(payload["frame"], found)


def batch_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> list[str]:  # noqa: ARG001
    """One line for each of the rows in a payload of `Service.start_batch`; see `app.jobs.batch`.

    `deadline_s` is the time for all of them.
    """
    ref = model_asked(store, payload)
    common = Question.from_json(payload["question"])
    model = load(ref)
    lines: dict[int, str] = {}
    problems: dict[int, RecourseProblem] = {}
    for i, row in enumerate(payload["rows"]):
        try:
            if "refused" in row:
                raise RecourseError.from_dict(row["refused"])
            factual_raw = model.black_box.space.read(row["applicant"])
            question = replace(common, factual_raw=factual_raw, seed=batch.seed(payload, i))
            problems[i] = _question_problem(ref, question, deadline_s)
        except RecourseError as error:
            lines[i] = batch.refused(row, error)
    outcomes = solve_many(
        list(problems.values()),
        METHODS[common.method],
        common.params,
        common.certificate,
        plan_s=payload["plan_s"],
        deadline_s=deadline_s / len(payload["rows"]),
    )
    for (i, problem), outcome in zip(problems.items(), outcomes, strict=True):
        lines[i] = (
            batch.refused(payload["rows"][i], outcome)
            if isinstance(outcome, RecourseError)
            else batch.answered(payload, i, answer(problem.action_set, outcome))
        )
    return [lines[i] for i in range(len(lines))]


def correction_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`corrected`, for the records in a `job_payload`, with all the time that joint bounds take."""
    brought = Counterfactuals.from_json(payload["question"])
    return amended(payload["frame"], corrected(model_asked(store, payload), brought, deadline_s, deadline_s=deadline_s))


def job_payload(ref: ModelRef, question: Question | Sweep | Counterfactuals, frame: Json) -> Json:
    """What a job is given. Not the store: the server that computes says where models are and whom to trust."""
    return {"model": model_payload(ref), "question": question.to_json(), "frame": frame}


def audit_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:
    """The promises of a model, asked of another version; see `app.jobs.promises`."""
    # Most children never audit, so they need no database.
    from app.jobs.promises import audit

    ref = model_asked(store, payload, include_inactive=True)
    return audit(ref, payload, deadline_s=deadline_s, progress=progress)


def model_payload(ref: ModelRef) -> Json:
    """A reference as plain data, without the store."""
    model = asdict(ref)
    del model["store"]
    return model


def model_asked(store: Store, payload: Json, *, include_inactive: bool = False) -> ModelRef:
    """The model that a payload names, if it still is the one that was asked."""
    return _unchanged(ModelRef(store=store, **payload["model"]), include_inactive)


@lru_cache(maxsize=MODELS_IN_MEMORY)
def _unchanged(ref: ModelRef, include_inactive: bool) -> ModelRef:
    # Looked up once: what this child has loaded stays the model that was asked, whatever becomes of its files.
    if ref.store.open().find(ref.name, include_inactive=include_inactive).sha256 != ref.sha256:
        raise ModelUnusable(f"{ref.name} is no longer the model that was asked.")
    return ref


def predict(ref: ModelRef, rows_raw: Float[np.ndarray, "n p"], *, deadline_s: float) -> list[Json]:
    """The model's decisions about raw rows."""
    deadline = time.monotonic() + deadline_s
    return decisions(Meter(load(ref).black_box, deadline), rows_raw)


def decisions(meter: Meter, rows_raw: Float[np.ndarray, "n p"]) -> list[Json]:
    """What a model says about each raw row."""
    black_box = meter.black_box
    scores = meter.score_raw(rows_raw)
    probabilities = black_box.probability(scores)
    return [
        decision(_finite(score), None if probabilities is None else _finite(probabilities[i]))
        for i, score in enumerate(scores)
    ]


def sample(ref: ModelRef, *, deadline_s: float) -> dict[str, Any] | None:  # noqa: ARG001
    """The refused reference record that is most ordinary, by its score; None where the model refuses none."""
    reference = load(ref).reference
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


JOB_KINDS: Mapping[str, JobKind] = {
    "recourse": recourse_job,
    "frontier": sweep_job,
    "validity": validity_job,
    "batch": batch_job,
    "audit": audit_job,
    "correction": correction_job,
}
"""Every kind of job; to add one, add a line."""
