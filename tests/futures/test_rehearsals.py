"""Rehearsals that a server ends or starts again: those whose job is gone, and no others."""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import InvalidRequest, JobAbandoned
from app.futures.rehearsals import Rehearsals, wants_futures
from app.futures.store import status
from app.futures.stress import Stress
from app.futures.underway import alone, begin
from app.jobs.jobs import Jobs
from app.jobs.kinds import JOB_KINDS
from app.pool.pool import Pool
from app.registry import watch
from app.registry.ref import Store
from app.registry.version import RegisteredModel
from app.service import Service
from app.settings import Settings
from tests.event_loop import until
from tests.futures.models import FITS, registered


class Looks:
    """Rehearsals over jobs that nobody computes, and how often they were looked at."""

    def __init__(self, folder: Path, jobs: Jobs) -> None:
        settings = Settings(models_store=folder / "store", state_dir=folder)
        self.jobs = jobs
        self.rehearsals = Rehearsals(settings, Service(settings).models, jobs)
        self.count = 0
        look = self.rehearsals._look

        async def counted() -> None:
            await look()
            self.count += 1

        self.rehearsals._watch = watch.Watch(counted)

    async def more(self) -> None:
        """Return after as many looks as are enough to notice anything."""
        after = self.count + 5
        await until(lambda: self.count >= after)


@asynccontextmanager
async def looking(folder: Path) -> AsyncIterator[Looks]:
    store = Store(root=str(folder / "store"))
    jobs = Jobs(Settings(state_dir=folder, run_jobs=False), Pool("test", 1), store, JOB_KINDS)
    jobs.start()
    await jobs.opened()
    looks = Looks(folder, jobs)
    try:
        yield looks
    finally:
        await looks.rehearsals.close()
        await jobs.close()


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RegisteredModel:
    monkeypatch.setattr(watch, "LOOK_S", 0.0)
    return registered(tmp_path, "linear")


def members(model: RegisteredModel) -> Path:
    """What a rehearsal makes first."""
    path = model.directory / "futures.partial" / "members"
    path.mkdir(parents=True)
    return path


async def test_a_rehearsal_that_was_begun_without_a_job_is_started_once(tmp_path: Path, model: RegisteredModel) -> None:
    begin(model)
    async with looking(tmp_path) as looks:
        looks.rehearsals.watch()
        await looks.more()
        await looks.more()
        (job,) = await looks.jobs.newest(10)
        assert (job.kind, job.about) == ("futures", model.name)
    assert status(model)["status"] == "pending"


@pytest.mark.parametrize("made", [True, False])
async def test_a_rehearsal_whose_job_was_abandoned_has_failed(
    tmp_path: Path, model: RegisteredModel, made: bool
) -> None:
    """And is not started again by itself: it may be what ends the servers."""

    async with looking(tmp_path) as looks:
        job = await looks.rehearsals.start(model.name, {})
        if made:
            members(model)
        assert looks.jobs._connection.records.fail(job.id, JobAbandoned()) is not None
        looks.rehearsals.watch()
        await looks.more()
        assert [one.id for one in await looks.jobs.newest(10)] == [job.id]
    found = status(model)
    assert found["status"] == "failed"
    assert "goes on where it was" in found["detail"]


async def test_a_rehearsal_whose_jobs_were_lost_has_failed(tmp_path: Path, model: RegisteredModel) -> None:
    kept = members(model)
    async with looking(tmp_path) as looks:
        looks.rehearsals.watch()
        await looks.more()
        assert await looks.jobs.newest(10) == []
    assert status(model)["status"] == "failed"
    assert kept.exists()


def test_future_models_that_may_not_be_read_are_damaged(
    model: RegisteredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And neither fail what lists the models nor are made again by themselves."""
    record = model.directory / "futures" / "futures.json"
    found = os.stat

    def locked(path: Any, **options: Any) -> os.stat_result:
        if Path(path) == record:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return found(path, **options)

    monkeypatch.setattr(os, "stat", locked)
    assert status(model)["status"] == "failed"
    assert not wants_futures(model)


async def test_a_stress_that_is_none_is_refused_before_it_is_a_job(tmp_path: Path) -> None:
    def odd(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        for i, record in enumerate(directory.records):
            record |= {"note": "late", "branch": 4, "day": f"2026-03-{1 + i % 31:02}"}
        directory.columns += ["note", "branch", "day"]
        FITS["linear"](directory, X, y, columns)

    model = registered(tmp_path, odd)

    async with looking(tmp_path) as looks:
        for column, why in (
            ("note", 'has "late", which must be a number or a date'),
            ("branch", 'The column "branch" has the same value in all records'),
            ("housing", 'no stress along "housing", only along one of'),
        ):
            with pytest.raises(InvalidRequest) as caught:
                await looks.rehearsals.start(model.name, {"stress": Stress(column=column, direction="up")})
            (fault,) = caught.value.faults
            assert (fault.pointer, why in fault.detail) == ("/stress/column", True), fault
        assert await looks.jobs.newest(10) == []
        await looks.rehearsals.start(model.name, {"stress": Stress(column="day", direction="up")})


async def test_a_rehearsal_of_the_command_line_is_left_alone(tmp_path: Path, model: RegisteredModel) -> None:
    with alone(model):
        members(model)
        async with looking(tmp_path) as looks:
            looks.rehearsals.watch()
            await looks.more()
            assert await looks.jobs.newest(10) == []
    assert status(model)["status"] == "pending"
