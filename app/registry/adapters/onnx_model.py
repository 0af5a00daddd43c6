"""A model in ONNX, run by ONNX Runtime: one input of encoded points, or one input for each raw column.

A file is a program of a few hundred known operators, none of which runs code of the file. Before the compiled runtime
reads it, it is parsed here, and refused if it uses operators of other libraries, functions of its own, or tensors in
other files. The runtime follows the indices of a tree ensemble without checks: node indices are checked here, and the
columns that it uses are selected first by `Gather`, which does check. Outputs are those of the runtime, mostly in
single precision.

The output is a tensor, (n,), (n, 1) or (n, k), or a ZipMap of skl2onnx, a mapping from class to probability for each
record. `artifact.output_name` selects one of several outputs.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelOutputInvalid, ModelRefused
from app.recourse.features import Feature, FeatureSpace, FeatureType, Missing
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.score import Output
from app.registry.adapters.artifact import black_box_of, read_artifact, refused
from app.registry.adapters.column_names import (
    chosen_columns,
    labels_to_output,
    numbers_to_output,
    raw_column,
    raw_names,
    rounded,
    whole_levels,
)
from app.registry.adapters.optional_import import library
from app.registry.adapters.trees import Tree
from app.registry.manifest import Manifest
from app.registry.printable import listed
from app.registry.trust import Trust

LARGEST_BYTES = 500_000_000
"""Largest file; parsing takes several times its size in memory."""

DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml"})
"""Domains of the operators in the standard."""

MACHINES = frozenset({
    "ArrayFeatureExtractor", "Binarizer", "CategoryMapper", "FeatureVectorizer", "Imputer", "LabelEncoder",
    "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "Scaler", "TreeEnsembleClassifier",
    "TreeEnsembleRegressor", "ZipMap",
})  # fmt: skip
"""Allowed operators of ``ai.onnx.ml``; the others are support vector machines and newer forms of trees, whose indices
are not checked."""

MOST_COLUMNS = 100_000
"""Largest number of columns that a tree ensemble may use."""

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_, "tensor(string)": np.object_,
}  # fmt: skip
"""Supported types of inputs."""

FRACTIONAL = ("tensor(float)", "tensor(double)")
LABELS = ("tensor(int64)", "tensor(string)", "tensor(bool)")


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of an ONNX graph, run by ONNX Runtime.

    Raises `ModelRefused` where the graph has forbidden parts or does not fit the manifest; `ModelUnusable` without
    ONNX.
    """
    inspected, classes = _inspected(read_artifact(manifest, directory))
    session = _session(inspected)
    faults = _input_faults(session, manifest, space)
    output = _output(session, manifest)
    if faults or isinstance(output, Fault):
        raise ModelRefused(faults=[*faults, *([output] if isinstance(output, Fault) else [])])
    column = manifest.file.column
    if column is None and output.type in FRACTIONAL and manifest.output is Output.PROBABILITY:
        column = _column_of_class(classes, manifest)
    return black_box_of(manifest, space, _predict(session, output, manifest, _feed(session, manifest, space), column))


# --- from the file ---------------------------------------------------------------------------------------------------


def _inspected(content: bytes) -> tuple[bytes, list[list[int | str]]]:
    """The checked model, as passed to the runtime, and the classes that its classifiers name."""
    if len(content) > LARGEST_BYTES:
        raise refused(f"has {len(content):,} bytes; {LARGEST_BYTES:,} is the most")
    with library("onnx"):
        import onnx
        from google.protobuf.message import DecodeError
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise refused("is not a model in ONNX, or cut off") from error
    named = [*model.opset_import, *(node for graph in _graphs(model) for node in graph.node)]
    foreign = sorted({str(one.domain) for one in named} - DOMAINS)
    if foreign:
        raise refused(f"needs operators of {', '.join(foreign)}; only those of the ONNX standard are run")
    if model.functions:
        raise refused("has functions of its own; export it with its functions inlined")
    if any(tensor.external_data or tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in _tensors(model)):
        raise refused("keeps tensors in other files; save it as a single file")
    for graph in _graphs(model):
        _guard_trees(graph)
    return bytes(model.SerializeToString()), list(_classes(model))


def _classes(model: Any) -> Iterator[list[int | str]]:
    """The classes of each classifier of the graph, in the order of its columns."""
    for node in model.graph.node:
        for attribute in node.attribute:
            stated = attribute.name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints")
            found = list(attribute.ints) or [text.decode(errors="replace") for text in attribute.strings]
            if stated and found and str(node.op_type) != "ZipMap":
                yield found


def _graphs(model: Any) -> Iterator[Any]:
    """The graph, and the graphs inside its nodes."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        yield graph
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            graphs += [inner for inner in (attribute.g, *attribute.graphs) if inner.node or inner.initializer]


def _tensors(model: Any) -> Iterator[Any]:
    """Every constant of every graph."""
    for graph in _graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _guard_trees(graph: Any) -> None:
    """Check every tree of a graph, and restrict its input to the columns that it uses."""
    import onnx

    guarded = []
    for k, node in enumerate(graph.node):
        if node.domain == "ai.onnx.ml" and node.op_type not in MACHINES:
            raise refused(f"has an operator {node.op_type}, which is not run")
        if str(node.op_type).startswith("TreeEnsemble"):  # bytes where it is no text
            columns = onnx.numpy_helper.from_array(np.arange(_columns_asked(node)), f"guarded {k} columns")
            graph.initializer.append(columns)
            cut = f"guarded {k}"
            guarded.append(onnx.helper.make_node("Gather", [node.input[0], columns.name], [cut], axis=1))
            node.input[0] = cut
        guarded.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in guarded]
    del graph.node[:]
    graph.node.extend(copies)


def _columns_asked(node: Any) -> int:
    """Number of columns that the trees of a node use, after a check that every walk ends in a leaf."""
    named = {attribute.name: attribute for attribute in node.attribute}

    def numbers(name: str) -> np.ndarray:
        return np.array(named[name].ints if name in named else [], dtype=np.int64)

    owner, own = numbers("nodes_treeids"), numbers("nodes_nodeids")
    feature, left, right = map(numbers, ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"))
    leaf = np.array([mode == b"LEAF" for mode in (named["nodes_modes"].strings if "nodes_modes" in named else [])])
    if not len(owner) or any(len(part) != len(owner) for part in (own, feature, left, right, leaf)):
        raise refused("has a tree ensemble with arrays of different lengths")
    for tree in np.unique(owner):
        at = np.flatnonzero(owner == tree)
        if (own[at] != np.arange(len(at))).any():
            raise refused("has a tree whose nodes are not numbered from 0")
        children = [np.where(leaf[at], -1, side[at]) for side in (left, right)]
        if any((side[~leaf[at]] < 0).any() for side in children):
            raise refused("has a tree whose nodes point outside of it")
        one = Tree(feature=feature[at], number=np.zeros(len(at)), left=children[0], right=children[1])
        if fault := one.fault(MOST_COLUMNS):
            raise refused(f"has a tree that {fault}")
    return int(feature[~leaf].max(initial=0)) + 1


def _session(content: bytes) -> Any:
    with library("onnx"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    # One thread: the service runs several processes.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # its errors are also raised as exceptions
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if not _of_runtime(error):
            raise
        raise refused(f"cannot be read: {_one_line(error)}") from error


def _of_runtime(error: Exception) -> bool:
    """Whether ONNX Runtime raised it; its exceptions have no common base class, and some are built in."""
    return type(error).__module__.startswith("onnxruntime") or isinstance(error, RuntimeError | ValueError)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


# --- does it fit the manifest ----------------------------------------------------------------------------------------


def _input_faults(session: Any, manifest: Manifest, space: FeatureSpace) -> list[Fault]:
    inputs = {one.name: one for one in session.get_inputs()}
    if manifest.input is Input.RAW:
        own = _own_names(inputs, manifest, space)
        missing = [
            Fault("/features", f'lack "{name}", which the model takes; artifact.map says which feature it is')
            for name in inputs.keys() - set(own)
        ]
        return missing + [
            Fault(f"/features/{j}", detail)
            for j, feature in enumerate(space.features)
            if (detail := _column_fault(inputs, own[j], feature)) is not None
        ]
    if len(inputs) != 1:
        return [Fault("/input", f"must be raw for a model of {len(inputs)} inputs, each a column")]
    (only,) = inputs.values()
    if only.type not in FRACTIONAL or len(only.shape) != 2 or isinstance(only.shape[0], int):
        return [Fault("/artifact", f"takes {only.type} of shape {only.shape}, not a matrix of any number of points")]
    return _chosen(only, manifest, space)[1]


def _chosen(only: Any, manifest: Manifest, space: FeatureSpace) -> tuple[np.ndarray | None, list[Fault]]:
    """The encoded columns that a graph with one input takes: all of them, or those that `artifact.map` leaves."""
    named = manifest.file.map or {}
    lacking = sum(name is None for name in named.values())
    return chosen_columns(None, only.shape[1] if isinstance(only.shape[1], int) else space.d - lacking, space, named)


def _own_names(inputs: Collection[str], manifest: Manifest, space: FeatureSpace) -> list[str]:
    """The input of each feature: of its name, its name in `artifact.map`, or its name with _ for what is no letter."""
    names = raw_names(manifest.file.map, space)
    spelt = [name if name in inputs else re.sub(r"\W", "_", name) for name in names]
    return spelt if len(set(spelt)) == len(spelt) else names


def _column_fault(inputs: Mapping[str, Any], name: str, feature: Feature) -> str | None:
    found = inputs.get(name)
    if found is None:
        return f'"{name}" is not an input of the model; its inputs are {listed(list(inputs))}'
    if isinstance(found.shape[0] if found.shape else 1, int) or tuple(found.shape[1:]) not in ((), (1,)):
        return f"is an input of shape {found.shape}, not a column of any number of records"
    if feature.type is FeatureType.CONTINUOUS or (feature.missing is Missing.NAN and not feature.categories):
        takes: tuple[str, ...] = FRACTIONAL
    elif feature.type is FeatureType.INTEGER:
        takes = (*FRACTIONAL, "tensor(int64)", "tensor(int32)")
    elif feature.levels == (False, True):
        takes = (*FRACTIONAL, "tensor(int64)", "tensor(int32)", "tensor(bool)")
    elif whole_levels(feature):
        takes = ("tensor(string)", "tensor(int64)", "tensor(int32)", *FRACTIONAL)
    else:
        takes = ("tensor(string)",)
    return None if found.type in takes else f"is {feature.type}, but the model takes {found.type}"


def _output(session: Any, manifest: Manifest) -> Any:
    """The output to use, or the fault."""
    outputs = {one.name: one for one in session.get_outputs()}
    stated = manifest.file.output_name
    if stated is not None:
        return outputs.get(stated) or Fault("/artifact/output_name", f"is none of the outputs {', '.join(outputs)}")
    fitting = [one for one in outputs.values() if (one.type in LABELS) == (manifest.output is Output.LABEL)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(outputs)
    return Fault("/artifact/output_name", f"must say which of the outputs is the {manifest.output}: {known}")


def _column_of_class(classes: Sequence[Sequence[int | str]], manifest: Manifest) -> int | None:
    """The column of the favourable class among the classes that the graph names; None where it is 0 or 1."""
    if len(classes) == 1 and manifest.favourable in classes[0] and len(classes[0]) > 1:
        column = list(classes[0]).index(manifest.favourable)
        return None if column == manifest.favourable else column
    if manifest.favourable in (0, 1):
        return None
    named = "; ".join(listed([str(one) for one in some]) for some in classes) or "none"
    detail = f"must say which column is the favourable class: the graph names the classes {named}"
    raise refused(detail, "/column")


# --- asking it -------------------------------------------------------------------------------------------------------

Feed = Callable[[np.ndarray], dict[str, np.ndarray]]


def _feed(session: Any, manifest: Manifest, space: FeatureSpace) -> Feed:
    """Maps the input of the black box to the inputs of the graph."""
    inputs = {one.name: (TYPES[one.type], len(one.shape)) for one in session.get_inputs()}
    if manifest.input is Input.ENCODED:
        ((name, (kind, _)),) = inputs.items()
        indices, _ = _chosen(session.get_inputs()[0], manifest, space)
        return lambda X: {name: (X if indices is None else X[:, indices]).astype(kind)}
    names = _own_names(inputs, manifest, space)
    columns = [(name, raw_column(feature), *inputs[name]) for name, feature in zip(names, space.features, strict=True)]
    return lambda rows_raw: {
        name: values(rows_raw[:, j]).astype(kind).reshape((-1, 1)[:rank])
        for j, (name, values, kind, rank) in enumerate(columns)
    }


def _predict(
    session: Any, output: Any, manifest: Manifest, feed: Feed, column: int | None
) -> Callable[[np.ndarray], np.ndarray]:
    """The output for the favourable class; empty for no records. Raises `ModelOutputInvalid` if the runtime fails."""

    def answer(rows: np.ndarray) -> Float[np.ndarray, "n"]:
        if not len(rows):
            return np.zeros(0)
        try:
            with np.errstate(over="ignore"):  # beyond single precision: infinite, and the model has no finite output
                (found,) = session.run([output.name], feed(rows))
        except Exception as error:
            if not _of_runtime(error):
                raise
            raise ModelOutputInvalid(f"ONNX Runtime raised {type(error).__name__} for these records") from error
        if manifest.output is Output.LABEL:
            return labels_to_output(np.ravel(found).tolist(), manifest)
        if isinstance(found, list):
            return _of_zipmap(found, manifest)
        return numbers_to_output(found, manifest, column)

    return answer


def _of_zipmap(found: list[Any], manifest: Manifest) -> Float[np.ndarray, "n"]:
    if not all(isinstance(record, dict) and manifest.favourable in record for record in found):
        raise ModelOutputInvalid("the output has no class of the name that the manifest calls favourable")
    return rounded(np.array([record[manifest.favourable] for record in found], dtype=float))
