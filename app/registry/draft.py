"""A manifest as a lender wrote it: read from YAML, and examined as far as its faults allow."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import yaml
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A manifest under examination: the parts that are valid by themselves, and all faults."""

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
            return cls._partial(data, form_faults(error))
        faults = tuple(semantic_faults(manifest))
        return cls(
            manifest=None if faults else manifest,
            artifact=manifest.artifact,
            features=None if feature_faults(manifest.features) else manifest.features,
            reference=manifest.reference,
            label=None if label_faults(manifest) else manifest.label,
            faults=faults,
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


def read_manifest(content: bytes) -> Draft:
    """The draft of the manifest in a file; faults are returned in it, not raised."""
    try:
        data = yaml.load(content, Loader=_Loader)  # noqa: S506 - derived from SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        return Draft(faults=(Fault("", f"is not YAML: {_one_line(error)}"),))
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        return Draft(faults=(Fault("", "must be a mapping of names to values"),))
    return Draft.of(data)


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate keys instead of keeping the last."""

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
    """One field of the manifest; None if it is not valid."""
    try:
        return _validator(key).validate_python(data.get(key))
    except ValidationError:
        return None


@cache
def _validator(key: str) -> TypeAdapter[Any]:
    annotation: Any = Manifest.model_fields[key].rebuild_annotation()
    return TypeAdapter(annotation)
