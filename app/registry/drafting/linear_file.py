"""What a linear model's file says."""

from app.registry.adapters.linear_model import parse_file
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts


def read(name: str, content: bytes) -> ModelFacts:
    """The facts of a JSON with weights. Raises `ModelRefused`."""
    file = parse_file(content)
    raw = file.space == "raw"
    return ModelFacts(
        format=Format.LINEAR, file=name, content=content, names=tuple(file.weights), width=len(file.weights),
        encodings=("none",) if raw else ("standard", "minmax", "none"),
    )  # fmt: skip
