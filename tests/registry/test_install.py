"""Registration: what is installed is whole, what is refused leaves nothing, and every fault is told at once."""

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelExists, ModelRefused, ModelUnusable
from app.recourse.models.score import sigmoid
from app.recourse.surrogate.refits import refit_moments
from app.registry import reference
from app.registry.install import STALE_S
from app.registry.registry import Registry
from tests.registry.loan import WEIGHTS, ModelDirectory, loan_records

Refusal = Callable[[Path], dict[str, str]]


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file can grow beyond `limit` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_what_is_installed_is_whole(model: ModelDirectory, store: Registry) -> None:
    (model.path / "extra").mkdir(parents=True)
    (model.path / "extra" / "notes.txt").write_text("not part of the model")
    registered = store.register(model.write())
    installed = {"model.yaml", "model.json", "reference.csv", "profile.npz", "registration.json"}
    assert files(store.root) == {f"loan/1/{name}" for name in installed}
    registration = registered.registration
    assert registration.digests == {
        name: hashlib.sha256((registered.directory / name).read_bytes()).hexdigest()
        for name in installed - {"registration.json"}
    }
    assert registration.records == 200
    assert 0 < registration.favourable < 200
    assert (registration.largest_distance_exact, registration.warnings) == (True, ())
    ages = np.array([record["age"] for record in model.records])
    assert registration.encoding["age"] == pytest.approx((ages.mean(), ages.std()))
    assert set(registration.encoding) == {"age", "income", "amount", "savings", "guarantor"}


def test_a_labelled_model_is_refitted_once(model: ModelDirectory, store: Registry) -> None:
    plain = store.register(model.write()).load().reference
    registered = store.register(model.label().write(version="2"))
    reference = registered.load().reference
    moments = reference.weight_moments
    assert plain.weight_moments is None
    assert moments is not None
    favourable = np.array([record["repaid"] == 1 for record in model.records])
    again = refit_moments(reference.X, favourable, 200, 0)
    np.testing.assert_allclose(moments.mean, again.mean, rtol=1e-6)
    np.testing.assert_allclose(moments.root @ moments.root.T, again.root @ again.root.T, atol=1e-9)
    assert moments.root.shape == (len(WEIGHTS) + 1, len(WEIGHTS) + 1)
    assert registered.registration.warnings == ()
    # The label is no part of the model: all the rest is the same.
    np.testing.assert_array_equal(reference.rows_raw, plain.rows_raw)
    np.testing.assert_array_equal(reference.scores, plain.scores)
    assert (registered.space.columns, reference.largest_distance) == (tuple(WEIGHTS), plain.largest_distance)
    assert set(registered.registration.encoding) == {"age", "income", "amount", "savings", "guarantor"}


def test_moments_cannot_be_changed_afterwards(model: ModelDirectory, store: Registry) -> None:
    registered = store.register(model.label().write())
    path = registered.directory / "profile.npz"
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["weight_root"] *= 0.5
    np.savez(path, **changed)
    with pytest.raises(ModelUnusable, match=r"profile.npz has changed"):
        registered.load()


def test_bad_outcomes_are_named_among_the_other_faults(model: ModelDirectory, refusal: Refusal) -> None:
    model.label().records[1]["repaid"] = "yes"
    model.records[3]["age"] = 5
    assert refusal(model.write(rules=["age <= hat"])) == {
        "/rules/0": "names hat (column 8), which is not a feature of this model",
        "/reference/1/repaid": 'line 3: must be one of "0", "1"; write 1 where the outcome was favourable, else 0',
        "/reference/3/age": "line 5: must be at least 18",
    }


def test_a_label_that_is_not_there_or_says_one_thing_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    faults = refusal(model.write(label="repaid"))
    assert list(faults) == ["/reference"]
    assert faults["/reference"].startswith('has no column "repaid"')
    for record in model.label().records:
        record["repaid"] = 1
    assert refusal(model.write()) == {"/label": "needs at least 2 records with the outcome 0; there are 0"}


def test_the_profile_is_the_models_own(model: ModelDirectory, store: Registry) -> None:
    loaded = store.register(model.write()).load()
    np.testing.assert_allclose(loaded.reference.scores, loaded.black_box.score_raw(loaded.reference.rows_raw))
    distances = np.linalg.norm(loaded.reference.X[:, None] - loaded.reference.X[None], axis=2)
    assert loaded.reference.largest_distance == pytest.approx(distances.max())


def test_files_in_folders_keep_their_place(model: ModelDirectory, store: Registry) -> None:
    (model.path / "weights").mkdir(parents=True)
    model.manifest["artifact"]["path"] = "weights/model.json"
    assert store.register(model.write()).load()
    assert "loan/1/weights/model.json" in files(store.root)


def test_a_link_inside_the_directory_becomes_a_file(model: ModelDirectory, store: Registry) -> None:
    model.write()
    (model.path / "model.json").rename(model.path / "v7.json")
    (model.path / "model.json").symlink_to("v7.json")
    installed = store.register(model.path).directory / "model.json"
    assert not installed.is_symlink()
    assert installed.read_bytes() == model.artifact


def test_stated_scales_are_kept(model: ModelDirectory, store: Registry) -> None:
    model.manifest["features"][1] |= {"center": 1_000.0, "scale": 250.0}
    assert store.register(model.write()).registration.encoding["income"] == (1_000.0, 250.0)


def test_a_version_is_never_overwritten(model: ModelDirectory, store: Registry) -> None:
    before = store.register(model.write())
    content = (before.directory / "registration.json").read_bytes()
    model.records = loan_records(seed=1)
    with pytest.raises(ModelExists, match="loan@1 is registered already"):
        store.register(model.write())
    assert (before.directory / "registration.json").read_bytes() == content
    assert files(store.root) == {f"loan/1/{path.name}" for path in before.directory.iterdir()}


@pytest.mark.slow
def test_of_two_processes_one_registers(model: ModelDirectory, tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, app.registry.registry as r, app.errors as e\n"
        "input()\n"
        "try: r.Registry(pathlib.Path(sys.argv[1])).register(pathlib.Path(sys.argv[2]))\n"
        "except e.ModelExists: sys.exit(7)\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "store", model.write()]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path.cwd()) for _ in range(3)]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write(b"\n")
        racer.stdin.flush()
    codes = []
    for racer in racers:
        racer.communicate()
        codes.append(racer.returncode)
    assert sorted(codes) == [0, 7, 7]
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["loan"]


# --- refused ---------------------------------------------------------------------------------------------------------


def test_every_fault_is_told_at_once(model: ModelDirectory, refusal: Refusal) -> None:
    model.records[3]["age"] = 12
    model.records[4]["housing"] = "castle"
    del model.manifest["title"]
    model.manifest["artifact"]["sha256"] = "0" * 64
    model.write(rules=["age <= wealth"], version=3)
    assert set(refusal(model.path)) == {
        "/title", "/version", "/rules/0", "/artifact/sha256", "/reference/3/age", "/reference/4/housing"
    }  # fmt: skip


def test_the_artifact_is_examined_although_reference_records_are_bad(model: ModelDirectory, refusal: Refusal) -> None:
    model.records[3]["age"] = 12
    model.set_artifact(json.dumps({"weights": {**WEIGHTS, "shoe_size": 1}}).encode())
    assert set(refusal(model.write())) == {"/reference/3/age", "/artifact/weights/shoe_size"}


def test_files_are_examined_although_the_manifest_is_bad(model: ModelDirectory, refusal: Refusal) -> None:
    model.write(id="Not An Id", reference="other.csv")
    (model.path / "model.json").unlink()
    faults = refusal(model.path)
    assert set(faults) == {"/id", "/artifact/path", "/reference"}
    assert faults["/artifact/path"] == 'there is no file "model.json"'


@pytest.mark.parametrize("name", ["model.json", "./model.json", "model.yaml", "registration.json", "profile.npz"])
def test_two_files_cannot_have_one_name(model: ModelDirectory, refusal: Refusal, name: str) -> None:
    model.write()
    for reserved in ("registration.json", "profile.npz"):
        (model.path / reserved).write_text("")
    assert "/reference" in refusal(model.write(reference=name, title=None))


def test_a_wrong_digest_names_the_right_one(model: ModelDirectory, refusal: Refusal) -> None:
    model.manifest["artifact"]["sha256"] = "a" * 64
    assert hashlib.sha256(model.artifact).hexdigest() in refusal(model.write())["/artifact/sha256"]


@pytest.mark.parametrize("path", ["../secret.json", "/etc/hostname", "sub/../../secret.json"])
def test_a_path_cannot_leave_the_directory(model: ModelDirectory, refusal: Refusal, path: str) -> None:
    model.write()
    (model.path.parent / "secret.json").write_bytes(model.artifact)
    text = (model.path / "model.yaml").read_text()
    (model.path / "model.yaml").write_text(text.replace("path: model.json", f"path: {path}"))
    assert "relative path inside" in refusal(model.path)["/artifact/path"]


def test_the_manifest_is_no_link_out_of_the_directory(model: ModelDirectory, store: Registry, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root: secret-of-another-file")
    directory = model.write()
    (directory / "model.yaml").unlink()
    (directory / "model.yaml").symlink_to(secret)
    with pytest.raises(ModelRefused, match="is a link that leaves the directory of the model") as refusal:
        store.register(directory)
    assert "secret-of" not in str(refusal.value.detail)
    assert not refusal.value.faults


@pytest.mark.parametrize(("name", "limit"), [("LARGEST", "bytes"), ("MOST_ROWS", "lines")])
def test_a_reference_that_is_too_large_is_not_read(
    model: ModelDirectory, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, name: str, limit: str
) -> None:
    monkeypatch.setattr(reference, name, 100)
    monkeypatch.setattr(reference, "read_table", None)
    faults = refusal(model.write())
    assert list(faults) == ["/reference"]
    assert f" {limit}; 100 are the most" in faults["/reference"]


@pytest.mark.parametrize(("name", "pointer"), [("model.json", "/artifact/path"), ("reference.csv", "/reference")])
def test_neither_can_a_link(model: ModelDirectory, refusal: Refusal, name: str, pointer: str) -> None:
    model.write()
    (model.path / name).rename(model.path.parent / name)
    (model.path / name).symlink_to(model.path.parent / name)
    assert "link that leaves" in refusal(model.path)[pointer]


def test_a_model_that_answers_nonsense_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    model.set_artifact(json.dumps({"weights": dict.fromkeys(WEIGHTS, 1e308)}).encode())
    assert "no finite output for" in refusal(model.write(output="logit", threshold=0.0))["/artifact"]


def test_numbers_too_large_to_encode_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    del model.manifest["features"][1]["max"]
    model.records[0]["income"] = 1e16
    model.manifest["features"][1] |= {"center": 0.0, "scale": 1e-300}
    assert 'too large to encode in "income"' in refusal(model.write())["/reference"]


def test_without_a_manifest_there_is_no_model(tmp_path: Path, store: Registry) -> None:
    with pytest.raises(ModelRefused, match=r"has no model\.yaml, the manifest; recourse models draft writes one"):
        store.register(tmp_path)
    assert not store.root.exists()


@pytest.mark.parametrize("limit", [0, 1_000, 9_000])
def test_a_full_disk_leaves_nothing(model: ModelDirectory, store: Registry, limit: int) -> None:
    model.set_artifact(model.artifact + b" " * 5_000)
    model.write()
    with full_disk(limit), pytest.raises(OSError, match="File too large"):
        store.register(model.path)
    assert list(store.root.iterdir()) == []
    assert store.register(model.path)


def test_what_a_killed_registration_left_is_ignored_then_swept(model: ModelDirectory, store: Registry) -> None:
    left = store.root / ".incoming-left"
    left.mkdir(parents=True)
    (left / "model.yaml").write_text("id: half")
    store.register(model.write())
    assert left.exists()
    assert [found.name for found in store.list()] == ["loan@1"]
    assert store.broken() == ()
    old = left.stat().st_mtime - STALE_S - 60
    os.utime(left, (old, old))
    store.register(model.write(version="2"))
    assert not left.exists()


def test_another_registration_may_move_its_directory_away_at_any_moment(model: ModelDirectory, store: Registry) -> None:
    """A name without a file stands for one that is there when it is listed, and gone when it is looked at."""
    store.root.mkdir(parents=True)
    (store.root / ".incoming-other").symlink_to("gone")
    assert store.register(model.write()).name == "loan@1"


def test_an_independent_scorecard_gives_the_registered_scores(model: ModelDirectory, store: Registry) -> None:
    loaded = store.register(model.write()).load()
    encoding = loaded.registered.registration.encoding
    for record, score in zip(model.records[:20], loaded.reference.scores, strict=False):
        numbers = record | {"savings": ["none", "some", "much"].index(record["savings"])}
        total = -0.5 + WEIGHTS[f"housing={record['housing']}"]
        total += sum(WEIGHTS[name] * (float(numbers[name]) - c) / s for name, (c, s) in encoding.items())
        assert score == pytest.approx(total)
        np.testing.assert_allclose(loaded.black_box.probability(np.array([score])), sigmoid(total))
