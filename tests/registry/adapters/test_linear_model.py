"""Linear models: what only they can get wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.registry.registry import Registry
from tests.registry.loan import WEIGHTS, ModelDirectory

Refusal = Callable[[Path], dict[str, str]]


def content(**changes: Any) -> bytes:
    document = {"space": "encoded", "intercept": -0.5, "weights": WEIGHTS, "link": "logit"} | changes
    return json.dumps({key: value for key, value in document.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("changes", "pointer", "sentence"),
    [
        ({"space": "logit"}, "/artifact/space", "'encoded' or 'raw'"),
        ({"link": "probit"}, "/artifact/link", "'logit' or 'identity'"),
        ({"intercept": "NaN"}, "/artifact/intercept", "finite number"),
        ({"intercept": "1_000"}, "/artifact/intercept", "must be a number"),
        ({"intercept": "\u0661\u0662"}, "/artifact/intercept", "must be a number"),
        ({"intercept": True}, "/artifact/intercept", "must be a number"),
        ({"intercept": [1]}, "/artifact/intercept", "must be a number"),
        ({"weights": None}, "/artifact/weights", "is missing"),
        ({"weights": WEIGHTS | {"age": None}}, "/artifact/weights/age", "must be a number"),
        ({"weights": WEIGHTS | {"age": "Infinity"}}, "/artifact/weights/age", "finite number"),
        ({"bias": 1}, "/artifact/bias", "is not a known key"),
        ({"weights": WEIGHTS | {"housing": 1}}, "/artifact/weights/housing", "is not an encoded column"),
        ({"weights": WEIGHTS | {"a/b~c": 1}}, "/artifact/weights/a~1b~0c", "is not an encoded column"),
    ],
)
def test_a_fault_in_the_file_has_its_pointer(
    model: ModelDirectory, refusal: Refusal, changes: dict[str, Any], pointer: str, sentence: str
) -> None:
    model.set_artifact(content(**changes))
    faults = refusal(model.write())
    assert list(faults) == [pointer]
    assert sentence in faults[pointer]


def test_every_missing_weight_is_named(model: ModelDirectory, refusal: Refusal) -> None:
    model.set_artifact(content(weights={"age": 1.0}))
    faults = refusal(model.write())
    assert list(faults) == ["/artifact/weights/income"]
    assert faults["/artifact/weights/income"] == (
        'is missing; write 0 if the model ignores this column (also "amount", "savings", "guarantor" and 3 more)'
    )


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"\xff\xfe", b"weights"])
def test_what_is_no_json_is_refused(model: ModelDirectory, refusal: Refusal, junk: bytes) -> None:
    model.set_artifact(junk)
    assert list(refusal(model.write())) == ["/artifact"]


def test_a_linear_probability_model_is_cut_off(model: ModelDirectory, store: Registry) -> None:
    model.set_artifact(content(link="identity", intercept=0.5, weights=dict.fromkeys(WEIGHTS, 0.0) | {"age": 0.3}))
    black_box = store.register(model.write()).load().black_box
    X = np.zeros((5, 8))
    X[:, 0] = [-9.0, -1.0, 0.0, 1.0, 9.0]
    np.testing.assert_allclose(black_box.predict(X), [0.0, 0.2, 0.5, 0.8, 1.0])
    assert np.isfinite(black_box.score(X)).all()
    assert black_box.gradient
    step = 1e-6 * np.eye(8)[0]
    numeric = (black_box.score(X + step) - black_box.score(X - step)) / 2e-6
    np.testing.assert_allclose(black_box.gradient(X)[:, 0], numeric, rtol=1e-5)


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_a_probability_of_default_is_turned_around(model: ModelDirectory, tmp_path: Path, link: str) -> None:
    weights = {name: 0.05 * weight for name, weight in WEIGHTS.items()}
    model.set_artifact(content(link=link, intercept=0.4, weights=weights))
    good = Registry(tmp_path / "good").register(model.write()).load()
    bad = Registry(tmp_path / "bad").register(model.write(favourable=0)).load()
    X = good.reference.X
    np.testing.assert_allclose(bad.black_box.predict(X), 1.0 - good.black_box.predict(X))
    assert good.black_box.gradient
    assert bad.black_box.gradient
    np.testing.assert_allclose(bad.black_box.gradient(X), -good.black_box.gradient(X))


def test_a_key_that_is_given_twice_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    """Readers differ in which of the two they take."""
    twice = content().replace(b'"intercept"', b'"intercept": 9, "intercept"')
    model.set_artifact(twice)
    assert 'has an object with the key "intercept" twice' in refusal(model.write())["/artifact"]
