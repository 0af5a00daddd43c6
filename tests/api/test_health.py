"""Live, and ready."""

import time
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from app.errors import UnknownModel
from app.main import create_app
from app.registry.registry import Registry
from app.service import Service
from app.settings import Settings
from tests.api.asking import problem
from tests.conftest import Running
from tests.registry.loan import make_linear


def test_live(client: httpx.Client) -> None:
    assert client.get("/health/live").json() == {"status": "live"}


def test_ready(running: Running, client: httpx.Client) -> None:
    running.until_loaded()
    told = {"status": "ready", "models": 3, "workers": 2, "loading": [], "warnings": []}
    assert client.get("/health/ready").json() == told


async def test_what_is_amiss_is_listed(tmp_path: Path) -> None:
    # Without its lifespan the service has no children.
    app = create_app(Settings(models_store=tmp_path / "nowhere"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        document = problem(await client.get("/health/ready"), 503, "not-ready")
    told = " ".join(fault["detail"] for fault in document["errors"])
    assert "RECOURSE_MODELS_STORE" in told
    assert "worker" in told
    assert str(tmp_path) not in told


def test_an_empty_store_is_told_to_clients_and_its_place_to_the_log(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    models = Service(Settings(models_store=tmp_path / "store", state_dir=tmp_path)).models
    for pointer in (None, "/model"):
        with pytest.raises(UnknownModel, match='"loan" is not registered: no model is registered') as caught:
            models.find("loan", pointer=pointer)
        assert str(tmp_path) not in caught.value.detail
    with capture_logs() as logged:
        models.tell_problems()
    assert [(line["event"], line["directory"]) for line in logged] == [("no-models", str(tmp_path / "store"))]


def test_an_empty_store_is_not_ready_and_one_without_an_active_model_says_so(tmp_path: Path) -> None:
    store = Registry(tmp_path / "store")
    models = Service(Settings(models_store=store.root, state_dir=tmp_path)).models
    store.root.mkdir()
    assert "no model is registered" in models.problems()
    store.register(make_linear(tmp_path / "loan").write(), active=False)
    assert models.problems() == ""
    assert "No model is active" in " ".join(models.warnings())
    store.activate("loan@1")
    assert (models.problems(), models.warnings()) == ("", [])
    store.retire("loan@1")
    assert models.problems() == ""
    assert "No model is active" in " ".join(models.warnings())


async def test_live_answers_at_once_while_children_start(tmp_path: Path) -> None:
    app = create_app(Settings(models_store=tmp_path, lanes_sync=1, state_dir=tmp_path, run_jobs=False))
    asking = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    async with app.router.lifespan_context(app), asking as client:
        began = time.monotonic()
        assert (await client.get("/health/live")).status_code == 200
        assert time.monotonic() - began < 10
        assert (await client.get("/health/ready")).status_code == 503
