"""The columns of a table that a pipeline's first step encodes, and the levels that its encoders know."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def encoded(estimator: Any, names: Sequence[str]) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """The name, the encoder and the levels of each table column that the first steps of an estimator take.

    The encoder is None for a column of numbers. Several estimators inside `estimator` may take the table; the levels of
    a column are then the levels in all encoders of these estimators. `names` has the names of all columns of the table.
    """
    found: dict[str, tuple[Any, dict[Any, Any]]] = {}
    for one in within(estimator):
        for column, encoder, known in _encoded(one, names):
            before, levels = found.get(column, (None, {}))
            more = {"NaN" if level != level else (type(level), level): level for level in known}
            found[column] = (encoder if before is None else before, {**levels, **more})
    yield from ((column, encoder, list(levels.values())) for column, (encoder, levels) in found.items())


def _encoded(estimator: Any, names: Sequence[str]) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    first = first_step(estimator)
    transformers = getattr(first, "transformers_", None)
    if transformers is None:
        categories = getattr(first, "categories_", None)
        if isinstance(categories, list) and len(categories) == len(names):
            yield from ((name, first, list(known)) for name, known in zip(names, categories, strict=True))
        return
    for _, transformer, selected in transformers:
        columns = selection(selected, names)
        encoder = next(
            (step for step in steps(transformer) if isinstance(getattr(step, "categories_", None), list)), None
        )
        known = [] if encoder is None else encoder.categories_
        for k, column in enumerate(columns):
            if encoder is not None and len(known) == len(columns):
                yield column, encoder, [plain(level) for level in known[k]]
            elif transformer != "drop":
                yield column, None, ()


def imputed(estimator: Any, names: Sequence[str]) -> dict[str, Any]:
    """By column name, the mark of a missing value that a step of the estimator replaces, such as NaN.

    Columns in which no step replaces missing values are left out.
    """
    return {
        column: step.missing_values
        for step, columns in column_steps(estimator, names)
        if hasattr(step, "missing_values")
        for column in columns
    }


def column_steps(estimator: Any, names: Sequence[str]) -> Iterator[tuple[Any, list[str]]]:
    """Each step of an estimator that takes only some columns of the table, and the names of these columns."""
    for one in within(estimator):
        for _, transformer, selected in getattr(first_step(one), "transformers_", ()):
            yield from ((step, selection(selected, names)) for step in steps(transformer))


def missing_marks(estimator: Any, names: Sequence[str]) -> dict[str, str | None]:
    """By column name, the mark that the estimator reads as a missing level: None, or a text such as "".

    Columns without a mark, and columns whose mark is NaN, are left out.
    """
    filled = imputed(estimator, names)
    found = {column: mark for column, mark in filled.items() if mark is None or isinstance(mark, str)}
    for column, encoder, known in encoded(estimator, names):
        own = [level for level in known if level is None or level == ""]
        if encoder is not None and own and column not in found and not any(level != level for level in known):
            found[column] = own[0]
    return found


def first_step(estimator: Any) -> Any:
    """The step that receives the table: the first of a pipeline, or the ColumnTransformer in a histogram booster.

    The result is None where `estimator` is None or a text, such as "drop".
    """
    first = next(steps(estimator), None)
    if hasattr(first, "is_categorical_"):
        held = (part for part in vars(first).values() if type(part).__name__ == "ColumnTransformer")
        return next(held, first)
    return first


def within(estimator: Any) -> Iterator[Any]:
    """The estimator itself, then each fitted estimator inside it that takes the same table.

    Estimators for calibration, parameter search, threshold tuning, voting, stacking and one-vs-rest contain others.
    """
    seen: set[int] = set()
    stack = [estimator]
    while stack:
        one = stack.pop()
        if id(one) not in seen and one is not None and not isinstance(one, str):
            seen.add(id(one))
            yield one
            stack += _inside(one)


def _inside(one: Any) -> list[Any]:
    """The fitted estimators that take the table in place of this one; none of a pipeline, which has steps."""
    if isinstance(getattr(one, "steps", None), list):
        return []
    found = [getattr(one, name, None) for name in ("best_estimator_", "estimator_")]
    found += [getattr(fold, "estimator", None) for fold in getattr(one, "calibrated_classifiers_", ())]
    if type(one).__name__ == "FrozenEstimator":
        found.append(one.estimator)
    # Those of forests and boosting take an array that their ensemble has made.
    if type(one).__name__ in ENSEMBLES:
        found += list(getattr(one, "estimators_", ()))
    return [inner for inner in found if inner is not None and not isinstance(inner, str)]


ENSEMBLES = frozenset({
    "VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor", "OneVsRestClassifier",
})  # fmt: skip
"""Ensembles whose members take the table."""


def dropped(estimator: Any, names: Sequence[str]) -> frozenset[str]:
    """Columns of the table that the first steps leave out, so that no output depends on them."""
    found = set(names)
    for one in within(estimator):
        if getattr(one, "passthrough", False):
            return frozenset()
        if _inside(one):
            continue
        transformers = getattr(first_step(one), "transformers_", None)
        if transformers is None:
            return frozenset()
        for _, transformer, selected in transformers:
            if not (isinstance(transformer, str) and transformer == "drop"):
                found -= set(selection(selected, names))
    return frozenset(found)


def steps(estimator: Any) -> Iterator[Any]:
    """The steps of a pipeline, with the steps of a pipeline inside it; any other estimator is a single step.

    None and texts, such as "passthrough", are left out.
    """
    inner = getattr(estimator, "steps", None)
    if isinstance(inner, list):
        for _, step in inner:
            yield from steps(step)
    elif estimator is not None and not isinstance(estimator, str):
        yield estimator


def selection(selected: Any, names: Sequence[str]) -> list[str]:
    """The names of the columns that a ColumnTransformer selects.

    `selected` is one name, or a list of names, a list of indices, a boolean mask, or a slice.
    """
    if isinstance(selected, str):
        return [selected]
    if isinstance(selected, slice):
        return list(names[selected])
    found = [plain(one) for one in np.atleast_1d(np.asarray(selected, dtype=object))]
    if found and all(isinstance(one, bool) for one in found):
        return [name for name, chosen in zip(names, found, strict=False) if chosen]
    return [one if isinstance(one, str) else names[one] for one in found]


def plain(value: Any) -> Any:
    """The plain Python value of a class or level that may be a numpy scalar."""
    return value.item() if hasattr(value, "item") else value


def is_code(level: Any) -> bool:
    """Whether a level is a whole number, or a mark of a missing level (None or NaN)."""
    if isinstance(level, bool) or not isinstance(level, int | float):
        return level is None
    return level != level or (float(level).is_integer() and abs(level) < 2**53)


def columns_of_codes(estimator: Any, names: Sequence[str]) -> set[str]:
    """The names of the table columns whose levels are whole numbers in the encoders of the estimator."""
    return {
        column
        for column, encoder, known in encoded(estimator, names)
        if encoder is not None and known and all(is_code(level) for level in known)
    }
