"""Finds which encoded column each column of a model is, by its name; makes raw columns and outputs.

`artifact.map` names columns; without it the usual names of dummies are recognised where they are unambiguous:
``housing_owned`` (pandas, scikit-learn), ``cat__housing_owned`` (a ColumnTransformer), ``housing=owned`` (this
service). A category without a column is one for which all others are 0, as `drop_first` leaves it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from app.errors import Fault, ModelOutputInvalid
from app.recourse.features import MISSING, Feature, FeatureSpace, FeatureType, Missing, RawValue
from app.recourse.models.score import Output
from app.registry.manifest import Manifest
from app.registry.printable import listed


def chosen_columns(
    names: Sequence[str] | None, count: int, space: FeatureSpace, named: Mapping[str, str | None] | None
) -> tuple[Int[np.ndarray, "k"] | None, list[Fault]]:
    """The index of the encoded column for each column of a model, and the faults found on the way.

    The indices are None in two cases: the model takes all encoded columns in order, or there are faults.

    Parameters
    ----------
    names : names of the model's columns, in the model's order; None where its file names no columns
    count : number of the model's columns
    named : `artifact.map` of the manifest: the model's own name by encoded column, None for a column that it lacks
    """
    named = dict(named or {})
    if unknown := [name for name in named if name not in space.columns]:
        detail = f"has {listed(unknown)}, but the encoded columns are {listed(space.columns)}"
        return None, [Fault("/artifact/map", detail)]
    return _by_position(count, space, named) if names is None else _by_name(names, space, named)


def _by_position(
    count: int, space: FeatureSpace, named: Mapping[str, str | None]
) -> tuple[Int[np.ndarray, "k"] | None, list[Fault]]:
    if count == space.d:
        return None, []
    kept = [j for j, column in enumerate(space.columns) if named.get(column, column) is not None]
    if count == len(kept):
        return np.array(kept, dtype=np.intp), []
    detail = f"have {space.d} encoded columns ({listed(space.columns)}), but the model was trained on {count}"
    if count < space.d:
        detail += "; write null in artifact.map for those it does not have"
    return None, [Fault("/features", detail)]


def _by_name(
    names: Sequence[str], space: FeatureSpace, named: Mapping[str, str | None]
) -> tuple[Int[np.ndarray, "k"] | None, list[Fault]]:
    if list(names) == list(space.columns):
        return None, []
    owners = owners_of(names, space, named)
    found = {name: own[0] for name, own in zip(names, owners, strict=True) if len(own) == 1}
    lost = [j for j in range(space.d) if j not in found.values()]
    dropped = [j for j in lost if named.get(space.columns[j], "") is None or _is_reference(j, lost, space)]
    lacks = [space.columns[j] for j in lost if j not in dropped]
    unclear = [name for name in names if name not in found]
    if lacks or unclear or len(set(found.values())) < len(names):
        taken = f"the columns {listed(unclear or names)}" if unclear else f"{len(names)} columns"
        provided = lacks or [space.columns[j] for j in dropped] or space.columns
        detail = (
            f"do not have the columns of the model: it was trained on {taken}, where the manifest has "
            f'{listed(provided)}; rename, or say in artifact.map which is which, as "{provided[0]}": '
            f'"{(unclear or list(names))[0]}"'
        )
        return None, [Fault("/features", detail)]
    indices = np.array([found[name] for name in names], dtype=np.intp)
    # Of the columns of one feature the names say enough.
    if (np.diff(space.feature_of_column[indices]) < 0).any() and not named:
        order = listed(names)
        detail = (
            f"are in another order than the columns of the model: {order}; order them so, or list all in artifact.map"
        )
        return None, [Fault("/features", detail)]
    return indices, []


def notes_on_dropped(
    indices: Int[np.ndarray, "k"] | None, space: FeatureSpace, named: Mapping[str, str | None] | None
) -> tuple[str, ...]:
    """A warning for each encoded column that is neither in `indices` nor a key of `artifact.map` (`named`).

    No warnings where `indices` is None: the model then takes all encoded columns.
    """
    if indices is None:
        return ()
    lost = [column for j, column in enumerate(space.columns) if j not in indices and column not in (named or {})]
    return tuple(
        f'The model has no column for "{name}": it sees this category as zeros in all others.' for name in lost
    )


def owners_of(names: Sequence[str], space: FeatureSpace, named: Mapping[str, str | None]) -> list[list[int]]:
    """For each column name of a model, a list with the indices of the encoded columns that the name may stand for.

    The list is empty for a name that stands for no encoded column. `named` is `artifact.map` of the manifest.
    """
    own = {plain_name(column): j for j, column in enumerate(space.columns)}
    if all(plain_name(name) in own for name in names) and (not named or len(names) == space.d):
        return [[own[plain_name(name)]] for name in names]
    exact: dict[str, list[int]] = {}
    usual: dict[str, list[int]] = {}
    for j, column in enumerate(space.columns):
        stated = named.get(column)
        if column in named:
            if stated is not None:
                exact.setdefault(plain_name(stated), []).append(j)
            continue
        for variant in dict.fromkeys(plain_name(text) for text in (column, *_usual_names(j, space))):
            usual.setdefault(variant, []).append(j)
    found = []
    for name in map(plain_name, names):
        # A ColumnTransformer writes the name of a step and "__" before each column.
        short = [name, *(name[match.end() :] for match in re.finditer("__", name))]
        found.append(exact.get(name) or next((usual[part] for part in short if part in usual), []))
    return found


def plain_name(name: str) -> str:
    """A name as LightGBM writes it: an underscore in place of each blank."""
    return re.sub(r"\s", "_", name)


def _usual_names(j: int, space: FeatureSpace) -> list[str]:
    feature = space.features[int(space.feature_of_column[j])]
    k = j - space.spans[int(space.feature_of_column[j])].start
    if feature.is_group:
        return [f"{feature.name}_{text}" for text in level_texts(feature.levels[k])]
    if k > 0:
        return [f"missingindicator_{feature.name}"] if MISSING in feature.states_raw else []
    if feature.is_number or feature.type is not FeatureType.BINARY:
        return []
    return [f"{feature.name}_{text}" for text in level_texts(feature.levels[1])]


def level_texts(level: RawValue) -> list[str]:
    """The texts by which a column name may state one level of a feature, such as `True`, `true` and `1` for true."""
    if level is None:
        return ["nan", "None", "missing"]
    return ["True", "true", "1"] if level is True else ["False", "false", "0"] if level is False else [str(level)]


def _is_reference(j: int, lost: Sequence[int], space: FeatureSpace) -> bool:
    """Whether an encoded column is the only one of its categorical feature that the model does not have."""
    at = int(space.feature_of_column[j])
    feature: Feature = space.features[at]
    span = space.spans[at]
    return feature.is_group and [k for k in lost if span.start <= k < span.stop] == [j]


def raw_names(named: Mapping[str, str | None] | None, space: FeatureSpace) -> list[str]:
    """Each feature's name in the lender's table: the name that `artifact.map` (`named`) gives it, else its own name."""
    return [(named or {}).get(name) or name for name in space.names]


# --- tables and outputs -----------------------------------------------------------------------------------------------


SINGLE_ROUNDING = 1e-6
"""Tolerance for probabilities in single precision outside [0, 1]."""


def raw_column(feature: Feature) -> Callable[[np.ndarray], np.ndarray]:
    """A function that converts the raw numbers of a feature to the values of its column in the lender's table.

    A missing number becomes NaN, and a missing level None. The column of an integer feature has the type float if its
    values may be missing, else int64.
    """
    if feature.type is FeatureType.CONTINUOUS:
        return lambda numbers: numbers
    missing = feature.missing is Missing.NAN
    if feature.type is FeatureType.INTEGER:
        return (lambda numbers: numbers) if missing else (lambda numbers: numbers.astype(np.int64))
    levels = np.array([*feature.levels, None], dtype=object)
    if feature.levels == (False, True) and not missing:
        levels = np.array(feature.levels)
    last = len(levels) - 1
    return lambda numbers: levels[np.where(np.isnan(numbers), last, numbers).astype(np.intp)]


def whole_levels(feature: Feature) -> bool:
    """Whether every level of a feature is the text of a whole number; a model may then take the levels as numbers."""
    return bool(feature.categories) and all(re.fullmatch(r"-?[0-9]{1,15}", level) for level in feature.categories)


def code_column(feature: Feature) -> Callable[[np.ndarray], np.ndarray]:
    """A function that converts the raw numbers of a feature to a table column in which a level such as "3" is a number.

    A missing level becomes NaN. For a feature with a level that is no whole number, the function is that of
    `raw_column`.
    """
    if feature.is_number or not whole_levels(feature):
        return raw_column(feature)
    codes = np.array([int(level) for level in feature.categories])
    if feature.missing is not Missing.NAN:
        return lambda numbers: codes[numbers.astype(np.intp)]
    with_missing = np.array([*codes, np.nan])
    return lambda numbers: with_missing[np.where(np.isnan(numbers), len(codes), numbers).astype(np.intp)]


def as_json(values: np.ndarray) -> list[Any]:
    """The values of a column as plain Python values; NaN becomes None."""
    found: list[Any] = values.tolist()
    return [None if value != value else value for value in found] if values.dtype.kind == "f" else found


def labels_to_output(labels: Sequence[Any], manifest: Manifest) -> Float[np.ndarray, "n"]:
    """The output of each record: 1.0 where the model's label is the favourable label of the manifest, else 0.0."""
    return np.array([label == manifest.favourable for label in labels], dtype=float)


def numbers_to_output(values: np.ndarray, manifest: Manifest, column: int | None) -> Float[np.ndarray, "n"]:
    """One output per record for the favourable class, selected from the numbers that a model returned.

    Parameters
    ----------
    values : (n,) or (n, 1), one number per record, for class 1; or (n, k), one number per record and class
    column : index of the favourable class in (n, k); None where the manifest's favourable class is 0 or 1

    Raises `ModelOutputInvalid` for another shape.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim == 2 and values.shape[1] == 1 and column is None:
        values = values[:, 0]
    if manifest.output is Output.POINTS and (values.ndim == 1 or column is None):
        found = values
    elif manifest.output is Output.LOGIT:
        found = values if manifest.favourable else -values
    elif values.ndim == 1 and column is None:
        found = values if manifest.favourable else 1.0 - values
    else:
        chosen = int(manifest.favourable) if column is None else column
        if values.ndim != 2 or chosen >= values.shape[1]:
            raise ModelOutputInvalid(f"the output has the shape {values.shape}, so it has no column {chosen}")
        found = values[:, chosen]
    if found.ndim != 1:
        raise ModelOutputInvalid(f"the output has the shape {values.shape}; it must be one number per record")
    return rounded(found) if manifest.output is Output.PROBABILITY else found


def rounded(probabilities: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The probabilities; a value below 0 or above 1 by less than `SINGLE_ROUNDING` is set to 0 or 1."""
    p = probabilities
    beyond = ((p < 0.0) & (p > -SINGLE_ROUNDING)) | ((p > 1.0) & (p < 1.0 + SINGLE_ROUNDING))
    return np.where(beyond, np.round(p), p)
