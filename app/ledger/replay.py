"""Whether a stored request has the same answer now."""

import json
import math
from dataclasses import replace

from app.errors import ModelUnusable
from app.ledger.entries import personal_data
from app.ledger.rows import Record
from app.questions import use_cases
from app.questions.answers import encoded
from app.questions.frame import Frame
from app.questions.question import Question
from app.registry.ref import ModelRef, Store

REPLAY_S = 60.0
"""Time for an answer that is computed again."""


def replay(store: Store, record: Record, plan_s: float) -> list[str]:
    """Compute the answer to a stored request again, and list the fields in which it differs from the stored answer.

    Ids, times and durations are not compared, nor what an answer says about promises that later versions kept. An
    answer that depended on a deadline, or on other versions of the model, may differ.

    Parameters
    ----------
    plan_s : time in seconds for the joint bounds of a plan; if a job computed the answer, there is no such limit

    Raises
    ------
    Erased : the request is erased
    UnknownModel, ModelUnusable : the model that was asked is no longer available
    """
    kept = personal_data(record)
    request, before = json.loads(kept.request), json.loads(kept.answer)
    model = store.open().find(f"{record.entry.model}@{record.entry.version}", include_inactive=True)
    if model.sha256 != record.entry.sha256:
        raise ModelUnusable(f"{model.name} is no longer the model that was asked.")
    ref, question = ModelRef.of(store, model), Question.from_json(request["question"])
    frame = replace(Frame.from_json(before), points=model.manifest.points)
    plan_s = math.inf if kept.job else plan_s
    after = use_cases.answer(ref, use_cases.RECOURSE, question, frame, plan_s, deadline_s=REPLAY_S)
    for answer in (before, after):
        answer["diagnostics"].pop("elapsed_ms")
        (answer["factual"] or {}).pop("future", None)  # earlier releases lack it
        for part in (*answer["counterfactuals"], *filter(None, [answer["nearest"], answer.get("offer")])):
            # The correction follows from what later versions keep, and changes with them.
            if future := part.get("validity", part).get("future"):
                future.pop("measured", None)
                future.pop("kept_before", None)  # earlier releases lack it
                future.pop("promise", None)
                future.pop("corrected", None)  # of earlier releases
        if answer["plan"]:
            # Only direct requests ask a job for tight bounds.
            answer["plan"]["validity"] = {key: answer["plan"]["validity"][key] for key in ("lower", "upper", "exact")}
    # Compared as bytes, which distinguish 1 from 1.0.
    return [field for field in before if encoded(before[field]) != encoded(after[field])]
