"""What a manifest says about the model itself: a file and its format, or the address of a remote model."""

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Column: TypeAlias = Annotated[int, Field(ge=0, lt=10_000)]


PINS = 8
"""Reference records in every request to a remote model, to check that it is still the same model."""


class Format(StrEnum):
    """How a model is stored."""

    LINEAR = "linear"
    TORCH = "torch"
    SKLEARN = "sklearn"
    XGBOOST = "xgboost"
    LIGHTGBM = "lightgbm"
    ONNX = "onnx"
    HTTP = "http"
    SCORECARD = "scorecard"


TREES = (Format.XGBOOST, Format.LIGHTGBM)
"""Formats of boosted trees."""

SKOPS = ".skops"
"""End of the name of an estimator's file that is read without running code of the file."""

ESTIMATORS = (SKOPS, ".joblib", ".pkl")


class ManifestPart(BaseModel):
    """A mapping in the manifest, such as `artifact`; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Activation(StrEnum):
    """The function between the layers of a network."""

    RELU = "relu"
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    TANH = "tanh"
    SIGMOID = "sigmoid"


class Architecture(ManifestPart):
    """A network of dense layers, whose state dict has the keys ``0.weight``, ``0.bias``, ``2.weight`` and so on."""

    type: Literal["mlp"]
    layers: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=2, max_length=100)]
    """Widths, from the encoded columns to the output: 1 logit, or 2 of which `favourable` is one."""
    activation: Activation
    """After every layer but the last, with PyTorch's default parameters."""
    output_activation: Literal["sigmoid", "softmax"] | None = None
    """Activation after the last layer; implied by `output`, which it must not contradict."""


class Artifact(ManifestPart):
    """The file that holds the model, and how the model names and reads the columns of the manifest."""

    format: Format
    path: Name
    """Relative to the manifest."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", to_lower=True)]
    """Digest of the file; a file with another digest is never loaded."""
    architecture: Architecture | None = None
    """The network, for the format `torch`."""
    output_name: Name | None = None
    """Name of the output to use, for the format `onnx`; required if several would fit."""
    column: Column | None = None
    """Column of that output which is the favourable class, for the format `onnx`; `favourable` when absent."""
    map: dict[Name, Name | None] | None = None
    """The model's own name of each encoded column, or of each feature with ``input: raw``; null for one it lacks."""
    codes: Literal["positions", "numbers"] = "positions"
    """What boosted trees take for levels that their file does not name: their positions in `categories`, from 0, or
    the `numbers` that they are, such as 17."""
    missing: float | None = None
    """The number that boosted trees read as a missing value in every column, as XGBoost's parameter `missing`."""

    @property
    def runs_code(self) -> bool:
        """Whether reading the artifact can run code of the file, which is so for pickles."""
        return self.format is Format.SKLEARN and not self.path.endswith(SKOPS)


class Protocol(StrEnum):
    """The protocol in which a model server answers."""

    OIP_V2 = "oip-v2"
    """The Open Inference Protocol, version 2, as in KServe, Triton and MLServer."""
    MLFLOW = "mlflow"
    """``/invocations`` of `mlflow models serve`, with ``dataframe_split``."""


class Datatype(StrEnum):
    """Precision of the fractional numbers in requests to a model server."""

    FP64 = "FP64"
    FP32 = "FP32"


class Endpoint(ManifestPart):
    """Address of a remote model. For one answer, the service sends at most `max_calls` requests to this address."""

    format: Literal[Format.HTTP]
    url: Name
    """Address for POST, such as ``https://host/v2/models/credit/infer``, at a host that the operator allows."""
    protocol: Protocol
    output_name: Name | None = None
    """Name of the output tensor; with `mlflow`, of the column, where predictions have named columns."""
    input_name: Name = "input"
    """Name of the tensor of encoded points; raw records have one for each feature (`oip-v2`)."""
    datatype: Datatype = Datatype.FP64
    """Datatype of tensors of fractional numbers (`oip-v2`)."""
    column: Column | None = None
    """Column of the output which is the favourable class; `favourable` when absent."""
    map: dict[Name, Name | None] | None = None
    """The server's own name of each encoded column (`mlflow`), or of each feature of raw records; null for one it does
    not take."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Time limit of one request; the deadline of the answer may be earlier."""
    max_batch: Annotated[int, Field(ge=2 * PINS, le=1_000_000)] = 5_000
    """Largest number of records in one request, including those that pin the model."""
    max_calls: Annotated[int, Field(ge=1)] = 20
    """Largest number of requests for one answer."""
    max_rows: Annotated[int, Field(ge=1)] = 50_000
    """Largest number of records for one answer, over all requests."""
    secret: Annotated[str, StringConstraints(pattern=r"^RECOURSE_SECRET_[A-Z0-9_]{1,80}$")] | None = None
    """Environment variable with the token to send; the token itself is never in a manifest."""
    secret_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,80}$")] | None = None
    """Header whose value is the secret; ``Authorization: Bearer`` when absent."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the endpoint's description in the manifest; the model at that address has no digest."""
        # Without keys that came later, so that a description from before them keeps its digest.
        later = {"map"} if self.map is None else set()
        return hashlib.sha256(self.model_dump_json(exclude=later).encode()).hexdigest()

    @property
    def place(self) -> tuple[str, str, int]:
        """Scheme, host in lower case, and port of `url`. Raises `ValueError` if `url` has a fault."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.hostname.isascii():
            raise ValueError("must be an address that begins with https:// or http:// and has a host in ASCII")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("must have no user, no password and no #; use `secret` for a token")
        if any(ord(character) <= 32 or ord(character) > 126 for character in self.url):
            raise ValueError("must consist of printable ASCII characters without spaces")
        return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _kind(artifact: Any) -> str:
    stated = artifact.get("format") if isinstance(artifact, dict) else getattr(artifact, "format", None)
    return "endpoint" if stated == Format.HTTP else "file"


AnyArtifact: TypeAlias = Annotated[
    Annotated[Artifact, Tag("file")] | Annotated[Endpoint, Tag("endpoint")], Discriminator(_kind)
]
"""The model: a file, or an address."""
