"""The kinds of jobs: each reads its payload, as it was kept in the database, and computes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol

from app.errors import ModelUnusable, RecourseError
from app.jobs import lines as batch_lines
from app.jobs.job import BATCH
from app.models import tasks
from app.pool.serve import Progress, Written
from app.questions import recourse, use_cases
from app.questions.answers import Json, plain
from app.questions.frame import Frame, identity
from app.questions.question import Question
from app.questions.use_cases import USE_CASES
from app.recourse.problem import RecourseProblem
from app.recourse.solve_many import together
from app.registry.ref import ModelRef, Store


def answer_job(name: str, store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """The answer to the question in a `job_payload`; the joint bounds of a plan may take the whole time of the job.

    Parameters
    ----------
    name : name of the use case that the question belongs to
    """
    question = USE_CASES[name].question.from_json(payload["question"])
    frame = Frame.from_json(payload["frame"])
    return use_cases.answer(_model_asked(store, payload), name, question, frame, deadline_s, deadline_s=deadline_s)


def batch_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> list[str]:  # noqa: ARG001
    """One result line for each row in the payload of a batch; `app.jobs.lines` describes the lines.

    `deadline_s` is the time in seconds for all these rows together.
    """
    ref = _model_asked(store, payload)
    common = Question.from_json(payload["question"])
    model = tasks.load(ref)
    lines: dict[int, str] = {}
    problems: dict[int, RecourseProblem] = {}
    for i, row in enumerate(payload["rows"]):
        try:
            if "refused" in row:
                raise RecourseError.from_dict(row["refused"])
            factual_raw = model.black_box.space.read(row["applicant"], pointer="/applicant")
            question = replace(common, factual_raw=factual_raw, seed=batch_lines.seed(payload, i))
            like = next(iter(problems.values()), None)
            problems[i] = use_cases.problem(ref, question, deadline_s, like)
        except RecourseError as error:
            lines[i] = batch_lines.refused(row, error)
    found = together(
        list(problems.values()),
        partial(recourse.compute, question=common, plan_s=payload["plan_s"]),
        deadline_s=deadline_s / len(payload["rows"]),
    )
    for (i, problem), one in zip(problems.items(), found, strict=True):
        if isinstance(one, RecourseError):
            lines[i] = batch_lines.refused(payload["rows"][i], one)
            continue
        answer = recourse.render(batch_lines.frame(payload, i), problem.action_set, one)
        lines[i] = batch_lines.answered(answer, scores=payload["frame"].get("scores", True))
    return [lines[i] for i in range(len(lines))]


def audit_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:
    """The result of an audit: how many promises of a model another version of the model keeps."""
    # Most children never audit, so they need no database.
    from app.ledger.audits import audit

    ref = _model_asked(store, payload, include_inactive=True)
    return audit(ref, payload, deadline_s=deadline_s, progress=progress)


def comparison_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> list[str]:  # noqa: ARG001
    """One result line for each row of a comparison of versions.

    Instead of rows, the payload may have ``lines``: the path of a file with the lines of all rows. Then there is one
    line, which is the result of the whole comparison.
    """
    # Most children never compare.
    from app.portfolio import comparison, comparison_lines

    baseline = _model_asked(store, payload, include_inactive=True)
    candidate = _model_asked(store, {"model": payload["candidate"]}, include_inactive=True)
    if "lines" in payload:
        with open(payload["lines"], encoding="utf-8") as lines:
            return [batch_lines.line_of(comparison.reduced(baseline, candidate, payload, lines))]
    return _as_lines(payload, comparison_lines.lines(baseline, candidate, payload))


def report_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> list[str]:  # noqa: ARG001
    """One result line for each row of a portfolio report.

    Instead of rows, the payload may have ``lines``: the path of a file with the lines of all rows. Then there is one
    line, which is the whole report.
    """
    # Most children never report.
    from app.portfolio import report_figures, report_lines

    ref = _model_asked(store, payload, include_inactive=True)
    if "lines" in payload:
        with open(payload["lines"], encoding="utf-8") as lines:
            return [batch_lines.line_of(report_figures.reduced(ref, payload, lines))]
    return _as_lines(payload, report_lines.lines(ref, payload))


def _as_lines(payload: Json, lines: Sequence[Any]) -> list[str]:
    return [
        batch_lines.refused(row, found) if isinstance(found, RecourseError) else batch_lines.line_of(plain(found))
        for row, found in zip(payload["rows"], lines, strict=True)
    ]


def futures_job(store: Store, payload: Json, *, deadline_s: float, progress: Progress) -> Json:  # noqa: ARG001
    """Make the future models of a version, and return their status as JSON.

    A repeated job continues after the last future model that was made.
    """
    # Most children never train, so they need none of it.
    from app.futures.rehearsal import rehearse
    from app.futures.spec import Choices
    from app.futures.store import status

    ref = _model_asked(store, payload, include_inactive=True)
    model = store.open().find(ref.name, include_inactive=True)
    rehearse(model, Choices(**payload["choices"]), progress=progress)
    return {"model": plain(identity(model)), "futures": status(model)}


def written_lines(kind: "JobKind", store: Store, payload: Json, **options: Any) -> Written:
    """The lines that a kind of job computes, as one text; within the JSON of a reply each quote would be escaped."""
    return Written({}, {"lines": "\n".join(kind(store, payload, **options)).encode()})


def ready(store: Store, payload: Json) -> list[str]:
    """Load the model that a payload names, and return the names of the models that the process dropped to make room.

    Raises `ModelUnusable` if the name of the model now belongs to another registration.
    """
    return tasks.ready(_model_asked(store, payload, include_inactive=True))


def _model_asked(store: Store, payload: Json, *, include_inactive: bool = False) -> ModelRef:
    """The model that a payload names, if it still is the one that was asked."""
    return _unchanged(ModelRef(store=store, **payload["model"]), include_inactive)


@lru_cache(maxsize=1000)
def _unchanged(ref: ModelRef, include_inactive: bool) -> ModelRef:
    # Looked up once: what this child has loaded stays the model that was asked, whatever becomes of its files.
    if ref.store.open().find(ref.name, include_inactive=include_inactive).sha256 != ref.sha256:
        raise ModelUnusable(f"{ref.name} is no longer the model that was asked.")
    return ref


AUDIT = "audit"
"""The kind of jobs that check promises again."""

COMPARISON = "comparison"
"""The kind of jobs that compare two versions."""

REPORT = "report"
"""The kind of jobs that report who has recourse."""

CLOSED = frozenset({COMPARISON, REPORT})
"""Kinds with a line for each record, and a last part that makes the figures of all lines."""

FUTURES = "futures"
"""The kind of jobs that make future models."""


class JobKind(Protocol):
    """The function of one kind of job, run by a child process. It gets and returns JSON, and may report progress."""

    def __call__(self, store: Store, payload: Json, /, *, deadline_s: float, progress: Progress) -> Any:
        """The result of the job."""


JOB_KINDS: Mapping[str, JobKind] = {
    **{name: partial(answer_job, name) for name in USE_CASES},
    BATCH: batch_job,
    AUDIT: audit_job,
    COMPARISON: comparison_job,
    REPORT: report_job,
    FUTURES: futures_job,
}
"""Every kind of job: the use cases, batches, audits, comparisons, reports and future models."""
