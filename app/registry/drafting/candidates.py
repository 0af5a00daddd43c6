"""The manifests that are possible where no file says which of them is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.artifact import Format, Protocol
from app.registry.drafting.columns import Column
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import FeatureDraft, fills
from app.registry.drafting.outcome import Outcome
from app.registry.drafting.questions import same

MOST_CANDIDATES = 250
"""Combinations that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a draft knows when it makes candidate manifests: facts of the model, records, and answers of the lender."""

    facts: ModelFacts
    features: Sequence[FeatureDraft]
    columns: Mapping[str, Column]
    outcome: Outcome | None
    scores: Float[np.ndarray, "n"] | None
    favourable: str | None
    """Value of the label, or class, that the lender has named."""
    better: str | None
    """Which points are better, where the lender has said it: higher or lower."""
    threshold: float | None
    sentinels: Sequence[float | None] = (None,)
    """Numbers that the model may read as missing values; None for none."""


def candidates(head: Mapping[str, Any], known: Known) -> list[dict[str, Any]]:
    """Candidate manifests that agree with `known`, the likeliest first; at most `MOST_CANDIDATES`.

    Each candidate has all keys of `head`, then further keys.
    """
    facts, features = known.facts, known.features
    found: list[dict[str, Any]] = []
    for (output, better, favourable), more, sentinel, fill, order, (encoding, flags) in product(
        _decisions(known), facts.choices, known.sentinels, _fills(known), _orders(features), _scales(known)
    ):
        manifest = {**head, "artifact": head["artifact"] | more, "output": output.value}
        if sentinel is not None:
            manifest["artifact"] |= {"missing": sentinel}
        if output is not Output.POINTS:
            manifest["favourable"] = favourable
        if facts.by_column:
            manifest["artifact"] |= {"column": facts.classes.index(favourable)}
        if output is Output.POINTS:
            manifest["better"] = better
        if output is not Output.LABEL:
            usual = 0.0 if output in (Output.LOGIT, Output.MARGIN) else 0.5
            manifest["threshold"] = usual if known.threshold is None else known.threshold
        if facts.input is Input.ENCODED:
            manifest["encoding"] = {"continuous": encoding}
        manifest["features"] = [
            feature.keys | fill.get(feature.name, {}) | flags.get(feature.name, {}) | order.get(feature.name, {})
            for feature in features
        ]
        found.append(manifest)
    return found[:MOST_CANDIDATES]


Keys = dict[str, dict[str, Any]]
"""More keys, by feature."""


def _decisions(known: Known) -> list[tuple[Output, str, Any]]:
    """Output, which points are better, and the favourable class."""
    found: list[tuple[Output, str, Any]] = []
    for output in _outputs(known):
        if output is Output.POINTS:
            found += [(output, better, 1) for better in ("higher", "lower") if known.better in (None, better)]
        else:
            named = _favourable(known)
            if output is Output.LABEL and known.facts.remote and known.outcome is not None:
                named += [known.outcome.value] if known.outcome.value not in map(str, named) else []
            found += [(output, "", favourable) for favourable in named]
    return found


def _outputs(known: Known) -> list[Output]:
    """What the model may give: logits or points only where the lender's scores are no probabilities."""
    scores, stated = known.scores, known.facts.output
    if known.facts.artifact.get("protocol") == Protocol.MLFLOW and (scores is not None or known.outcome is not None):
        # It answers with labels, unless it was saved with predict_proba; 0 and 1 would pass for probabilities.
        return [Output.LABEL, Output.PROBABILITY]
    if scores is None or stated is not Output.PROBABILITY:
        return [stated]
    in_unit = bool(((scores >= 0.0) & (scores <= 1.0) | np.isnan(scores)).all())
    if in_unit:
        return [stated]
    # Points need a threshold of their own.
    points = known.facts.format is Format.LINEAR and known.threshold is not None and not 0.0 < known.threshold < 1.0
    return [*([Output.POINTS] if points else []), Output.LOGIT, stated]


def _favourable(known: Known) -> list[Any]:
    """The classes that may be the favourable one."""
    classes, outcome = known.facts.classes, known.outcome
    value = known.favourable
    named = [one for one in classes if value is not None and same(value, one)]
    last = [classes[1], classes[0]] if len(classes) == 2 else list(classes)
    order = [*named, *(one for one in last if one not in named)]
    # 0 and 1 may be coded the other way round in the records than in training; words may not.
    if named and (outcome is None or isinstance(named[0], str)):
        order = named
    return [classes.index(one) for one in order] if known.facts.numbered else order


def _fills(known: Known) -> list[Keys]:
    """What the model may take for missing numbers: NaN, or a number in their place."""
    kind = {feature.name: feature.keys.get("missing") for feature in known.features}
    # What the lender has answered, and what the file shows, is not tried.
    asked = [
        feature
        for feature in known.features
        if kind[feature.name] != "fill"
        and feature.name not in (known.facts.saw_missing or ())
        and not known.facts.takes_missing
    ]

    def keys(name: str, fill: float) -> dict[str, Any]:
        return {"missing": "indicator" if kind[name] == "indicator" else "fill", "fill": fill}

    filled = [{name: keys(name, fill) for name, fill in way.items()} for way in fills(asked, known.columns)]
    return [{}, *filled] if any(filled) else [{}]


def _orders(features: Sequence[FeatureDraft]) -> list[Keys]:
    """In which orders levels may have been coded as one number."""
    other: Keys = {feature.name: {"categories": feature.other_order} for feature in features if feature.other_order}
    return [{}, other] if other else [{}]


def _scales(known: Known) -> list[tuple[str, Keys]]:
    """The encodings of numbers, and whether flags are scaled like all others."""
    facts, features = known.facts, known.features
    numbers = any(feature.keys["type"] not in ("categorical", "binary") for feature in features)
    encodings = facts.encodings if numbers and facts.input is Input.ENCODED else facts.encodings[:1]
    found: list[tuple[str, Keys]] = []
    for encoding in encodings:
        found.append((encoding, {}))
        if encoding == "standard" and (flags := _flags(features, known.columns)):
            found.append((encoding, flags))
    return found


def _flags(features: Sequence[FeatureDraft], columns: Mapping[str, Column]) -> Keys:
    """Center and scale of flags that are scaled."""
    found: Keys = {}
    for feature in features:
        if feature.keys["type"] == "binary" and not feature.keys.get("missing") and not columns[feature.name].constant:
            last = feature.keys.get("categories", ("", ""))[1]
            ones = [text == last or is_one(text) for text in columns[feature.name].texts]
            found[feature.name] = {"center": float(np.mean(ones)), "scale": float(np.std(ones))}
    return found


def is_one(text: str) -> bool:
    """Whether a cell in the column of a flag means that the flag is set: "true" in any case, or a number equal to 1."""
    return text.lower() == "true" or same(text, 1)
