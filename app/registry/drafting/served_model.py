"""What a model server says about its model: names and types of its columns (Open Inference Protocol), or nothing."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.adapters.http_model import description
from app.registry.adapters.protocols import DescribedTensor, Description
from app.registry.artifact import Endpoint, Format, Protocol
from app.registry.drafting.boosted_files import ENCODINGS
from app.registry.drafting.facts import ModelFacts
from app.registry.trust import Trust

FRACTIONAL = ("FP64", "FP32", "FP16", "BF16")

SERVER = "the server"
"""Words of sentences that name a file for other models."""

MLFLOW = (
    "A server of MLflow does not say which columns it takes: all columns of the records are sent (--columns and --drop "
    "say others)."
)

ADDRESSES = "/v2/models/NAME/infer (Open Inference Protocol v2) or /invocations (MLflow)"


def read(url: str, trust: Trust) -> ModelFacts:
    """The facts that a model server states about its model; `url` is the address to which records are posted.

    Raises `ModelRefused` where the address is of no known protocol, its host is not allowed, or the server does not
    describe the model; `ModelUnavailable` where the server cannot be reached.
    """
    path = url.partition("?")[0]
    if path.endswith("/invocations"):
        artifact = {"url": url, "protocol": Protocol.MLFLOW.value}
        return _facts(artifact, Output.PROBABILITY, input=Input.RAW, notes=(MLFLOW,))
    if not path.endswith("/infer"):
        raise ModelRefused(f"{url} must end in {ADDRESSES}")
    endpoint = Endpoint(format=Format.HTTP, url=url, protocol=Protocol.OIP_V2)
    try:
        endpoint.place  # noqa: B018 - raises where the address has a fault
        body = description(endpoint, trust)
        described = None if body is None else Description.model_validate_json(body)
    except ValidationError:
        described = None
    except ValueError as error:
        raise ModelRefused(f"{url} {error}") from error
    if described is None or not described.inputs:
        raise ModelRefused(
            f"the server at {path.removesuffix('/infer')} does not describe its model; write the manifest by hand, "
            "with format: http"
        )
    return _described(url, described)


def _facts(artifact: Mapping[str, Any], output: Output, **more: Any) -> ModelFacts:
    return ModelFacts(format=Format.HTTP, file=SERVER, content=b"", artifact=artifact, output=output, **more)


def _described(url: str, described: Description) -> ModelFacts:
    output = _output(described.outputs)
    artifact = {"url": url, "protocol": Protocol.OIP_V2.value} | (
        {} if output is None else {"output_name": output.name}
    )
    kind = Output.LABEL if output is not None and output.datatype not in FRACTIONAL else Output.PROBABILITY
    only = described.inputs[0]
    if len(described.inputs) == 1 and len(only.shape) == 2 and only.shape[1] != 1:
        artifact |= {"input_name": only.name} | ({"datatype": "FP32"} if only.datatype == "FP32" else {})
        width = only.shape[1] if only.shape[1] > 0 else None
        return _facts(artifact, kind, width=width, encodings=ENCODINGS)
    numbers = frozenset(one.name for one in described.inputs if one.datatype not in ("BYTES", "BOOL"))
    if any(one.datatype == "FP32" for one in described.inputs):
        artifact |= {"datatype": "FP32"}
    names = tuple(one.name for one in described.inputs)
    return _facts(artifact, kind, input=Input.RAW, names=names, numbers=numbers)


def _output(outputs: list[DescribedTensor]) -> DescribedTensor | None:
    """The output with probabilities, by its name or its type; a label where there is no other."""
    likely = [one for one in outputs if "prob" in one.name.lower() and one.datatype in FRACTIONAL]
    fractional = [one for one in outputs if one.datatype in FRACTIONAL]
    return next(iter([*likely, *fractional, *outputs]), None)
