"""docs/models.md: its tables name every key of a manifest, and the directories of its examples register."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter
from typer.testing import CliRunner

from app.cli.commands import cli
from app.recourse.actions.sentences import change_text
from app.recourse.features import Feature, MaxChange, MovesWithTime, Takes, own_faults
from app.recourse.reasons import Departure, reason_text
from app.registry.artifact import Artifact, Endpoint, Format
from app.registry.manifest import Manifest
from app.registry.parsed_manifest import ParsedManifest
from app.registry.registry import Registry
from examples.model_directories import EXAMPLES
from tests.optional import library

TEXT = (Path(__file__).parents[1] / "docs/models.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LIBRARIES = {"onnx": ("skl2onnx", "onnxruntime"), "xgboost": ("xgboost",), "lightgbm": ("lightgbm",)}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_of_a_pipeline_drafts_and_registers_as_its_command_says(directory: Path) -> None:
    library("skops.io")
    EXAMPLES["pipeline"]()
    (command,) = re.findall(r"^recourse (models draft .*own_score.*)$", TEXT, re.MULTILINE)
    done = CliRunner().invoke(cli, command.split())
    assert done.exit_code == 0, done.output
    assert "favourable: good: confirmed by the scores" in done.output
    registered = Registry(directory / "store").register(directory / "loan")
    assert registered.registration.warnings == ()
    assert {f.name: f.type.value for f in registered.manifest.features} == {
        "income": "integer", "debts": "integer", "savings": "ordinal", "housing": "categorical",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "of_feature"),
    [
        ("missing", {"missing": "nan", "special": {-9.0: "no bureau record"}}),
        ("derived", {"derived": "debts / income"}),
    ],
)
def test_each_example_of_records_registers(directory: Path, name: str, of_feature: dict[str, object]) -> None:
    for needed in LIBRARIES["xgboost"]:
        library(needed)
    EXAMPLES[name]()
    registered = Registry(directory / "store").register(directory / name)
    assert registered.registration.warnings == ()
    features = registered.manifest.features
    assert {key: value for f in features for key in of_feature if (value := getattr(f, key))} == of_feature


def test_the_example_of_categories_registers(directory: Path) -> None:
    library("xgboost")
    EXAMPLES["categories"]()
    registered = Registry(directory / "store").register(directory / "categories")
    assert registered.registration.warnings == ()
    assert not registered.load().black_box.fractional


def test_the_example_of_advice_registers(directory: Path) -> None:
    EXAMPLES["advice"]()
    registered = Registry(directory / "store").register(directory / "advice")
    assert registered.registration.warnings == ()
    income, months = registered.manifest.features
    assert (income.max_change, income.least_change) == (MaxChange(relative=0.2), 100)
    assert (income.takes, months.moves_with_time) == (Takes(months_per_unit=0.005), MovesWithTime(per_year=12))


def test_the_example_of_rules_registers(directory: Path) -> None:
    EXAMPLES["rules"]()
    registered = Registry(directory / "store").register(directory / "rules")
    assert registered.registration.warnings == ()
    flat, ratio = registered.rules
    rows_raw = np.array([[3000, 9, 0, 0], [3000, 9, 2, 10], [3000, 9, 1, 1300], [900, 9, 1, 800], [3000, 9, 1, 900]])
    assert flat.holds(rows_raw.astype(float)).tolist() == [True, False, True, True, True]
    assert ratio.holds(rows_raw.astype(float)).tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("form", [form.value for form in Format if form is not Format.HTTP])
def test_each_example_registers(directory: Path, form: str) -> None:
    for name in LIBRARIES.get(form, ()):
        library(name)
    EXAMPLES[form]()
    registered = Registry(directory / "store").register(directory / form)
    assert registered.name == f"loan-{form}@1"
    assert registered.manifest.artifact.format == form


def test_the_remote_example_is_sound(directory: Path) -> None:
    EXAMPLES["linear"]()
    (artifact,) = [block for block in BLOCKS if block.startswith("artifact:")]
    manifest = yaml.safe_load((directory / "linear/model.yaml").read_text()) | yaml.safe_load(artifact)
    assert ParsedManifest.of(manifest).faults == ()


def test_the_example_of_words_is_sound() -> None:
    (words,) = [block for block in BLOCKS if block.startswith("- {name:")]
    features = TypeAdapter(tuple[Feature, ...]).validate_python(yaml.safe_load(words))
    assert [fault for feature in features for fault in own_faults(feature)] == []
    guarantor, term = features
    assert change_text(guarantor, 0.0, 1.0) == "Find a guarantor whom we accept."
    assert reason_text(guarantor.in_language("de"), 0.0, Departure.TOO_LOW) == "Keine Bürgschaft für den Kredit"
    assert change_text(term, 48.0, 36.0) == "Repay over 36 months instead of 48 months."


def test_every_key_is_in_a_table() -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    named = {name.partition(".")[0] for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    models = (Manifest, Artifact, Endpoint)
    assert named == {key for model in models for key in model.model_fields} | {field.name for field in fields(Feature)}
