"""The model's own cut-off: a threshold that is in its file, or that its own decisions on the records show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts

Ask = Callable[[dict[str, Any]], Float[np.ndarray, "n"] | None]
"""The model's outputs for the records by a manifest, in its own unit; None where it does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """The outcome of a search for the model's own threshold, from the model's own decisions on the records."""

    manifest: dict[str, Any]
    """The manifest, with the model's own threshold if one is found."""
    differ: int = 0
    """Records that the model itself decides in another way than the manifest does."""
    between: tuple[float, float] | None = None
    """The largest output that the model refuses and the smallest that it accepts; None where outputs do not decide."""


def own_cut_off(manifest: dict[str, Any], facts: ModelFacts, ask: Ask) -> CutOff:
    """Search for the model's own threshold; the result has `manifest` with this threshold, if one is found.

    A classifier that gives probabilities may have its own threshold, stored in its file as a parameter or as a constant
    of a graph. The model's decisions on the records show whether it uses that threshold. `ask` is a function from a
    manifest to the model's outputs for the records.
    """
    by_label = _by_label(manifest, facts)
    outputs, labels = (None, None) if by_label is None else (ask(manifest), ask(by_label))
    if outputs is None or labels is None:
        return CutOff(manifest=manifest)
    accepted = labels > 0.5
    differ = int((accepted != (outputs >= manifest["threshold"])).sum())
    between = _between(outputs, accepted)
    if not differ and not facts.cut_offs:
        return CutOff(manifest=manifest)
    sides = _sides(facts, manifest)
    if between is not None and (found := [one for one in sides if between[0] < one <= between[1]]):
        nearest = min(found, key=lambda one: abs(one - 0.5))
        return CutOff(manifest={**manifest, "threshold": nearest}, between=between)
    return CutOff(manifest=manifest, differ=differ, between=between)


def _by_label(manifest: Mapping[str, Any], facts: ModelFacts) -> dict[str, Any] | None:
    """The manifest that asks the model for its decisions; None for one that has none of its own."""
    if manifest["output"] not in (Output.PROBABILITY.value, Output.LOGIT.value, Output.MARGIN.value):
        return None
    by_label = {key: value for key, value in manifest.items() if key != "threshold"} | {"output": Output.LABEL.value}
    if facts.format is Format.SKLEARN:
        return by_label
    if facts.format is not Format.ONNX or facts.label_output is None:
        return None
    artifact = {key: value for key, value in manifest["artifact"].items() if key != "column"}
    favourable = facts.classes[manifest["favourable"]] if facts.numbered else manifest["favourable"]
    return by_label | {"artifact": artifact | {"output_name": facts.label_output}, "favourable": favourable}


def _between(outputs: Float[np.ndarray, "n"], accepted: Bool[np.ndarray, "n"]) -> tuple[float, float] | None:
    low = float(outputs[~accepted].max(initial=-np.inf))
    high = float(outputs[accepted].min(initial=np.inf))
    return (low, high) if low < high else None


def _sides(facts: ModelFacts, manifest: Mapping[str, Any]) -> list[float]:
    """Thresholds of the favourable class that follow from those in the file, which may be of the other class."""
    logit = manifest["output"] != Output.PROBABILITY.value
    # The other class is accepted below its threshold, and not at it.
    others = [float(np.nextafter(-one if logit else 1.0 - one, np.inf)) for one in facts.cut_offs]
    return [*facts.cut_offs, *others]
