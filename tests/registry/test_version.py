"""An installed version is what was registered, or it is not used."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelUnusable
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel, read_version
from tests.registry.loan import WEIGHTS, ModelDirectory


@pytest.fixture
def registered(model: ModelDirectory, store: Registry) -> RegisteredModel:
    return store.register(model.write())


def test_it_knows_its_names(registered: RegisteredModel, model: ModelDirectory) -> None:
    assert (registered.id, registered.version, registered.name) == ("loan", "1", "loan@1")
    assert registered.sha256 == model.manifest["artifact"]["sha256"]
    assert not registered.retired
    assert registered.space.columns == tuple(WEIGHTS)


def test_it_crosses_to_another_process(registered: RegisteredModel) -> None:
    copy = pickle.loads(pickle.dumps(registered))
    np.testing.assert_array_equal(copy.load().reference.scores, registered.load().reference.scores)


@pytest.mark.parametrize("name", ["model.json", "reference.csv", "profile.npz", "model.yaml"])
@pytest.mark.parametrize("damage", ["changed", "missing", "linked away"])
def test_a_tampered_file_is_not_used(registered: RegisteredModel, name: str, damage: str, tmp_path: Path) -> None:
    path = registered.directory / name
    content = path.read_bytes()
    path.unlink()
    if damage == "changed":
        path.write_bytes(content[:-1] + b" " + content[-1:])
    elif damage == "linked away":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelUnusable, match="loan@1 cannot be"):
        registered.load()


def test_a_reference_of_other_scores_is_noticed(registered: RegisteredModel, model: ModelDirectory) -> None:
    """The same file may be read otherwise by another release of a library; here another file plays that part."""
    model.set_artifact(json.dumps({"weights": WEIGHTS, "intercept": -0.49}).encode())
    other = Registry(registered.directory.parents[1].parent / "other").register(model.write()).directory
    for name in ("model.yaml", "model.json"):
        (registered.directory / name).write_bytes((other / name).read_bytes())
    registration = json.loads((other / "registration.json").read_text())
    mine = json.loads((registered.directory / "registration.json").read_text())
    mine["digests"] = registration["digests"] | {"profile.npz": mine["digests"]["profile.npz"]}
    (registered.directory / "registration.json").write_text(json.dumps(mine))
    with pytest.raises(ModelUnusable, match="64 of 64 reference records are not scored as they were"):
        read_version(registered.directory, trust=Trust()).load()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("registration.json", None, "was not installed by"),
        ("registration.json", "{", "is damaged"),
        ("registration.json", '{"schema_version": 2}', "is damaged"),
        ("model.yaml", None, "cannot be read"),
        ("model.yaml", "id: loan", "its manifest has faults"),
    ],
)
def test_a_damaged_version_says_why(registered: RegisteredModel, name: str, content: str | None, sentence: str) -> None:
    if content is None:
        (registered.directory / name).unlink()
    else:
        (registered.directory / name).write_text(content)
    with pytest.raises(ModelUnusable, match=sentence):
        read_version(registered.directory, trust=Trust())


def test_a_version_belongs_into_its_directory(registered: RegisteredModel) -> None:
    moved = registered.directory.rename(registered.directory.parent / "2")
    with pytest.raises(ModelUnusable, match="loan@2 cannot be used: the directory holds loan@1"):
        read_version(moved, trust=Trust())
