"""An answer as texts, in full and in short: encoded once, in the child that computed it. The server passes them on.

`FULL` is the whole answer and what the ledger keeps, `SHOWN` what the client gets where that is less, `REQUEST` the
request as the ledger keeps it.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from app.models import tasks
from app.pool.serve import Written
from app.questions.answers import Json, encoded
from app.questions.frame import Frame
from app.questions.frontier import FrontierAnswer
from app.questions.question import Case, Question, request_of
from app.questions.recourse import RecourseAnswer
from app.questions.use_cases import FRONTIER, RECOURSE, answer
from app.recourse import answer_part
from app.registry.ref import ModelRef

FULL, SHOWN, REQUEST = "full", "shown", "request"

FACTS = ("id", "reference", "model", "created_at", "expires_at", "status", "reason", "diagnostics")
"""What the service and the ledger read of an answer, where it has that."""


def written_answer(
    ref: ModelRef,
    name: str,
    question: Case,
    frame: Frame,
    plan_s: float,
    detail: str,
    deadline_ms: int,
    *,
    deadline_s: float,
) -> Written:
    """Compute the answer to a question, and encode the answer; runs in a child process.

    `deadline_ms` is the deadline that the request states; the ledger keeps it.
    """
    found = answer(ref, name, question, frame, plan_s, deadline_s=deadline_s)
    if not frame.stored:
        return written(name, found, detail)
    assert isinstance(question, Question), "only recourse is recorded"
    request = request_of(tasks.load(ref).registered.space, question, deadline_ms)
    return written(name, found, detail, encoded(request))


def written(name: str, found: Json, detail: str, request: bytes | None = None) -> Written:
    """The encoded answer: in full, and in the `detail` asked for where that shows less.

    `request` is the encoded request; None where the ledger does not keep it.
    """
    facts = {fact: found[fact] for fact in FACTS if fact in found}
    plan = found.get("plan")
    facts["bracket"] = plan is not None and plan["validity"]["status"] == "bracket"
    texts = {FULL: encoded(found)}
    if (less := shown(name, found, detail)) is not found:
        texts[SHOWN] = encoded(less)
    if request is not None:
        texts[REQUEST] = request
    return Written(facts, texts)


def sent(answer: Written) -> bytes:
    """The bytes of the answer that the client gets."""
    return answer.texts.get(SHOWN, answer.texts[FULL])


# --- answers in short: without the fields that are declared as `FULL` ---

Detail: TypeAlias = Literal["short", "full"]

SHORTENED: Mapping[str, type[Any]] = {RECOURSE: RecourseAnswer, FRONTIER: FrontierAnswer}
"""Use cases whose answers have a short form; those about records of the caller are nothing but their certificates."""


def shown(use_case: str, answer: Json, detail: str) -> Json:
    """The answer in the `detail` that was asked for: `short` leaves out what only `full` shows."""
    record = SHORTENED.get(use_case)
    return answer if detail == "full" or record is None else _short(answer, record)


def _short(part: Any, record: Any) -> Any:
    if isinstance(part, list):
        return [_short(one, record) for one in part]
    if part is None:
        return None
    left_out, inner = _left_out(record)
    kept = {name: value for name, value in part.items() if name not in left_out}
    return kept | {name: _short(kept[name], one) for name, one in inner.items() if name in kept}


@cache
def _left_out(record: Any) -> tuple[frozenset[str], Mapping[str, Any]]:
    """The fields that a short answer leaves out; and of fields whose parts leave out some, the record of the parts."""
    hints, inner = get_type_hints(record), dict[str, Any]()
    names = {f.name: f.name.rstrip("_") for f in fields(record) if f.metadata != answer_part.FULL}
    for field, name in names.items():
        found = _record(hints[field])
        if found is not None and any(_left_out(found)):
            inner[name] = found
    return frozenset(f.name.rstrip("_") for f in fields(record) if f.name not in names), inner


def _record(annotation: Any) -> Any:
    """The record that a field holds, or a list of which, or None."""
    if is_dataclass(annotation):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _record(inner))), None)
