"""Names, newest versions, retirement, and a store that other processes write to."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import ModelRefused, ModelUnusable, UnknownModel
from app.registry import registry
from app.registry.manifest import MANIFEST
from app.registry.registry import Registry
from app.registry.version import REGISTRATION
from tests.registry.loan import ModelDirectory


@pytest.fixture
def three(model: ModelDirectory, store: Registry) -> Registry:
    """Versions 1, 10 and 9, registered in this order."""
    for version in ("1", "10", "9"):
        store.register(model.write(version=version))
    return store


def test_an_empty_store_is_fine(store: Registry) -> None:
    assert store.list() == []
    assert store.broken() == ()
    with pytest.raises(UnknownModel, match=f'"loan" is not registered; there is no model in {store.root}'):
        store.find("loan")


def test_a_bare_id_is_the_version_registered_last(three: Registry) -> None:
    assert three.find("loan").name == "loan@9"
    assert three.find("loan@10").version == "10"
    assert [model.name for model in three.list()] == ["loan@1", "loan@10", "loan@9"]


@pytest.mark.parametrize(
    "name",
    ["other", "loan@3", "loan@", "@1", "", "Loan", "../store/loan", "loan/1", "loan@../1", "loan@1@1", "x" * 10_000],
)
def test_an_unknown_name_is_answered_with_the_known_ones(three: Registry, name: str) -> None:
    with pytest.raises(UnknownModel, match="the active models are loan@1, loan@10, loan@9") as caught:
        three.find(name)
    assert len(caught.value.detail) < 250
    assert caught.value.facts == {"known": ["loan@1", "loan@10", "loan@9"]}


def test_a_retired_version_is_out_of_use(three: Registry) -> None:
    assert three.retire("loan@9") == "loan@9"
    assert three.find("loan").name == "loan@10"
    with pytest.raises(UnknownModel, match='"loan@9" is retired; the active models are loan@1, loan@10'):
        three.find("loan@9")
    assert three.find("loan@9", include_inactive=True).retired
    assert three.find("loan", include_inactive=True).name == "loan@10"
    assert [model.retired for model in three.list()] == [False, False, True]


def test_retiring_a_bare_id_retires_the_newest(three: Registry) -> None:
    assert [three.retire("loan") for _ in range(3)] == ["loan@9", "loan@10", "loan@1"]
    for name in ("loan", "loan@1"):
        with pytest.raises(UnknownModel, match="no model is active"):
            three.find(name)


def test_retiring_twice_changes_nothing(three: Registry) -> None:
    three.retire("loan@1")
    status = (three.root / "loan" / "1" / "status.json").read_bytes()
    assert three.retire("loan@1") == "loan@1"
    assert (three.root / "loan" / "1" / "status.json").read_bytes() == status
    with pytest.raises(UnknownModel):
        three.retire("loan@7")


def test_a_retired_version_still_loads(three: Registry) -> None:
    three.retire("loan@1")
    assert three.find("loan@1", include_inactive=True).load()


def test_what_another_process_does_is_seen_at_once(model: ModelDirectory, store: Registry) -> None:
    reader = Registry(store.root)
    assert reader.list() == []
    store.register(model.write())
    assert reader.find("loan").name == "loan@1"
    store.register(model.write(version="2"))
    assert reader.find("loan").name == "loan@2"
    store.retire("loan@2")
    assert reader.find("loan").name == "loan@1"
    shutil.rmtree(store.root / "loan" / "1")
    with pytest.raises(UnknownModel):
        reader.find("loan@1")


def test_an_unchanged_version_is_read_once(three: Registry) -> None:
    assert three.find("loan@1") is three.find("loan@1")
    assert three.find("loan") is three.list()[-1]


def test_finding_is_fast(three: Registry) -> None:
    three.find("loan")
    elapsed = []
    for _ in range(200):
        start = time.perf_counter()
        three.find("loan")
        elapsed.append(time.perf_counter() - start)
    assert min(elapsed) < 200e-6


def test_a_clock_set_back_does_not_hide_a_new_version(
    model: ModelDirectory, store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Later":
            return cls.fromtimestamp(time.time() + 86_400, UTC)

    with monkeypatch.context() as patched:
        patched.setattr(registry, "datetime", Later)
        first = store.register(model.write())
    second = store.register(model.write(version="2"))
    assert second.registered_at - first.registered_at == timedelta(microseconds=1)
    assert store.find("loan").name == "loan@2"


# --- broken versions -------------------------------------------------------------------------------------------------


def test_a_broken_version_does_not_take_the_others_down(three: Registry) -> None:
    (three.root / "loan" / "1" / "model.yaml").write_text("id: [")
    (three.root / "stray").mkdir()
    (three.root / "stray" / "1").mkdir()
    (three.root / "notes.txt").write_text("not a model")
    assert [model.name for model in three.list()] == ["loan@10", "loan@9"]
    assert {broken.name: broken.error.detail for broken in three.broken()} == {
        "loan@1": "loan@1 cannot be used: its manifest has faults",
        "stray@1": "stray@1 cannot be used: it was not installed by `recourse models register`",
    }
    assert three.find("loan").name == "loan@9"
    with pytest.raises(ModelUnusable, match="loan@1 cannot be used"):
        three.find("loan@1")


@pytest.fixture
def locked(three: Registry, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a directory what it is for a user without rights: its names cannot be read, nor what is below."""
    directories: list[str] = []

    def refused(function: Any, *, listing: bool) -> Any:
        def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
            if any(str(path).startswith(f"{one}/") or (listing and str(path) == one) for one in directories):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return function(path, *args, **kwargs)

        return refuse

    monkeypatch.setattr(os, "stat", refused(os.stat, listing=False))
    monkeypatch.setattr(os, "scandir", refused(os.scandir, listing=True))
    monkeypatch.setattr(Path, "read_bytes", refused(Path.read_bytes, listing=False))
    return lambda directory: directories.append(str(directory))


def test_a_directory_that_may_not_be_read_does_not_take_the_others_down(
    three: Registry, locked: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in ("other", "third"):
        shutil.copytree(three.root / "loan" / "1", three.root / model / "1")
    (three.root / "loop").symlink_to("loop")
    locked(three.root / "other")
    locked(three.root / "third" / "1")
    logged: list[str] = []
    monkeypatch.setattr(registry, "log", SimpleNamespace(error=lambda _event, model, **_: logged.append(model)))
    assert [model.name for model in three.list()] == ["loan@1", "loan@10", "loan@9"]
    assert three.find("loan").name == "loan@9"
    assert {broken.name: broken.error.detail for broken in three.broken()} == {
        "loop@?": "loop cannot be used: its versions cannot be listed: Too many levels of symbolic links",
        "other@?": "other cannot be used: its versions cannot be listed: Permission denied",
        "third@1": "third@1 cannot be used: registration.json cannot be read: Permission denied",
    }
    for name in ("other", "other@1", "third", "loop"):
        with pytest.raises(ModelUnusable, match="cannot be used"):
            three.find(name)
    with pytest.raises(UnknownModel):
        three.find("fourth")
    assert sorted(logged) == ["loop", "other", "third@1"], "once, not at every look"


@pytest.mark.parametrize("name", [REGISTRATION, MANIFEST])
def test_a_pipe_in_the_store_is_not_waited_for(three: Registry, name: str) -> None:
    path = three.root / "loan" / "1" / name
    path.unlink()
    os.mkfifo(path)
    assert three.find("loan@9").name == "loan@9"
    with pytest.raises(ModelUnusable, match=f"{name} cannot be read: it is a pipe or a device, not a file"):
        three.find("loan@1")


def test_a_broken_newest_version_is_not_quietly_replaced_by_an_older_one(three: Registry) -> None:
    (three.root / "loan" / "9" / "registration.json").write_text("{")
    with pytest.raises(ModelUnusable, match="loan@9 cannot be used"):
        three.find("loan")
    assert three.find("loan@10").name == "loan@10"
    three.retire("loan@9")
    assert three.find("loan").name == "loan@10"


def test_a_broken_old_version_does_not_become_the_newest(three: Registry) -> None:
    path = three.root / "loan" / "1" / REGISTRATION
    registered = path.stat()
    path.write_text("{")
    os.utime(path, ns=(registered.st_atime_ns, registered.st_mtime_ns))
    (three.root / "loan" / "1" / "calibration.json").touch()  # as is done every hour
    assert three.find("loan").name == "loan@9"


def test_a_repaired_version_is_usable_again(three: Registry) -> None:
    path = three.root / "loan" / "9" / "model.yaml"
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    with pytest.raises(ModelUnusable, match="has changed since"):
        three.find("loan")
    path.write_bytes(content)
    assert three.find("loan").load()


@pytest.mark.parametrize("file", [REGISTRATION, MANIFEST])
def test_a_version_that_could_not_be_read_for_a_moment_is_usable_again(
    three: Registry, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def read(path: Path) -> bytes:
        if path.name == file:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with path.open("rb") as opened:
            return opened.read()

    another = Registry(three.root)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(Path, "read_bytes", read)
        with pytest.raises(ModelUnusable, match="Too many open files"):
            another.find("loan@1")
    assert another.find("loan@1").version == "1"
    assert another.broken() == ()


# --- versions that wait to be activated ------------------------------------------------------------------------------


@pytest.fixture
def candidate(three: Registry, model: ModelDirectory) -> Registry:
    """The store, with a fourth version that answers nobody yet."""
    three.register(model.write(version="11"), active=False)
    return three


def test_a_version_that_waits_is_found_by_its_full_name_alone(candidate: Registry) -> None:
    assert candidate.find("loan").name == "loan@9"
    with pytest.raises(UnknownModel, match='"loan@11" is not active yet; the active models are loan@1'):
        candidate.find("loan@11")
    waiting = candidate.find("loan@11", include_inactive=True)
    assert (waiting.active, waiting.waiting, waiting.retired) == (False, True, False)
    assert waiting.load()


def test_an_activated_version_is_the_newest(candidate: Registry) -> None:
    elsewhere = Registry(candidate.root)
    assert elsewhere.find("loan").name == "loan@9"
    assert [candidate.activate("loan@11") for _ in range(2)] == ["loan@11", "loan@11"]
    assert elsewhere.find("loan").name == "loan@11"


def test_a_retired_version_cannot_be_activated(candidate: Registry) -> None:
    candidate.retire("loan@11")
    with pytest.raises(ModelRefused, match="loan@11 is retired permanently"):
        candidate.activate("loan@11")
    with pytest.raises(UnknownModel, match="is retired"):
        candidate.find("loan@11")
