"""What a new version does in a child before it is activated, and what a server does with one that turns bad later."""

import io
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import pytest

from app.errors import ModelRefused, ModelUnusable
from app.models.first_load import load_first, runs_foreign_code
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel
from app.settings import Settings
from tests.api.asking import problem, question
from tests.conftest import run, until
from tests.pool.trapped import Trap
from tests.registry.loan import make_linear

Make = Callable[..., RegisteredModel]


@pytest.fixture
def harm(tmp_path: Path) -> Path:
    """The file that makes the model do harm."""
    return tmp_path / "harm"


def trap(directory: Path, store: Path, harm: Path) -> RegisteredModel:
    buffer = io.BytesIO()
    joblib.dump(Trap(str(harm)), buffer)
    source = make_linear(directory)
    source.set_artifact(buffer.getvalue(), format="sklearn", path="model.joblib")
    return Registry(store, Trust(pickle=True)).register(source.write(id="trap", input="raw"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("nothing", ""),
        ("hangs", "not loaded and asked within 3 s"),
        ("dies", "its process died"),
        ("devours", "raised MemoryError"),
        ("guesses", "is not deterministic"),
    ],
)
def test_a_new_version_is_asked_in_a_child(does: str, told: str, harm: Path, tmp_path: Path) -> None:
    model = trap(tmp_path / "trap", tmp_path / "store", harm)
    assert runs_foreign_code(model)
    harm.write_text(does)
    settings = Settings(models_store=tmp_path / "store", trust_pickle=True, model_load_s=3 if does == "hangs" else 20)
    if not told:
        load_first(settings, model)
        return
    with pytest.raises((ModelRefused, ModelUnusable)) as caught:
        load_first(settings, model)
    assert told in caught.value.sentence


def test_a_version_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "store")
    registry.register(make_linear(tmp_path / "loan").write())
    with pytest.raises(ModelRefused, match="is active"):
        registry.discard("loan@1")
    registry.register(make_linear(tmp_path / "loan").write(version="2"), active=False)
    registry.discard("loan@2")
    assert [model.name for model in registry.list()] == ["loan@1"]
    assert not runs_foreign_code(registry.find("loan"))


@pytest.mark.slow
@pytest.mark.parametrize("does", ["hangs", "dies"])
def test_one_bad_model_does_not_take_the_others_away(does: str, harm: Path, loan_store: Path, tmp_path: Path) -> None:
    shutil.copytree(loan_store, tmp_path / "store")
    trap(tmp_path / "trap", tmp_path / "store", harm)
    harm.write_text(does)
    settings = Settings(
        models_store=tmp_path / "store", trust_pickle=True, lanes_sync=1, model_load_s=4, default_deadline_ms=60_000
    )
    for running in run(settings):
        import httpx

        with httpx.Client(base_url=running.url, timeout=120) as client:

            def ask(model: str) -> httpx.Response:
                return client.post("/recourse", json=question(model=model))

            with ThreadPoolExecutor() as others:
                trapped = others.submit(ask, "trap")
                assert ask("loan").status_code == 200
                assert does == "dies" or not trapped.done(), "the only place for a child is not held by the other model"
            assert trapped.result().status_code in (500, 503)
            until(lambda: ask("trap").json()["code"] == "model-quarantined")
            assert "trap@1" in problem(ask("trap"), 503, "model-quarantined")["detail"]
            problem(client.get("/v1/models/trap"), 503, "model-quarantined")
            assert ask("loan").status_code == 200
            until(lambda: client.get("/health/ready").status_code == 200)
            ready: dict[str, Any] = client.get("/health/ready").json()
            assert ready["status"] == "degraded"
            assert "trap@1 is in quarantine" in json.dumps(ready["warnings"])
            assert 'recourse_model_quarantined{model="trap@1"} 1.0' in client.get("/metrics").text
            harm.unlink()
            Registry(tmp_path / "store").release("trap@1")
            assert ask("trap").status_code == 200
            until(lambda: client.get("/health/ready").json()["status"] == "ready")
