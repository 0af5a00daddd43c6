"""An answer as texts: encoded once, in the child that computed it. The server passes them to the ledger and the client.

`FULL` is the whole answer and what the ledger keeps, `SHOWN` what the client gets where that is less, `REQUEST` the
request as the ledger keeps it.
"""

from app.models import tasks
from app.pool.child import Written
from app.questions.answers import Frame, Json, encoded
from app.questions.detail import shown
from app.questions.question import Case, Question, request_of
from app.questions.use_cases import answer
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
    """`answer`, written; runs in a child. `deadline_ms` is that of the request, which the ledger keeps."""
    found = answer(ref, name, question, frame, plan_s, deadline_s=deadline_s)
    if not frame.stored:
        return written(name, found, detail)
    assert isinstance(question, Question), "only recourse is recorded"
    request = request_of(tasks.load(ref).registered.space, question, deadline_ms)
    return written(name, found, detail, encoded(request))


def written(name: str, found: Json, detail: str, request: bytes | None = None) -> Written:
    """An answer of a use case in the detail that was asked for, with its request if it is to be recorded."""
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
    """What the client gets."""
    return answer.texts.get(SHOWN, answer.texts[FULL])
