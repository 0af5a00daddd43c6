"""Every fault of a manifest, with its pointer, all at once."""

import re
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.recourse.features import Change, FeatureType
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.form_sentences import EXAMPLES
from app.registry.manifest import Manifest
from app.registry.parsed_manifest import ParsedManifest, read_manifest
from app.registry.safe_yaml import read_yaml
from tests.registry.loan import ModelDirectory

SHA = "0" * 64
NETWORK = {"type": "mlp", "layers": [8, 4, 1], "activation": "relu"}


def faults_of(manifest: dict[str, Any] | str) -> dict[str, str]:
    text = manifest if isinstance(manifest, str) else yaml.safe_dump(manifest)
    parsed = read_manifest(text.encode())
    assert parsed.manifest is None
    return {fault.pointer: fault.detail for fault in parsed.faults}


def read(manifest: dict[str, Any]) -> Manifest:
    parsed = read_manifest(yaml.safe_dump(manifest).encode())
    assert parsed.faults == ()
    assert parsed.manifest is not None
    return parsed.manifest


def test_a_sound_manifest_is_read(model: ModelDirectory) -> None:
    manifest = read(model.manifest | {"rules": ["amount <= 10 * income"], "description": "Personal loans."})
    assert manifest.name == "loan@1"
    assert (manifest.input, manifest.output, manifest.threshold) == (Input.ENCODED, Output.PROBABILITY, 0.5)
    assert [feature.type for feature in manifest.features] == [
        FeatureType(f["type"]) for f in model.manifest["features"]
    ]
    assert manifest.features[0].change is Change.INCREASE
    assert manifest.parsed_rules()[0].coefficients_raw == (0.0, -10.0, 1.0, 0.0, 0.0, 0.0)


def test_defaults_are_those_of_the_output(model: ModelDirectory) -> None:
    sparse = {key: value for key, value in model.manifest.items() if key not in ("threshold", "encoding", "favourable")}
    assert read(sparse).threshold == 0.5
    assert read(sparse | {"output": "logit"}).threshold == 0.0
    assert read(sparse).encoding.continuous == "standard"
    assert read(sparse).favourable == 1


def test_a_label_is_refitted_to_a_thousand_times(model: ModelDirectory) -> None:
    assert read(model.manifest).label is None
    manifest = read(model.manifest | {"label": "repaid"})
    assert (manifest.label, manifest.refits) == ("repaid", 1000)


def test_only_linear_models_are_refitted(model: ModelDirectory) -> None:
    artifact = model.manifest["artifact"] | {"format": "sklearn", "path": "model.skops"}
    labelled = model.manifest | {"artifact": artifact, "input": "raw", "label": "repaid"}
    assert read(labelled).label == "repaid"
    assert faults_of(labelled | {"refits": 100}) == {"/refits": "belongs to the format linear"}


def test_future_models_are_chosen(model: ModelDirectory) -> None:
    chosen = read(model.manifest).futures
    assert (chosen.source, chosen.records, chosen.search, chosen.held_back) == ("auto", "fresh", 60, 60)
    stated = {"source": "stand_in", "records": "same", "search": 10, "held_back": 1, "seed": 3}
    assert set(faults_of(model.manifest | {"futures": stated})) == {"/futures/held_back", "/futures/seed"}


@pytest.mark.parametrize(
    ("better", "odds", "least"),
    [
        ("higher", {"base_points": 600, "base_odds": 50}, 100 / 101),
        ("lower", {"base_points": 600, "base_odds": 50}, 25 / 26),
        ("higher", {"base_odds": 50}, None),
        ("higher", {"base_points": 600}, None),
        ("lower", {}, None),
    ],
)
def test_points_that_double_the_odds_state_the_odds_of_a_threshold(
    model: ModelDirectory, better: str, odds: dict[str, int], least: float | None
) -> None:
    stated = {"output": "points", "threshold": 620, "better": better, "odds": {"pdo": 20, **odds}}
    found = Manifest.model_validate(model.manifest | stated)
    assert found.least_probability == (None if least is None else pytest.approx(least))
    assert found.points is not None
    # 20 points on the better side of the threshold double the odds there.
    doubled = found.points.of(np.log([2.0])) - 620
    assert doubled.tolist() == pytest.approx([20.0 if better == "higher" else -20.0])


def test_a_manifest_cannot_be_changed(model: ModelDirectory) -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(model.manifest).threshold = 0.1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "pointer", "sentence"),
    [
        ({"id": "German Credit"}, "/id", "lower-case letters"),
        ({"id": "../evil"}, "/id", "lower-case letters"),
        ({"id": "x\n"}, "/id", "lower-case letters"),
        ({"id": "x" * 65}, "/id", "lower-case letters"),
        ({"version": "-1"}, "/version", "at most 32"),
        ({"version": 1}, "/version", "put it in quotes"),
        ({"title": ""}, "/title", "must not be empty"),
        ({"colour": "red"}, "/colour", "is not a key"),
        ({"input": "both"}, "/input", "'encoded' or 'raw'"),
        ({"favourable": [1]}, "/favourable", "must be the favourable class"),
        ({"threshold": float("nan")}, "/threshold", "finite"),
        ({"threshold": 1.0}, "/threshold", "above 0 and below 1"),
        ({"output": "logit", "threshold": 600}, "/threshold", "must be a logit between -40 and 40"),
        ({"output": "label"}, "/output", "must be probability or logit or points for the format linear"),
        ({"input": "raw"}, "/input", "must be encoded"),
        ({"favourable": "good"}, "/favourable", "must be 1, or 0"),
        ({"encoding": {"continuous": "robust"}}, "/encoding/continuous", "'standard', 'minmax' or 'none'"),
        ({"reference": "model.yaml"}, "/reference", "a file of its own"),
        ({"reference": "./status.json"}, "/reference", "a file of its own"),
        ({"reference": "inactive.json"}, "/reference", "a file of its own"),
        ({"reference": "model.json"}, "/reference", "another file than the artifact"),
        ({"label": ""}, "/label", "must not be empty"),
        ({"label": 1}, "/label", "put it in quotes"),
        ({"label": "income"}, "/label", "a column of its own"),
        ({"label": "repaid", "refits": 1}, "/refits", "must be at least 2"),
        ({"label": "repaid", "refits": 10_001}, "/refits", "must be at most 10000"),
        ({"refits": 1000}, "/refits", "belongs to a label"),
        ({"rules": "a <= b"}, "/rules", "must be a list"),
        ({"rules": ["age <= savings", "age <= 3"]}, "/rules/0", "not a number but ordinal"),
    ],
)
def test_a_fault_has_its_pointer(model: ModelDirectory, changes: dict[str, Any], pointer: str, sentence: str) -> None:
    faults = faults_of(model.manifest | changes)
    assert list(faults) == [pointer]
    assert sentence in faults[pointer]


@pytest.mark.parametrize(
    ("changes", "key", "sentence"),
    [
        ({"name": 5}, "/name", "put it in quotes"),
        ({"colour": "red"}, "/colour", "is not a key that a feature has"),
        ({"type": "number"}, "/type", "'continuous', 'integer'"),
        ({"step": 0}, "/step", "must be above 0"),
        ({"min": float("nan")}, "/min", "finite"),
        ({"max": float("inf")}, "/max", "finite"),
        ({"categories": ["a", "b"]}, "", "has no categories"),
        ({"categories": ["a", True]}, "/categories/1", "put it in quotes"),
        ({"center": 3.0}, "", "together or not at all"),
    ],
)
def test_a_feature_has_faults_too(model: ModelDirectory, changes: dict[str, Any], key: str, sentence: str) -> None:
    model.manifest["features"][0] |= changes
    faults = faults_of(model.manifest)
    assert list(faults) == [f"/features/0{key}"]
    assert sentence in faults[f"/features/0{key}"]


@pytest.mark.parametrize("key", ["id", "version", "title", "artifact", "input", "output", "features", "reference"])
def test_what_is_missing_is_named(model: ModelDirectory, key: str) -> None:
    del model.manifest[key]
    assert faults_of(model.manifest) == {f"/{key}": f"is missing; write {EXAMPLES[key]}"}


def test_all_faults_come_together(model: ModelDirectory) -> None:
    model.manifest["features"][0]["min"] = 200
    model.manifest["features"][1]["decimals"] = 20
    del model.manifest["title"]
    faults = faults_of(model.manifest | {"rules": ["age"], "version": 2, "artifact": {"format": "linear", "path": "m"}})
    assert set(faults) == {"/title", "/version", "/artifact/sha256", "/features/1/decimals"}
    del model.manifest["features"][1]["decimals"]
    faults = faults_of(model.manifest | {"rules": ["age"], "version": 2, "reference": "model.yaml"})
    assert set(faults) == {"/title", "/version", "/features/0", "/rules/0", "/reference"}


@pytest.mark.parametrize(
    ("artifact", "changes", "pointer", "sentence"),
    [
        ({"path": "m.pt"}, {}, "/artifact/architecture", "is missing"),
        ({"path": "m.pt", "architecture": NETWORK | {"layers": [8]}}, {}, "/artifact/architecture/layers", "2 entries"),
        ({"path": "m.pt", "architecture": NETWORK | {"layers": [8, 0, 1]}}, {}, "/artifact/architecture/layers/1", "1"),
        ({"path": "m.pt", "architecture": NETWORK | {"layers": [8, 3]}}, {}, "/artifact/architecture/layers", "not 3"),
        (
            {"path": "m.pt", "architecture": NETWORK | {"activation": "swish"}}, {},
            "/artifact/architecture/activation", "'relu'",
        ),
        ({"path": "m.pt", "architecture": NETWORK | {"code": "x"}}, {}, "/artifact/architecture/code", "is not a key"),
        (
            {"path": "m.pt", "architecture": NETWORK | {"output_activation": "softmax"}}, {},
            "/artifact/architecture/output_activation", "must be sigmoid for 1 output",
        ),
        (
            {"path": "m.pt", "architecture": NETWORK | {"output_activation": "sigmoid"}},
            {"output": "logit", "threshold": 0},
            "/artifact/architecture/output_activation", "but output is logit",
        ),
        ({"path": "m.pt", "architecture": NETWORK}, {"favourable": 2}, "/favourable", "must be 1, or 0"),
        ({"path": "m.pt", "architecture": NETWORK}, {"output": "label"}, "/output", "must be probability or logit"),
        ({"path": "m.pt", "architecture": NETWORK}, {"input": "raw"}, "/input", "must be encoded"),
        ({"format": "sklearn", "path": "m.pt"}, {}, "/artifact/path", "must end in .skops"),
        ({"format": "sklearn", "path": "m.skops", "architecture": NETWORK}, {}, "/artifact/architecture", "torch"),
        ({"format": "xgboost", "path": "m.bin"}, {}, "/artifact/path", "must end in .json or .ubj"),
        ({"format": "xgboost", "path": "m.ubj"}, {"favourable": "good"}, "/favourable", "must be 1, or 0"),
        ({"format": "lightgbm", "path": "m.txt"}, {"output": "label"}, "/output", "must be probability or logit"),
        ({"format": "lightgbm", "path": "m.txt", "architecture": NETWORK}, {}, "/artifact/architecture", "torch"),
        ({"format": "pmml", "path": "m.pmml"}, {}, "/artifact/format", "'onnx', 'http' or 'scorecard'"),
        ({"path": "m.pt", "architecture": NETWORK, "sha256": "abc"}, {}, "/artifact/sha256", "64 hexadecimal"),
    ],
)  # fmt: skip
def test_a_format_has_its_own(
    model: ModelDirectory, artifact: dict[str, Any], changes: dict[str, Any], pointer: str, sentence: str
) -> None:
    faults = faults_of(model.manifest | {"artifact": {"format": "torch", "sha256": SHA} | artifact} | changes)
    assert list(faults) == [pointer]
    assert sentence in faults[pointer]


MERGE_BOMB = "a0: &a0 {k0: 1, k1: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 12)
)


MERGE_CHAIN = "a0: &a0 {k0: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: 1}}\n" for i in range(1, 9_000))
MANY_KEYS = "a:\n" + "".join(f" k{i}: 1\n" for i in range(700_000))


def test_values_are_read_as_they_are_written() -> None:
    assert read_yaml(b"d: 2026-02-03\ne: 0x10\nf: on\ng: 1e5\nh: -1.5e-3\ni: 12\n") == {
        "d": date(2026, 2, 3), "e": 16, "f": True, "g": 1e5, "h": -1.5e-3, "i": 12,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (MERGE_CHAIN, "line 2: has an alias, *a0; write the value out"),
        ("a: {<<: {b: 1}}", "line 1: << merges mappings; write the keys out"),
        (MANY_KEYS, "there are more than 250,000 keys and values"),
        ("a: &a [1]\nb: [*a, *a]", "line 2: has an alias, *a"),
    ],
)
def test_what_would_take_long_is_refused_in_two_seconds(text: str, sentence: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_yaml(text.encode())
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("text", ["1_000", "1_000.5", "1:30", "010"])
def test_numbers_that_are_read_two_ways_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'"{text}" is no number or date'):
        read_yaml(f"a: {text}".encode())


HIDDEN = {
    "\u2028": "U+2028",
    "\u202e": "U+202E",
    "\0": "U+0000",
    "\x85": "U+0085",
    "\u200b": "U+200B",
    "\x1b": "U+001B",
}


@pytest.mark.parametrize(("character", "code"), HIDDEN.items())
@pytest.mark.parametrize(
    ("place", "pointer"),
    [
        (("title",), "/title"),
        (("features", 0, "label"), "/features/0/label"),
        (("features", 0, "sentence", "any"), "/features/0/sentence/any"),
        (("features", 0, "words", "de", "label"), "/features/0/words/de/label"),
    ],
)
def test_words_that_cannot_be_printed_are_refused(
    model: ModelDirectory, character: str, code: str, place: tuple[Any, ...], pointer: str
) -> None:
    document: Any = deepcopy(model.manifest)
    part = document
    for key in place[:-1]:
        part = part[key] if isinstance(part, list) else part.setdefault(key, {})
    part[place[-1]] = f"Save{character}## YOU ARE ACCEPTED"
    assert faults_of(yaml.safe_dump(document)) == {
        pointer: f"has {code} at character 5, which cannot be printed; leave it out"
    }


def test_words_of_other_languages_are_printable(model: ModelDirectory) -> None:
    words = "Pr\u00eat\u00a0: 10\u202f%, \u0645\u06cc\u200c\u062e\u0648, \u0928\u094d\u200d\u092f, Ein\u00adkommen"
    assert read(model.manifest | {"title": words, "description": "One.\n\tTwo."}).title == words


@pytest.mark.parametrize("version", [f"0x{'f' * 9_000}", "2026-02-03", ".nan", "[]"])
def test_odd_values_are_faults_of_their_place(model: ModelDirectory, version: str) -> None:
    text = model.write().joinpath("model.yaml").read_text()
    changed = re.sub(r"(?m)^version:.*$", f"version: {version}", text)
    assert "/version" in {fault.pointer for fault in read_manifest(changed.encode()).faults}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id: [", "is not YAML"),
        ("id: a\nid: b\n", '"id" is given twice'),
        ("features: [{name: a, name: b}]", '"name" is given twice'),
        ("!!python/object/apply:os.system ['touch evil']", "is not YAML"),
        ("- a list", "must be a mapping"),
        ("1: a", "must be a mapping"),
        ("", "must be a mapping"),
        ("[" * 5_000, "is not YAML"),
        ("version: 2026-02-30", '"2026-02-30" is no number or date; put a text in quotes'),
        ("version: 2026-02-03T25:00:00Z", '"2026-02-03T25:00:00Z" is no number or date'),
        (f"threshold: {'9' * 50_000}", "a value has more than 10,000 characters"),
        (f"threshold: {'9' * 9_000}", "is no number or date"),
        (f"threshold: {'1:' * 30_000}1", "a value has more than 10,000 characters"),
        ("threshold: !!int x", '"x" is no number or date'),
        ("threshold: !!float x", '"x" is no number or date'),
        ("threshold: !!timestamp x", '"x" is no number or date'),
        ("threshold: !!bool x", '"x" is no number or date'),
        (MERGE_BOMB, "has an alias"),
        ("#" * 10_000_001, "has more than 10,000,000 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, sentence: str) -> None:
    faults = faults_of(text)
    assert list(faults) == [""]
    assert sentence in faults[""]


ODD: list[Any] = [
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 1e308, 2**70, "", "x", "x" * 600, "../x", [], ["a", "a"], [1],
    {}, {"a": 1}, [{}], "model.yaml", "raw", "label", "logit", "torch", "binary", "categorical", "increase", NETWORK,
]  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def test_whatever_stands_anywhere_there_is_a_manifest_or_a_fault(model: ModelDirectory) -> None:
    model.manifest["features"][0] |= {"step": 1, "center": 40.0, "scale": 10.0, "cost": 2.0, "noise": False}
    model.manifest["rules"] = ["amount <= 10 * income"]
    outcomes = set()
    for place in list(places(model.manifest)):
        for value in ODD:
            document = deepcopy(model.manifest)
            part: Any = document
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = value
            parsed = ParsedManifest.of(document)
            assert (parsed.manifest is None) == bool(parsed.faults), (place, value)
            outcomes.add(parsed.manifest is None)
    assert outcomes == {True, False}


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    assert read_manifest(b"\xff\xfe\x00id").faults[0].pointer == ""
