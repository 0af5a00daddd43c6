"""What a version of a model answers the people whom it refuses, and what is proven where it finds nothing."""

from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float

from app.errors import ModelOutputInvalid, RecourseError
from app.portfolio.preclusion import Preclusion, preclusion
from app.questions import recourse, use_cases
from app.questions.answers import Json
from app.questions.question import Question
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import AnswerPart
from app.recourse.models.black_box import BlackBox
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.solve import METHODS
from app.recourse.solve_many import solve_many
from app.recourse.verdict import Reason
from app.registry.ref import ModelRef
from app.registry.version import LoadedModel

LEAST = 30
"""Fewest people behind a test: with fewer there is no p."""

YES, NO = "accepted", "refused"
"""Decisions."""

Row: TypeAlias = Float[np.ndarray, "p"]
"""A raw row."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(AnswerPart):
    """A version's answer to one person: status, proof, cost and names of changed features, without their values."""

    status: Literal["found", "not_found"]
    reason: str | None
    """Why the search found nothing; also where the proof found what the search had missed."""
    proof: str | None
    """`enumerated` or `optimised`: no legal record is accepted; null without a proof."""
    accepted_share_at_most: float | None
    """Where nothing was found nor proven: 95 % bound on the share of legal records that are accepted."""
    cost: float | None
    """In the cost units of the version, of a comparison in the baseline's."""
    changes: int | None
    months: float | None
    future_validity: float | None
    """Share of the version's held-back future models that accept the answer."""
    levers: tuple[str, ...]
    """Features that the answer changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A person's problem, the answer, and what is known where the search found nothing."""

    problem: RecourseProblem
    found: RecourseResult
    known: Preclusion | None = None
    """What a proof has shown where the search found nothing."""
    reason: Reason | None = None
    """Why the search found nothing."""

    @property
    def actions(self) -> ActionSet:
        """The action set of the person."""
        return self.problem.action_set

    @property
    def row_raw(self) -> Row | None:
        """The raw row that the answer advises, or an accepted one that is no answer; None without either."""
        if self.found.counterfactuals:
            return self.found.counterfactuals[0].row_raw
        return None if self.known is None else self.known.row_raw

    @property
    def calls(self) -> int:
        """Number of model calls that the answer took."""
        return self.found.diagnostics.model_calls or 0

    @property
    def rows(self) -> int:
        """Number of records that the model was asked about, in the search and for a proof."""
        return (self.found.diagnostics.model_rows or 0) + (0 if self.known is None else self.known.asked)

    def answered(self, unit: ActionSet) -> Answered:
        """The answer as it is counted, without values of features.

        Parameters
        ----------
        unit : action set in whose spreads the cost is measured, since spreads differ by version
        """
        row_raw, known = self.row_raw, self.known
        best = self.found.counterfactuals[0] if self.found.counterfactuals else None
        changed = () if row_raw is None else unit.changes(row_raw)
        return Answered(
            status="not_found" if row_raw is None else "found",
            reason=None if self.reason is None else self.reason.value,
            proof=None if known is None else known.proof,
            accepted_share_at_most=None if known is None else known.accepted_share_at_most,
            cost=None if row_raw is None else float(unit.cost(row_raw[None])[0]),
            changes=None if row_raw is None else len(changed),
            months=None if row_raw is None else float(unit.clock.total(row_raw[None])[0]),
            future_validity=None if best is None or best.future is None else best.future.probability,
            levers=tuple(unit.space.features[j].name for j in changed),
        )


def row_raw_of(model: LoadedModel, row: Json) -> Row:
    """The raw row of the person whom a row of a job is about.

    The row of the job names a reference record, or holds an applicant's record. Where it holds an error instead, this
    error is raised.
    """
    if "refused" in row:
        raise RecourseError.from_dict(row["refused"])
    if "reference_row" in row:
        found: Row = model.reference.rows_raw[row["reference_row"]]
        return found
    return model.black_box.space.read(row["applicant"], pointer="/applicant")


def decide(black_box: BlackBox, rows_raw: Mapping[int, Row]) -> dict[int, float | ModelOutputInvalid]:
    """The score of each raw row by the row's key, from one call; in place of a score that is not finite, an error."""
    if not rows_raw:
        return {}
    scores = Meter(black_box, float("inf")).score_raw(np.array(list(rows_raw.values()))).tolist()
    return {i: score if np.isfinite(score) else ModelOutputInvalid() for i, score in zip(rows_raw, scores, strict=True)}


def accepts(black_box: BlackBox, score: float) -> bool:
    """Whether the model accepts a record that has this score."""
    return bool(black_box.accepts(np.array([score]))[0])


def without_errors(found: Mapping[int, Found | RecourseError], errors: MutableMapping[int, Any]) -> dict[int, Found]:
    """The entries of `found` that are no errors; those that are errors are added to `errors`."""
    errors.update({i: one for i, one in found.items() if isinstance(one, RecourseError)})
    return {i: one for i, one in found.items() if not isinstance(one, RecourseError)}


@dataclass(slots=True)
class Unanswered:
    """Counts of the people for whom the search found nothing, by what is known of them."""

    proven: Counter[str] = field(default_factory=Counter)
    """Without recourse, by the kind of proof."""
    open: int = 0
    missed_by_search: int = 0
    accepted_share_at_most: float | None = None
    late: int = 0

    def add(self, one: Json) -> None:
        """Count one person's `Answered`, given as plain data.

        Where the search found recourse, only a missed deadline is counted.
        """
        self.late += one["reason"] == Reason.DEADLINE
        if one["status"] == "found":
            self.missed_by_search += one["reason"] is not None
        elif one["proof"] is not None:
            self.proven[one["proof"]] += 1
        else:
            self.open += 1
        if one["accepted_share_at_most"] is not None:
            self.accepted_share_at_most = max(self.accepted_share_at_most or 0.0, one["accepted_share_at_most"])

    def warnings(self) -> list[str]:
        """A list with one sentence, how many answers ran out of time; empty where none did."""
        return [f"{self.late:,} answers ran out of time and count as not found."] if self.late else []


def answers(
    ref: ModelRef, common: Question, payload: Json, rows_raw: Mapping[int, Row]
) -> dict[int, Asked | RecourseError]:
    """A version's answer to each person, or the error that prevents an answer; the version must refuse all of them.

    Parameters
    ----------
    payload : payload of the job; the person with key `i` has the seed ``common.seed + payload["first"] + i``
    rows_raw : raw row of each person, by key
    """
    answered: dict[int, Asked | RecourseError] = {}
    problems = {}
    for i, row_raw in rows_raw.items():
        try:
            question = replace(common, factual_raw=row_raw, seed=common.seed + payload["first"] + i)
            problems[i] = _unstressed(use_cases.problem(ref, question, payload["deadline_s"]))
        except RecourseError as error:
            answered[i] = error
    # No figure is of a certificate, or of the order of changes.
    outcomes = solve_many(
        list(problems.values()), METHODS[common.method], common.params, deadline_s=payload["deadline_s"], steps=False
    )
    for (i, problem), outcome in zip(problems.items(), outcomes, strict=True):
        if isinstance(outcome, RecourseError):
            answered[i] = outcome
            continue
        known, reason = None, None if outcome.verdict is None else outcome.verdict.reason
        if reason is not None and reason not in recourse.UNKNOWN:
            known = preclusion(problem.black_box, problem.reference, problem.action_set)
            if known.row_raw is not None:
                outcome = recourse.with_record(problem, outcome, known.row_raw, common, payload["plan_s"])
        answered[i] = Asked(problem=problem, found=outcome, known=known, reason=reason)
    return answered


def _unstressed(problem: RecourseProblem) -> RecourseProblem:
    """The same question without models under stress, where it does not ask for them: no figure is about these."""
    if problem.futures is None or problem.future_validity is not None:
        return problem
    return replace(problem, futures=replace(problem.futures, stressed=None))
