"""ONNX: what is refused before the runtime sees it, what does not fit, and damaged files in a process of their own."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.recourse.models.black_box import BlackBox
from app.registry.adapters import onnx_model
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.adapters.boosted import FRESH, X, Y, try_mutants
from tests.registry.loan import FEATURES, ModelDirectory

onnx = library("onnx")
library("onnxruntime")
helper = onnx.helper

Refusal = Callable[[Path], dict[str, str]]

FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
WEIGHTS = np.arange(1.0, 9.0, dtype=np.float32)[:, None] / 10.0


def matrix(name: str, *shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def proto(
    nodes: Any = None, inputs: Any = None, outputs: Any = None, weights: Any = None, domains: Any = ("", "ai.onnx.ml")
) -> Any:
    """A logistic model of 8 encoded columns, of which a test may replace parts."""
    nodes = nodes or [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"])]
    graph = helper.make_graph(
        nodes,
        "model",
        [matrix("x", None, 8)] if inputs is None else inputs,
        [matrix("p", None, 1)] if outputs is None else outputs,
        [onnx.numpy_helper.from_array(WEIGHTS, "w") if weights is None else weights],
    )
    opsets = [helper.make_opsetid(domain, {"": 17, "ai.onnx.ml": 3}.get(domain, 1)) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def use(model: ModelDirectory, content: Any, artifact: dict[str, Any] | None = None, **changes: Any) -> Path:
    """The loan model with this graph as its artifact."""
    model.set_artifact(
        content if isinstance(content, bytes) else content.SerializeToString(), format="onnx", path="m.onnx",
        **(artifact or {}),
    )  # fmt: skip
    return model.write(**changes)


def loaded(store: Registry, source: Path) -> BlackBox:
    return store.register(source).load().black_box


def forest() -> bytes:
    skl2onnx = library("skl2onnx")
    from sklearn.ensemble import RandomForestClassifier

    fitted = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, Y)
    exported = skl2onnx.to_onnx(fitted, X[:1].astype(np.float32), options={id(fitted): {"zipmap": False}})
    content: bytes = exported.SerializeToString()
    return content


# --- what it answers -------------------------------------------------------------------------------------------------


def expected() -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-(FRESH @ WEIGHTS[:, 0])))


@pytest.mark.parametrize("favourable", [0, 1])
@pytest.mark.parametrize("shape", ["(n, 1)", "(n,)", "(n, 2)"])
def test_shapes_of_the_output(model: ModelDirectory, store: Registry, shape: str, favourable: int) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["q"])]
    outputs = [matrix("p", None, 1)]
    if shape == "(n,)":
        nodes += [helper.make_node("Flatten", ["q"], ["f"], axis=0), helper.make_node("Squeeze", ["f"], ["p"])]
        outputs = [matrix("p", None)]
    elif shape == "(n, 2)":
        one = helper.make_node("Constant", [], ["one"], value=onnx.numpy_helper.from_array(np.float32(1.0)))
        nodes += [one, helper.make_node("Sub", ["one", "q"], ["no"])]
        nodes += [helper.make_node("Concat", ["no", "q"], ["p"], axis=1)]
        outputs = [matrix("p", None, 2)]
    else:
        nodes += [helper.make_node("Identity", ["q"], ["p"])]
    black_box = loaded(store, use(model, proto(nodes, outputs=outputs), favourable=favourable))
    found = black_box.probability(black_box.score(FRESH))
    np.testing.assert_allclose(found, expected() if favourable else 1.0 - expected(), atol=1e-6)


def test_a_logit_is_taken_as_it_is(model: ModelDirectory, store: Registry) -> None:
    graph = proto([helper.make_node("MatMul", ["x", "w"], ["p"])])
    black_box = loaded(store, use(model, graph, output="logit", threshold=0.1))
    np.testing.assert_allclose(black_box.score(FRESH), FRESH @ WEIGHTS[:, 0] - 0.1, atol=1e-4)


def test_one_of_several_outputs_is_named(model: ModelDirectory, store: Registry, refusal: Refusal) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"])]
    graph = proto(nodes, outputs=[matrix("z", None, 1), matrix("p", None, 1)])
    assert "which of the outputs is the probability: z, p" in refusal(use(model, graph))["/artifact/output_name"]
    assert "none of the outputs z, p" in refusal(use(model, graph, {"output_name": "q"}))["/artifact/output_name"]
    black_box = loaded(store, use(model, graph, {"output_name": "p"}))
    np.testing.assert_allclose(black_box.probability(black_box.score(FRESH)), expected(), atol=1e-6)


def test_numbers_beyond_single_precision_have_no_score(model: ModelDirectory, store: Registry) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Sub", ["z", "z"], ["zero"])]
    nodes += [helper.make_node("Sigmoid", ["zero"], ["p"])]
    black_box = loaded(store, use(model, proto(nodes)))
    assert np.isnan(black_box.score(np.full((1, 8), 1e300))).all()


# --- what is refused -------------------------------------------------------------------------------------------------


def external(tensor: Any, location: str) -> Any:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    return tensor


@pytest.mark.parametrize("location", ["weights.bin", "../../etc/passwd", "/etc/passwd"])
def test_tensors_in_other_files_are_refused(model: ModelDirectory, refusal: Refusal, location: str) -> None:
    graph = proto(weights=external(onnx.numpy_helper.from_array(WEIGHTS, "w"), location))
    assert "keeps tensors in other files" in refusal(use(model, graph))["/artifact"]


def test_tensors_in_other_files_are_found_inside_of_nodes(model: ModelDirectory, refusal: Refusal) -> None:
    tensor = external(onnx.numpy_helper.from_array(WEIGHTS, "v"), "weights.bin")
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "inner", [], [matrix("c", 8, 1)])
    nodes = [
        helper.make_node("Constant", [], ["yes"], value=onnx.numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["yes"], ["v"], then_branch=inner, else_branch=inner),
        helper.make_node("MatMul", ["x", "v"], ["p"]),
    ]
    assert "keeps tensors in other files" in refusal(use(model, proto(nodes)))["/artifact"]


def test_operators_of_other_libraries_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    nodes = [helper.make_node("Shell", ["x"], ["p"], domain="evil.example")]
    faults = refusal(use(model, proto(nodes, domains=("", "evil.example"))))
    assert "needs operators of evil.example" in faults["/artifact"]


def test_functions_of_its_own_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    graph = proto()
    body = [helper.make_node("Identity", ["a"], ["b"])]
    graph.functions.append(helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    assert "functions of its own" in refusal(use(model, graph))["/artifact"]


def test_a_file_that_is_too_long_is_refused(
    model: ModelDirectory, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_model, "LARGEST_BYTES", 100)
    assert "100 is the most" in refusal(use(model, proto()))["/artifact"]


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08"])
def test_what_is_no_model_is_refused(model: ModelDirectory, refusal: Refusal, content: bytes) -> None:
    assert re.search("not a model|cannot be read", refusal(use(model, content))["/artifact"])


def raw_inputs(**kinds: Any) -> list[Any]:
    types = {"integer": FLOAT, "continuous": FLOAT, "binary": FLOAT}
    stated = {f["name"]: types.get(f["type"], STRING) for f in FEATURES} | kinds
    return [matrix(name, None, 1, kind=kind) for name, kind in stated.items() if kind is not None]


@pytest.mark.parametrize(
    ("graph", "changes", "pointer", "sentence"),
    [
        ({"inputs": [matrix("x", None, 9)]}, {}, "/features", "but the model was trained on 9"),
        ({"inputs": [matrix("x", 1, 8)]}, {}, "/artifact", "not a matrix of any number of points"),
        ({"inputs": [matrix("x", None, 8), matrix("y", None, 8)]}, {}, "/input", "must be raw"),
        ({"inputs": raw_inputs(age=None)}, {"input": "raw"}, "/features/0", "is not an input"),
        ({"inputs": [*raw_inputs(), matrix("zip", None, 1)]}, {"input": "raw"}, "/features", 'lack "zip"'),
        ({"inputs": raw_inputs(housing=INT64)}, {"input": "raw"}, "/features/5", "the model takes tensor(int64)"),
        ({"inputs": raw_inputs(income=INT64)}, {"input": "raw"}, "/features/1", "is continuous"),
        ({}, {"output": "label"}, "/artifact/output_name", "which of the outputs is the label"),
        ({}, {"favourable": "good"}, "/artifact/column", "the graph names the classes none"),
    ],
    ids=str,
)
def test_what_does_not_fit_the_manifest_is_refused(
    model: ModelDirectory, refusal: Refusal, graph: dict[str, Any], changes: dict[str, Any], pointer: str, sentence: str
) -> None:
    if "inputs" in graph and len(graph["inputs"]) != 1:
        name = next(one.name for one in graph["inputs"] if one.type.tensor_type.elem_type == FLOAT)
        graph = graph | {"nodes": [helper.make_node("Identity", [name], ["p"])]}
    if graph.get("inputs") and graph["inputs"][0].type.tensor_type.shape.dim[1].dim_value == 9:
        graph = graph | {"weights": onnx.numpy_helper.from_array(np.ones((9, 1), dtype=np.float32), "w")}
    assert sentence in refusal(use(model, proto(**graph), **changes))[pointer]


TREES = ["nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_treeids", "nodes_nodeids"]


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("value", [-(2**40), -1, 7_000, 10**6, 2**40])
def test_a_tree_that_points_outside_is_refused(model: ModelDirectory, refusal: Refusal, name: str, value: int) -> None:
    graph = onnx.load_model_from_string(forest())
    for node in graph.graph.node:
        for attribute in node.attribute:
            if attribute.name == name:
                attribute.ints[0] = value  # of the root
    assert list(refusal(use(model, graph))) == ["/artifact"]


def test_a_tree_that_goes_in_circles_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    graph = onnx.load_model_from_string(forest())
    (attribute,) = (a for n in graph.graph.node for a in n.attribute if a.name == "nodes_truenodeids")
    attribute.ints[1] = 1
    assert "that two nodes point at" in refusal(use(model, graph))["/artifact"]


def test_support_vectors_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    nodes = [helper.make_node("SVMClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml")]
    assert "SVMClassifier, which is not run" in refusal(use(model, proto(nodes)))["/artifact"]


@pytest.mark.parametrize("kind", ["logistic", "forest"])
def test_no_damaged_file_crashes(model: ModelDirectory, kind: str) -> None:
    content = proto() if kind == "logistic" else forest()
    counts = try_mutants(use(model, content))
    assert counts["refused"] > 50
