"""Recourse that was given: what the ledger keeps of it, and whether a model still accepts it."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

import numpy as np
import sqlalchemy as sa

from app.errors import DeadlineExceeded, Erased, InvalidRequest, LedgerUnavailable, ModelUnusable, RecourseError
from app.jobs import task
from app.jobs.answer import Json, encoded, framed, identity
from app.jobs.asked import ModelRef, Question, Store, model_payload
from app.jobs.job import Progress
from app.recourse.blackbox import Meter
from app.recourse.features import FeatureSpace
from app.registry.registered import RegisteredModel
from app.store.chain import Particulars
from app.store.engine import open_engine
from app.store.ledger import Given, Ledger, Promises, Record

REISSUE_S = 5.0
"""Time for each new answer in place of a broken promise."""

AUDIT_SHARE = 0.95
"""Share of its time in which an audit takes up promises; of those left it says how many they are."""

REPLAY_S = 60.0
"""Time for an answer that is computed again."""

REFUSED = "refused"
"""The model says no."""

DOES_NOT_FIT = "does_not_fit"
"""The record is none of the model's schema: a feature is new, a limit is tighter."""


# --- what is kept ----------------------------------------------------------------------------------------------------


def kept_request(space: FeatureSpace, question: Question, deadline_ms: int) -> Json:
    """A request as it was resolved: the record by feature, and the question with every parameter."""
    return {
        "applicant": space.record(question.factual_raw),
        "question": question.to_json(),
        "deadline_ms": deadline_ms,
    }


def given(answer: Json, request: Json, job: str | None = None, *, told: bytes | None = None) -> Given:
    """What the ledger keeps of an answer that is about to be sent; `told` is its bytes, where they are known."""
    model = answer["model"]
    return Given(
        id=answer["id"],
        at=answer["created_at"],
        expires_at=answer["expires_at"],
        model=model["id"],
        version=model["version"],
        sha256=model["sha256"],
        status=answer["status"],
        particulars=Particulars(
            reference=answer["reference"],
            job=job,
            request=encoded(request),
            answer=encoded(answer) if told is None else told,
        ),
    )


def replay(store: Store, record: Record, plan_s: float) -> list[str]:
    """The fields in which the answer to a stored request differs now; ids, times and timings are not compared.

    An answer that had to do with a deadline, or with other versions of the model, need not come out the same.

    Parameters
    ----------
    plan_s : time for the joint bounds of a plan, unless the answer was a job's, which had all it needed

    Raises
    ------
    Erased : there is nothing to replay
    UnknownModel, ModelUnusable : the model that was asked is not there any more
    """
    kept = particulars(record)
    request, before = json.loads(kept.request), json.loads(kept.answer)
    model = store.open().find(f"{record.entry.model}@{record.entry.version}", include_inactive=True)
    if model.sha256 != record.entry.sha256:
        raise ModelUnusable(f"{model.name} is no longer the model that was asked.")
    ref, question = ModelRef.of(store, model), Question.from_json(request["question"])
    found = task.recourse(ref, question, math.inf if kept.job else plan_s, deadline_s=REPLAY_S)
    after = framed(before, found)
    for answer in (before, after):
        answer["diagnostics"].pop("elapsed_ms")
        if answer["plan"]:
            # Only where somebody waits is a job asked for tight bounds.
            answer["plan"]["validity"] = {key: answer["plan"]["validity"][key] for key in ("lower", "upper", "exact")}
    # Compared as bytes, which tell 1 from 1.0.
    return [field for field in before if encoded(before[field]) != encoded(after[field])]


# --- whether it still holds ------------------------------------------------------------------------------------------


def particulars(record: Record) -> Particulars:
    """What the ledger knows about a person and their answer. Raises `Erased`."""
    if record.particulars is None:
        raise Erased(f"{Erased.__doc__} It was erased at {record.erased_at}.")
    return record.particulars


def promised(record: Record) -> list[Mapping[str, object]]:
    """The records that were promised a yes. Raises `Erased`."""
    return [one["applicant"] for one in json.loads(particulars(record).answer)["counterfactuals"]]


def verify(ref: ModelRef, records: Sequence[Mapping[str, object]], *, deadline_s: float) -> list[Json]:
    """What a model says about counterfactuals; `reason` is null where it accepts them."""
    deadline = time.monotonic() + deadline_s
    (checks,) = _checked(Meter(task.load(ref).black_box, deadline), [records])
    return checks


def _checked(meter: Meter, plans: Sequence[Sequence[Mapping[str, object]]]) -> list[list[Json]]:
    """What a model says about every counterfactual of every plan; it is asked once for all of them."""
    rows = [[_row(meter.black_box.space, record) for record in plan] for plan in plans]
    fitting = [row for plan in rows for row in plan if row is not None]
    decisions = iter(task.decisions(meter, np.array(fitting)) if fitting else [])
    return [[_check(row, decisions) for row in plan] for plan in rows]


def _row(space: FeatureSpace, record: Mapping[str, object]) -> Any:
    try:
        return space.read(record)
    except InvalidRequest:
        return None


def _check(row: Any, decisions: Iterator[Json]) -> Json:
    if row is None:
        return {"probability": None, "score": None, "favourable": False, "reason": DOES_NOT_FIT}
    decision = next(decisions)
    return {**decision, "reason": None if decision["favourable"] else REFUSED}


def audit(ref: ModelRef, payload: Json, *, deadline_s: float, progress: Progress) -> Json:
    """The promises of an `audit_payload`, asked of another version; `app.api.schemas.ledger` describes the result."""
    # The rest of the time is for what is being asked then.
    deadline = time.monotonic() + AUDIT_SHARE * deadline_s
    engine = open_engine(ref.store.ledger)
    try:
        return _Audit(ref, payload, deadline).run(Ledger(engine), progress)
    except sa.exc.DBAPIError:
        raise LedgerUnavailable from None
    finally:
        engine.dispose()


def audit_payload(ref: ModelRef, model: RegisteredModel, which: Promises, *, reissue: bool) -> Json:
    """What `audit` is given."""
    promises = {"model": which.model, "as_of": which.as_of, "since": which.since, "until": which.until}
    return {"model": model_payload(ref), "asked": identity(model), "promises": promises, "reissue": reissue}


class _Audit:
    """Counts promises that hold and those that do not."""

    def __init__(self, ref: ModelRef, payload: Json, deadline: float) -> None:
        self._ref = ref
        self._payload = payload
        self._deadline = deadline
        self._count = 0
        self._certified: list[float] = []
        self._broken: list[Json] = []

    def run(self, ledger: Ledger, progress: Progress) -> Json:
        which = Promises(**self._payload["promises"])
        total = ledger.count(which)
        progress(0, total)
        with suppress(DeadlineExceeded):
            for records in ledger.promises(which):
                self._ask(records)
                # More may have been promised meanwhile.
                progress(self._count, max(total, self._count))
        return self._result(total)

    def _ask(self, records: Sequence[Record]) -> None:
        held = [particulars(record) for record in records]
        answers = [json.loads(known.answer) for known in held]
        plans = [[one["applicant"] for one in answer["counterfactuals"]] for answer in answers]
        # One for each part: the budget of a remote model is meant for a request, not for all promises.
        meter = Meter(task.load(self._ref).black_box, self._deadline)
        for answer, known, checks in zip(answers, held, _checked(meter, plans), strict=True):
            meter.check()
            self._note(answer, known, checks)
            self._count += 1

    def _note(self, answer: Json, known: Particulars, checks: list[Json]) -> None:
        if (bound := promised_lower(answer)) is not None:
            self._certified.append(bound)
        failed = [check for check in checks if check["reason"] is not None]
        if failed:
            self._broken.append(
                {
                    "id": answer["id"],
                    "expires_at": answer["expires_at"],
                    "reason": failed[0]["reason"],
                    "score": failed[0]["score"],
                    "promised_cost": answer["counterfactuals"][0]["cost"]["total"],
                    "reissue": self._reissued(json.loads(known.request)) if self._payload["reissue"] else None,
                }
            )

    def _reissued(self, request: Json) -> Json:
        """What the same question would be answered now, by the other version."""
        try:
            factual_raw = task.load(self._ref).black_box.space.read(request["applicant"])
            question = Question.from_json({**request["question"], "factual_raw": factual_raw.tolist()})
            left_s = max(self._deadline - time.monotonic(), 0.0)
            found = task.recourse(self._ref, question, 0.0, deadline_s=min(REISSUE_S, left_s))
        except RecourseError as error:
            return {"status": error.code, "cost": None}
        cost = found["counterfactuals"][0]["cost"]["total"] if found["counterfactuals"] else None
        return {"status": found["status"], "cost": cost}

    def _result(self, total: int) -> Json:
        kept = self._count - len(self._broken)
        costs = [one["reissue"]["cost"] for one in self._broken if one["reissue"]]
        found = [cost for cost in costs if cost is not None]
        mean = fmean(found) if found else None
        reissue = {"found": len(found), "not_found": len(costs) - len(found), "mean_cost": mean}
        promises = self._payload["promises"]
        return {
            "model": self._payload["asked"],
            "as_of": promises["as_of"],
            "since": promises["since"],
            "until": promises["until"],
            "promises": self._count,
            "unchecked": max(total - self._count, 0),
            "still_valid": kept,
            "broken": len(self._broken),
            "kept_share": kept / self._count if self._count else None,
            "promised_lower": fmean(self._certified) if self._certified else None,
            "reissue": reissue if self._payload["reissue"] else None,
            "broken_promises": self._broken,
        }


def promised_lower(answer: Json) -> float | None:
    """The probability that an answer promises to survive retraining with: of its plan, else of its first record."""
    if answer["plan"]:
        return float(answer["plan"]["validity"]["lower"])
    shift = answer["counterfactuals"][0]["validity"]["shift"]
    return None if shift is None else float(shift["gelbrich"]["lower"])
