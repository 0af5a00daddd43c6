"""The kinds of jobs: each reads its payload, as it was kept in the database, and has `app.jobs.task` compute it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from app.errors import ModelUnusable, RecourseError
from app.jobs import batch, task
from app.jobs.answer import Json, amended, answer, framed, judged, swept
from app.jobs.asked import Counterfactuals, ModelRef, Question, Store, Sweep
from app.jobs.job import Progress
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS
from app.recourse.together import solve_many


def recourse_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`task.recourse`, for the question in a `job_payload`; the whole answer, as the client gets it."""
    question = Question.from_json(payload["question"])
    found = task.recourse(_model_asked(store, payload), question, deadline_s, deadline_s=deadline_s)
    return framed(payload["frame"], found)


def sweep_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`task.sweep`, for the sweep in a `job_payload`; the whole curve, as the client gets it."""
    asked = Sweep.from_json(payload["question"])
    return swept(payload["frame"], task.sweep(_model_asked(store, payload), asked, deadline_s=deadline_s))


def validity_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """`task.validity`, for the records in a `job_payload`, with all the time that joint bounds take."""
    brought = Counterfactuals.from_json(payload["question"])
    found = task.validity(_model_asked(store, payload), brought, deadline_s, deadline_s=deadline_s)
    return judged(payload["frame"], found)


def batch_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> list[str]:  # noqa: ARG001
    """One line for each of the rows in a payload of `Service.start_batch`; see `app.jobs.batch`.

    `deadline_s` is the time for all of them.
    """
    ref = _model_asked(store, payload)
    common = Question.from_json(payload["question"])
    model = task.load(ref)
    lines: dict[int, str] = {}
    problems: dict[int, RecourseProblem] = {}
    for i, row in enumerate(payload["rows"]):
        try:
            if "refused" in row:
                raise RecourseError.from_dict(row["refused"])
            factual_raw = model.black_box.space.read(row["applicant"])
            question = replace(common, factual_raw=factual_raw, seed=batch.seed(payload, i))
            problems[i] = task.question_problem(ref, question, deadline_s)
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
    """`task.corrected`, for the records in a `job_payload`, with all the time that joint bounds take."""
    brought = Counterfactuals.from_json(payload["question"])
    found = task.corrected(_model_asked(store, payload), brought, deadline_s, deadline_s=deadline_s)
    return amended(payload["frame"], found)


def audit_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:
    """The promises of a model, asked of another version; see `app.jobs.promises`."""
    # Most children never audit, so they need no database.
    from app.jobs.promises import audit

    ref = _model_asked(store, payload, include_inactive=True)
    return audit(ref, payload, deadline_s=deadline_s, progress=progress)


def ready(store: Store, payload: Json) -> None:
    """`task.ready`, for the model that a payload names, if it still is the one that was asked."""
    task.ready(_model_asked(store, payload, include_inactive=True))


def _model_asked(store: Store, payload: Json, *, include_inactive: bool = False) -> ModelRef:
    """The model that a payload names, if it still is the one that was asked."""
    return _unchanged(ModelRef(store=store, **payload["model"]), include_inactive)


@lru_cache(maxsize=task.MODELS_IN_MEMORY)
def _unchanged(ref: ModelRef, include_inactive: bool) -> ModelRef:
    # Looked up once: what this child has loaded stays the model that was asked, whatever becomes of its files.
    if ref.store.open().find(ref.name, include_inactive=include_inactive).sha256 != ref.sha256:
        raise ModelUnusable(f"{ref.name} is no longer the model that was asked.")
    return ref


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
