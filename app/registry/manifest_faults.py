"""Everything that can be wrong with a manifest, with a JSON pointer and a sentence for each fault."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import PurePosixPath

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.errors import Fault
from app.recourse.features import Feature, Missing, escape, schema_faults
from app.recourse.features.derived import derived_faults
from app.recourse.models.black_box import Input
from app.recourse.models.score import LOGIT_LIMIT, Output
from app.registry.artifact import ESTIMATORS, TREES, Architecture, Artifact, Endpoint, Format, Protocol
from app.registry.form_sentences import sentence_of, unknown_key
from app.registry.manifest import INSTALLED, Manifest
from app.registry.rules import RuleParser

_FEATURE_KEYS = tuple(field.name for field in fields(Feature))

OWN_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect",
    "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "traceparent", "trailer",
    "transfer-encoding", "upgrade", "x-request-id",
})  # fmt: skip
"""Headers that cannot hold a token."""


def form_faults(error: ValidationError) -> list[Fault]:
    """What is wrong with the form of a manifest."""
    faults = {
        _pointer(details): Fault(_pointer(details), _sentence(details))
        for details in error.errors()
        # Reported for a default that depends on a field which has a fault of its own.
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
        return "must be the favourable class: a whole number, a text, true or false"
    if details["type"] not in ("extra_forbidden", "unexpected_keyword_argument"):
        return sentence_of(details)
    key, place = str(details["loc"][-1]), details["loc"]
    if place[0] == "features":
        return unknown_key("a feature" if len(place) == 3 else "this part of a feature", key, _FEATURE_KEYS)
    if place[0] == "artifact" and len(place) == 3:
        return unknown_key("an artifact", key, {*Artifact.model_fields, *Endpoint.model_fields})
    return unknown_key("this part of a manifest" if len(place) > 1 else "a manifest", key, Manifest.model_fields)


def semantic_faults(manifest: Manifest) -> list[Fault]:
    """What is wrong with a manifest whose form is right."""
    return [
        *feature_faults(manifest.features),
        *rule_faults(manifest.rules, manifest.features),
        *path_faults(manifest.artifact, manifest.reference),
        *_raw_faults(manifest),
        *_output_faults(manifest),
        *label_faults(manifest),
        *time_faults(manifest),
        *_FORMAT_FAULTS[manifest.artifact.format](manifest),
        *([] if manifest.artifact.format in (Format.ONNX, Format.HTTP) else _only_onnx(manifest)),
        *_only_trees(manifest.artifact),
    ]


def feature_faults(features: Sequence[Feature]) -> list[Fault]:
    """What is wrong with the features."""
    endless = [
        Fault(f"/features/{j}/{field.name}", "must be a finite number")
        for j, feature in enumerate(features)
        for field in fields(feature)
        if isinstance(value := getattr(feature, field.name), float) and not math.isfinite(value)
    ]
    return endless or schema_faults(features) or derived_faults(features)


def path_faults(artifact: Artifact | Endpoint | None, reference: str | None) -> list[Fault]:
    """File names that would collide in the directory of the installed version."""
    path = artifact.path if isinstance(artifact, Artifact) else None
    named = {"/artifact/path": path, "/reference": reference}
    paths = {pointer: PurePosixPath(path) for pointer, path in named.items() if path}
    faults = [
        Fault(pointer, f'must not be called "{path}": the store keeps a file of its own under that name')
        for pointer, path in paths.items()
        if path.parts and path.parts[0] in INSTALLED
    ]
    if len(paths) == 2 and len(set(paths.values())) == 1:
        faults.append(Fault("/reference", "must be another file than the artifact"))
    return faults


def _raw_faults(manifest: Manifest) -> list[Fault]:
    """Indicators, for which a table of records has no column."""
    if manifest.input is not Input.RAW:
        return []
    return [
        Fault(f"/features/{j}/missing", "must be nan or fill: a table of raw records has no column for an indicator")
        for j, feature in enumerate(manifest.features)
        if feature.missing is Missing.INDICATOR and not feature.is_group
    ]


def rule_faults(rules: Sequence[str], features: Sequence[Feature]) -> list[Fault]:
    """Rules that cannot be read, or that name what is not in the schema."""
    faults: list[Fault] = []
    parser = RuleParser(features)
    for i, rule in enumerate(rules):
        try:
            parser.parse(rule)
        except ValueError as error:
            faults.append(Fault(f"/rules/{i}", str(error)))
    return faults


def _output_faults(manifest: Manifest) -> list[Fault]:
    if manifest.output is Output.PROBABILITY and not 0.0 < manifest.threshold < 1.0:
        percent = f"; for {manifest.threshold:g} % write {manifest.threshold / 100:g}" if manifest.threshold > 1 else ""
        return [Fault("/threshold", f"must be above 0 and below 1 for a model that outputs a probability{percent}")]
    if manifest.output is Output.MARGIN and manifest.artifact.format is not Format.SKLEARN:
        return [Fault("/output", "margin belongs to the format sklearn: the decision function of an estimator")]
    if manifest.output in (Output.LOGIT, Output.MARGIN) and not abs(manifest.threshold) < LOGIT_LIMIT:
        return [Fault("/threshold", f"must be a {manifest.output} between -{LOGIT_LIMIT:g} and {LOGIT_LIMIT:g}")]
    return _points_faults(manifest)


def _points_faults(manifest: Manifest) -> list[Fault]:
    stated = manifest.model_fields_set
    if manifest.output is not Output.POINTS:
        return [Fault(f"/{key}", "belongs to output: points") for key in ("better", "odds") if key in stated]
    faults = []
    if "threshold" not in stated:
        faults.append(Fault("/threshold", "is missing: the points from which the decision is favourable"))
    if "favourable" in stated:
        faults.append(Fault("/favourable", "does not belong to output: points; say better: lower if fewer are better"))
    if (manifest.odds.base_odds is None) != (manifest.odds.base_points is None):
        faults.append(Fault("/odds", "needs base_odds and base_points together, or neither"))
    return faults


def label_faults(manifest: Manifest) -> list[Fault]:
    """What is wrong with `label` and `refits`."""
    stated = "refits" in manifest.model_fields_set
    if manifest.label is None:
        return [Fault("/refits", "belongs to a label")] if stated else []
    if stated and manifest.artifact.format is not Format.LINEAR:
        return [Fault("/refits", "belongs to the format linear")]
    if manifest.label in [feature.name for feature in manifest.features]:
        return [Fault("/label", "is the name of a feature; the true outcome is a column of its own")]
    return []


def time_faults(manifest: Manifest) -> list[Fault]:
    """What is wrong with `time`."""
    if manifest.time is None:
        return []
    if manifest.time.column in [feature.name for feature in manifest.features]:
        return [Fault("/time/column", "is the name of a feature; a date is a column of its own, and never an input")]
    if manifest.time.column == manifest.label:
        return [Fault("/time/column", "is the column of the true outcome; a date is a column of its own")]
    return []


def _linear_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest) + _numeric_output(manifest, points=True)
    faults += _favourable_index(manifest)
    if manifest.input is not Input.ENCODED:
        faults.append(
            Fault("/input", 'must be encoded; "space": "raw" in the file means that its weights apply to raw numbers')
        )
    return faults


def _torch_faults(manifest: Manifest) -> list[Fault]:
    faults = _numeric_output(manifest) + _favourable_index(manifest)
    if manifest.input is not Input.ENCODED:
        faults.append(Fault("/input", "must be encoded: a network takes numbers"))
    if manifest.file.map is not None:
        faults.append(Fault("/artifact/map", "is not for the format torch: a network takes every encoded column"))
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
        faults.append(Fault(f"{pointer}/output_activation", "yields a probability, but output is logit"))
    elif stated not in (None, implied):
        faults.append(Fault(f"{pointer}/output_activation", f"must be {implied} for {width} output(s)"))
    return faults


def _sklearn_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest)
    if not manifest.file.path.endswith(ESTIMATORS):
        faults.append(Fault("/artifact/path", "must end in .skops, or in .joblib or .pkl for a model that is trusted"))
    return faults


def _boosting_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest) + _numeric_output(manifest, points=True)
    return faults + ([] if manifest.output is Output.POINTS else _favourable_index(manifest))


def _xgboost_faults(manifest: Manifest) -> list[Fault]:
    faults = _boosting_faults(manifest)
    if not manifest.file.path.endswith((".json", ".ubj")):
        detail = 'must end in .json or .ubj; booster.save_model("model.json") writes such a file'
        faults.append(Fault("/artifact/path", detail))
    return faults


def _scorecard_faults(manifest: Manifest) -> list[Fault]:
    faults = _no_architecture(manifest)
    if manifest.output is not Output.POINTS:
        faults.append(Fault("/output", "must be points for the format scorecard"))
    if manifest.input is not Input.RAW:
        faults.append(Fault("/input", "must be raw: attributes of a scorecard are values of records"))
    if manifest.file.map is not None:
        faults.append(Fault("/artifact/map", "is not for the format scorecard: its attributes name features"))
    if not manifest.file.path.endswith((".csv", ".yaml", ".yml", ".json")):
        faults.append(Fault("/artifact/path", "must end in .csv, .yaml or .json"))
    return faults


def _favourable_index(manifest: Manifest) -> list[Fault]:
    if manifest.favourable in (0, 1):
        return []
    return [Fault("/favourable", "must be 1, or 0 for a model whose output is that of the unfavourable class")]


def _onnx_faults(manifest: Manifest) -> list[Fault]:
    # A graph may name its classes.
    named = manifest.file.column is None and manifest.output is Output.PROBABILITY
    return _no_architecture(manifest) + ([] if named else _column_faults(manifest, manifest.file.column))


def _http_faults(manifest: Manifest) -> list[Fault]:
    endpoint = manifest.artifact
    assert isinstance(endpoint, Endpoint)
    faults = _column_faults(manifest, endpoint.column)
    try:
        _ = endpoint.place
    except ValueError as error:
        faults.append(Fault("/artifact/url", str(error)))
    if endpoint.protocol is Protocol.OIP_V2 and endpoint.output_name is None:
        faults.append(Fault("/artifact/output_name", "is missing: servers of this protocol have outputs by name"))
    if endpoint.protocol is Protocol.MLFLOW:
        faults += [
            Fault(f"/artifact/{key}", "belongs to the protocol oip-v2")
            for key in ("input_name", "datatype")
            if key in endpoint.model_fields_set
        ]
    if endpoint.secret_header is not None and endpoint.secret is None:
        faults.append(Fault("/artifact/secret_header", "belongs to a secret"))
    if (endpoint.secret_header or "").lower() in OWN_HEADERS:
        faults.append(Fault("/artifact/secret_header", "must not be a header that the service or HTTP itself sets"))
    return faults


def _column_faults(manifest: Manifest, column: int | None) -> list[Fault]:
    """Faults where it is not clear which number is that of the favourable class."""
    if manifest.output is not Output.PROBABILITY:
        faults = [] if column is None else [Fault("/artifact/column", "belongs to output: probability")]
        return faults if manifest.output is Output.LABEL else faults + _favourable_index(manifest)
    return _favourable_index(manifest) if column is None else []


def _only_onnx(manifest: Manifest) -> list[Fault]:
    return [
        Fault(f"/artifact/{key}", "belongs to the formats onnx and http")
        for key in ("output_name", "column")
        if getattr(manifest.file, key) is not None
    ]


def _only_trees(artifact: Artifact | Endpoint) -> list[Fault]:
    if isinstance(artifact, Endpoint) or artifact.format in TREES:
        return []
    stated = {"codes": artifact.codes != "positions", "missing": artifact.missing is not None}
    detail = "belongs to the files of boosted trees; an estimator or a graph has it inside"
    return [Fault(f"/artifact/{key}", detail) for key, given in stated.items() if given]


def _no_architecture(manifest: Manifest) -> list[Fault]:
    if manifest.file.architecture is None:
        return []
    return [Fault("/artifact/architecture", "belongs to the format torch")]


def _numeric_output(manifest: Manifest, *, points: bool = False) -> list[Fault]:
    if manifest.output is Output.LABEL or (manifest.output is Output.POINTS and not points):
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
    Format.SCORECARD: _scorecard_faults,
}
