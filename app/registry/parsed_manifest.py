"""A manifest as a lender wrote it: read from YAML, and examined as far as its faults allow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from app.errors import Fault
from app.recourse.features import Feature
from app.registry.artifact import Artifact, Endpoint
from app.registry.manifest import Manifest
from app.registry.manifest_faults import (
    feature_faults,
    form_faults,
    label_faults,
    path_faults,
    rule_faults,
    semantic_faults,
    time_faults,
)
from app.registry.printable import unprintable_faults
from app.registry.safe_yaml import read_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedManifest:
    """What is known of a manifest that may be wrong: its parts that are valid by themselves, and all its faults."""

    manifest: Manifest | None = None
    """Present iff there are no faults."""
    artifact: Artifact | Endpoint | None = None
    features: tuple[Feature, ...] | None = None
    reference: str | None = None
    label: str | None = None
    time: str | None = None
    """Column of dates."""
    faults: tuple[Fault, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of the features by index, whether or not they are sound."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The valid parts and all faults of a manifest, from the parsed content of its YAML file."""
        if hidden := unprintable_faults(data):
            return cls(faults=tuple(hidden), names=_names(data))
        try:
            manifest = Manifest.model_validate(data)
        except ValidationError as error:
            return replace(cls._partial(data, form_faults(error)), names=_names(data))
        faults = tuple(semantic_faults(manifest))
        return cls(
            manifest=None if faults else manifest,
            artifact=manifest.artifact,
            features=None if feature_faults(manifest.features) else manifest.features,
            reference=manifest.reference,
            label=None if label_faults(manifest) else manifest.label,
            time=None if manifest.time is None or time_faults(manifest) else manifest.time.column,
            faults=faults,
            names=_names(data),
        )

    @classmethod
    def _partial(cls, data: Mapping[str, Any], faults: Sequence[Fault]) -> Self:
        """The sound parts of a manifest whose form has faults."""
        artifact, reference = _part(data, "artifact"), _part(data, "reference")
        features, rules = _part(data, "features"), _part(data, "rules")
        unsound = [] if features is None else feature_faults(features)
        found = [*faults, *unsound, *path_faults(artifact, reference)]
        if features is not None:
            found += rule_faults(rules or (), features)
        return cls(artifact=artifact, features=None if unsound else features, reference=reference, faults=tuple(found))


def read_manifest(content: bytes) -> ParsedManifest:
    """The valid parts and all faults of a manifest, from the bytes of its file. Faults are returned, not raised."""
    try:
        data = read_yaml(content)
    except ValueError as error:
        return ParsedManifest(faults=(Fault("", str(error)),))
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        return ParsedManifest(faults=(Fault("", "must be a mapping of names to values"),))
    return ParsedManifest.of(data)


def _names(data: Mapping[str, Any]) -> dict[int, str]:
    features = data.get("features")
    return {
        j: feature["name"]
        for j, feature in enumerate(features if isinstance(features, list) else [])
        if isinstance(feature, dict) and isinstance(feature.get("name"), str)
    }


def _part(data: Mapping[str, Any], key: str) -> Any:
    """One field of the manifest; None if it is not valid."""
    try:
        return _validator(key).validate_python(data.get(key))
    except ValidationError:
        return None


@cache
def _validator(key: str) -> TypeAdapter[Any]:
    annotation: Any = Manifest.model_fields[key].rebuild_annotation()
    return TypeAdapter(annotation)
