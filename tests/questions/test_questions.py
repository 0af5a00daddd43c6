"""The use cases without HTTP: a store that is away, and a clock that is ahead."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.errors import ModelUnusable, UnknownModel
from app.ledger import recorder, sure_clock
from app.ledger.ledger import NewRecord
from app.pool.pool import Pool
from app.questions import questions
from app.questions.answers import plain
from app.questions.encoded_answer import written
from app.questions.frame import Frame
from app.questions.question import Question, Terms
from app.recourse.solve import METHODS
from app.service import Service
from app.settings import Settings
from app.store.timestamps import timestamp
from tests.api.asking import APPLICANT
from tests.clock_ahead import ClockAhead
from tests.ledger.records import new_record


def test_a_store_that_is_away_makes_no_model_unknown(tmp_path: Path) -> None:
    """A client takes a model that is not registered as final, and a store that is not mounted comes back."""
    models = Service(Settings(models_store=tmp_path / "away")).models
    for look in (lambda: models.find("loan", pointer="/model"), lambda: models.require_known("loan"), models.summaries):
        with pytest.raises(ModelUnusable, match="RECOURSE_MODELS_STORE"):
            look()
    (tmp_path / "away").mkdir()
    with pytest.raises(UnknownModel):
        models.find("loan")
    assert models.summaries() == []


def test_while_the_clock_is_far_ahead_an_answer_expires_by_the_expected_time(
    models_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(_lane: Pool, *work: Any, **_options: Any) -> Any:
        (frame,) = [one for one in work if isinstance(one, Frame)]
        return written("recourse", plain(frame) | {"status": "not_found", "counterfactuals": [], "plan": None}, "full")

    async def answered(*known: NewRecord) -> dict[str, datetime]:
        service = Service(settings)
        service.start(answers=False)
        await service.ledger._opened.wait()
        for one in known:
            await service.ledger.record(one)
        method = METHODS["robust_mpm"]
        terms, question = Terms(model="loan"), Question(method=method.name, params=method.params())
        answer = json.loads(await service.questions.ask("recourse", question, APPLICANT, terms))
        by = service.questions.bounded(service.questions.batch_payload(question, terms))["frame"]["expires_by"]
        await service.close()
        times = {"created_at": answer["created_at"], "expires_at": answer["expires_at"], "expires_by": by}
        return {name: datetime.fromisoformat(text) for name, text in times.items()}

    monkeypatch.setattr(Pool, "run", run)
    settings = Settings(models_store=models_store, state_dir=tmp_path, run_jobs=False, valid_days=30)
    given, valid = datetime.now(UTC), timedelta(days=30)
    before = asyncio.run(answered(new_record(1, at=timestamp(given), expires_at=timestamp(given + valid))))
    assert valid <= before["expires_at"] - before["created_at"] < valid + timedelta(days=1)
    for module in (sure_clock, recorder, questions):
        monkeypatch.setattr(module, "datetime", ClockAhead)
    under = asyncio.run(answered())
    assert under["created_at"].year > given.year + 8
    for name in ("expires_at", "expires_by"):
        assert under[name] - before[name] <= timedelta(days=1)
