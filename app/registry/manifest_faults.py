"""Everything that can be wrong with a manifest, with a JSON pointer and a sentence for each fault."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
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
    """The faults that `error` states: places where a manifest does not have the form of `Manifest`."""
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


def _where(*rows: tuple[bool, str, str]) -> list[Fault]:
    """The fault of each row whose condition holds: a condition, a pointer, and a sentence."""
    return [Fault(pointer, detail) for wrong, pointer, detail in rows if wrong]


def semantic_faults(manifest: Manifest) -> list[Fault]:
    """The faults of a manifest that has the form of `Manifest`, but whose parts contradict each other."""
    artifact = manifest.artifact
    of_artifact = _endpoint_faults if isinstance(artifact, Endpoint) else _file_faults
    return [
        *feature_faults(manifest.features),
        *rule_faults(manifest.rules, manifest.features),
        *path_faults(artifact, manifest.reference),
        *_indicator_faults(manifest),
        *_output_faults(manifest),
        *label_faults(manifest),
        *time_faults(manifest),
        *_report_faults(manifest),
        *of_artifact(manifest),
    ]


def feature_faults(features: Sequence[Feature]) -> list[Fault]:
    """The faults of the features in a manifest."""
    endless = [
        Fault(f"/features/{j}/{field.name}", "must be a finite number")
        for j, feature in enumerate(features)
        for field in fields(feature)
        if isinstance(value := getattr(feature, field.name), float) and not math.isfinite(value)
    ]
    return endless or schema_faults(features) or derived_faults(features)


def path_faults(artifact: Artifact | Endpoint | None, reference: str | None) -> list[Fault]:
    """The faults of the two file names in a manifest: the name of the artifact and that of the reference.

    The two must differ, and neither may be a name that the store uses for a file of its own.
    """
    path = artifact.path if isinstance(artifact, Artifact) else None
    named = {"/artifact/path": path, "/reference": reference}
    paths = {pointer: PurePosixPath(path) for pointer, path in named.items() if path}
    faults = [
        Fault(pointer, f'must not be called "{path}": the store keeps a file of its own under that name')
        for pointer, path in paths.items()
        if path.parts and path.parts[0] in INSTALLED
    ]
    same = len(paths) == 2 and len(set(paths.values())) == 1
    return faults + _where((same, "/reference", "must be another file than the artifact"))


def _indicator_faults(manifest: Manifest) -> list[Fault]:
    return [
        Fault(f"/features/{j}/missing", "must be nan or fill: a table of raw records has no column for an indicator")
        for j, feature in enumerate(manifest.features if manifest.input is Input.RAW else ())
        if feature.missing is Missing.INDICATOR and not feature.is_group
    ]


def rule_faults(rules: Sequence[str], features: Sequence[Feature]) -> list[Fault]:
    """The faults of rules that cannot be parsed, or that use a feature or level that is not in the manifest."""
    faults: list[Fault] = []
    parser = RuleParser(features)
    for i, rule in enumerate(rules):
        try:
            parser.parse(rule)
        except ValueError as error:
            faults.append(Fault(f"/rules/{i}", str(error)))
    return faults


def _output_faults(manifest: Manifest) -> list[Fault]:
    """The faults of `output`, and of the keys whose meaning depends on it."""
    output, threshold, stated = manifest.output, manifest.threshold, manifest.model_fields_set
    points, odds = output is Output.POINTS, manifest.odds
    percent = f"; for {threshold:g} % write {threshold / 100:g}" if threshold > 1 else ""
    margin = output is Output.MARGIN and manifest.artifact.format is not Format.SKLEARN
    endless = not margin and output in (Output.LOGIT, Output.MARGIN) and not abs(threshold) < LOGIT_LIMIT
    return _where(
        (output is Output.PROBABILITY and not 0.0 < threshold < 1.0, "/threshold",
         f"must be above 0 and below 1 for a model that outputs a probability{percent}"),
        (margin, "/output", "margin belongs to the format sklearn: the decision function of an estimator"),
        (endless, "/threshold", f"must be a {output} between -{LOGIT_LIMIT:g} and {LOGIT_LIMIT:g}"),
        (not points and "better" in stated, "/better", "belongs to output: points"),
        (not points and "odds" in stated, "/odds", "belongs to output: points"),
        (points and "threshold" not in stated, "/threshold",
         "is missing: the points from which the decision is favourable"),
        (points and "favourable" in stated, "/favourable",
         "does not belong to output: points; say better: lower if fewer are better"),
        (points and (odds.base_odds is None) != (odds.base_points is None), "/odds",
         "needs base_odds and base_points together, or neither"),
    )  # fmt: skip


def label_faults(manifest: Manifest) -> list[Fault]:
    """The faults of the keys `label` and `refits`."""
    label, stated = manifest.label, "refits" in manifest.model_fields_set
    return _where(
        (stated and label is None, "/refits", "belongs to a label"),
        (stated and label is not None and manifest.artifact.format is not Format.LINEAR, "/refits",
         "belongs to the format linear"),
        (label in [feature.name for feature in manifest.features], "/label",
         "is the name of a feature; the true outcome is a column of its own"),
    )  # fmt: skip


def time_faults(manifest: Manifest) -> list[Fault]:
    """The faults of the key `time`."""
    column = manifest.time and manifest.time.column
    return _where(
        (column in [feature.name for feature in manifest.features], "/time/column",
         "is the name of a feature; a date is a column of its own, and never an input"),
        (column is not None and column == manifest.label, "/time/column",
         "is the column of the true outcome; a date is a column of its own"),
    )  # fmt: skip


def _report_faults(manifest: Manifest) -> list[Fault]:
    """The faults of `consumer_report`."""
    reported = () if isinstance(manifest.consumer_report, bool) else manifest.consumer_report
    names = {feature.name for feature in manifest.features}
    return [Fault(f"/consumer_report/{i}", "is no feature") for i, one in enumerate(reported) if one not in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What a manifest says of a model in a file of one format."""

    outputs: tuple[Output, ...] = tuple(Output)
    numbered: bool = False
    """Whether the classes are 0 and 1."""
    input: Input | None = None
    """The only input; None where both are possible."""
    other_input: str = ""
    """The sentence about another input."""
    no_map: str = ""
    """Why it has no `map`."""
    suffixes: tuple[str, ...] = ("",)
    other_suffix: str = ""
    """The sentence about a file whose name ends otherwise."""


_NUMBERS = (Output.PROBABILITY, Output.LOGIT)

_FORMS = {
    Format.LINEAR: _Form(
        outputs=(*_NUMBERS, Output.POINTS), numbered=True, input=Input.ENCODED,
        other_input='must be encoded; "space": "raw" in the file means that its weights apply to raw numbers',
    ),
    Format.TORCH: _Form(
        outputs=_NUMBERS, numbered=True, input=Input.ENCODED, other_input="must be encoded: a network takes numbers",
        no_map="a network takes every encoded column",
    ),
    Format.SKLEARN: _Form(
        suffixes=ESTIMATORS, other_suffix="must end in .skops, or in .joblib or .pkl for a model that is trusted",
    ),
    Format.XGBOOST: _Form(
        outputs=(*_NUMBERS, Output.POINTS), numbered=True, suffixes=(".json", ".ubj"),
        other_suffix='must end in .json or .ubj; booster.save_model("model.json") writes such a file',
    ),
    Format.LIGHTGBM: _Form(outputs=(*_NUMBERS, Output.POINTS), numbered=True),
    Format.SCORECARD: _Form(
        outputs=(Output.POINTS,), input=Input.RAW,
        other_input="must be raw: attributes of a scorecard are values of records",
        no_map="its attributes name features", suffixes=(".csv", ".yaml", ".yml", ".json"),
        other_suffix="must end in .csv, .yaml or .json",
    ),
    Format.ONNX: _Form(),
}  # fmt: skip


def _file_faults(manifest: Manifest) -> list[Fault]:
    """Where a manifest does not fit the format of its file."""
    file = manifest.file
    form, network = _FORMS[file.format], file.architecture
    torch, onnx, trees = (file.format is Format.TORCH, file.format is Format.ONNX, file.format in TREES)
    of_servers = "belongs to the formats onnx and http"
    of_trees = "belongs to the files of boosted trees; an estimator or a graph has it inside"
    faults = _where(
        (manifest.output not in (*form.outputs, Output.MARGIN), "/output",
         f"must be {' or '.join(form.outputs)} for the format {file.format}"),
        (form.input not in (None, manifest.input), "/input", form.other_input),
        (bool(form.no_map) and file.map is not None, "/artifact/map",
         f"is not for the format {file.format}: {form.no_map}"),
        (not file.path.endswith(form.suffixes), "/artifact/path", form.other_suffix),
        (network is not None and not torch, "/artifact/architecture", "belongs to the format torch"),
        (network is None and torch, "/artifact/architecture", "is missing: a state dict does not describe its network"),
        (file.output_name is not None and not onnx, "/artifact/output_name", of_servers),
        (file.column is not None and not onnx, "/artifact/column", of_servers),
        (file.codes != "positions" and not trees, "/artifact/codes", of_trees),
        (file.missing is not None and not trees, "/artifact/missing", of_trees),
    )  # fmt: skip
    if form.numbered and manifest.output is not Output.POINTS:
        faults += _favourable_index(manifest)
    if onnx and (file.column is not None or manifest.output is not Output.PROBABILITY):  # a graph may name its classes
        faults += _column_faults(manifest, file.column)
    return faults + (_last_layer_faults(manifest, network) if network is not None and torch else [])


def _last_layer_faults(manifest: Manifest, architecture: Architecture) -> list[Fault]:
    pointer, width, stated = "/artifact/architecture", architecture.layers[-1], architecture.output_activation
    implied, logit = "sigmoid" if width == 1 else "softmax", manifest.output is Output.LOGIT
    if width > 2:
        return [Fault(f"{pointer}/layers", f"must end in 1 output (a logit) or 2 (one for each class), not {width}")]
    return _where(
        (stated is not None and logit, f"{pointer}/output_activation", "yields a probability, but output is logit"),
        (stated not in (None, implied) and not logit, f"{pointer}/output_activation",
         f"must be {implied} for {width} output(s)"),
    )  # fmt: skip


def _endpoint_faults(manifest: Manifest) -> list[Fault]:
    endpoint = manifest.artifact
    assert isinstance(endpoint, Endpoint)
    faults = _column_faults(manifest, endpoint.column)
    try:
        _ = endpoint.place
    except ValueError as error:
        faults.append(Fault("/artifact/url", str(error)))
    header, stated = endpoint.secret_header, endpoint.model_fields_set
    mlflow = endpoint.protocol is Protocol.MLFLOW
    return faults + _where(
        (not mlflow and endpoint.output_name is None, "/artifact/output_name",
         "is missing: servers of this protocol have outputs by name"),
        (mlflow and "input_name" in stated, "/artifact/input_name", "belongs to the protocol oip-v2"),
        (mlflow and "datatype" in stated, "/artifact/datatype", "belongs to the protocol oip-v2"),
        (header is not None and endpoint.secret is None, "/artifact/secret_header", "belongs to a secret"),
        ((header or "").lower() in OWN_HEADERS, "/artifact/secret_header",
         "must not be a header that the service or HTTP itself sets"),
    )  # fmt: skip


def _favourable_index(manifest: Manifest) -> list[Fault]:
    detail = "must be 1, or 0 for a model whose output is that of the unfavourable class"
    return _where((manifest.favourable not in (0, 1), "/favourable", detail))


def _column_faults(manifest: Manifest, column: int | None) -> list[Fault]:
    """Faults where it is not clear which number is that of the favourable class."""
    probability = manifest.output is Output.PROBABILITY
    found = _where((not probability and column is not None, "/artifact/column", "belongs to output: probability"))
    named = manifest.output is Output.LABEL or (probability and column is not None)
    return found if named else found + _favourable_index(manifest)
