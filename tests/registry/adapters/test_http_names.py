"""Remote models with tensors under names of their own, and what a server says of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ModelRefused
from app.registry.artifact import Endpoint
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.registry.loan import FEATURES, loan_records
from tests.remote.server import of_record
from tests.remote.serving import make_remote, shared

NAMES = {"age": "AGE_Y", "income": "NET_INC"}
THEIRS = {theirs: own for own, theirs in NAMES.items()}


def description(**changes: Any) -> dict[str, Any]:
    names = [NAMES.get(str(feature["name"]), str(feature["name"])) for feature in FEATURES]
    inputs = [{"name": name, "datatype": "FP64", "shape": [-1, 1]} for name in names]
    return {"name": "loan", "inputs": inputs, "outputs": [{"name": "p", "datatype": "FP64", "shape": [-1]}], **changes}


def faults(path: Path, store: Registry, **artifact: Any) -> dict[str, str]:
    with pytest.raises(ModelRefused) as caught:
        register(path, store, **artifact)
    return {fault.pointer: fault.detail for fault in caught.value.faults}


def register(path: Path, store: Registry, kind: str = "raw", **artifact: Any) -> Any:
    model = make_remote(path, shared(), "oip-v2", kind, **artifact)
    return Registry(store.root, Trust(hosts=shared().hosts)).register(model.write())


def test_features_are_sent_under_the_servers_names(tmp_path: Path, store: Registry) -> None:
    shared().behave(metadata=description(), inputs=THEIRS)
    box = register(tmp_path / "model", store, map=NAMES).load().black_box
    sent = loan_records(1_000, seed=1)
    expected = np.array([of_record(record) for record in sent])
    rows = box.space.read_many(sent, pointer="")
    np.testing.assert_allclose(box.probability(box.score_raw(rows)), expected, atol=1e-9)
    asked = [one["body"]["inputs"] for one in shared().asked()]
    assert {one["name"] for one in asked[-1]} == {"AGE_Y", "NET_INC", *(str(f["name"]) for f in FEATURES[2:])}


def test_names_that_the_server_does_not_have_are_listed(tmp_path: Path, store: Registry) -> None:
    shared().behave(metadata=description(), inputs=THEIRS)
    found = faults(tmp_path / "model", store, output_name="q")
    assert '"AGE_Y" (FP64), "NET_INC" (FP64)' in found["/artifact/map"]
    assert 'would be sent "age", "income"' in found["/artifact/map"]
    assert found["/artifact/output_name"] == 'is none of the outputs of the server: "p"'
    assert shared().asked() == []  # no record was sent


def test_a_matrix_has_the_name_that_the_server_gives_it(tmp_path: Path, store: Registry) -> None:
    shared().behave(metadata=description(inputs=[{"name": "float_input", "datatype": "FP32"}]))
    found = faults(tmp_path / "model", store, kind="encoded")
    assert found == {
        "/artifact/input_name": 'does not fit: the server takes "float_input" (FP32), and would be sent "x"'
    }


@pytest.mark.parametrize("said", [None, {"inputs": "junk"}, {"name": "loan"}, [1], {"inputs": [], "outputs": []}])
def test_a_server_that_says_nothing_is_asked_all_the_same(tmp_path: Path, store: Registry, said: Any) -> None:
    shared().behave(metadata=said)
    assert register(tmp_path / "model", store).load().black_box.remote is not None


def test_the_digest_of_a_description_without_names_is_what_it_was() -> None:
    stated = {"format": "http", "url": "http://x/infer", "protocol": "oip-v2", "output_name": "p"}
    plain, named = Endpoint.model_validate(stated), Endpoint.model_validate(stated | {"map": NAMES})
    assert '"map"' not in plain.model_dump_json(exclude={"map"})
    assert plain.sha256 != named.sha256
    assert plain.sha256 == "9d68b0cd08d16effbac012e3559e3a595f1530808f9212c92d2676be736dd4d6"
