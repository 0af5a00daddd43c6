"""What an estimator says: its columns, the levels of its encoders, its classes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.models.black_box import Input
from app.recourse.models.score import Output
from app.registry.adapters.artifact import UNREADABLE
from app.registry.adapters.encoders import column_steps, dropped, encoded, imputed, is_code, plain, steps, within
from app.registry.adapters.sklearn_model import read_content
from app.registry.artifact import SKOPS, Format
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.features import MOST_LEVELS
from app.registry.trust import Trust

METHODS = {"predict_proba": Output.PROBABILITY, "decision_function": Output.MARGIN, "predict": Output.LABEL}
"""What is asked of an estimator, the best first."""


def read(name: str, content: bytes, trust: Trust) -> ModelFacts:
    """The facts that the file of a scikit-learn estimator or pipeline states.

    Raises `ModelRefused` where the file cannot be read, is not trusted, or holds no fitted classifier.
    """
    estimator = read_content(name, content, trust)
    classes, points = _classes(name, estimator)
    own = [str(one) for one in getattr(estimator, "feature_names_in_", ())]
    _refuse_free_text(name, estimator, own)
    output = next((kind for method, kind in METHODS.items() if hasattr(estimator, method)), Output.LABEL)
    output = Output.POINTS if points else output
    thresholds = [one for one in _all_within(estimator) if hasattr(one, "threshold") or hasattr(one, "best_threshold_")]
    if any(one.response_method == "decision_function" for one in thresholds):
        output = Output.LOGIT if output is Output.PROBABILITY else output
    if output in (Output.LOGIT, Output.MARGIN) and len(classes) != 2:
        output = Output.LABEL
    levels: dict[str, tuple[str | None, ...]] = {}
    ordered: set[str] = set()
    tolerant: set[str] = set()
    numbers: set[str] = set()
    one_hot = _one_hot(estimator, own)
    for column, encoder, known in encoded(estimator, own):
        codes = column in one_hot and _are_codes(known)
        if encoder is None or not (codes or all(_is_text(level) for level in known)):
            numbers.add(column)
            continue
        levels[column] = tuple(_level(level) for level in known)
        if not isinstance(encoder.categories, str):
            ordered.add(column)
        if getattr(encoder, "handle_unknown", "ignore") != "error":
            tolerant.add(column)
    file, content, notes = _without_code(name, content, estimator)
    left_out = dropped(estimator, own) if levels else frozenset()
    if left_out:
        notes = (*notes, f"The model leaves out {', '.join(sorted(left_out))}, so that is no feature.")
    if not levels:
        numbers |= set(own)
    return ModelFacts(
        format=Format.SKLEARN, file=file, content=content, output=output, notes=notes,
        input=Input.RAW if levels else Input.ENCODED,
        names=tuple(name for name in own if name not in left_out) or None,
        width=getattr(estimator, "n_features_in_", None),
        levels=levels, ordered=frozenset(ordered - one_hot), tolerant=frozenset(tolerant),
        imputed=frozenset(imputed(estimator, own)),
        numbers=frozenset(numbers), cut_offs=tuple(_cut_offs(thresholds)),
        classes=tuple(plain(one) for one in classes), numbered=False,
        encodings=("none",) if levels or _scales(estimator) else ("none", "standard", "minmax"),
    )  # fmt: skip


def _classes(name: str, estimator: Any) -> tuple[np.ndarray, bool]:
    """The classes of a fitted classifier; and whether it is a regressor, whose numbers are points."""
    from sklearn.base import BaseEstimator, is_regressor

    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, np.ndarray) and classes.ndim == 1:
        return classes, False
    kind = type(estimator).__name__
    if isinstance(estimator, BaseEstimator) and is_regressor(estimator) and hasattr(estimator, "n_features_in_"):
        return np.array([0, 1]), True
    if isinstance(estimator, BaseEstimator):
        raise ModelRefused(f"{name} holds no fitted classifier but {kind}: fit it, then save it")
    inside = {str(key) for key, value in estimator.items() if hasattr(value, "predict")} if kind == "dict" else set()
    way = "save the estimator alone" + (f', as joblib.dump(bundle["{min(inside)}"], …)' if inside else "")
    raise ModelRefused(f"{name} holds no fitted classifier but {kind}: {way}")


def _without_code(name: str, content: bytes, estimator: Any) -> tuple[str, bytes, tuple[str, ...]]:
    """Name and bytes of a file that can be read without running code of it, where there can be one, and a note."""
    if name.endswith(SKOPS):
        return name, content, ()
    import skops.io

    safe = f"{Path(name).stem}{SKOPS}"
    try:
        written = bytes(skops.io.dumps(estimator))
        read_content(safe, written, Trust())
    except (ModelRefused, *UNREADABLE):
        return name, content, ()
    return safe, written, (f"{name} can run code when it is read, so it is written again as {safe}, which cannot.",)


def _is_text(level: Any) -> bool:
    """Whether it is a text, or the mark of a missing one."""
    return isinstance(level, str) or level is None or (isinstance(level, float) and level != level)


def _are_codes(known: Sequence[Any]) -> bool:
    """Whether the levels of an encoder are codes of groups, such as 1 to 9; flags are numbers as well."""
    flags = {level for level in known if level is not None} <= {0, 1}
    return not flags and len(known) <= MOST_LEVELS and all(is_code(level) for level in known)


def _level(level: Any) -> str | None:
    """The name that a manifest gives to a level; None for the mark of a missing one."""
    if level is None or level != level or level == "":
        return None
    return level if isinstance(level, str) else str(int(level))


def _one_hot(estimator: Any, names: Sequence[str]) -> set[str]:
    """Columns whose levels become columns of their own: the order in which an encoder lists them says nothing."""
    found = column_steps(estimator, names)
    return {name for step, columns in found if type(step).__name__ == "OneHotEncoder" for name in columns}


def _scales(estimator: Any) -> bool:
    """Whether a first step scales the columns itself."""
    ways = [list(steps(one)) for one in within(estimator)]
    return any(len(way) > 1 and hasattr(way[0], "transform") for way in ways)


def _all_within(estimator: Any) -> Iterator[Any]:
    """The estimators inside, and the last steps of pipelines."""
    for one in within(estimator):
        yield one
        if isinstance(getattr(one, "steps", None), list):
            yield from _all_within(one.steps[-1][1])


def _cut_offs(thresholds: Sequence[Any]) -> Iterator[float]:
    """The thresholds of estimators that have one of their own."""
    for one in thresholds:
        found = getattr(one, "best_threshold_", getattr(one, "threshold", None))
        if isinstance(found, float | int | np.floating):
            yield float(found)


def _refuse_free_text(name: str, estimator: Any, names: Sequence[str]) -> None:
    """Refuse a model that reads sentences, of which no change can be advised."""
    for step, columns in column_steps(estimator, names):
        if (kind := type(step).__name__).endswith("Vectorizer"):
            raise ModelRefused(
                f'{name} reads "{", ".join(columns)}" as free text ({kind}), which is neither a number nor a category. '
                "Train it with a number or category of that text, such as a topic, in its place"
            )
