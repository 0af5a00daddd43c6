"""A refusal that the training decides: what the held-back models say of the refused record, model by model."""

from typing import Any

import numpy as np
import pytest

from app.futures.store import load_futures
from app.models import tasks
from app.questions.answers import without_scores
from app.questions.frame import Frame, identity
from app.questions.question import Question
from app.questions.use_cases import RECOURSE, answer
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, Store
from app.settings import Settings

METHOD = METHODS["robust_mpm"]


@pytest.fixture(scope="module")
def demo() -> ModelRef:
    store = Store.of(Settings())
    return ModelRef.of(store, store.open().find("consumer-loan@1"))


def asked(ref: ModelRef, row_raw: np.ndarray) -> dict[str, Any]:
    model = tasks.load(ref).registered
    dates = {"created_at": "2026-11-25T00:00:00+00:00", "expires_at": "2027-02-25T00:00:00+00:00"}
    frame = Frame(model=identity(model), seed=0, id="rec_1", **dates)
    question = Question(method=METHOD.name, params=METHOD.params(), factual_raw=row_raw, valid_months=3.0)
    found: dict[str, Any] = answer(ref, RECOURSE, question, frame, 1.0, deadline_s=60.0)
    return found


def test_the_share_is_that_of_the_held_back_models(demo: ModelRef) -> None:
    reference = tasks.load(demo).reference
    futures = load_futures(tasks.load(demo).registered)
    assert futures is not None
    by_score = np.argsort(reference.scores, kind="stable")
    refused = int((reference.scores < 0.0).sum())
    looked_at = set()
    for place in (0, refused // 2, refused - 3, refused - 2, refused - 1):
        row_raw = reference.rows_raw[by_score[place]]
        second = asked(demo, row_raw)["factual"]["future"]
        yes = sum(int(score >= 0.0) for score in futures.held_back.scores_raw(row_raw[None])[0])
        assert second["models"] == futures.held_back.count
        assert second["accepted"] == pytest.approx(yes / futures.held_back.count)
        assert second["look_again"] == (2 * yes >= futures.held_back.count)
        looked_at.add(second["look_again"])
    assert looked_at == {True, False}


def test_nobody_looks_again_at_a_yes_and_nobody_reads_it_who_may_not(demo: ModelRef) -> None:
    reference = tasks.load(demo).reference
    accepted = asked(demo, reference.rows_raw[int(np.argmax(reference.scores))])
    assert accepted["factual"]["future"] is None
    refused = asked(demo, reference.rows_raw[int(np.argmin(reference.scores))])
    assert refused["factual"]["future"] is not None
    assert without_scores(refused, brought=False)["factual"]["future"] is None
