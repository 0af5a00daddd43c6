"""Requests to a model server and their responses, in the Open Inference Protocol v2 and that of MLflow.

Responses are parsed strictly, because they decide about people: numbers are JSON numbers (or null), their count is that
of the records, names are those of the manifest. Errors never repeat data that was sent or received.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import Fault, ModelOutputInvalid
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.adapters.column_names import as_json, labels_to_output, numbers_to_output, raw_column
from app.registry.artifact import Datatype, Endpoint, Protocol
from app.registry.manifest import Manifest
from app.registry.printable import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(ABC):
    """Writes requests to one remote model, and reads its responses, in the protocol of its server."""

    manifest: Manifest
    endpoint: Endpoint
    space: FeatureSpace

    @abstractmethod
    def request(self, rows: np.ndarray) -> bytes:
        """The body of a request for the outputs of `rows`, which are encoded or raw as the manifest says."""

    @abstractmethod
    def outputs(self, body: bytes, count: int) -> np.ndarray:
        """The output of each record, (count,), from the body of a response.

        Raises `ModelOutputInvalid` where the body does not have this content.
        """

    def metadata_faults(self, body: bytes) -> list[Fault]:  # noqa: ARG002
        """Faults where the server's description contradicts the manifest; empty for a protocol without descriptions."""
        return []

    def _name(self, own: str) -> str:
        return (self.endpoint.map or {}).get(own) or own

    def _kept(self) -> list[int]:
        """Indices of the encoded columns that the model takes."""
        named = self.endpoint.map or {}
        return [j for j, column in enumerate(self.space.columns) if named.get(column, column) is not None]

    def _output(self, values: Sequence[Any], shape: Sequence[int], count: int) -> np.ndarray:
        """The output for the favourable class, from flat values and their shape."""
        if not shape or shape[0] != count or len(values) != int(np.prod(shape, dtype=object)):
            raise ModelOutputInvalid(
                f"the server of the model answered {len(values)} values in the shape {list(shape)[:5]} "
                f"for {count} records"
            )
        if self.manifest.output is Output.LABEL:
            if len(values) != count:
                raise ModelOutputInvalid("the server of the model answered several labels for a record")
            return labels_to_output(values, self.manifest)
        if not all(value is None or type(value) in (int, float) for value in values):
            raise ModelOutputInvalid("the server of the model answered with something that is not a number")
        try:
            numbers = np.array(values, dtype=float).reshape(shape)
        except OverflowError:
            raise ModelOutputInvalid("the server of the model answered with a number that is too large") from None
        return numbers_to_output(numbers, self.manifest, self.endpoint.column)


def dialect(manifest: Manifest, endpoint: Endpoint, space: FeatureSpace) -> Dialect:
    """The dialect for the protocol that the endpoint of a manifest names."""
    kind = _OipV2 if endpoint.protocol is Protocol.OIP_V2 else _MLflow
    return kind(manifest=manifest, endpoint=endpoint, space=space)


# --- Open Inference Protocol, version 2 ------------------------------------------------------------------------------


class _Part(BaseModel):
    # The values are applicant data, which an error message must not repeat.
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class _Tensor(_Part):
    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=5)]
    data: list[Any]


class _Tensors(_Part):
    outputs: list[_Tensor]


class DescribedTensor(_Part):
    """One input or output of a model, as its server describes it."""

    name: str
    datatype: str = "?"
    shape: list[int] = []
    """-1 where any length is possible; empty where the server does not say."""


class Description(_Part):
    """The response to ``GET .../v2/models/{name}``: the inputs and outputs of a model."""

    inputs: list[DescribedTensor] = []
    outputs: list[DescribedTensor] = []


class _OipV2(Dialect):
    """``POST .../v2/models/{name}/infer``."""

    __slots__ = ()

    def request(self, rows: np.ndarray) -> bytes:
        """The JSON body with one matrix of encoded points, or with one column for each feature of raw records."""
        wanted = {"outputs": [{"name": self.endpoint.output_name}]}
        if self.manifest.input is Input.ENCODED:
            rows = rows[:, self._kept()]
            tensor = self._tensor(self.endpoint.input_name, rows.ravel(), list(rows.shape))
            return _json({"inputs": [tensor], **wanted})
        inputs = []
        for j, feature in enumerate(self.space.features):
            values = raw_column(feature)(rows[:, j])
            inputs.append(self._tensor(self._name(feature.name), values, [len(rows), 1]))
        # Makes MLServer build a table of the columns; other servers ignore it.
        return _json({"parameters": {"content_type": "pd"}, "inputs": inputs, **wanted})

    def metadata_faults(self, body: bytes) -> list[Fault]:
        """Faults where the server names other inputs or outputs than the manifest.

        Empty where the server names neither inputs nor outputs.
        """
        try:
            described = Description.model_validate_json(body)
        except ValidationError:
            return []
        faults: list[Fault] = []
        takes, gives = {one.name: one for one in described.inputs}, [one.name for one in described.outputs]
        raw = self.manifest.input is Input.RAW
        sent = [self._name(feature.name) for feature in self.space.features] if raw else [self.endpoint.input_name]
        if takes and takes.keys() != set(sent):
            server = ", ".join(f'"{name}" ({one.datatype})' for name, one in takes.items())
            detail = f"does not fit: the server takes {server}, and would be sent {listed(sent)}"
            faults.append(Fault("/artifact/map" if raw else "/artifact/input_name", detail))
        if gives and self.endpoint.output_name not in gives:
            faults.append(Fault("/artifact/output_name", f"is none of the outputs of the server: {listed(gives)}"))
        return faults

    def _tensor(self, name: str, values: np.ndarray, shape: list[int]) -> dict[str, Any]:
        tensor: dict[str, Any] = {"name": name, "shape": shape}
        if values.dtype == bool:
            tensor["datatype"] = "BOOL"
        elif values.dtype == object:
            tensor |= {"datatype": "BYTES", "parameters": {"content_type": "str"}}
        elif values.dtype.kind == "i":
            tensor["datatype"] = "INT64"
        else:
            tensor["datatype"] = self.endpoint.datatype.value
            if self.endpoint.datatype is Datatype.FP32:
                values = values.astype(np.float32)
        return tensor | {"data": as_json(values)}

    def outputs(self, body: bytes, count: int) -> np.ndarray:
        """The output of each record, (count,), from the tensor in the response that the manifest names.

        The data of the tensor may be flat or nested. Raises `ModelOutputInvalid` where the response has no such tensor,
        or where the tensor has another form.
        """
        tensors = {tensor.name: tensor for tensor in _parsed(_Tensors, body).outputs}
        tensor = tensors.get(self.endpoint.output_name or "")
        if tensor is None:
            name = self.endpoint.output_name
            raise ModelOutputInvalid(f'the server of the model answered without an output "{name}"')
        return self._output(_flat(tensor.data), tensor.shape, count)


def _flat(data: list[Any]) -> list[Any]:
    """Numbers of lists in lists, row by row."""
    while data and all(isinstance(part, list) for part in data):
        data = [value for part in data for value in part]
    return _checked(data)


# --- MLflow ----------------------------------------------------------------------------------------------------------


class _Predictions(_Part):
    predictions: list[Any] | dict[str, list[Any]]


class _MLflow(Dialect):
    """``POST /invocations``."""

    __slots__ = ()

    def request(self, rows: np.ndarray) -> bytes:
        """The JSON body with a table: raw records, or encoded points under the names of the encoded columns."""
        columns = self._columns(rows)
        data = [list(row) for row in zip(*(values for _, values in columns), strict=True)]
        return _json({"dataframe_split": {"columns": [name for name, _ in columns], "data": data}})

    def outputs(self, body: bytes, count: int) -> np.ndarray:
        """The output of each record, (count,), from the predictions in a response.

        The predictions may be a list of numbers, of rows of numbers or of records, or a mapping of named columns.
        Raises `ModelOutputInvalid` for any other form.
        """
        predictions = _parsed(_Predictions, body).predictions
        if isinstance(predictions, dict):
            predictions = self._named(predictions)
        elif predictions and all(isinstance(record, dict) for record in predictions):
            predictions = [self._named(record) for record in predictions]
        if predictions and all(isinstance(row, list) for row in predictions):
            widths = {len(row) for row in predictions}
            if len(widths) > 1:
                raise ModelOutputInvalid("the server of the model answered rows of different lengths")
            return self._output(_flat(predictions), [len(predictions), *widths], count)
        return self._output(_checked(predictions), [len(predictions)], count)

    def _columns(self, rows: np.ndarray) -> list[tuple[str, list[Any]]]:
        """Name and values of each column, as plain data."""
        if self.manifest.input is Input.ENCODED:
            return [(self._name(self.space.columns[j]), as_json(rows[:, j])) for j in self._kept()]
        return [
            (self._name(feature.name), as_json(raw_column(feature)(rows[:, j])))
            for j, feature in enumerate(self.space.features)
        ]

    def _named(self, columns: dict[str, Any]) -> Any:
        name = self.endpoint.output_name
        if name is None and len(columns) == 1:
            return next(iter(columns.values()))
        if name is None or name not in columns:
            raise ModelOutputInvalid(
                "the server of the model answered in named columns, and the manifest's `output_name` names none of them"
            )
        return columns[name]


# --- JSON ------------------------------------------------------------------------------------------------------------

Part = TypeVar("Part", bound=_Part)


def _json(document: dict[str, Any]) -> bytes:
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise ModelOutputInvalid("a record has a number that is too large to be sent to the model") from None


def _parsed(kind: type[Part], body: bytes) -> Part:
    # The standard library parses the NaN that servers in Python write; pydantic does not.
    try:
        return kind.model_validate(json.loads(body))
    except (ValueError, RecursionError):
        raise ModelOutputInvalid(
            "the server of the model answered with something else than its protocol says"
        ) from None


def _checked(values: list[Any]) -> list[Any]:
    """The values, none of which is a list or an object."""
    if any(isinstance(value, list | dict) for value in values):
        raise ModelOutputInvalid("the server of the model answered with something else than its protocol says")
    return values
