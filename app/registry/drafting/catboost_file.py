"""Reads a CatBoost model with CatBoost and writes it as ONNX, which is all that the service needs afterwards."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from app.errors import ModelRefused
from app.registry.drafting import onnx_file
from app.registry.drafting.facts import ModelFacts, unreadable

START = b"CBM1"
"""How a file of CatBoost begins."""


def read(name: str, content: bytes) -> ModelFacts:
    """The facts that a CatBoost file states about its model.

    Raises `ModelRefused` where the file cannot be read, or CatBoost is not installed.
    """
    try:
        import catboost
    except ImportError:
        raise ModelRefused(
            f"{name} is a model of CatBoost, which its own library reads: pip install catboost; or export it, as "
            'model.save_model("model.onnx", format="onnx") where it takes numbers only, or serve it and say --url'
        ) from None
    model = catboost.CatBoost()
    try:
        model.load_model(blob=content)
    except (catboost.CatBoostError, ValueError) as error:
        raise unreadable(name, "a model of CatBoost") from error
    if model.get_cat_feature_indices() or model.get_text_feature_indices():
        raise ModelRefused(
            f"{name} takes categories or texts, which CatBoost cannot write as ONNX: serve it and say --url, or train "
            "it with a column of 0 and 1 for each level"
        )
    names = tuple(model.feature_names_)
    with TemporaryDirectory(prefix="recourse-") as place:
        path = Path(place) / "model.onnx"
        model.save_model(str(path), format="onnx")
        facts = onnx_file.read(name, path.read_bytes())
    return replace(
        facts, names=None if names == tuple(map(str, range(len(names)))) else names, width=len(names),
        encodings=("none",), takes_missing=True,
        notes=(*facts.notes, f"{name} is written again as {facts.file}, which needs no CatBoost."),
    )  # fmt: skip
