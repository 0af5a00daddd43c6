"""What an ONNX graph says: its inputs, its outputs, its classes."""

from collections.abc import Iterator
from typing import Any

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.adapters.optional_import import library
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, unreadable
from app.registry.drafting.features import MOST_LEVELS


def read(name: str, content: bytes) -> ModelFacts:
    """The facts that an ONNX file states about its model.

    Raises `ModelRefused` where the file cannot be read, or has a kind of model that the service does not take.
    """
    with library("onnx"):
        import onnx
        from google.protobuf.message import DecodeError
    try:
        graph = onnx.load_model_from_string(content).graph
    except DecodeError as error:
        raise unreadable(name, "a model in ONNX") from error
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [one for one in graph.input if one.name not in constants]
    if not inputs or not graph.output:
        raise unreadable(name, "a model in ONNX")
    matrix = len(inputs) == 1 and _shape(inputs[0])[1:] != [1]
    width = _shape(inputs[0])[-1] if matrix else len(inputs)
    classes = _classes(graph)
    output, chosen = _output(name, graph, onnx)
    texts = onnx.TensorProto.STRING
    numbers = frozenset(one.name for one in inputs if one.type.tensor_type.elem_type != texts)
    named = classes != (0, 1)
    scaled = any(node.op_type in ("Scaler", "Sub", "Div") for node in graph.node)
    return ModelFacts(
        format=Format.ONNX, file="model.onnx", content=content, input=Input.ENCODED if matrix else Input.RAW,
        output=output, names=None if matrix else tuple(one.name for one in inputs), width=width or None,
        levels={one.name: () for one in inputs if one.name not in numbers} if not matrix else {},
        numbers=frozenset() if matrix else numbers, groups=() if matrix else _groups(graph), classes=classes,
        numbered=not named,
        by_column=named and output is Output.PROBABILITY,
        artifact={"output_name": chosen} if chosen else {}, label_output=_label_output(graph, onnx),
        cut_offs=tuple(_thresholds(graph, onnx)),
        encodings=("none",) if not matrix or scaled else ("none", "standard", "minmax"),
    )  # fmt: skip


def _shape(value: Any) -> list[int]:
    """Lengths of the axes of a tensor; 0 where any length is possible."""
    return [int(axis.dim_value) for axis in value.type.tensor_type.shape.dim]


def _classes(graph: Any) -> tuple[int | str, ...]:
    """The names of the classes, from the node that decides between them."""
    for node in reversed(graph.node):
        for attribute in node.attribute:
            if attribute.name.startswith("classlabels") and (attribute.strings or attribute.ints):
                return tuple(one.decode(errors="replace") for one in attribute.strings) or tuple(
                    int(one) for one in attribute.ints
                )
    return (0, 1)


def _groups(graph: Any) -> tuple[tuple[str, ...], ...]:
    """The whole numbers that each encoder knows as levels; 0 and 1 are flags, which are numbers as well."""
    found = [
        tuple(str(one) for one in attribute.ints)
        for node in graph.node
        if node.op_type == "OneHotEncoder"
        for attribute in node.attribute
        if attribute.name == "cats_int64s"
    ]
    return tuple(group for group in found if not set(group) <= {"0", "1"} and len(group) <= MOST_LEVELS)


def _output(name: str, graph: Any, onnx: Any) -> tuple[Output, str | None]:
    """The output to use, and its name where there are several of its kind."""
    maps = [one for one in graph.output if one.type.WhichOneof("value") == "sequence_type"]
    tensors = [one for one in graph.output if one not in maps]
    fractional = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    numbers = [one for one in tensors if one.type.tensor_type.elem_type in fractional]
    if not numbers and not maps:
        return Output.LABEL, None if len(tensors) == 1 else tensors[0].name
    found = [*maps, *numbers]
    if len(found) > 1:
        likely = [one for one in found if "prob" in one.name.lower()]
        if len(likely) != 1:
            names = ", ".join(one.name for one in found)
            raise ModelRefused(f"{name} has the outputs {names}: export only the one with the probabilities")
        return Output.PROBABILITY, likely[0].name
    return (Output.PROBABILITY if _bounded(graph, found[0]) else Output.LOGIT), None


def _label_output(graph: Any, onnx: Any) -> str | None:
    """The output with the model's own decisions."""
    kinds = (onnx.TensorProto.INT64, onnx.TensorProto.STRING, onnx.TensorProto.BOOL)
    found = [one.name for one in graph.output if one.type.tensor_type.elem_type in kinds]
    return found[0] if len(found) == 1 else None


def _thresholds(graph: Any, onnx: Any) -> Iterator[float]:
    """The single numbers that are compared with something in the graph, or at which something is cut."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        if node.op_type in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
            tensors = [onnx.numpy_helper.to_array(constants[name]) for name in node.input if name in constants]
            yield from (float(one.ravel()[0]) for one in tensors if one.size == 1)
        if node.op_type == "Binarizer":
            yield from (float(one.f) for one in node.attribute if one.name == "threshold")


def _bounded(graph: Any, output: Any) -> bool:
    """Whether an output can be a probability: it follows from no node that leaves a sum of its own."""
    last = next(_ancestors(graph, output.name), None)
    return last is None or last.op_type not in ("Gemm", "MatMul", "Add", "LinearRegressor")


def _ancestors(graph: Any, name: str) -> Iterator[Any]:
    """The node that makes a tensor, seen through those that only move or name its numbers."""
    for node in graph.node:
        if name in node.output:
            if node.op_type in ("Identity", "Reshape", "Cast", "Squeeze", "Flatten"):
                yield from _ancestors(graph, node.input[0])
            else:
                yield node
