"""What an estimator says: its columns, the levels of its encoders, its classes."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.models.black_box import Input, Output
from app.registry.adapters.artifact import UNREADABLE
from app.registry.adapters.sklearn_model import read_content
from app.registry.artifact import Format
from app.registry.drafting.facts import ModelFacts, plain
from app.registry.trust import Trust

SAFE = ".skops"
"""End of the names of files that are read without running code of them."""

METHODS = {"predict_proba": Output.PROBABILITY, "decision_function": Output.LOGIT, "predict": Output.LABEL}
"""What is asked of an estimator, the best first."""


def read(name: str, content: bytes, trust: Trust) -> ModelFacts:
    """The facts of an estimator or pipeline.

    Raises
    ------
    ModelRefused : it cannot be read, is not trusted, or is no fitted classifier
    """
    estimator = read_content(name, content, trust)
    classes = getattr(estimator, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1:
        raise ModelRefused(f"{name} holds no fitted classifier but {type(estimator).__name__}: fit it, then save it")
    output = next((kind for method, kind in METHODS.items() if hasattr(estimator, method)), Output.LABEL)
    if output is Output.LOGIT and len(classes) != 2:
        output = Output.LABEL
    names = getattr(estimator, "feature_names_in_", None)
    levels: dict[str, tuple[str | None, ...]] = {}
    ordered: set[str] = set()
    tolerant: set[str] = set()
    numbers: set[str] = set()
    for column, encoder, known in _encoded(estimator, [] if names is None else [str(one) for one in names]):
        if encoder is None or not all(_is_text(level) for level in known):
            numbers.add(column)
            continue
        levels[column] = tuple(level if isinstance(level, str) else None for level in known)
        if not isinstance(encoder.categories, str):
            ordered.add(column)
        if getattr(encoder, "handle_unknown", "error") != "error":
            tolerant.add(column)
    file, content, notes = _without_code(name, content, estimator)
    if names is not None and not levels:
        numbers |= {str(one) for one in names}
    return ModelFacts(
        format=Format.SKLEARN, file=file, content=content, output=output, notes=notes,
        input=Input.RAW if levels else Input.ENCODED,
        names=None if names is None else tuple(str(one) for one in names),
        width=getattr(estimator, "n_features_in_", None),
        levels=levels, ordered=frozenset(ordered - _one_hot(estimator)), tolerant=frozenset(tolerant),
        numbers=frozenset(numbers), classes=tuple(plain(one) for one in classes), numbered=False,
        encodings=("none",) if levels or _scales(estimator) else ("none", "standard", "minmax"),
    )  # fmt: skip


def _without_code(name: str, content: bytes, estimator: Any) -> tuple[str, bytes, tuple[str, ...]]:
    """Name and bytes of a file that can be read without running code of it, where there can be one, and a note."""
    if name.endswith(SAFE):
        return name, content, ()
    import skops.io

    safe = f"{Path(name).stem}{SAFE}"
    try:
        written = bytes(skops.io.dumps(estimator))
        read_content(safe, written, Trust())
    except (ModelRefused, *UNREADABLE):
        return name, content, ()
    return safe, written, (f"{name} can run code when it is read, so it is written again as {safe}, which cannot.",)


def _is_text(level: Any) -> bool:
    """Whether it is a text, or the mark of a missing one."""
    return isinstance(level, str) or level is None or (isinstance(level, float) and level != level)


def _steps(estimator: Any) -> Iterator[Any]:
    """The steps of a pipeline, or the estimator itself."""
    steps = getattr(estimator, "steps", None)
    if isinstance(steps, list):
        for _, step in steps:
            yield from _steps(step)
    elif estimator is not None and not isinstance(estimator, str):
        yield estimator


def _encoded(estimator: Any, names: Sequence[str]) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """Columns of the table that a first step takes apart: the encoder and the levels it knows, or None for numbers."""
    first = next(_steps(estimator), None)
    transformers = getattr(first, "transformers_", None)
    if transformers is None:
        categories = getattr(first, "categories_", None)
        if isinstance(categories, list) and len(categories) == len(names):
            yield from ((name, first, list(known)) for name, known in zip(names, categories, strict=True))
        return
    for _, transformer, selected in transformers:
        columns = _selected(selected, names)
        encoder = next(
            (step for step in _steps(transformer) if isinstance(getattr(step, "categories_", None), list)), None
        )
        known = [] if encoder is None else encoder.categories_
        for k, column in enumerate(columns):
            if encoder is not None and len(known) == len(columns):
                yield column, encoder, [plain(level) for level in known[k]]
            elif transformer != "drop":
                yield column, None, ()


def _selected(selected: Any, names: Sequence[str]) -> list[str]:
    """The names of columns that are given as names, indices, a mask or a slice."""
    if isinstance(selected, str):
        return [selected]
    if isinstance(selected, slice):
        return list(names[selected])
    found = [plain(one) for one in np.atleast_1d(np.asarray(selected, dtype=object))]
    if found and all(isinstance(one, bool) for one in found):
        return [name for name, chosen in zip(names, found, strict=False) if chosen]
    return [one if isinstance(one, str) else names[one] for one in found]


def _one_hot(estimator: Any) -> set[str]:
    """Columns whose levels become columns of their own: the order in which an encoder lists them says nothing."""
    first = next(_steps(estimator), None)
    names = [str(one) for one in getattr(estimator, "feature_names_in_", ())]
    return {
        column
        for _, transformer, selected in getattr(first, "transformers_", ())
        if any(type(step).__name__ == "OneHotEncoder" for step in _steps(transformer))
        for column in _selected(selected, names)
    }


def _scales(estimator: Any) -> bool:
    """Whether a first step scales the columns itself."""
    first, *others = _steps(estimator)
    return bool(others) and hasattr(first, "transform")
