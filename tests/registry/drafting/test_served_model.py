"""A draft from the address of a model server, in the protocols that are spoken."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.lender_scores import outputs_of
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.registry.loan import loan_records
from tests.remote.server import of_record
from tests.remote.serving import ModelServer, shared

TYPES = {
    "age": "INT64",
    "income": "FP64",
    "amount": "FP64",
    "savings": "BYTES",
    "guarantor": "BOOL",
    "housing": "BYTES",
}
OUTPUTS = [{"name": "label", "datatype": "INT64", "shape": [-1]}, {"name": "p", "datatype": "FP64", "shape": [-1]}]
TABLE = {"inputs": [{"name": n, "datatype": t, "shape": [-1, 1]} for n, t in TYPES.items()], "outputs": OUTPUTS}
MATRIX = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 8]}], "outputs": OUTPUTS}

Table = tuple[Path, np.ndarray]


@pytest.fixture
def server() -> ModelServer:
    return shared()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Records, and the lender's own scores, also as a column."""
    records = loan_records()
    scores = np.array([of_record(record) for record in records])
    with (tmp_path / "loans.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*records[0], "repaid", "own"])
        writer.writeheader()
        writer.writerows(
            record | {"repaid": "yes" if score > 0.5 else "no", "own": repr(float(score))}
            for record, score in zip(records, scores, strict=True)
        )
    return tmp_path / "loans.csv", scores


def address(server: ModelServer, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


@pytest.mark.parametrize("path", ["/v2/models/raw/infer", "/raw/invocations"])
def test_a_draft_from_a_server_scores_as_the_server(
    path: str, server: ModelServer, table: Table, tmp_path: Path
) -> None:
    server.behave(metadata=TABLE)
    wish = Wish(data=table[0], url=address(server, path), label="repaid", favourable="yes", scores="own")
    found = draft(wish, tmp_path / "loan", Trust(hosts=server.hosts))
    assert found.complete
    artifact = yaml.safe_load((tmp_path / "loan" / "model.yaml").read_text())["artifact"]
    assert (artifact["format"], artifact["url"]) == ("http", address(server, path))
    assert artifact.get("output_name") == ("p" if "v2" in path else None)
    assert sorted(one.name for one in (tmp_path / "loan").iterdir()) == ["answers.yaml", "model.yaml", "reference.csv"]
    model = Registry(tmp_path / "store", Trust(hosts=server.hosts)).register(tmp_path / "loan")
    loaded = model.load()
    assert model.registration.warnings == ()
    assert np.abs(outputs_of(loaded.black_box, loaded.reference.scores) - table[1]).max() < 1e-6


def test_a_server_of_a_matrix_is_sent_encoded_columns(server: ModelServer, table: Table, tmp_path: Path) -> None:
    server.behave(metadata=MATRIX)
    text = table[0].read_text()
    for code, level in enumerate(("none", "some", "much")):
        text = text.replace(f",{level},", f",{code},")
    table[0].write_text(text)
    wish = Wish(
        data=table[0], url=address(server, "/v2/models/encoded/infer"), label="repaid", favourable="yes", drop=("own",)
    )
    draft(wish, tmp_path / "loan", Trust(hosts=server.hosts))
    manifest: Any = yaml.safe_load((tmp_path / "loan" / "model.yaml").read_text())
    assert (manifest["input"], manifest["artifact"]["input_name"]) == ("encoded", "x")
    registry = Registry(tmp_path / "store", Trust(hosts=server.hosts))
    assert registry.register(tmp_path / "loan").registration.records == 200


def test_labels_of_mlflow_are_not_taken_for_probabilities(server: ModelServer, table: Table, tmp_path: Path) -> None:
    """As of an estimator that was saved without predict_proba."""
    server.behave("labels", names=[0, 1])
    wish = Wish(data=table[0], url=address(server, "/raw/invocations"), label="repaid", favourable="yes", drop=("own",))
    draft(wish, tmp_path / "loan", Trust(hosts=server.hosts))
    manifest: Any = yaml.safe_load((tmp_path / "loan" / "model.yaml").read_text())
    assert (manifest["output"], manifest["favourable"]) == ("label", 1)


@pytest.mark.parametrize(
    ("path", "mode", "said"),
    [
        ("/predict", {}, "must end in /v2/models/NAME/infer"),
        ("/v2/models/raw/infer", {}, "does not describe its model"),
        ("/v2/models/raw/infer", {"metadata": {"inputs": [{"shape": 1}]}}, "does not describe its model"),
        ("/v2/models/raw/infer", {"metadata": {"inputs": [{"name": "score", "datatype": "FP64"}]}}, "takes columns"),
    ],
)
def test_what_is_not_said_is_refused(
    path: str, mode: dict[str, Any], said: str, server: ModelServer, table: Table, tmp_path: Path
) -> None:
    server.behave(**mode)
    with pytest.raises(ModelRefused, match=said):
        draft(Wish(data=table[0], url=address(server, path)), tmp_path / "loan", Trust(hosts=server.hosts))
    assert not (tmp_path / "loan").exists()


def test_a_host_that_the_operator_does_not_allow_is_not_asked(
    server: ModelServer, table: Table, tmp_path: Path
) -> None:
    server.behave(metadata=TABLE)
    url = address(server, "/v2/models/raw/infer")
    with pytest.raises(ModelRefused) as caught:
        draft(Wish(data=table[0], url=url), tmp_path / "loan", Trust())
    assert "RECOURSE_REMOTE_HOSTS" in str(caught.value) + str(caught.value.faults)
    assert server.asked() == []
    with pytest.raises(ModelRefused, match="--model or --url"):
        draft(Wish(data=table[0], url=url, model=tmp_path / "m.skops"), tmp_path / "loan", Trust(hosts=server.hosts))
