"""A linear model or scorecard as data.

::

    {
        "space": "encoded",
        "intercept": -1.2,
        "weights": {"duration": -0.8, "personal_status_sex=A93": 0.3},
        "link": "logit",
    }

Every encoded column has a weight, 0 if the model ignores it. With ``space: raw``, weights apply to raw numbers (the
index of an ordinal or binary feature), and to category columns as in ``encoded``. With ``link: logit``, the default,
the sum is a logit; with ``identity``, it is the output itself: with ``output: probability``, a linear probability
model, clipped to [0, 1]. With ``output: points`` the sum is the points.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace, escape
from app.recourse.models.black_box import BlackBox, Predict
from app.recourse.models.score import Output, sigmoid
from app.registry.adapters.artifact import Number, black_box_of, form_refusal, read_artifact, refuse_repeated_keys
from app.registry.adapters.column_names import owners_of
from app.registry.manifest import Manifest
from app.registry.printable import listed
from app.registry.trust import Trust


class LinearFile(BaseModel):
    """The content of a linear model's file: intercept, one weight per column, space of the columns, and link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    space: Literal["encoded", "raw"] = "encoded"
    intercept: Number = 0.0
    weights: dict[Annotated[str, StringConstraints(min_length=1)], Number]
    link: Literal["logit", "identity"] = "logit"


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a linear model, with gradients.

    Raises `ModelRefused` where the file is no linear model, or has weights for other columns.
    """
    weights, intercept, file = read_weights(manifest, read_artifact(manifest, directory), space)
    slope = 1.0 if manifest.points is None else manifest.points.slope
    predict, gradient = _functions(weights, intercept, manifest.output, file.link, slope)
    linear = file.link == "logit" or manifest.output in (Output.LOGIT, Output.POINTS)
    return black_box_of(manifest, space, predict, gradient=gradient, linear=linear)


def read_weights(
    manifest: Manifest, content: bytes, space: FeatureSpace
) -> tuple[Float[np.ndarray, "d"], float, LinearFile]:
    """Weights (d,) for encoded points, intercept, and the parsed file; a higher score is more favourable.

    Raises `ModelRefused` where the bytes are no linear model, or have weights for other columns.
    """
    file = _named(parse_file(content), space, manifest.file.map)
    faults = _name_faults(file, space)
    if faults:
        raise ModelRefused(faults=faults)
    weights, intercept = _encoded(file, space)
    if not manifest.favourable:  # the same model for the other class
        whole = 1.0 if file.link == "identity" and manifest.output is Output.PROBABILITY else 0.0
        weights, intercept = -weights, whole - intercept
    return weights, intercept, file


def parse_file(content: bytes) -> LinearFile:
    """The parsed content of a linear model's file. Raises `ModelRefused` where the bytes are no such file."""
    refuse_repeated_keys(content)
    try:
        return LinearFile.model_validate_json(content)
    except ValidationError as error:
        raise form_refusal(error) from error


def _named(file: LinearFile, space: FeatureSpace, named: Mapping[str, str | None] | None) -> LinearFile:
    """The file with encoded columns for their other names, where these are clear; see `column_names`."""
    names = list(file.weights)
    owners = owners_of(names, space, named or {})
    taken = Counter(own[0] for own in owners if len(own) == 1)
    weights = {
        space.columns[own[0]] if len(own) == 1 and taken[own[0]] == 1 else name: file.weights[name]
        for name, own in zip(names, owners, strict=True)
    }
    lacking = {column: 0.0 for column, name in (named or {}).items() if name is None and column in space.columns}
    return file.model_copy(update={"weights": lacking | weights})


def _name_faults(file: LinearFile, space: FeatureSpace) -> list[Fault]:
    pointer = "/artifact/weights/"
    columns = set(space.columns)
    unknown = [
        Fault(pointer + escape(name), f"is not an encoded column; these are {listed(space.columns)}")
        for name in file.weights
        if name not in columns
    ]
    missing = [
        Fault(pointer + escape(name), "is missing; write 0 if the model ignores this column")
        for name in space.columns
        if name not in file.weights
    ]
    return unknown + missing


def _encoded(file: LinearFile, space: FeatureSpace) -> tuple[Float[np.ndarray, "d"], float]:
    """Weights (d,) and intercept for encoded points."""
    weights = np.array([file.weights[name] for name in space.columns])
    intercept = file.intercept
    if file.space == "raw":
        numbers = space.numeric_columns
        intercept += float(weights[numbers] @ space.center_raw)
        weights[numbers] *= space.scale_raw
    return weights, intercept


def _functions(
    weights: Float[np.ndarray, "d"], intercept: float, output: Output, link: str, slope: float
) -> tuple[Predict, Predict]:
    """Output and gradient of the score, of which one point is `slope`."""

    def total(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return np.asarray(X @ weights + intercept)

    def probability(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return sigmoid(total(X))

    def cut_off(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return np.asarray(np.clip(total(X), 0.0, 1.0))

    def constant(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.tile(slope * weights, (len(X), 1))

    def of_logit(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        p = total(X)
        inside = (p > 0.0) & (p < 1.0)
        slope = np.where(inside, 1.0 / np.where(inside, p * (1.0 - p), 1.0), 0.0)
        return np.outer(slope, weights)

    if output is not Output.PROBABILITY:
        return total, constant
    return (probability, constant) if link == "logit" else (cut_off, of_logit)
