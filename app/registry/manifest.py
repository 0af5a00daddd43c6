"""`model.yaml`: what a lender says about a model, and every fault that can be found in it.

How the parts fit together:

* ``input: encoded`` models were trained on encoded points. State `center` and `scale` of each number in the manifest;
  where they are absent they are fitted on the reference data at registration, which is the model's own encoding only if
  the model was trained on exactly these records.
* ``input: raw`` models take a table with the manifest's names and categories. `center` and `scale` are then no part of
  the model: they set the units in which methods measure distance.
* Boosted trees give the logit of class 1, or its probability, as `output` says.
* The last layer of a network gives a logit. ``output: probability`` puts a sigmoid behind it (a softmax where the last
  layer has two outputs), ``output: logit`` takes it as it is; `output_activation` may say so too, never otherwise.
* `label` names a column of the reference records that holds what came of them: 1 for the favourable outcome, 0 for the
  other. A linear model is then refitted on `refits` random halves of the records (a logistic regression on encoded
  points that decides at the model's own threshold), and the certificate can say what retraining would change
  (``moments: registered``).
* A remote model (``format: http``) has no file. Its `sha256` is that of its description, so it names an address and not
  what answers there; that is pinned by some reference records, which every request carries along and which must score
  as they did at registration.
* Files are named relative to the directory of `model.yaml` and lie inside it.

Pointers of faults are JSON pointers into the manifest; a fault inside a file is below the key that names the file, such
as ``/artifact/weights/duration`` or ``/reference/12/age`` (records count from 0).
"""

import hashlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from app.errors import Fault
from app.recourse.actionability import LinearRule
from app.recourse.blackbox import LOGIT_LIMIT, Input, Output
from app.recourse.features import Encoding, Feature, escape, schema_faults
from app.registry.rules import parse_rule

MANIFEST = "model.yaml"
"""Name of the manifest in the directory of a model."""

REGISTRATION = "registration.json"
PROFILE = "profile.npz"
STATUS = "status.json"
INACTIVE = "inactive.json"

INSTALLED = frozenset({MANIFEST, REGISTRATION, PROFILE, STATUS, INACTIVE})
"""Names that the store itself uses in the directory of an installed version."""

ID = r"^[a-z0-9][a-z0-9._-]{0,63}$"
VERSION = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"

Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Column: TypeAlias = Annotated[int, Field(ge=0, lt=10_000)]

PINS = 8
"""Reference records that every request to a remote model carries along, to see that it is still the same model."""


class Format(StrEnum):
    """How a model is stored."""

    LINEAR = "linear"
    TORCH = "torch"
    SKLEARN = "sklearn"
    XGBOOST = "xgboost"
    LIGHTGBM = "lightgbm"
    ONNX = "onnx"
    HTTP = "http"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Activation(StrEnum):
    """What stands between the layers of a network."""

    RELU = "relu"
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    TANH = "tanh"
    SIGMOID = "sigmoid"


class Architecture(_Part):
    """A network of dense layers, whose state dict has the keys ``0.weight``, ``0.bias``, ``2.weight`` and so on."""

    type: Literal["mlp"]
    layers: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=2, max_length=100)]
    """Widths, from the encoded columns to the output: 1 logit, or 2 of which `favourable` is one."""
    activation: Activation
    """After every layer but the last, with PyTorch's default parameters."""
    output_activation: Literal["sigmoid", "softmax"] | None = None
    """What follows the last layer; implied by `output`, and refused where it contradicts it."""


class Artifact(_Part):
    """The file that holds the model."""

    format: Format
    path: Name
    """Relative to the manifest."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", to_lower=True)]
    """Digest of the file; nothing else is ever loaded."""
    architecture: Architecture | None = None
    """The network, for the format `torch`."""
    output: Name | None = None
    """Name of the output that is meant, for the format `onnx`; needed where several could be."""
    column: Column | None = None
    """Column of that output which is the favourable class, for the format `onnx`; `favourable` when absent."""


class Protocol(StrEnum):
    """What a model server understands."""

    OIP_V2 = "oip-v2"
    """The Open Inference Protocol, version 2, as KServe, Triton and MLServer speak it."""
    MLFLOW = "mlflow"
    """``/invocations`` of `mlflow models serve`, with ``dataframe_split``."""


class Datatype(StrEnum):
    """Precision of the numbers that are sent."""

    FP64 = "FP64"
    FP32 = "FP32"


class Endpoint(_Part):
    """Where a model answers over HTTP. One answer of the service sends at most `max_calls` requests to it."""

    format: Literal[Format.HTTP]
    url: Name
    """What is posted to, such as ``https://host/v2/models/credit/infer``, at a host that the operator allows."""
    protocol: Protocol
    output: Name | None = None
    """Name of the output tensor; with `mlflow`, of the column, where predictions have named columns."""
    input: Name = "input"
    """Name of the tensor of encoded points; raw records have one for each feature (`oip-v2`)."""
    datatype: Datatype = Datatype.FP64
    """Of the tensors of fractional numbers (`oip-v2`)."""
    column: Column | None = None
    """Column of the output which is the favourable class; `favourable` when absent."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Longest time for one request; the deadline of a question may be nearer."""
    max_batch: Annotated[int, Field(ge=2 * PINS, le=1_000_000)] = 5_000
    """Records of one request, with those that pin the model."""
    max_calls: Annotated[int, Field(ge=1)] = 20
    """Requests that one answer may send."""
    max_rows: Annotated[int, Field(ge=1)] = 50_000
    """Records that one answer may send, in all requests together."""
    secret: Annotated[str, StringConstraints(pattern=r"^RECOURSE_SECRET_[A-Z0-9_]{1,80}$")] | None = None
    """Environment variable that holds the token to send; the token itself is never in a manifest."""
    secret_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,80}$")] | None = None
    """Header that is sent with the secret as it is; ``Authorization: Bearer`` when absent."""

    @property
    def sha256(self) -> str:
        """Digest of this description, not of the model that answers."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def place(self) -> tuple[str, str, int]:
        """Scheme, host in lower case, and port. `ValueError` where `manifest_faults` would name it."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.hostname.isascii():
            raise ValueError("must be an address that begins with https:// or http:// and has a host in ASCII")
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise ValueError("must hold no user, no password and no #; `secret` says where a token is")
        if any(ord(character) <= 32 or ord(character) > 126 for character in self.url):
            raise ValueError("must consist of printable ASCII characters without spaces")
        return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _kind(artifact: Any) -> str:
    stated = artifact.get("format") if isinstance(artifact, dict) else getattr(artifact, "format", None)
    return "endpoint" if stated == Format.HTTP else "file"


AnyArtifact: TypeAlias = Annotated[
    Annotated[Artifact, Tag("file")] | Annotated[Endpoint, Tag("endpoint")], Discriminator(_kind)
]
"""What the model is: a file, or an address."""


class EncodingChoice(_Part):
    """How numbers without `center` and `scale` are encoded."""

    continuous: Encoding = "standard"


def _default_threshold(data: dict[str, Any]) -> float:
    return 0.0 if data.get("output") is Output.LOGIT else 0.5


class Manifest(_Part):
    """One version of one model."""

    id: Annotated[str, StringConstraints(pattern=ID)]
    """Name of the model in addresses."""
    version: Annotated[str, StringConstraints(pattern=VERSION)]
    """Name of this version; versions are never overwritten."""
    title: Name
    """What people call the model."""
    description: Words | None = None
    """What it decides, on which data it was trained."""
    artifact: AnyArtifact
    input: Input
    """`encoded` points, or a table of `raw` records."""
    output: Output
    """`probability` or `logit` of the favourable class, or a `label`."""
    favourable: bool | int | str = 1
    """The class that means yes, as an estimator calls it. A linear model, a network and boosted trees know the
    classes 0 and 1: with one output they speak of class 1, so 0 turns, say, a probability of default around."""
    threshold: float = Field(default_factory=_default_threshold)
    """Smallest favourable output; 0.5, and 0 for a logit, when absent."""
    encoding: EncodingChoice = EncodingChoice()
    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=5_000)]
    """The model's columns, in its order."""
    reference: Name
    """CSV of raw records with the features' names in its header; other columns are ignored, but for `label`."""
    label: Name | None = None
    """Column of the reference records with the true outcome, 1 for favourable and 0 for not; of a linear model."""
    refits: Annotated[int, Field(ge=2, le=10_000)] = 1_000
    """How often a model with a label is refitted at registration, each time on a random half of the records."""
    rules: Annotated[tuple[Words, ...], Field(max_length=1_000)] = ()
    """Linear relations between numeric features that hold in every answer, e.g. ``net <= gross``."""

    @property
    def name(self) -> str:
        """`id@version`."""
        return f"{self.id}@{self.version}"

    @property
    def file(self) -> Artifact:
        """The artifact, of a format that is a file."""
        assert isinstance(self.artifact, Artifact)
        return self.artifact

    def linear_rules(self) -> tuple[LinearRule, ...]:
        """`rules` as coefficients. `ValueError` where `manifest_faults` would name one."""
        return tuple(parse_rule(rule, self.features) for rule in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A manifest under examination: the parts that are sound by themselves, and everything that is wrong."""

    manifest: Manifest | None = None
    """Present iff there are no faults."""
    artifact: Artifact | Endpoint | None = None
    features: tuple[Feature, ...] | None = None
    reference: str | None = None
    label: str | None = None
    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The draft of a manifest that has been parsed as YAML."""
        try:
            manifest = Manifest.model_validate(data)
        except ValidationError as error:
            return cls._partial(data, _faults_of(error))
        faults = tuple(_semantic_faults(manifest))
        return cls(
            manifest=None if faults else manifest,
            artifact=manifest.artifact,
            features=None if _feature_faults(manifest.features) else manifest.features,
            reference=manifest.reference,
            label=None if _label_faults(manifest) else manifest.label,
            faults=faults,
        )

    @classmethod
    def _partial(cls, data: Mapping[str, Any], faults: Sequence[Fault]) -> Self:
        """What can be judged although the manifest as a whole has a wrong form."""
        artifact, reference = _part(data, "artifact"), _part(data, "reference")
        features, rules = _part(data, "features"), _part(data, "rules")
        unsound = [] if features is None else _feature_faults(features)
        found = [*faults, *unsound, *_path_faults(artifact, reference)]
        if features is not None:
            found += _rule_faults(rules or (), features)
        return cls(artifact=artifact, features=None if unsound else features, reference=reference, faults=tuple(found))


def read_manifest(content: bytes) -> Draft:
    """The draft of the manifest in a file; every fault is in it, none is raised."""
    try:
        data = yaml.load(content, Loader=_Loader)  # noqa: S506 - derived from SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        return Draft(faults=(Fault("", f"is not YAML: {_one_line(error)}"),))
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        return Draft(faults=(Fault("", "must be a mapping of names to values"),))
    return Draft.of(data)


class _Loader(yaml.SafeLoader):
    """YAML without code, which refuses a key that is given twice instead of keeping the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f'"{key.value}" is given twice', key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _part(data: Mapping[str, Any], key: str) -> Any:
    """One field of the manifest by itself, None where it is not valid."""
    try:
        return _validator(key).validate_python(data.get(key))
    except ValidationError:
        return None


@cache
def _validator(key: str) -> TypeAdapter[Any]:
    annotation: Any = Manifest.model_fields[key].rebuild_annotation()
    return TypeAdapter(annotation)


# --- faults ----------------------------------------------------------------------------------------------------------

_SENTENCES = {
    "missing": "is missing",
    "missing_keyword_only_argument": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not a key that this part of a manifest has",
    "unexpected_keyword_argument": "is not a key that a feature has",
}


def _faults_of(error: ValidationError) -> list[Fault]:
    faults = {
        _pointer(details): Fault(_pointer(details), _sentence(details))
        for details in error.errors()
        # Said of a default that depends on a field which has a fault of its own.
        if details["type"] != "default_factory_not_called"
    }
    return list(faults.values())


def _pointer(details: ErrorDetails) -> str:
    # The members of a union are no part of the document.
    path = details["loc"]
    if path[0] == "favourable":
        path = path[:1]
    elif path[0] == "artifact":
        path = (*path[:1], *path[2:])
    return "".join(f"/{escape(str(part))}" for part in path)


def _sentence(details: ErrorDetails) -> str:
    if details["loc"][:1] == ("favourable",):
        return "must be the class that means yes: a whole number, a text, true or false"
    text = _SENTENCES.get(details["type"], details["msg"])
    if details["type"] == "string_type" and isinstance(details["input"], bool | int | float):
        text += "; put it in quotes"
    return text


def _semantic_faults(manifest: Manifest) -> list[Fault]:
    """What is wrong with a manifest whose form is right."""
    return [
        *_feature_faults(manifest.features),
        *_rule_faults(manifest.rules, manifest.features),
        *_path_faults(manifest.artifact, manifest.reference),
        *_output_faults(manifest),
        *_label_faults(manifest),
        *_FORMAT_FAULTS[manifest.artifact.format](manifest),
        *([] if manifest.artifact.format in (Format.ONNX, Format.HTTP) else _only_onnx(manifest)),
    ]


def _feature_faults(features: Sequence[Feature]) -> list[Fault]:
    endless = [
        Fault(f"/features/{j}/{field.name}", "must be a finite number")
        for j, feature in enumerate(features)
        for field in fields(feature)
        if isinstance(value := getattr(feature, field.name), float) and not math.isfinite(value)
    ]
    return endless or schema_faults(features)


def _path_faults(artifact: Artifact | Endpoint | None, reference: str | None) -> list[Fault]:
    """Names of files that would collide in the directory of the installed version."""
    path = artifact.path if isinstance(artifact, Artifact) else None
    named = {"/artifact/path": path, "/reference": reference}
    paths = {pointer: PurePosixPath(path) for pointer, path in named.items() if path}
    faults = [
        Fault(pointer, f'must not be called "{path}": the store keeps a file of its own under that name')
        for pointer, path in paths.items()
        if str(path) in INSTALLED
    ]
    if len(paths) == 2 and len(set(paths.values())) == 1:
        faults.append(Fault("/reference", "must be another file than the artifact"))
    return faults


def _rule_faults(rules: Sequence[str], features: Sequence[Feature]) -> list[Fault]:
    faults: list[Fault] = []
    for i, rule in enumerate(rules):
        try:
            parse_rule(rule, features)
        except ValueError as error:
            faults.append(Fault(f"/rules/{i}", str(error)))
    return faults


def _output_faults(manifest: Manifest) -> list[Fault]:
    if manifest.output is Output.PROBABILITY and not 0.0 < manifest.threshold < 1.0:
        return [Fault("/threshold", "must be above 0 and below 1 for a model that gives a probability")]
    if manifest.output is Output.LOGIT and not abs(manifest.threshold) < LOGIT_LIMIT:
        return [Fault("/threshold", f"must be a logit between -{LOGIT_LIMIT:g} and {LOGIT_LIMIT:g}")]
    return []


def _label_faults(manifest: Manifest) -> list[Fault]:
    if manifest.label is None:
        return [Fault("/refits", "belongs to a label")] if "refits" in manifest.model_fields_set else []
    if manifest.artifact.format is not Format.LINEAR:
        return [Fault("/label", "belongs to the format linear: other models are not refitted")]
    if manifest.label in [feature.name for feature in manifest.features]:
        return [Fault("/label", "is the name of a feature; the true outcome is a column of its own")]
    return []


def _linear_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest) + _numeric_output(manifest)
    faults += _favourable_index(manifest)
    if manifest.input is not Input.ENCODED:
        faults.append(
            Fault("/input", 'must be encoded; "space": "raw" in the file says that its weights are for raw numbers')
        )
    return faults


def _torch_faults(manifest: Manifest) -> list[Fault]:
    faults = _numeric_output(manifest) + _favourable_index(manifest)
    if manifest.input is not Input.ENCODED:
        faults.append(Fault("/input", "must be encoded: a network takes numbers"))
    architecture = manifest.file.architecture
    if architecture is None:
        return [*faults, Fault("/artifact/architecture", "is missing: a state dict does not describe its network")]
    return faults + _last_layer_faults(manifest, architecture)


def _last_layer_faults(manifest: Manifest, architecture: Architecture) -> list[Fault]:
    pointer, width = "/artifact/architecture", architecture.layers[-1]
    if width > 2:
        return [Fault(f"{pointer}/layers", f"must end in 1 output (a logit) or 2 (one for each class), not {width}")]
    faults: list[Fault] = []
    stated, implied = architecture.output_activation, "sigmoid" if width == 1 else "softmax"
    if stated is not None and manifest.output is Output.LOGIT:
        faults.append(Fault(f"{pointer}/output_activation", "gives a probability, but output is logit"))
    elif stated not in (None, implied):
        faults.append(Fault(f"{pointer}/output_activation", f"must be {implied} for {width} output(s)"))
    return faults


def _sklearn_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest)
    if not manifest.file.path.endswith((".skops", ".joblib", ".pkl")):
        faults.append(Fault("/artifact/path", "must end in .skops, or in .joblib or .pkl for a model that is trusted"))
    return faults


def _boosting_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest) + _numeric_output(manifest) + _favourable_index(manifest)
    if manifest.input is not Input.ENCODED:
        faults.append(Fault("/input", "must be encoded: the trees of this format take numbers"))
    return faults


def _xgboost_faults(manifest: Manifest) -> list[Fault]:
    faults = _boosting_faults(manifest)
    if not manifest.file.path.endswith(".json"):
        faults.append(Fault("/artifact/path", 'must end in .json; booster.save_model("model.json") writes such a file'))
    return faults


def _favourable_index(manifest: Manifest) -> list[Fault]:
    if manifest.favourable in (0, 1):
        return []
    return [Fault("/favourable", "must be 1, or 0 for a model that speaks of the unfavourable class")]


def _onnx_faults(manifest: Manifest) -> list[Fault]:
    return _no_architecture(manifest) + _column_faults(manifest, manifest.file.column)


def _http_faults(manifest: Manifest) -> list[Fault]:
    endpoint = manifest.artifact
    assert isinstance(endpoint, Endpoint)
    faults = _column_faults(manifest, endpoint.column)
    try:
        _ = endpoint.place
    except ValueError as error:
        faults.append(Fault("/artifact/url", str(error)))
    if endpoint.protocol is Protocol.OIP_V2 and endpoint.output is None:
        faults.append(Fault("/artifact/output", "is missing: servers of this protocol have outputs by name"))
    if endpoint.protocol is Protocol.MLFLOW:
        faults += [
            Fault(f"/artifact/{key}", "belongs to the protocol oip-v2")
            for key in ("input", "datatype")
            if key in endpoint.model_fields_set
        ]
    if endpoint.secret_header is not None and endpoint.secret is None:
        faults.append(Fault("/artifact/secret_header", "belongs to a secret"))
    return faults


def _column_faults(manifest: Manifest, column: int | None) -> list[Fault]:
    """Where it is not clear which number speaks of the favourable class."""
    if manifest.output is not Output.PROBABILITY:
        faults = [] if column is None else [Fault("/artifact/column", "belongs to output: probability")]
        return faults if manifest.output is Output.LABEL else faults + _favourable_index(manifest)
    return _favourable_index(manifest) if column is None else []


def _only_onnx(manifest: Manifest) -> list[Fault]:
    return [
        Fault(f"/artifact/{key}", "belongs to the formats onnx and http")
        for key in ("output", "column")
        if getattr(manifest.file, key) is not None
    ]


def _no_architecture(manifest: Manifest) -> list[Fault]:
    if manifest.file.architecture is None:
        return []
    return [Fault("/artifact/architecture", "belongs to the format torch")]


def _numeric_output(manifest: Manifest) -> list[Fault]:
    if manifest.output is Output.LABEL:
        return [Fault("/output", f"must be probability or logit for the format {manifest.artifact.format}")]
    return []


_FORMAT_FAULTS: dict[Format, Callable[[Manifest], list[Fault]]] = {
    Format.LINEAR: _linear_faults,
    Format.TORCH: _torch_faults,
    Format.SKLEARN: _sklearn_faults,
    Format.XGBOOST: _xgboost_faults,
    Format.LIGHTGBM: _boosting_faults,
    Format.ONNX: _onnx_faults,
    Format.HTTP: _http_faults,
}
