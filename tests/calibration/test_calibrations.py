"""Calibrations over HTTP, and the corrections that a server keeps up to date by itself."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.calibration import calibrations
from app.calibration.calibrations import Calibrations
from app.calibration.route import CalibrationAnswer
from app.errors import LedgerUnavailable
from app.keys.scopes import Scope
from app.pool.pool import Pool
from app.registry import watch
from app.registry.registry import Registry
from app.service import Service
from app.settings import Settings
from tests.api.asking import problem
from tests.conftest import until
from tests.jobs.serving import Server
from tests.ledger.records import new_record
from tests.ledger.test_servers import database_of
from tests.pool import chores
from tests.registry.loan import make_linear
from tests.servers import DATABASES, starting


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with `loan@1`, and the stricter `loan@2`, which is not active."""
    root = tmp_path_factory.mktemp("versions")
    registry = Registry(root / "store")
    registry.register(make_linear(root / "1").write())
    registry.register(make_linear(root / "2").write(version="2", threshold=0.6), active=False)
    registry.register(make_linear(root / "other").write(id="other"))
    return root / "store"


@pytest.fixture(scope="module", params=DATABASES)
def server(
    request: pytest.FixtureRequest, versions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with starting(request.param, versions, tmp_path_factory.mktemp("server")) as start:
        yield start().ready()


def told(probability: float, record: dict[str, object]) -> bytes:
    part = {"applicant": record, "validity": {"future": {"probability": probability}}}
    return json.dumps({"method": {"name": "probe"}, "counterfactuals": [part]}).encode()


def calibration_of(server: Server, model: str) -> httpx.Response:
    return server.client.get(f"/models/{model}/calibration")


def test_a_calibration_compares_what_was_told_with_the_next_version(server: Server, versions: Path) -> None:
    empty = calibration_of(server, "other")
    assert (empty.status_code, empty.json()["bins"]) == (200, [])

    from app.ledger.ledger import Ledger

    reference = Registry(versions).find("loan@2", include_inactive=True).load().reference
    kept = [reference.space.record(row) for row in reference.rows_raw[reference.scores >= 0.0][:3]]
    broken = [reference.space.record(row) for row in reference.rows_raw[reference.scores < 0.0][:1]]
    with database_of(server) as engine:
        Ledger(engine).append([new_record(i, answer=told(0.95, one)) for i, one in enumerate([*kept, *broken])])
    response = calibration_of(server, "loan")
    found = CalibrationAnswer.model_validate(response.json(), strict=False)
    (only,) = found.bins
    assert (only.told, only.promises, only.mean_told, only.kept) == ((0.9, 1.0), 4, pytest.approx(0.95), 0.75)
    assert only.interval[0] < 0.75 < only.interval[1]
    assert [(one.version, one.next) for one in found.versions] == [("1", "2")]
    assert found.correction is None


@pytest.mark.parametrize("name", ["nothing", "loan@1", "%2e%2e"])
def test_an_unknown_model_has_none(server: Server, name: str) -> None:
    problem(calibration_of(server, name), 404, "unknown-model")


def test_keys_for_models_or_audits_may_read_it() -> None:
    from app.api.openapi import http_api

    security = http_api().openapi()["paths"]["/models/{id}/calibration"]["get"]["security"]
    assert security == [{"key": [Scope.MODELS.value]}, {"key": [Scope.AUDIT.value]}]


def hold(_store: Any, path: str, *, deadline_s: float) -> str:
    return chores.hold(path, deadline_s=deadline_s)


async def test_calibrations_leave_a_child_to_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration takes many times as long as an answer."""
    monkeypatch.setattr(calibrations, "calibration", hold)
    settings = Settings(models_store=tmp_path / "store", state_dir=tmp_path)
    (tmp_path / "store").mkdir()
    service = Service(settings)
    monkeypatch.setattr(service.models, "require_known", lambda _id: None)
    files = [tmp_path / "one", tmp_path / "two"]

    lane = Pool("test", 2)
    store: Any = None  # nothing reads it
    calibrating = Calibrations(settings, store, service.models, lane, lane)
    lane.start()
    try:
        asked = [asyncio.ensure_future(calibrating.of(str(file))) for file in files]
        await asyncio.to_thread(until, lambda: lane.state().idle + sum(file.exists() for file in files) == 2)
        assert await lane.run(chores.echo, 1, timeout_s=20) == 1
        assert [file.exists() for file in files] == [True, False]
        files[0].unlink()
        await asyncio.to_thread(until, files[1].exists)
        files[1].unlink()
        await asyncio.gather(*asked)
    finally:
        await lane.close()


# --- by itself -------------------------------------------------------------------------------------------------------


async def test_corrections_follow_the_versions_that_are_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calibrated when a server sees a new version, again after an hour, and again where it failed."""
    registry = Registry(tmp_path / "store")
    first = registry.register(make_linear(tmp_path / "1").write())
    asked: list[str] = []
    fails = [True]

    async def run(_lane: Pool, _function: Any, _store: Any, model: str, **_times: float) -> dict[str, Any]:
        asked.append(model)
        if fails:
            fails.pop()
            raise LedgerUnavailable
        return {}

    monkeypatch.setattr(Pool, "run", run)
    monkeypatch.setattr(Pool, "start", lambda _lane: None)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    monkeypatch.setattr(calibrations, "read_record", lambda directory: directory == first.directory or None)
    service = Service(Settings(models_store=tmp_path / "store", state_dir=tmp_path))

    service.calibrations.watch()
    await asyncio.sleep(0.1)
    assert asked == [], "one version has nothing to be compared with"
    registry.register(make_linear(tmp_path / "2").write(version="2"), active=False)
    registry.register(make_linear(tmp_path / "other").write(id="other"))
    await asyncio.to_thread(until, lambda: len(asked) == 2)
    await asyncio.sleep(0.1)
    assert asked == ["loan", "loan"]
    registry.register(make_linear(tmp_path / "3").write(version="3"))
    await asyncio.to_thread(until, lambda: len(asked) == 3)
    monkeypatch.setattr(calibrations, "AGAIN_S", 0.0)
    await asyncio.to_thread(until, lambda: len(asked) > 4)
    await service.calibrations.close()
    assert set(asked) == {"loan"}


async def test_corrections_are_computed_where_no_job_has_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(tmp_path / "store")
    registry.register(make_linear(tmp_path / "1").write())
    registry.register(make_linear(tmp_path / "2").write(version="2"), active=False)
    computed: list[Any] = []
    in_child = Pool.run

    async def run(lane: Pool, *args: Any, **times: Any) -> Any:
        computed.append(await in_child(lane, *args, **times))
        return computed[-1]

    monkeypatch.setattr(Pool, "run", run)
    monkeypatch.setattr(watch, "LOOK_S", 0.01)
    monkeypatch.setattr(calibrations, "read_record", lambda _directory: True)
    service = Service(Settings(models_store=tmp_path / "store", state_dir=tmp_path, lanes_bounds=1))

    service.ledger.start()
    service.calibrations.watch()
    try:
        await asyncio.to_thread(until, lambda: computed)
    finally:
        await service.close()
    assert computed[0]["bins"] == []
