"""Whether a model still accepts what was given: one recourse, or all promises of a model."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import numpy as np
import sqlalchemy as sa

from app.errors import DeadlineExceeded, InvalidRequest, LedgerUnavailable, RecourseError
from app.keys.keys import Seen
from app.ledger.chain import PersonalData
from app.ledger.entries import personal_data
from app.ledger.ledger import Ledger
from app.ledger.promises import Promises
from app.ledger.rows import Record
from app.models import tasks
from app.pool.serve import Progress
from app.questions import use_cases
from app.questions.answers import UNREAD, Json, plain
from app.questions.frame import identity
from app.questions.question import Question
from app.questions.use_cases import RECOURSE, USE_CASES
from app.recourse.features import FeatureSpace
from app.recourse.models.meter import Meter
from app.registry.ref import ModelRef, Store, model_payload
from app.registry.version import RegisteredModel
from app.store.engine import open_engine
from app.store.timestamps import timestamp

REISSUE_S = 5.0
"""Time for each new answer in place of a broken promise."""

AUDIT_SHARE = 0.95
"""Share of its time after which an audit starts no further part; the result counts those that are left."""

REFUSED = "refused"
"""The model refuses the record."""

DOES_NOT_FIT = "does_not_fit"
"""The record does not fit the model's schema: a feature is new, a limit is tighter."""


def verify(ref: ModelRef, records: Sequence[Mapping[str, object]], *, deadline_s: float) -> list[Json]:
    """The model's decision about each of the counterfactuals `records`.

    Each item is JSON of the form `Checked`; its `reason` is null where the model accepts the record.
    """
    deadline = time.monotonic() + deadline_s
    (checks,) = _checked(Meter(tasks.load(ref).black_box, deadline), [records])
    return checks


def _checked(meter: Meter, plans: Sequence[Sequence[Mapping[str, object]]]) -> list[list[Json]]:
    """A model's decisions about every counterfactual of every plan, in one call."""
    rows = [[fitting_row(meter.black_box.space, record) for record in plan] for plan in plans]
    fitting = [row for plan in rows for row in plan if row is not None]
    decisions = iter(plain(tasks.decisions(meter, np.array(fitting)) if fitting else []))
    return [[_check(row, decisions) for row in plan] for plan in rows]


def fitting_row(space: FeatureSpace, record: Mapping[str, object]) -> Any:
    """The raw row of a counterfactual from an earlier answer; None where it does not fit the model's schema."""
    try:
        return space.read(record)
    except InvalidRequest:
        return None


def _check(row: Any, decisions: Iterator[Json]) -> Json:
    if row is None:
        return {**UNREAD, "favourable": False, "reason": DOES_NOT_FIT}
    decision = next(decisions)
    return {**decision, "reason": None if decision["favourable"] else REFUSED}


def audit(ref: ModelRef, payload: Json, *, deadline_s: float, progress: Progress) -> Json:
    """Check promises against a version, and return the result of the audit. An `audit_payload` says which promises.

    The result has the form of `AuditAnswer` in `app.ledger.schema`, without references and cursor.
    """
    # The rest of the time is for the part that is in progress then.
    deadline = time.monotonic() + AUDIT_SHARE * deadline_s
    with opened_ledger(ref.store) as ledger:
        return Audit(ref, payload, deadline).run(ledger, progress)


@contextmanager
def opened_ledger(store: Store) -> Iterator[Ledger]:
    """Context with the ledger, open on connections of its own. Raises `LedgerUnavailable` if it cannot be read."""
    engine = open_engine(store.ledger)
    try:
        yield Ledger(engine)
    except sa.exc.DBAPIError:
        raise LedgerUnavailable from None
    finally:
        engine.dispose()


def audit_payload(ref: ModelRef, model: RegisteredModel, which: Promises, *, reissue: bool) -> Json:
    """The payload of the job that runs `audit`, on the version `model` and the promises `which`.

    Parameters
    ----------
    reissue : whether the audit also looks for the version's own answers in place of broken promises
    """
    promises = {"model": which.model, "as_of": which.as_of, "since": which.since, "until": which.until}
    return {"model": model_payload(ref), "asked": plain(identity(model)), "promises": promises, "reissue": reissue}


class Audit:
    """Counts the promises that a version of a model keeps, and the promises that it breaks."""

    def __init__(self, ref: ModelRef, payload: Json, deadline: float) -> None:
        self._ref = ref
        self._payload = payload
        self._deadline = deadline
        self._count = 0
        self._certified: list[float] = []
        self._broken: list[Json] = []
        self._under: defaultdict[str | None, list[tuple[bool, float | None]]] = defaultdict(list)
        """Whether each promise is kept, and its smallest share under stress, by what was asked for."""

    def run(self, ledger: Ledger, progress: Progress) -> Json:
        """Check promises one by one until the deadline, and return the result of the audit. Raises `DBAPIError`."""
        which = Promises(**self._payload["promises"])
        total = ledger.count(which)
        progress(0, total)
        with suppress(DeadlineExceeded):
            for records in ledger.promises(which):
                self._ask(ledger, records)
                # More may have been given meanwhile.
                progress(self._count, max(total, self._count))
        return self._result(total)

    def _ask(self, ledger: Ledger, records: Sequence[Record]) -> None:
        held = [personal_data(record) for record in records]
        answers = [json.loads(known.answer) for known in held]
        plans = [[one["applicant"] for one in answer["counterfactuals"]] for answer in answers]
        # One for each part: the budget of a remote model is for a request, not for all promises.
        meter = Meter(tasks.load(self._ref).black_box, self._deadline)
        kept: list[bool] = []
        try:
            for answer, known, checks in zip(answers, held, _checked(meter, plans), strict=True):
                meter.check()
                kept.append(self._keeps(answer, known, checks))
                self._count += 1
        finally:
            note(ledger, self._payload["asked"], zip(records, kept, strict=False))

    def _keeps(self, answer: Json, known: PersonalData, checks: list[Json]) -> bool:
        if (bound := promised_lower(answer)) is not None:
            self._certified.append(bound)
        failed = [check for check in checks if check["reason"] is not None]
        futures = [one["validity"].get("future") or {} for one in answer["counterfactuals"]]
        lowest = [share for future in futures if (share := lowest_share(future)) is not None]
        self._under[futures[0].get("under")].append((not failed, min(lowest, default=None)))
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
        return not failed

    def _reissued(self, request: Json) -> Json:
        """The candidate's answer to the same question."""
        try:
            factual_raw = tasks.load(self._ref).black_box.space.read(request["applicant"])
            question = replace(Question.from_json(request["question"]), factual_raw=factual_raw, reasons=None)
            left_s = max(self._deadline - time.monotonic(), 0.0)
            problem = use_cases.problem(self._ref, question, min(REISSUE_S, left_s))
            found = USE_CASES[RECOURSE].compute(problem, question, 0.0).recourse
        except RecourseError as error:
            return {"status": error.code, "cost": None}
        return {"status": found.status.value, "cost": found.counterfactuals[0].cost if found.counterfactuals else None}

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
            "under": [_under(name, self._under[name]) for name in ("stress", "same", None) if name in self._under],
            "reissue": reissue if self._payload["reissue"] else None,
            "broken_promises": self._broken,
        }


def lowest_share(future: Json) -> float | None:
    """The smallest share of future models that accept under any stress; None where the answer states no such share.

    `future` is the part `validity.future` of an answer.
    """
    found: float | None = (future.get("stressed") or {}).get("lowest")
    return found


def _under(name: str | None, found: Sequence[tuple[bool, float | None]]) -> Json:
    lowest = [share for _, share in found if share is not None]
    kept = sum(one for one, _ in found)
    return {
        "under": name,
        "promises": len(found),
        "still_valid": kept,
        "kept_share": kept / len(found),
        "mean_lowest": fmean(lowest) if lowest else None,
    }


def summary(beginning: str) -> Json:
    """The result of an audit without its broken promises, read from the beginning of the result's JSON."""
    found: Json = json.loads(beginning.partition(', "broken_promises": ')[0] + "}")
    return found


def note(ledger: Ledger, asked: Json, kept: Iterable[tuple[Record, bool]]) -> None:
    """Store which promises a version keeps and breaks; this takes the place of the last check of each promise.

    Promises that the version has given itself are left out.

    Parameters
    ----------
    asked : id, version and SHA-256 of the version
    kept : pairs of a promise and whether the version keeps it
    """
    itself = asked["version"], asked["sha256"]
    found = {r.entry.number: one for r, one in kept if (r.entry.version, r.entry.sha256) != itself}
    if found:
        ledger.note_checks(asked["id"], asked["version"], timestamp(datetime.now(UTC)), found)


def with_references(ledger: Ledger, broken: Sequence[Json], seen: Seen) -> list[Json]:
    """Broken promises, each with the `reference` of its recourse; null where the caller may not see the recourse.

    Audits store no references, so that no reference is left behind when a recourse is erased.

    Parameters
    ----------
    seen : which recourse the caller may see
    """
    references = ledger.references([one["id"] for one in broken], **seen)
    return [{"id": one["id"], "reference": references.get(one["id"]), **one} for one in broken]


def promised_lower(answer: Json) -> float | None:
    """The lower bound that the certificate of an answer promises: for the plan, or else for the first counterfactual.

    None without a certificate.
    """
    if answer["plan"]:
        return float(answer["plan"]["validity"]["lower"])
    shift = answer["counterfactuals"][0]["validity"]["shift"]
    return None if shift is None else float(shift["gelbrich"]["lower"])
