"""Which encoded column each column of a model is, by its name.

`artifact.map` names columns; without it the usual names of dummies are recognised where they are unambiguous:
``housing_owned`` (pandas, scikit-learn), ``cat__housing_owned`` (a ColumnTransformer), ``housing=owned`` (this
service). A category without a column is one for which all others are 0, as `drop_first` leaves it.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from app.errors import Fault
from app.recourse.features import MISSING, Feature, FeatureSpace, FeatureType, RawValue

LISTED = 10
"""Most names in one sentence."""


def chosen_columns(
    names: Sequence[str] | None, count: int, space: FeatureSpace, named: Mapping[str, str | None] | None
) -> tuple[Int[np.ndarray, "k"] | None, list[Fault]]:
    """The index of the encoded column for each column of a model; None where the model takes all of them in order.

    Parameters
    ----------
    names : of the columns of the model, in its order; None where its file has none
    count : of the columns of the model
    named : `artifact.map`
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
    """Warnings of categories without a column that `artifact.map` does not mention."""
    if indices is None:
        return ()
    lost = [column for j, column in enumerate(space.columns) if j not in indices and column not in (named or {})]
    return tuple(
        f'The model has no column for "{name}": it sees this category as zeros in all others.' for name in lost
    )


def owners_of(names: Sequence[str], space: FeatureSpace, named: Mapping[str, str | None]) -> list[list[int]]:
    """For each name, the indices of the encoded columns that it may mean."""
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
    """How a level is written in names of columns."""
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
    """The model's own name of each feature."""
    return [(named or {}).get(name) or name for name in space.names]


def listed(names: Sequence[str]) -> str:
    """Names in quotation marks, the first of many."""
    shown = ", ".join(f'"{name}"' for name in names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
