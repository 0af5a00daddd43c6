"""Names of a model's columns that the service does not recognise by itself."""

from collections.abc import Sequence

import numpy as np
from pydantic import TypeAdapter

from app.recourse.features import Feature, ModelSpace, fit_encoding
from app.recourse.models.black_box import Input
from app.registry.adapters.column_names import chosen_columns
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import FeatureDraft
from app.registry.drafting.matching import Source

_SCHEMA = TypeAdapter(list[Feature])


def own_names(
    facts: ModelFacts, features: Sequence[FeatureDraft], sources: Sequence[Source]
) -> dict[str, str | None] | None:
    """`artifact.map` of a manifest: by encoded column, the model's own name for it. None if the model needs no map."""
    if facts.input is not Input.ENCODED or facts.names is None:
        return None
    named: dict[str, str | None] = {}
    for source in sources:
        encoded = [source.column] if source.levels is None else [
            f"{source.column}={'missing' if level is None else level}" for level in source.levels
        ]  # fmt: skip
        if source.indicator:
            encoded.append(f"{source.column}:missing")
        named |= {column: name or None for column, name in zip(encoded, source.names, strict=True)}
    parsed = _SCHEMA.validate_python([feature.keys for feature in features])
    space = ModelSpace(fit_encoding(parsed, np.zeros((1, len(parsed))), "none"))
    indices, faults = chosen_columns(facts.names, len(facts.names), space, None)
    right = [named[column] for column in space.columns if column in named and named[column] is not None]
    taken = facts.names if indices is None else [named.get(space.columns[j]) for j in indices]
    known = not faults and list(taken) == list(facts.names) and sorted(map(str, right)) == sorted(facts.names)
    return None if known else named
