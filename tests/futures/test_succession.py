"""A new version takes the place of one with future models once it has its own, without a gap for those who ask."""

import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.futures.rehearsal import rehearse
from app.futures.spec import choices_of
from app.futures.store import status
from app.registry.registry import Registry
from tests.conftest import until
from tests.forks import forks
from tests.futures.models import FITS, labelled, registered
from tests.servers import starting

FEW = {"search": 4, "held_back": 3}


def successor(folder: Path, **manifest: Any) -> Path:
    """The directory of version 2 of the model that `registered` makes."""
    directory, space, X, y = labelled(folder / "next")
    FITS["linear"](directory, X, y, space.columns)
    return Path(directory.write(version="2", **manifest))


def register(folder: Path, *options: object) -> str:
    """What the command says to people."""
    env = dict(os.environ) | {"RECOURSE_MODELS_STORE": str(folder / "store"), "RECOURSE_STATE_DIR": str(folder)}
    done = forks().run("app.cli", "models", "register", *options, env=env)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_version_is_activated_by_its_rehearsal(tmp_path: Path) -> None:
    before = registered(tmp_path, "linear", futures=FEW)
    rehearse(before, choices_of(before))
    assert "The version before answers until this one has future models" in register(
        tmp_path, successor(tmp_path, futures=FEW)
    )
    registry = Registry(tmp_path / "store")
    assert registry.find("loan").name == "loan@1"
    after = registry.find("loan@2", include_inactive=True)
    rehearse(after, choices_of(after))
    assert registry.find("loan").name == "loan@2"
    assert status(registry.find("loan"))["status"] == "ready"


@pytest.mark.parametrize(
    ("options", "has_label", "active"),
    [
        ((), True, "loan@1"),
        (("--activate", "now"), True, "loan@2"),
        ((), False, "loan@2"),
        (("--inactive",), True, "loan@1"),
    ],
)
def test_a_version_that_nobody_waits_for_is_active_at_once(
    tmp_path: Path, options: tuple[str, ...], has_label: bool, active: str
) -> None:
    """One that never has future models would never be active."""
    before = registered(tmp_path, "linear", futures=FEW)
    rehearse(before, choices_of(before))
    register(tmp_path, successor(tmp_path, futures=FEW if has_label else {"source": "none"}), *options)
    registry = Registry(tmp_path / "store")
    assert registry.find("loan").name == active
    assert registry.find("loan@2", include_inactive=True).succeeds == (has_label and not options)


def test_where_the_version_before_has_no_future_models_none_are_waited_for(tmp_path: Path) -> None:
    registered(tmp_path, "linear", futures=FEW)
    register(tmp_path, successor(tmp_path, futures=FEW))
    assert Registry(tmp_path / "store").find("loan").name == "loan@2"


@pytest.mark.slow
def test_nobody_who_asks_meanwhile_is_refused(tmp_path: Path) -> None:
    before = registered(tmp_path, "linear", futures=FEW)
    rehearse(before, choices_of(before))
    with starting("sqlite", tmp_path / "store", tmp_path) as start:
        server = start().ready()
        sample = server.client.get("/models/loan/schema").json()["sample"]
        body = {"model": "loan", "applicant": sample, "robustness": {"future_validity": 0.6}, "store": False}
        found: list[tuple[int, str]] = []
        enough = threading.Event()

        def ask() -> None:
            with httpx.Client(base_url=server.client.base_url, timeout=60) as client:
                while not enough.wait(0.1):
                    answer = client.post("/recourse", json=body)
                    found.append((answer.status_code, answer.json().get("model", {}).get("version", answer.text)))

        callers = [threading.Thread(target=ask) for _ in range(2)]
        for caller in callers:
            caller.start()
        try:
            register(tmp_path, successor(tmp_path, futures=FEW))
            until(lambda: found[-1] == (200, "2"))
        finally:
            enough.set()
            for caller in callers:
                caller.join()
    assert {status for status, _ in found} == {200}, set(found)
    assert {version for _, version in found} == {"1", "2"}
